"""The router itself: doors that open and close, the sweep of deadlines, and records in batches.

It is handed its way to connectors (``dispatch``), its journal (``record``) and its clocks; whose session a
connection is, is decided by each door's ``pin``. One loop, plain callbacks; only opening and closing awaits.
"""

import asyncio
import logging
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.model.calls import CallRecord, Dispatch, Unanswered
from reconciler.model.effects import Effects
from reconciler.model.entries import Entries
from reconciler.model.jobs import Jobs
from reconciler.model.stands import Stands, as_pinned
from reconciler.router import memory, within
from reconciler.router.connection import Connection
from reconciler.router.flight import Exchange
from reconciler.router.guest import SERVICES, Guest, Served
from reconciler.router.peers import Door, Peer, Pinned
from reconciler.router.within import Ask, Said

__all__ = ["Ask", "Door", "Peer", "Pinned", "Router", "Said"]

_LOG = logging.getLogger("handler.router")
MAX_SOCKET_PATH = 107
_BACKLOG = 128
_MAX_CONNECTIONS = 256  # at one door
_MAX_REFUSED = 32  # more of them that are told so; the next ones are not even heard
_MAX_HELD = 64 * 2**20  # bytes of unfinished lines at one door
_SWEEP_S = 0.1
_SAID_S = 60.0  # between two lines of the log that say the same
_REST_S = 10.0  # without a call, before freed memory goes back to the system
_RECORDS_S = 0.05  # how long a record waits for others, so that the journal writes many at once


@dataclass(slots=True)
class _Open:
    """A door that is open."""

    door: Door
    servers: dict[str, asyncio.AbstractServer] = field(default_factory=dict)  # by socket name
    places: dict[str, tuple[int, int]] = field(default_factory=dict)  # device and inode of each socket
    connections: set[Connection] = field(default_factory=set)
    pinned: dict[Connection, str] = field(default_factory=dict)  # those of them that belong to a session


