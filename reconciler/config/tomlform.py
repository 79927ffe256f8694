"""The canonical layout of a TOML text: the same values, the same comments, one way to write them down.

Only layout changes: no key moves, no value is reckoned anew. One space around ``=`` and before a comment,
none inside brackets, one inside braces; one blank line before a header and at most one anywhere; a list that
was written on several lines, or does not fit a line, has one item a line and a comma after the last; double
quotes where nothing needs others; a line feed alone ends a line. The result is read again and compared before
it is given out, so that a fault of this module cannot change a file's meaning.
"""

import re
from dataclasses import dataclass, field

import tomli

from reconciler.config.text import TextFault, comments, decoded
from reconciler.config.tomledit import same

_WIDTH = 100  # characters of a line up to which a list stays on it
_INDENT = "  "
_BLANK = re.compile(r"[ \t]*")
_COMMENT = re.compile(r"#[^\n]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^\s,\]}#]+(?: [0-9][^\s,\]}#]*)?")  # a date may have a space before its time
_TEXT = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}(?!")|' + r"'''.*?'{3,5}(?!')|" + r'"(?:[^"\\\n]|\\.)*"|' + r"'[^'\n]*'",
    re.DOTALL,
)
_PLAIN = re.compile(
    r"'([^\"\\'\x00-\x1f\x7f]*)'"
)  # a literal text that needs no escape between double quotes


def canonical(data: bytes) -> bytes:
    """The same text in its canonical layout; raises ValueError, in words for a person, where it is not TOML,
    or is TOML that cannot be laid out without a change of meaning.
    """
    text = decoded(data)
    if isinstance(text, TextFault):
        raise ValueError(f"line {text.line}: {text.what}")
    text = text.replace("\r\n", "\n")
    try:
        values = tomli.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError("it is not TOML") from error
    try:
        made = _laid_out(_Reader(text).lines())
        proven = same(tomli.loads(made), values) and _said(made) == _said(text)
    except (ValueError, LookupError, RecursionError):
        proven = False
    if not proven:
        raise ValueError("its layout is beyond this formatter")
    return made.encode()


def _said(text: str) -> list[str]:
    return sorted(one.rstrip() for one in comments(text).elements())


# what a text is made of


@dataclass(slots=True)
class _Group:
    """A list or an inline table as written: items and comments in order, None for a blank line."""

    ends: str  # [] or {}
    items: list["_Item | None"] = field(default_factory=list)
    tall: bool = False  # it was written on several lines


@dataclass(slots=True)
class _Item:
    """One entry of a group: a key or "", its value or None (then it is a comment), the comment after it."""

    key: str
    value: "str | _Group | None"
    comment: str = ""


@dataclass(slots=True)
class _Line:
    """A line of the text: a header, a pair, or a comment alone, and the comment that ends it."""

    header: str
    pair: _Item | None
    comment: str


class _Reader:
    """Takes a text apart that is known to be TOML."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def lines(self) -> list[_Line | None]:
        """Every line in order; None for a blank one."""
        found: list[_Line | None] = []
        while self._at < len(self._text):
            self._skip()
            header, pair = "", None
            if self._next("["):
                header = self._header()
            elif not self._next("#") and not self._next("\n") and self._at < len(self._text):
                pair = self._pair()
            self._skip()
            comment = self._comment()
            if header or pair or comment or self._next("\n"):
                found.append(_Line(header, pair, comment) if header or pair or comment else None)
            self._at += 1  # the line's end
        return found

    def _next(self, word: str) -> bool:
        return self._text.startswith(word, self._at)

    def _skip(self) -> None:
        self._take(_BLANK)

    def _take(self, what: re.Pattern[str]) -> str:
        found = what.match(self._text, self._at)
        if found is None:
            raise ValueError("a text that is not laid out as expected")
        self._at = found.end()
        return found[0]

    def _comment(self) -> str:
        return self._take(_COMMENT).rstrip() if self._next("#") else ""

    def _header(self) -> str:
        count = 2 if self._next("[[") else 1
        self._at += count
        name = self._key()
        self._skip()
        self._at += count
        return "[" * count + name + "]" * count

    def _key(self) -> str:
        parts = []
        while True:
            self._skip()
            part = self._take(_TEXT) if self._next('"') or self._next("'") else self._take(_BARE_KEY)
            bare = part[1:-1] if part[0] in "\"'" else part
            parts.append(bare if _BARE_KEY.fullmatch(bare) else _quoted(part))
            self._skip()
            if not self._next("."):
                return ".".join(parts)
            self._at += 1

    def _pair(self) -> _Item:
        key = self._key()
        self._at += 1  # =
        self._skip()
        return _Item(key, self._value())

    def _value(self) -> str | _Group:
        if self._next("["):
            return self._group("[]")
        if self._next("{"):
            return self._group("{}")
        if self._next('"') or self._next("'"):
            return _quoted(self._take(_TEXT))
        return self._take(_SCALAR)

    def _group(self, ends: str) -> _Group:
        found = _Group(ends)
        self._at += 1
        fresh, breaks = True, 0  # on a line of its own: no item stands before on this line
        while True:
            self._skip()
            if self._next(ends[1]):
                self._at += 1
                return found
            if self._next("\n"):
                self._at += 1
                found.tall, fresh, breaks = True, True, breaks + 1
            elif self._next(","):
                self._at += 1
            elif self._next("#"):
                self._remark(found, fresh=fresh, breaks=breaks)
                breaks = 0
            else:
                _pause(found, breaks)
                found.items.append(self._pair() if ends == "{}" else _Item("", self._value()))
                fresh, breaks = False, 0

    def _remark(self, group: _Group, *, fresh: bool, breaks: int) -> None:
        """A comment inside a group: of the item on its line, else one that stands alone."""
        text, last = self._comment(), group.items[-1] if group.items else None
        if not fresh and last is not None and last.value is not None and not last.comment:
            last.comment = text
        else:
            _pause(group, breaks)
            group.items.append(_Item("", None, text))


def _pause(group: _Group, breaks: int) -> None:
    """Keep one blank line where there were some, between entries."""
    if breaks > 1 and group.items:
        group.items.append(None)


def _quoted(text: str) -> str:
    plain = _PLAIN.fullmatch(text)
    return f'"{plain[1]}"' if plain else text


# how it is written down


def _laid_out(lines: list[_Line | None]) -> str:
    out: list[str] = []
    for line in lines:
        if line is None:
            if out and out[-1] and not out[-1].startswith("["):
                out.append("")
            continue
        if line.header:
            _open(out)
        out.append(_written(line))
    while out and not out[-1]:
        out.pop()
    return "".join(f"{line}\n" for line in out)


def _open(out: list[str]) -> None:
    """A blank line before a header, or before the comments that stand on it."""
    at = len(out)
    while at and out[at - 1].startswith("#"):
        at -= 1
    if at and out[at - 1]:
        out.insert(at, "")


def _written(line: _Line) -> str:
    text = line.header or (_pair(line.pair, "") if line.pair else "")
    return f"{text} {line.comment}" if text and line.comment else text or line.comment


def _pair(item: _Item, indent: str) -> str:
    start = f"{item.key} = " if item.key else ""
    value = item.value
    if isinstance(value, str):
        return start + value
    if value is None:
        return item.comment
    flat = "" if _is_tall(value) else _flat(value)
    if flat and (value.ends == "{}" or len(indent) + len(start) + len(flat) <= _WIDTH):
        return start + flat
    return start + _tall(value, indent)


def _is_tall(group: _Group) -> bool:
    """True when a list or table is written on several lines, or one inside it is."""
    inner = (item.value for item in group.items if item)
    return group.tall or any(_is_tall(value) for value in inner if isinstance(value, _Group))


def _flat(group: _Group) -> str:
    parts = []
    for item in group.items:
        if item is None or item.value is None:
            continue
        value = item.value if isinstance(item.value, str) else _flat(item.value)
        parts.append(f"{item.key} = {value}" if item.key else value)
    inside = ", ".join(parts)
    return f"{{ {inside} }}" if group.ends == "{}" and inside else f"{group.ends[0]}{inside}{group.ends[1]}"


def _tall(group: _Group, indent: str) -> str:
    """A group on several lines. A table that was written on one line stays one, around what is tall in it."""
    if group.ends == "{}" and not group.tall:
        return "{ " + ", ".join(_pair(item, indent) for item in group.items if item) + " }"
    deeper = indent + _INDENT
    lines = []
    for item in group.items:
        if item is None:
            lines.append("")
        elif item.value is None:
            lines.append(deeper + item.comment)
        else:
            lines.append(f"{deeper}{_pair(item, deeper)},{' ' if item.comment else ''}{item.comment}")
    return "\n".join([group.ends[0], *lines, indent + group.ends[1]]) if lines else group.ends
