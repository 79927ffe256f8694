"""Who is answered by what: an agent's routes, pinned by a session for its whole life.

A table is never edited; a swap is one assignment of a new one with the next generation. A session keeps the
``AgentRoutes`` it was opened with, and so do its instance recipes, which is why an edit reaches the next
session
and never an open one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reconciler.model.contract import Contract
from reconciler.model.names import InstanceName, InterfaceRef
from reconciler.model.recipes import Recipe


@dataclass(frozen=True, slots=True)
class Route:
    """One interface of one agent: the contract it sees, and the instance behind it, which it never learns
    of.
    """

    interface: InterfaceRef
    binding: str
    instance: InstanceName
    contract: Contract
    tools: tuple[str, ...] | None = None  # granted tools; None: all of the interface
    max_calls: int | None = None  # per session, on top of the interface's own limit
    suspended: str | None = None  # why new calls end `unavailable`, or None
    models: tuple[str, ...] | None = None  # that may be asked for, the default first; None: any
    others: tuple["Route", ...] = ()  # of language models alone: further bindings, by their own models

    @property
    def vacant(self) -> bool:
        """Its place is kept, closed, and no instance stands there."""
        return not self.instance.digest

    @property
    def each(self) -> tuple["Route", ...]:
        """It, and the further ones that its interface is answered by, in order."""
        return (self, *self.others)

    @property
    def allowed(self) -> tuple[str, ...] | None:
        """The models of all of them, the default first; None: any."""
        if not self.others:
            return self.models
        return tuple(model for one in self.each for model in one.models or ())

    def of_model(self, model: object) -> "Route":
        """Which of them a call goes to: by its exact model; that which has the default where it names none;
        itself where none of them has it.
        """
        if not self.others:
            return self
        return next((one for one in self.each if _has(one, model)), self)


@dataclass(frozen=True, slots=True)
class ScopeFolder:
    """A folder of the agent's scope, absolute; ``access`` is ``create``, ``read`` or ``write``."""

    path: str
    access: str = "create"


@dataclass(frozen=True, slots=True)
class AgentRoutes:
    """All that a session of one agent may reach."""

    agent: str
    routes: Mapping[str, Route]  # by interface name, in the order of names
    scope: tuple[ScopeFolder, ...] = ()
    agents: tuple[str, ...] = ()  # whom it may call

    def every(self) -> Iterator[Route]:
        """Each route to an instance: several of them where an interface is answered by several bindings."""
        for route in self.routes.values():
            yield from route.each


@dataclass(frozen=True, slots=True)
class RouteTable:
    """Every agent that may open a session, and the recipes behind them. ``generation`` only grows."""

    generation: int
    agents: Mapping[str, AgentRoutes]
    recipes: Mapping[InstanceName, Recipe]


def _has(route: Route, model: object) -> bool:
    models = route.models or ()
    return model in models if model else bool(models)
