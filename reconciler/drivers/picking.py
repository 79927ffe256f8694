"""Values out of JSON that a stranger wrote: the one that is wanted, or nothing. Nothing here raises."""

from collections.abc import Mapping, Sequence

import orjson

_MOST = 2**53


def parsed(body: bytes | str) -> dict[str, object] | None:
    """The JSON object that it is, or None."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def at(value: object, path: str) -> object:
    """What stands at the dotted path, list places by number; None where nothing does."""
    for key in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value


def text(value: object) -> str:
    """The text that it is, or none."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    """The count that it is, or 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST else 0


def number(value: object) -> float | None:
    """The finite number that it is, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_MOST < value < _MOST:
        return None
    return float(value)


def records(value: object) -> Sequence[Mapping[str, object]]:
    """The objects of a list; () where it is no list of objects alone."""
    if isinstance(value, list) and all(isinstance(one, dict) for one in value):
        return value
    return ()
