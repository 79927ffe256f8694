"""Tables on terminals: nothing is broken in mid-word, and nothing is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.doors import columns
from reconciler.doors.columns import Paint

_WORD = st.text("abcde/@", min_size=1, max_size=14)
_CELL = st.lists(_WORD, max_size=12).map(" ".join)
_ROWS = st.integers(1, 6).flatmap(
    lambda count: st.lists(st.lists(_CELL, min_size=count, max_size=count), min_size=1, max_size=6)
)


def _paint(room: int | None) -> Paint:
    paint = Paint("never", tty=False)
    paint.room = room
    return paint


def test_a_long_message_goes_on_below_itself() -> None:
    told = "the server 'ocr' in it was changed, and here is what to type"
    rows = [["WHEN", "", "OBJECT", "MESSAGE"], ["2m", "!", "agent/clerk", told]]
    assert columns.table(rows, _paint(62)) == (
        "WHEN     OBJECT        MESSAGE\n"
        "2m     ! agent/clerk   the server 'ocr' in it was changed, and\n"
        "                       here is what to type\n"
    )


def test_columns_that_have_no_room_go_on_in_a_next_line() -> None:
    rows = [["SERVICE", "CHOSEN BY", "SERVED BY", "GRANTED"]]
    rows += [["ocr/v1", "agents/reader.toml:3:20 services.ocr", "ocr@111111111111 (running)", "every tool"]]
    assert columns.table(rows, _paint(60)) == (
        "SERVICE   CHOSEN BY\n"
        "      SERVED BY                    GRANTED\n"
        "ocr/v1    agents/reader.toml:3:20 services.ocr\n"
        "      ocr@111111111111 (running)   every tool\n"
    )


@pytest.mark.slow
@given(_ROWS, st.integers(40, 90))
def test_every_word_is_there_in_order_and_lines_fit(rows: list[list[str]], room: int) -> None:
    text = columns.table(rows, _paint(room))
    assert text.split() == " ".join(cell for row in rows for cell in row).split()
    assert max(map(len, text.splitlines()), default=0) <= room


@pytest.mark.parametrize("room", [None, 400])
def test_with_room_enough_a_row_is_a_line(room: int | None) -> None:
    rows = [["a", "b c", "d"], ["long enough", "e", "f " * 90]]
    assert columns.table(rows, _paint(room)).count("\n") == 2
