"""``key=value`` words as a tool's arguments, typed by its input schema.

The schema decides: ``pages=2`` is a number where a number is asked and text where text is. A repeated key is
a list. A file is named from the folder one is in, so its path is made absolute. What the words cannot mean is
said here; whether the whole fits the schema is the router's to judge.
"""

import json
import os

from reconciler.doors import usage

Json = dict[str, object]
_FILES = ("handler-file", "handler-output-file")
_DEPTH = 8  # of references to references; more is a circle
_ORDER = ("null", "boolean", "integer", "number", "array", "object", "string")  # narrowest first
_WORDS = {"integer": "a whole number", "number": "a number", "boolean": "true or false", "array": "a list"}


def typed(values: list[tuple[str, str]], schema: Json, tool: str) -> Json:
    """The arguments that the words give; raises ``usage.Usage`` for an unknown key or a wrong type."""
    properties = _object(schema.get("properties"))
    given: dict[str, list[str]] = {}
    for key, text in values:
        if key not in properties:
            near = usage.nearest(key, list(properties))
            hint = f"did you mean '{near}'?" if near else f"it takes {', '.join(properties) or 'none'}"
            raise usage.Usage(f"'{key}' is not an input of {tool}: {hint}")
        given.setdefault(key, []).append(text)
    return {key: _value(key, texts, _object(properties[key]), schema) for key, texts in given.items()}


def here() -> str:
    """The folder one is in, by the name one came by."""
    told = os.environ.get("PWD", "")
    try:
        if os.path.isabs(told) and os.path.samefile(told, "."):  # noqa: PTH117, PTH121 - pathlib costs a start
            return told
    except OSError:
        pass
    return os.getcwd()  # noqa: PTH109


def _value(key: str, texts: list[str], schema: Json, root: Json) -> object:
    schema = _resolved(schema, root)
    kinds = _kinds(schema, root)
    if "array" in kinds and not (len(texts) == 1 and texts[0].startswith("[")):
        items = _resolved(_object(schema.get("items")), root)
        return [_one(key, text, items, _kinds(items, root)) for text in texts]
    if len(texts) > 1:
        raise usage.Usage(f"'{key}' takes one value, not {len(texts)}")
    return _one(key, texts[0], schema, kinds)


def _one(key: str, text: str, schema: Json, kinds: list[str]) -> object:
    if schema.get("format") in _FILES:
        return _path(text)
    for kind in kinds:
        if kind == "string":
            return text
        try:
            value = json.loads(text)
        except ValueError:
            continue
        if _is(value, kind):
            return value
    wanted = " or ".join(_WORDS.get(kind, kind) for kind in kinds) or "another value"
    raise usage.Usage(f"'{key}' wants {wanted}, not '{text[:80]}'")


def _is(value: object, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    kinds: dict[str, type | tuple[type, ...]] = {
        "null": type(None),
        "integer": int,
        "number": (int, float),
        "array": list,
        "object": dict,
    }
    return kind in kinds and isinstance(value, kinds[kind])


def _path(text: str) -> str:
    path = os.path.expanduser(text)  # noqa: PTH111 - pathlib costs a start
    return os.path.normpath(os.path.join(here(), path))  # noqa: PTH118


def _kinds(schema: Json, root: Json, depth: int = 0) -> list[str]:
    """The types that a schema allows, narrowest first; text when it does not say."""
    found: set[str] = set()
    told = schema.get("type")
    found.update([told] if isinstance(told, str) else map(str, told) if isinstance(told, list) else [])
    for word in ("anyOf", "oneOf"):
        branches = schema.get(word)
        for branch in branches if isinstance(branches, list) and depth < _DEPTH else []:
            found.update(_kinds(_resolved(_object(branch), root), root, depth + 1))
    return [kind for kind in _ORDER if kind in found] or ["string"]


def _resolved(schema: Json, root: Json) -> Json:
    """The schema itself, or the one that its ``#/…`` reference names."""
    for _ in range(_DEPTH):
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        found: object = root
        for part in reference[2:].split("/"):
            found = _object(found).get(part.replace("~1", "/").replace("~0", "~"))
        schema = _object(found)
    return schema


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}
