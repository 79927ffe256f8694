"""What should run and who is answered by what, computed from an admission.

Every binding in force that this release can serve has a recipe: its instance is declared, and started by
the first call. A recipe holds all that changes the running thing and nothing else (ruling 53): the
connector's folder, the settings by the variables that carry them, references to secrets, models, egress,
sandbox, bounds, the environment's lock and the kit. An agent that is in force and not suspended has routes;
one without says why.

With the desired state before, what did not change is the same object: recipes, routes, and the table
itself, whose generation grows only when it says something else.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from reconciler.admission import connectors
from reconciler.admission.admit import Admission, Selected
from reconciler.admission.view import inside
from reconciler.model.contract import Contract
from reconciler.model.inventory import Resource
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.model.problems import Problem, Span, listed
from reconciler.model.recipes import Pinned, Recipe, SandboxPolicy, SecretUse, folder_digest
from reconciler.model.resources import Agent, Binding, Connector, Interface, SecretReference, SecretSlot
from reconciler.model.routes import AgentRoutes, Route, RouteTable, ScopeFolder

_LOCK = "requirements.lock"  # what a python connector needs installed, hashed
_FORMS = ("command", "file", "env", "keyring", "systemd", "age", "sops")
_SUSPENDED = "the binding is suspended"
_REMOVED = "the binding was removed"
_UNSERVED = "the binding cannot be served in this release"


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
class Made:
    """One binding's instance, and the values it was made from: the same values need no second making."""

    binding: Resource[Binding]
    connector: Resource[Connector]
    state: str
    recipe: Recipe
    name: InstanceName


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """What one desired state knows beyond its result."""

    kit: str
    home: str
    made: Mapping[str, Made]  # by binding
    pinned: Mapping[str, tuple[Resource[Connector], Pinned]]  # by connector


_NOTHING = Memory("", "", {}, {})


def desire(
    admission: Admission, *, generation: int, kit: str, home: str, previous: Desired | None = None
) -> Desired:
    """The desired state. ``generation`` is what the table is numbered with when it differs from the
    previous one's; ``kit`` is the digest of the connector kit, ``home`` the folder that ``~/`` in a
    scope stands for.
    """
    past = (
        previous.memory
        if previous and (previous.memory.kit, previous.memory.home) == (kit, home)
        else _NOTHING
    )
    bench = _Bench(admission, kit, past)
    made = bench.all_made()
    recipes = {one.name: one.recipe for one in made.values()}
    before = previous.table.agents if previous else {}
    agents, refusals = {}, {}
    for agent in _agents(admission):
        name = agent.ref.name
        if problems := _why_not(admission, agent):
            refusals[name] = problems
        else:
            routes = _agent(admission, agent, made, before.get(name))
            agents[name] = _kept(replace(routes, scope=scope(agent.spec, home)), before.get(name))
    for ref, problems in admission.refused.items():
        if ref.kind is Kind.AGENT and ref.name not in agents:
            refusals[ref.name] = problems
    table = RouteTable(generation, agents, recipes)
    if previous and same_table(table, previous.table):
        table = previous.table
    pinned = {
        name: one for name, one in bench.pinned.items() if any(m.connector is one[0] for m in made.values())
    }
    code = {one.digest: one for _, one in pinned.values()}
    return Desired(table, table.recipes, code, refusals, Memory(kit, home, made, pinned))


