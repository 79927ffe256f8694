"""``printf``: Go's verbs and flags, and its words for arguments that do not fit them; and the quoting of
``%q``.
"""

import re
from collections.abc import Iterator

from reconciler.templates import comparing, printing, values
from reconciler.templates.values import Record, Unusable

_VERB = re.compile(r"%([+\-# 0]*)(\*|[0-9]+)?(?:\.(\*|[0-9]*))?(.)?", re.DOTALL)
_WIDEST = 10_000  # what a verb pads to at most, and digits it shows
_BASES = {"d": (10, ""), "b": (2, "0b"), "o": (8, "0"), "O": (8, "0o"), "x": (16, "0x"), "X": (16, "0X")}
_NUMBERS = frozenset("dboOxXcqU")
_BROKEN = frozenset("eEfFgG")


class _Verb:
    """One verb with its flags."""

    __slots__ = ("flags", "letter", "precision", "width")

    def __init__(self, flags: str, width: int | None, precision: int | None, letter: str) -> None:
        self.flags = flags
        self.width = width
        self.precision = precision
        self.letter = letter


def formatted(form: str, args: list[object]) -> str:
    """``form`` with its verbs filled from ``args``, as ``fmt.Sprintf`` does; raises Unusable where it is too
    long.
    """
    return printing.written(_filled(form, args))


def _filled(form: str, args: list[object]) -> Iterator[str]:
    done, taken = 0, 0
    for match in _VERB.finditer(form):
        yield form[done : match.start()]
        done = match.end()
        flags, letter = match[1], match[4]
        if letter is None:
            yield "%!(NOVERB)"
            continue
        if letter == "%":
            yield "%"
            continue
        sizes: list[int | None] = []
        for size in (match[2], match[3]):
            star = size == "*" and taken < len(args)
            sizes.append(_size(args[taken] if star else size, flagged=match[0]))
            taken += star
        width, precision = sizes
        if width is not None and width < 0:
            flags, width = flags + "-", -width
        if taken >= len(args):
            yield f"%!{letter}(MISSING)"
            continue
        yield _one(_Verb(flags, width, precision, letter), args[taken])
        taken += 1
    yield form[done:]
    if taken < len(args):
        extra = ", ".join(f"{values.type_name(arg)}={printing.text(arg)}" for arg in args[taken:])
        yield f"%!(EXTRA {extra})"


def _size(size: object, *, flagged: str) -> int | None:
    if size is None:
        return None
    number = (
        size if isinstance(size, int) else int(str(size) or 0) if str(size).isdigit() or size == "" else 0
    )
    if abs(number) > _WIDEST:
        raise Unusable(f"{flagged[:20]!r} is wider than {_WIDEST} characters")
    return number


def _one(verb: _Verb, value: object) -> str:
    """One value by one verb, padded; of what holds others, each of them."""
    whole = verb.letter == "T" or (verb.letter == "v" and ("#" in verb.flags or not verb.width))
    if not whole and isinstance(value, list | tuple | dict):
        comparing.bounded(value)
        return printing.written(_each(verb, value))
    shown = _shown(verb, value)
    if shown is None:
        told = "" if value is None else f"{values.type_name(value)}="
        plainly = _Verb(verb.flags, None if value is None else verb.width, verb.precision, "v")
        return f"%!{verb.letter}({told}{_one(plainly, value)})"
    return _padded(verb, shown)


def _each(verb: _Verb, value: list[object] | tuple[object, ...] | dict[str, object]) -> Iterator[str]:
    mapped = isinstance(value, dict)
    yield "map[" if mapped else "["
    for at, key in enumerate(sorted(value) if isinstance(value, dict) else value):
        yield " " if at else ""
        yield _one(verb, key)
        if isinstance(value, dict):
            yield ":" + _one(verb, value[str(key)])
    yield "]"


def _shown(verb: _Verb, value: object) -> str | None:
    """The value by the verb without its width; None where they do not fit."""
    letter = verb.letter
    shown: str | None = None
    if letter == "T":
        shown = values.type_name(value)
    elif letter == "v":
        shown = _plainly(verb, value)
    elif isinstance(value, bool):
        shown = printing.text(value) if letter == "t" else None
    elif isinstance(value, str):
        shown = _string(verb, value)
    elif isinstance(value, int):
        shown = _whole(verb, value) if letter in _NUMBERS else None
    elif isinstance(value, float):
        shown = _broken(verb, value) if letter in _BROKEN else None
    elif letter == "s" and value is not None and not isinstance(value, Record):
        shown = printing.text(value)
    return shown


