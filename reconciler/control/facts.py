"""All that a status is drawn from, and who is concerned by what changed in it. Pure.

``Facts`` are one moment's. An ``Index`` follows them from one moment to the next: it finds what they say of
one object without looking through all of them, and names the objects of which something else may have to be
said. What it knows equals what one made of the newest facts alone knows, which a property test holds to.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from reconciler.admission.admit import Admission
from reconciler.attempts.holdings import Tally
from reconciler.config.paths import Owner, home
from reconciler.control.withholding import Demands
from reconciler.model.identity import moved
from reconciler.model.inventory import Inventory, Layer
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.model.observations import Seen
from reconciler.model.problems import Problem, Severity
from reconciler.model.resources import Agent, Binding, Connector, Profile
from reconciler.model.routes import RouteTable
from reconciler.model.status import Condition, Held, InstanceSeen
from reconciler.plan.serving import Trial

K = TypeVar("K")
V = TypeVar("V")

_SHOWN = (Kind.BINDING, Kind.PROJECT)  # what an agent's status tells of beside the agent
_PASSING = (Kind.CONNECTOR, Kind.PROFILE)  # by way of these something is used that may ship


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a status is drawn from. ``unproven`` says why a new instance does not serve yet."""

    admission: Admission
    desired: RouteTable
    serving: RouteTable
    instances: Mapping[str, InstanceSeen]  # by binding@digest12
    unproven: Mapping[InstanceName, Trial] = field(default_factory=dict)
    held: Mapping[ObjectRef, Held] = field(default_factory=dict)  # whose last form is kept, and why
    flapping: Mapping[ObjectRef, str] = field(default_factory=dict)  # what changes too often, in words
    drifted: Mapping[ObjectRef, Condition] = field(default_factory=dict)  # at the last check
    proofs: Demands = field(default_factory=dict)  # of bindings that ask for evidence
    running: bool = True  # False: written without a controller
    jobs: Mapping[ObjectRef, Tally] = field(default_factory=dict)  # of bindings: attempts that are not over
    truths: Mapping[ObjectRef, Seen] = field(default_factory=dict)  # of bindings: what was observed of them


_NOBODY = RouteTable(0, {}, {})
_NOTHING = Facts(
    Admission(Inventory("", {}, (), {}, {}, {}), {}, frozenset(), {}, (), {}, {}), _NOBODY, _NOBODY, {}
)


class Index:
    """What the newest facts say, by object."""

    def __init__(self) -> None:
        self.facts = _NOTHING
        self._users: dict[ObjectRef, set[ObjectRef]] = {}
        self._instances: dict[str, dict[str, InstanceSeen]] = {}  # by binding, then by their own name
        self._wanted: dict[str, set[str]] = {}  # by binding: the names of desired instances
        self._unproven: dict[str, dict[InstanceName, Trial]] = {}  # by binding
        self._warnings: Mapping[ObjectRef, tuple[Problem, ...]] = {}

    def users(self, ref: ObjectRef) -> Collection[ObjectRef]:
        """Who uses an object, of those that have a status themselves: bindings use connectors, connectors
        without code use profiles, these a dialect; agents use bindings, interfaces and projects.
        """
        return [one for one in self._users.get(ref, ()) if self.is_told(one)]

    def instances(self, ref: ObjectRef) -> tuple[InstanceSeen, ...]:
        """A binding's instances, by name; none of any other object."""
        if ref.kind is not Kind.BINDING:
            return ()
        return tuple(one for _, one in sorted(self._instances.get(ref.name, {}).items()))

    def wanted(self, binding: str) -> Collection[str]:
        """The names of a binding's desired instances."""
        return self._wanted.get(binding, ())

    def trial(self, binding: str) -> Trial | None:
        """Why the newest instance of a binding does not serve yet, and whether it is given up; or None."""
        return next(iter(self._unproven.get(binding, {}).values()), None)

    def warnings(self, ref: ObjectRef) -> tuple[Problem, ...]:
        """What is said of an object that refuses nothing."""
        return self._warnings.get(ref, ())

    def is_told(self, ref: ObjectRef) -> bool:
        """Objects of the configuration have a status, and what they use of the catalogue, by way of other
        things or at once.
        """
        admission = self.facts.admission
        resource = admission.inventory.resources.get(ref)
        if (resource and resource.layer is Layer.CONFIG) or ref in admission.refused:
            return True
        if ref in admission.retained:
            return True
        return ref in admission.in_force and any(map(self.is_told, self._users.get(ref, ())))

    def follow(self, now: Facts) -> set[ObjectRef]:
        """Take the newest facts; of all other objects than these the same is to be said as before."""
        before, self.facts = self.facts, now
        touched = _judged_anew(before, now) | self._warned_anew(before, now) | self._running_anew(before, now)
        again = set(touched)
        for ref in touched:
            again |= self._use(ref, before, now)
        for ref in touched:
            if ref.kind in _SHOWN:
                again |= self._users.get(ref, set())
        return again | self._below(again)

    def _below(self, refs: set[ObjectRef]) -> set[ObjectRef]:
        """What these use that may ship, and what that uses: told for as long as they are."""
        found: set[ObjectRef] = set()
        while refs := {ref for ref in refs if ref.kind in _PASSING}:
            refs = {one for ref in refs for one in _used(self.facts, ref)}
            found |= refs
        return found

    def _use(self, ref: ObjectRef, before: Facts, now: Facts) -> set[ObjectRef]:
        """Note what an object uses now; what it came or ceased to use."""
        old, new = _used(before, ref), _used(now, ref)
        for one in new - old:
            self._users.setdefault(one, set()).add(ref)
        for one in old - new:
            users = self._users[one]
            users.discard(ref)
            if not users:
                del self._users[one]
        return old ^ new

    def _warned_anew(self, before: Facts, now: Facts) -> set[ObjectRef]:
        if before.admission.problems is now.admission.problems:
            return set()
        found: dict[ObjectRef, list[Problem]] = {}
        for problem in now.admission.problems:
            if problem.about is not None and problem.severity is Severity.WARNING:
                found.setdefault(problem.about, []).append(problem)
        was, self._warnings = self._warnings, {ref: tuple(some) for ref, some in found.items()}
        return _unlike(was, self._warnings)

    def _running_anew(self, before: Facts, now: Facts) -> set[ObjectRef]:
        """The bindings of which other instances are desired, observed or unproven."""
        names: set[str] = set()
        for one in moved(before.desired.recipes, now.desired.recipes):
            names.add(one.binding)
            wanted = self._wanted.setdefault(one.binding, set())
            (wanted.add if one in now.desired.recipes else wanted.discard)(str(one))
        names |= _regroup(self._instances, before.instances, now.instances, _binding_of)
        names |= _regroup(self._unproven, before.unproven, now.unproven, lambda one: one.binding)
        return {ObjectRef(Kind.BINDING, name) for name in names}


