"""The queue's three sentences: once, in one hand at a time, never lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from reconciler.control.queue import Done, Failed, Outcome, Queue, Stuck, Wait


def test_a_key_added_twice_is_taken_once() -> None:
    queue: Queue[str] = Queue()
    queue.add("world", 0)
    queue.add("world", 0)
    assert queue.take(0) == "world"
    queue.done("world", Done(), 0)
    assert queue.take(0) is None
    assert len(queue) == 0


def test_a_key_added_while_held_is_due_again_when_given_back() -> None:
    queue: Queue[str] = Queue()
    queue.add("world", 0)
    assert queue.take(0) == "world"
    queue.add("world", 1)
    assert queue.take(1) is None
    assert queue.next_s() is None
    queue.done("world", Done(), 1)
    assert queue.next_s() == 1
    assert queue.take(1) == "world"


def test_a_held_key_does_not_hide_the_ones_behind_it() -> None:
    queue: Queue[str] = Queue()
    queue.add("slow", 0)
    assert queue.take(0) == "slow"
    queue.add("slow", 1)
    queue.add("quick", 2)
    assert queue.next_s() == 2
    assert queue.take(2) == "quick"


def test_equal_times_are_served_in_the_order_of_asking() -> None:
    queue: Queue[str] = Queue()
    for key in ("c", "a", "b"):
        queue.add(key, 5)
    assert [queue.take(5) for _ in range(4)] == ["c", "a", "b", None]


def test_failures_back_off_from_5_ms_to_a_minute_and_success_forgets_them() -> None:
    queue: Queue[str] = Queue()
    now, waits = 0.0, []
    queue.add("k", now)
    for _ in range(16):
        assert queue.take(now) == "k"
        queue.done("k", Failed(), now)
        due = queue.next_s()
        assert due is not None
        waits.append(round(due - now, 6))
        now = due
    assert waits[:4] == [0.005, 0.01, 0.02, 0.04]
    assert waits[-1] == 60.0
    assert waits == sorted(waits)
    assert queue.take(now) == "k"
    queue.done("k", Done(), now)
    queue.add("k", now)
    assert queue.take(now) == "k"
    queue.done("k", Failed(), now)
    assert queue.next_s() == pytest.approx(now + 0.005)


def test_a_hint_overtakes_a_back_off() -> None:
    queue: Queue[str] = Queue(first_retry_s=30)
    queue.add("k", 0)
    queue.take(0)
    queue.done("k", Failed(), 0)
    assert queue.take(1) is None
    queue.add("k", 1)
    assert queue.take(1) == "k"
    queue.done("k", Done(), 1)
    assert queue.take(100) is None


def test_a_later_time_does_not_put_off_an_earlier_one() -> None:
    queue: Queue[str] = Queue()
    queue.add("k", 1)
    queue.add("k", 9)
    assert queue.next_s() == 1


def test_giving_back_what_nobody_holds_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        Queue[str]().done("k", Done(), 0)


def test_stuck_waits_for_a_new_hint() -> None:
    queue: Queue[str] = Queue()
    queue.add("k", 0)
    queue.take(0)
    queue.done("k", Stuck(), 0)
    assert queue.next_s() is None


_KEYS = st.sampled_from("abcde")
_OUTCOMES: st.SearchStrategy[Outcome] = st.one_of(
    st.just(Done()), st.just(Stuck()), st.just(Failed()), st.floats(0, 5).map(Wait)
)


class QueueMachine(RuleBasedStateMachine):
    """Against a model that remembers, for each key, the earliest time at which it must be looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: Queue[str] = Queue()
        self.now = 0.0
        self.held: set[str] = set()
        self.wanted: dict[str, float] = {}

    @rule(key=_KEYS, after=st.floats(0, 3))
    def add(self, key: str, after: float) -> None:
        at = self.now + after
        self.queue.add(key, at)
        self.wanted[key] = min(at, self.wanted.get(key, at))

    @rule(seconds=st.floats(0, 10))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def take(self) -> None:
        free = {key: at for key, at in self.wanted.items() if key not in self.held and at <= self.now}
        key = self.queue.take(self.now)
        assert (key is None) == (not free)
        if key is not None:
            assert key not in self.held
            assert self.wanted.pop(key) == min(free.values())
            self.held.add(key)

    @rule(outcome=_OUTCOMES, data=st.data())
    def give_back(self, outcome: Outcome, data: st.DataObject) -> None:
        if not self.held:
            return
        key = data.draw(st.sampled_from(sorted(self.held)))
        self.held.remove(key)
        self.queue.done(key, outcome, self.now)
        if isinstance(outcome, Wait):
            at = self.now + outcome.after_s
            self.wanted[key] = min(at, self.wanted.get(key, at))
        elif isinstance(outcome, Failed) and key not in self.wanted:
            self.wanted[key] = self.queue._due[key][0]
            assert self.now < self.wanted[key] <= self.now + 60
        elif isinstance(outcome, Failed):
            self.wanted[key] = min(self.wanted[key], self.queue._due[key][0])

    @invariant()
    def nothing_is_lost(self) -> None:
        assert len(self.queue) == len(self.wanted)
        free = [at for key, at in self.wanted.items() if key not in self.held]
        assert self.queue.next_s() == min(free, default=None)


TestQueue = QueueMachine.TestCase


@given(st.lists(st.tuples(_KEYS, st.floats(0, 10)), max_size=40))
def test_everything_added_comes_out_once(added: list[tuple[str, float]]) -> None:
    queue: Queue[str] = Queue()
    for key, at in added:
        queue.add(key, at)
    out = []
    while (key := queue.take(10)) is not None:
        out.append(key)
    assert sorted(out) == sorted({key for key, _ in added})
