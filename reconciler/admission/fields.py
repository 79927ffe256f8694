"""What single values of a schema may be: patterns, formats, files, descriptions, bounds.

A pattern is read alike by every engine (``patterns``); a file stands only where the router looks for it
(S4, reliability.md §3.9 Q13) and says in words that it is a path, since some harnesses drop ``format``.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.admission import patterns
from reconciler.admission.findings import Finding
from reconciler.admission.nodes import Node, is_text, mapping, seq
from reconciler.admission.view import nearest
from reconciler.model.contract import FILE_IN, FILE_OUT
from reconciler.model.problems import Path, Severity, listed, quoted

MAX_DESCRIPTION_BYTES = 4096
MAX_ENUM = 500

# fmt: off
_FORMATS = (
    "date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6",
    "uri", "uri-reference", "iri", "iri-reference", "uuid", "uri-template", "json-pointer",
    "relative-json-pointer", "regex",
)
# fmt: on
_UNBOUNDED = re.compile(r"(?<!\\)(?:[*+]|\{\d*,\})")


def patterns_are_portable(node: Node) -> Iterator[Finding]:
    """A pattern is read alike by every engine that meets it, and none is made slow by it."""
    pattern = node.value.get("pattern")
    if not is_text(pattern):
        return
    if (found := patterns.fault(pattern)) is not None:
        yield Finding(
            code="I216",
            path=(*node.path, "pattern"),
            what=f"cannot read the pattern {quoted(pattern)}: {found[0]}",
            why=found[1],
            mend="rewrite it with classes, groups, alternatives and repetitions alone",
        )
    elif (shorthand := patterns.wider(pattern)) is not None:
        yield Finding(
            code="I229",
            path=(*node.path, "pattern"),
            what=f"{quoted(shorthand[0])} means other characters in Python clients than here",
            why="a shorthand is ASCII in ECMA-262, and all of Unicode in Python",
            mend=f"write {shorthand[1]}",
            severity=Severity.WARNING,
        )


def enumerations_are_short(node: Node) -> Iterator[Finding]:
    """An enumeration is read by a model at every session, and model services bound it."""
    values = seq(node.value.get("enum"))
    if len(values) > MAX_ENUM:
        yield Finding(
            code="I228",
            path=(*node.path, "enum"),
            what=f"the enumeration has {len(values)} values, more than {MAX_ENUM}",
            why="a model reads them at every session, and model services refuse longer ones",
            mend="write a string with a pattern, and a tool that lists the values",
        )


def formats_are_known(node: Node) -> Iterator[Finding]:
    """A format is one of JSON Schema's, or one of the two that the router acts on."""
    known = (*_FORMATS, FILE_IN, FILE_OUT)
    form = node.value.get("format")
    if form is not None and form not in known:
        near = nearest(str(form), known)
        yield Finding(
            code="I218",
            path=(*node.path, "format"),
            what=f"the format {quoted(form)} is not known",
            why="an unknown format is ignored, so a misspelt handler-file would hand over a path, not a file",
            mend=f"write {quoted(near)}" if near else "leave the format out",
        )


def files_stand_at_known_places(node: Node) -> Iterator[Finding]:
    """A file is a top-level string of the input, or an element of a top-level array (S4)."""
    form = node.value.get("format")
    if form not in (FILE_IN, FILE_OUT):
        return
    at_top = len(node.path) == 2 and node.path[0] == "properties"
    in_array = len(node.path) == 3 and node.path[::2] == ("properties", "items")
    owner = node.value
    if in_array:
        owner = mapping(mapping(node.root.get("properties")).get(str(node.path[1])))
        in_array = owner.get("type") in ("array", ["array"])  # else a text would be taken for a list of names
    if node.side == "inputSchema" and (at_top or in_array) and node.types() == {"string"}:
        if in_array and form == FILE_OUT:
            yield _list_of_outputs(node)
        else:
            yield from _described_as_a_path(node, (node.value, owner))
        return
    yield Finding(
        code="I217",
        path=(*node.path, "format"),
        what=f"{quoted(form)} stands where the router does not look for files",
        why="a file is a string property at the top of inputSchema, or an element of an array there",
        mend="move it to a top-level property of inputSchema, of type string",
    )


def _list_of_outputs(node: Node) -> Finding:
    return Finding(
        code="I217",
        path=(*node.path, "format"),
        what=f"{quoted(node.path[1])} is a list of output files",
        why="the router puts each output file where one property of the call names it",
        mend="write one property for each output file, of type string",
    )


def _described_as_a_path(node: Node, places: tuple[Mapping[str, Any], ...]) -> Iterator[Finding]:
    if any("work folder" in str(place.get("description", "")) for place in places):
        return
    yield Finding(
        code="I219",
        path=node.path,
        what=f"the description of {quoted(node.path[1])} does not say that it is a path in the work folder",
        why="some harnesses drop the format, and then the description is all that a model knows",
        mend='write "description": "a file in the work folder"',
    )


def descriptions_are_short(node: Node) -> Iterator[Finding]:
    """A description is at most 4 KiB: it is read by a model at every session."""
    text = node.value.get("description")
    if is_text(text) and len(text.encode(errors="replace")) > MAX_DESCRIPTION_BYTES:
        yield too_long((*node.path, "description"), text)


def too_long(path: Path, text: str) -> Finding:
    """The finding that a description of more than 4 KiB is, of a tool or of a property."""
    return Finding(
        code="I208",
        path=path,
        what=f"the description has {len(text.encode(errors='replace'))} bytes",
        why=f"a model reads it at every session: it has at most {MAX_DESCRIPTION_BYTES} bytes",
        mend="shorten it, and move what is long to the skill",
    )


RULES = (
    patterns_are_portable,
    enumerations_are_short,
    formats_are_known,
    files_stand_at_known_places,
    descriptions_are_short,
)


def bounds_are_set(nodes: list[Node]) -> Iterator[Finding]:
    """A lint (ruling 1): arrays and strings of a published schema should say how long they may be."""
    open_ended = [_shown(node.path) for node in nodes if _is_unbounded(node)]
    if open_ended:
        yield Finding(
            code="I220",
            path=(),
            what=f"no bound is set for {listed(sorted(open_ended)).replace(' or ', ' and ')}",
            why="a bound is part of the contract: without one a caller learns the limit by failing",
            mend="write maxLength for strings and maxItems for arrays",
            severity=Severity.WARNING,
        )


def _is_unbounded(node: Node) -> bool:
    value, types = node.value, node.types()
    if "array" in types and "maxItems" not in value:
        return True
    if "string" not in types or any(word in value for word in ("maxLength", "enum", "const")):
        return False
    pattern = value.get("pattern")
    if is_text(pattern) and pattern.startswith("^") and pattern.endswith("$"):
        return _UNBOUNDED.search(pattern) is not None
    return True


def _shown(path: Path) -> str:
    """A path as a person names the value: ``pages[].text``."""
    text = ""
    waits_for_name = False
    for part in path:
        if waits_for_name:
            text += f".{part}" if text else str(part)
            waits_for_name = False
        elif part == "items":
            text += "[]"
        elif part in ("properties", "$defs"):
            waits_for_name = True
    return text or "the value"
