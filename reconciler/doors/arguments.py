"""``key=value`` words as a tool's arguments, typed by its input schema.

The schema decides: ``pages=2`` is a number where a number is asked and text where text is. A repeated key
is a list; ``page.size=1`` and ``boxes[0].left=2`` reach into objects and lists. ``@NAME`` is what that file
holds, ``@-`` what stdin does, ``@@`` an @ of the text's own. A file that the tool takes is named from the
folder one is in, so its path is made absolute. What the words cannot mean is said here; whether the whole
fits the schema is the router's to judge.
"""

import errno
import json
import os
import sys
from collections.abc import Callable

from reconciler.doors import keypaths, usage

Json = dict[str, object]
_FILES = ("handler-file", "handler-output-file")
_DEPTH = 8  # of references to references; more is a circle
_ORDER = ("null", "boolean", "integer", "number", "array", "object", "string")  # narrowest first
_WORDS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a JSON object",
    "null": "null",
}
_FEW = 12  # names in one sentence
_MOST = 4 * 2**20  # bytes of a text: `wire.framing.MAX_LINE`, which a quick command does not import


def typed(values: list[tuple[str, str]], schema: Json, tool: str) -> Json:
    """The arguments that the words give; raises ``usage.Usage`` for an unknown key or a wrong type."""
    given = keypaths.tree(values, list(members(schema, schema)))
    return _members_of(given, schema, schema, tool)


def here() -> str:
    """The folder one is in, by the name one came by."""
    told = os.environ.get("PWD", "")
    try:
        if os.path.isabs(told) and os.path.samefile(told, "."):  # noqa: PTH117, PTH121 - pathlib costs a start
            return told
    except OSError:
        pass
    return os.getcwd()  # noqa: PTH109


def parsed(text: str) -> object:
    """JSON as every side of the router reads it: no NaN, no infinity, no key twice. Raises ValueError."""

    def refuse(word: str) -> object:
        raise ValueError(f"{word} is no number in JSON")

    def finite(digits: str) -> float:
        value = float(digits)
        return value if abs(value) < float("inf") else float(str(refuse(digits)))

    def once(pairs: list[tuple[str, object]]) -> Json:
        found: Json = {}
        for key, value in pairs:
            if key in found:
                raise ValueError(f"'{key[:80]}' stands twice in one object")
            found[key] = value
        return found

    try:
        return json.loads(text, parse_constant=refuse, parse_float=finite, object_pairs_hook=once)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def members(schema: Json, root: Json, depth: int = 0) -> dict[str, Json]:
    """The properties that a schema names, those of its alternatives included."""
    schema = resolved(schema, root)
    found = {name: _object(one) for name, one in _object(schema.get("properties")).items()}
    for branch in _branches(schema, depth):
        for name, one in members(branch, root, depth + 1).items():
            found.setdefault(name, one)
    return found


def kinds(schema: Json, root: Json, depth: int = 0) -> list[str]:
    """The types that a schema allows, narrowest first; text when it does not say."""
    schema = resolved(schema, root)
    found: set[str] = set()
    told = schema.get("type")
    if isinstance(told, str | list):
        found.update([told] if isinstance(told, str) else map(str, told))
    else:
        choices = schema.get("enum")
        fixed = [schema["const"]] if "const" in schema else choices if isinstance(choices, list) else []
        found.update(_kind(one) for one in fixed)
        for branch in _branches(schema, depth):
            found.update(kinds(branch, root, depth + 1) if _says(branch, root) else ())
    return [kind for kind in _ORDER if kind in found] or ["string"]


def is_file(schema: Json, root: Json, depth: int = 0) -> bool:
    """Whether a text given here names a file that the tool reads or writes."""
    schema = resolved(schema, root)
    return schema.get("format") in _FILES or any(
        is_file(branch, root, depth + 1) for branch in _branches(schema, depth)
    )


def items(schema: Json, root: Json, depth: int = 0) -> Json:
    """The schema of a list's elements; empty when there is none."""
    schema = resolved(schema, root)
    found = _object(schema.get("items"))
    for branch in () if found else _branches(schema, depth):
        found = found or items(branch, root, depth + 1)
    return found


def resolved(schema: Json, root: Json) -> Json:
    """The schema itself, or the one that its reference (``#`` or ``#/…``) names."""
    for _ in range(_DEPTH):
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            break
        found: object = root
        for part in reference[2:].split("/") if reference != "#" else ():
            found = _object(found).get(part.replace("~1", "/").replace("~0", "~"))
        schema = _object(found)
    return schema


def _members_of(given: keypaths.Given, schema: Json, root: Json, tool: str) -> Json:
    known = members(schema, root)
    found: Json = {}
    for name, one in given.below.items():
        below = known.get(str(name), _others(schema, root))
        if below is None or isinstance(name, int):
            near = usage.nearest(str(name), list(known))
            names = [*list(known)[:_FEW], *(["…"] if len(known) > _FEW else [])]
            hint = f"did you mean '{near}'?" if near else f"it takes {', '.join(names) or 'none'}"
            raise usage.Usage(f"'{one.shown}' is not an input of {tool}: {hint}")
        found[name] = _placed(one, below, root, tool)
    return found


def _others(schema: Json, root: Json, depth: int = 0) -> Json | None:
    """What a schema says of members that it does not name; None where there may be none."""
    schema = resolved(schema, root)
    others = schema.get("additionalProperties")
    if isinstance(others, dict) or others is True:
        return _object(others)
    if others is None and schema.get("type") == "object" and "properties" not in schema:
        return {}
    for branch in _branches(schema, depth):
        found = _others(branch, root, depth + 1)
        if found is not None:
            return found
    return None


