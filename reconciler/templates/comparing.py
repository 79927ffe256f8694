"""Equality and order of a template's values, and how much of one may be walked.

Numbers compare across their kinds: ``1`` equals ``1.0``, which Go refuses to ask. Every walk is bounded, for
a template can build a value that is far larger seen whole than kept.
"""

from collections.abc import Iterator

from reconciler.templates import metering
from reconciler.templates.values import DEEPEST, Missing, Record, Unusable, inside, is_number, type_name

_AT_ONCE = 64  # values that are paid for together, a step each
_MOST_COMPARED = 200_000  # values that one walk looks at


def same(one: object, other: object) -> bool:
    """Whether two values are equal in depth; numbers by their value, whatever their kind."""
    left: list[tuple[object, object, int]] = [(one, other, 0)]
    looked = 0
    metering.spend(1)
    while left:
        a, b, depth = left.pop()
        looked += 1
        if looked % _AT_ONCE == 0:
            metering.spend(_AT_ONCE)
        if looked > _MOST_COMPARED or depth > DEEPEST:
            raise Unusable("the values are too large to compare")
        inside = _pairs(a, b)
        if inside is None:
            return False
        left.extend((x, y, depth + 1) for x, y in inside)
    return True


def bounded(value: object) -> None:
    """Raise Unusable for a value that is too deep, or holds too much, to be walked by a function."""
    left: list[tuple[object, int]] = [(value, 0)]
    looked = 0
    while left:
        inner, depth = left.pop()
        looked += 1
        if looked % _AT_ONCE == 0:
            metering.spend(_AT_ONCE)
        if looked > _MOST_COMPARED or depth > DEEPEST:
            raise Unusable(
                f"the value holds more than {_MOST_COMPARED} others, or is more than {DEEPEST} deep"
            )
        left.extend((item, depth + 1) for item in inside(inner))


def _pairs(a: object, b: object) -> Iterator[tuple[object, object]] | None:
    """What must be equal for ``a`` and ``b`` to be; None where they differ already."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return zip(a, b, strict=True) if len(a) == len(b) else None
    if isinstance(a, dict) and isinstance(b, dict):
        return ((a[key], b[key]) for key in a) if a.keys() == b.keys() else None
    if isinstance(a, Record) and isinstance(b, Record):
        return iter([(dict(a.fields), dict(b.fields))])
    a, b = _bare(a), _bare(b)
    alike = type(a) is type(b) or (is_number(a) and is_number(b))
    return iter(()) if alike and a == b else None


def _bare(value: object) -> object:
    return None if isinstance(value, Missing) else value


def before(one: object, other: object) -> bool:
    """Whether ``one < other``: numbers across their kinds, texts by their bytes; raises Unusable."""
    if is_number(one) and is_number(other):
        return one < other  # type: ignore[operator, no-any-return]
    if isinstance(one, str) and isinstance(other, str):
        return one.encode("utf-8", "surrogatepass") < other.encode("utf-8", "surrogatepass")
    raise Unusable(f"cannot order {type_name(one)} and {type_name(other)}")
