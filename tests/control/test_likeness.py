"""How far two answers are alike: paths that a schema names, and no value of either."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.control.likeness import compared, named

KNOWN = frozenset(("pages", "text", "blocks", "bbox"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("own", "other", "equal", "different"),
    [
        ({"text": "a"}, {"text": "a"}, ("text",), ()),
        ({"text": "a"}, {"text": "b"}, (), ("text",)),
        ({"text": 1}, {"text": True}, (), ("text",)),
        ({"pages": [{"text": "a"}, {"text": "b"}]}, {"pages": [{"text": "a"}, {}]}, (), ("pages[].text",)),
        ({"pages": [1, 2]}, {"pages": [1]}, (), ("pages[]",)),
        ({"text": "a"}, {"text": "a", "blocks": []}, ("text",), ("blocks",)),
        ({"secret of a person": 1}, {"secret of a person": 2}, (), ("*",)),
        ([], [], (), ()),
    ],
)  # fmt: skip
def test_fields_are_told_by_their_paths(own: Any, other: Any, equal: Any, different: Any) -> None:
    found = compared(own, other, KNOWN)
    assert (found.equal, found.different, found.cut) == (equal, different, False)


def test_the_names_that_may_be_told_are_those_of_the_schema() -> None:
    schema = {
        "properties": {"pages": {"items": {"$ref": "#/$defs/p"}}},
        "$defs": {"p": {"properties": {"text": {}}}},
    }
    assert named(schema) == {"pages", "text"}


def test_what_is_too_large_is_not_said_to_be_equal() -> None:
    assert compared([[1]] * 60_000, [[1]] * 60_000, KNOWN).cut


@given(JSON, JSON)
def test_no_value_and_no_unnamed_key_is_told_and_only_the_same_is_alike(one: Any, two: Any) -> None:
    found = compared(one, two, frozenset())
    parts = {word for path in found.equal + found.different for word in path.replace("[]", "").split(".")}
    assert parts <= {"*", "", "(the whole)"}
    same = orjson.dumps(one, None, orjson.OPT_SORT_KEYS) == orjson.dumps(two, None, orjson.OPT_SORT_KEYS)
    assert bool(found.different) is not same
    back = compared(two, one, frozenset())
    assert back.different == found.different
