"""One agent's connection: lines in, answers out, and every bound that keeps it from harming the others.

Plain callbacks of an ``asyncio.Protocol``. A turn reads at most a handful of messages, then the other
connections have theirs. One that does not read its answers is not read from; in the end it is dropped. A
caller that leaves takes its own calls along and nothing else.
"""

import asyncio
import select
import socket
from collections import deque
from collections.abc import Mapping
from typing import Protocol, cast

from reconciler.model.calls import Refusal
from reconciler.model.jobs import JobSeen
from reconciler.router import answers, mcp, straight, tasks
from reconciler.router.flight import Desk, Exchange, Flight
from reconciler.router.guest import Guest, Served, answering
from reconciler.router.parties import Flying
from reconciler.router.peers import Peer, is_own, is_scarce, peer_of
from reconciler.wire import jsonrpc
from reconciler.wire.framing import MAX_LINE, Framer, Oversized
from reconciler.wire.jsonrpc import Id

NO_SESSION = 1  # our own JSON-RPC code: the connection belongs to no session; the message says why
_TURN = 32  # messages of one connection before the others have their turn
_MAX_LISTENS = 16
_MAX_FINDINGS = 16  # requests about tasks that wait for the ledger: they count as no calls
_HIGH_WATER = 2**20
_MAX_REFUSED_LINE = 64 * 1024
_LONG = 256 * 1024  # bytes of an unfinished line that few agents ever send
_MAX_UNREAD = 8 * 2**20  # bytes that a stalled agent may leave unread…
_STALL_S = 1.0  # …for longer than this
_MOST_UNREAD = 128 * 2**20  # bytes that it may leave unread at all: answers to many calls may end at once
_MAX_STALL_S = 10.0
_IN_USE = "a request with this id is still running"
_TOO_LONG = f"a line has more than {MAX_LINE} bytes"
_OVER = "its session ended while it ran"
_NO_END = "the last line has no end: a message ends with 0x0A"


class House(Protocol):
    """The door that a connection came through, as the connection needs it."""

    def enter(self, connection: "Connection", peer: Peer) -> tuple[Guest, Served] | str | None:
        """Who this is and what it is served, or why it is not; None: there is no room even to say so."""
        ...

    def shed(self) -> None:
        """A connection is turned away for want of descriptors."""
        ...

    def is_full(self) -> bool:
        """Whether the connections of this door hold more of unfinished lines than is good for the others."""
        ...

    def leave(self, connection: "Connection") -> None:
        """A connection that asked to enter has ended."""
        ...


