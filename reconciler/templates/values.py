"""What a template works on, and how Go would see it: kinds, types, truth.

Values are Python's own: None, bool, int, float, str, list or tuple, dict, an aware ``datetime``, and
``Record`` for what has named fields in Go. Two things differ from Go on purpose: whole numbers of JSON stay
whole, and numbers compare across their kinds (``1`` equals ``1.0``).

Whatever walks a value is bounded in depth and in what it writes, for a template can build a value that is far
larger printed than kept.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

LONGEST = 1 << 20  # characters of a text that a function makes, and of what is printed
MOST_ITEMS = 100_000  # of a list that a function makes
DEEPEST = 100  # values inside values that are walked


class Unusable(ValueError):  # noqa: N818 - the executor makes an error with a line of it
    """A function or an action cannot work on this value; the text says why."""


class Missing:
    """The value of a key that is not there: prints as ``<no value>``, also through further fields."""


MISSING = Missing()


@dataclass(frozen=True, slots=True)
class Record:
    """A value with named fields, as a struct of Go has: ``fields`` in Go's order, by Go's names.

    ``json`` is what ``toJson`` gives: the same by the names, and with the omissions, of its JSON form.
    """

    fields: Mapping[str, object]
    json: Mapping[str, object]


class Owned(dict[str, object]):
    """A dict that the template made itself, and so may change; those of the run it never may."""


@dataclass(frozen=True, slots=True)
class Duration:
    """A span of time, as Go's: prints as ``1m30s``."""

    ns: int


def is_number(value: object) -> bool:
    """Whether ``value`` is a number; a truth value is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    ((type(None), Missing), "invalid"),
    (bool, "bool"),
    (int, "int"),
    (float, "float64"),
    (str, "string"),
    ((list, tuple), "slice"),
    (dict, "map"),
    (Duration, "int64"),
)
_TYPES = {"slice": "[]interface {}", "map": "map[string]interface {}", "invalid": "<nil>"}


def kind(value: object) -> str:
    """Go's name for the kind of ``value``."""
    return next((name for types, name in _KINDS if isinstance(value, types)), "struct")


def type_name(value: object) -> str:
    """Go's name for the type of ``value``, as ``%T`` prints it."""
    if isinstance(value, datetime):
        return "time.Time"
    if isinstance(value, Duration):
        return "time.Duration"
    found = kind(value)
    return _TYPES.get(found, found)


def truth(value: object) -> bool:
    """Whether an ``if`` takes ``value``: all but false, 0, nothing and what is empty."""
    if isinstance(value, Record | datetime):
        return True
    if isinstance(value, Duration):
        return value.ns != 0
    return not isinstance(value, Missing) and bool(value)


def inside(value: object) -> Iterable[object]:
    """What ``value`` holds: items of a list, values of a map, fields of a record."""
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, Record):
        return value.fields.values()
    return value if isinstance(value, list | tuple) else ()
