"""``handler explain``: what a problem's code means, a reason or a condition of a status, or a key of a file.

Codes are declared beside their rules, and nowhere else; so they are looked up there, in the source of the
rules as installed: the rule's name and docstring, and its words where they stand as text. Words that only a
case has are shown as an example: ``examples.json``, which `make docs` draws from the tests of the rules. Keys
are explained from the schemas that editors use.
"""

import ast
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from reconciler.config import schemas
from reconciler.config.codes import CODES
from reconciler.config.text import TextFault
from reconciler.doors import columns, reasons, standing, usage

_CODE = re.compile(r"[ICBAPHRDS][0-9]{3}")
_ROOMS = ("config", "conformance", "admission", "plan", "model", "control")
_EXAMPLES = Path(__file__).with_name("examples.json")
_WORDS = ("what", "why", "mend")
_FACTS = ("default", "enum", "examples", "pattern", "minimum", "maximum", "maxLength")
_SHAPE = {
    "unknown_key": (
        "a key that this kind of file does not have",
        "keys are closed, so a misspelt one is told",
    ),
    "missing_key": ("a key that this kind of file must have is missing", "it has no default"),
    "wrong_value": ("a value of another type, or outside its bounds", "values are read strictly"),
    "wrong_name": ("a name that is not legal, or not the one that the path gives", "one object, one name"),
    "duplicate": ("two files claim the same name", "a name means one object"),
}
# Codes whose words are put together where they are yielded, so that the source does not show them as text.
_TOLD = {
    "A221": (
        "waits for …",
        "what rests on a refused object is not admitted before it",
        "mend … first",
    ),
    "A224": (
        "waits for handler.lock",
        "whether a version is frozen cannot be told while the lock cannot be read",
        "mend handler.lock first",
    ),
    "A290": (
        "'…' is not built in this release",
        "it has no effect until it is, and that is said rather than passed over",
        "delete it, or leave it for a later release",
    ),
    "B106": (
        "a binding names neither a connector nor an addon, or both",
        "a binding configures exactly one thing",
        "name one of them",
    ),
    "B107": (
        "a secret's reference has no form, or more than one",
        "a secret is found in exactly one place",
        "write one of command, file, env, keyring, systemd, age or sops",
    ),
    "B290": (
        "'…' is not built in this release",
        "it has no effect until it is, and that is said rather than passed over",
        "delete it, or leave it for a later release",
    ),
    "C290": (
        "'…' is not built in this release",
        "it has no effect until it is, and that is said rather than passed over",
        "delete it, or leave it for a later release",
    ),
    "I242": (
        "cases.toml cannot be read",
        "a version is what its cases show",
        "mend the text at the place that is told",
    ),
    "I290": (
        "'…' is not built in this release",
        "it has no effect until it is, and that is said rather than passed over",
        "delete it, or leave it for a later release",
    ),
    "I401": (
        "a key that a case does not have",
        "keys are closed, so a misspelt one is told",
        "write the known key",
    ),
    "I402": ("a key that a case must have is missing", "a case without it shows nothing", "add it"),
    "I403": (
        "a value that a case cannot have",
        "an assertion that cannot be read shows nothing",
        "write one it can",
    ),
    "I404": ("two cases have one name", "a case is told by its name", "give each case a name of its own"),
    "P202": (
        "waits for …",
        "what rests on a refused object is not admitted before it",
        "mend … first",
    ),
    "P290": (
        "'…' is not built in this release",
        "it has no effect until it is, and that is said rather than passed over",
        "delete it, or leave it for a later release",
    ),
    "S199": (
        "more than 50 problems in one file",
        "the first ones say enough",
        "mend those and look again",
    ),
    "S203": (
        "the byte … is not UTF-8",
        "TOML is UTF-8",
        "save the file as UTF-8",
    ),
    "S213": (
        "it is a symbolic link",
        "a link can lead out of the configuration, and change without a sign",
        "put the file itself there",
    ),
    "S214": (
        "it is no regular file",
        "only regular files can be read safely",
        "remove it",
    ),
    "S215": (
        "cannot read it",
        "what cannot be read is not taken for removed",
        "make it readable for whoever runs the controller",
    ),
    "S216": (
        "the file belongs to no object",
        "a misspelt folder cannot pass unseen",
        "move it where the message says, or remove it",
    ),
    "S217": (
        "a folder whose capability is not built in this release",
        "it has no effect, and that is said rather than passed over",
        "leave it for a later release, or remove it",
    ),
    "S218": (
        "a folder without the file that defines its object",
        "what is left over is told, and removes nothing",
        "add the file, or remove the folder",
    ),
    "S221": (
        "it is a pointer of Git LFS, not the file itself",
        "the content lies outside of what git stores, and nothing is fetched",
        "run `git lfs pull`, or keep the file itself in git: a commit holds only pointers",
    ),
    "S222": (
        "it is a submodule whose files are not here",
        "nothing is fetched while a configuration is read",
        "run `git submodule update --init`",
    ),
    "S219": (
        "the name of a file is not UTF-8",
        "a digest covers the names of files",
        "rename it",
    ),
    "S220": (
        "handler.lock cannot be read",
        "published versions are compared with it",
        "restore it from git; it is written by 'handler lock add'",
    ),
    "S290": (
        "'…' is not built in this release",
        "it has no effect until it is, and that is said rather than passed over",
        "delete it, or leave it for a later release",
    ),
}


