"""Conformance cases: what "implements ocr/v1" means, read into frozen values, and the judge of one outcome.

Seed 000 §4.4: a case asserts properties of an answer on top of its schema (words that must appear, counts,
ranges, an error code), never an exact answer, since readings and searches vary between vendors. A suite comes
in as the plain table that its TOML text says; what it may not hold becomes problems, and a case that has one
is left out. Running a case is not done here: whoever runs one hands over its ``Outcome``. A case that was not
run has no outcome, so it cannot pass.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import regress

from reconciler.model.problems import Path, Problem, Span, listed, quoted

Tier = Literal["conformance", "certification"]
_TIERS: tuple[Tier, ...] = ("conformance", "certification")
_KEYS = {"name": str, "tool": str, "input": dict, "tier": str, "expect": dict}
_REQUIRED = ("name", "tool", "input")
_WHY = "a case says what to call, with what, and which properties the answer has; everything else is refused"
_JSON_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
    "null": (type(None),),
}
_MAGIC: Mapping[str, tuple[tuple[int, bytes], ...]] = {  # where each run of bytes stands
    "pdf": ((0, b"%PDF-"),),
    "png": ((0, b"\x89PNG\r\n\x1a\n"),),
    "jpeg": ((0, b"\xff\xd8\xff"),),
    "gif": ((0, b"GIF8"),),
    "webp": ((0, b"RIFF"), (8, b"WEBP")),
    "zip": ((0, b"PK\x03\x04"),),
    "wav": ((0, b"RIFF"), (8, b"WAVE")),
    "ogg": ((0, b"OggS"),),
    "mp4": ((4, b"ftyp"),),
}
FILE_TYPES = ("text", *_MAGIC)


@dataclass(frozen=True, slots=True)
class At:
    """What one value of the answer must be. ``path`` has property names, and numbers for items of arrays."""

    path: Path
    min_items: int | None = None
    max_items: int | None = None
    min: float | None = None
    max: float | None = None
    pattern: str | None = None  # ECMA-262 with flag u, found anywhere in the text
    equals: str | int | float | bool | None = None
    type: str | None = None


@dataclass(frozen=True, slots=True)
class Expectation:
    """What an outcome must show; ``contains`` looks at every text of the answer and of the files it wrote."""

    contains: tuple[str, ...] = ()
    not_contains: tuple[str, ...] = ()
    error: str | None = None  # the code it must end with; None: it must answer
    max_seconds: float | None = None
    file_type: str | None = None  # of FILE_TYPES: what each output file must be, by its bytes
    at: tuple[At, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One call of a suite. Paths in ``input`` are relative to the suite's folder, which is its scope."""

    name: str
    tool: str
    input: Mapping[str, Any]
    tier: Tier = "conformance"
    expect: Expectation = Expectation()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one call ended: its answer or an error code, and the files it wrote by input property."""

    structured: Mapping[str, Any] | None
    error: str | None
    seconds: float
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Flaw:
    code: str
    path: Path
    what: str
    mend: str
    on_key: bool = False


def read(suite: Mapping[str, Any], file: str) -> tuple[tuple[Case, ...], tuple[Problem, ...]]:
    """The cases of a suite, in order, and what is wrong with the rest of ``file``, where the table was.

    Codes: I401 an unknown key, I402 a key that is missing, I403 a value that cannot be, I404 a repeated name.
    """
    flaws = [_unknown((key,), key, ("case",)) for key in suite if key != "case"]
    tables = suite.get("case", [])
    if not isinstance(tables, list) or not tables:
        flaws.append(_Flaw("I402", (), "the suite has no [[case]]", "write one [[case]] for each tool"))
        tables = []
    cases: list[Case] = []
    for index, table in enumerate(tables):
        path = ("case", index)
        found = list(_case_flaws(table, path))
        if not found and any(case.name == table["name"] for case in cases):
            what = f"the name {quoted(table['name'])} stands twice"
            found = [_Flaw("I404", (*path, "name"), what, "give each case a name of its own")]
        flaws += found
        if not found:
            cases.append(_case(table))
    return tuple(cases), tuple(
        Problem(flaw.code, flaw.what, _WHY, flaw.mend, Span(file), flaw.path, on_key=flaw.on_key)
        for flaw in flaws
    )


def judge(case: Case, outcome: Outcome) -> tuple[str, ...]:
    """The faults of an outcome, each one sentence; none: the case passes. Faults of time come last. They say
    what was expected, and of what came no more than its shape: ``shown`` is for whoever may see it.
    """
    expect = case.expect
    faults: list[str] = []
    if expect.error is not None:
        if outcome.error != expect.error:
            ended = f"ended with {quoted(outcome.error)}" if outcome.error else "was answered"
            faults.append(f"expected the error {quoted(expect.error)}, and the call {ended}")
    elif outcome.error is not None or outcome.structured is None:
        faults.append(f"expected an answer, and the call ended with {quoted(outcome.error or 'nothing')}")
    else:
        faults += _text_faults(expect, outcome)
        faults += [fault for at in expect.at for fault in _value_faults(at, outcome.structured)]
        faults += _file_faults(expect, outcome)
    if expect.max_seconds is not None and outcome.seconds > expect.max_seconds:
        faults.append(f"took {outcome.seconds:.1f} s, more than {expect.max_seconds:g} s")
    return tuple(faults)


def shown(outcome: Outcome, most: int) -> str:
    """What came back, for whoever runs a suite of their own: JSON, or the error, and the files; cut."""
    if outcome.structured is None:
        text = f"the error {quoted(outcome.error or 'nothing')}"
    else:
        text = json.dumps(outcome.structured, ensure_ascii=False)
    if len(text) > most:
        text = f"{text[:most]}… ({len(text)} characters)"
    return text + "".join(f"; {name}: {len(data)} bytes" for name, data in outcome.files.items())


def size(outcome: Outcome) -> int:
    """How many bytes came back: the answer as compact JSON, and the files."""
    answer = outcome.structured
    text = "" if answer is None else json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode()) + sum(map(len, outcome.files.values()))


# reading


def _case_flaws(table: object, path: Path) -> Iterator[_Flaw]:
    if not isinstance(table, Mapping):
        yield _Flaw("I403", path, "the case is not a table", "write [[case]]")
        return
    for key in table:
        if key not in _KEYS:
            yield _unknown((*path, key), key, tuple(_KEYS))
    for key, kind in _KEYS.items():
        if key not in table:
            if key in _REQUIRED:
                yield _Flaw("I402", path, f"the case has no {quoted(key)}", f"write {key}")
        elif not isinstance(table[key], kind):
            words = "a table" if kind is dict else "text"
            yield _Flaw("I403", (*path, key), f"{quoted(key)} is not {words}", f"write {key} as {words}")
    if table.get("tier", _TIERS[0]) not in _TIERS:
        what = f"the tier {quoted(table['tier'])} is not known"
        yield _Flaw("I403", (*path, "tier"), what, f"write {listed(map(quoted, _TIERS))}")
    if isinstance(table.get("expect"), Mapping):
        yield from _expect_flaws(table["expect"], (*path, "expect"))


def _expect_flaws(expect: Mapping[str, Any], path: Path, *, top: bool = True) -> Iterator[_Flaw]:
    """A table is a step of the path to a value; anything else is an assertion about the value reached."""
    known = _ABOUT_THE_CALL if top else _ABOUT_A_VALUE
    for key, value in expect.items():
        if isinstance(value, Mapping):
            yield from _expect_flaws(value, (*path, key), top=False)
        elif key not in known:
            yield _unknown((*path, key), key, tuple(known))
        elif wanted := known[key](value):
            yield _Flaw(
                "I403", (*path, key), f"{quoted(key)} cannot be {quoted(value)}", f"write {key} as {wanted}"
            )


def _unknown(path: Path, key: object, known: Sequence[str]) -> _Flaw:
    return _Flaw("I401", path, f"{quoted(key)} is not known here", f"write {listed(known)}", on_key=True)


def _texts(value: object) -> str:
    good = isinstance(value, list) and value and all(isinstance(item, str) and item for item in value)
    return "" if good else "a list of texts"


def _text(value: object) -> str:
    return "" if isinstance(value, str) and value else "text"


def _count(value: object) -> str:
    return "" if type(value) is int and value >= 0 else "a whole number"


def _number(value: object) -> str:
    return "" if type(value) in (int, float) else "a number"


def _positive(value: object) -> str:
    return "" if type(value) in (int, float) and value > 0 else "seconds above 0"  # type: ignore[operator]


def _scalar(value: object) -> str:
    return "" if isinstance(value, str | int | float | bool) else "one text, number or truth value"


def _pattern(value: object) -> str:
    try:
        regress.Regex(value if isinstance(value, str) else "(", "u")
    except regress.RegressError:
        return "an ECMA-262 pattern"
    return ""


def _file_type(value: object) -> str:
    return "" if value in FILE_TYPES else listed(map(quoted, FILE_TYPES))


def _json_type(value: object) -> str:
    return "" if value in tuple(_JSON_TYPES) else listed(map(quoted, _JSON_TYPES))


_ABOUT_THE_CALL: Mapping[str, Callable[[Any], str]] = {
    "contains": _texts,
    "notContains": _texts,
    "error": _text,
    "maxSeconds": _positive,
    "fileType": _file_type,
}
_ABOUT_A_VALUE: Mapping[str, Callable[[Any], str]] = {
    "minItems": _count,
    "maxItems": _count,
    "min": _number,
    "max": _number,
    "pattern": _pattern,
    "equals": _scalar,
    "type": _json_type,
}


def _case(table: Mapping[str, Any]) -> Case:
    expect = table.get("expect", {})
    return Case(
        name=table["name"],
        tool=table["tool"],
        input=table["input"],
        tier=table.get("tier", _TIERS[0]),
        expect=Expectation(
            contains=tuple(expect.get("contains", ())),
            not_contains=tuple(expect.get("notContains", ())),
            error=expect.get("error"),
            max_seconds=expect.get("maxSeconds"),
            file_type=expect.get("fileType"),
            at=tuple(_ats(expect, ())),
        ),
    )


def _ats(expect: Mapping[str, Any], path: Path) -> Iterator[At]:
    about = {key: value for key, value in expect.items() if not isinstance(value, Mapping)}
    if path and about:
        names = {"minItems": "min_items", "maxItems": "max_items"}
        yield At(path, **{names.get(key, key): value for key, value in about.items()})
    for key, value in expect.items():
        if isinstance(value, Mapping):
            yield from _ats(value, (*path, int(key) if key.isdecimal() else key))


# judging


def _text_faults(expect: Expectation, outcome: Outcome) -> Iterator[str]:
    texts = [
        *_strings(outcome.structured),
        *(data.decode(errors="replace") for data in outcome.files.values()),
    ]
    for wanted in expect.contains:
        if not any(wanted in text for text in texts):
            yield f"{quoted(wanted)} is nowhere in the answer"
    for unwanted in expect.not_contains:
        if any(unwanted in text for text in texts):
            yield f"{quoted(unwanted)} is in the answer"


def _strings(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for item in value.values():
                yield from _strings(item)
        case list() | tuple():
            for item in value:
                yield from _strings(item)
        case _:
            pass


def _value_faults(at: At, structured: Mapping[str, Any]) -> Iterator[str]:
    value: Any = structured
    for step in at.path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            yield f"{_shown(at.path)} is not in the answer"
            return
    for one in fields(at)[1:]:
        wanted = getattr(at, one.name)
        if wanted is not None and (fault := _JUDGES[one.name](value, wanted)):
            yield f"{_shown(at.path)} {fault}"


def _shown(path: Path) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _has_items(value: object, least: int) -> str:
    if not isinstance(value, list | tuple):
        return "is no array"
    return "" if len(value) >= least else f"has {len(value)} items, fewer than {least}"


def _has_no_more(value: object, most: int) -> str:
    if not isinstance(value, list | tuple):
        return "is no array"
    return "" if len(value) <= most else f"has {len(value)} items, more than {most}"


def _is_at_least(value: object, least: float) -> str:
    if not _is(value, "number"):
        return "is no number"
    return "" if value >= least else f"is less than {least}"  # type: ignore[operator]


def _is_at_most(value: object, most: float) -> str:
    if not _is(value, "number"):
        return "is no number"
    return "" if value <= most else f"is more than {most}"  # type: ignore[operator]


def _matches(value: object, pattern: str) -> str:
    if not isinstance(value, str):
        return "is no text"
    return "" if regress.Regex(pattern, "u").find(value) else f"does not match {quoted(pattern)}"


def _is_equal(value: object, wanted: object) -> str:
    same = value == wanted and isinstance(value, bool) == isinstance(wanted, bool)
    return "" if same else f"is not {quoted(wanted) if isinstance(wanted, str) else json.dumps(wanted)}"


def _is_of(value: object, kind: str) -> str:
    return "" if _is(value, kind) else f"is not of type {kind}"


def _is(value: object, kind: str) -> bool:
    if isinstance(value, bool) and kind != "boolean":
        return False  # in Python a truth value is an integer, in JSON it is not
    return isinstance(value, _JSON_TYPES[kind])


_JUDGES: Mapping[str, Callable[[Any, Any], str]] = {
    "min_items": _has_items,
    "max_items": _has_no_more,
    "min": _is_at_least,
    "max": _is_at_most,
    "pattern": _matches,
    "equals": _is_equal,
    "type": _is_of,
}


def _file_faults(expect: Expectation, outcome: Outcome) -> Iterator[str]:
    if expect.file_type is None:
        return
    if not outcome.files:
        yield "no file was written"
    for name, data in outcome.files.items():
        if not _file_is(data, expect.file_type):
            yield f"the file of {quoted(name)} is not of type {expect.file_type}"


def _file_is(data: bytes, kind: str) -> bool:
    if kind == "text":
        try:
            return "\0" not in data.decode()
        except UnicodeDecodeError:
            return False
    return all(data[at : at + len(magic)] == magic for at, magic in _MAGIC[kind])
