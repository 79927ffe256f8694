"""Moments by Go's layouts."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.templates import layouts

MOMENT = datetime(2026, 3, 7, 9, 5, 2, 120_000, timezone(timedelta(hours=-5, minutes=-30)))


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        ("2006-01-02", "2026-03-07"),
        (layouts.RFC3339, "2026-03-07T09:05:02-05:30"),
        ("Mon Jan _2 15:04:05 2006", "Sat Mar  7 09:05:02 2026"),
        ("Monday, January 2, 06 3:04pm", "Saturday, March 7, 26 9:05am"),
        ("03:04:05.000 PM -0700 MST", "09:05:02.120 AM -0530 -0530"),
        ("15:04:05.999999999", "09:05:02.12"),
        ("002 __2 1/2 4 5", "066  66 3/7 5 2"),
        ("Z0700 -07", "-0530 -05"),
        ("no piece at all", "no piece at all"),
    ],
)
def test_a_moment_is_written_as_the_layout_says(layout: str, text: str) -> None:
    assert layouts.written(MOMENT, layout) == text


def test_utc_is_z_where_the_layout_asks() -> None:
    noon = datetime(2026, 3, 7, 12, tzinfo=UTC)
    assert layouts.written(noon, "15 Z07:00 -07:00 MST") == "12 Z +00:00 UTC"


@given(st.datetimes(timezones=st.just(UTC)))
def test_what_is_written_reads_the_same(moment: datetime) -> None:
    layout = "Jan _2 2006 15:04:05.000000 Z07:00"
    assert layouts.read(layout, layouts.written(moment, layout)) == moment


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        ("2006-01-02", "2026-13-01"),
        ("2006-01-02", "26-01-01"),
        ("15 15", "01 01"),
        ("2006", "2026 "),
        ("002", "6"),
    ],
)
def test_what_is_not_written_so_is_refused(layout: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        layouts.read(layout, text)