def _string(verb: _Verb, value: str) -> str | None:
    cut = value if verb.precision is None else value[: verb.precision]
    if verb.letter == "s":
        return cut
    if verb.letter == "q":
        raw = "#" in verb.flags and "`" not in cut and all(char == "\t" or char >= " " for char in cut)
        return f"`{cut}`" if raw else quoted(cut, ascii_only="+" in verb.flags)
    if verb.letter in {"x", "X"}:
        digits = cut.encode("utf-8", "replace").hex(" " if " " in verb.flags else "\x00").replace("\x00", "")
        digits = "0x" + digits if "#" in verb.flags and digits else digits
        return digits.upper() if verb.letter == "X" else digits
    return None


def _whole(verb: _Verb, value: object) -> str:
    number = int(value) if isinstance(value, int) else 0
    if verb.letter in {"c", "q", "U"}:
        char = chr(number) if 0 <= number <= 0x10FFFF and not 0xD800 <= number < 0xE000 else "\ufffd"
        return {"c": char, "q": f"'{_escaped(char, quote=chr(39))}'", "U": f"U+{number:04X}"}[verb.letter]
    base, prefix = _BASES[verb.letter]
    digits = format(abs(number), {10: "d", 2: "b", 8: "o", 16: "x"}[base])
    if verb.letter == "X":
        digits = digits.upper()
    sign = _sign(verb, negative=number < 0)
    prefix = prefix if "#" in verb.flags or verb.letter == "O" else ""
    least = verb.precision or 0
    if verb.precision is None and _zeroed(verb):
        least = (verb.width or 0) - len(sign) - len(prefix)
    return sign + prefix + digits.rjust(least, "0")


def _broken(verb: _Verb, value: float) -> str:
    letter = verb.letter.replace("F", "f")
    if verb.precision is None and letter in {"g", "G"}:
        shown = printing.number(abs(value))
        shown = shown.upper() if letter == "G" else shown
    else:
        precision = 6 if verb.precision is None else verb.precision
        shown = format(abs(value), f"{'#' if '#' in verb.flags else ''}.{precision}{letter}")
    sign = _sign(verb, negative=str(value).startswith("-"))
    if _zeroed(verb) and shown[:1].isdigit():
        shown = shown.rjust((verb.width or 0) - len(sign), "0")
    return sign + shown.lstrip("+")


def _sign(verb: _Verb, *, negative: bool) -> str:
    if negative:
        return "-"
    return "+" if "+" in verb.flags else " " if " " in verb.flags else ""


def _zeroed(verb: _Verb) -> bool:
    return "0" in verb.flags and "-" not in verb.flags


def _padded(verb: _Verb, shown: str) -> str:
    width = verb.width or 0
    return shown.ljust(width) if "-" in verb.flags else shown.rjust(width)


def _plainly(verb: _Verb, value: object) -> str:
    """``%v``, by whose flags a whole number is signed and filled with zeros; ``%#v``."""
    if "#" in verb.flags:
        comparing.bounded(value)
        return _syntax(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return _whole(_Verb(verb.flags.replace("+", ""), verb.width, verb.precision, "d"), value)
    return printing.text(value)


def _syntax(value: object) -> str:
    """``%#v``: the value as Go would write it."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list | tuple):
        return f"{values.type_name(value)}{{{', '.join(_syntax(item) for item in value)}}}"
    if isinstance(value, dict):
        pairs = ", ".join(f"{quoted(key)}:{_syntax(value[key])}" for key in sorted(value))
        return f"{values.type_name(value)}{{{pairs}}}"
    return printing.text(value)


_NAMED = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
}


def quoted(text: str, *, ascii_only: bool = False) -> str:
    """``text`` as Go's ``strconv.Quote`` writes it."""
    return '"' + "".join(_escaped(char, quote='"', ascii_only=ascii_only) for char in text) + '"'


def _escaped(char: str, *, quote: str, ascii_only: bool = False) -> str:
    if char in _NAMED or char == quote:
        return _NAMED.get(char, "\\" + char)
    number = ord(char)
    if char.isprintable() and not (ascii_only and number > 0x7F):
        return char
    if number < 0x80:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"
