"""Go's durations, read and written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import durations

S = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "ns", "again"),
    [
        ("0", 0, "0s"),
        ("5s", 5 * S, "5s"),
        ("-5s", -5 * S, "-5s"),
        ("+1.5h", 5400 * S, "1h30m0s"),
        ("1h15m30.918s", 4_530_918_000_000, "1h15m30.918s"),
        (".5s", S // 2, "500ms"),
        ("5.s", 5 * S, "5s"),
        ("1us1µs1μs", 3000, "3µs"),
        ("1ns", 1, "1ns"),
        ("0.1ns", 0, "0s"),
        ("2562047h47m16.854775807s", 2**63 - 1, "2562047h47m16.854775807s"),
    ],
)
def test_a_duration_is_read_and_written_as_go_does(text: str, ns: int, again: str) -> None:
    assert durations.nanoseconds(text) == ns
    assert durations.written(ns) == again


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1d",
        "30",
        "1 s",
        " 1s",
        "s",
        ".s",
        "1s ",
        "--1s",
        "1m30",
        "1e3s",
        "2562048h",
        "\u0661s",
        "9" * 5000 + "s",
    ],
)
def test_what_go_does_not_read_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match=r"as a duration: write numbers with units, like '30s'"):
        durations.nanoseconds(text)


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_what_is_written_reads_the_same(ns: int) -> None:
    assert durations.nanoseconds(durations.written(ns)) == ns


def test_a_span_of_a_retry_policy_may_be_a_number_or_nothing() -> None:
    assert [durations.span_ns(value) for value in ("1s", 7, "", None)] == [S, 7, 0, 0]
    for below in ("-1s", -1):
        with pytest.raises(ValueError, match="is below 0"):
            durations.span_ns(below)
