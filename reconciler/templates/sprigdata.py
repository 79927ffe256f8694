"""Sprig's functions of lists and maps, and of what stands in for nothing.

A list is never changed: functions give new ones. A map is changed only by ``set``, ``unset`` and ``merge``,
and only one that the template made itself: a variable of the run is not the template's to change.
"""

from collections.abc import Callable, Mapping, Sequence

from reconciler.templates import comparing, golang, printing, values
from reconciler.templates.values import Owned, Unusable

List = Sequence[object]


def _own(value: dict[str, object]) -> Owned:
    if not isinstance(value, Owned):
        raise Unusable("this map belongs to the run: change a deepCopy of it")
    return value


def _apart(whole: Owned, value: object) -> None:
    """Refuse to put a map into itself, however deep: nothing could walk it to an end."""
    comparing.bounded(value)
    left = [value]
    while left:
        inner = left.pop()
        if inner is whole:
            raise Unusable("a map cannot stand in itself")
        left.extend(
            inner.values() if isinstance(inner, dict) else inner if isinstance(inner, list | tuple) else ()
        )


def _dict(*pairs: object) -> Owned:
    made = Owned()
    for at in range(0, len(pairs), 2):
        made[printing.text(pairs[at])] = pairs[at + 1] if at + 1 < len(pairs) else ""
    return made


def _set(whole: dict[str, object], key: str, value: object) -> Owned:
    own = _own(whole)
    _apart(own, value)
    own[key] = value
    return own


def _unset(whole: dict[str, object], key: str) -> Owned:
    own = _own(whole)
    own.pop(key, None)
    return own


def _get(whole: dict[str, object], key: str) -> object:
    return whole.get(key, "")


def _maps(args: Sequence[object]) -> list[dict[str, object]]:
    for arg in args:
        if arg is not None and not isinstance(arg, dict):
            raise Unusable(f"it takes maps, not {values.type_name(arg)}")
    return [arg for arg in args if isinstance(arg, dict)]


def _pluck(key: str, *wholes: object) -> list[object]:
    return [whole[key] for whole in _maps(wholes) if key in whole]


def _keys(*wholes: object) -> list[object]:
    return [key for whole in _maps(wholes) for key in sorted(whole)]


def _pick(whole: dict[str, object], *keys: str) -> Owned:
    return Owned({key: whole[key] for key in keys if key in whole})


def _omit(whole: dict[str, object], *keys: str) -> Owned:
    return Owned({key: value for key, value in whole.items() if key not in keys})


def _merged(*, over: bool) -> Callable[..., Owned]:
    """``merge`` keeps what stands in the first map, ``mergeOverwrite`` (``over``) what comes later."""

    def merge(whole: dict[str, object], *others: object) -> Owned:
        own = _own(whole)
        for other in _maps(others):
            _apart(own, other)
            _merge(own, other, over=over)
        return own

    return merge


def _merge(own: Owned, other: Mapping[str, object], *, over: bool) -> None:
    for key, value in other.items():
        here = own.get(key)
        if isinstance(here, dict) and isinstance(value, dict):
            inner = Owned(here)
            _merge(inner, value, over=over)
            own[key] = inner
        elif not values.truth(here) or (over and values.truth(value)):
            own[key] = value


def _dig(*args: object) -> object:
    if len(args) < 3 or not isinstance(args[-1], dict):
        raise Unusable("it takes keys, then what stands in for nothing, then a map")
    *keys, fallback, value = args
    for key in keys:
        if not isinstance(key, str):
            raise Unusable(f"its keys are texts, not {values.type_name(key)}")
        if not isinstance(value, dict) or key not in value:
            return fallback
        value = value[key]
    return value


def _copied(value: object) -> object:
    comparing.bounded(value)
    return _copy(value)


def _copy(value: object) -> object:
    if isinstance(value, dict):
        return Owned({key: _copy(item) for key, item in value.items()})
    return [_copy(item) for item in value] if isinstance(value, list | tuple) else value


def _first(items: List) -> object:
    return items[0] if items else None


def _last(items: List) -> object:
    return items[-1] if items else None


def _concat(*lists: List) -> list[object]:
    return [item for items in lists for item in items]


def _uniq(items: List) -> list[object]:
    out: list[object] = []
    for item in items:
        if not _within(out, item):
            out.append(item)
    return out


