"""JSON read strictly, at the speed of orjson: what parsers are known to differ on is refused. Pure.

orjson refuses bad UTF-8, lone surrogates, NaN and numbers beyond a double. What it lets through (duplicate
keys, depth up to 1,023, integers beyond 64 bits turned into floats) is checked against the raw bytes, most
often by writing the value again and finding the same bytes.
"""

import json
from typing import Any, NoReturn

import orjson

MAX_DEPTH = 64

_TOO_DEEP = f"it is nested deeper than {MAX_DEPTH} levels"
_COUNTED = 1024  # bytes of a text short enough to count its brackets
_NOT_OPENING = bytes(set(range(256)) - set(b"[{"))
_INT64 = 2.0**63
_MAX_DIGITS = 21


def parse(line: bytes) -> Any:
    """Read strict JSON; raises ValueError with one clause that repeats nothing of the input."""
    try:
        value = orjson.loads(line)
        same = orjson.dumps(value)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"this is not JSON at character {error.pos + 1}") from None
    except TypeError:  # orjson writes 254 levels
        raise ValueError(_TOO_DEEP) from None
    # The same bytes again (and the line's end): no key stood twice, no number was bent.
    if len(line) - len(same) > 1 or not line.startswith(same):
        _need_single_keys(line, value)
    if (
        (len(line) > _COUNTED or len(line.translate(None, _NOT_OPENING)) > MAX_DEPTH)
        and (type(value) is dict or type(value) is list)
        and not _fits(value, MAX_DEPTH - 1)
    ):
        raise ValueError(_TOO_DEEP)
    return value


def _fits(node: Any, levels: int) -> bool:
    """Whether what lies in a container is at most ``levels`` deep."""
    for item in node.values() if type(node) is dict else node:
        kind = type(item)
        if (kind is dict or kind is list) and not (levels and _fits(item, levels - 1)):
            return False
    return True


def _need_single_keys(line: bytes, value: Any) -> None:
    """Check a line that is not written as we write: count its members, or read it again, slowly.

    Every member has a colon outside of strings. So when the colons of the line, less those inside of its
    strings, are as many as the members that were read, none was lost to a second one of the same name.
    """
    if b"\\u003" not in line:
        found = _members(value)
        if found is not None and found == line.count(b":"):
            return
    _read_slowly(line)


def _members(value: Any) -> int | None:
    """Members and colons inside strings; None where a number may have been bent."""
    total = 0
    stack = [value]
    while stack:
        node = stack.pop()
        kind = type(node)
        if kind is str:
            total += node.count(":")
        elif kind is dict:
            total += len(node)
            stack.extend(node)
            stack.extend(node.values())
        elif kind is list:
            stack.extend(node)
        elif kind is float and not -_INT64 < node < _INT64:
            return None
    return total


def _read_slowly(line: bytes) -> None:
    def single(pairs: list[tuple[str, Any]]) -> None:
        if len({key for key, _ in pairs}) != len(pairs):
            raise ValueError("a key stands twice in one object")

    def fits(text: str) -> int:
        if len(text) > _MAX_DIGITS or not -(2**63) <= int(text) < 2**64:
            raise ValueError("an integer does not fit 64 bits")
        return 0

    try:
        json.loads(line.decode(), object_pairs_hook=single, parse_int=fits, parse_constant=_refuse)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def _refuse(_: str) -> NoReturn:
    raise ValueError("a number is not finite")
