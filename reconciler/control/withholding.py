"""Which bindings ask for evidence of conformance, and whether there is any: read at each look.

The newest form of a binding with ``conformance.require`` serves nobody until a check of exactly what it would
run has passed and is not too old; an earlier form that serves goes on. Evidence is what a check left in the
state folder, and what is committed beside the connector. A look costs a listing of what the few demanding
bindings have; files are read when they change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.admission.admit import Admission
from reconciler.conformance import evidence as law
from reconciler.conformance.evidence import Proof
from reconciler.control import proofs
from reconciler.control.proving import Demand
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.model.resources import Binding
from reconciler.model.status import Reason
from reconciler.plan.desired import Desired
from reconciler.plan.making import Made
from reconciler.runtime import searched

if TYPE_CHECKING:
    from reconciler.config.evidence import Evidence, EvidenceSubject


@dataclass(frozen=True, slots=True)
class Demanded:
    """What is proven of the instance that a demanding binding would have serve."""

    instance: InstanceName
    proof: Proof
    mend: str

    @property
    def passed(self) -> bool:
        return self.proof.verdict == "passed"

    @property
    def reason(self) -> Reason:
        """The word of the condition."""
        if self.passed:
            return "Proven"
        return "Stale" if self.proof.verdict == "stale" else "Withheld"

    @property
    def words(self) -> str:
        """Why it is withheld, and what to do."""
        return f"conformance is asked for and not proven: {self.proof.message}; {self.mend}"


Demands = Mapping[ObjectRef, Demanded]


def news(before: Demands, after: Demands) -> Iterator[tuple[str, str, Reason, str]]:
    """The events of what came to be proven, and of what is not any more, or not yet."""
    for ref, one in after.items():
        was = before.get(ref)
        if was is None or was.passed != one.passed:
            words = one.proof.message if one.passed else one.words
            yield str(ref), "Normal" if one.passed else "Warning", one.reason, words


def demand(usual: Demand, demands: Demands, binding: str) -> Demand:
    """What a new instance has to show before it replaces one that serves: evidence first, then the usual."""
    asked = demands.get(ObjectRef(Kind.BINDING, binding))
    if asked is None or asked.passed:
        return usual
    digest = f"{usual.digest} {asked.proof.verdict} {asked.proof.fingerprint}"
    return Demand(digest, lacks=asked.words)


@dataclass(frozen=True, slots=True)
class _Demanding:
    """One binding that asks, and what it asks of."""

    ref: ObjectRef
    instance: InstanceName
    subject: EvidenceSubject
    committed: list[Evidence]
    live: bool
    most_days: int
    mend: str
    programs: tuple[str, ...]  # of this machine, and what is read there: not in the subject's digests
    reads: tuple[str, ...]


class Withholding:
    """Follows the demands of a configuration. One thread at a time."""

    def __init__(self, state: Path, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._state = state
        self._now = now
        self._of: tuple[Admission, Desired] | None = None
        self._demanding: tuple[_Demanding, ...] = ()
        self._kept: dict[str, tuple[object, list[Evidence]]] = {}  # by connector, with how its folder looked
        self._last: Demands = {}

    def look(self, admission: Admission, desired: Desired) -> Demands:
        """What is proven now; the same mapping as before where nothing is otherwise."""
        if self._of is None or self._of[0] is not admission or self._of[1] is not desired:
            self._of = (admission, desired)
            self._demanding = _demanding(admission, desired)
        now = self._now() if self._demanding else None
        found = {one.ref: self._proven(one, now) for one in self._demanding if now is not None}
        if found != self._last:
            self._last = found
        return self._last

    def _proven(self, one: _Demanding, now: datetime) -> Demanded:
        found = [*one.committed, *self._known(one.subject.connector)]
        proof = law.proof(one.subject, found, live=one.live, most_days=one.most_days, now=now)
        return Demanded(one.instance, self._watched(one, proof), one.mend)

    def _watched(self, one: _Demanding, proof: Proof) -> Proof:
        """What was proven on this very machine is stale when what it was proven with is another by now."""
        here = {known.fingerprint for known in self._known(one.subject.connector)}
        if proof.verdict != "passed" or proof.fingerprint not in here:
            return proof
        passed_at = datetime.fromisoformat(proof.since).timestamp() + 1  # it is written in whole seconds
        changed = searched.changed_since(one.programs, one.reads, passed_at)
        if not changed:
            return proof
        words = f"it passed on {proof.since[:10]}, and '{changed}' of this machine was changed since"
        return replace(proof, verdict="stale", message=words, until="")

    def _known(self, connector: str) -> list[Evidence]:
        looks = proofs.looks(self._state, connector)
        known = self._kept.get(connector)
        if known is None or known[0] != looks:
            known = self._kept[connector] = (looks, proofs.kept(self._state, connector))
        return known[1]


def _demanding(admission: Admission, desired: Desired) -> tuple[_Demanding, ...]:
    found = []
    for ref, form in admission.in_force.items():
        if ref.kind is Kind.BINDING and isinstance(form.spec, Binding):
            made = desired.memory.made.get(ref.name)
            if form.spec.conformance.require != "none" and made is not None:
                found.append(_one(admission, form.spec, made))
    return tuple(found)


def _one(admission: Admission, binding: Binding, made: Made) -> _Demanding:
    recipe, demand, name = made.recipe, binding.conformance, made.name.binding
    suites = {
        version: admission.in_force[ObjectRef(Kind.INTERFACE, version)].files
        for version in made.connector.spec.implements
        if ObjectRef(Kind.INTERFACE, version) in admission.in_force
    }
    live = demand.require == "live" and law.reaches_out(recipe)  # else there is no more to prove
    run = f"handler connector check {recipe.connector} --binding {name}"
    return _Demanding(
        ObjectRef(Kind.BINDING, name),
        made.name,
        law.subject(recipe, suites),
        proofs.beside(admission.inventory.trees, recipe.connector),
        live,
        demand.max_age_days,
        f"run `{run}{' --live' if live else ''}`",
        tuple(recipe.sandbox.programs),
        tuple(recipe.sandbox.read),
    )
