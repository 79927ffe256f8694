"""Which routes serve now: the newest where they are proven, the earlier ones where they are not. Pure.

Make before break: an agent that is served keeps its routes until every instance that would replace one of
them
has answered. An agent that nobody serves yet gets its routes at once; its first call waits for the start.
"""

from collections.abc import Collection

from reconciler.model.names import InstanceName
from reconciler.model.routes import AgentRoutes, RouteTable

NOTHING = RouteTable(generation=0, agents={}, recipes={})


def serve(desired: RouteTable, current: RouteTable, proven: Collection[InstanceName]) -> RouteTable:
    """The table to serve; ``current`` itself when nothing changes, else one with the next generation."""
    agents = {
        agent: current.agents[agent] if _unproven(routes, current.agents.get(agent), proven) else routes
        for agent, routes in desired.agents.items()
    }
    recipes = dict(desired.recipes)
    for routes in agents.values():
        for route in routes.routes.values():
            if route.instance not in recipes and route.instance in current.recipes:
                recipes[route.instance] = current.recipes[route.instance]
    if agents == dict(current.agents) and recipes.keys() == current.recipes.keys():
        return current
    return RouteTable(generation=current.generation + 1, agents=agents, recipes=recipes)


def to_prove(
    desired: RouteTable, current: RouteTable, proven: Collection[InstanceName]
) -> tuple[InstanceName, ...]:
    """The instances that must answer before they may replace what serves."""
    wanted = {
        name
        for agent, routes in desired.agents.items()
        for name in _unproven(routes, current.agents.get(agent), proven)
    }
    return tuple(sorted(wanted))


def _unproven(
    new: AgentRoutes, old: AgentRoutes | None, proven: Collection[InstanceName]
) -> list[InstanceName]:
    if old is None or old is new:
        return []
    served = {route.instance for route in old.routes.values()}
    return [
        route.instance
        for name, route in new.routes.items()
        if name in old.routes and route.instance not in served and route.instance not in proven
    ]
