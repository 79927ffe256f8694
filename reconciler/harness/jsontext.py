"""Members put into and taken out of a JSON text with comments, every other byte left as it is.

What goes in is one run of text right behind an opening brace (and a comment on its line), so that taking it
out again gives the text as it was: see ``taken``. A text handed in was read before (``reading.values``): here
it is only walked, by its tokens.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"/]+', re.DOTALL)
_ON_THE_LINE = re.compile(r"(?:[ \t]*/\*(?:(?!\*/)[^\n])*\*/)*(?:[ \t]*//[^\n]*?)?(?=[ \t\r]*\n)")

_SPACE = " \t\r\n"  # what JSON knows as space; a comment may end in another one


@dataclass(frozen=True, slots=True)
class _Member:
    """A key and its value: from the key's first character to behind the value's last; its comma's place."""

    key: str
    start: int
    end: int
    value: int  # where the value starts
    comma: int = -1


@dataclass(frozen=True, slots=True)
class _Object:
    """The places of an object's braces, and its members."""

    open: int
    close: int
    members: tuple[_Member, ...]

    def get(self, key: str) -> _Member | None:
        return next((one for one in self.members if one.key == key), None)


def given(text: str, path: Sequence[str], entries: Mapping[str, Any]) -> tuple[str, str]:
    """The text with new members in the object at ``path``, which is made where it is missing; and what stands
    between the last of them and the brace, where there was nothing else: ``taken`` has to know it.

    Raises ValueError where something else than an object stands at the path.
    """
    here, rest = _deepest(text, path)
    if rest:
        inside: Any = dict(entries)
        for key in reversed(rest[1:]):
            inside = {key: inside}
        entries = {rest[0]: inside}
    return _inserted(text, here, _Layout.of(text, here), entries)


def taken(text: str, path: Sequence[str], names: Sequence[str], tail: str) -> str:
    """The text without these members of the object at ``path``; what is not there is not missed.

    The reverse of ``given`` with its ``tail``, where nobody changed the text meanwhile; else only the members
    go, with the comma and the space that are theirs.
    """
    for name in names:
        here, rest = _deepest(text, path)
        member = here.get(name) if not rest else None
        if member is not None:
            text = _cut(text, here, member, tail)
    return text


def is_bare(text: str, path: Sequence[str]) -> bool:
    """Whether the object at ``path`` is there and holds nothing, not even a comment."""
    here, rest = _deepest(text, path)
    return not rest and not text[here.open + 1 : here.close].strip()


# putting in


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a text is laid out where something is put in."""

    newline: str  # "" on one line
    outer: str  # the indentation of the line on which the object opens
    unit: str

    @classmethod
    def of(cls, text: str, here: _Object) -> "_Layout":
        windows = "\r\n" in text and "\n" not in text.replace("\r\n", "")
        newline = "\r\n" if windows else "\n"
        outer = _indent(text, here.open)
        first = here.members[0] if here.members else None
        if first is not None:
            between = text[here.open : first.start]
            inner = _indent(text, first.start) if "\n" in between else ""
            unit = inner.removeprefix(outer) if inner.startswith(outer) and inner != outer else _unit(text)
            return cls(newline if "\n" in between else "", outer, unit)
        inline = "\n" not in text.strip() and len(text.strip()) > len("{}")
        return cls("" if inline else newline, outer, _unit(text))


def _indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    found = re.search(r"\n(\t+|  +)\S", text)
    return "\t" if found and found[1].startswith("\t") else (found[1][:8] if found else "  ")


def _inserted(text: str, here: _Object, layout: _Layout, entries: Mapping[str, Any]) -> tuple[str, str]:
    at = here.open + 1
    if layout.newline and (comment := _ON_THE_LINE.match(text, at)):
        at = comment.end()
    items = [_item(key, value, layout) for key, value in entries.items()]
    start = layout.newline + layout.outer + layout.unit if layout.newline else " "
    block = ",".join(start + item for item in items)
    if here.members:
        return text[:at] + block + "," + text[at:], ""
    tail = layout.newline + layout.outer if layout.newline and "\n" not in text[at : here.close] else ""
    return text[:at] + block + tail + text[at:], tail


def _item(key: str, value: Any, layout: _Layout) -> str:
    if not layout.newline:
        return f"{_dumped(key)}: {_dumped(value)}"
    lines = json.dumps(value, indent=layout.unit, ensure_ascii=False).split("\n")
    joint = layout.newline + layout.outer + layout.unit
    return f"{_dumped(key)}: {joint.join(lines)}"


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# taking out


def _cut(text: str, here: _Object, member: _Member, tail: str) -> str:
    start = len(text[: member.start].rstrip(_SPACE))
    if member.comma >= 0:
        return text[:start] + text[member.end : member.comma] + text[member.comma + 1 :]
    before = [one for one in here.members if one.end <= member.start]
    if before:  # the last of several: the comma before it goes, too
        comma = before[-1].comma
        return text[:comma] + text[comma + 1 : start] + text[member.end :]
    rest = text[member.end :]
    if rest.startswith(tail) and text[:start].endswith(("{", "*/")):  # else a comment would go on behind it
        rest = rest[len(tail) :]
    return text[:start] + rest


# walking


def _deepest(text: str, path: Sequence[str]) -> tuple[_Object, Sequence[str]]:
    """The object at ``path``, or the last one that is there on the way, and the keys that are missing."""
    here = _object(text, _start(text, 0))
    for depth, key in enumerate(path):
        member = here.get(key)
        if member is None:
            return here, path[depth:]
        here = _object(text, member.value)
    return here, ()


def _start(text: str, at: int) -> int:
    return next(iter(_tokens(text, at))).start()


def _tokens(text: str, at: int) -> Iterator[re.Match[str]]:
    """The tokens from a place on, comments left out."""
    return (found for found in _TOKEN.finditer(text, at) if not found[0].startswith(("//", "/*")))


def _object(text: str, at: int) -> _Object:
    """The object that opens at a place; raises ValueError where none does."""
    if text[at] != "{":
        raise ValueError("what should be its table of MCP servers is none")
    members: list[_Member] = []
    depth, key, end, value = 0, "", 0, -1
    key_at = -1
    for token in _tokens(text, at):
        word = token[0]
        depth += (word in "{[") - (word in "}]")
        if depth == 0:
            if key_at >= 0:
                members.append(_Member(key, key_at, end, value))
            return _Object(at, token.start(), tuple(members))
        if depth == 1 and word == ",":
            members.append(_Member(key, key_at, end, value, token.start()))
            key_at, value = -1, -1
        elif depth == 1 and key_at < 0 and word != "{":
            key, key_at = json.loads(word), token.start()
        elif key_at >= 0 and value < 0 and word != ":":
            value = token.start()
        end = token.end()
    raise ValueError("a brace of it is not closed")
