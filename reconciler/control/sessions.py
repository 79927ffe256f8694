"""Who holds which routes: sessions, each pinned for life to the table it was opened with.

A session is one file, ``<state>/sessions/<id>.json``: agent, opener, pinned routes and the recipes behind
them, so that a restarted controller reopens the same doors with the same answers. Two kinds: *opened* ones
(by a launcher or a person; they end by ``close``, with their opener, or after a day without a call) and
*standing* ones, where all connections whose bridges serve the same harness are one session, which ends with
the last of them.
"""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from reconciler.control import atomic, processes
from reconciler.control.seals import Seals
from reconciler.control.typed import seconds, text, truth, whole
from reconciler.control.within import RUNTIMES
from reconciler.model.contract import Contract
from reconciler.model.names import InstanceName, InterfaceRef
from reconciler.model.recipes import Recipe
from reconciler.model.routes import AgentRoutes, Route, RouteTable, ScopeFolder

_LOG = logging.getLogger("handler.sessions")
_ID = re.compile(r"[0-9a-z]{1,24}")  # every token that we give; a file by another name is not ours
_QUIET_S = 24 * 3600  # an opened session that nobody called for a day is forgotten
_RETURN_S = 30  # after a restart: how long a standing session waits for its bridges to come back


@dataclass(frozen=True)
class Session:
    """One session. ``opener`` is None for one that only ``close`` or a quiet day ends; times are wall
    clock.
    """

    id: str
    routes: AgentRoutes
    recipes: Mapping[InstanceName, Recipe]
    generation: int
    opened_at: float
    opener: processes.Process | None = None
    standing: bool = False
    revision: str = ""  # what served when it was opened; "": nobody wrote it down
    above: tuple[str, ...] = ()  # the agents that called one another and then this one, the first one first

    @property
    def agent(self) -> str:
        return self.routes.agent

    @cached_property
    def own(self) -> Mapping[InstanceName, Recipe]:
        """By the instance that it is pinned to, what serves this session alone: where an interface keeps
        state for a session, and there is a process to keep it.
        """
        return {
            name: recipe.of_session(self.id)
            for name, recipe in self.recipes.items()
            if recipe.state == "session" and recipe.runtime not in RUNTIMES
        }

    @cached_property
    def serving(self) -> AgentRoutes:
        """Its routes as calls take them: to its own instances, where it has any."""
        if not self.own:
            return self.routes
        names = {name: recipe.name for name, recipe in self.own.items()}

        def turned(route: Route) -> Route:
            to = names.get(route.instance, route.instance)
            return replace(route, instance=to, others=tuple(map(turned, route.others)))

        return replace(self.routes, routes={name: turned(one) for name, one in self.routes.routes.items()})


