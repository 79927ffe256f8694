"""The blast radius of an edit: what would be added, changed, removed, held or refused, and whom it reaches.

Drawn from two decided sides, whole or not at all: every object that differs has its change, every key that
changed stands in it before and after, and whoever is touched (agents, open sessions, users of a frozen
version) is named where it is touched. A secret is shown as the form of its reference and a fingerprint of it,
never as a value. No words are made here: ``doors.radius`` tells it, ``plan.blast`` makes it JSON.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Literal

from reconciler.admission.admit import Admission
from reconciler.model.identity import moved
from reconciler.model.inventory import Layer, Lock, LockEntry, Resource
from reconciler.model.names import PUBLISHED, InstanceName, Kind, ObjectRef, locked_object
from reconciler.model.problems import Problem
from reconciler.model.resources import Binding, Record
from reconciler.model.routes import AgentRoutes, Route
from reconciler.model.status import Held
from reconciler.plan import keys, losses, reach, users
from reconciler.plan.desired import Desired

Verb = Literal["add", "change", "remove", "hold", "refuse"]
Resources = Mapping[ObjectRef, Resource[Record]]

_LOCK_DIGITS = 12  # of a lock entry's digest
_NOBODY: Mapping[str, AgentRoutes] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One of the two that are compared: what is admitted, and what should run for it."""

    admission: Admission
    desired: Desired


@dataclass(frozen=True, slots=True)
class Replaced:
    """The instance of one binding, before and after, and what it is made of where that differs."""

    before: InstanceName | None
    after: InstanceName | None
    making: tuple[keys.Field, ...] = ()
    bounds: tuple[keys.Field, ...] = ()


@dataclass(frozen=True, slots=True)
class Rerouted:
    """One interface of an agent, and what answers it before and after; None: nothing does."""

    interface: str
    before: Route | None
    after: Route | None


@dataclass(frozen=True, slots=True)
class Change:
    """One object that differs. ``sessions`` are those that stay on what the next ones do not get, ``agents``
    those whose next session gets something else, ``used_by`` who names this interface version, ``lost`` whom
    it stops serving. ``held`` keeps it as it is, or makes it wait for an explicit apply.
    """

    verb: Verb
    object: ObjectRef
    effect: str = ""  # what happens to it, in two or three words of a closed list
    file: str = ""
    fields: tuple[keys.Field, ...] = ()
    files: tuple[str, ...] = ()
    instance: Replaced | None = None
    routes: tuple[Rerouted, ...] = ()
    deltas: tuple[reach.Delta, ...] = ()
    agents: tuple[str, ...] = ()
    used_by: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    lost: tuple[losses.Loss, ...] = ()
    held: Held | None = None
    last_good: bool = False
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Waits:
    """What no apply does now (``held``), and what only an explicit one does (``explicit``), and why."""

    held: Mapping[ObjectRef, Held] = field(default_factory=dict)
    explicit: Mapping[ObjectRef, Held] = field(default_factory=dict)


def impact(
    before: Side | None, after: Side, live: losses.Live = losses.NOTHING, waits: Waits | None = None
) -> tuple[Change, ...]:
    """Every object that differs between two sides, sorted by kind and name; () when nothing would change."""
    return tuple(_Radius(before, after, live, waits or Waits()).changes())