def _judged_anew(before: Facts, now: Facts) -> set[ObjectRef]:
    """The objects that were read, judged, kept or routed otherwise."""
    old, new = before.admission, now.admission
    refs = moved(old.inventory.resources, new.inventory.resources) | moved(old.in_force, new.in_force)
    refs |= moved(old.refused, new.refused) | moved(old.absent, new.absent)
    refs |= (old.retained ^ new.retained) | _unlike(before.held, now.held)
    refs |= (
        _unlike(before.proofs, now.proofs)
        | _unlike(before.flapping, now.flapping)
        | _unlike(before.drifted, now.drifted)
        | _unlike(before.jobs, now.jobs)
        | _unlike(before.truths, now.truths)
    )
    # Whoever is judged anew, for whatever reason, has new selections.
    agents = moved(old.selections, new.selections) | moved(before.desired.agents, now.desired.agents)
    agents |= moved(before.serving.agents, now.serving.agents)
    refs |= {ObjectRef(Kind.AGENT, name) for name in agents}
    if before.running != now.running:
        refs |= new.inventory.resources.keys() | new.in_force.keys()
    return refs | _refused_in_other_words(old, new)


def _refused_in_other_words(old: Admission, new: Admission) -> set[ObjectRef]:
    """The refused objects whose text may have changed, and be refused for the same: found by the paths that
    changed, since there may be thousands.
    """
    homes = [home(path) for path in moved(_files(old), _files(new))]
    if all(one.owner in (Owner.OBJECT, Owner.PASSED_OVER) for one in homes):
        return {ObjectRef(one.kind, one.name) for one in homes} & new.refused.keys()
    return {ref for ref in new.refused if _text(old, ref) is not _text(new, ref)}


def _files(admission: Admission) -> Mapping[str, bytes]:
    tree = admission.inventory.trees.get(Layer.CONFIG)
    return tree.files if tree else {}


def _text(admission: Admission, ref: ObjectRef) -> bytes | None:
    """The bytes of a refused object's file, which may change and be refused for the same."""
    kept = admission.inventory.resources.get(ref) or admission.in_force.get(ref)
    refused = admission.refused.get(ref)
    file = kept.file if kept else refused[0].at.file if refused else ""
    return admission.inventory.sources.get((Layer.CONFIG, file))


def _used(facts: Facts, ref: ObjectRef) -> set[ObjectRef]:
    """What an object in force uses; of an agent also what serves it meanwhile."""
    found: set[ObjectRef] = set()
    admission = facts.admission
    form = admission.in_force.get(ref)
    spec = form.spec if form else None
    if isinstance(spec, Binding) and spec.connector:
        found.add(ObjectRef(Kind.CONNECTOR, spec.connector))
    if isinstance(spec, Connector):
        found |= {ObjectRef(Kind.PROFILE, name) for name in spec.profiles}
    if isinstance(spec, Profile):
        found.add(ObjectRef(Kind.DIALECT, spec.identity.dialect))
    if isinstance(spec, Agent) and spec.project:
        found.add(ObjectRef(Kind.PROJECT, spec.project))
    for selected in admission.selections.get(ref.name, ()) if ref.kind is Kind.AGENT else ():
        found |= {ObjectRef(Kind.BINDING, one.binding) for one in selected.each}
        found.add(ObjectRef(Kind.INTERFACE, str(selected.interface)))
    served = facts.serving.agents.get(ref.name) if isinstance(spec, Agent) else None
    if served is not None and served is not facts.desired.agents.get(ref.name):
        found |= {ObjectRef(Kind.BINDING, route.binding) for route in served.every()}
    return found


def _binding_of(instance: str) -> str:
    return instance.rpartition("@")[0]


def _regroup(
    groups: dict[str, dict[K, V]], before: Mapping[K, V], now: Mapping[K, V], group: Callable[[K], str]
) -> set[str]:
    """Put what differs into its group; the groups that changed."""
    changed = set()
    for key in _unlike(before, now):
        name = group(key)
        changed.add(name)
        members = groups.setdefault(name, {})
        if key in now:
            members[key] = now[key]
        elif members.pop(key, None) is not None and not members:
            del groups[name]
    return changed


def _unlike(before: Mapping[K, V], now: Mapping[K, V]) -> set[K]:
    return {
        key for key in moved(before, now) if key not in before or key not in now or before[key] != now[key]
    }
