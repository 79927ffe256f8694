"""The words of a fault in a file's keys and values: what it is, which rule it breaks, what to type instead.

A mend shows exact TOML wherever there is one: it is valid where it is put. Nothing under ``secrets`` or
``settings`` is ever repeated: a secret may stand where it does not belong.
"""

import difflib
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from reconciler.config import schemas
from reconciler.config.codes import CODES, Codes
from reconciler.model.names import NAME_PATTERN, Kind, ObjectRef, name_fault
from reconciler.model.problems import Path, Problem, Span, key_path, listed, quoted
from reconciler.model.resources import KindRow

# What pydantic calls a value of the wrong type, and what the type is called here.
MISMATCH = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
}
_PRIVATE = ("secrets", "settings")
_COMPARED = 200  # characters of a value that an example may be like
_MAX_LISTED = 12  # keys that a mend lists; more are no help

# Letters of other scripts that cannot be told from Latin ones, for the name that was meant.
_LOOK_ALIKES = str.maketrans("аеорсухіјѕԁοαν", "aeopcyxijsdoav")  # noqa: RUF001 - that is their point

_Words = tuple[str, str, str]  # what, why, mend


@dataclass(frozen=True, slots=True)
class Fault:
    """One error of a model, with the path in the file that it is about."""

    path: Path
    word: str  # pydantic's type of error
    bounds: Mapping[str, Any]
    on_key: bool  # the key is wrong, not its value
    choices: frozenset[Path]  # the values on the way that may have several forms
    expected: tuple[str, ...] = ()  # of a value of the wrong type: the types it may have

    def expecting(self, expected: tuple[str, ...]) -> "Fault":
        return replace(self, expected=expected)


@dataclass(frozen=True, slots=True)
class Subject:
    """The file that is judged: its kind, the object it would be, and its values as read."""

    row: KindRow
    file: str
    about: ObjectRef | None
    values: Mapping[str, Any]
    given: Mapping[Path, object]  # keys whose value the path gives

    @property
    def codes(self) -> Codes:
        return CODES[self.row.kind]

    @property
    def noun(self) -> str:
        """What the file is, as a sentence names it: ``a binding``."""
        if self.row.kind is Kind.CONFIG:
            return "handler.toml"
        word = self.row.kind.value
        return f"an {word}" if word[0] in "aeiou" else f"a {word}"

    def table(self, path: Path) -> str:
        """The table at a path as a sentence names it; the file itself at the top."""
        return key_path(path) or self.noun

    def value(self, path: Path) -> Any:
        here: Any = self.values
        for part in path:
            here = here[part]
        return here

    def problem(self, code: str, words: _Words, path: Path, **more: Any) -> Problem:
        """A problem of this file: what, why and mend, at the value (``on_key``: the key) of a path."""
        return Problem(code, *words, Span(self.file), path, about=self.about, **more)


def told(fault: Fault, subject: Subject, nearest: str | None) -> Problem:
    """The problem that a fault is; ``nearest`` is the key that an unknown one may stand for."""
    codes = subject.codes
    if fault.word == "extra_forbidden":
        words = _unknown(fault.path, subject, nearest)
        candidates = (nearest,) if nearest else ()
        return subject.problem(
            codes.unknown_key, words, fault.path, on_key=True, reason="UnknownField", candidates=candidates
        )
    if fault.word == "missing":
        return subject.problem(codes.missing_key, missing(fault.path, subject), fault.path)
    return subject.problem(codes.wrong_value, _wrong(fault, subject), fault.path, on_key=fault.on_key)


def found(values: Mapping[str, Any], path: Path, usual: object) -> object:
    """What stands at a path; the usual value where nothing does."""
    here: Any = values
    for part in path:
        if not isinstance(here, Mapping) or part not in here:
            return usual
        here = here[part]
    return here