@dataclass(frozen=True, slots=True)
class Meaning:
    """What is known of a code: the rule as a sentence, its docstring, and its words where they are fixed."""

    code: str
    rule: str
    text: str
    words: tuple[tuple[str, str], ...]


def run(settings: usage.Settings, subject: str) -> int:
    """Explain a code, a reason, a condition or a key; 0 explained, 1 there is no such thing."""
    if _CODE.fullmatch(subject.upper()):
        return _explain_code(settings, subject.upper())
    if subject.isalpha() and (subject[:1].isupper() or reasons.of(subject)):
        return _explain_reason(settings, subject)
    return _explain_key(settings, subject)


def _explain_reason(settings: usage.Settings, subject: str) -> int:
    found = reasons.of(subject)
    if not found:
        known = list(dict.fromkeys(one.word for one in reasons.meanings()))
        folded = {word.casefold(): word for word in known}
        near = folded.get(usage.nearest(subject, list(folded)))
        hint = f"did you mean '{near}'?" if near else f"there are {', '.join(known)}"
        raise usage.Stopped(f"'{subject}' is no reason and no condition: {hint}")
    if settings.output == "json":
        told = [{name: value for name, value in asdict(one).items() if value} for one in found]
        sys.stdout.write(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
        return 0
    paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
    for one in found:
        sys.stdout.write(f"{paint(one.word, 'bold')}  a {one.kind}\n")
        facts = (
            ("when" if one.kind == "reason" else "tells", one.text),
            ("means", one.means),
            ("serves", one.serves),
            ("mend", one.mend),
            ("by", one.author),
        )
        sys.stdout.write(columns.table([["", name, text] for name, text in facts if text], paint))
        if one.example:
            lines = "".join(f"  {line}".rstrip() + "\n" for line in one.example.splitlines())
            sys.stdout.write(f"\nFor example:\n{lines}")
    return 0


def meanings(code: str = "") -> dict[str, Meaning]:
    """Every code that the rules can yield; with ``code``, only what its modules declare."""
    package = Path(__file__).resolve().parents[1]
    found: dict[str, Meaning] = {}
    for room in _ROOMS:
        for path in sorted((package / room).glob("*.py")):
            text = path.read_text(encoding="utf-8")
            for meaning in _declared(ast.parse(text)) if code in text else ():
                known = found.get(meaning.code)
                if known is None or len(meaning.words) > len(known.words):
                    found[meaning.code] = meaning
    for told, words in _TOLD.items():
        if (short := found.get(told)) and len(short.words) < len(_WORDS):
            found[told] = replace(short, text="", words=tuple(zip(_WORDS, words, strict=True)))
    return found | _shapes()


def examples() -> dict[str, dict[str, str]]:
    """What, why and mend of one problem of each code whose words name what a file has."""
    found: dict[str, dict[str, str]] = json.loads(_EXAMPLES.read_text(encoding="utf-8"))
    return found


def _shapes() -> dict[str, Meaning]:
    found = {}
    for kind, codes in CODES.items():
        for field, code in zip(codes._fields, codes, strict=True):
            if code:
                what, why = _SHAPE[field]
                words = (("what", what), ("why", why), ("mend", f"see 'handler explain {kind.value}'"))
                found[code] = Meaning(code, f"the shape of a file of kind {kind.value}", "", words)
    return found


def _explain_code(settings: usage.Settings, code: str) -> int:
    known = meanings(code)
    if code not in known:
        near = ", ".join(one for one in sorted(meanings()) if one[0] == code[0])
        raise usage.Stopped(f"no rule yields {code}; with {code[0]} there are: {near or 'none'}")
    meaning = known[code]
    if example := examples().get(code):
        meaning = replace(meaning, words=tuple(example.items()))
    if settings.output == "json":
        value = {"code": code, "rule": meaning.rule, "text": meaning.text, **dict(meaning.words)}
        sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
        return 0
    paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
    sys.stdout.write(f"{paint(code, 'bold')}  {meaning.rule}\n")
    if meaning.text:
        sys.stdout.write(f"\n{meaning.text.replace('``', '`')}\n")
    if meaning.words:
        sys.stdout.write("\nFor example:\n" if example else "\n")
        sys.stdout.write(columns.table([["", name, text] for name, text in meaning.words], paint))
    return 0


def _declared(module: ast.Module) -> Iterator[Meaning]:
    """The codes of one module, each with the function, the table or the class that it stands in."""
    parameters = {"TextFault": [field.name for field in fields(TextFault)]} | {
        node.name: [argument.arg for argument in node.args.args if argument.arg != "self"]
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef)
    }
    named = {name: value for part in module.body for name, value in _constants(part)}
    for part, inner in _parts(module):
        for node in inner:
            code = _code(node, named)
            if code is not None:
                holding = next((one for one in inner if node in _arguments(one)), None)
                words = _said(holding, parameters) if isinstance(holding, ast.Call) else ()
                table = next((one for one in inner if isinstance(one, ast.Dict) and node in one.values), None)
                text = _text(part) or ("" if words else _text(module).split("\n\n")[0])
                yield Meaning(code, _sentence(part, node, table), text, words)


