"""Sessions: their law in numbers, the fence of their epochs, and a loopback that echoes. Pure.

No interface needs a session yet; this is what one will stand on. An epoch is counted up by whoever opens or
takes over (the ledger's ``session_lease`` keeps it); a frame of an older epoch is dropped and counted, so a
stalled owner that wakes changes nothing. Every queue has a bound, and what a full one does is stated.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

Drop = Literal["block", "oldest", "newest", "close"]
Closing = Literal["asked", "overflow", "taken-over", "idle", "too-long"]


@dataclass(frozen=True, slots=True)
class Queue:
    """The most that waits, and what becomes of more."""

    frames: int
    size_bytes: int
    drop: Drop


@dataclass(frozen=True, slots=True)
class SessionLaw:
    """What a profile must state of a session; there are no defaults."""

    max_duration_s: float
    idle_timeout_s: float
    inward: Queue  # towards the far end
    outward: Queue  # towards whoever receives


@dataclass(frozen=True, slots=True)
class Frame:
    """A piece of a session, of the epoch in which it was sent."""

    epoch: int
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Batch:
    """Frames after a number, in order, each with its own; ``lost`` were dropped before they could be read."""

    frames: tuple[tuple[int, bytes], ...]
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Closed:
    """The session is over, and why."""

    why: Closing


class Echo:
    """A session whose far end says what it hears. Times are handed in, as seconds of one clock."""

    def __init__(self, law: SessionLaw, *, epoch: int, now_s: float) -> None:
        self.epoch = epoch
        self.fenced = 0  # frames of older epochs
        self.closed: Closed | None = None
        self._law = law
        self._opened_s = self._last_s = now_s
        self._heard: deque[bytes] = deque()
        self._said: deque[tuple[int, bytes]] = deque()
        self._number = 0
        self._lost = 0

    def open(self, epoch: int, *, now_s: float) -> bool:
        """Open again, or take over; False where the epoch is not newer. What waited stays."""
        if epoch <= self.epoch or self.closed is not None:
            return False
        self.epoch, self._last_s = epoch, now_s
        return True

    def send(self, frame: Frame, *, now_s: float) -> Literal["taken", "full", "fenced", "closed"]:
        """Hand a frame in. ``full`` asks for the same one again later; it was not taken."""
        if self._is_over(now_s):
            return "closed"
        if frame.epoch != self.epoch:
            self.fenced += 1
            return "fenced"
        self._last_s = now_s
        if len(frame.data) > min(self._law.inward.size_bytes, self._law.outward.size_bytes):
            self._lost += 1  # nothing would ever make room for it
            return "taken"
        return self._taken(frame.data)

    def _taken(self, data: bytes) -> Literal["taken", "full", "closed"]:
        drop = self._law.inward.drop
        if self._has_room(self._law.inward, [*self._heard, data]) or drop == "oldest":
            while not self._has_room(self._law.inward, [*self._heard, data]):
                self._heard.popleft()
                self._lost += 1
            self._heard.append(data)
            return "taken"
        if drop == "block":
            return "full"
        if drop == "close":
            self.closed = Closed("overflow")
            return "closed"
        self._lost += 1
        return "taken"

    def turn(self) -> None:
        """Let the far end answer what it has heard, as far as there is room for answers."""
        while self._heard and self.closed is None:
            waiting = [data for _, data in self._said]
            if not self._has_room(self._law.outward, [*waiting, self._heard[0]]):
                if self._law.outward.drop == "close":
                    self.closed = Closed("overflow")
                if self._law.outward.drop != "oldest" or not self._said:
                    return
                self._said.popleft()
                self._lost += 1
                continue
            self._number += 1
            self._said.append((self._number, self._heard.popleft()))

    def receive(self, after: int, limit: int) -> Batch:
        """What was said after that number, at most ``limit`` frames. Whoever asks for it has read what came
        before: that is let go.
        """
        while self._said and self._said[0][0] <= after:
            self._said.popleft()
        lost, self._lost = self._lost, 0
        return Batch(tuple(list(self._said)[: max(0, limit)]), lost)

    def close(self, why: Closing = "asked") -> Closed:
        """End it; a session ends once."""
        self.closed = self.closed or Closed(why)
        return self.closed

    def _is_over(self, now_s: float) -> bool:
        if self.closed is None and now_s - self._opened_s > self._law.max_duration_s:
            self.closed = Closed("too-long")
        if self.closed is None and now_s - self._last_s > self._law.idle_timeout_s:
            self.closed = Closed("idle")
        return self.closed is not None

    @staticmethod
    def _has_room(queue: Queue, frames: list[bytes]) -> bool:
        return len(frames) <= queue.frames and sum(map(len, frames)) <= queue.size_bytes
