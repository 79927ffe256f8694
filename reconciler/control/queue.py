"""Keys, not events: what is to be looked at, each once, and when. Pure: the time is handed in.

A key that is added twice is looked at once; a key in somebody's hands is not handed out again before it is
given back, and one added meanwhile is due again afterwards. What fails comes back after 5 ms, then twice as
long each time, up to a minute (the shape of controller-runtime's queue, with a cap fit for one machine). No
key is lost: it is waiting, or held, or done with.
"""

import heapq
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar, assert_never

K = TypeVar("K", bound=Hashable)

_FIRST_RETRY_S = 0.005  # a race that is over by itself is over in milliseconds
_LAST_RETRY_S = 60.0  # a person who mends something waits at most this long
_DOUBLINGS = 14  # 5 ms doubled so often is more than the cap; beyond it nothing need be counted


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing is left to do until the key is added anew."""


@dataclass(frozen=True, slots=True)
class Wait:
    """It goes well and is not over: look again after so many seconds."""

    after_s: float


@dataclass(frozen=True, slots=True)
class Failed:
    """It did not work: look again after the key's back-off."""


@dataclass(frozen=True, slots=True)
class Stuck:
    """Nothing changes until a person changes something; the failures so far are forgotten."""


Outcome = Done | Wait | Failed | Stuck


class Queue(Generic[K]):
    """Keys by when they are due; equal times in the order in which they were added. Times are monotonic
    seconds.
    """

    def __init__(self, *, first_retry_s: float = _FIRST_RETRY_S, last_retry_s: float = _LAST_RETRY_S) -> None:
        self._first_retry_s = first_retry_s
        self._last_retry_s = last_retry_s
        self._due: dict[K, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, K]] = []  # may hold outdated entries: `_due` decides
        self._held: set[K] = set()
        self._failures: dict[K, int] = {}
        self._added = 0

    def add(self, key: K, at_s: float) -> None:
        """Look at ``key`` at ``at_s`` or before; a hint overtakes a back-off, never the other way round."""
        known = self._due.get(key)
        if known is not None and known[0] <= at_s:
            return
        self._added += 1
        self._due[key] = (at_s, self._added)
        heapq.heappush(self._heap, (at_s, self._added, key))

    def take(self, now_s: float) -> K | None:
        """The key that is due longest and in nobody's hands, now in yours; None when there is none."""
        passed: list[tuple[float, int, K]] = []
        found: K | None = None
        while self._heap and self._heap[0][0] <= now_s:
            entry = heapq.heappop(self._heap)
            if not self._current(entry):
                continue
            if entry[2] in self._held:
                passed.append(entry)
                continue
            found = entry[2]
            del self._due[found]
            self._held.add(found)
            break
        for entry in passed:
            heapq.heappush(self._heap, entry)
        return found

    def done(self, key: K, outcome: Outcome, now_s: float) -> None:
        """Give a key back and say what came of it; KeyError when it was not in anybody's hands."""
        self._held.remove(key)
        match outcome:
            case Done() | Stuck():
                self._failures.pop(key, None)
            case Wait(after_s):
                self._failures.pop(key, None)
                self.add(key, now_s + after_s)
            case Failed():
                self.add(key, now_s + self._retry_s(key))
            case _:
                assert_never(outcome)

    def next_s(self) -> float | None:
        """When the next key that nobody holds is due; None when there is none."""
        while self._heap and not self._current(self._heap[0]):
            heapq.heappop(self._heap)
        if self._heap and self._heap[0][2] not in self._held:
            return self._heap[0][0]
        free = [due for key, (due, _) in self._due.items() if key not in self._held]
        return min(free, default=None)

    def __len__(self) -> int:
        """How many keys wait, held ones that are due again included."""
        return len(self._due)

    def _current(self, entry: tuple[float, int, K]) -> bool:
        due_s, number, key = entry
        return self._due.get(key) == (due_s, number)

    def _retry_s(self, key: K) -> float:
        failures = self._failures.get(key, 0)
        self._failures[key] = min(failures + 1, _DOUBLINGS)
        return min(self._first_retry_s * 2.0**failures, self._last_retry_s)