class Router:
    """Serves agents at its doors. All methods are for the loop's own thread."""

    def __init__(
        self,
        dispatch: Dispatch,
        *,
        record: Callable[[CallRecord], None],
        now: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        """``now`` is the wall clock, for records; ``clock`` the monotonic one, for deadlines: seconds."""
        memory.keep()
        self.stands: Stands = as_pinned  # how a route stands now, for what agents read
        self._record = record
        self._doors: dict[str, _Open] = {}
        self._guests: dict[str, Guest] = {}
        self._exchange = Exchange(dispatch, now, clock)
        self._exchange.watch = self._watch
        self._rest: asyncio.TimerHandle | None = None  # set while nobody calls
        self._shed_at: float | None = None  # when it was last said that connections are turned away
        self._exchange.write = self._write_soon

    def keep_effects(self, effects: Effects) -> None:
        """From now on this keeps the attempts of calls with an effect; without it none is served."""
        self._exchange.effects = effects

    def ask_entries(self, entries: Entries, *, on: bool) -> None:
        """From now on each call asks this before it is handed over, or (off) none does."""
        self._exchange.policed.entries, self._exchange.policed.on = entries, on

    def keep_jobs(self, jobs: Jobs) -> None:
        """From now on this keeps jobs; without it none is served."""
        self._exchange.jobs = jobs

    def tell_unanswered(self, unanswered: Unanswered) -> None:
        """From now on this hears of what connectors, by their own word, did not do."""
        self._exchange.unanswered = unanswered

    def flush(self) -> None:
        """Write the records of all calls that have ended, now."""
        self._flush()

    async def open(self, door: Door) -> None:
        """Listen at a door. One that is open already gets its sockets changed; its connections stay.

        Raises OSError when a socket cannot be made, ValueError when its path is too long for the system.
        """
        kept = self._doors.setdefault(door.id, _Open(door))
        kept.door = door
        wanted = {*door.interfaces, SERVICES}
        for name in kept.servers.keys() - wanted:
            self._close_socket(kept, name)
        await self._listen_at(kept, wanted - kept.servers.keys())

    def unreachable(self) -> dict[str, tuple[str, ...]]:
        """By door, the sockets that are not where agents look for them: gone, or replaced by something."""
        lost = {door_id: tuple(_lost(kept)) for door_id, kept in self._doors.items()}
        return {door_id: names for door_id, names in lost.items() if names}

    async def listen_again(self, door_id: str, names: Iterable[str]) -> None:
        """Have these sockets of an open door anew; its connections stay. Raises as ``open`` does."""
        kept = self._doors.get(door_id)
        if kept is None:
            return
        for name in names:
            kept.places.pop(name, None)
            if (server := kept.servers.pop(name, None)) is not None:
                server.close()
        await self._listen_at(kept, names)

    async def close(self, door_id: str) -> None:
        """Stop listening at a door and end its connections; a door that is not open is none."""
        kept = self._doors.pop(door_id, None)
        if kept is None:
            return
        for name in list(kept.servers):
            self._close_socket(kept, name)
        for connection in list(kept.connections):
            connection.shut()
        with suppress(OSError):
            kept.door.folder.rmdir()
        await self._exchange.settled()  # the door may be opened anew meanwhile: all of the old one is gone
        self._flush()

    def forget(self, session: str) -> None:
        """A session has ended: its connections end, and what was counted for it is dropped."""
        self._guests.pop(session, None)
        within.abandon(self._exchange, session)
        for kept in self._doors.values():
            for connection in [one for one, its in kept.pinned.items() if its == session]:
                connection.shut()

    async def _listen_at(self, kept: _Open, names: Iterable[str]) -> None:
        folder = kept.door.folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
        for name in sorted(names):
            kept.servers[name] = await self._listen(kept, name)
            kept.places[name] = _place(folder / f"{name}.sock")

    async def _listen(self, kept: _Open, name: str) -> asyncio.AbstractServer:
        path = kept.door.folder / f"{name}.sock"
        if len(os.fsencode(path)) > MAX_SOCKET_PATH:
            raise ValueError(f"the socket path {path} is longer than {MAX_SOCKET_PATH} bytes")
        _need_free(path)
        house = _House(self, kept)
        server = await asyncio.get_running_loop().create_unix_server(
            lambda: Connection(self._exchange, house, name), str(path), backlog=_BACKLOG
        )
        path.chmod(0o600)
        return server

    def _close_socket(self, kept: _Open, name: str) -> None:
        kept.servers.pop(name).close()
        kept.places.pop(name, None)
        with suppress(FileNotFoundError):
            (kept.door.folder / f"{name}.sock").unlink()

    def guest(self, pinned: Pinned) -> Guest:
        """The session of a connection, with what was counted for it so far."""
        guest = self._guests.get(pinned.session)
        if guest is None:
            guest = self._guests[pinned.session] = Guest(pinned.session, pinned.routes, self._exchange)
        return guest

    async def call(self, pinned: Pinned, ask: Ask) -> Said:
        """A call of the controller's own in a session, by the same law as an agent's; cancelled with whoever
        waits, but for what may have an effect.
        """
        return await within.call(self._exchange, self.guest(pinned), ask)

    async def call_apart(self, pinned: Pinned, ask: Ask) -> Said:
        """The same, with nothing counted for its session: a turn of a model, which has bounds of its own."""
        guest = Guest(pinned.session, pinned.routes, self._exchange)
        return await within.call(self._exchange, guest, ask)

    def shed(self) -> None:
        """Say that connections are turned away for want of descriptors: once a minute, however many."""
        now = self._exchange.clock()
        if self._shed_at is None or now - self._shed_at >= _SAID_S:
            self._shed_at = now
            _LOG.warning("connections are turned away: few descriptors are left; raise the limit (ulimit -n)")

    def _watch(self) -> None:
        self._exchange.watching = True
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        self._exchange.watching = False
        now = self._exchange.clock()
        busy = False
        for kept in list(self._doors.values()):
            for connection in list(kept.connections):
                busy |= connection.sweep(now)
        unconnected = [*self._exchange.adrift, *self._exchange.inside]
        for flight in [one for one in unconnected if one.is_late() and not one.over]:
            flight.expire()
        busy |= bool(unconnected)
        if busy and not self._exchange.watching:
            self._watch()
        elif not busy:
            self._rest = asyncio.get_running_loop().call_later(_REST_S, memory.give_back)

    def _write_soon(self) -> None:
        asyncio.get_running_loop().call_later(_RECORDS_S, self._flush)

    def _flush(self) -> None:
        for record in self._exchange.records():
            self._record(record)


@dataclass(slots=True)
class _House:
    """One open door, as its connections know it."""

    router: Router
    kept: _Open

    def enter(self, connection: Connection, peer: Peer) -> tuple[Guest, Served] | str | None:
        self.kept.connections.add(connection)
        if len(self.kept.connections) > _MAX_CONNECTIONS + _MAX_REFUSED:
            return None
        if len(self.kept.connections) > _MAX_CONNECTIONS:
            return f"more than {_MAX_CONNECTIONS} connections at one door"
        try:
            pinned = self.kept.door.pin(peer)
        except OSError:
            return "the session cannot be opened now"
        if isinstance(pinned, str):
            return pinned
        self.kept.pinned[connection] = pinned.session
        guest = self.router.guest(pinned)
        served = guest.at(connection.socket_name, self.router.stands)
        return (guest, served) if served else f"this session has no interface {connection.socket_name!r}"

    def shed(self) -> None:
        self.router.shed()

    def is_full(self) -> bool:
        return sum(one.held for one in self.kept.connections) > _MAX_HELD

    def leave(self, connection: Connection) -> None:
        self.kept.connections.discard(connection)
        session = self.kept.pinned.pop(connection, None)
        if session is not None:
            self.kept.door.left(session)


def _place(path: Path) -> tuple[int, int]:
    """Device and inode of what lies at a path; zeros for nothing."""
    try:
        found = path.lstat()
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


def _lost(kept: _Open) -> Iterator[str]:
    for name in sorted({*kept.door.interfaces, SERVICES}):
        if _place(kept.door.folder / f"{name}.sock") != kept.places.get(name):
            yield name


def _need_free(path: Path) -> None:
    """Remove a socket that an earlier controller left; anything else in its place is not ours to remove."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise FileExistsError(f"{path} is not a socket, and it is where one belongs")
    path.unlink()