class Connection(asyncio.Protocol):
    """One connection, from its first byte to its last."""

    __slots__ = (
        "_backlog", "_closing", "_desks", "_exchange", "_face", "_framer", "_house", "_is_turning", "_peer",
        "_refused", "_stalled_at", "_transport", "ended", "flights", "listens", "socket_name", "ways",
    )  # fmt: skip

    def __init__(self, exchange: Exchange, house: House, socket_name: str) -> None:
        self.socket_name = socket_name
        self.ended = False  # the agent sends no more, but may still read
        self._exchange = exchange
        self._house = house
        self._framer = Framer()
        self._transport: asyncio.Transport
        self._peer: Peer | None = None  # None: a stranger, or not connected yet
        self.ways: Mapping[str, straight.Way] = {}  # by tool
        self._desks: Mapping[str, Desk] = {}  # by interface name
        self._face: mcp.Face | None = None  # None: the connection belongs to no session
        self._refused = ""
        self.flights: dict[Id, Flying] = {}
        self.listens: dict[Id, mcp.Listen] = {}
        self._backlog: deque[bytes | Oversized] = deque()
        self._is_turning = False  # a turn of the backlog is on its way
        self._stalled_at: float | None = None
        self._closing = False

    # what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER)
        ours = transport.get_extra_info("socket")
        peer = peer_of(ours)
        if not is_own(peer):
            self._transport.abort()
            return
        if is_scarce(ours):
            self._house.shed()
            self._transport.abort()
            return
        self._peer = peer
        entered = self._house.enter(self, peer)
        if entered is None:
            self._transport.abort()
        elif isinstance(entered, str):
            self._refused = entered
            self._framer.limit = _MAX_REFUSED_LINE
        else:
            guest, served = entered
            self._desks, self._face, self.ways = guest.desks, served.face, served.ways

    def data_received(self, data: bytes) -> None:
        framer = self._framer
        if framer.at_start and not self._backlog and data.find(b"\n") == len(data) - 1 < framer.limit:
            # One line and nothing else: the usual case, in as few steps as can be.
            if straight.begin(self, data):
                if not self._exchange.watching:
                    self._exchange.watch()
            elif framer.is_whole(data):
                self._hear_in_full(data)
            return
        lines = framer.feed(data)
        if self._framer.held > _LONG and self._house.is_full():
            self._transport.abort()
            return
        if self._backlog or len(lines) > _TURN:
            self._backlog.extend(lines)
            self._pause()
            if not self._is_turning:
                self._turn_soon()
            return
        for line in lines:
            self._hear(line)

    def eof_received(self) -> bool:
        """The agent sends no more. One that is gone altogether takes its calls along; one that only stopped
        writing still gets its answers.
        """
        self.ended = True
        if self._framer.held:  # it may be half of something else: it is not done
            self.send(jsonrpc.error(None, jsonrpc.PARSE_ERROR, _NO_END))
        if self.is_gone() or not (self.flights or self._backlog):
            self._close()
            return False
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._backlog.clear()
        for flight in list(self.flights.values()):
            flight.cancel()
        if self._peer is not None:
            self._house.leave(self)

    def pause_writing(self) -> None:
        self._stalled_at = self._exchange.clock()
        self._pause()
        if not self._exchange.watching:
            self._exchange.watch()

    def resume_writing(self) -> None:
        self._stalled_at = None
        if self._closing:
            return
        if not self._backlog:
            self._transport.resume_reading()
        elif not self._is_turning:
            self._turn_soon()

    # what flights call

    def answered(self, ident: Id, line: bytes | None) -> None:
        self.flights.pop(ident, None)
        if line is not None:
            exchange = self._exchange
            if exchange.running or exchange.unsent:
                exchange.send_soon(self, line)
            else:
                self.send(line)
        if self.ended and not self.flights and not self._backlog:
            self._close()

    def report(self, line: bytes) -> None:
        if self._stalled_at is None:
            self.send(line)

    # what the router calls

    @property
    def held(self) -> int:
        """Bytes of a line that has not ended yet."""
        return self._framer.held

    def sweep(self, now: float) -> bool:
        """End what is late, drop an agent that does not read; True while there is anything to watch."""
        for flight in list(self.flights.values()):
            if not flight.over and flight.is_late():
                flight.expire()
        if self._stalled_at is not None and now - self._stalled_at > _MAX_STALL_S:
            self._transport.abort()
        if self.ended and self.flights and self.is_gone():
            self._transport.abort()
        return bool(self.flights) or self._stalled_at is not None

    def shut(self) -> None:
        """The door closes: subscriptions are answered, calls that run end as ``unavailable`` (a client that
        waits would not see why its bridge falls silent), and what was written still goes out.
        """
        for listen in self.listens.values():
            self.send(answers.listened(listen))
        for flight in reversed(list(self.flights.values())):  # those that wait do not begin meanwhile
            flight.abandon(_OVER)
        self._close()

    def is_gone(self) -> bool:
        """Whether the agent has closed both ways (it can neither send nor read any more)."""
        found: socket.socket | None = self._transport.get_extra_info("socket")
        if found is None or found.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(found.fileno(), 0)
        return any(events & (select.POLLHUP | select.POLLERR) for _, events in poll.poll(0))

    def _turn_soon(self) -> None:
        self._is_turning = True
        asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_turning = False
        if self._stalled_at is not None:
            return  # what it asks for next would only be more that it does not read
        for _ in range(min(_TURN, len(self._backlog))):
            self._hear(self._backlog.popleft())
        if self._closing:
            return
        if self._backlog:
            self._turn_soon()
        elif self._stalled_at is None:
            if self.ended and not self.flights:
                self._close()
            elif not self.ended:
                self._transport.resume_reading()

    def _hear(self, line: bytes | Oversized) -> None:
        if type(line) is not bytes:
            self.send(jsonrpc.error(None, jsonrpc.PARSE_ERROR, _TOO_LONG))
        elif not straight.begin(self, line):
            self._hear_in_full(line)
        elif not self._exchange.watching:
            self._exchange.watch()

    def _hear_in_full(self, line: bytes) -> None:
        self._act(self._answer(jsonrpc.decode(line)), len(line))

    def _act(self, action: mcp.Action, size: int) -> None:
        if isinstance(action, mcp.Call):
            self._begin(action, size)
        elif isinstance(action, bytes):
            self.send(action)
        elif isinstance(action, mcp.Cancel):
            self._cancel(action.id)
        elif isinstance(action, mcp.AskTask):
            self._ask_task(action)
        elif action is not None:
            self._listen(action)

    def _answer(self, message: jsonrpc.Message) -> mcp.Action:
        if isinstance(message, jsonrpc.Request | jsonrpc.Fault) and self._is_in_use(message.id):
            # An answer with this id would be taken for that of the request which has it.
            if isinstance(message, jsonrpc.Request):
                return jsonrpc.error(None, jsonrpc.INVALID_REQUEST, _IN_USE)
            return jsonrpc.error(None, message.code, message.message)
        if self._face is not None:
            return mcp.answer(self._face, message)
        if isinstance(message, jsonrpc.Request):
            return jsonrpc.error(message.id, NO_SESSION, self._refused)
        if isinstance(message, jsonrpc.Fault):
            return jsonrpc.error(message.id, message.code, message.message)
        return None

    def _is_in_use(self, ident: Id | None) -> bool:
        return ident in self.flights or ident in self.listens

    def _begin(self, ask: mcp.Call, size: int) -> None:
        ident = ask.id
        if self._is_in_use(ident):
            self.send(jsonrpc.error(None, jsonrpc.INVALID_REQUEST, _IN_USE))
            return
        desk = answering(self._desks[ask.offer.route.interface.name], ask)
        self.flights[ident] = flight = Flight(desk, self, ask, size)
        flight.begin()
        if not self._exchange.watching:
            self._exchange.watch()

    def _ask_task(self, ask: mcp.AskTask) -> None:
        if sum(type(one) is tasks.Finding for one in self.flights.values()) >= _MAX_FINDINGS:
            self.send(jsonrpc.error(ask.id, jsonrpc.INTERNAL_ERROR, "too many requests about tasks"))
            return
        self.flights[ask.id] = finding = tasks.Finding(self._exchange.clock, ask, self._found)
        agent = next(iter(self._desks.values())).agent
        self._exchange.jobs.find(ask.handle, agent, finding.heard)
        if not self._exchange.watching:
            self._exchange.watch()

    def _found(self, ask: mcp.AskTask, seen: JobSeen | Refusal | None) -> None:
        """Whose job a request about a task is about; None: the request was given up."""
        told = None if seen is None or self._face is None else tasks.about(self._face, ask, seen)
        if isinstance(told, mcp.Call):
            del self.flights[ask.id]
            self._begin(told, 0)
        else:
            self.answered(ask.id, told)

    def _cancel(self, ident: Id) -> None:
        self.listens.pop(ident, None)
        flight = self.flights.get(ident)
        if flight is not None:
            flight.cancel()

    def _listen(self, listen: mcp.Listen) -> None:
        if len(self.listens) >= _MAX_LISTENS:
            self.send(jsonrpc.error(listen.id, jsonrpc.INTERNAL_ERROR, "too many subscriptions"))
        else:
            self.listens[listen.id] = listen
            self.send(answers.acknowledged(listen))

    def send(self, line: bytes) -> None:
        if self._closing:
            return  # a caller that left is no fault of anybody's
        if self._stalled_at is not None and self._is_stuck(self._stalled_at):
            self._transport.abort()
            return
        self._transport.write(line)

    def _close(self) -> None:
        """Close once what was answered has been written."""
        self._exchange.flush()
        self._transport.close()

    def _is_stuck(self, since: float) -> bool:
        unread = self._transport.get_write_buffer_size()
        if unread > _MOST_UNREAD:
            return True
        return unread > _MAX_UNREAD and self._exchange.clock() - since > _STALL_S

    def _pause(self) -> None:
        if not self._transport.is_closing():
            self._transport.pause_reading()
