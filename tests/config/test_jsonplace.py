"""Places in JSON: of values, of keys, of the nearest thing above what is missing."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.config import jsonplace
from tests.kit.effort import times

TOOLS = """\
[
  {"name": "é", "inputSchema": {"é": 1, "properties": {"path": [true, null]}}}, 5,
  {"name": "ocr_b", "\\u006eested": {"a": -1.5e3}}
]
"""


@pytest.mark.parametrize(
    ("path", "value", "key"),
    [
        ((), (1, 1), (1, 1)),
        ((0, "name"), (2, 12), (2, 4)),
        ((0, "inputSchema", "properties"), (2, 55), (2, 41)),
        ((0, "inputSchema", "properties", "path", 1), (2, 71), (2, 71)),
        ((0, "outputSchema"), (2, 3), (2, 3)),
        ((1,), (2, 81), (2, 81)),
        ((2, "nested", "a"), (3, 42), (3, 37)),
        ((7, "name"), (1, 1), (1, 1)),
    ],
)
def test_a_path_is_placed_in_characters(
    path: tuple[str | int, ...], value: tuple[int, int], key: tuple[int, int]
) -> None:
    assert jsonplace.place(TOOLS.encode(), path) == value
    assert jsonplace.place(TOOLS.encode(), path, on_key=True) == key


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(max_examples=times(25))
@given(JSON, st.booleans())
def test_the_place_of_each_value_is_where_it_starts(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, indent=1, ensure_ascii=ascii_only)
    data = text.encode(errors="surrogatepass")
    lines = text.split("\n")
    stack: list[tuple[tuple[str | int, ...], object]] = [((), value)]
    while stack:
        path, here = stack.pop()
        line, column = jsonplace.place(data, path)
        start = json.dumps(here, indent=1, ensure_ascii=ascii_only).split("\n")[0]
        assert lines[line - 1][column - 1 :].startswith(start)
        if isinstance(here, dict):
            stack.extend(((*path, key), item) for key, item in here.items())
        if isinstance(here, list):
            stack.extend(((*path, number), item) for number, item in enumerate(here))


@settings(max_examples=times(25))
@given(
    st.one_of(st.binary(max_size=200), st.text(alphabet='{}[]",:ab\n 1\\é', max_size=100).map(str.encode)),
    st.lists(st.one_of(st.sampled_from(["a", "b"]), st.integers(0, 2)), max_size=4).map(tuple),
)
def test_a_place_lies_inside_any_bytes(data: bytes, path: tuple[str | int, ...]) -> None:
    line, column = jsonplace.place(data, path)
    lines = data.split(b"\n")
    assert 1 <= line <= len(lines)
    assert 1 <= column <= len(lines[line - 1]) + 1


def test_a_text_beyond_any_real_one_is_not_looked_through() -> None:
    assert jsonplace.place(b" " * (jsonplace.MAX_BYTES + 1), ("a",)) == (1, 1)
