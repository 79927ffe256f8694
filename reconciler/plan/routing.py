"""Who is answered by what: one agent's routes, or why it has none.

An agent that is in force, not suspended, and of which nothing is missing in this release has routes. A
suspended binding keeps its route, closed, with the reason; so does one that is gone while its agent keeps
its last admitted form. Two routes are the same when a session would not see or feel a difference.
"""

from collections.abc import Mapping
from dataclasses import replace

from reconciler.admission.admit import Admission, Selected
from reconciler.model.contract import Contract
from reconciler.model.inventory import Resource
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.model.problems import Bug, Problem, Span
from reconciler.model.resources import Agent, Binding
from reconciler.model.routes import AgentRoutes, Route, RouteTable, ScopeFolder
from reconciler.plan.making import Made

_SUSPENDED = "the binding is suspended"
_REMOVED = "the binding was removed"
_UNSERVED = "the binding cannot be served in this release"

Instances = Mapping[str, Made]  # by binding


def why_not(admission: Admission, agent: Resource[Agent]) -> tuple[Problem, ...]:
    """Why an agent in force has no routes; () when it has. An agent that admission lets nobody serve is
    told by it.
    """
    if agent.spec.suspend:
        return (_suspended(agent),)
    if agent.ref in admission.unusable or agent.ref.name not in admission.selections:
        problems = admission.refused.get(agent.ref, ())
        if not problems:
            raise Bug(f"{agent.ref} cannot be served and no problem says why")
        return problems
    return ()


def routes(
    admission: Admission,
    agent: Resource[Agent],
    instances: Instances,
    *,
    home: str,
    before: AgentRoutes | None = None,
) -> AgentRoutes:
    """The routes of an agent that has some; ``before`` itself when nothing differs from it."""
    found = {}
    for selected in sorted(admission.selections[agent.ref.name], key=lambda one: one.interface):
        if route := _several(admission, selected, instances, agent.spec.models):
            found[selected.interface.name] = route
    new = AgentRoutes(agent.ref.name, found, scope(agent.spec, home), tuple(agent.spec.agents))
    return before if before is not None and same_routes(new, before) else new


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
    if (one.agent, one.scope, one.agents) != (other.agent, other.scope, other.agents):
        return False
    if list(one.routes) != list(other.routes):
        return False
    return all(_same_route(route, other.routes[name]) for name, route in one.routes.items())


def same_table(one: RouteTable, other: RouteTable) -> bool:
    """True when two tables give every agent the same routes to the same instances, whatever their numbers."""
    if one is other:
        return True
    if one.recipes.keys() != other.recipes.keys() or one.agents.keys() != other.agents.keys():
        return False
    return all(same_routes(mine, other.agents[name]) for name, mine in one.agents.items())


def _several(
    admission: Admission, selected: Selected, instances: Instances, narrowed: tuple[str, ...]
) -> Route | None:
    """The route of one interface, with those of its further bindings behind it."""
    each = [_route(admission, one, instances.get(one.binding), narrowed) for one in selected.each]
    first, *others = each  # the version's contract is there for all of them, or for none
    return replace(first, others=tuple(filter(None, others))) if first is not None and others else first


def _route(
    admission: Admission,
    selected: Selected,
    answers: Made | None,
    narrowed: tuple[str, ...],
) -> Route | None:
    """One route. A binding that is gone keeps its place, closed: whatever stood there, so that a restart,
    which does not know that, says the same.
    """
    contract = admission.contracts.get(selected.interface)
    if contract is None:
        return None
    tools = selected.tools
    if answers is None:
        there = ObjectRef(Kind.BINDING, selected.binding) in admission.in_force
        nobody, why = InstanceName(selected.binding, ""), _UNSERVED if there else _REMOVED
        form = admission.in_force.get(ObjectRef(Kind.BINDING, selected.binding))
        listed = form.spec.models if form is not None and isinstance(form.spec, Binding) else ()
        return Route(
            selected.interface, selected.binding, nobody, contract, tools, selected.max_calls, why,
            models=models(contract, listed, narrowed),
        )  # fmt: skip
    binding = answers.binding
    return Route(
        interface=selected.interface,
        binding=selected.binding,
        instance=answers.name,
        contract=contract,
        tools=tools,
        max_calls=selected.max_calls,
        suspended=(binding.spec.suspend_reason or _SUSPENDED) if binding.spec.suspend else None,
        models=models(contract, binding.spec.models, narrowed),
    )


def models(
    contract: Contract, listed: tuple[str, ...], narrowed: tuple[str, ...] = ()
) -> tuple[str, ...] | None:
    """The models that may be asked for, the default first: those that a binding lists and its agent does not
    leave out. An empty list of either leaves none out; None: any, or no tool takes one.
    """
    if not any(tool.takes_model for tool in contract.tools.values()) or not (listed or narrowed):
        return None
    return tuple(one for one in listed if not narrowed or one in narrowed) if listed else narrowed


def _same_route(one: Route, other: Route) -> bool:
    if one.contract is not other.contract:
        if not _same_contract(one.contract, other.contract):
            return False
        one = replace(
            one,
            contract=other.contract,
            others=tuple(replace(further, contract=other.contract) for further in one.others),
        )
    return one == other


def _same_contract(one: Contract, other: Contract) -> bool:
    return one.tools_json == other.tools_json and one.spec == other.spec


def _suspended(agent: Resource[Agent]) -> Problem:
    reason = agent.spec.suspend_reason
    return Problem(
        code="A401",
        what=f"agent '{agent.ref.name}' is suspended" + (f": {reason}" if reason else ""),
        why="a suspended agent opens no new session",
        mend=f"run `handler resume {agent.ref}`, or write suspend = false",
        at=Span(agent.file),
        path=("suspend",),
        about=agent.ref,
        reason="Suspended",
    )
