"""The life of one instance as a value: what it is, and what it becomes when something happens to it. Pure.

declared → building → starting → ready ⇄ idle → declared again (stopped, until the next call) or draining →
retired. A process that ends unasked makes the instance ``failed`` with a back-off of 5 ms that doubles up to
60 s; five ends within 60 s are a crash loop and wait the full 60 s. A process that answered and stayed up
for 60 s, or that was stopped on purpose, clears the count. One that was killed from outside, by an operator
or a machine short of memory, is no sign of a fault of its own: it backs off, and makes no crash loop.
Instants are seconds of a monotonic clock, handed in. Each method below is one thing that happens; what cannot
happen in a phase raises Bug.
"""

from dataclasses import dataclass, replace
from typing import Literal

from reconciler.model.problems import Bug
from reconciler.model.status import Reason

FIRST_BACK_OFF_S = 0.005
LONGEST_BACK_OFF_S = 60.0
LOOP_ENDS = 5
LOOP_WINDOW_S = 60.0  # also how long a process must serve before its earlier ends are forgiven

# SIGHUP, SIGINT, SIGKILL, SIGTERM: where none of us sent it, somebody else did. A program's own faults end by
# others (SIGSEGV, SIGABRT, …); one that kills itself so gains some starts, each later than the last.
_FROM_OUTSIDE = frozenset(f"signal {number}" for number in (1, 2, 9, 15))

Phase = Literal["declared", "building", "starting", "ready", "idle", "draining", "failed", "retired"]


def back_off_s(failures: int) -> float:
    """How long after the n-th failure in a row (from 1) the next start may be."""
    doublings = min(failures - 1, 32)  # far above the cap, far below what a float holds
    return min(LONGEST_BACK_OFF_S, FIRST_BACK_OFF_S * 2.0**doublings)


