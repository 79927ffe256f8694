"""``tools.json`` as text and as a list of tools: what must hold before any schema is looked at.

It is exactly what an agent sees (S1): a bare array of MCP tools (ruling 4). Two readers must read the same
from it, so what JSON leaves open is refused: duplicate keys, NaN, numbers beyond 2^53, lone surrogates,
deep nesting. Names follow S5 and fit the narrowest harness. The schemas inside are judged by ``subset``.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from reconciler.admission import fields, jobtools, subset
from reconciler.admission.findings import Finding
from reconciler.admission.guidance import hidden, hidden_problem
from reconciler.admission.view import inside, nearest, whole_path
from reconciler.model.inventory import Resource
from reconciler.model.names import MAX_TOOL_NAME, tool_prefix
from reconciler.model.problems import Path, Problem, Span, quoted
from reconciler.model.resources import Interface

Tools = Sequence[Mapping[str, Any]]

MAX_BYTES = 256 * 1024
MAX_DEPTH = 32
_SAFE_INTEGER = 2**53 - 1  # beyond it a reader of floating point sees another number
_MAX_HARNESS_NAME = 64  # mcp__<interface>__<tool> in the narrowest harness
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)
_SIDES = ("inputSchema", "outputSchema")
_KEYS: Mapping[str, type] = {
    "name": str,
    "title": str,
    "description": str,
    "inputSchema": dict,
    "outputSchema": dict,
    "annotations": dict,
}
_REQUIRED = ("name", "description", *_SIDES)
_HINTS: Mapping[str, type] = {
    "title": str,
    "readOnlyHint": bool,
    "destructiveHint": bool,
    "idempotentHint": bool,
    "openWorldHint": bool,
}


def read(interface: Resource[Interface]) -> tuple[Tools, tuple[Problem, ...]]:
    """The tools of a version, or why there are none to look at: never both."""
    data = inside(interface).get("tools.json")
    if data is None:
        text = f"interfaces/{interface.ref.name}/tools.json"
        return (), (
            _problem(interface, Finding("I201", (), "tools.json is missing", _WHY_THERE, f"write {text}")),
        )
    try:
        value = _strict(data)
    except ValueError as fault:
        return (), (_problem(interface, _unreadable(str(fault))),)
    problems = tuple(_problem(interface, finding) for finding in _shape(value))
    return ((), problems) if problems else (value, ())  # type: ignore[return-value]


_WHY_THERE = "an interface is the tools that an agent sees"


def _strict(data: bytes) -> object:
    """The value of a JSON text that every reader reads alike; raises ValueError with a clause."""
    if len(data) > MAX_BYTES:
        raise ValueError(f"tools.json has {len(data)} bytes, more than {MAX_BYTES}")
    if _depth(data) > MAX_DEPTH:
        raise ValueError(f"tools.json is nested more than {MAX_DEPTH} deep")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"tools.json is not UTF-8 text (byte {error.start})") from error
    if text.startswith("\ufeff"):
        raise ValueError("tools.json starts with a byte order mark, which JSON does not have")
    try:
        value: object = _READER.decode(text)
    except json.JSONDecodeError as error:
        fault = error.msg.lower().removesuffix(" starting at")
        where = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"tools.json is not JSON: {fault} at {where}") from error
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError("a text holds half of a character (a lone surrogate)") from error
    return value


def _depth(data: bytes) -> int:
    deepest = depth = 0
    for token in _TOKEN.finditer(data):
        match token[0]:
            case b"[" | b"{":
                depth += 1
                deepest = max(deepest, depth)
            case b"]" | b"}":
                depth -= 1
            case _:
                pass
    return deepest


def _record(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {quoted(twice)} stands twice in one object")
    return found


def _constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


def _integer(digits: str) -> int:
    if len(digits) > len(str(_SAFE_INTEGER)) + 1 or abs(int(digits)) > _SAFE_INTEGER:
        raise ValueError(f"the number {quoted(digits)} is larger than every reader can hold")
    return int(digits)


def _fraction(digits: str) -> float:
    if not math.isfinite(number := float(digits)):
        raise ValueError(f"the number {quoted(digits)} is larger than every reader can hold")
    return number


_READER = json.JSONDecoder(
    object_pairs_hook=_record, parse_constant=_constant, parse_int=_integer, parse_float=_fraction
)


def _unreadable(what: str) -> Finding:
    return Finding(
        "I202", (), what, "every harness must read the same from it", "save it as plain, small JSON"
    )


def _shape(value: object) -> Iterator[Finding]:
    why = "tools.json is a bare array of MCP tools, each with a closed input and output"
    if not isinstance(value, list) or not value:
        yield Finding("I204", (), "tools.json is not an array with at least one tool", why, "write [{…}]")
        return
    for index, tool in enumerate(value):
        if not isinstance(tool, dict):
            yield Finding("I204", (index,), "the tool is not an object", why, 'write {"name": …}')
            continue
        misspelt = {nearest(key, _KEYS) for key in tool.keys() - _KEYS.keys()}
        for key in _REQUIRED:
            if key not in tool and key not in misspelt:
                yield Finding("I204", (index,), f"the tool has no {quoted(key)}", why, f'write "{key}"')
        yield from _keys(tool, _KEYS, (index,), why)
        if isinstance(tool.get("annotations"), dict):
            yield from _keys(tool["annotations"], _HINTS, (index, "annotations"), why)


def _keys(record: Mapping[str, Any], known: Mapping[str, type], path: Path, why: str) -> Iterator[Finding]:
    for key, value in record.items():
        if key not in known:
            near = nearest(key, known)
            mend = f"write {quoted(near)}" if near else f"leave {quoted(key)} out"
            what = f"{quoted(key)} is not a key of a tool"
            yield Finding("I204", (*path, key), what, why, mend, on_key=True)
        elif not isinstance(value, known[key]):
            words = {str: "text", dict: "an object", bool: "true or false"}
            what = f"{quoted(key)} is not {words[known[key]]}"
            yield Finding("I204", (*path, key), what, why, f"write {words[known[key]]}")


def names_start_with_the_interface(interface: Resource[Interface], tools: Tools) -> Iterator[Finding]:
    """S5: ``<interface>_<words>``, short enough for every harness, so that no two interfaces collide."""
    prefix = tool_prefix(interface.spec.name)
    for index, tool in enumerate(tools):
        name = tool["name"]
        rest = name.removeprefix(prefix)
        seen = f"mcp__{interface.spec.name}__{name}"
        if rest == name or re.fullmatch(r"[a-z0-9_]+", rest) is None:
            what = f"the tool name {quoted(name)} is not {quoted(prefix)} and then lower-case words"
            mend = f"write {quoted(prefix + (_words(name) or 'extract'))}"
        elif len(name) > MAX_TOOL_NAME or len(seen) > _MAX_HARNESS_NAME:
            what = f"the tool name {quoted(name)} has {len(name)} characters, more than {MAX_TOOL_NAME}"
            mend = f"write a name of at most {MAX_TOOL_NAME} characters that starts with {quoted(prefix)}"
        else:
            continue
        why = "tool names start with the interface's name and fit the narrowest harness (S5)"
        yield Finding("I205", (index, "name"), what, why, mend)


def _words(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def names_are_unique(interface: Resource[Interface], tools: Tools) -> Iterator[Finding]:
    """A name is one tool's."""
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        if tool["name"] in seen:
            what = f"the tool {quoted(tool['name'])} stands twice"
            yield Finding(
                "I207", (index, "name"), what, "a tool is called by its name", "rename or delete one"
            )
        seen.add(tool["name"])