def literal(value: object) -> str:
    """A value as TOML writes it on one line."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {literal(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(literal, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


# keys


def nearest_key(subject: Subject, path: Path) -> str | None:
    """The known key that an unknown one is most likely a misspelling of."""
    folded = {known.casefold(): known for known in keys(subject, path[:-1])}
    key = str(path[-1])
    near = difflib.get_close_matches(_plain(key), list(folded), n=1, cutoff=0.7)
    return folded[near[0]] if near else None


def missing(path: Path, subject: Subject) -> _Words:
    """The words for a key that must be there."""
    key, above = str(path[-1]), path[:-1]
    where = f" in {key_path(above)}" if above else ""
    example = _example(subject, path)
    return (
        f"'{key}' is missing{where}",
        f"{subject.table(above)} needs it",
        f"add {key} = {literal(example)}" + (f" to {key_path(above)}" if above else ""),
    )


def _unknown(path: Path, subject: Subject, nearest: str | None) -> _Words:
    key, above = str(path[-1]), path[:-1]
    table = subject.table(above)
    what = f"{quoted(key)} is not a key of {table}" + _odd(key)
    why = f"the keys of {table} are closed, so that a misspelt one cannot pass unseen"
    if nearest:
        return what, why, f"write '{nearest}'"
    if home := _other_table(subject, key):
        return what, why, home
    known = sorted(keys(subject, above))
    which = f"; its keys are {listed(known)}" if 0 < len(known) <= _MAX_LISTED else ""
    return what, why, f"remove it{which}"


def _other_table(subject: Subject, key: str) -> str | None:
    """Where a key would be right, when another table of the same file has it."""
    if key in keys(subject, ()):
        return "move it above the first table: a key belongs to the header before it"
    for table in sorted(keys(subject, ())):
        if key in keys(subject, (table,)):
            return f"move it to [{table}]"
    return None


def keys(subject: Subject, path: Path) -> set[str]:
    """The known keys of the table at a path."""
    return {key for node in schemas.nodes(subject.row.model, path) for key in node.get("properties", {})}


def _plain(key: str) -> str:
    return key.replace("_", "").replace("-", "").casefold()


# values


def _wrong(fault: Fault, subject: Subject) -> _Words:
    if fault.on_key:
        return _wrong_key(fault, subject)
    if fault.expected:
        if fault.path[:1] == ("secrets",) and len(fault.path) == 2 and subject.row.kind is Kind.BINDING:
            return _secret(str(fault.path[-1]))
        return _mismatch(fault, subject)
    words = _BY_WORD.get(fault.word)
    return words(fault, subject) if words else _unlike(fault, subject)


def _secret(slot: str) -> _Words:
    variable = re.sub("[^A-Z0-9]+", "_", slot.upper()).strip("_") or "SECRET"
    example = {"env": variable if variable[0].isalpha() else f"KEY_{variable}"}
    return (
        f"secrets.{slot} holds a value where a reference belongs",
        "a configuration is kept and shared, so no secret may stand in it",
        f"write {slot} = {literal(example)}, and give the secret another value if it was real",
    )


def _mismatch(fault: Fault, subject: Subject) -> _Words:
    value = subject.value(fault.path)
    field = key_path(fault.path)
    expected = listed(fault.expected)
    better = None if _private(fault.path) else _converted(value, fault.expected)
    if better is None or not any(_allows(node, better) for node in _nodes(subject, fault.path)):
        better = _example(subject, fault.path)
    return (
        f"{field} is {_type(value)}, not {expected}",
        f"{field} is {expected}; nothing is converted",
        _write(fault.path, better) if better is not None else f"write {expected}",
    )


def _choice(fault: Fault, subject: Subject) -> _Words:
    value = subject.value(fault.path)
    options = [option for node in _nodes(subject, fault.path) for option in _fixed(node)]
    shown = listed(map(quoted, options))
    near = difflib.get_close_matches(value, options, n=1) if isinstance(value, str) else []
    return (
        f"{key_path(fault.path)} is {_shown(value, fault.path)}, not {shown}",
        f"its values are {shown}" if len(options) > 1 else f"its only value is {shown}",
        _write(fault.path, (near or options)[0]) if near or len(options) == 1 else f"write {shown}",
    )


def _range(fault: Fault, subject: Subject) -> _Words:
    field = key_path(fault.path)
    sentences = [words for node in _nodes(subject, fault.path) if (words := _bounds(node))]
    bounds = sentences[0] if sentences else "within its bounds"
    return (
        f"{field} is {_shown(subject.value(fault.path), fault.path)}, not a number {bounds}",
        f"{field} is a number {bounds}",
        f"write a number {bounds}",
    )


def _length(fault: Fault, subject: Subject) -> _Words:
    field = key_path(fault.path)
    size = len(subject.value(fault.path))
    things = "characters" if isinstance(subject.value(fault.path), str) else "items"
    if "min_length" in fault.bounds:
        example = _example(subject, fault.path)
        mend = _write(fault.path, example) if example else f"write at least one {things[:-1]}"
        return f"{field} is empty", f"{field} has at least one {things[:-1]}", mend
    limit = fault.bounds.get("max_length", 0)
    return (
        f"{field} has {size:,} {things}, more than {limit:,}",
        f"{field} has at most {limit:,} {things}",
        f"write at most {limit:,} {things}",
    )


def _pattern(fault: Fault, subject: Subject) -> _Words:
    value, field = subject.value(fault.path), key_path(fault.path)
    pattern = fault.bounds.get("pattern", "")
    shown = "" if _private(fault.path) or _may_name_a_password(value) else f" {quoted(value)}"
    if pattern == NAME_PATTERN:
        better = suggested(value, pattern) or _example(subject, fault.path)
        what = f"{field}{shown} does not fit as a name: {name_fault(value)}"
        return what, "names become file, socket and tool names", _write(fault.path, better)
    form = _form(_nodes(subject, fault.path)) or f"text that matches {pattern}"
    example = _alike(subject, fault.path) or _example(subject, fault.path)
    mend = f"write it like {literal(example)}" if example else f"write {form}"
    return f"{field}{shown} is not written as it has to be", f"{field} is {form}", mend


def _finite(fault: Fault, subject: Subject) -> _Words:
    field = key_path(fault.path)
    return f"{field} is no finite number", "numbers here are finite", "write a finite number"


def _unlike(fault: Fault, subject: Subject) -> _Words:
    field = key_path(fault.path)
    return (
        f"{field} does not fit",
        f"{subject.noun} cannot have this value here",
        f"see the schema of {field}",
    )


_BY_WORD: Mapping[str, Callable[[Fault, Subject], _Words]] = {
    "literal_error": _choice,
    "greater_than": _range,
    "greater_than_equal": _range,
    "less_than": _range,
    "less_than_equal": _range,
    "string_too_long": _length,
    "string_too_short": _length,
    "too_long": _length,
    "too_short": _length,
    "string_pattern_mismatch": _pattern,
    "finite_number": _finite,
}


def _wrong_key(fault: Fault, subject: Subject) -> _Words:
    """A name of a person's own (a slot, a setting, an interface) that does not fit as a key."""
    key, above = str(fault.path[-1]), fault.path[:-1]
    table = subject.table(above)
    names = [node["propertyNames"] for node in _nodes(subject, above) if "propertyNames" in node]
    why = f"a key of {table} is {_form(names) or 'a name'}"
    if "max_length" in fault.bounds:
        why = f"a key of {table} has at most {fault.bounds['max_length']} characters"
    what = f"{quoted(key)} does not fit as a key of {table}" + _odd(key)
    better = suggested(key, fault.bounds.get("pattern") or NAME_PATTERN)
    return what, why, f"write '{better}'" if better and better != key else "write a name that fits"


