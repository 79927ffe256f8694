"""Objects that change too often: when that is said, how they are slowed down, and that it ends by itself."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.control.flapping import CHANGES, FIRST_WAIT_S, LAST_WAIT_S, RETURNS, WINDOW_S, Flapping
from reconciler.model.names import Kind, ObjectRef

REF, OTHER = ObjectRef(Kind.BINDING, "a"), ObjectRef(Kind.BINDING, "b")


def fought_over(changes: int, every_s: float = 1.0) -> Flapping:
    """One object that two programs write in turn."""
    made = Flapping()
    for number in range(changes):
        made.saw(REF, "x", "yx"[number % 2], number * every_s)
    return made


def test_an_object_flaps_once_it_went_back_often_enough() -> None:
    assert not fought_over(RETURNS).flaps()
    made = fought_over(RETURNS + 1)
    assert made.holds(REF, RETURNS + 1)
    assert f"{RETURNS} times back to an earlier form" in made.flaps()[REF]
    assert not made.holds(OTHER, RETURNS + 1)


def test_an_object_that_is_written_anew_without_end_flaps_too() -> None:
    made = Flapping()
    for number in range(CHANGES):
        made.saw(REF, "", f"form {number - 1}" if number else "", 0)
        made.saw(REF, f"form {number - 1}", f"form {number}", number)
    assert not made.flaps()
    made.saw(REF, "", "one more", CHANGES)
    made.saw(REF, "", "and more", CHANGES)
    assert made.flaps().keys() == {REF}


def test_a_person_who_tries_two_forms_in_turn_does_not_flap() -> None:
    assert not fought_over(40, every_s=13.0).flaps()


def test_an_edit_that_is_seen_twice_is_one() -> None:
    made = Flapping()
    for number in range(100):
        made.saw(REF, "x", "y", number / 100)
    assert not made.flaps()


def test_each_change_that_is_let_through_makes_the_next_one_wait_longer() -> None:
    made, now_s, waits = fought_over(RETURNS + 1, 0.1), RETURNS * 0.1, []
    for number in range(8):
        began_s = now_s
        while made.holds(REF, now_s):
            made.saw(REF, "", f"{number} {now_s}", now_s)
            now_s += 1.0
        made.let_through(REF, f"applied {number}", now_s)
        waits.append(now_s - began_s)
    assert waits[:4] == [FIRST_WAIT_S, 20.0, 40.0, 80.0]
    assert max(waits) == LAST_WAIT_S


def test_what_is_decided_on_again_and_again_waits_no_longer_for_that() -> None:
    made = fought_over(RETURNS + 1, 0.1)
    for now_s in (11.0, 12.0, 13.0):
        made.let_through(REF, "refused", now_s)
    assert made.due_s([REF]) == 11.0 + 2 * FIRST_WAIT_S


def test_it_ends_after_a_quiet_minute_and_is_due_then() -> None:
    made = fought_over(RETURNS + 1)
    assert made.due_s([]) == RETURNS + WINDOW_S
    made.settle(RETURNS + WINDOW_S - 0.1)
    assert made.flaps()
    made.settle(RETURNS + WINDOW_S)
    assert not made.flaps()
    assert made.due_s([]) is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0.01, 30)), max_size=120))
def test_two_changes_of_what_flaps_are_never_let_through_within_a_back_off(
    story: list[tuple[str, float]],
) -> None:
    made, now_s, last_s, form = Flapping(), 0.0, None, "a"
    for new, passed_s in story:
        now_s += passed_s
        made.saw(REF, form, new, now_s)
        made.settle(now_s)
        if made.holds(REF, now_s):
            continue
        if new != form and REF in made.flaps():
            assert last_s is None or now_s - last_s >= FIRST_WAIT_S
            last_s = now_s
        elif REF not in made.flaps():
            last_s = None
        made.let_through(REF, new, now_s)
        form = new
