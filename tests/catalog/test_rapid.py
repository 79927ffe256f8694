"""What ocr-rapid decides without its model: the order of what was found, and which way up a page lies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.catalog.loading import modules

(LAYOUT,) = modules("ocr-rapid", "layout")
Box = tuple[float, float, float, float]


def piece(text: str, box: Box, score: float = 1.0, *, tall: bool = False) -> object:
    return LAYOUT.Piece(text, score, box, tall=tall)


def test_pieces_are_read_in_rows_from_the_top_and_in_a_row_from_the_left() -> None:
    found = [
        piece("1,680.00", (0.8, 0.502, 0.9, 0.522)),
        piece("Subtotal", (0.5, 0.45, 0.6, 0.47)),
        piece("Total", (0.5, 0.5, 0.6, 0.52)),
        piece("1,400.00", (0.8, 0.451, 0.9, 0.471)),
    ]
    assert LAYOUT.page(found).text == "Subtotal 1,400.00\nTotal 1,680.00"


def test_a_high_heading_does_not_join_the_two_lines_beside_it() -> None:
    found = [
        piece("INVOICE", (0.1, 0.16, 0.3, 0.19)),
        piece("Number: 42", (0.6, 0.155, 0.8, 0.17)),
        piece("Date: June", (0.6, 0.18, 0.8, 0.195)),
    ]
    assert LAYOUT.page(found).text.count("\n") >= 1
    assert "Number: 42 Date: June" not in LAYOUT.page(found).text


def test_a_row_of_a_page_that_is_a_little_turned_stays_one_row() -> None:
    cells = [piece(str(n), (n / 10, 0.5 + n * 0.003, n / 10 + 0.05, 0.52 + n * 0.003)) for n in range(9)]
    assert LAYOUT.page(cells).text == "0 1 2 3 4 5 6 7 8"


def test_no_pieces_are_an_empty_page() -> None:
    assert (LAYOUT.page([]).text, LAYOUT.page([]).blocks) == ("", ())


@pytest.mark.parametrize(
    ("turn", "box"),
    [
        (0, [0.1, 0.2, 0.3, 0.25]),
        (90, [0.75, 0.1, 0.8, 0.3]),
        (180, [0.7, 0.75, 0.9, 0.8]),
        (270, [0.2, 0.7, 0.25, 0.9]),
    ],
)
def test_boxes_are_of_the_page_as_it_came(turn: int, box: list[float]) -> None:
    (block,) = LAYOUT.page([piece("Total", (0.1, 0.2, 0.3, 0.25))], turn).blocks
    assert block["bbox"] == pytest.approx(box)


@given(st.lists(st.floats(0, 1), min_size=4, max_size=4), st.sampled_from([0, 90, 180, 270]))
def test_a_box_stays_a_box_on_the_page_however_it_is_turned(sides: list[float], turn: int) -> None:
    xs, ys = sorted(sides[:2]), sorted(sides[2:])
    (block,) = LAYOUT.page([piece("x", (xs[0], ys[0], xs[1], ys[1]))], turn).blocks
    left, top, right, bottom = block["bbox"]
    assert 0 <= left <= right <= 1
    assert 0 <= top <= bottom <= 1


@given(st.permutations([(n, 0.1 * n) for n in range(6)]))
def test_the_order_in_which_pieces_are_found_does_not_matter(order: list[tuple[int, float]]) -> None:
    found = [piece(str(n), (0.1, top, 0.2, top + 0.02)) for n, top in order]
    assert LAYOUT.page(found).text == "0\n1\n2\n3\n4\n5"


def test_a_page_lies_on_its_side_when_most_longer_pieces_do() -> None:
    up = [piece("word", (0, 0, 1, 1), tall=True)] * 3
    across = [piece("word", (0, 0, 1, 1))] * 2
    assert LAYOUT.lies_on_its_side(up + across)
    assert not LAYOUT.lies_on_its_side(up + across * 2)
    assert not LAYOUT.lies_on_its_side(
        [piece("1", (0, 0, 1, 1), tall=True)] * 9
    )  # digits are high and narrow
    assert not LAYOUT.lies_on_its_side([])


def test_sureness_weighs_every_character_alike() -> None:
    assert LAYOUT.sureness([piece("aaa", (0, 0, 1, 1), 1.0), piece("b", (0, 0, 1, 1), 0.2)]) == pytest.approx(
        0.8
    )
    assert LAYOUT.sureness([]) == 0.0