# pieces


def _nodes(subject: Subject, path: Path) -> tuple[schemas.Schema, ...]:
    return schemas.nodes(subject.row.model, path)


def _odd(text: str) -> str:
    """A clause that names the first character that is not ASCII: it may look like one that is."""
    odd = next((character for character in text if not character.isascii()), None)
    return "" if odd is None else f": it has {quoted(odd)} (U+{ord(odd):04X})"


def _form(nodes: Iterable[schemas.Schema]) -> str | None:
    """What the text at a place is, in words."""
    return next(
        (node["description"] for node in nodes if node.get("type") != "object" and "description" in node),
        None,
    )


def _fixed(node: schemas.Schema) -> list[str]:
    return [node["const"]] if "const" in node else list(node.get("enum", ()))


def _bounds(node: schemas.Schema) -> str:
    low, high = node.get("minimum"), node.get("maximum")
    if low is not None:
        return f"from {low:,}" + (f" to {high:,}" if high is not None else "")
    above = node.get("exclusiveMinimum")
    found = [f"greater than {above:,}"] if above is not None else []
    return " and ".join([*found, f"at most {high:,}"] if high is not None else found)


def _example(subject: Subject, path: Path) -> Any:
    """A value that would be right at a path: what the path of the file gives, or the schema shows."""
    if path in subject.given:
        return subject.given[path]
    for node in _nodes(subject, path):
        for candidate in (*_fixed(node), *node.get("examples", ()), node.get("default")):
            if candidate is not None and candidate != "" and candidate != []:
                return candidate
    return None


