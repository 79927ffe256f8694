"""Counters over what is recorded anyway: calls as the router's records have them, and turns of the loop.

A fold: nothing asks for it on the way of a call, and where nobody listens there is none. The labels are those
of the configuration and of closed lists; however many bindings come and go, there are so many series at most,
and what is beyond them is counted as ``other``. All methods are for the loop's own thread.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from reconciler.control.exposition import Family, Sample, counted

# Seconds: from an answer out of memory to a long job; each is the upper bound of its bucket.
_BUCKETS = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    120.0,
    300.0,
)
_MOST = 5_000  # different label tuples of one metric
_OTHER = "other"

Labels = tuple[str, ...]


class Called(Protocol):
    """What is counted of a call's record."""

    interface: str
    tool: str
    binding: str
    code: str
    ms: float
    in_bytes: int
    out_bytes: int


class Histogram:
    """Durations by label tuple."""

    def __init__(self, name: str, told: str, labels: Labels) -> None:
        self._name, self._told, self._labels = name, told, labels
        self._series: dict[Labels, tuple[list[int], list[float]]] = {}  # counts by bucket, and the sum

    def add(self, labels: Labels, seconds: float) -> None:
        """Count one duration."""
        series = self._series.get(labels)
        if series is None:
            if len(self._series) >= _MOST:
                labels = (_OTHER,) * len(labels)
            series = self._series.setdefault(labels, ([0] * (len(_BUCKETS) + 1), [0.0]))
        series[0][bisect_left(_BUCKETS, seconds)] += 1
        series[1][0] += seconds

    def family(self) -> Family:
        """What was counted so far, cumulated as the format asks."""
        samples: list[Sample] = []
        for labels, (counts, total) in sorted(self._series.items()):
            named = dict(zip(self._labels, labels, strict=True))
            passed = 0
            for bound, count in zip((*map(_bound, _BUCKETS), "+Inf"), counts, strict=True):
                passed += count
                samples.append(Sample(passed, {**named, "le": bound}, "_bucket"))
            samples += (Sample(total[0], named, "_sum"), Sample(passed, named, "_count"))
        return Family(self._name, "histogram", self._told, tuple(samples))


class Tally:
    """What was counted since this was made."""

    def __init__(self) -> None:
        self._calls: dict[Labels, float] = {}
        self._bytes: dict[Labels, float] = {}
        self._turns: dict[Labels, float] = {}
        self._left: dict[Labels, float] = {}
        self._left_bytes: dict[Labels, float] = {}
        self._call_s = Histogram(
            "handler_call_duration_seconds",
            "How long calls took, from the whole request to the answer.",
            ("interface", "tool", "binding"),
        )
        self._turn_s = Histogram(
            "handler_reconcile_time_seconds", "How long a turn of the loop took.", ("controller",)
        )

    def call(self, record: Called) -> None:
        """Count a call that ended."""
        of = (record.interface, record.tool, record.binding)
        _add(self._calls, (*of, record.code), 1)
        self._call_s.add(of, record.ms / 1000)
        if record.in_bytes:
            _add(self._bytes, (*of, "in"), record.in_bytes)
        if record.out_bytes:
            _add(self._bytes, (*of, "out"), record.out_bytes)

    def turn(self, controller: str, result: str, seconds: float) -> None:
        """Count a turn of the loop: of the ``world`` or of an ``instance``, and what came of it."""
        _add(self._turns, (controller, result), 1)
        self._turn_s.add((controller,), seconds)

    def left(self, attempt: Mapping[str, Any]) -> None:
        """Count an attempt to leave a sandbox; no host is a label: there may be any number of them."""
        of = (str(attempt.get("object", "")), str(attempt.get("way", "")))
        cause = str(attempt.get("cause", ""))
        if cause != "listed":  # a tunnel is told of twice, and counted at its end
            _add(self._left, (*of, str(attempt.get("verdict", "")), cause), 1)
        for direction, size in (("out", attempt.get("upBytes")), ("in", attempt.get("downBytes"))):
            if cause != "listed" and size:
                _add(self._left_bytes, (*of, direction), float(size))

    def families(self) -> Iterator[Family]:
        """All counters, in a fixed order."""
        yield counted(
            "handler_calls_total",
            "Calls that ended, by what the agent was answered.",
            ("interface", "tool", "binding", "code"),
            self._calls,
        )
        yield self._call_s.family()
        yield counted(
            "handler_call_bytes_total",
            "Bytes of requests (in) and of structured answers (out); files are not counted.",
            ("interface", "tool", "binding", "direction"),
            self._bytes,
        )
        yield counted(
            "handler_egress_total",
            "Attempts to leave a sandbox that ended, by the way they took and what became of them.",
            ("object", "way", "verdict", "cause"),
            self._left,
        )
        yield counted(
            "handler_egress_bytes_total",
            "Bytes that left sandboxes (out) and came in for it (in).",
            ("object", "way", "direction"),
            self._left_bytes,
        )
        yield counted(
            "handler_reconcile_total",
            "Turns of the loop: looks at the world, and proofs of an instance.",
            ("controller", "result"),
            self._turns,
        )
        yield self._turn_s.family()

    def retries(self) -> float:
        """How many turns did not work, and came back after a back-off."""
        return sum(count for (_, result), count in self._turns.items() if result == "error")


def _add(counts: dict[Labels, float], labels: Labels, by: float) -> None:
    if labels not in counts and len(counts) >= _MOST:
        labels = (*(_OTHER,) * (len(labels) - 1), labels[-1])
    counts[labels] = counts.get(labels, 0) + by


def _bound(seconds: float) -> str:
    return f"{seconds:g}" if seconds != int(seconds) else f"{seconds:.1f}"
