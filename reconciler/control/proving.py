"""Proofs: a new instance starts, answers, and passes the smoke cases that its binding asks for, or not.

What must be proven is ``plan.diff``'s decision; here it is done, one proof an instance at a time, and what
came of it is kept. What fails by its own fault is tried again with back-off and then is known to be bad,
across restarts (``bad``); what fails by the fault of the machine, or because somebody killed it, is tried
again for ever. Meanwhile, and for as long as it takes, the old one serves.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import anyio

from reconciler.control.bad import Bad, Claim, Mark
from reconciler.control.queue import Done, Failed, Outcome, Stuck, Wait
from reconciler.model.calls import Refusal
from reconciler.model.names import InstanceName
from reconciler.model.observations import Policy
from reconciler.model.status import InstanceSeen
from reconciler.plan.serving import Trial

_STARTS = Trial("it is being started")


class Starts(Protocol):
    """The dispatcher, as much of it as a proof needs."""

    def prove(self, instance: InstanceName, heard: Callable[[Refusal | None], None]) -> None: ...


class Instances(Protocol):
    """The supervisor, as much of it as a proof needs."""

    def seen(self, name: InstanceName) -> InstanceSeen | None: ...

    def forgive(self, name: InstanceName) -> None: ...


async def started(starts: Starts, name: InstanceName) -> Refusal | None:
    """Start an instance and hear its first answer: None, or why there is none."""
    heard: list[Refusal | None] = []
    answered = anyio.Event()

    def hear(what: Refusal | None) -> None:
        heard.append(what)
        answered.set()

    starts.prove(name, hear)
    await answered.wait()
    return heard[0]


@dataclass(frozen=True, slots=True)
class Demand:
    """What is asked of an instance beyond its first answer: how to ask, which gives the faults, and the
    digest of what is asked ("" and None: nothing); whether it is started for that first answer at all.
    ``lacks``: what only a person can give, in words; while it is lacking nothing is started, and it counts as
    no failure.
    """

    digest: str = ""
    ask: Callable[[InstanceName], Awaitable[tuple[str, ...]]] | None = None
    lacks: str = ""
    start: bool = True

    def less(self, policy: Policy | None) -> "Demand":
        """The same without a start before it takes over, where a binding has its first call try it."""
        return replace(self, digest=f"{self.digest} attempt", start=False) if policy == "attempt" else self


class Prover:
    """Which instances have proven themselves, which are still to, and why they have not yet."""

    def __init__(
        self, starts: Starts, instances: Instances, bad: Bad, tell: Callable[[InstanceName, str], None]
    ) -> None:
        """``tell`` hears of every failure, in words for an event."""
        self._starts = starts
        self._instances = instances
        self._bad = bad
        self._tell = tell
        self._demands: dict[InstanceName, Demand] = {}
        self.proven: set[InstanceName] = set()
        self.unproven: dict[InstanceName, Trial] = {}  # replaced whole or by key, in the order of names

    def want(self, demands: Mapping[InstanceName, Demand]) -> tuple[InstanceName, ...]:
        """These, and no others, are to be proven from now on; those to begin with are returned."""
        before, was = self._demands, self.unproven
        self._demands = dict(demands)
        same = {name for name in demands.keys() & was.keys() if before[name].digest == demands[name].digest}
        self.unproven = {
            name: was[name] if name in same else self._known(name) or _STARTS for name in demands
        }
        return tuple(n for n, trial in self.unproven.items() if n not in same and not trial.given_up)

    def lapse(self, needed: Collection[InstanceName]) -> None:
        """A proof holds for the switch that it was asked for; whoever is wanted again later gives another."""
        self.proven.intersection_update(needed)

    def is_stuck(self) -> bool:
        """Whether something is unproven and all of that is given up."""
        return bool(self.unproven) and all(trial.given_up for trial in self.unproven.values())

    def pardon(self, binding: str = "") -> tuple[InstanceName, ...]:
        """A person asked: what waits or is given up (of one binding, or of all) is tried once more, now.
        Those to begin with.
        """
        found = tuple(name for name in self.unproven if binding in ("", name.binding))
        self._bad.pardon([self._claim(name) for name in found])
        for name in found:
            self._instances.forgive(name)
            self.unproven[name] = _STARTS
        return found

    async def prove(self, name: InstanceName) -> Outcome:
        """One try. Done when it proved itself, or nobody wants that any more."""
        trial = self.unproven.get(name)
        if trial is None or trial.given_up:
            return Done()
        claim, demand = self._claim(name), self._demands[name]
        if demand.lacks:
            self.unproven[name] = Trial(demand.lacks, given_up=True)
            return Stuck()
        refusal = await started(self._starts, name) if demand.start else None
        faults: tuple[str, ...] = ()
        if refusal is None and demand.ask is not None:
            try:
                faults = await demand.ask(name)
            except OSError as error:
                words = f"its smoke cases cannot be asked: {error.strerror or error}"
                refusal = Refusal("unavailable", words, "ReconcileError")
        if name not in self.unproven or self._claim(name) != claim:
            return Done()  # it was asked for no more, or for something else, while it was under way
        if refusal is None and not faults:
            del self.unproven[name]
            self.proven.add(name)
            self._bad.forget([claim])
            return Done()
        seen = self._instances.seen(name)
        if seen is not None and seen.killed:
            refusal = Refusal("unavailable", seen.message, "ProcessVanished")
        if refusal is not None and refusal.reason:
            return self._not_its_fault(name, refusal)
        return self._failed(name, claim, "; ".join(faults) or self._words(name, refusal))

    def _not_its_fault(self, name: InstanceName, refusal: Refusal) -> Outcome:
        why = refusal.diagnostic or refusal.code
        if self.unproven[name].why != why:
            self._tell(name, why)
        self.unproven[name] = Trial(why)
        return Failed()

    def _failed(self, name: InstanceName, claim: Claim, why: str) -> Outcome:
        mark = self._bad.failed(claim, why)
        self.unproven[name] = trial = Trial(_told(name, mark), mark.known)
        self._tell(name, trial.why)
        return Stuck() if mark.known else Wait(mark.retry_s)

    def _words(self, name: InstanceName, refusal: Refusal | None) -> str:
        """Why it did not start: as the supervisor saw its end, or as its connection did."""
        seen = self._instances.seen(name)
        if seen is not None and seen.phase == "failed" and seen.message:
            return seen.message
        return (refusal.diagnostic or refusal.code) if refusal else ""

    def _known(self, name: InstanceName) -> Trial | None:
        mark = self._bad.mark(self._claim(name))
        return Trial(_told(name, mark), mark.known) if mark else None

    def _claim(self, name: InstanceName) -> Claim:
        return Claim(name, self._demands[name].digest)


def _told(name: InstanceName, mark: Mark) -> str:
    """What failed, how often and since when, and what makes it be tried again."""
    times = "once" if mark.tries == 1 else f"{mark.tries} times"
    more = "" if "handler logs" in mark.why else f"; `handler logs {name.binding}` says more"
    words = f"it failed {times} since {mark.since}, the last time so: {mark.why}{more}"
    if mark.known:
        return f"{words}; known to be bad: tried again once it is edited, or by `handler apply`"
    return words
