"""JSON read strictly, at the speed of orjson: what parsers are known to differ on is refused. Pure.

orjson refuses bad UTF-8, lone surrogates, NaN and numbers beyond a double. What it lets through (duplicate
keys, depth up to 1,023, integers beyond 64 bits turned into floats) is checked against the raw bytes, most
often by writing the value again and finding the same bytes.
"""

import re
from typing import Any

import orjson

MAX_DEPTH = 64

_WITH_END = orjson.OPT_APPEND_NEWLINE
TOO_DEEP = f"it is nested deeper than {MAX_DEPTH} levels"
_COUNTED = 1024  # bytes of a text short enough to count its brackets
_NOT_OPENING = bytes(set(range(256)) - set(b"[{"))
_MAX_DIGITS = 21
_MANY_DIGITS = re.compile(rb"[0-9]{19}")
_LONG_INTEGER = re.compile(rb"(?<![0-9.eE+-])-?[0-9]{19,}+(?![.eE])")


def parse(line: bytes) -> Any:
    """Read strict JSON; raises ValueError with one clause that repeats nothing of the input."""
    value = read(line)
    if not is_shallow(line, value):
        raise ValueError(TOO_DEEP)
    return value


def read(line: bytes) -> Any:
    """As ``parse``, but for the depth: up to 253 levels pass, for who bounds them by other means."""
    try:
        value = orjson.loads(line)
        same = orjson.dumps(value, None, _WITH_END)
    except orjson.JSONDecodeError as error:
        raise ValueError(_unread(line, error.pos)) from None
    except TypeError:  # orjson writes 254 levels
        raise ValueError(TOO_DEEP) from None
    # The same bytes again: no key stood twice, no number was bent.
    if line != same:
        need_exact(line, same)
    return value


def _unread(line: bytes, at: int) -> str:
    """Why a line could not be read; orjson says of bytes that are no text no more than the line's start."""
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return f"this is not UTF-8 at byte {error.start + 1}"
    return f"this is not JSON at character {at + 1}"


def is_shallow(line: bytes, value: Any) -> bool:
    """Whether what was read of a line is nested at most ``MAX_DEPTH`` levels deep."""
    if len(line) <= _COUNTED and len(line.translate(None, _NOT_OPENING)) <= MAX_DEPTH:
        return True
    return fits(value)


def fits(value: Any, levels: int = MAX_DEPTH) -> bool:
    """Whether a value is nested at most so many levels deep; a plain one has none."""
    return (type(value) is not dict and type(value) is not list) or (levels > 0 and _fits(value, levels - 1))


def _fits(node: Any, levels: int) -> bool:
    """Whether what lies in a container is at most ``levels`` deep."""
    for item in node.values() if type(node) is dict else node:
        kind = type(item)
        if (kind is dict or kind is list) and not (levels and _fits(item, levels - 1)):
            return False
    return True


def need_exact(line: bytes, same: bytes) -> None:
    """Check a line against what was read of it, written anew; ValueError when a member was lost or an integer
    bent.

    Every member has a colon outside of strings, and what a string holds is the same in both. So when both
    have as many colons, no member was lost to a second one of the same name. An integer that was bent stands
    in the line, outside of strings, with at least 19 digits. Never a second reading: everybody waits for it.
    """
    if same.count(b":") != _colons(line):
        raise ValueError("a key stands twice in one object")
    if _MANY_DIGITS.search(line):
        for digits in _LONG_INTEGER.findall(_outside(line)):
            if len(digits) > _MAX_DIGITS or not -(2**63) <= int(digits) < 2**64:
                raise ValueError("an integer does not fit 64 bits")


def _outside(line: bytes) -> bytes:
    """What of a line stands outside of strings."""
    return b'"'.join(line.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])


def _colons(line: bytes) -> int:
    """Colons of a line, those written as an escape included."""
    if b"\\u003" not in line:
        return line.count(b":")
    single = line.replace(b"\\\\", b"")  # what is left of a run of backslashes escapes what follows it
    return line.count(b":") + single.count(b"\\u003a") + single.count(b"\\u003A")