def _alike(subject: Subject, path: Path) -> str | None:
    """Of the texts that a schema shows for a place, the one that is most like what is there."""
    value = subject.value(path)
    shown = [
        one for node in _nodes(subject, path) for one in node.get("examples", ()) if isinstance(one, str)
    ]
    if _private(path) or not isinstance(value, str) or path in subject.given:
        return None
    return max(
        shown, key=lambda one: difflib.SequenceMatcher(None, one, value[:_COMPARED]).ratio(), default=None
    )


_TYPES: Mapping[type, tuple[str, ...]] = {
    str: ("string",),
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    list: ("array",),
}


def _allows(node: schemas.Schema, value: Any) -> bool:
    """Whether a schema lets a value pass, as far as a mend needs it."""
    if node.get("type") not in _TYPES.get(type(value), ()):
        return False
    if isinstance(value, list):
        return all(_allows(node.get("items", {}), item) for item in value)
    if isinstance(value, str):
        return re.search(node.get("pattern", ""), value) is not None and value in (_fixed(node) or [value])
    lowest, highest = node.get("minimum", value), node.get("maximum", value)
    return bool(lowest <= value <= highest) and value > node.get("exclusiveMinimum", value - 1)


def _converted(value: object, expected: tuple[str, ...]) -> object:
    """The same value in a type that is expected, or None."""
    if isinstance(value, str):
        for kind, convert in (("a whole number", int), ("a number", float)):
            if kind in expected and re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,9})?", value):
                number = convert(float(value))
                return int(number) if number == int(number) else number
        if "true or false" in expected and value.lower() in ("true", "yes", "on", "false", "no", "off"):
            return value.lower() in ("true", "yes", "on")
        return [value] if "a list" in expected else None
    if isinstance(value, bool | int | float) and "text" in expected:
        return literal(value)
    return None


def _type(value: object) -> str:
    if isinstance(value, bool):
        return literal(value)
    for kind, word in ((str, "text"), (int | float, "a number"), (list, "a list"), (dict, "a table")):
        if isinstance(value, kind):
            return word
    return "a date or time"


def _shown(value: object, path: Path) -> str:
    if _private(path) or isinstance(value, dict | list):
        return _type(value)
    return quoted(value) if isinstance(value, str) else quoted(value).strip("'")


def _may_name_a_password(value: object) -> bool:
    """True for an address with somebody's name in it, like ``https://me:secret@host``."""
    return isinstance(value, str) and "://" in value and "@" in value


def _private(path: Path) -> bool:
    return path[0] in _PRIVATE if path else False


def _write(path: Path, value: object) -> str:
    last = path[-1]
    return f"write {literal(value)}" if isinstance(last, int) else f"write {last} = {literal(value)}"


def suggested(text: str, pattern: str) -> str | None:
    """A name near ``text`` that matches the pattern, or None."""
    plain = unicodedata.normalize("NFKC", text).lower().translate(_LOOK_ALIKES)
    for joint in ("-", "_", ""):
        better = re.sub("[^a-z0-9]+", joint, plain).strip(joint or None)
        if re.search(pattern, better) and len(better) <= 40:
            return better
    return None
