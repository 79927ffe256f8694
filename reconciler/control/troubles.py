"""Trouble made on purpose between a router and a connector that really runs: what certification asks for.

Connections to the connector pass through a relay that hands every line on until it is told to make trouble
with the next call: then the process is killed, an answer is kept back, torn into pieces, preceded by
nonsense, replaced by one that is far too long, or the connection is cut. The law of what comes of it is not
here: the dispatcher and the supervisor do not know that it was on purpose.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from enum import Enum

import orjson

from reconciler.control.dispatch import MAX_GARBAGE, Endpoint
from reconciler.control.dispatch import Instances as Inner
from reconciler.model.names import InstanceName
from reconciler.model.status import Reason

_LINE = 2**28  # bytes of the longest line that is carried
_MID_CALL_S = 0.3  # into a call, whose answer has not come by then, the process is killed
_PIECES = 20
_PAUSE_S = 0.025  # between two pieces: half a second in all
_NONSENSE = b'%%%\n{}\n[1,2]\n"text"\n{"jsonrpc":"2.0","id":987654321,"result":{}}\n'


class Trouble(Enum):
    """What is done to one call, in the words of a result."""

    KILLED = "killed in mid-call"
    SILENT = "an answer that never comes"
    GARBAGE = "nonsense before an answer"
    FLOOD = "nonsense without end"
    SLOW = "an answer in small pieces"
    OVERSIZED = "an answer that is too long"
    CUT = "its connection is cut in mid-call"
    DROPPED = "its connection is cut between calls"


class Meddler:
    """The supervisor's instances, each connection through a relay that may be told to make trouble."""

    def __init__(self, inner: Inner, kill: Callable[[InstanceName], None], longest: int) -> None:
        """``kill`` ends an instance's process at once; no answer may have as many bytes as ``longest``."""
        self._inner = inner
        self._kill = kill
        self._relays: set[_Relay] = set()
        self._name: InstanceName | None = None
        self.longest = longest
        self.armed: Trouble | None = None  # for the next call; whoever plays it takes it

    async def ready(self, name: InstanceName) -> Endpoint:
        """The running connector, behind a relay."""
        self._name = name
        return _Tapped(await self._inner.ready(name), self)

    def hold(self, name: InstanceName) -> None:
        self._inner.hold(name)

    def release(self, name: InstanceName) -> None:
        self._inner.release(name)

    def answered(self, name: InstanceName) -> None:
        self._inner.answered(name)

    def broken(self, name: InstanceName, reason: Reason | None, message: str) -> None:
        self._inner.broken(name, reason, message)

    def kill(self) -> None:
        """End the process, as a machine that runs out of memory would."""
        if self._name is not None:
            self._kill(self._name)

    async def drop(self) -> None:
        """Cut every connection, and wait until that is done."""
        relays = list(self._relays)
        for relay in relays:
            relay.cut()
        await asyncio.gather(*(one.task for one in relays if one.task), return_exceptions=True)

    def begin(self, far: socket.socket) -> socket.socket:
        """A connection that leads through a relay to ``far``."""
        near, mine = socket.socketpair()
        near.settimeout(0)
        mine.settimeout(0)
        relay = _Relay(self)
        self._relays.add(relay)
        relay.task = asyncio.get_running_loop().create_task(relay.run(mine, far))
        relay.task.add_done_callback(lambda _: self._relays.discard(relay))
        return near


def killing(pid_of: Callable[[InstanceName], int | None]) -> Callable[[InstanceName], None]:
    """Ends a process of ours by its number, at once."""

    def kill(name: InstanceName) -> None:
        pid = pid_of(name)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    return kill


class _Tapped:
    """A started connector whose connections pass through a relay."""

    def __init__(self, inner: Endpoint, meddler: Meddler) -> None:
        self.inbox, self.outbox = inner.inbox, inner.outbox
        self.ended, self.echoes = inner.ended, inner.echoes
        self._inner = inner
        self._meddler = meddler

    def connect(self) -> socket.socket:
        return self._meddler.begin(self._inner.connect())


class _Relay:
    """One connection, carried line by line."""

    def __init__(self, meddler: Meddler) -> None:
        self._meddler = meddler
        self._playing: Trouble | None = None
        self._call = 0  # the number of the call that trouble is made with
        self.task: asyncio.Task[None] | None = None

    def cut(self) -> None:
        if self.task is not None:
            self.task.cancel()

    async def run(self, near: socket.socket, far: socket.socket) -> None:
        """Carry both ways until either ends, or it is cut."""
        above = await asyncio.open_unix_connection(sock=near, limit=_LINE)
        below = await asyncio.open_unix_connection(sock=far, limit=_LINE)
        ways = [
            asyncio.ensure_future(one)
            for one in (self._down(above[0], below[1]), self._up(below[0], above[1]))
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for _, writer in (above, below):
                writer.transport.abort()

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """From the router to the connector."""
        while line := await reader.readline():
            writer.write(line)
            await writer.drain()
            if self._meddler.armed is not None and b'"tools/call"' in line:
                self._playing, self._meddler.armed = self._meddler.armed, None
                self._call = int(orjson.loads(line)["id"])
                if self._playing is Trouble.CUT:
                    return
                if self._playing is Trouble.KILLED:
                    asyncio.get_running_loop().call_later(_MID_CALL_S, self._kill)

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """From the connector to the router."""
        while line := await reader.readline():
            if self._playing in (Trouble.SILENT, Trouble.CUT):  # an answer may be here before the cut
                continue
            if self._playing is not None and _id(line) == self._call:
                await self._play(line, writer)
            else:
                writer.write(line)
            await writer.drain()

    async def _play(self, line: bytes, writer: asyncio.StreamWriter) -> None:
        """Make the trouble with the answer that it is for."""
        playing = self._playing
        match playing:
            case Trouble.KILLED:
                self._kill()
                return
            case Trouble.GARBAGE:
                writer.write(_NONSENSE + line)
            case Trouble.FLOOD:
                writer.write(b"%%%\n" * MAX_GARBAGE)
            case Trouble.SLOW:
                size = max(1, len(line) // _PIECES)
                for start in range(0, len(line), size):
                    writer.write(line[start : start + size])
                    await asyncio.sleep(_PAUSE_S)
            case Trouble.OVERSIZED:
                head = b'{"jsonrpc":"2.0","id":%d,"result":{"structuredContent":{"text":"' % self._call
                writer.write(head + b"x" * self._meddler.longest + b'"}}}\n')
            case _:
                writer.write(line)
        self._playing = None

    def _kill(self) -> None:
        if self._playing is Trouble.KILLED:
            self._playing = Trouble.SILENT  # what was on its way does not arrive
            self._meddler.kill()


def _id(line: bytes) -> object:
    """The number of a line; None where it has none."""
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return found.get("id") if isinstance(found, dict) and "method" not in found else None
