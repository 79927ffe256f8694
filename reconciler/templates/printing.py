"""How values are written: ``%v`` of Go, and numbers as Go writes them; bounded in length and depth."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from reconciler.model import durations
from reconciler.templates import comparing, layouts
from reconciler.templates.values import LONGEST, Duration, Missing, Record, Unusable

_NO_VALUE = "<no value>"


def number(value: float) -> str:
    """A broken number as ``%v`` prints it: the shortest digits, an exponent below 1e-4 and from 1e6 on."""
    if value != value:
        return "NaN"
    if value in {float("inf"), float("-inf")}:
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, point = shortest(value)
    exponent = point - 1
    if not -4 <= exponent < _LARGE:
        broken = digits[0] + ("." + digits[1:] if digits[1:] else "")
        return f"{sign}{broken}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    return sign + plain(digits, point)


_LARGE = 6  # the power of ten from which on Go writes an exponent


def shortest(value: float) -> tuple[str, str, int]:
    """The sign, the fewest digits that give ``value`` back, and where the point stands among them."""
    text = repr(abs(value))
    mantissa, _, power = text.partition("e")
    whole, _, part = mantissa.partition(".")
    part = "" if part == "0" and not power else part
    digits = (whole + part).lstrip("0")
    point = len(whole) + int(power or 0) - (len(whole + part) - len(digits))
    digits = digits.rstrip("0")
    sign = "-" if str(value)[0] == "-" else ""
    return (sign, digits, point) if digits else (sign, "0", 1)


def plain(digits: str, point: int) -> str:
    """``digits`` with the point after ``point`` of them, without an exponent."""
    if point <= 0:
        return "0." + "0" * -point + digits
    if len(digits) <= point:
        return digits + "0" * (point - len(digits))
    return f"{digits[:point]}.{digits[point:]}"


def text(value: object) -> str:
    """``value`` as ``%v`` prints it; raises Unusable where that is longer than ``LONGEST``."""
    single = scalar(value)
    if single is not None:
        return single
    comparing.bounded(value)
    return written(_pieces(value))


def written(pieces: Iterator[str]) -> str:
    """The pieces joined, as long as they stay within ``LONGEST``; raises Unusable."""
    out: list[str] = []
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > LONGEST:
            raise Unusable(f"the text would be longer than {LONGEST} characters")
        out.append(piece)
    return "".join(out)


def scalar(value: object) -> str | None:
    """``value`` as ``%v`` prints it where it holds no others; else None."""
    single: str | None = None
    match value:
        case str():
            single = value
        case None | Missing():
            single = "<nil>"
        case bool():
            single = "true" if value else "false"
        case int():
            single = str(value)
        case float():
            single = number(value)
        case datetime():
            single = layouts.written(value, "2006-01-02 15:04:05.999999999 -0700 MST")
        case Duration():
            single = durations.written(value.ns)
        case _:
            pass
    return single


def _pieces(value: object) -> Iterator[str]:
    single = scalar(value)
    if single is not None:
        yield single
    elif isinstance(value, Mapping):
        yield "map["
        for at, key in enumerate(sorted(value)):
            yield f"{' ' if at else ''}{key}:"
            yield from _pieces(value[key])
        yield "]"
    elif isinstance(value, Record):
        yield from _row("{", list(value.fields.values()), "}")
    elif isinstance(value, Sequence):
        yield from _row("[", value, "]")
    else:
        raise Unusable(f"cannot print a {type(value).__name__}")


def _row(opened: str, values: Sequence[object], closed: str) -> Iterator[str]:
    yield opened
    for at, value in enumerate(values):
        if at:
            yield " "
        yield from _pieces(value)
    yield closed


def printed(value: object) -> str:
    """``value`` as an action prints it: as ``text``, but nothing is ``<no value>``."""
    return _NO_VALUE if value is None or isinstance(value, Missing) else text(value)