class _Radius:
    """Two sides, with whom what lies between them reaches."""

    def __init__(self, before: Side | None, after: Side, live: losses.Live, waits: Waits) -> None:
        self._sides = (before, after)
        self._after, self._waits, self._live = after, waits, live
        self._was: Resources = before.admission.in_force if before else {}
        self._now = after.admission.in_force
        old = before.desired.table.agents if before else _NOBODY
        self._tables = (old, after.desired.table.agents)
        self._names = (_by_binding(before), _by_binding(after))
        self._moved = moved(*self._tables)
        self._reached = self._reached_by_what_they_use()
        self._users = users.Users(self._was, self._now, [one.admission for one in self._sides if one])
        admissions = (before.admission if before else None, after.admission)
        self._lost = losses.Losses(old, self._tables[1], admissions, live)
        self._losers = {one.name for ref in self._was for one in self._lost.of(ref) if one.sort == "session"}

    def changes(self) -> Iterator[Change]:
        """The changes, sorted by object."""
        for ref in sorted(self._touched()):
            if change := self._change(ref):
                yield change

    def _touched(self) -> set[ObjectRef]:
        found = moved(self._was, self._now) | self._after.admission.refused.keys() | self._waits.held.keys()
        old, new = self._names
        names = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
        found |= {ObjectRef(Kind.BINDING, name) for name in names}
        found |= {ObjectRef(Kind.AGENT, name) for name in self._moved}
        return found | {locked_object(one) for one in self._relocked()}

    def _relocked(self) -> set[str]:
        """The interface versions and profiles of which a lock says something else."""
        before, after = self._sides
        found: set[str] = set()
        for layer in Layer:
            old = _lock(before, layer).entries
            new = _lock(after, layer).entries
            found |= {
                ref for ref in old.keys() | new.keys() if _sealed(old.get(ref)) != _sealed(new.get(ref))
            }
        return found if before else found & {ref.name for ref in self._now if ref.kind in PUBLISHED}

    def _reached_by_what_they_use(self) -> dict[ObjectRef, set[str]]:
        found: dict[ObjectRef, set[str]] = {}
        for name in self._moved:
            for table in self._tables:
                for ref in self._used(table[name]) if name in table else ():
                    found.setdefault(ref, set()).add(name)
        return found

    def _used(self, routes: AgentRoutes) -> Iterator[ObjectRef]:
        agent = ObjectRef(Kind.AGENT, routes.agent)
        yield agent
        for resources in (self._was, self._now):
            if project := getattr(resources[agent].spec, "project", None) if agent in resources else None:
                yield ObjectRef(Kind.PROJECT, project)
        for route in routes.every():
            yield ObjectRef(Kind.BINDING, route.binding)
            yield ObjectRef(Kind.INTERFACE, str(route.interface))
            for resources in (self._was, self._now):
                if connector := _connector(resources, route.binding):
                    yield ObjectRef(Kind.CONNECTOR, connector)

    def _change(self, ref: ObjectRef) -> Change | None:
        was, now = self._was.get(ref), self._now.get(ref)
        problems = self._after.admission.refused.get(ref, ())
        held = self._waits.held.get(ref)
        instance = self._instance(ref.name) if ref.kind is Kind.BINDING else None
        routes = tuple(self._routes(ref.name)) if ref.kind is Kind.AGENT else ()
        differing = (*keys.fields(was, now), *self._lock_fields(ref, was, now))
        folder = keys.files(was, now)
        verb = _verb(was, now, refused=bool(problems), held=held is not None)
        if verb in ("add", "remove") and not _ours(now or was):
            return None
        if verb == "change" and not (differing or folder or instance or routes or ref.name in self._moved):
            return None
        source = now or was
        return Change(
            verb=verb,
            object=ref,
            effect=self._effect(ref, instance),
            file=source.file if source else problems[0].at.file if problems else "",
            fields=differing,
            files=folder,
            instance=instance,
            routes=routes,
            deltas=self._deltas(ref),
            agents=tuple(sorted(self._reached.get(ref, ()))),
            used_by=self._users.of(ref) if ref.kind is Kind.INTERFACE else (),
            sessions=self._staying(ref),
            lost=self._lost.of(ref),
            held=held or self._waits.explicit.get(ref),
            last_good=bool(problems) and now is not None,
            problems=problems,
        )

    def _lock_fields(
        self, ref: ObjectRef, was: Resource[Record] | None, now: Resource[Record] | None
    ) -> Iterator[keys.Field]:
        """What the lock says of a version, where that changed; an added version's is no change."""
        if ref.kind not in PUBLISHED or (was is None and now is not None):
            return
        for layer in Layer:
            old, new = (_lock(side, layer).entries.get(ref.name) for side in self._sides)
            if _sealed(old) != _sealed(new):
                yield keys.Field("handler.lock", _sealed(old), _sealed(new))

    def _effect(self, ref: ObjectRef, instance: Replaced | None) -> str:
        match ref.kind:
            case Kind.AGENT:
                return self._effect_on_sessions(ref.name)
            case Kind.BINDING:
                return self._effect_on_instance(ref, instance)
            case _:
                return ""

    def _effect_on_instance(self, ref: ObjectRef, instance: Replaced | None) -> str:
        if instance is None:
            return "same instance" if ref.name in self._names[1] else "no instance"
        if instance.after:
            return "new instance" if instance.before else "first call starts it"
        return "stop" if self._lost.of(ref) else "no instance"

    def _effect_on_sessions(self, agent: str) -> str:
        old, new = (agent in table for table in self._tables)
        if not new:
            return "opens no session any more" if old else "opens no session"
        if not old:
            return "opens sessions"
        return "next session" if agent in self._moved else "same routes"

    # instances and routes

    def _instance(self, binding: str) -> Replaced | None:
        old, new = (names.get(binding) for names in self._names)
        if old == new:
            return None
        was, now = (one.desired.recipes.get(n) if one and n else None for one, n in self._pairs(old, new))
        return Replaced(old, new, reach.making(was, now), reach.bounds(was, now))

    def _pairs(
        self, old: InstanceName | None, new: InstanceName | None
    ) -> tuple[tuple[Side | None, InstanceName | None], ...]:
        return tuple(zip(self._sides, (old, new), strict=True))

    def _routes(self, agent: str) -> Iterator[Rerouted]:
        if agent not in self._moved:
            return
        old, new = ((table[agent].routes if agent in table else {}) for table in self._tables)
        for name in sorted(old.keys() | new.keys()):
            was, now = (side[name].each if name in side else () for side in (old, new))
            for one, other in zip_longest(was, now):
                if _shape(one) != _shape(other):
                    yield Rerouted(name, one, other)

    def _deltas(self, ref: ObjectRef) -> tuple[reach.Delta, ...]:
        match ref.kind:
            case Kind.BINDING:
                was, now = (
                    _binding_reach(side, names.get(ref.name))
                    for side, names in zip(self._sides, self._names, strict=True)
                )
            case Kind.AGENT:
                was, now = (
                    _agent_reach(side, table.get(ref.name))
                    for side, table in zip(self._sides, self._tables, strict=True)
                )
            case _:
                return ()
        return reach.deltas(was, now)

    # sessions

    def _staying(self, ref: ObjectRef) -> tuple[str, ...]:
        """The open sessions that go on with what they were opened with, where the next ones get something
        else; not those that lose some of it.
        """
        keep = (one for one in self._live.sessions if one.id not in self._losers)
        return tuple(one.id for one in keep if self._stays(ref, one))

    def _stays(self, ref: ObjectRef, session: losses.Open) -> bool:
        match ref.kind:
            case Kind.AGENT:
                return session.agent == ref.name and ref.name in self._moved
            case Kind.BINDING:
                return self._behind(ref.name, session)
            case Kind.CONNECTOR:
                return any(
                    _connector(resources, name.binding) == ref.name and self._behind(name.binding, session)
                    for name in session.instances
                    for resources in (self._was, self._now)
                )
            case Kind.INTERFACE:
                return ref.name in session.interfaces and session.agent in self._reached.get(ref, ())
            case _:
                return False

    def _behind(self, binding: str, session: losses.Open) -> bool:
        new = self._names[1].get(binding)
        return any(name.binding == binding and name != new for name in session.instances)