def _parts(module: ast.Module) -> Iterator[tuple[ast.stmt, list[ast.AST]]]:
    """Each function, method and other statement of a module, with the nodes inside it."""
    for part in module.body:
        inside = part.body if isinstance(part, ast.ClassDef) else [part]
        for one in inside:
            yield one, list(ast.walk(one))


def _constants(part: ast.stmt) -> Iterator[tuple[str, str]]:
    match part:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
            yield name, text
        case _:
            return


def _code(node: ast.AST, named: dict[str, str]) -> str | None:
    """The code that a node is, by itself or by the name of a constant."""
    match node:
        case ast.Constant(value=str(text)):
            pass
        case ast.Name(id=name, ctx=ast.Load()):
            text = named.get(name, "")
        case _:
            return None
    return text if _CODE.fullmatch(text) else None


def _arguments(call: ast.AST) -> list[ast.expr]:
    if not isinstance(call, ast.Call):
        return []
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _said(call: ast.Call, parameters: dict[str, list[str]]) -> tuple[tuple[str, str], ...]:
    """What, why and mend of a problem as its call has them, with … for what only the case knows."""
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    given = dict(zip(parameters.get(name, []), _spread(call), strict=False))
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    texts = ((word, _literal(given[word])) for word in _WORDS if word in given)
    return tuple((word, text) for word, text in texts if text.strip("… "))


