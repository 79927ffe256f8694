"""The life of an instance as a value: a table of what happens, and laws that hold after any history."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.problems import Bug
from reconciler.runtime.instance import LONGEST_BACK_OFF_S, LOOP_ENDS, State, back_off_s, is_from_outside

FRESH = State()
STARTING = FRESH.started(10.0)
IDLE = STARTING.answering()
READY = IDLE.held(1)


def test_the_usual_life() -> None:
    built = FRESH.building("installing").built()
    assert [state.phase for state in (FRESH, FRESH.building(""), built)] == [
        "declared",
        "building",
        "declared",
    ]
    assert [state.phase for state in (STARTING, IDLE, READY)] == ["starting", "idle", "ready"]
    assert READY.held(-1).phase == "idle"
    assert IDLE.stopped("signal 15").phase == "declared"
    assert IDLE.stopped("signal 15").failures == 0


def test_a_hold_during_a_start_makes_it_ready_when_it_answers() -> None:
    assert STARTING.held(1).phase == "starting"
    assert STARTING.held(1).answering().phase == "ready"


def test_an_end_nobody_asked_for_waits_longer_each_time() -> None:
    state, waits = STARTING, []
    for turn in range(4):
        state = state.ended("exit 1", None, "", 100.0 * turn)  # far apart: no loop
        waits.append(state.wait_s(100.0 * turn))
        state = state.started(100.0 * turn + 90)
    assert waits == pytest.approx([0.005, 0.01, 0.02, 0.04])


def test_five_ends_within_a_minute_are_a_crash_loop_until_one_serves() -> None:
    state, now = STARTING, 10.0
    for turn in range(LOOP_ENDS):
        now += 1
        state = state.ended("exit 1", None, "", now)
        assert (state.reason == "CrashLoop") == (turn == LOOP_ENDS - 1)
        state = state if turn == LOOP_ENDS - 1 else state.started(now)
    assert state.wait_s(now) == LONGEST_BACK_OFF_S
    assert state.started(now + 60).ended("exit 1", None, "", now + 61).reason == "CrashLoop"
    forgiven = state.forgiven()  # a person asked for it
    assert (forgiven.wait_s(now), forgiven.reason, forgiven.message) == (0, None, state.message)
    assert forgiven.started(now).ended("exit 1", None, "", now + 1).reason is None
    assert STARTING.forgiven() is STARTING
    served = state.started(now + 60).answering()
    assert served.reason is None
    assert served.ended("exit 1", "OutOfMemory", "", now + 200).reason == "OutOfMemory"
    assert served.ended("exit 1", None, "", now + 200).failures == 1


def test_what_others_kill_backs_off_and_is_never_taken_for_a_crash_loop() -> None:
    state, now, waits = STARTING, 10.0, []
    for _ in range(20):
        state = state.answering().killed_by_others("signal 9", "killed", now)
        assert (state.reason, state.message, state.killed, state.ends) == (None, "killed", True, ())
        waits.append(state.wait_s(now))
        now += waits[-1] + 0.1
        state = state.started(now)
        assert not state.killed
    assert waits[:3] == pytest.approx([0.005, 0.01, 0.02])
    assert waits[-1] == LONGEST_BACK_OFF_S
    served = state.answering().killed_by_others("signal 9", "", now + 61)
    assert served.wait_s(now + 61) == pytest.approx(0.005)
    assert state.answering().retiring().killed_by_others("signal 9", "", now).phase == "retired"
    ends = [f"signal {number}" for number in (1, 2, 9, 15)]
    assert all(map(is_from_outside, ends))
    assert not any(map(is_from_outside, ("signal 11", "signal 6", "signal 31", "exit 1", "exit 9", "")))


def test_a_retired_instance_ends_with_its_last_call() -> None:
    draining = READY.retiring()
    assert draining.phase == "draining"
    assert draining.held(-1).phase == "draining"  # its process still runs
    assert draining.held(-1).stopped("signal 15").phase == "retired"
    assert draining.ended("exit 1", None, "", 20.0).phase == "draining"  # a call still holds it
    assert draining.ended("exit 1", None, "", 20.0).held(-1).phase == "retired"
    assert FRESH.retiring().phase == "retired"


@pytest.mark.parametrize(
    ("state", "phase"), [(READY, "ready"), (IDLE, "idle"), (STARTING, "starting"), (FRESH, "declared")]
)
def test_what_is_wanted_again_goes_on_as_it_was(state: State, phase: str) -> None:
    assert state.retiring().recalled().phase == phase


def test_a_refusal_is_tried_again_later() -> None:
    state = FRESH.refused("SandboxUnavailable", "no bubblewrap", 5.0)
    assert (state.phase, state.reason, state.wait_s(5.0)) == (
        "failed",
        "SandboxUnavailable",
        pytest.approx(0.005),
    )
    assert state.started(6.0).phase == "starting"


@pytest.mark.parametrize(
    "impossible",
    [
        lambda: FRESH.held(-1),
        lambda: FRESH.stopped("exit 0"),
        lambda: FRESH.ended("exit 0", None, "", 0.0),
        FRESH.built,
        lambda: IDLE.started(0.0),
        lambda: IDLE.building(""),
        FRESH.recalled,
    ],
)
def test_what_cannot_happen_is_a_bug(impossible: object) -> None:
    with pytest.raises(Bug):
        impossible()  # type: ignore[operator]


@given(st.integers(1, 10_000))
def test_the_back_off_grows_to_a_minute_and_no_further(failures: int) -> None:
    assert 0.005 <= back_off_s(failures) <= back_off_s(failures + 1) <= LONGEST_BACK_OFF_S


WHAT = ["start", "answer", "hold", "release", "stop", "end", "kill", "retire", "recall", "refuse", "build"]
HAPPENINGS = st.lists(
    st.tuples(
        st.sampled_from(WHAT),
        st.floats(0.001, 30),
    ),
    max_size=60,
)


@given(HAPPENINGS)
def test_laws_hold_after_any_history(history: list[tuple[str, float]]) -> None:
    state, now = State(), 0.0
    for what, after_s in history:
        now += after_s
        before = state
        try:
            state = happen(state, what, now)
        except Bug:
            assert state is before  # a value: what cannot happen changes nothing
            continue
        assert state.holds >= 0
        assert (state.phase in {"ready", "idle", "starting"}) <= state.running
        assert state.answered <= state.running
        assert (state.phase == "retired") <= (not state.running and not state.holds)
        assert state.phase not in {"ready", "idle"} or (state.phase == "ready") == (state.holds > 0)
        assert 0 <= state.wait_s(now) <= LONGEST_BACK_OFF_S
        assert len(state.ends) <= LOOP_ENDS
        assert 0 <= state.restarts <= max(0, state.starts - 1)


def test_a_start_after_we_stopped_it_is_no_restart() -> None:
    rested = State().started(1.0).answering().stopped("signal 15").started(9.0)
    assert (rested.starts, rested.restarts) == (2, 0)
    died = rested.ended("exit 1", None, "", 10.0).started(11.0)
    assert (died.starts, died.restarts) == (3, 1)


def happen(state: State, what: str, now: float) -> State:
    match what:
        case "start":
            return state.started(now)
        case "answer":
            return state.answering()
        case "hold":
            return state.held(1)
        case "release":
            return state.held(-1)
        case "stop":
            return state.stopped("signal 15")
        case "end" | "kill":
            killed = state.killed_by_others("signal 9", "killed", now)
            return killed if what == "kill" else state.ended("exit 1", None, "it ended", now)
        case "retire":
            return state.retiring()
        case "recall":
            return state.recalled()
        case "refuse":
            return state.refused("SandboxUnavailable", "none", now)
        case _:
            return state.building("").built()
