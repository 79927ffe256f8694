"""The rooms of dialects, joined: who speaks for instances without code, and who keeps what that costs."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from reconciler.control.dialectjobs import NAME, RUNTIMES, DialectRunner
from reconciler.control.dialects import Dialects, facts_of
from reconciler.control.effects import LedgerEffects
from reconciler.control.evidence import Evidence, decision_id
from reconciler.control.jobs import LedgerJobs
from reconciler.control.journal import Journal
from reconciler.control.leaving import Leaving
from reconciler.control.permitting import Permitting
from reconciler.control.policing import Policing
from reconciler.control.receipts import Receipts
from reconciler.control.runners import Registry
from reconciler.control.transmitting import Outside
from reconciler.control.truths import Truths
from reconciler.control.wirekeeping import WireKeeper
from reconciler.model.calls import Refusal
from reconciler.model.names import InstanceName
from reconciler.model.recipes import Recipe
from reconciler.runtime.supervisor import Supervisor


def joined(
    leaving: Leaving,
    effects: LedgerEffects,
    supervisor: Supervisor,
    policing: Policing,
    *,
    truths: Truths,
) -> Dialects:
    """Those of one controller, made on its loop. ``truths`` knows what an instance is made of."""
    permitting = Permitting(policing, leaving.permits, time.monotonic)
    outside = Outside(
        leaving.way, leaving.permits, permitting, supervisor.resolver, supervisor.folders.run / "d",
        barred=supervisor.barred, revoked=supervisor.revoked, truths=truths,
    )  # fmt: skip
    outside.clear()
    made = Dialects(outside, WireKeeper(effects, time.time), supervisor.code)
    made.recipe = truths.recipe

    def entry(name: str) -> tuple[str, str]:
        found = policing.entry(name) if name else None
        return (found.case.interface, found.case.purpose) if found is not None else ("", "")

    def facts(recipe: Recipe) -> Mapping[str, str]:
        """What all profiles of an instance state alike."""
        try:
            speaker = made.speaker(recipe.name)
        except (OSError, ValueError):
            return {}
        stated = [set(facts_of(one).items()) for one in speaker.spoken.profiles] if speaker else []
        return dict(set.intersection(*stated)) if stated else {}

    made.entry, policing.facts = entry, facts
    return made


class _Unheeding(Truths):
    """Of an examination: it hears how calls end, and holds none back for that: each case is asked."""

    async def before(self, instance: InstanceName, operation: str) -> Refusal | None:
        """As ``Truths`` has it."""
        return None


def examined(
    leaving: Leaving,
    effects: LedgerEffects,
    supervisor: Supervisor,
    *,
    journal: Journal,
    recipe: Callable[[InstanceName], Recipe | None],
) -> Dialects:
    """Those of one examination. No policy is asked: it is a person who lets it out, and the list of hosts
    holds.
    """
    state = supervisor.folders.state
    evidence = Evidence(journal, Receipts(state, time.time), now=time.time, token=decision_id)
    policing = Policing(state, evidence, time.time)
    return joined(leaving, effects, supervisor, policing, truths=_Unheeding(time.time, recipe))


def do_jobs(runners: Registry, dialects: Dialects, jobs: LedgerJobs, state: Path) -> None:
    """Let the jobs of what speaks a dialect be done."""
    runner = DialectRunner(dialects, state, jobs.staging, time.time)
    dialects.jobs = runner
    runners.register(NAME, runner, RUNTIMES)
