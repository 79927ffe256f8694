"""``handler explain``: what a problem's code means, a reason, a condition or a state, or a key of a file.

Codes are declared beside their rules, and nowhere else; so they are looked up there, in the source of the
rules as installed: the docstring of a rule, which is the sentence that holds when nothing is wrong, and its
words where they stand as text. No other docstring is for people. Words that only a case has are shown as an
example: ``examples.json``, which `make docs` draws from the tests of the rules. Keys have ``doors.filekeys``.
"""

import ast
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from reconciler.config.codes import CODES
from reconciler.config.text import TextFault
from reconciler.doors import columns, reasons, usage

_CODE = re.compile(r"[ICBAPHRDS][0-9]{3}")
_ROOMS = ("config", "conformance", "admission", "plan", "model", "control")
_KINDS = {
    "state": "a state of an object",
    "phase": "a phase of an instance",
    "outcome": "an outcome of a form",
}
_FIRST = {"reason": "when", "condition": "tells"}
_EXAMPLES = Path(__file__).with_name("examples.json")
_WORDS = ("what", "why", "mend")
_OF = {
    "I": "a problem of an interface",
    "C": "a problem of a connector",
    "B": "a problem of a binding",
    "P": "a problem of a project",
    "A": "a problem of an agent",
    "D": "a problem of a profile or a dialect",
    "H": "a problem of a chain",
    "S": "a problem of files and settings",
}
_INSIDE = re.compile(r" \((?:ruling [0-9]+|[SG][0-9]+)[^)]*\)|^S[0-9]+: ")  # pages that we alone have
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
    "D106": (
        "… has no canonical form",
        "a profile is known by a digest of its facts, which all programs must read alike",
        "write it as text, or as a number within 2^53",
    ),
    "D301": (
        "… is published and states other facts now",
        "what was found out about a profile is true of the facts that it had",
        "restore the file from version control, or publish it as the next revision",
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
    "S199": (
        "more than 50 problems in one file",
        "the first ones say enough",
        "mend those and look again",
    ),
    "S202": (
        "the file is UTF-16 or UTF-32",
        "a TOML file is UTF-8 text",
        "save it as UTF-8",
    ),
    "S203": (
        "the byte … is not UTF-8",
        "TOML is UTF-8",
        "save the file as UTF-8",
    ),
    "S207": (
        "brackets, dotted keys or marks beyond any real file",
        "no file needs it, and reading it would hold up every other one",
        "write it flatter",
    ),
    "S211": (
        "the text is not TOML: a key without a value, a text without its closing quote, a table twice, …",
        "the file must be TOML",
        "mend what stands at the place that is told: the message says what is wrong and how to write it",
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
    "S223": (
        "'…' holds what looks like a secret",
        "a configuration says where a secret is found: what is committed cannot be taken back",
        'name its place in [secrets] of a binding; if it is none, end the line with "# no secret"',
    ),
    "H237": (
        "'…' says nothing here",
        "it is no key of a chain; another engine of the format may read it",
        "remove it, or leave it to the other",
    ),
    "S224": (
        "this is not JSON, or a key is given twice",
        "a chain is JSON that every program reads alike: no comments, no comma before a closing bracket",
        "mend the line; a chain with comments can be written as TOML",
    ),
    "S290": (
        "'…' is not built in this release",
        "it has no effect until it is, and that is said rather than passed over",
        "delete it, or leave it for a later release",
    ),
}


@dataclass(frozen=True, slots=True)
class Meaning:
    """What is known of a code: whose problem it is, the rule that it breaks as a sentence (or nothing), and
    its words where they are fixed.
    """

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
    from reconciler.doors import filekeys  # noqa: PLC0415 - the models cost half a second

    return filekeys.run(settings, subject)


def _explain_reason(settings: usage.Settings, subject: str) -> int:
    found = reasons.of(subject)
    if not found:
        known = list(dict.fromkeys(one.word for one in reasons.meanings()))
        folded = {word.casefold(): word for word in known}
        near = folded.get(usage.nearest(subject, list(folded)))
        hint = f"did you mean '{near}'?" if near else f"there are {', '.join(known)}"
        raise usage.Stopped(f"'{subject}' is no reason, no condition and no state: {hint}")
    if settings.output == "json":
        told = [{name: value for name, value in asdict(one).items() if value} for one in found]
        sys.stdout.write(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
        return 0
    paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
    for one in found:
        sys.stdout.write(f"{paint(one.word, 'bold')}  {_KINDS.get(one.kind, 'a ' + one.kind)}\n")
        facts = (
            (_FIRST.get(one.kind, "means"), one.text),
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
        if told in found:
            found[told] = replace(found[told], text="", words=tuple(zip(_WORDS, words, strict=True)))
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
                found[code] = Meaning(code, f"{_OF[code[0]]}: the shape of its file", "", words)
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
        sys.stdout.write(f"\nThe rule: {meaning.text.replace('``', '`')}\n")
    if meaning.words:
        sys.stdout.write("\nFor example:\n" if example else "\n")
        sys.stdout.write(columns.table([["", name, text] for name, text in meaning.words], paint))
    return 0


def _declared(module: ast.Module) -> Iterator[Meaning]:
    """The codes of one module, each with the rule and the words that it stands in."""
    parameters = {"TextFault": [field.name for field in fields(TextFault)]} | {
        node.name: [argument.arg for argument in node.args.args if argument.arg != "self"]
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef)
    }
    named = {name: value for part in module.body for name, value in _constants(part)}
    rules = set(_rules(module))
    for part, inner in _parts(module):
        for node in inner:
            code = _code(node, named)
            if code is not None:
                holding = next((one for one in inner if node in _arguments(one)), None)
                words = _said(holding, parameters, named) if isinstance(holding, ast.Call) else ()
                text = _rule_text(part, rules)
                yield Meaning(code, _OF.get(code[0], "a problem"), text, words)


def _rules(module: ast.Module) -> Iterator[str]:
    """The names of the functions that a module lists as its rules."""
    for part in module.body:
        match part:
            case ast.Assign(targets=[ast.Name(id=name)]) if name.endswith("RULES"):
                yield from (node.id for node in ast.walk(part) if isinstance(node, ast.Name))


def _rule_text(part: ast.stmt, rules: set[str]) -> str:
    """The sentence that holds when a rule is kept, without what it cites of pages that no user has."""
    if not isinstance(part, ast.FunctionDef) or part.name not in rules:
        return ""
    return _INSIDE.sub("", ast.get_docstring(part) or "").split("\n\n")[0]


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


def _said(
    call: ast.Call, parameters: dict[str, list[str]], named: dict[str, str]
) -> tuple[tuple[str, str], ...]:
    """What, why and mend of a problem as its call has them, with … for what only the case knows."""
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    given = dict(zip(parameters.get(name, []), _spread(call), strict=False))
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    texts = ((word, _literal(given[word], named)) for word in _WORDS if word in given)
    return tuple((word, text) for word, text in texts if text.strip("… "))


def _spread(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call one by one; what is unpacked there is a place: a line and a column."""
    return [one for given in call.args for one in ([given] * (1 + isinstance(given, ast.Starred)))]


def _literal(node: ast.expr, named: dict[str, str]) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return named.get(name, "…")
        case ast.JoinedStr(values=values):
            return "".join(_literal(value, named) for value in values)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _literal(left, named) + _literal(right, named)
        case ast.IfExp(body=body):
            return _literal(body, named)
        case _:
            return "…"