def texts_are_short(interface: Resource[Interface], tools: Tools) -> Iterator[Finding]:
    """A tool's description is at most 4 KiB."""
    for index, tool in enumerate(tools):
        if len(tool["description"].encode(errors="replace")) > fields.MAX_DESCRIPTION_BYTES:
            yield fields.too_long((index, "description"), tool["description"])


def schemas_are_portable(interface: Resource[Interface], tools: Tools) -> Iterator[Finding]:
    """Both schemas of each tool stay in the portable subset."""
    for index, tool in enumerate(tools):
        for side in _SIDES:
            for found in subset.findings(tool[side], side):
                yield _under((index, side), found)


def operations_name_tools(interface: Resource[Interface], tools: Tools) -> Iterator[Problem]:
    """``operations.<tool>`` in ``interface.toml`` speaks of tools that are there."""
    names = [tool["name"] for tool in tools]
    for name in interface.spec.operations:
        if name not in names:
            near = nearest(name, names)
            yield Problem(
                code="I253",
                what=f"{quoted(name)} is not a tool of tools.json",
                why="operations say how the tools of this interface are driven",
                mend=f"write {quoted(near)}" if near else f"delete operations.{name}",
                at=Span(interface.file),
                path=("operations", name),
                about=interface.ref,
                on_key=True,
            )