def _spread(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call one by one; what is unpacked there is a place: a line and a column."""
    return [one for given in call.args for one in ([given] * (1 + isinstance(given, ast.Starred)))]


def _literal(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_literal(value) if isinstance(value, ast.Constant) else "…" for value in values)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _literal(left) + _literal(right)
        case ast.IfExp(body=body):
            return _literal(body)
        case _:
            return "…"


def _sentence(part: ast.stmt, node: ast.AST, table: ast.Dict | None) -> str:
    """The name that a code goes by: its key in a table of codes, else the rule or constant it stands in."""
    if table is not None:
        key = table.keys[[id(value) for value in table.values].index(id(node))]
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            return key.value.replace("_", " ")
    match part:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return name.strip("_").replace("_", " ")
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name.strip("_").replace("_", " ").lower()
        case _:
            return "a rule"


def _text(part: ast.AST) -> str:
    if isinstance(part, ast.FunctionDef | ast.ClassDef | ast.Module):
        return ast.get_docstring(part) or ""
    return ""


def _explain_key(settings: usage.Settings, subject: str) -> int:
    word, *path = subject.replace("/", ".").split(".")
    kind = standing.kind_of(word)
    texts = {name.removesuffix(".schema.json"): text for name, text in schemas.render().items()}
    if kind not in texts:
        raise usage.Stopped(f"'{kind}' has no file of its own; there are {', '.join(texts)}")
    whole = json.loads(texts[kind])
    node = whole
    for at, key in enumerate(path):
        node = _child(whole, node, key, ".".join([kind, *path[:at]]))
    if settings.output == "json":
        sys.stdout.write(json.dumps(node, indent=2, ensure_ascii=False) + "\n")
        return 0
    sys.stdout.write(_described(whole, node, subject, columns.Paint(settings.color, tty=sys.stdout.isatty())))
    return 0


def _child(whole: dict[str, Any], node: dict[str, Any], key: str, above: str) -> dict[str, Any]:
    known: list[str] = []
    for form in _forms(whole, node):
        properties = form.get("properties", {})
        known += properties
        if key in properties:
            found: dict[str, Any] = properties[key]
            return found
        for values in (*form.get("patternProperties", {}).values(), form.get("additionalProperties")):
            if isinstance(values, dict):
                return values
    near = usage.nearest(key, known)
    hint = f"did you mean '{near}'?" if near else f"it has {', '.join(known) or 'no keys'}"
    raise usage.Stopped(f"'{key}' is not a key of {above}: {hint}")


def _forms(whole: dict[str, Any], node: dict[str, Any]) -> list[dict[str, Any]]:
    """The schema itself, what it refers to, and the forms it is a choice of."""
    if "$ref" in node:
        return _forms(whole, whole["$defs"][node["$ref"].rpartition("/")[2]])
    found = [node]
    for branch in (*node.get("anyOf", ()), *node.get("oneOf", ())):
        found += _forms(whole, branch)
    if isinstance(node.get("items"), dict):
        found += _forms(whole, node["items"])
    return found


def _described(whole: dict[str, Any], node: dict[str, Any], subject: str, paint: columns.Paint) -> str:
    text = f"{paint(subject, 'bold')}  {_type(whole, node)}\n"
    told = node.get("description") or next(
        (f["description"] for f in _forms(whole, node) if f.get("description")), ""
    )
    text += f"\n{told}\n" if told else ""
    facts = [
        [key, json.dumps(node[key])] for key in ("default", "enum", "examples", "pattern") if key in node
    ]
    facts += [[key, str(node[key])] for key in ("minimum", "maximum", "maxLength") if key in node]
    text += f"\n{columns.table(facts, paint)}" if facts else ""
    rows, required = [], set()
    for form in _forms(whole, node):
        required |= set(form.get("required", ()))
        for key, child in form.get("properties", {}).items():
            rows.append([key + (" *" if key in required else ""), _type(whole, child), _told(whole, child)])
    if rows:
        text += "\n" + columns.table([["KEY", "TYPE", "MEANING"], *rows], paint)
        text += "* must be there\n" if required else ""
    return text


def _told(whole: dict[str, Any], node: dict[str, Any]) -> str:
    """What a schema says of its value: its own words, else those of the first form that has any."""
    return next(
        (str(one["description"]) for one in (node, *_forms(whole, node)) if one.get("description")), ""
    )


def _type(whole: dict[str, Any], node: dict[str, Any]) -> str:
    """The type of a value in words."""
    words = {"string": "text", "integer": "whole number", "boolean": "true or false", "object": "table"}
    found = []
    for form in _forms(whole, node) if "items" not in node else [node]:
        kind = form.get("type")
        if kind == "array":
            found.append(f"list of {_type(whole, form.get('items', {}))}")
        elif kind:
            found.append(words.get(kind, kind))
    return " or ".join(dict.fromkeys(found)) or "any value"
