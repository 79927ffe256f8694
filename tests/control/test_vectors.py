"""Vectors of texts: which files are lists of texts, what is nearest, and that a vector has length 1."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.control.vectors import UnfitFileError, lines, nearest, unit, written
from tests.kit.effort import times

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x89PNG\r\n\xff", "unsupported_format"),
        (b"a\0b", "unsupported_format"),
        (b"x" * 2001, "unsupported_format"),
        (b" \n\n", "unsupported_format"),
        (b"x\n" * 4, "too_large"),
    ],
)
def test_what_is_no_list_of_short_texts_is_refused(data: bytes, code: str) -> None:
    with pytest.raises(UnfitFileError) as caught:
        lines(data, 3)
    assert caught.value.code == code


def test_lines_that_are_not_empty_keep_their_numbers() -> None:
    rows = lines(b"\xef\xbb\xbfone\r\n\n  two \n", 3)
    assert rows == [(1, "one"), (3, "two")]
    told = [json.loads(line) for line in written(rows, [[3.0, 4.0], [0.0, 2.0]]).splitlines()]
    assert told == [{"line": 1, "vector": [0.6, 0.8]}, {"line": 3, "vector": [0.0, 1.0]}]


@settings(max_examples=times(40))
@given(vectors=st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=2, max_size=8))
def test_every_text_is_ranked_once_by_a_score_that_is_a_cosine(
    vectors: list[list[float]],
) -> None:
    ranked = nearest(vectors)
    assert sorted(one["index"] for one in ranked) == list(range(len(vectors) - 1))
    scores = [one["score"] for one in ranked]
    assert scores == sorted(scores, reverse=True)
    assert all(-1 <= one <= 1 for one in scores)
    length = math.hypot(*unit(vectors[0]))
    assert length == pytest.approx(1 if any(vectors[0]) else 0, abs=1e-4)
