"""What moved between two mappings is what each key says, however they are ordered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.identity import Edited, laid_over, moved

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
    assert after.pop(3, None) is None
    assert after.edited == {1, 2}
    assert after.copied() is before
    assert moved(before, after) == {1, 2}
    del before
    assert after.copied() is None


KEYS = st.integers(0, 400)
EDITS = st.lists(
    st.tuples(KEYS, st.sampled_from(["put", "put", "drop", "copy"]), st.integers(0, 1)), max_size=300
)


@given(MAPPINGS, EDITS)
def test_copies_over_one_dict_are_as_if_each_were_a_dict_of_its_own(
    start: dict[int, object], edits: list[tuple[int, str, int]]
) -> None:
    one: Edited[int, object] = Edited(start)
    plain: dict[int, object] = dict(start)
    kept: list[tuple[Edited[int, object], dict[int, object]]] = []
    for key, how, form in edits:
        if how == "put":
            one[key] = plain[key] = FORMS[key % 200][form]
        elif how == "drop":
            assert one.pop(key, None) is plain.pop(key, None)
        else:
            kept.append((one, dict(plain)))
            one = Edited(one)
    kept.append((one, plain))
    for copy, same in kept:  # an earlier copy is what it was
        assert copy == same
        assert same == copy
        assert copy == Edited(same)
        assert (len(copy), set(copy), dict(copy.items())) == (len(same), set(same), same)
        assert all(
            (key in copy) == (key in same) and copy.get(key) is same.get(key) for key in range(0, 400, 7)
        )
        assert all(copy[key] is same[key] for key in same)
        for other, alike in kept:
            assert moved(copy, other) == looked_up(same, alike)
            assert (copy == other) == (same == alike)


def test_what_is_not_there_is_not_found_nor_dropped() -> None:
    one = Edited({1: "a"})
    del one[1]
    for act in (lambda: one[1], lambda: one.__delitem__(1), lambda: one.__delitem__(2)):
        with pytest.raises(KeyError):
            act()
    assert one.get(1, "none") == "none"
    assert not one
    one[1] = "b"
    assert dict(one) == {1: "b"}


def test_many_edits_are_laid_together_and_remembered_all_the_same() -> None:
    before = Edited(dict.fromkeys(range(1_000), "a"))
    for key in range(500):
        before[key] = "b"
    after = Edited(before)
    assert after.base is before.base
    assert not after.edits
    assert not before.edits
    assert before.edited == set(range(500))
    after[900] = "c"
    assert moved(before, after) == {900}
    assert after.base[900] == "a", "what is shared is not edited"


def test_entries_laid_over_a_mapping_leave_it_as_it_is() -> None:
    before = {1: "a"}
    assert laid_over(before, {}) is before
    assert laid_over(before, {1: "b", 2: "c"}) == {1: "b", 2: "c"}
    assert before == {1: "a"}


def test_what_is_copied_again_and_again_is_laid_together_once() -> None:
    kept: Edited[int, int] = Edited({number: number for number in range(1000)})
    for number in range(300):
        kept[number] = -number
    del kept[999]
    before = dict(kept.items())
    first, second = Edited(kept), Edited(kept)
    assert first.base is second.base is kept.base
    assert dict(kept.items()) == before
    assert moved(kept, first) == set()
    second[5] = 7
    assert moved(first, second) == {5}
    assert moved(kept, second) == {5}
    assert 999 not in second
