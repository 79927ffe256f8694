"""Keys of files in words: ``handler explain agent.services``, from the schemas that editors use.

A path may start with a kind of file (``agent.services``), or with the key alone, as documents write it
(``prune.maxFraction``): then every kind that has the key is told.
"""

import json
import sys
from typing import Any

from reconciler.config import schemas
from reconciler.doors import columns, keyexamples, standing, usage


def run(settings: usage.Settings, subject: str) -> int:
    """Explain a key, or a whole kind of file; ``usage.Stopped`` when no kind has it."""
    wholes = {name.removesuffix(".schema.json"): json.loads(text) for name, text in schemas.render().items()}
    path = subject.replace("/", ".").split(".")
    starts = _starts(wholes, path)
    found = [(".".join(at), _at(wholes[at[0]], at)) for at in starts]
    if settings.output == "json":
        nodes = [node for _, node in found]
        value = nodes[0] if len(nodes) == 1 else dict(found)
        sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
        return 0
    paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
    told = [
        _described(wholes[at[0]], node, name, paint) + _example(at)
        for at, (name, node) in zip(starts, found, strict=True)
    ]
    sys.stdout.write("\n".join(told))
    return 0


def _example(at: list[str]) -> str:
    lines = "".join(f"  {line}".rstrip() + "\n" for line in keyexamples.of(at).splitlines())
    command = keyexamples.written(at)
    return (f"\nFor example:\n{lines}" if lines else "") + (f"\n{command}\n" if command else "")


def _starts(wholes: dict[str, Any], path: list[str]) -> list[list[str]]:
    """The path with its kind of file before it, for each kind that has it; as it stands when it names one."""
    kind = standing.KINDS.get(path[0].lower(), standing.KINDS.get(path[0].lower().removesuffix("s"), ""))
    if kind in wholes:
        return [[kind, *path[1:]]]
    having = [[one, *path] for one in wholes if path[0] in _known(wholes[one])]
    if not having:
        if path[0] not in standing.KINDS:
            raise usage.Usage(_unknown(path[0], wholes))
        kind = standing.kind_of(path[0])
        raise usage.Stopped(f"'{kind}' has no file of its own; there are {', '.join(wholes)}")
    return [at for at in having if _has(wholes[at[0]], at)] or having[:1]


def _unknown(word: str, wholes: dict[str, Any]) -> str:
    """What is said of a word that is nothing, with the key or kind that may have been meant."""
    near = usage.nearest(
        word, [*standing.KINDS, *(key for whole in wholes.values() for key in _known(whole))]
    )
    hint = f"did you mean '{near}'?" if near else "like B101, NotBuilt, Progressing, agent.scope or egress"
    return f"'{word}' is no code, reason, state or key, and is not a kind of object: {hint}"


def _known(node: dict[str, Any]) -> set[str]:
    return {key for form in _forms(node, node) for key in form.get("properties", {})}


def _has(whole: dict[str, Any], at: list[str]) -> bool:
    try:
        _at(whole, at)
    except usage.Stopped:
        return False
    return True


def _at(whole: dict[str, Any], at: list[str]) -> dict[str, Any]:
    """The schema of a key, whose first word is the kind of file; ``usage.Stopped`` when it has no such."""
    node = whole
    for place, key in enumerate(at[1:], 1):
        node = _child(whole, node, key, ".".join(at[:place]))
    return node


def _child(whole: dict[str, Any], node: dict[str, Any], key: str, above: str) -> dict[str, Any]:
    known: list[str] = []
    for form in _forms(whole, node):
        properties = form.get("properties", {})
        known += properties
        if key in properties:
            found: dict[str, Any] = properties[key]
            return found
        for values in _values(form):
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
    rows = _rows(whole, node)
    for form in _forms(whole, node):
        for values in _values(form):
            rows += _rows(whole, values, "NAME.")
    if rows:
        text += "\n" + columns.table([["KEY", "TYPE", "MEANING"], *rows], paint)
        text += "* must be there\n" if any(row[0].endswith("*") for row in rows) else ""
    return text


def _rows(whole: dict[str, Any], node: dict[str, Any], above: str = "") -> list[list[str]]:
    """The keys of a table, one row each: name, type, meaning."""
    rows, required = [], set()
    for form in _forms(whole, node):
        required |= set(form.get("required", ()))
        for key, child in form.get("properties", {}).items():
            mark = " *" if key in required else ""
            rows.append([f"{above}{key}{mark}", _type(whole, child), _told(whole, child)])
    return rows


def _values(form: dict[str, Any]) -> list[dict[str, Any]]:
    """What the values of a table are whose keys are names."""
    found = (*form.get("patternProperties", {}).values(), form.get("additionalProperties"))
    return [values for values in found if isinstance(values, dict)]


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
