"""The course of readiness: what takes it away, what gives it back, and when one call may try."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.control import readiness
from reconciler.control.readiness import ENOUGH, FIRST_PAUSE_S, FRESH, LONGEST_PAUSE_S, Course


def after(*heard: tuple[str, float], course: Course = FRESH) -> Course:
    for what, at in heard:
        course = readiness.after(course, what, at)  # type: ignore[arg-type]
    return course


def test_three_in_a_row_take_it_away_and_two_do_not() -> None:
    assert after(("unavailable", 1), ("unavailable", 2)).value == "unprobed"
    assert after(("answered", 0), ("unavailable", 1), ("unavailable", 2)).value == "ready"
    poor = after(("answered", 0), ("unavailable", 1), ("unavailable", 2), ("unavailable", 3))
    assert (poor.value, poor.reason, poor.retry_at) == ("not-ready", "NotAnswering", 3 + FIRST_PAUSE_S)


def test_an_answer_in_between_counts_even_when_it_is_heard_of_late() -> None:
    assert after(("unavailable", 1), ("answered", 2), ("unavailable", 3), ("unavailable", 4)).value == "ready"
    late = after(("unavailable", 1), ("unavailable", 3), ("unavailable", 4), ("answered", 2))
    assert late.value == "ready"
    early = after(("unavailable", 1), ("unavailable", 3), ("unavailable", 4), ("answered", 0.5))
    assert early.value == "not-ready"


def test_silence_and_another_models_name_take_it_away_at_once() -> None:
    assert after(("answered", 0), ("stalled", 1)).reason == "NotAnswering"
    assert after(("answered", 0), ("substituted", 1)).reason == "ModelSubstituted"
    old = after(("stalled", 5), ("answered", 4))
    assert old.value == "not-ready"  # an answer from before gives nothing back


def test_one_call_is_let_through_after_the_pause_and_doubles_it_or_ends_it() -> None:
    course = after(("stalled", 100))
    assert readiness.tried(course, 104.9) is None
    trying = readiness.tried(course, 105)
    assert trying is not None
    assert readiness.tried(trying, 106) is None  # one, not all
    again = readiness.tried(trying, 110)
    assert again is not None  # the one that was let through was never heard of
    worse = after(("unavailable", 106), course=trying)
    assert (worse.pause_s, worse.retry_at) == (2 * FIRST_PAUSE_S, 106 + 2 * FIRST_PAUSE_S)
    assert after(("answered", 106), course=trying).value == "ready"


def test_calls_of_the_same_moment_are_one_reason_to_wait() -> None:
    course = after(("stalled", 100), ("stalled", 100.1), ("stalled", 100.2))
    assert course.pause_s == FIRST_PAUSE_S


def test_a_clock_that_was_set_back_does_not_prolong_the_pause() -> None:
    assert readiness.tried(after(("stalled", 1_000_000)), 10) is not None


HEARD = st.sampled_from(("answered", "unavailable", "stalled", "substituted", "try"))


@given(st.lists(st.tuples(HEARD, st.floats(0, 1000)), max_size=40))
def test_whatever_is_heard_the_law_holds(heard: list[tuple[str, float]]) -> None:
    course, now = FRESH, 0.0
    for what, step in heard:
        now += step
        if what == "try":
            tried = readiness.tried(course, now)
            assert tried is not None or course.value == "not-ready"
            course = tried or course
        else:
            course = readiness.after(course, what, now)  # type: ignore[arg-type]
        assert len(course.fails) <= ENOUGH
        if course.value == "not-ready":
            assert FIRST_PAUSE_S <= course.pause_s <= LONGEST_PAUSE_S
            assert course.retry_at <= now + LONGEST_PAUSE_S
        if what == "answered":
            assert course.value == "ready"
