"""What a call with an effect has besides: its place in the guard, and its attempt in the ledger.

One object a call, for its flight: it joins, begins and settles by callbacks, and sees to it that an attempt
that was kept for a call which is not sent any more is settled as that.
"""

from dataclasses import replace
from typing import Protocol

from reconciler.model.calls import Refusal
from reconciler.model.contract import Tool
from reconciler.model.effects import Begun, Effects, Ending, Intent, Known
from reconciler.model.jobs import AskJob, Jobs, JobSeen
from reconciler.router import guard
from reconciler.router.guard import Guard, Run, Told
from reconciler.router.steps import Begin, Join, Outcome

_TOO_LATE = Ending("none", "unavailable", "its time was up before it was sent", was_sent=False)


class Asker(Protocol):
    """The flight of a call that is about a job."""

    over: bool
    seen: JobSeen | None  # how the job stood, once that was heard

    def go_on(self, reply: object) -> None: ...

    def waits_for(self, step: type) -> bool: ...


class Whose(Protocol):
    """The flight that a call is."""

    over: bool
    tool: Tool

    @property
    def caller(self) -> str: ...

    @property
    def session(self) -> str: ...

    def go_on(self, reply: object) -> None: ...

    def waits_for(self, step: type) -> bool: ...


def ask_job(flight: Asker, jobs: Jobs, step: AskJob, intent: Intent) -> None:
    """Submit a job or ask about one, for a call that stands at that step; later its answer is nobody's."""

    def heard(seen: JobSeen | Refusal) -> None:
        if isinstance(seen, JobSeen):
            flight.seen = seen
        if not flight.over and flight.waits_for(AskJob):
            flight.go_on(seen)

    jobs.ask(step.what, replace(intent, handed=step.handed), heard)


class Kept:
    """The effect of one call. ``attempt`` is set once the call may have been sent."""

    __slots__ = ("_effects", "_flight", "_guard", "_mine", "_run", "_told", "attempt")

    def __init__(self, flight: Whose, guarded: Guard, effects: Effects) -> None:
        self.attempt = ""
        self._flight = flight
        self._guard = guarded
        self._effects = effects
        self._run: Run | None = None  # this call's, or the one that it waits for
        self._mine = False
        self._told: Told | None = None

    def join(self, step: Join) -> None:
        """Be the first, or wait for who is, or have the outcome at once."""
        flight = self._flight
        what = guard.what(flight.tool.name, step.arguments)
        new = Run(flight.session, flight.caller, what, is_local=flight.tool.effect == "local")

        def told(outcome: Outcome | None) -> None:
            self._run = None
            if flight.over or not flight.waits_for(Join):
                return
            if outcome is None:
                self.join(step)
            else:
                flight.go_on(outcome)

        self._told = told
        entered = self._guard.enter(new, told)
        if not isinstance(entered, Run):
            flight.go_on(entered)
            return
        self._run, self._mine = entered, entered is new
        if self._mine:
            flight.go_on(None)

    def begin(self, intent: Intent) -> None:
        """Have the attempt kept; what was kept too late for the call is settled at once."""
        flight = self._flight

        def heard(reply: Begun | Known | Refusal) -> None:
            if flight.over or not flight.waits_for(Begin):
                if isinstance(reply, Begun):
                    self._effects.settle(reply.attempt, _TOO_LATE, lambda: None)
                return
            if isinstance(reply, Begun | Known):
                self.attempt = reply.attempt
            flight.go_on(reply)

        self._effects.begin(intent, heard)

    def settle(self, ending: Ending) -> None:
        """Have it kept how the call ended, then go on."""
        self._effects.settle(self.attempt, ending, lambda: self._flight.go_on(None))

    def drift(self) -> None:
        """Nobody waits for the call any more, and it goes on."""
        if self._run is not None and self._mine:
            self._guard.drift(self._run)

    def leave(self, outcome: Outcome | None, *, heard: bool) -> None:
        """The call is over."""
        run, self._run = self._run, None
        if run is None:
            return
        if self._mine:
            self._guard.leave(run, outcome, heard=heard)
        elif self._told is not None:
            self._guard.give_up(run, self._told)
