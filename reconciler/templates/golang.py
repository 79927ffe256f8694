"""The functions that Go's templates have themselves, but for ``and`` and ``or``, which do not always look at
all of their arguments and so belong to the executor.

A table of functions gives each its callable and the kinds of its arguments, one letter each: ``s`` a text,
``i`` a whole number, ``b`` a truth value, ``l`` a list, ``d`` a map, ``a`` anything. ``*`` after the last
lets it stand any number of times, none included.
"""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote_plus

from reconciler.templates import comparing, formats, printing, values
from reconciler.templates.values import MISSING, Record, Unusable

Entry = tuple[Callable[..., Any], str]


def _print(*args: object) -> str:
    """``fmt.Sprint``: a blank between two arguments neither of which is a text."""
    return printing.written(_spaced(args))


def _spaced(args: tuple[object, ...]) -> Any:
    for at, arg in enumerate(args):
        if at and not isinstance(arg, str) and not isinstance(args[at - 1], str):
            yield " "
        yield printing.text(arg)


def _println(*args: object) -> str:
    return printing.written((" " if at else "") + printing.text(arg) for at, arg in enumerate(args)) + "\n"


def _len(value: object) -> int:
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, list | tuple | dict):
        return len(value)
    raise Unusable(f"{values.type_name(value)} has no length")


def _index(value: object, *keys: object) -> object:
    if value is None:
        raise Unusable("nothing cannot be indexed")
    for key in keys:
        value = _item(value, key)
    return value


def _item(value: object, key: object) -> object:
    if isinstance(value, dict):
        if not isinstance(key, str):
            raise Unusable(f"a map is indexed by a text, not by {values.type_name(key)}")
        return value.get(key, MISSING)
    if not isinstance(value, str | list | tuple):
        raise Unusable(f"{values.type_name(value)} cannot be indexed")
    if not isinstance(key, int) or isinstance(key, bool):
        raise Unusable(f"a list is indexed by a whole number, not by {values.type_name(key)}")
    inner = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    if not 0 <= key < len(inner):
        raise Unusable(f"the index {key} is out of range")
    return inner[key]


_BASIC = (bool, int, float, str, type(None))


def _equal(first: object, *others: object) -> bool:
    if not others:
        raise Unusable("it needs something to compare with")
    return any(_same(first, other) for other in others)


def _same(one: object, other: object) -> bool:
    if one is None or other is None:
        return one is other
    for value in (one, other):
        if isinstance(value, list | tuple | dict | Record):
            raise Unusable(f"{values.type_name(value)} cannot be compared: use deepEqual")
    if type(one) is not type(other) and not (values.is_number(one) and values.is_number(other)):
        raise Unusable(f"cannot compare {values.type_name(one)} and {values.type_name(other)}")
    return comparing.same(one, other)


def _at_most(one: object, other: object) -> bool:
    return not comparing.before(other, one)


_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;", "\0": "\ufffd"})
_JS = str.maketrans(
    {"\\": "\\\\", "'": "\\'", '"': '\\"', "<": "\\u003C", ">": "\\u003E", "&": "\\u0026", "=": "\\u003D"}
)


def _told(args: tuple[object, ...]) -> list[object]:
    """The arguments of an escaper, which says ``<no value>`` for nothing."""
    return [printing.printed(arg) if arg is None else arg for arg in args]


def _js(*args: object) -> str:
    text = _print(*_told(args)).translate(_JS)
    return "".join(char if char >= " " else f"\\u{ord(char):04X}" for char in text)


def _call(value: object, *_: object) -> object:
    raise Unusable(f"{values.type_name(value)} is no function")


FUNCTIONS: Mapping[str, Entry] = {
    "print": (_print, "a*"),
    "println": (_println, "a*"),
    "printf": (lambda form, *args: formats.formatted(form, list(args)), "sa*"),
    "len": (_len, "a"),
    "index": (_index, "aa*"),
    "eq": (_equal, "aa*"),
    "ne": (lambda one, other: not _same(one, other), "aa"),
    "lt": (comparing.before, "aa"),
    "le": (_at_most, "aa"),
    "gt": (lambda one, other: comparing.before(other, one), "aa"),
    "ge": (lambda one, other: _at_most(other, one), "aa"),
    "not": (lambda value: not values.truth(value), "a"),
    "html": (lambda *args: _print(*_told(args)).translate(_HTML), "a*"),
    "js": (_js, "a*"),
    "urlquery": (lambda *args: quote_plus(_print(*_told(args)), safe="", errors="replace"), "a*"),
    "call": (_call, "aa*"),
}