class Sessions:
    """The book of open sessions, in memory and on disk."""

    def __init__(self, folder: Path, *, now: Callable[[], float], token: Callable[[], str]) -> None:
        """``folder`` is made 0700; ``now`` is the wall clock; ``token`` gives unguessable session ids."""
        self.revision: Callable[[], str] = lambda: ""  # what serves now
        self._folder = folder
        self._now = now
        self._token = token
        self._open: dict[str, Session] = {}
        self._standing: dict[tuple[str, processes.Process], str] = {}
        self._connections: dict[str, int] = {}
        self._quiet_since: dict[str, float] = {}
        self._own: dict[InstanceName, tuple[InstanceName, Recipe]] = {}  # each with what it is made like
        self._seals: Seals[str] = Seals(lambda session_id: folder / f"{session_id}.json")
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def load(self) -> tuple[Session, ...]:
        """Read what an earlier controller left; those whose opener is gone are forgotten with their files."""
        for path in sorted(self._folder.glob("*.json")):
            look = self._seals.look(path.stem)
            session = _read(path)
            if session is None or (session.opener and not processes.lives(session.opener)):
                _forget(path)
                continue
            self._keep(session)
            self._seals.note(session.id, look)
            if session.standing:
                self._quiet_since[session.id] = self._now() - _QUIET_S + _RETURN_S
        return self.all()

    def all(self) -> tuple[Session, ...]:
        return tuple(self._open.values())

    def get(self, session_id: str) -> Session | None:
        return self._open.get(session_id)

    def recipes(self) -> dict[InstanceName, Recipe]:
        """Every recipe that some open session is pinned to, or has for itself."""
        found = {name: recipe for session in self._open.values() for name, recipe in session.recipes.items()}
        return found | {name: one for name, (_, one) in self._own.items()}

    def shared(self, name: InstanceName) -> InstanceName:
        """The instance that one of a session alone is made like; any other is itself."""
        return self._own[name][0] if name in self._own else name

    def own(self, name: InstanceName) -> Recipe | None:
        """The recipe of what serves one open session alone, called already or not; None for any other."""
        return self._own[name][1] if name in self._own else None

    def open(
        self,
        routes: AgentRoutes,
        table: RouteTable,
        *,
        opener: processes.Process | None = None,
        standing: bool = False,
        above: tuple[str, ...] = (),
    ) -> Session:
        """Pin ``routes`` and write the session down before anybody relies on it; OSError when that fails.

        A standing session serves all the same: on a full disk agents go on, and what is lost is that a
        restart would remember what they were pinned to.
        """
        names = {route.instance for route in routes.every()}
        session = Session(
            id=self._token(),
            routes=routes,
            recipes={name: table.recipes[name] for name in names if name in table.recipes},
            generation=table.generation,
            opened_at=self._now(),
            opener=opener,
            standing=standing,
            revision=self.revision(),
            above=above,
        )
        try:
            self._write(session)
        except OSError as error:
            if not standing:
                raise
            _LOG.warning("session %s cannot be written down: %s", session.id, error.strerror or error)
        self._keep(session)
        return session

    def reach_disk(self, session: Session) -> None:
        """Wait until it is written down for good: for a thread. Raises OSError."""
        atomic.reach(self._folder / f"{session.id}.json")

    def close(self, session_id: str) -> Session | None:
        """Forget a session and its file; None when there is no such session."""
        session = self._open.pop(session_id, None)
        if session is None:
            return None
        if session.standing and session.opener:
            self._standing.pop((session.agent, session.opener), None)
        for own in session.own.values():
            self._own.pop(own.name, None)
        self._connections.pop(session_id, None)
        self._quiet_since.pop(session_id, None)
        self._seals.drop(session_id)
        (self._folder / f"{session_id}.json").unlink(missing_ok=True)
        return session

    def altered(self) -> tuple[Session, ...]:
        """The open sessions whose file is not as it was written: somebody changed or removed it."""
        return tuple(self._open[session_id] for session_id in self._seals.odd() if session_id in self._open)

    def rewrite(self, session: Session) -> None:
        """Write an open session down anew; OSError when that fails."""
        if session.id in self._open:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._write(session)

    def _write(self, session: Session) -> None:
        data = orjson.dumps(_as_json(session))
        atomic.write(self._folder / f"{session.id}.json", data, durable=False)
        self._seals.wrote(session.id, len(data))

    def standing(self, agent: str, parent: processes.Process) -> Session | None:
        """The standing session that the bridges of one parent process share, if it is open."""
        found = self._standing.get((agent, parent))
        return self._open[found] if found else None

    def standing_of(self, agent: str) -> tuple[Session, ...]:
        """The open standing sessions of an agent."""
        return tuple(self._open[found] for (whose, _), found in self._standing.items() if whose == agent)

    def at_doors(self) -> frozenset[str]:
        """The agents that have standing sessions."""
        return frozenset(agent for agent, _ in self._standing)

    def joined(self, session_id: str) -> None:
        """A connection joined the session."""
        self._connections[session_id] = self._connections.get(session_id, 0) + 1

    def left(self, session_id: str) -> bool:
        """A connection left; True when it was the last one of a standing session, which then is over."""
        session = self._open.get(session_id)
        if session is None:
            return False  # it was closed before
        count = self._connections[session_id] = self._connections.get(session_id, 1) - 1
        self._quiet_since[session_id] = self._now()
        return count <= 0 and session.standing

    def called(self, session_id: str) -> None:
        """A call was made: the day of quiet starts anew."""
        if session_id in self._open:
            self._quiet_since[session_id] = self._now()

    def over(self) -> tuple[str, ...]:
        """The sessions that ended by themselves: opener gone, or a day without a call."""
        now = self._now()
        return tuple(
            session.id
            for session in self._open.values()
            if (session.opener and not processes.lives(session.opener))
            or (
                self._connections.get(session.id, 0) <= 0
                and now - self._quiet_since.get(session.id, session.opened_at) > _QUIET_S
            )
        )

    def _keep(self, session: Session) -> None:
        self._open[session.id] = session
        self._own |= {own.name: (name, own) for name, own in session.own.items()}
        if session.standing and session.opener:
            self._standing[session.agent, session.opener] = session.id


