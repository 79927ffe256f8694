"""Bytes to text that is safe to parse: the faults that a parser would report badly, late, or not at all.

All of it looks at bytes and characters before any parser does, and costs about as much as the decoding: that
is what bounds a parse, so no thread or timer is needed. A byte order mark and CRLF are accepted; other
encodings, control and hidden characters, conflict markers and structure beyond any real file are each refused
with their own words. A fault never repeats what stands in the text, since a secret may stand there.
"""

import re
from collections import Counter
from dataclasses import dataclass

from reconciler.model.names import ObjectRef
from reconciler.model.problems import Problem, Span

MAX_BYTES = 2**20  # a hundred times the largest real file; bounds every parse below a second
MAX_NESTING = 32
MAX_KEY_PARTS = 32
_MAX_MARKS = 20_000  # brackets, and dots in keys: a parser's time grows faster than their number

TOO_LARGE = "S206"  # the code of a file beyond its size, whoever finds it
_BOM = "\ufeff"
_WHY_UTF8 = "configuration files are UTF-8 text"


@dataclass(frozen=True, slots=True)
class TextFault:
    """Why a text was not taken in, at a line and column from 1, in characters. It has no values in it."""

    line: int
    column: int
    what: str
    why: str
    mend: str
    code: str
    reason: str = "SchemaInvalid"

    def problem(self, file: str, about: ObjectRef | None = None) -> Problem:
        """The fault as a problem of the file that it was found in."""
        at = Span(file, self.line, self.column)
        return Problem(self.code, self.what, self.why, self.mend, at, about=about, reason=self.reason)


def decoded(data: bytes) -> str | TextFault:
    """The text of a file without its byte order mark, or the first thing that is wrong with its bytes."""
    if len(data) > MAX_BYTES:
        return TextFault(
            1,
            1,
            f"the file has {len(data):,} bytes, more than {MAX_BYTES:,}",
            "a file that takes long to read would hold up every other one",
            "split it, or keep data in files of its own",
            TOO_LARGE,
        )
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in data:
        return _wide_fault(data)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return _byte_fault(data, error.start)
    if _is_plain(data):
        return conflict(text) or _structure_fault(text) or text
    text = text.removeprefix(_BOM)
    return _character_fault(text) or conflict(text) or _structure_fault(text) or text


def position(text: str, offset: int) -> tuple[int, int]:
    """The line and column, from 1, of a character offset."""
    start = text.rfind("\n", 0, offset) + 1
    return text.count("\n", 0, start) + 1, offset - start + 1


def comments(text: str) -> Counter[str]:
    """Every comment of a TOML text, by how often it stands there."""
    return Counter(found[0].rstrip("\r") for found in _TOKEN.finditer(text) if found[0].startswith("#"))


# bytes


def _wide_fault(data: bytes) -> TextFault:
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff") or data.count(0) * 3 > len(data)
    if wide:
        return TextFault(1, 1, "the file is UTF-16 or UTF-32", _WHY_UTF8, "save it as UTF-8", "S202")
    line, column = _place(data, data.index(0))
    return TextFault(line, column, "a NUL byte stands here", _WHY_UTF8, "remove it", "S204")


def _byte_fault(data: bytes, offset: int) -> TextFault:
    line, column = _place(data, offset)
    shown = f"0x{data[offset]:02X}"
    mend = "save the file as UTF-8, not as Latin-1"
    return TextFault(line, column, f"the byte {shown} is not UTF-8", _WHY_UTF8, mend, "S203")


def _place(data: bytes, offset: int) -> tuple[int, int]:
    before = data[:offset].decode(errors="replace").removeprefix(_BOM)
    return position(before, len(before))


# characters


def _is_plain(data: bytes) -> bool:
    """Whether the bytes are printable ASCII, tabs and line feeds: most files are, and it is seen at once."""
    return data.isascii() and not data.translate(None, _PLAIN)


_PLAIN = bytes([*b"\t\n", *range(0x20, 0x7F)])

# Controls other than tab and line feed, what has no width, and what turns the direction of reading. Joiners
# count only where no script needs them. Lone carriage returns are told apart from CRLF.
_ODD = re.compile(
    "[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    "|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])|[\u200c\u200d]{2}"
    "|\r(?!\n)"
)