def _placed(given: keypaths.Given, schema: Json, root: Json, tool: str) -> object:
    if given.texts:
        return _value(given.shown, given.texts, schema, root)
    allowed = kinds(schema, root)
    if any(isinstance(part, int) for part in given.below):
        if "array" not in allowed:
            raise usage.Usage(f"'{given.shown}' is no list: it wants {_wanted(allowed)}")
        element = items(schema, root)
        return [_placed(given.below[n], element, root, tool) for n in range(len(given.below))]
    if "object" not in allowed:
        raise usage.Usage(f"'{given.shown}' has no parts: it wants {_wanted(allowed)}")
    return _members_of(given, schema, root, tool)


def _value(key: str, texts: list[str], schema: Json, root: Json) -> object:
    allowed = kinds(schema, root)
    if "array" in allowed and not (len(texts) == 1 and (texts[0][:1] == "[" or texts[0] == "null")):
        element = items(schema, root)
        if len(texts) > 1 or not texts[0].startswith("@") or is_file(element, root):
            return [_one(key, text, element, root) for text in texts]
        held = _held(key, texts[0])
        return _meant(key, held, ["array"]) if held[:1] == "[" else [_one(key, texts[0], element, root)]
    if len(texts) > 1:
        raise usage.Usage(f"'{key}' takes one value, not {len(texts)}")
    return _one(key, texts[0], schema, root)


def _one(key: str, text: str, schema: Json, root: Json) -> object:
    allowed = kinds(schema, root)
    if is_file(schema, root):
        if text[:1] == "@" and "output" not in str(resolved(schema, root).get("format")):
            _need_name(key, text)
        return None if text == "null" and "null" in allowed else _path(text)
    return _meant(key, _held(key, text), allowed)


def _meant(key: str, text: str, allowed: list[str]) -> object:
    """The text as a value of the narrowest type that it can be."""
    for kind in allowed:
        if kind == "string":
            return text
        try:
            value = parsed(text)
        except ValueError:
            continue
        if _is(value, kind):
            return value
    hint = f": {_as_list(key, text)}" if "array" in allowed and text[:1] == "[" else ""
    raise usage.Usage(f"'{key}' wants {_wanted(allowed)}, not '{text[:80]}'{hint}")


def _as_list(key: str, text: str) -> str:
    """How a list in brackets that is no JSON can be written."""
    import shlex  # noqa: PLC0415 - a right line does without

    words = [one.strip(" \"'") for one in text[:80].strip("[] ").split(",")]
    return f"write {' '.join(shlex.quote(f'{key}={one}') for one in words[:_FEW])}"


def _need_name(key: str, text: str) -> None:
    """Raise ``usage.Usage`` for ``@NAME`` where a file's own name is asked for, and it has no such name."""
    if not os.path.lexists(_path(text)):
        raise usage.Usage(
            f"'{key}' takes the name of the file itself: write {key}={text[1:]} ({key}=./{text} for one "
            "whose name begins with an @)"
        )


def _wanted(allowed: list[str]) -> str:
    return " or ".join(_WORDS.get(kind, "text") for kind in allowed)


def _held(key: str, text: str) -> str:
    """A text, or what the file holds that it names with an @."""
    if not text.startswith("@") or text == "@":
        return text
    name = text[1:]
    if name.startswith("@"):
        return name
    try:
        if name == "-":
            return text_of(sys.stdin.read)
        with open(os.path.expanduser(name), encoding="utf-8") as file:  # noqa: PTH123, PTH111 - pathlib's start
            return text_of(file.read)
    except OSError as error:
        why = error.strerror or "it cannot be read"
    except ValueError:
        why = "it is no text in UTF-8"
    hint = "a text that begins with @ is written with two of them"
    raise usage.Usage(f"'{key}' wants the text of the file '{name[:80]}': {why}; {hint}")


def text_of(read: Callable[[int], str]) -> str:
    """All that a file gives, no longer than a call may be. Raises OSError; ValueError for no text."""
    text = read(_MOST + 1)
    if len(text) > _MOST:
        raise OSError(errno.EFBIG, f"it is longer than a call may be ({_MOST} bytes)")
    text.encode()  # stdin gives halves of characters for bytes that are no text
    return text


def _kind(value: object) -> str:
    return next((kind for kind in _ORDER if _is(value, kind)), "string")


def _is(value: object, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    known: dict[str, type | tuple[type, ...]] = {
        "null": type(None),
        "integer": int,
        "number": (int, float),
        "array": list,
        "object": dict,
    }
    return kind in known and isinstance(value, known[kind])


def _says(schema: Json, root: Json) -> bool:
    """Whether a branch says of which type a value is."""
    words = ("type", "enum", "const", "anyOf", "oneOf", "allOf")
    return any(word in resolved(schema, root) for word in words)


def _branches(schema: Json, depth: int) -> list[Json]:
    """What a schema is one of, or all of."""
    if depth >= _DEPTH:
        return []
    found: list[Json] = []
    for word in ("anyOf", "oneOf", "allOf"):
        told = schema.get(word)
        found += [_object(one) for one in told] if isinstance(told, list) else []
    return found


def _path(text: str) -> str:
    path = os.path.expanduser(text)  # noqa: PTH111 - pathlib costs a start
    return os.path.normpath(os.path.join(here(), path))  # noqa: PTH118


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}
