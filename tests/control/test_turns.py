"""Turns of callers: everybody goes, in order, and nobody waits for another's whole queue."""

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.control.turns import Turns
from tests.kit.effort import times


def line(number: int) -> bytes:
    return b"%d" % number


def test_callers_take_turns_and_each_keeps_its_order() -> None:
    turns = Turns()
    for number, caller in enumerate("aaaabbc"):
        turns.add(caller, number, line(number))
    assert [turns.take() for _ in range(7)] == [line(n) for n in (0, 4, 6, 1, 5, 2, 3)]
    assert not turns
    with pytest.raises(KeyError):
        turns.take()


def test_one_that_comes_late_waits_for_one_call_of_each_other() -> None:
    turns = Turns()
    for number in range(64):
        turns.add("greedy", number, line(number))
    assert turns.take() == line(0)
    turns.add("late", 99, line(99))
    assert [turns.take(), turns.take(), turns.take()] == [line(1), line(99), line(2)]


def test_a_call_that_leaves_is_forgotten() -> None:
    turns = Turns()
    for number, caller in enumerate("aab"):
        turns.add(caller, number, line(number))
    assert turns.drop(0)
    assert not turns.drop(0)
    assert not turns.drop(7)
    assert 0 not in turns
    assert 1 in turns
    assert turns.drop(2)
    assert turns.take() == line(1)
    assert len(turns) == 0


@settings(max_examples=times(40))
@given(st.lists(st.one_of(st.sampled_from("abc"), st.just("take"), st.integers(0, 30)), max_size=60))
def test_no_call_is_lost_sent_twice_or_passed_by_too_often(steps: list[str | int]) -> None:
    """A step is a call of a caller, a turn, or the leaving of a call; a plain model counts along."""
    turns, waiting, number = Turns(), {caller: deque[int]() for caller in "abc"}, 0
    passed: dict[int, int] = {}  # turns since a call became the first of its caller
    for step in steps:
        if step == "take":
            if not any(waiting.values()):
                continue
            taken = int(turns.take())
            (caller,) = (one for one, calls in waiting.items() if taken in calls)
            assert waiting[caller].popleft() == taken
            for calls in waiting.values():
                if calls:
                    passed[calls[0]] = passed.get(calls[0], 0) + 1
                    assert passed[calls[0]] <= len(waiting)
        elif isinstance(step, int):
            held = [calls for calls in waiting.values() if step in calls]
            assert turns.drop(step) == bool(held)
            for calls in held:
                calls.remove(step)
        else:
            turns.add(step, number, line(number))
            waiting[step].append(number)
            number += 1
        assert len(turns) == sum(map(len, waiting.values()))
