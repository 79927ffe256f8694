"""Sprig's functions of numbers and of what a value is. Whole numbers are of 64 bits and wrap, as Go's do."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, InvalidOperation

from reconciler.templates import comparing, golang, printing, values
from reconciler.templates.values import MOST_ITEMS, Duration, Unusable

_HALF, _WHOLE = 1 << 63, 1 << 64
_DIGITS = 70  # of a number in 64 bits, with its prefix, and some


def wrapped(number: int) -> int:
    """``number`` in 64 bits, signed."""
    return (number + _HALF) % _WHOLE - _HALF


def whole(value: object) -> int:
    """What Sprig takes for a whole number; 0 for what is none."""
    match value:
        case bool() | int():
            return wrapped(int(value))
        case float():
            return wrapped(int(value)) if math.isfinite(value) else 0
        case str():
            return _read(value)
        case Duration():
            return value.ns
        case _:
            return 0


_PREFIXES = {"0x": 16, "0o": 8, "0b": 2}


def _read(text: str) -> int:
    """A whole number as Go's literals write it, zeros after a point cut off; 0 for what is none."""
    digits = re.sub(r"\.0*$", "", text)
    if re.fullmatch(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)", digits) is None:
        return 0
    bare = digits.lstrip("+-").lower()
    base = _PREFIXES.get(bare[:2], 8 if bare.startswith("0") else 10)
    number = int(bare[2:] if bare[:2] in _PREFIXES else bare, base) if len(bare) < _DIGITS else _HALF
    number = -number if digits.startswith("-") else number
    return number if -_HALF <= number < _HALF else 0


def broken(value: object) -> float:
    """What Sprig takes for a broken number; 0 for what is none."""
    if isinstance(value, bool | int | float):
        return float(value)
    if isinstance(value, str) and len(value) < 400:
        try:
            return float(value) if "_" not in value and value == value.strip() else 0.0
        except ValueError:
            return 0.0
    return 0.0


def _folded(fold: Callable[[int, int], int]) -> Callable[..., int]:
    def folded(first: object, *others: object) -> int:
        total = whole(first)
        for other in others:
            total = wrapped(fold(total, whole(other)))
        return total

    return folded


def _divided(one: int, other: int) -> int:
    if other == 0:
        raise Unusable("a number is divided by 0")
    return abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)


def _rest(one: int, other: int) -> int:
    return one - other * _divided(one, other)


def _decimals(fold: Callable[[Decimal, Decimal], Decimal]) -> Callable[..., float]:
    def folded(first: object, *others: object) -> float:
        total = Decimal(repr(broken(first)))
        try:
            for other in others:
                total = fold(total, Decimal(repr(broken(other))))
        except (InvalidOperation, ZeroDivisionError):
            raise Unusable("the numbers have no result") from None
        return float(total) or 0.0

    return folded


def _extreme(
    pick: Callable[[Iterable[float]], float], cast: Callable[[object], float]
) -> Callable[..., float]:
    return lambda first, *others: pick([cast(first), *(cast(other) for other in others)])


def _round(value: object, places: int, *on: object) -> float:
    number, half = broken(value), broken(on[0]) if on else 0.5
    if not math.isfinite(number) or abs(places) > 300:
        return number
    power = 10.0**places
    digit = power * number
    part = math.fmod(digit, 1)
    rounded = math.ceil(digit) if part >= half else math.floor(digit)
    return float(rounded) / power


def _whole_part(cut: Callable[[float], int]) -> Callable[[object], float]:
    def part(value: object) -> float:
        number = broken(value)
        return float(cut(number)) if math.isfinite(number) else number

    return part


def _steps(start: int, stop: int, step: int) -> list[int]:
    if step == 0:
        return []
    numbers = range(start, stop, step)
    if (stop - start) // step > MOST_ITEMS:
        raise Unusable(f"the list would be longer than {MOST_ITEMS} items")
    return list(numbers)


def _seq(*limits: int) -> str:
    match limits:
        case (end,):
            start, step = 1, 1 if end >= 1 else -1
        case (start, end):
            step = 1 if end >= start else -1
        case (start, step, end):
            pass
        case _:
            return ""
    return " ".join(str(number) for number in _steps(start, end + (1 if step > 0 else -1), step))


def _atoi(text: str) -> int:
    return whole(text) if re.fullmatch(r"[+-]?[0-9]+", text) else 0


def _octal(value: object) -> int:
    text = printing.text(value)
    return wrapped(int(text, 8)) if re.fullmatch(r"[+-]?[0-7]{1,21}", text) else 0


def _type_like(name: str, value: object) -> bool:
    return values.type_name(value) in {name, "*" + name}


FUNCTIONS: Mapping[str, golang.Entry] = {
    "int": (whole, "a"),
    "int64": (whole, "a"),
    "float64": (broken, "a"),
    "atoi": (_atoi, "s"),
    "toDecimal": (_octal, "a"),
    "add": (_folded(lambda one, other: one + other), "aa*"),
    "add1": (lambda value: wrapped(whole(value) + 1), "a"),
    "sub": (lambda one, other: wrapped(whole(one) - whole(other)), "aa"),
    "mul": (_folded(lambda one, other: one * other), "aa*"),
    "div": (lambda one, other: _divided(whole(one), whole(other)), "aa"),
    "mod": (lambda one, other: _rest(whole(one), whole(other)), "aa"),
    "addf": (_decimals(lambda one, other: one + other), "aa*"),
    "add1f": (lambda value: broken(value) + 1.0, "a"),
    "subf": (_decimals(lambda one, other: one - other), "aa*"),
    "mulf": (_decimals(lambda one, other: one * other), "aa*"),
    "divf": (_decimals(lambda one, other: one / other), "aa*"),
    "max": (_extreme(max, whole), "aa*"),
    "biggest": (_extreme(max, whole), "aa*"),
    "min": (_extreme(min, whole), "aa*"),
    "maxf": (_extreme(max, broken), "aa*"),
    "minf": (_extreme(min, broken), "aa*"),
    "floor": (_whole_part(math.floor), "a"),
    "ceil": (_whole_part(math.ceil), "a"),
    "round": (_round, "aia*"),
    "until": (lambda count: _steps(0, count, 1 if count >= 0 else -1), "i"),
    "untilStep": (_steps, "iii"),
    "seq": (_seq, "i*"),
    "typeOf": (values.type_name, "a"),
    "typeIs": (lambda name, value: name == values.type_name(value), "sa"),
    "typeIsLike": (_type_like, "sa"),
    "kindOf": (values.kind, "a"),
    "kindIs": (lambda name, value: name == values.kind(value), "sa"),
    "deepEqual": (comparing.same, "aa"),
}
