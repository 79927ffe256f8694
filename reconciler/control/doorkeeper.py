"""Doors and who comes through them: one standing door an agent, one folder of sockets an opened session.

The router listens and serves; here it is decided whose session a connection belongs to. At a standing door
all connections whose bridges serve the same harness (``processes.harness``) are one session, so one that
starts a bridge an interface has one table, and a new process of it gets the newest.
"""

import asyncio
import logging
import shutil
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.control import processes
from reconciler.control.capabilities import SHEET, Sheet, Standings
from reconciler.control.departures import Departures
from reconciler.control.sessions import Session, Sessions
from reconciler.model.identity import moved
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.model.recipes import Recipe
from reconciler.model.routes import AgentRoutes, Route, RouteTable
from reconciler.model.stands import Stand
from reconciler.model.status import InstanceSeen
from reconciler.router.server import Door, Peer, Pinned, Router

_LOG = logging.getLogger("handler.sessions")
_TELL_S = 0.05  # news of instances come in flurries: their sheets are written once for all


@dataclass(frozen=True, slots=True)
class Lost:
    """Sockets of one door that are not where they belong, and whose they are."""

    door: str
    sockets: tuple[str, ...]
    about: ObjectRef


class Doorkeeper:
    """Opens and closes the router's doors as sessions and tables come and go."""

    def __init__(
        self,
        run: Path,
        router: Router,
        sessions: Sessions,
        *,
        table: Callable[[], RouteTable],
        now: Callable[[], float],
    ) -> None:
        """``table`` gives the table that serves now; new sessions are pinned to it. ``now``: the wall clock,
        in seconds.
        """
        self.standings = Standings(now)
        self.standings.changed = self._tell
        router.stands = self.standings.stand
        self._run = run
        self._router = router
        self._sessions = sessions
        self._table = table
        self._standing: dict[str, tuple[str, ...]] = {}
        self._followed: RouteTable | None = None
        self._departures = Departures(self._opener_left)
        self._jobs: set[asyncio.Task[object]] = set()
        self._writing = asyncio.Lock()  # while sheets are written no folder goes
        self._telling: asyncio.TimerHandle | None = None
        self._untold: set[str] = set()  # agents whose door has a new session; "": everything
        self.ended: Callable[[Session], None] = lambda session: None

    async def restore(self) -> None:
        """Reopen the doors of sessions that an earlier controller left, at the same paths; what it left of
        others goes.
        """
        sessions = self._sessions.load()
        await asyncio.to_thread(_clear, self._run / "s", {session.id for session in sessions})
        for session in sessions:
            if session.standing:
                continue
            self.standings.remember(session.routes, self._sheet(session).read())
            try:
                await self._open_door(session)
            except (OSError, ValueError) as error:  # one session is no reason to serve nobody
                _LOG.warning("session %s cannot be reopened: %s", session.id, error)

    async def follow(self, table: RouteTable) -> None:
        """Have a standing door for every agent of the table, with its interfaces. One that is no more of the
        table keeps its door for the sessions that are open there, and takes in no others.
        """
        if table is self._followed:
            return
        agents, before = table.agents, self._followed.agents if self._followed else {}
        self._followed = None  # where a door cannot be made, all are gone through the next time
        busy = self._sessions.at_doors()
        for agent in self._standing.keys() - agents.keys() - busy:
            await self._close_standing(agent)
        for agent in sorted((moved(before, agents) & agents.keys()) | (busy - agents.keys())):
            interfaces = self._offered(agent, agents.get(agent))
            if self._standing.get(agent) != interfaces:
                await self._router.open(self._standing_door(agent, interfaces))
                self._standing[agent] = interfaces
                await asyncio.sleep(0)  # a millisecond each: calls go first where thousands are new
        self._followed = table

    def _offered(self, agent: str, routes: AgentRoutes | None) -> tuple[str, ...]:
        """What a door has a socket for: what new sessions get, and what open ones are pinned to."""
        names = list(routes.routes) if routes else []
        for session in self._sessions.standing_of(agent):
            names += [name for name in session.routes.routes if name not in names]
        return tuple(names)

    async def _close_standing(self, agent: str) -> None:
        async with self._writing:
            await self._end_standing(agent)

    async def _end_standing(self, agent: str) -> None:
        self._standing.pop(agent, None)
        self._door_sheet(agent, None).remove()
        await self._router.close(f"a/{agent}")

    async def open(
        self,
        routes: AgentRoutes,
        table: RouteTable,
        opener: processes.Process | None = None,
        above: tuple[str, ...] = (),
    ) -> Session:
        """Open a session pinned to ``routes`` with its own sockets; OSError when it cannot be written
        down. ``above`` are the agents on whose behalf it is opened.
        """
        session = self._sessions.open(routes, table, opener=opener, above=above)
        try:
            await asyncio.to_thread(self._sessions.reach_disk, session)
            await self._open_door(session)
        except (OSError, ValueError, asyncio.CancelledError):
            await self.close(session.id)
            raise
        return session

    async def close(self, session_id: str) -> Session | None:
        """End a session: its sockets go, its connections end; None when there is none of that name."""
        session = self._sessions.close(session_id)
        if session is None:
            return None
        self._departures.forget(session_id)
        if not session.standing:
            await self._router.close(f"s/{session_id}")
        self._forget(session)
        if session.standing:
            self._left_door(session.agent)
            return session
        async with self._writing:
            await asyncio.to_thread(shutil.rmtree, self.folder(session), ignore_errors=True)
        return session

    def keep(self, session_id: str) -> None:
        """Somebody still needs that session, though it makes no calls: a run that waits for a person."""
        self._sessions.called(session_id)

    async def sweep(self) -> None:
        """End the sessions whose opener is gone or that were quiet for a day."""
        for session_id in self._sessions.over():
            await self.close(session_id)

    async def close_all(self) -> None:
        """Close every door; the sessions' files stay, for the controller that comes next."""
        self._departures.close()
        if self._telling is not None:
            self._telling.cancel()
        for agent in list(self._standing):
            await self._close_standing(agent)
        for session in self._sessions.all():
            if not session.standing:
                await self._router.close(f"s/{session.id}")

    def unreachable(self) -> tuple[Lost, ...]:
        """The doors that somebody made unreachable: a socket is gone, or something else lies there."""
        return tuple(
            Lost(door, sockets, self._owner(door)) for door, sockets in self._router.unreachable().items()
        )

    async def listen_again(self, door: str, sockets: Collection[str]) -> None:
        """Have these sockets of a door anew; its connections stay. OSError when something is in the way."""
        await self._router.listen_again(door, sockets)
        self._tell()  # where the whole folder went, so did its sheet

    def put_sheets_back(self) -> None:
        """Have the sheets that somebody removed written again, shortly."""
        for session in self._sessions.all():
            if not (self.folder(session) / SHEET).exists():
                self._tell(session.agent if session.standing else "")

    def altered_sessions(self) -> tuple[Session, ...]:
        """The open sessions whose file somebody else changed or removed."""
        return self._sessions.altered()

    def rewrite(self, session: Session) -> None:
        """Write an open session down anew; OSError when that fails."""
        self._sessions.rewrite(session)

    def _owner(self, door: str) -> ObjectRef:
        kind, _, name = door.partition("/")
        session = self._sessions.get(name) if kind == "s" else None
        return owner(session.agent if session else name)

    def folder(self, session: Session) -> Path:
        """Where a session's sockets lie: its own folder, or its agent's standing door."""
        return self._run / "a" / session.agent if session.standing else self._run / "s" / session.id

    def session(self, session_id: str) -> Session | None:
        """An open session, by its id."""
        return self._sessions.get(session_id)

    def sessions(self) -> tuple[Session, ...]:
        """Every open session, standing ones included."""
        return self._sessions.all()

    def in_use(self) -> Collection[str]:
        """The bindings that open sessions are pinned to."""
        return {route.binding for one in self._sessions.all() for route in one.routes.every()}

    def recipes(self) -> Mapping[InstanceName, Recipe]:
        """The recipes that open sessions are pinned to."""
        return self._sessions.recipes()

    def own(self, name: InstanceName) -> Recipe | None:
        """The recipe of what serves one open session alone."""
        return self._sessions.own(name)

    async def _open_door(self, session: Session) -> None:
        def pin(peer: Peer) -> Pinned | str:
            self._sessions.joined(session.id)
            return Pinned(session.id, session.serving)

        interfaces = tuple(session.routes.routes)
        door = Door(f"s/{session.id}", self.folder(session), pin, interfaces, self._sessions.left)
        await self._router.open(door)
        self._sheet(session).write(self.standings.stand)
        if session.opener is not None:
            self._departures.watch(session.id, session.opener)

    def _opener_left(self, session_id: str) -> None:
        """The process that a session was opened with has ended, and so has the session."""
        self._soon(self.close(session_id))

    def _standing_door(self, agent: str, interfaces: tuple[str, ...]) -> Door:
        def pin(peer: Peer) -> Pinned | str:
            above = processes.harness(peer.pid) or processes.Process(peer.parent_pid, peer.parent_start)
            session = self._sessions.standing(agent, above) or self._begin(agent, above)
            if session is None:
                return (
                    f"agent {agent!r} cannot start a session now: `handler describe agent/{agent}` says why"
                )
            self._sessions.joined(session.id)
            return Pinned(session.id, session.serving)

        def left(session_id: str) -> None:
            if self._sessions.left(session_id) and (session := self._sessions.close(session_id)):
                self._forget(session)
                self._left_door(agent)

        return Door(f"a/{agent}", self._run / "a" / agent, pin, interfaces, left)

    def _begin(self, agent: str, above: processes.Process) -> Session | None:
        table = self._table()
        routes = table.agents.get(agent)
        if routes is None:
            return None
        session = self._sessions.open(routes, table, opener=above, standing=True)
        self._tell(agent)
        return session

    def _left_door(self, agent: str) -> None:
        """A standing session is over: with the last one the sheet goes, and a door that only stood for it."""
        if agent not in self._sessions.at_doors():
            self._soon(self._tidy(agent))

    async def _tidy(self, agent: str) -> None:
        async with self._writing:
            if agent in self._sessions.at_doors():
                return
            if agent in self._table().agents:
                self._door_sheet(agent, None).remove()
            else:
                await self._end_standing(agent)

    # what agents are told of how things stand

    def take_withdrawn(self, why: Mapping[str, str], known: Mapping[str, InstanceSeen]) -> None:
        """The bindings that serve nobody from now on, and the instances there are."""
        self.standings.follow(why, known)

    def _tell(self, agent: str = "") -> None:
        """Something stands otherwise (or one agent's door has its first session): sheets follow shortly."""
        self._untold.add(agent)
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(_TELL_S, self._tell_now)

    def _tell_now(self) -> None:
        self._telling = None
        untold, self._untold = self._untold, set()
        self._soon(self._write_sheets(untold))

    async def _write_sheets(self, untold: Collection[str]) -> None:
        async with self._writing:
            agents = self._table().agents
            doors = self._sessions.at_doors() & self._standing.keys() & agents.keys()
            sheets = [self._door_sheet(one, agents[one]) for one in doors if "" in untold or one in untold]
            if "" in untold:
                sheets += [self._sheet(one) for one in self._sessions.all() if not one.standing]
            await asyncio.to_thread(_write_all, sheets, self.standings.stand)

    def _sheet(self, session: Session) -> Sheet:
        return Sheet(self.folder(session), session.routes, session.id, session.opened_at)

    def _door_sheet(self, agent: str, routes: AgentRoutes | None) -> Sheet:
        began = min((one.opened_at for one in self._sessions.standing_of(agent)), default=0.0)
        return Sheet(self._run / "a" / agent, routes or AgentRoutes(agent, {}), "", began)

    def _soon(self, job: Coroutine[Any, Any, object]) -> None:
        task = asyncio.get_running_loop().create_task(job)
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)

    def _forget(self, session: Session) -> None:
        self._router.forget(session.id)
        self.ended(session)


def _clear(folder: Path, kept: Collection[str]) -> None:
    """Remove the folders of sessions that are over, of which a killed controller left what lay there."""
    try:
        left = [one for one in folder.iterdir() if one.name not in kept]
    except OSError:
        return
    for one in left:
        shutil.rmtree(one, ignore_errors=True)


def _write_all(sheets: Iterable[Sheet], stand: Callable[[Route], Stand]) -> None:
    for sheet in sheets:
        sheet.write(stand)


def owner(agent: str) -> ObjectRef:
    """Whose a session is: its agent's, or the binding's that an operator called directly."""
    return ObjectRef.parse(agent) if "/" in agent else ObjectRef(Kind.AGENT, agent)
