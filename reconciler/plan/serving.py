"""Which routes serve now: the newest where they are proven, the earlier ones where they are not. Pure.

Make before break: an agent that is served keeps its routes until every instance that would replace one of
them is proven. An agent that nobody serves yet gets its routes at once; its first call waits for the start.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from reconciler.model.identity import laid_over, moved
from reconciler.model.names import InstanceName
from reconciler.model.recipes import Recipe
from reconciler.model.routes import AgentRoutes, RouteTable

NOTHING = RouteTable(generation=0, agents={}, recipes={})


@dataclass(frozen=True, slots=True)
class Trial:
    """Why a new instance does not serve yet; ``given_up``: nothing is tried again by itself."""

    why: str
    given_up: bool = False


def serve(desired: RouteTable, current: RouteTable, proven: Collection[InstanceName]) -> RouteTable:
    """The table to serve; ``current`` itself when nothing changes, else one with the next generation."""
    odd = moved(current.agents, desired.agents)
    kept = {
        agent: current.agents[agent]
        for agent in odd
        if agent in desired.agents and _unproven(desired.agents[agent], current.agents.get(agent), proven)
    }
    agents = laid_over(desired.agents, kept)
    recipes = _recipes_for(agents, odd, desired, current)
    if any(agents.get(agent) != current.agents.get(agent) for agent in odd):
        return RouteTable(generation=current.generation + 1, agents=agents, recipes=recipes)
    if any((name in recipes) != (name in current.recipes) for name in moved(current.recipes, recipes)):
        return RouteTable(generation=current.generation + 1, agents=agents, recipes=recipes)
    return current


def to_prove(
    desired: RouteTable, current: RouteTable, proven: Collection[InstanceName]
) -> tuple[InstanceName, ...]:
    """The instances that must answer before they may replace what serves."""
    odd = [agent for agent in moved(current.agents, desired.agents) if agent in desired.agents]
    wanted = {
        name for agent in odd for name in _unproven(desired.agents[agent], current.agents.get(agent), proven)
    }
    return tuple(sorted(wanted))


def _recipes_for(
    agents: Mapping[str, AgentRoutes], odd: Collection[str], desired: RouteTable, current: RouteTable
) -> Mapping[InstanceName, Recipe]:
    """The desired recipes, and earlier ones that a route still needs; ``odd`` agents have other routes."""
    differ = moved(current.recipes, desired.recipes)
    lost = {name for name in differ if name not in desired.recipes}
    if not lost:
        return desired.recipes
    anew = {name.binding for name in differ - lost}
    # Whose routes are the same has none to what a new instance replaced; a closed one to a binding that is
    # gone, perhaps.
    users = odd if all(name.binding in anew for name in lost) else agents
    there = (agents[agent] for agent in users if agent in agents)
    used = {route.instance for routes in there for route in routes.every()}
    return laid_over(desired.recipes, {name: current.recipes[name] for name in lost & used})


def _unproven(
    new: AgentRoutes, old: AgentRoutes | None, proven: Collection[InstanceName]
) -> list[InstanceName]:
    if old is None or old is new:
        return []
    served = {route.instance for route in old.every()}
    return [
        route.instance
        for name, first in new.routes.items()
        if name in old.routes
        for route in first.each
        if route.suspended is None  # nobody starts those, so none would ever answer
        and not all(one.vacant for one in old.routes[name].each)  # nobody answers there: nothing is kept
        and route.instance not in served
        and route.instance not in proven
    ]
