"""Go's durations: ``1h15m30.918s`` to nanoseconds and back.

The grammar is that of Go's ``time.ParseDuration``: an optional sign, then one or more decimal numbers with a
unit of ``ns us µs ms s m h``, or the bare ``0``. A day is no unit, and neither blanks nor a bare number are
taken. What does not fit 64 bits of nanoseconds (about 292 years) is refused, as Go refuses it.
"""

import re
from fractions import Fraction

_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_LARGEST = 2**63 - 1
_LONGEST = 100  # characters of a duration that somebody means


def nanoseconds(text: str) -> int:
    """The duration that ``text`` writes, in nanoseconds (fractions of one are cut off).

    Raises ValueError, with words for a person, for anything that Go would not read.
    """
    bare = text[1:] if text[:1] in {"+", "-"} else text
    if bare == "0":
        return 0
    total, at = 0, 0
    while len(text) <= _LONGEST and (part := _PART.match(bare, at)):
        total += int(Fraction("0" + part[1].rstrip(".")) * _UNITS[part[2]])
        at = part.end()
    if not bare or at != len(bare) or total > _LARGEST:
        raise ValueError(
            f"cannot read {text[:80]!r} as a duration: write numbers with units, like '30s' or '1m30s'"
        )
    return -total if text.startswith("-") else total


def seconds(text: str) -> float:
    """The duration that ``text`` writes, in seconds. Raises as ``nanoseconds`` does."""
    return nanoseconds(text) / 1_000_000_000


def span_ns(value: str | int | None) -> int:
    """A duration of a ``retry_policy``: text as above, a number of nanoseconds, or nothing, which is 0.

    Raises ValueError for text that is no duration and for a duration below 0.
    """
    if value is None or value == "":
        return 0
    ns = value if isinstance(value, int) else nanoseconds(value)
    if ns < 0:
        raise ValueError(f"a wait of {value!r} is below 0: write a duration of 0 or more")
    return ns


def written(ns: int) -> str:
    """``ns`` nanoseconds as Go prints a duration: ``1m30s``, ``1.5s``, ``20ms``, ``0s``."""
    if ns == 0:
        return "0s"
    sign, rest = ("-", -ns) if ns < 0 else ("", ns)
    for unit in ("ns", "µs", "ms"):
        if rest < _UNITS[unit] * 1000:
            return f"{sign}{_decimal(rest, _UNITS[unit])}{unit}"
    hours, rest = divmod(rest, _UNITS["h"])
    minutes, rest = divmod(rest, _UNITS["m"])
    text = f"{_decimal(rest, _UNITS['s'])}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{sign}{hours}h{text}" if hours else sign + text


def _decimal(value: int, unit: int) -> str:
    whole, part = divmod(value, unit)
    if not part:
        return str(whole)
    digits = len(str(unit)) - 1
    return f"{whole}.{part:0{digits}d}".rstrip("0")
