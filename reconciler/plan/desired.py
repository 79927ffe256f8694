"""What should run and who is answered by what, computed from an admission.

Every binding in force that this release can serve has a recipe: its instance is declared, and started by
the first call. Every agent in force has routes, or problems that say why not. With the desired state
before, what did not change is the same object, down to the table itself, whose generation grows only when
it says something else; and only what changed is made anew. The result is the same as making everything,
which a property test holds to.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import cast

from reconciler.admission.admit import Admission
from reconciler.model.identity import Edited, moved
from reconciler.model.inventory import Resource
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.model.problems import Problem
from reconciler.model.recipes import Pinned, Recipe
from reconciler.model.resources import Agent, Binding, Connector, Interface, Record
from reconciler.model.routes import AgentRoutes, RouteTable
from reconciler.plan import making, routing

Resources = Mapping[ObjectRef, Resource[Record]]


@dataclass(frozen=True, slots=True, eq=False)
class Desired:
    """What should be. ``code`` holds the files of each recipe's connector by digest, ``refusals`` why an
    agent has no routes.
    """

    table: RouteTable
    recipes: Mapping[InstanceName, Recipe]
    code: Mapping[str, Pinned]
    refusals: Mapping[str, tuple[Problem, ...]]
    memory: "Memory" = field(repr=False)  # what the next one starts from


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """What one desired state knows beyond its result. Never changed once made."""

    admission: Admission
    kit: str
    home: str
    made: Mapping[str, making.Made]  # by binding
    bases: Mapping[Resource[Connector], making.Base]
    bound: Mapping[Resource[Connector], int]  # how many instances are made of it
    clients: Mapping[str, frozenset[str]]  # by binding: the agents with a route to it


def desire(
    admission: Admission, *, generation: int, kit: str, home: str, previous: Desired | None = None
) -> Desired:
    """The desired state. ``generation`` numbers the table when it differs from the previous one's; ``kit``
    is the digest of the connector kit, ``home`` the folder that ``~/`` in a scope stands for.
    """
    past = (
        previous.memory if previous and (previous.memory.kit, previous.memory.home) == (kit, home) else None
    )
    run = _Run(Memory(admission, kit, home, {}, {}, {}, {}), previous if past else None)
    changed = _changed(past.admission, admission) if past else None
    if changed is None:
        run.everything()
    else:
        run.only(*changed)
    return run.desired(generation)


class _Run:
    """One desired state in the making: copies of the last one's parts, changed where something changed."""

    def __init__(self, frame: Memory, previous: Desired | None) -> None:
        self._admission, self._kit, self._home = frame.admission, frame.kit, frame.home
        self._previous = previous
        self._past = previous.memory if previous else frame
        self._made: MutableMapping[str, making.Made] = {}
        self._recipes: MutableMapping[InstanceName, Recipe] = {}
        self._agents: MutableMapping[str, AgentRoutes] = {}
        self._refusals: MutableMapping[str, tuple[Problem, ...]] = {}
        self._bases: MutableMapping[Resource[Connector], making.Base] = {}
        self._bound: MutableMapping[Resource[Connector], int] = {}
        self._clients: MutableMapping[str, frozenset[str]] = {}
        self._states: dict[Resource[Connector], str] = {}
        self._touched: tuple[Collection[str], Collection[str]] | None = None  # agents, bindings; None: all

    def everything(self) -> None:
        """Make every instance and every agent's routes, from what was made before where it fits."""
        in_force = self._admission.in_force.values()
        for one in in_force:
            if one.ref.kind is Kind.BINDING:
                self._make(cast("Resource[Binding]", one))
        clients: dict[str, set[str]] = {}
        for one in in_force:
            if one.ref.kind is Kind.AGENT:
                self._answer(cast("Resource[Agent]", one))
                for binding in self._bindings(self._admission, one.ref.name):
                    clients.setdefault(binding, set()).add(one.ref.name)
        self._clients = {name: frozenset(users) for name, users in clients.items()}
        self._refuse(ref.name for ref in self._admission.refused if ref.kind is Kind.AGENT)

    def only(self, bindings: Collection[str], agents: Collection[str]) -> None:
        """Make these anew, and the routes of whoever is answered by them; take over the rest."""
        assert self._previous is not None  # noqa: S101 - there is a past that these differ from
        self._made, self._recipes = Edited(self._past.made), Edited(self._previous.recipes)
        self._agents, self._refusals = Edited(self._previous.table.agents), Edited(self._previous.refusals)
        self._bases, self._bound = Edited(self._past.bases), Edited(self._past.bound)
        self._clients = Edited(self._past.clients)
        for name in bindings:
            if old := self._made.pop(name, None):
                self._unmake(old)
            if found := self._in_force(Kind.BINDING, name):
                self._make(cast("Resource[Binding]", found))
        touched = set(agents).union(*(self._clients.get(name, ()) for name in bindings))
        for name in touched:
            self._agents.pop(name, None)
            self._refusals.pop(name, None)
            self._note_client(name)
            if found := self._in_force(Kind.AGENT, name):
                self._answer(cast("Resource[Agent]", found))
        self._refuse(touched)
        self._touched = (frozenset(touched), frozenset(bindings))

    def desired(self, generation: int) -> Desired:
        """Everything together."""
        table = RouteTable(generation, self._agents, self._recipes)
        before = self._previous
        if before and not self._differs(before.table):
            table = before.table
        memory = Memory(
            self._admission, self._kit, self._home, self._made, self._bases, self._bound, self._clients
        )
        return Desired(table, table.recipes, self._code(), self._refusals, memory)

    def _code(self) -> Mapping[str, Pinned]:
        """The files of every connector that something is made of."""
        if self._previous and not moved(self._past.bases, self._bases):
            return self._previous.code
        return {one.code.digest: one.code for one in self._bases.values()}

    def _differs(self, before: RouteTable) -> bool:
        """Whether the table says something else; where only a little was made anew, only that is compared."""
        if self._touched is None:
            return self._agents != before.agents or self._recipes != before.recipes
        agents, bindings = self._touched
        if any(before.agents.get(name) is not self._agents.get(name) for name in agents):
            return True
        return any(_name(self._past.made.get(name)) != _name(self._made.get(name)) for name in bindings)

    # instances

    def _make(self, binding: Resource[Binding]) -> None:
        ref = ObjectRef(Kind.CONNECTOR, binding.spec.connector or "")
        found, unusable = self._admission.in_force.get(ref), self._admission.unusable
        if found is None or (unusable and not unusable.isdisjoint((ref, binding.ref))):
            return
        connector = cast("Resource[Connector]", found)
        state, base = self._state(connector), self._base(connector)
        old = self._past.made.get(binding.ref.name)
        same_code = old is not None and old.connector is connector and old.recipe.profiles == base.profiles
        if old and same_code and old.binding is binding and old.state == state:
            made = old
        else:
            recipe = making.recipe(binding, base, state=state, kit=self._kit)
            same = old if old and old.recipe == recipe else None
            name = same.name if same else recipe.name
            made = making.Made(binding, connector, state, same.recipe if same else recipe, name)
        self._made[binding.ref.name] = made
        self._recipes[made.name] = made.recipe
        self._bound[connector] = self._bound.get(connector, 0) + 1

    def _unmake(self, old: making.Made) -> None:
        del self._recipes[old.name]
        self._bound[old.connector] -= 1
        if not self._bound[old.connector]:
            del self._bound[old.connector]
            self._bases.pop(old.connector, None)

    def _base(self, connector: Resource[Connector]) -> making.Base:
        known = self._bases.get(connector) or self._past.bases.get(connector)
        profiles = making.profiles_of(self._admission, connector)
        if known is None or known.profiles != making.spoken(profiles):
            known = making.base(connector, profiles)
        self._bases[connector] = known
        return known

    def _state(self, connector: Resource[Connector]) -> str:
        """``session`` when one of its interfaces keeps state for a session."""
        if connector not in self._states:
            versions = connector.spec.implements
            kept = any(self._keeps_state(self._in_force(Kind.INTERFACE, version)) for version in versions)
            self._states[connector] = "session" if kept else "none"
        return self._states[connector]

    def _keeps_state(self, interface: Resource[Record] | None) -> bool:
        return (
            interface is not None
            and isinstance(interface.spec, Interface)
            and interface.spec.state == "session"
        )

    # agents

    def _answer(self, agent: Resource[Agent]) -> None:
        name = agent.ref.name
        if problems := routing.why_not(self._admission, agent):
            self._refusals[name] = problems
            return
        before = self._previous.table.agents.get(name) if self._previous else None
        self._agents[name] = routing.routes(
            self._admission, agent, self._made, home=self._home, before=before
        )

    def _refuse(self, names: Iterable[str]) -> None:
        """Whoever is refused and has no earlier form in force is told why."""
        for name in names:
            problems = self._admission.refused.get(ObjectRef(Kind.AGENT, name))
            if problems and name not in self._agents:
                self._refusals[name] = problems

    def _note_client(self, agent: str) -> None:
        """Whom this agent is answered by now, and no more by whom it was."""
        for binding in self._bindings(self._past.admission, agent):
            self._clients[binding] = self._clients.get(binding, frozenset()) - {agent}
        for binding in self._bindings(self._admission, agent):
            self._clients[binding] = self._clients.get(binding, frozenset()) | {agent}

    @staticmethod
    def _bindings(admission: Admission, agent: str) -> Iterator[str]:
        for selected in admission.selections.get(agent, ()):
            yield from (one.binding for one in selected.each)

    def _in_force(self, kind: Kind, name: str) -> Resource[Record] | None:
        return self._admission.in_force.get(ObjectRef(kind, name))


def _name(made: making.Made | None) -> InstanceName | None:
    return made.name if made else None


def _changed(before: Admission, after: Admission) -> tuple[set[str], set[str]] | None:
    """The bindings and agents that must be made anew; None when something changed that they all may rest
    on.
    """
    refs = moved(before.in_force, after.in_force)
    if before.unusable is not after.unusable:
        refs |= before.unusable ^ after.unusable
    if any(ref.kind in (Kind.INTERFACE, Kind.CONNECTOR, Kind.PROFILE) for ref in refs):
        return None
    if before.contracts != after.contracts:
        return None
    agents = {ref.name for ref in refs if ref.kind is Kind.AGENT}
    names = moved(before.selections, after.selections)
    agents |= {name for name in names if before.selections.get(name) != after.selections.get(name)}
    agents |= {ref.name for ref in moved(before.refused, after.refused) if ref.kind is Kind.AGENT}
    return {ref.name for ref in refs if ref.kind is Kind.BINDING}, agents