def _verb(was: Resource[Record] | None, now: Resource[Record] | None, *, refused: bool, held: bool) -> Verb:
    if refused:
        return "refuse"
    if held:
        return "hold"
    if was is None and now is not None:
        return "add"
    return "remove" if now is None and was is not None else "change"


def _ours(resource: Resource[Record] | None) -> bool:
    """What ships with the product comes and goes unsaid, unless it changes under a configuration."""
    return resource is not None and resource.layer is Layer.CONFIG


def _by_binding(side: Side | None) -> dict[str, InstanceName]:
    return {name.binding: name for name in side.desired.recipes} if side else {}


def _connector(resources: Resources, binding: str) -> str | None:
    found = resources.get(ObjectRef(Kind.BINDING, binding))
    return found.spec.connector if found is not None and isinstance(found.spec, Binding) else None


def _binding_reach(side: Side | None, name: InstanceName | None) -> reach.Reach:
    if side is None or name is None:
        return reach.NOTHING
    recipe = side.desired.recipes.get(name)
    connector = side.admission.in_force.get(ObjectRef(Kind.CONNECTOR, recipe.connector if recipe else ""))
    versions: Collection[str] = getattr(connector.spec, "implements", ()) if connector else ()
    contracts = [one for ref, one in side.admission.contracts.items() if str(ref) in versions]
    found = reach.of_recipe(recipe, contracts)
    return replace(found, copies=frozenset(_copies(side, name.binding)))


def _copies(side: Side, binding: str) -> Iterator[str]:
    """The binding that is handed copies of this one's calls, with the hosts that it reaches."""
    form = side.admission.in_force.get(ObjectRef(Kind.BINDING, binding))
    shadow = form.spec.shadow if form is not None and isinstance(form.spec, Binding) else None
    if shadow is None:
        return
    hosts = sorted(
        {host for name, one in side.desired.recipes.items() if name.binding == shadow for host in one.egress}
    )
    yield f"binding/{shadow} ({', '.join(hosts) or 'reaches no host'})"


def _agent_reach(side: Side | None, routes: AgentRoutes | None) -> reach.Reach:
    if side is None or routes is None:
        return reach.NOTHING
    recipes, every = side.desired.recipes, tuple(routes.every())
    found = reach.together(reach.of_route(one, recipes.get(one.instance)) for one in every)
    copies = (copy for one in every if one.suspended is None for copy in _copies(side, one.binding))
    return replace(found, copies=frozenset(copies))


def _shape(route: Route | None) -> tuple[object, ...] | None:
    """What a session would see or feel of a route; the contract is its version's, which never changes."""
    if route is None:
        return None
    return (
        route.interface, route.binding, route.instance, route.tools, route.max_calls, route.suspended,
        route.contract.tools_json, route.contract.spec,
    )  # fmt: skip


def _lock(side: Side | None, layer: Layer) -> Lock:
    return (side.admission.inventory.locks.get(layer) if side else None) or Lock()


def _sealed(entry: LockEntry | None) -> str | None:
    return entry.digest.rpartition(":")[2][:_LOCK_DIGITS] if entry else None
