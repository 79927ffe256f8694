"""What moved between two mappings is what each key says, however they are ordered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.identity import Edited, moved
from reconciler.model.problems import Bug

FORMS = {key: [object(), b""] for key in range(200)}  # one that stands under one key, one under any
FORM = st.tuples(st.integers(0, 199), st.integers(0, 1))
MAPPINGS = st.lists(FORM, max_size=150).map(lambda some: {key: FORMS[key][form] for key, form in some})


def looked_up(before: dict[int, object], after: dict[int, object]) -> set[int]:
    return {key for key in {*before, *after} if before.get(key) is not after.get(key)}


@given(MAPPINGS, MAPPINGS)
def test_any_two_mappings_differ_where_their_keys_say_so(
    before: dict[int, object], after: dict[int, object]
) -> None:
    assert moved(before, after) == looked_up(before, after)


@given(
    MAPPINGS,
    st.lists(st.tuples(FORM, st.sampled_from(["anew", "in place", "gone"])), max_size=80),
    st.booleans(),
)
def test_edits_are_found_wherever_they_put_what_they_change(
    before: dict[int, object], edits: list[tuple[tuple[int, int], str]], remembered: bool
) -> None:
    if remembered:
        before = Edited(before)
    after = Edited(before) if remembered else dict(before)
    for (key, form), how in edits:
        if how != "in place":
            after.pop(key, None)
        if how != "gone":
            after[key] = FORMS[key][form]
    assert moved(before, after) == looked_up(before, after)


def test_the_same_mapping_moved_nowhere() -> None:
    one: dict[int, object] = {1: FORMS[1][0]}
    assert moved(one, one) == set()


def test_a_copy_knows_where_it_was_edited_and_what_it_is_a_copy_of() -> None:
    before = Edited({1: "a", 2: "b"})
    after = Edited(before)
    after[1] = "c"
    del after[2]
    assert after.pop(3) is None
    assert after.edited == {1, 2, 3}
    assert after.copied() is before
    assert moved(before, after) == {1, 2}
    del before
    assert after.copied() is None


def test_an_edit_that_would_not_be_remembered_is_not_made() -> None:
    with pytest.raises(Bug):
        Edited({1: 1}).update({2: 2})
