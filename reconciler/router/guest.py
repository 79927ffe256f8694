"""A session as the router knows it: what it is served at each socket, and what was counted for it so far."""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler import __version__
from reconciler.model.contract import MODEL
from reconciler.model.routes import AgentRoutes, Route
from reconciler.model.stands import Stands, as_pinned
from reconciler.router import mcp, straight
from reconciler.router.flight import Desk, Exchange
from reconciler.router.straight import Way

SERVICES = "services"  # the socket that serves every interface of a session


@dataclass(frozen=True, slots=True)
class Served:
    """What one socket of a session serves, and the straight ways to it by tool."""

    face: mcp.Face
    ways: Mapping[str, Way]


def answering(desk: Desk, ask: mcp.Call) -> Desk:
    """The desk of that binding of an interface which has the model that a call asks for."""
    if not desk.others or not ask.offer.tool.takes_model:
        return desk
    return desk.others.get(desk.route.of_model(ask.arguments.get(MODEL)).binding, desk)


class Guest:
    """A session, shared by its connections."""

    def __init__(self, session: str, routes: AgentRoutes, exchange: Exchange) -> None:
        self.session = session
        self.routes = routes
        self.desks = {name: _desk(exchange, session, routes, route) for name, route in routes.routes.items()}
        self._served: dict[str, Served] = {}  # by socket name

    def at(self, name: str, stands: Stands = as_pinned) -> Served | None:
        """What the socket of that name serves; None: the session has no such interface."""
        found = self._served.get(name)
        if found is None:
            routes = self.routes.routes
            if name == SERVICES:
                face = mcp.Face(SERVICES, __version__, tuple(routes.values()))
            elif name in routes:
                face = mcp.Face(name, str(routes[name].interface.version), (routes[name],))
            else:
                return None
            face.stands = stands
            found = self._served[name] = Served(face, straight.ways(self.desks, face))
        return found


def _desk(exchange: Exchange, session: str, routes: AgentRoutes, route: Route) -> Desk:
    """A desk, with those of further bindings beside it: what is counted and queued is the interface's."""
    desk = Desk(exchange, session, routes, route)
    desk.others = {other.binding: Desk(exchange, session, routes, other) for other in route.others}
    for one in desk.others.values():
        one.usage, one.queue = desk.usage, desk.queue
    return desk