@dataclass(frozen=True, slots=True)
class State:
    """One instance as it stands. ``holds`` counts calls that need its process."""

    phase: Phase = "declared"
    running: bool = False  # there is a process
    answered: bool = False  # that process has answered
    holds: int = 0
    failures: int = 0  # in a row
    ends: tuple[float, ...] = ()  # of processes, unasked, within the window
    started_at: float = 0.0
    retry_at: float = 0.0
    starts: int = 0
    restarts: int = 0  # of them, those after an end that nobody asked for
    last_exit: str = ""  # "exit 1", "signal 9"
    reason: Reason | None = None
    message: str = ""
    killed: bool = False  # the last process, by somebody else's signal

    def wait_s(self, now: float) -> float:
        """How long a start has to wait for the back-off; 0 when it need not."""
        return max(0.0, self.retry_at - now) if self.phase == "failed" else 0.0

    def building(self, message: str) -> "State":
        """What it needs is being installed; ``message`` says how far that is."""
        self._only("declared", "building", "failed")
        return replace(self, phase="building", message=message)

    def built(self) -> "State":
        """Everything it needs is there."""
        self._only("building")
        return replace(self, phase="declared", message="", reason=None, failures=0, retry_at=0.0)

    def refused(self, reason: Reason, message: str, now: float) -> "State":
        """It cannot be built or started at all, before any code of its own ran; tried again later."""
        self._only("declared", "building", "failed", "starting", "draining")
        gone = replace(self, running=False, answered=False)
        return _settled(gone) if self.phase == "draining" else _failed(gone, reason, message, now)

    def started(self, now: float) -> "State":
        """A process is being started for it."""
        self._only("declared", "failed")
        again = self.phase == "failed" and self.starts > 0
        return replace(
            self, phase="starting", running=True, answered=False, started_at=now, starts=self.starts + 1,
            restarts=self.restarts + again, killed=False,
        )  # fmt: skip

    def answering(self) -> "State":
        """Its process answered. A second time, or after its end, that says nothing new."""
        if not self.running or self.answered:
            return self
        return _settled(replace(self, answered=True, reason=None, message=""))

    def held(self, by: Literal[1, -1]) -> "State":
        """One more call needs its process, or one fewer."""
        if self.holds + by < 0:
            raise Bug("an instance was released more often than it was held")
        return _settled(replace(self, holds=self.holds + by))

    def stopped(self, how: str) -> "State":
        """Its process ended because we asked it to: it was idle, or is retired."""
        self._must_run()
        gone = replace(self, running=False, answered=False, last_exit=how)
        if self.phase == "draining":
            return _settled(gone)
        return replace(gone, phase="declared", failures=0, ends=(), reason=None, message="")

    def killed_by_others(self, how: str, message: str, now: float) -> "State":
        """Its process is gone by a signal that nobody here sent: tried again with back-off, for ever."""
        gone = self._over(how, now)
        return gone if _leaves(gone) else replace(_failed(gone, None, message, now), killed=True)

    def ended(self, how: str, reason: Reason | None, message: str, now: float) -> "State":
        """Its process is gone and nobody asked for that, or we ended it for a ``reason``."""
        gone = self._over(how, now)
        if _leaves(gone):
            return gone
        recent = (*(end for end in gone.ends if now - end < LOOP_WINDOW_S), now)
        gone = replace(gone, ends=recent[-LOOP_ENDS:])
        if len(recent) < LOOP_ENDS and gone.reason != "CrashLoop":
            return _failed(gone, reason, message, now)
        message = f"it ended {LOOP_ENDS} times within {LOOP_WINDOW_S:.0f} s; {message}"
        return replace(_failed(gone, "CrashLoop", message, now), retry_at=now + LONGEST_BACK_OFF_S)

    def _over(self, how: str, now: float) -> "State":
        """Without its process; what it failed before is forgiven where this one served long enough."""
        self._must_run()
        gone = replace(self, running=False, answered=False, last_exit=how)
        if self.phase == "draining":
            return _settled(gone)
        if self.answered and now - self.started_at >= LOOP_WINDOW_S:
            return replace(gone, failures=0, ends=(), reason=None)
        return gone

    def forgiven(self) -> "State":
        """Somebody asked for it to be tried now: what failed need not wait; nothing else changes."""
        if self.phase != "failed":
            return self
        reason = None if self.reason == "CrashLoop" else self.reason
        return replace(self, failures=0, ends=(), retry_at=0.0, reason=reason)

    def found(self) -> "State":
        """The secrets are there that its last start did not find."""
        if self.phase != "failed" or self.reason != "SecretUnresolved":
            return self
        return replace(self.forgiven(), phase="declared", reason=None, message="")

    def beside(self, reason: Reason, words: str) -> "State":
        """What runs, with something to be said of it; not where it is of no use, or there are no words."""
        if not words or self.reason is not None or not self.answered:
            return self
        return replace(self, reason=reason, message=words)

    def retiring(self) -> "State":
        """Nothing wants it any more: it ends when its last call does."""
        return replace(self, phase="draining" if self.running or self.holds else "retired")

    def recalled(self) -> "State":
        """It is wanted again before it ended."""
        self._only("draining", "retired")
        return _settled(replace(self, phase="starting" if self.running else "declared"))

    def _only(self, *phases: Phase) -> None:
        if self.phase not in phases:
            raise Bug(f"this cannot happen to an instance that is {self.phase}")

    def _must_run(self) -> None:
        if not self.running:
            raise Bug("a process ended that never started")


def is_from_outside(how: str) -> bool:
    """Whether an end that nobody here asked for is somebody else's doing."""
    return how in _FROM_OUTSIDE


def _leaves(state: State) -> bool:
    return state.phase in {"draining", "retired"}


def _settled(state: State) -> State:
    """Ready while a call holds it, idle while none does; what is on its way in or out stays so."""
    if _leaves(state):
        return replace(state, phase="draining" if state.running or state.holds else "retired")
    if not state.answered:
        return state
    return replace(state, phase="ready" if state.holds else "idle")


def _failed(state: State, reason: Reason | None, message: str, now: float) -> State:
    failures = state.failures + 1
    later = now + back_off_s(failures)
    return replace(state, phase="failed", failures=failures, retry_at=later, reason=reason, message=message)
