"""Certification: trouble is made with a call that is known to work, and the connector must come back.

For each trouble there is one right end of the call that it hits: the answer, as if nothing had been, or
``unavailable`` (never a wrong answer, never a call that hangs); where the case has an effect, a call whose
answer is lost is ``outcome_unknown``, since it may have happened. Whatever it was, the next call is answered.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from reconciler.conformance import cases
from reconciler.conformance.cases import Case, Outcome
from reconciler.control.caserun import Asking, Suite
from reconciler.control.examining import Bench, Listener
from reconciler.control.troubles import Trouble
from reconciler.model.contract import Contract
from reconciler.model.problems import listed, quoted

# How the call that trouble is made with ends; () where it is answered all the same.
ENDS: Mapping[Trouble, tuple[str, ...]] = {
    Trouble.SLOW: (),
    Trouble.GARBAGE: (),
    Trouble.OVERSIZED: ("unavailable", "too_large"),
    Trouble.DROPPED: (),
    Trouble.CUT: ("unavailable",),
    Trouble.FLOOD: ("unavailable",),
    Trouble.KILLED: ("unavailable",),
    Trouble.SILENT: ("unavailable",),
}
UNKNOWN = "outcome_unknown"
_LEAST_S, _TIMES = 3.0, 4.0  # how long a silent answer is waited for: at least, and as often as it took
_ENDED_S = 30.0  # by then a connector that fell silent has been ended


@dataclass(frozen=True, slots=True)
class Probe:
    """The call that trouble is made with: a case that passed, and how long it took."""

    suite: Suite
    case: Case
    seconds: float


async def certify(bench: Bench, probe: Probe, listener: Listener) -> None:
    """Make each trouble once, in this order. OSError: cases cannot be asked."""
    version = str(probe.suite.contract.interface)
    for trouble in ENDS:
        named = replace(probe.case, name=trouble.value, tier="certification")
        listener.begins(version, named)
        suite = _hasty(probe) if trouble is Trouble.SILENT else probe.suite
        async with bench.opened(suite) as asking:
            outcome, faults = await _through(bench, asking, probe, trouble)
        async with bench.opened(probe.suite) as asking:  # a start may take longer than one waits for silence
            bench.forgive()
            again = await asking.ask(probe.case)
        faults += [f"afterwards: {fault}" for fault in cases.judge(probe.case, again)]
        listener.ended(version, named, outcome, tuple(faults))


def ends(trouble: Trouble, effect: str) -> tuple[str, ...]:
    """The codes that a call may end with that trouble is made with; () where it is answered all the same."""
    return (UNKNOWN,) if ENDS[trouble] and effect != "none" else ENDS[trouble]


async def _through(bench: Bench, asking: Asking, probe: Probe, trouble: Trouble) -> tuple[Outcome, list[str]]:
    """One call that trouble is made with: how it ended, and what was wrong."""
    bench.forgive()
    if trouble is Trouble.DROPPED:
        await bench.drop()
    else:
        bench.meddler.armed = trouble
    case, effect = probe.case, probe.suite.contract.tools[probe.case.tool].effect
    outcome = await asking.ask(case)
    faults = _faults(case, outcome, ends(trouble, effect))
    if bench.meddler.armed is not None:
        bench.meddler.armed = None
        faults.append("its call never reached the connector")
    if trouble is Trouble.SILENT and not await bench.replaced(_ENDED_S):
        faults.append(f"a process that answers nothing still ran after {_ENDED_S:g} s")
    return outcome, faults


def _faults(case: Case, outcome: Outcome, right: tuple[str, ...]) -> list[str]:
    if not right:
        return list(cases.judge(case, outcome))
    if outcome.error in right:
        return []
    ended = f"ended with {quoted(outcome.error)}" if outcome.error else "was answered"
    return [f"expected {listed(map(quoted, right))}, and the call {ended}"]


def _hasty(probe: Probe) -> Suite:
    """The suite with so little time for a call that its end can be waited for."""
    contract = probe.suite.contract
    limits = contract.spec.limits
    seconds = min(limits.timeout_seconds, max(_LEAST_S, _TIMES * probe.seconds))
    spec = contract.spec.model_copy(update={"limits": limits.model_copy(update={"timeout_seconds": seconds})})
    return replace(probe.suite, contract=Contract(spec, contract.tools_json, contract.tools))
