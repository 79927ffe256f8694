"""Whom an edit stops serving: what a person is asked about before it is done.

A replaced instance is no loss (the new one answers before the old one goes, and open sessions keep theirs);
nor is the removal of what nobody uses. A loss is a session whose calls end from now on, an agent that is
answered no more by what is gone, or a running instance that stops with nothing in its place.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from reconciler.admission.admit import Admission
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.model.resources import Binding
from reconciler.model.routes import AgentRoutes, Route


@dataclass(frozen=True, slots=True)
class Open:
    """An open session: whose it is, the revision and the table it was opened at, and what it is pinned to."""

    id: str
    agent: str
    revision: str  # "": it was opened by a release that did not write it down
    generation: int
    instances: Collection[InstanceName] = ()
    interfaces: Collection[str] = ()  # versions, like ocr/v1
    standing: bool = False


@dataclass(frozen=True, slots=True)
class Live:
    """What runs while two sides are compared: open sessions, instances that have a process, and bindings of
    which an earlier instance serves, since the newest did not prove itself.
    """

    sessions: tuple[Open, ...] = ()
    running: Collection[str] = ()  # by binding@digest12
    behind: Mapping[str, str] = field(default_factory=dict)  # by binding: why


NOTHING = Live()


@dataclass(frozen=True, slots=True)
class Loss:
    """One who is served no more: a ``session`` by its id, an ``agent``, or an ``instance``."""

    sort: Literal["session", "agent", "instance"]
    name: str
    why: str  # a clause, like: its calls to binding/ocr end


class Losses:
    """What is lost between two tables and their admissions."""

    def __init__(
        self,
        old: Mapping[str, AgentRoutes],
        new: Mapping[str, AgentRoutes],
        admissions: tuple[Admission | None, Admission],
        live: Live,
    ) -> None:
        self._old, self._new, self._live = old, new, live
        self._before, self._after = admissions

    def of(self, ref: ObjectRef) -> tuple[Loss, ...]:
        """What the change of one object costs whom; () where nobody loses anything. An agent that goes costs
        nobody: no session opens from then on, and those that are open go on.
        """
        return tuple(self._of_binding(ref)) if ref.kind is Kind.BINDING else ()

    def _of_binding(self, ref: ObjectRef) -> Iterator[Loss]:
        if not (_serves(self._before, ref) and not _serves(self._after, ref)):
            return
        for session in self._live.sessions:
            if any(name.binding == ref.name for name in session.instances):
                yield Loss("session", session.id, f"its calls to {ref} end")
        for agent, routes in sorted(self._old.items()):
            if self._loses(agent, routes, ref.name):
                yield Loss("agent", agent, f"nothing answers in the place of {ref}")
        if ref not in self._after.in_force:
            for name in sorted(self._live.running):
                if name.rpartition("@")[0] == ref.name:
                    yield Loss("instance", name, "it stops, and nothing takes its place")

    def _loses(self, agent: str, routes: AgentRoutes, binding: str) -> bool:
        """Whether an agent that stays has an interface that this binding answered, and nothing does now."""
        new = self._new.get(agent)
        if new is None and ObjectRef(Kind.AGENT, agent) not in self._after.in_force:
            return False
        given_up: Collection[str] = ()  # by an agent whose newest form is in force and does not name them
        if new is not None and ObjectRef(Kind.AGENT, agent) not in self._after.refused:
            named = {one.interface.name for one in self._after.selections.get(agent, ())}
            given_up = routes.routes.keys() - named
        for route in routes.every():
            name = route.interface.name
            if route.binding != binding or route.suspended is not None or name in given_up:
                continue
            if _is_lost(routes.routes[name], route, new.routes.get(name) if new else None):
                return True
        return False


def _is_lost(before: Route, route: Route, now: Route | None) -> bool:
    """Whether nothing answers in a route's place now: where several did, for some model of it."""
    serving = [one for one in now.each if one.suspended is None] if now else []
    if not before.others:
        return not serving
    return not {model for one in serving for model in one.models or ()}.issuperset(route.models or ())


def _serves(admission: Admission | None, ref: ObjectRef) -> bool:
    found = admission.in_force.get(ref) if admission else None
    if admission is None or found is None or not isinstance(found.spec, Binding):
        return False
    return not found.spec.suspend and ref not in admission.unusable