def _character_fault(text: str) -> TextFault | None:
    found = _ODD.search(text)
    if found is None:
        return None
    line, column = position(text, found.start())
    character = found[0][0]
    shown = f"U+{ord(character):04X}"
    if character == "\r":
        return TextFault(
            line,
            column,
            "a carriage return stands alone here",
            "lines end with LF or CRLF",
            "save the file with LF line ends",
            "S205",
        )
    if character < "\xa0":
        what = f"the control character {shown} stands here"
        return TextFault(line, column, what, _WHY_UTF8, "remove it", "S204")
    return TextFault(
        line,
        column,
        f"the character {shown} stands here and cannot be seen",
        "what a reviewer cannot see must not reach a model",
        f"remove {shown}, or write it as an escape in double quotes",
        "S212",
    )


# conflict markers

_MARKER = re.compile(r"^(?:<{7}|>{7}|\|{7})(?: .*)?\r?$|^={7}\r?$", re.MULTILINE)


def conflict(text: str, *, stopped_at: int = 0) -> TextFault | None:
    """The first conflict marker of a merge, when a whole conflict stands in the text.

    Where a parser stopped, its line is given, and less will do: any arrow, or the middle line itself.
    """
    if not stopped_at and ("<<<<<<<" not in text or ">>>>>>>" not in text):
        return None
    found = [(marker[0][0], *position(text, marker.start())) for marker in _MARKER.finditer(text)]
    kinds = {kind for kind, _, _ in found}
    meant = {"<", "=", ">"} <= kinds
    if stopped_at:
        meant = bool(kinds & {"<", ">", "|"}) or any(line == stopped_at for _, line, _ in found)
    if not meant:
        return None
    return TextFault(
        *found[0][1:],
        "a merge conflict stands here",
        "both sides of a conflict cannot be meant",
        "resolve the conflict and remove its markers",
        "S201",
        "MergeConflict",
    )


# structure

# Strings and comments whole, so that nothing inside them counts; then what nests and what parts keys. Every
# alternative ends at the end of its line or of the text at the latest, and gives nothing back: linear.
_TOKEN = re.compile(  # unrolled, not possessive: CPython 3.11.2 gets possessive alternatives wrong
    r'"""[^"\\]*(?:(?:\\[\s\S]|"(?!""))[^"\\]*)*(?:"{3,5}|\Z)'
    r"|'''[^']*(?:'(?!'')[^']*)*(?:'{3,5}|\Z)"
    r'|"[^"\\\n]*(?:\\.[^"\\\n]*)*"?'
    r"|'[^'\n]*'?"
    r"|#[^\n]*"
    r"|[\[\]{}.,=\n]"
)


def _structure_fault(text: str) -> TextFault | None:
    """Nesting, key parts and marks beyond any real file; few files have marks enough for a close look."""
    if text.count(".") <= MAX_KEY_PARTS and text.count("[") + text.count("{") <= MAX_NESTING:
        return None
    depth = dots = dots_in_all = opened = 0
    for found in _TOKEN.finditer(text):
        mark = found[0]
        if mark == ".":
            dots, dots_in_all = dots + 1, dots_in_all + 1
        elif mark in "[{":
            depth, dots, opened = depth + 1, 0, opened + 1
        elif mark in "]}":
            depth, dots = max(depth - 1, 0), 0
        elif mark in ",=\n":
            dots = 0
        fault = _too_much(depth, dots, max(dots_in_all, opened))
        if fault:
            line, column = position(text, found.start())
            return TextFault(line, column, fault, "no file needs it", "write it flatter", "S207")
    return None


def _too_much(depth: int, dots: int, marks: int) -> str | None:
    if depth > MAX_NESTING:
        return f"brackets are nested more than {MAX_NESTING} deep here"
    if dots >= MAX_KEY_PARTS:
        return f"a key has more than {MAX_KEY_PARTS} parts here"
    if marks > _MAX_MARKS:
        return f"the file has more than {_MAX_MARKS:,} brackets or dotted keys"
    return None