def _as_json(session: Session) -> dict[str, Any]:
    opener = session.opener
    return {
        "session": session.id,
        "generation": session.generation,
        "revision": session.revision,
        "openedAt": session.opened_at,
        "opener": {"pid": opener.pid, "startTime": opener.start} if opener else None,
        "bootId": processes.boot_id(),
        "standing": session.standing,
        "above": list(session.above),
        **routes_json([session.routes], session.recipes),
    }


def routes_json(agents: Iterable[AgentRoutes], recipes: Mapping[InstanceName, Recipe]) -> dict[str, Any]:
    """Pinned routes as JSON values, with every contract and recipe they name written once."""
    agents = tuple(agents)
    contracts = {str(r.interface): r.contract for a in agents for r in a.every()}
    return {
        "agents": [
            {
                "agent": pinned.agent,
                "scope": [{"path": folder.path, "access": folder.access} for folder in pinned.scope],
                "agents": list(pinned.agents),
                "routes": [
                    {
                        "interface": str(route.interface),
                        "binding": route.binding,
                        "digest": route.instance.digest,
                        "tools": route.tools,
                        "maxCalls": route.max_calls,
                        "suspended": route.suspended,
                        "models": route.models,
                    }
                    for route in pinned.every()
                ],
            }
            for pinned in agents
        ],
        "contracts": {ref: contract.as_json() for ref, contract in contracts.items()},
        "recipes": [recipe.as_json() for recipe in recipes.values()],
    }


def routes_from(value: Mapping[str, Any]) -> tuple[tuple[AgentRoutes, ...], dict[InstanceName, Recipe]]:
    """Read what ``routes_json`` gave; raises KeyError, TypeError or ValueError when it is not that.

    A recipe that was edited has another digest than its route, and is left out.
    """
    contracts = {ref: Contract.from_json(one) for ref, one in value["contracts"].items()}
    agents = []
    for pinned in value["agents"]:
        routes = [
            Route(
                interface=InterfaceRef.parse(route["interface"]),
                binding=text(route["binding"]),
                instance=InstanceName(route["binding"], text(route["digest"])),
                contract=contracts[route["interface"]],
                tools=tuple(map(text, route["tools"])) if route["tools"] is not None else None,
                max_calls=whole(route["maxCalls"]) if route["maxCalls"] is not None else None,
                suspended=text(route["suspended"]) if route["suspended"] is not None else None,
                models=tuple(map(text, route["models"])) if route.get("models") is not None else None,
            )
            for route in pinned["routes"]
        ]
        scope = tuple(ScopeFolder(text(one["path"]), text(one["access"])) for one in pinned["scope"])
        by_name: dict[str, Route] = {}
        for route in routes:  # of one interface, the first is followed by the others
            first = by_name.get(route.interface.name)
            by_name[route.interface.name] = replace(first, others=(*first.others, route)) if first else route
        callees = tuple(map(text, pinned.get("agents", ())))
        agents.append(AgentRoutes(text(pinned["agent"]), by_name, scope, callees))
    used = {route.instance for one in agents for route in one.every()}
    recipes = {recipe.name: recipe for recipe in map(Recipe.from_json, value["recipes"])}
    return tuple(agents), {name: recipes[name] for name in recipes if name in used}


def left_open(folder: Path) -> tuple[Session, ...]:
    """The sessions that the next controller will reopen, read without touching anything."""
    found = (_read(path) for path in sorted(folder.glob("*.json")))
    return tuple(one for one in found if one and not (one.opener and not processes.lives(one.opener)))


def _forget(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        _LOG.warning("%s is no session and cannot be removed: %s", path, error.strerror or error)


def _read(path: Path) -> Session | None:
    if not _ID.fullmatch(path.stem):
        return None
    try:
        value = orjson.loads(path.read_bytes())
        (routes,), recipes = routes_from(value)
        opener = value["opener"]
        session = Session(
            id=path.stem,
            routes=routes,
            recipes=recipes,
            generation=whole(value["generation"]),
            opened_at=seconds(value["openedAt"]),
            opener=processes.Process(whole(opener["pid"]), whole(opener["startTime"])) if opener else None,
            standing=truth(value["standing"]),
            revision=str(value.get("revision", "")),
            above=tuple(map(text, value.get("above", ()))),
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    if session.opener and value.get("bootId") != processes.boot_id():
        return replace(session, opener=processes.Process(0, 0))  # a pid of another boot names nobody
    return session