class _Bench:
    """Where recipes are made, from what was made before where that is possible."""

    def __init__(self, admission: Admission, kit: str, past: Memory) -> None:
        self._admission = admission
        self._kit = kit
        self._past = past
        self.pinned: dict[str, tuple[Resource[Connector], Pinned]] = {}

    def all_made(self) -> dict[str, Made]:
        """The instance of every binding that can be served, by binding."""
        found = {}
        for binding in _bindings(self._admission):
            if binding.ref not in self._admission.unusable and (made := self._made(binding)):
                found[binding.ref.name] = made
        return found

    def _made(self, binding: Resource[Binding]) -> Made | None:
        ref = ObjectRef(Kind.CONNECTOR, binding.spec.connector or "")
        found = self._admission.in_force.get(ref)
        if found is None or not isinstance(found.spec, Connector) or ref in self._admission.unusable:
            return None
        connector = cast("Resource[Connector]", found)
        state = self._state(connector.spec)
        old = self._past.made.get(binding.ref.name)
        code = self._pin(connector)
        if old and old.binding is binding and old.connector is connector and old.state == state:
            return old
        recipe = _recipe(binding, connector, code)
        recipe = replace(recipe, state=state, kit=self._kit)
        if old and old.recipe == recipe:
            recipe, name = old.recipe, old.name
        else:
            name = recipe.name
        return Made(binding, connector, state, recipe, name)

    def _pin(self, connector: Resource[Connector]) -> Pinned:
        for known in (self.pinned, self._past.pinned):
            found = known.get(connector.ref.name)
            if found and found[0] is connector:
                self.pinned[connector.ref.name] = found
                return found[1]
        files = dict(inside(connector))
        start = connector.file.rpartition("/")[0] + "/"
        executable = frozenset(path.removeprefix(start) for path in connector.executable)
        pinned = Pinned(folder_digest(files, executable), files, executable)
        self.pinned[connector.ref.name] = (connector, pinned)
        return pinned

    def _state(self, connector: Connector) -> str:
        """``session`` when one of its interfaces keeps state for a session."""
        for version in connector.implements:
            interface = self._admission.in_force.get(ObjectRef(Kind.INTERFACE, version))
            if interface and isinstance(interface.spec, Interface) and interface.spec.state == "session":
                return "session"
        return "none"


def _recipe(binding: Resource[Binding], connector: Resource[Connector], code: Pinned) -> Recipe:
    spec, offer = binding.spec, connector.spec
    lock = code.files.get(_LOCK)
    needs = offer.sandbox
    return Recipe(
        binding=binding.ref.name,
        connector=connector.ref.name,
        runtime=connectors.runtime(connector) or "",
        code=code.digest,
        entry=connectors.entry(connector),
        environment=hashlib.sha256(lock).hexdigest() if lock is not None else "",
        settings=tuple(sorted(_settings(spec, offer))),
        secrets=tuple(
            _secret(slot, spec.secrets[slot], offer.secret_slots[slot]) for slot in _filled(spec, offer)
        ),
        models=spec.models,
        egress=tuple(sorted(offer.egress)),
        sandbox=SandboxPolicy(
            programs=tuple(sorted(needs.programs)),
            read=tuple(sorted(needs.read)),
            tmp_bytes=needs.tmp_bytes,
            memory_bytes=spec.instance.memory_bytes or needs.memory_bytes,
            pids=spec.instance.pids or needs.pids,
            cpu=needs.cpu,
            gpu=needs.gpu,
        ),
        state="none",
        kit="",
        idle_stop_s=spec.instance.idle_stop_seconds,
        max_concurrent_calls=spec.instance.max_concurrent_calls,
        ready_timeout_s=offer.ready.timeout_seconds,
    )


def _settings(binding: Binding, connector: Connector) -> Iterator[tuple[str, str]]:
    """Each setting that has a value, as the environment variable that carries it and its text."""
    for key, setting in connector.settings.items():
        value = binding.settings.get(key, setting.default)
        if value is not None:
            yield setting.env or variable(key), text(value)


def variable(key: str) -> str:
    """The variable that carries a setting without ``env``: ``pageLimit`` gives
    ``HANDLER_SETTING_PAGE_LIMIT``.
    """
    words = "".join(f"_{ch}" if ch.isupper() else ch for ch in key)
    return f"HANDLER_SETTING_{words.upper()}"