def _within(items: List, needle: object) -> bool:
    return any(comparing.same(item, needle) for item in items)


_MOST_PAIRS = 1_000_000  # comparisons of one call


def _without(items: List, *gone: object) -> list[object]:
    _compared(len(items), len(gone))
    return [item for item in items if not _within(gone, item)]


def _compared(one: int, other: int) -> None:
    if one * other > _MOST_PAIRS:
        raise Unusable(f"it would compare more than {_MOST_PAIRS} pairs")


def _unique(items: List) -> list[object]:
    _compared(len(items), len(items))
    return _uniq(items)


def _has(needle: object, items: object) -> bool:
    if items is None:
        return False
    if not isinstance(items, list | tuple):
        raise Unusable(f"it looks through a list, not {values.type_name(items)}")
    return _within(items, needle)


def _slice(items: List, *ends: int) -> list[object]:
    start, end = (ends[0] if ends else 0), (ends[1] if len(ends) > 1 else len(items))
    if not 0 <= start <= end <= len(items):
        raise Unusable("the slice is out of range")
    return list(items[start:end])


def _chunk(size: int, items: List) -> list[list[object]]:
    if size < 1:
        raise Unusable("a chunk holds 1 item or more")
    return [list(items[at : at + size]) for at in range(0, len(items), size)]


def _default(fallback: object, *given: object) -> object:
    return given[0] if given and values.truth(given[0]) else fallback


def _coalesce(*args: object) -> object:
    return next((arg for arg in args if values.truth(arg)), None)


def _ternary(yes: object, no: object, which: object) -> object:
    if not isinstance(which, bool):
        raise Unusable(f"it decides by true or false, not by {values.type_name(which)}")
    return yes if which else no


def _fail(message: str) -> object:
    raise Unusable(message[:200])


def _values(whole: dict[str, object]) -> list[object]:
    return [whole[key] for key in sorted(whole)]


def _compact(items: List) -> list[object]:
    return [item for item in items if values.truth(item)]


_LISTS: Mapping[str, golang.Entry] = {
    "append": (lambda items, item: [*items, item], "la"),
    "push": (lambda items, item: [*items, item], "la"),
    "prepend": (lambda items, item: [item, *items], "la"),
    "first": (_first, "l"),
    "last": (_last, "l"),
    "rest": (lambda items: list(items[1:]), "l"),
    "initial": (lambda items: list(items[:-1]), "l"),
    "reverse": (lambda items: list(items[::-1]), "l"),
    "uniq": (_unique, "l"),
    "without": (_without, "la*"),
    "has": (_has, "aa"),
    "slice": (_slice, "li*"),
    "compact": (_compact, "l"),
    "chunk": (_chunk, "il"),
}


FUNCTIONS: Mapping[str, golang.Entry] = {
    **_LISTS,
    **{f"must{name[0].upper()}{name[1:]}": entry for name, entry in _LISTS.items()},
    "list": (lambda *items: list(items), "a*"),
    "tuple": (lambda *items: list(items), "a*"),
    "concat": (_concat, "l*"),
    "dict": (_dict, "a*"),
    "get": (_get, "ds"),
    "set": (_set, "dsa"),
    "unset": (_unset, "ds"),
    "hasKey": (lambda whole, key: key in whole, "ds"),
    "pluck": (_pluck, "sa*"),
    "keys": (_keys, "a*"),
    "values": (_values, "d"),
    "pick": (_pick, "ds*"),
    "omit": (_omit, "ds*"),
    "merge": (_merged(over=False), "da*"),
    "mustMerge": (_merged(over=False), "da*"),
    "mergeOverwrite": (_merged(over=True), "da*"),
    "mustMergeOverwrite": (_merged(over=True), "da*"),
    "dig": (_dig, "a*"),
    "deepCopy": (_copied, "a"),
    "mustDeepCopy": (_copied, "a"),
    "default": (_default, "aa*"),
    "empty": (lambda value: not values.truth(value), "a"),
    "coalesce": (_coalesce, "a*"),
    "all": (lambda *args: all(values.truth(arg) for arg in args), "a*"),
    "any": (lambda *args: any(values.truth(arg) for arg in args), "a*"),
    "ternary": (_ternary, "aaa"),
    "fail": (_fail, "s"),
}
