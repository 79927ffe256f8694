"""Routes of suspended agents, put aside: whoever resumes has what served before, until the newest is proven.

Without this an agent that comes back would be one that nobody serves yet, and get its newest routes unproven,
also where these are known to be bad and earlier ones served until it was suspended. What is put aside stays
declared, so that its code is kept; it is written down with the other kept routes.
"""

from collections.abc import Mapping
from dataclasses import replace

from reconciler.admission.admit import Admission
from reconciler.model.identity import laid_over, moved
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.model.recipes import Recipe
from reconciler.model.resources import Agent
from reconciler.model.routes import AgentRoutes, RouteTable


class Aside:
    """The routes of agents that are suspended, as they were when they were."""

    def __init__(self) -> None:
        self._agents: dict[str, AgentRoutes] = {}
        self.recipes: Mapping[InstanceName, Recipe] = {}  # that they need

    def follow(self, served: RouteTable, desired: RouteTable, admission: Admission) -> RouteTable:
        """Put aside whom a suspension takes out of ``served``, and bring back who is desired again; the table
        to go on from, ``served`` itself where nobody came back.
        """
        odd = moved(served.agents, desired.agents)
        gone = {name: served.agents[name] for name in sorted(odd) if name not in desired.agents}
        back = {name: one for name, one in self._agents.items() if name in desired.agents}
        kept = {
            name: one
            for name, one in {**self._agents, **gone}.items()
            if name not in back and _is_suspended(admission, name)
        }
        if not (kept or self._agents):
            return served
        known = {**self.recipes, **served.recipes}
        self._agents, self.recipes = kept, _needed(kept, known)
        back = {name: one for name, one in back.items() if name not in served.agents}
        if not back:
            return served
        recipes = laid_over(served.recipes, _needed(back, known))
        return RouteTable(served.generation + 1, laid_over(served.agents, back), recipes)

    def joined(self, table: RouteTable) -> RouteTable:
        """A table with what is put aside, as it is written down."""
        if not self._agents:
            return table
        recipes = {**self.recipes, **table.recipes}
        return replace(table, agents={**self._agents, **table.agents}, recipes=recipes)


def _needed(
    agents: Mapping[str, AgentRoutes], known: Mapping[InstanceName, Recipe]
) -> dict[InstanceName, Recipe]:
    names = {route.instance for one in agents.values() for route in one.every()}
    return {name: known[name] for name in sorted(names & known.keys())}


def _is_suspended(admission: Admission, agent: str) -> bool:
    form = admission.in_force.get(ObjectRef(Kind.AGENT, agent))
    return form is not None and isinstance(form.spec, Agent) and form.spec.suspend