def text(value: str | float) -> str:
    """A setting's value as a connector reads it: ``true``, ``12``, ``0.5``, or the string itself."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _filled(binding: Binding, connector: Connector) -> list[str]:
    return sorted(binding.secrets.keys() & connector.secret_slots.keys())


def _secret(slot: str, reference: SecretReference, declared: SecretSlot) -> SecretUse:
    form = next((form for form in _FORMS if getattr(reference, form) is not None), "")
    return SecretUse(slot, form, _words(getattr(reference, form, None)), declared.env, _via(declared))


def _via(slot: SecretSlot) -> str:
    """How a slot is delivered: as it says, else by the gate where it has a header, else by its variable."""
    return slot.via or ("gate" if slot.header else "env")


def _words(found: object) -> tuple[str, ...]:
    match found:
        case str():
            return (found,)
        case tuple():
            return tuple(map(str, found))
        case dict():
            return tuple(f"{key}={found[key]}" for key in sorted(found))
        case _:
            return ()


def _why_not(admission: Admission, agent: Resource[Agent]) -> tuple[Problem, ...]:
    """Why an agent in force has no routes; nothing when it has."""
    if agent.spec.suspend:
        return (_suspended(agent),)
    if agent.ref in admission.unusable or agent.ref.name not in admission.selections:
        return admission.refused.get(agent.ref) or (_unusable(agent, admission.absent.get(agent.ref, ())),)
    return ()


def _agent(
    admission: Admission, agent: Resource[Agent], made: Mapping[str, Made], before: AgentRoutes | None
) -> AgentRoutes:
    routes = {}
    for selected in sorted(admission.selections[agent.ref.name], key=lambda one: one.interface):
        old = before.routes.get(selected.interface.name) if before else None
        if route := _route(admission, selected, made.get(selected.binding), old):
            routes[selected.interface.name] = route
    return AgentRoutes(agent.ref.name, routes)


def _kept(found: AgentRoutes, before: AgentRoutes | None) -> AgentRoutes:
    return before if before is not None and same_routes(found, before) else found


def _route(admission: Admission, selected: Selected, made: Made | None, old: Route | None) -> Route | None:
    """One route. A binding that is gone keeps its place, closed, for as long as we know what stood there."""
    contract = admission.contracts.get(selected.interface)
    if made is None:
        if old is None or old.binding != selected.binding:
            return None
        there = ObjectRef(Kind.BINDING, selected.binding) in admission.in_force
        return replace(old, suspended=_UNSERVED if there else _REMOVED)
    if contract is None:
        return None
    spec = made.binding.spec
    return Route(
        interface=selected.interface,
        binding=selected.binding,
        instance=made.name,
        contract=contract,
        tools=selected.tools,
        max_calls=selected.max_calls,
        suspended=(spec.suspend_reason or _SUSPENDED) if spec.suspend else None,
    )


def _suspended(agent: Resource[Agent]) -> Problem:
    return Problem(
        code="A401",
        what=f"agent '{agent.ref.name}' is suspended",
        why="a suspended agent opens no new session",
        mend="delete 'suspend', or write suspend = false",
        at=Span(agent.file),
        path=("suspend",),
        about=agent.ref,
        reason="Suspended",
    )


def _unusable(agent: Resource[Agent], keys: tuple[str, ...]) -> Problem:
    return Problem(
        code="A402",
        what=f"agent '{agent.ref.name}' cannot be served: {listed(keys)} is not built in this release",
        why="serving without it would give the agent something else than was asked for",
        mend="leave it for a later release, or delete it",
        at=Span(agent.file),
        about=agent.ref,
        reason="NotBuilt",
    )


def scope(agent: Agent, home: str) -> tuple[ScopeFolder, ...]:
    """The agent's folders, absolute; an entry that is only a path may be read and given new files."""
    found = []
    for entry in agent.scope:
        path, access = (entry, "create") if isinstance(entry, str) else (entry.path, entry.access)
        if path.startswith("~/"):
            path = f"{home.rstrip('/')}/{path[2:]}"
        found.append(ScopeFolder(path.rstrip("/") or "/", access))
    return tuple(found)


def same_routes(one: AgentRoutes, other: AgentRoutes) -> bool:
    """True when a session would not see or feel a difference; contracts compiled twice from the same bytes
    agree.
    """
    if one is other:
        return True
    if one.agent != other.agent or one.scope != other.scope or list(one.routes) != list(other.routes):
        return False
    return all(_same_route(route, other.routes[name]) for name, route in one.routes.items())


def _same_route(one: Route, other: Route) -> bool:
    return _same_contract(one.contract, other.contract) and one == replace(other, contract=one.contract)


def _same_contract(one: Contract, other: Contract) -> bool:
    return one is other or (one.tools_json == other.tools_json and one.spec == other.spec)


def same_table(one: RouteTable, other: RouteTable) -> bool:
    """True when two tables give every agent the same routes to the same instances, whatever their numbers."""
    if one is other:
        return True
    if one.recipes.keys() != other.recipes.keys() or one.agents.keys() != other.agents.keys():
        return False
    return all(same_routes(routes, other.agents[name]) for name, routes in one.agents.items())


def _bindings(admission: Admission) -> Iterator[Resource[Binding]]:
    for ref, resource in admission.in_force.items():
        if ref.kind is Kind.BINDING:
            yield cast("Resource[Binding]", resource)


def _agents(admission: Admission) -> Iterator[Resource[Agent]]:
    for ref, resource in admission.in_force.items():
        if ref.kind is Kind.AGENT:
            yield cast("Resource[Agent]", resource)