FINDERS = (names_start_with_the_interface, names_are_unique, texts_are_short, schemas_are_portable)


def problems(interface: Resource[Interface], tools: Tools) -> Iterator[Problem]:
    """Everything that is wrong with the tools of a version."""
    for finder in FINDERS:
        for found in finder(interface, tools):
            yield _problem(interface, found)
    yield from operations_name_tools(interface, tools)
    yield from jobtools.problems(interface, tools)
    for path, text in _texts(tools):
        if seen := hidden(text):
            yield hidden_problem(interface, Span(whole_path(interface, "tools.json")), path, seen)


def official_findings(interface: Resource[Interface], tools: Tools) -> Iterator[Problem]:
    """What the official validator says of each schema against the meta-schema: asked for drafts alone.

    The engine of the hot path checks the same meta-schema when it compiles; this is the second opinion before
    a version is frozen. Values are never repeated.
    """
    import jsonschema  # noqa: PLC0415 - 60 ms to import, and only drafts need it

    official = jsonschema.Draft202012Validator(jsonschema.Draft202012Validator.META_SCHEMA)
    for index, tool in enumerate(tools):
        for side in _SIDES:
            for error in official.iter_errors(tool[side]):
                path = (index, side, *error.absolute_path)
                what = f"the schema breaks the meta-schema's rule {quoted(error.validator)}"
                why = "a schema is valid JSON Schema 2020-12"
                yield _problem(interface, Finding("I225", path, what, why, "correct the keyword's value"))
                break


def cannot_compile(interface: Resource[Interface], tools: Tools, fault: ValueError) -> Problem:
    """The problem that a contract is which passed every rule and which the engine still cannot take. The
    official validator may know where.
    """
    known = next(official_findings(interface, tools), None)
    why = "calls are checked by the compiled schemas, so one that cannot be compiled cannot be served"
    mend = known.mend if known else "state the schema in simpler words"
    return _problem(interface, Finding("I226", known.path if known else (), str(fault), why, mend))


def _texts(tools: Tools) -> Iterator[tuple[Path, str]]:
    """Every text of the tools, keys included, with its path."""
    waiting: list[tuple[Path, object]] = [((), tools)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, Mapping):
            for key, item in value.items():
                yield (*path, key), key
                waiting.append(((*path, key), item))
        elif isinstance(value, list):
            waiting += [((*path, index), item) for index, item in enumerate(value)]


def _under(path: Path, found: Finding) -> Finding:
    return replace(found, path=(*path, *found.path))


def _problem(interface: Resource[Interface], found: Finding) -> Problem:
    return found.problem(whole_path(interface, "tools.json"), interface.ref)
