"""The proxy of one sandbox: it takes connections from a socket inside, and lets through what is listed.

For each connection: one CONNECT request; its host and port on the list; its name resolved here, once; every
address public, or listed itself; connected to one of these addresses; and then, for a name, a TLS
greeting for that name. From there on bytes go both ways unseen. An address that is listed as such carries
whatever it likes, plain http included: there is no name to hold it to.

Everything is bounded: connections, the request and the greeting in bytes and in time as a whole (so a slow
drip ends), the silence and the bytes of a tunnel, and what is held for a slow reader. Whoever asks again asks
on a new connection. Nothing is retried, no redirect is seen, and no variable of the surroundings is read.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from reconciler.egress import connect, hello
from reconciler.egress.decisions import Cause, Decision, Verdict
from reconciler.egress.names import Names, Resolve, resolved
from reconciler.egress.reaching import CHUNK, Dial, Reach, Streams, Unreached, dialled
from reconciler.egress.visitors import Visitors
from reconciler.model.hosts import Allow, Target

_LOG = logging.getLogger("handler.egress")
_REASONS = {
    400: "Bad Request",
    403: "Forbidden",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    502: "Bad Gateway",
    503: "Service Unavailable",
}
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_STOPPED: Mapping[Cause, str] = {
    "idle": "nothing went through the tunnel for too long",
    "bytes": "the tunnel carried more than one may",
}
_FAREWELL_S = 2.0  # for the words of a refusal to go out, and no longer

__all__ = ["Caps", "Proxy", "Streams", "dialled"]


@dataclass(frozen=True, slots=True)
class Caps:
    """How much one sandbox may use."""

    connections: int = 64
    ask_s: float = 10.0  # for the request, and again for the greeting
    dial_s: float = 15.0  # for resolving and connecting
    idle_s: float = 600.0  # as long as models think before their first word
    tunnel_bytes: int = 8 * 2**30  # both ways together
    addresses: int = 4  # of one name that are tried


class _Over(Exception):  # noqa: N818 - how one connection ends, caught where it began
    """The connection ends here: with an answer where no tunnel stands yet."""

    def __init__(self, decision: Decision, status: int = 0) -> None:
        super().__init__(decision.why)
        self.decision, self.status = decision, status


@dataclass(slots=True, eq=False)
class _Tunnel:
    """One connection as it goes on."""

    began: float
    target: Target | None = None
    address: str = ""
    up_bytes: int = 0
    down_bytes: int = 0
    allowed: bool = False
    is_cut: bool = False
    near: asyncio.StreamWriter | None = None
    far: asyncio.StreamWriter | None = None

    def decided(self, verdict: Verdict, cause: Cause, why: str = "") -> Decision:
        after_s = asyncio.get_running_loop().time() - self.began
        return Decision(
            verdict, cause, why, self.target, self.address, self.up_bytes, self.down_bytes, after_s
        )

    def over(self, verdict: Verdict, cause: Cause, why: str, status: int = 0) -> _Over:
        return _Over(self.decided(verdict, cause, why), status)


@dataclass(slots=True, eq=False)
class Proxy:
    """Serves one sandbox, from ``start`` until ``close``. ``record`` hears every decision, and must not
    raise. ``resolve`` and ``dial`` reach the network.
    """

    allow: Allow
    record: Callable[[Decision], None]
    resolve: Resolve = resolved
    dial: Dial = dialled
    caps: Caps = field(default_factory=Caps)
    may: Callable[[Target], Awaitable[str]] | None = None  # why a listed target is not reached now, or ""
    _names: Names = field(default_factory=Names)
    _tunnels: set[_Tunnel] = field(default_factory=set)
    _visitors: Visitors = field(init=False)

    def __post_init__(self) -> None:
        self._visitors = Visitors(
            self._serve, lambda fault: _LOG.error("a connection of a sandbox broke off", exc_info=fault)
        )

    async def start(self, listener: socket.socket) -> None:
        """Serve what comes through a listening socket, which is the proxy's from now on."""
        await self._visitors.start(asyncio.start_server, listener)

    async def close(self) -> None:
        """Take nothing more and end every tunnel; returns when they have ended."""
        self._names.close()
        await self._visitors.close()
        await asyncio.sleep(0)  # the loop closes their sockets in its next turn

    def cut(self, why: Callable[[Target], str]) -> None:
        """Break off the tunnels that may not be there any more, by the words why; what is on its way is lost.
        A sandbox that is handed other data would send it through what was opened for less.
        """
        for tunnel in list(self._tunnels):
            if tunnel.target is None or not why(tunnel.target):
                continue
            tunnel.is_cut = True
            for end in (tunnel.near, tunnel.far):
                if end is not None:
                    end.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tunnel = _Tunnel(asyncio.get_running_loop().time(), near=writer)
        try:
            await self._tunnelled(tunnel, reader, writer)
        except _Over as over:
            self.record(over.decision)
            if over.status:
                await _answer(reader, writer, over)
        except OSError:
            self.record(tunnel.decided("failed", "request", "the connection broke off before it was decided"))
        except asyncio.CancelledError:
            if tunnel.allowed:
                self.record(tunnel.decided("allowed", "ended"))
            raise
        finally:
            self._tunnels.discard(tunnel)
            for end in (writer, tunnel.far):
                if end is not None:
                    _end(end)

    async def _tunnelled(
        self, tunnel: _Tunnel, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if len(self._visitors) > self.caps.connections:
            most = self.caps.connections
            raise tunnel.over("refused", "busy", f"more than {most} connections are open", 503)
        target, first = await self._asked(tunnel, reader)
        far_reader, tunnel.far = await self._connected(tunnel, target)
        if not first:
            writer.write(_ESTABLISHED)
        if target.address is None:
            first = await self._greeted(tunnel, target, reader)
        if tunnel.is_cut:
            raise tunnel.over("refused", "denied", "it may not be there any more")
        if first:
            tunnel.up_bytes = len(first)
            tunnel.far.write(first)
        tunnel.allowed = True
        self.record(tunnel.decided("allowed", "listed"))
        await self._relay(tunnel, (reader, tunnel.far), (far_reader, writer))
        self.record(tunnel.decided("allowed", "ended"))

    # before a tunnel stands

    async def _asked(self, tunnel: _Tunnel, reader: asyncio.StreamReader) -> tuple[Target, bytes]:
        """The target of the one request, when it is on the list, and what of a plain one goes on to it."""
        data = b""
        try:
            async with asyncio.timeout(self.caps.ask_s):
                while (found := connect.read(data)) is None:
                    data += await _more(reader, connect.MAX_HEAD_BYTES)
        except TimeoutError:
            raise tunnel.over("refused", "slow", "the request did not come in time", 408) from None
        except EOFError:
            raise tunnel.over("refused", "request", "the connection ended before its request") from None
        if isinstance(found, connect.Refused):
            raise tunnel.over("refused", "request", found.why, found.status)
        tunnel.target = found.target
        if len(data) > found.used and not found.head:
            raise tunnel.over("refused", "request", "more came with the request than the request", 400)
        if found.target not in self.allow:
            why = f"{found.target} is not on the list of what may be reached"
            raise tunnel.over("refused", "unlisted", why, 403)
        self._tunnels.add(tunnel)
        if self.may is not None and (why := await self.may(found.target)):
            raise tunnel.over("refused", "denied", why, 403)
        return found.target, found.head and found.head + data[found.used :]

    async def _connected(self, tunnel: _Tunnel, target: Target) -> Streams:
        """A connection to one of the target's addresses, all of which are public or listed themselves."""
        caps = self.caps
        ways = Reach(self.allow, self.resolve, self.dial, caps.dial_s, caps.addresses, self._names)
        try:
            streams, tunnel.address = await ways.connected(target)
        except Unreached as fault:
            tunnel.address = fault.address
            raise tunnel.over(fault.verdict, fault.cause, fault.why, fault.status) from None
        return streams

    async def _greeted(self, tunnel: _Tunnel, target: Target, reader: asyncio.StreamReader) -> bytes:
        """What a tunnel begins with, when that is a TLS greeting for the target's name."""
        data = b""
        try:
            async with asyncio.timeout(self.caps.ask_s):
                while (found := hello.read(data)) is None:
                    data += await _more(reader, hello.MAX_HELLO_BYTES)
        except TimeoutError:
            raise tunnel.over("refused", "slow", "no TLS greeting came in time") from None
        except EOFError:
            raise tunnel.over("refused", "name", "the tunnel ended before its TLS greeting") from None
        if isinstance(found, hello.Refused):
            raise tunnel.over("refused", "name", f"the tunnel's greeting is not taken: {found.why}")
        if found.name != target.host:
            why = "another server than was connected to" if found.name else "no server by name"
            raise tunnel.over("refused", "name", f"the TLS greeting asks for {why}")
        return data

    # while it stands

    async def _relay(self, tunnel: _Tunnel, up: Streams, down: Streams) -> None:
        """Carry bytes both ways until both ends have ended, or one broke off; raises ``_Over`` at a bound."""
        loop = asyncio.get_running_loop()
        idle_s, most = self.caps.idle_s, self.caps.tunnel_bytes
        stopped: Cause = "idle"

        def stop(cause: Cause) -> None:
            nonlocal stopped
            if stopped == "idle":  # a clock that runs out takes no other time
                stopped = cause
                clock.reschedule(loop.time())

        def carried(up_bytes: int, down_bytes: int) -> None:
            tunnel.up_bytes += up_bytes
            tunnel.down_bytes += down_bytes
            if tunnel.up_bytes + tunnel.down_bytes > most:
                stop("bytes")
            elif stopped == "idle" and not clock.expired():
                clock.reschedule(loop.time() + idle_s)

        try:
            async with asyncio.timeout(idle_s) as clock, asyncio.TaskGroup() as both:
                both.create_task(_carry(up, lambda size: carried(size, 0), lambda: stop("ended")))
                both.create_task(_carry(down, lambda size: carried(0, size), lambda: stop("ended")))
        except TimeoutError:
            if stopped != "ended":
                raise tunnel.over("allowed", stopped, _STOPPED[stopped]) from None


async def _carry(ends: Streams, carried: Callable[[int], None], broke: Callable[[], None]) -> None:
    source, sink = ends
    sink.transport.set_write_buffer_limits(high=0)  # so that draining means: it is gone
    try:
        while data := await source.read(CHUNK):
            sink.write(data)
            carried(len(data))
            await sink.drain()
        if sink.is_closing():  # it was cut
            broke()
        elif sink.can_write_eof():
            sink.write_eof()
    except OSError:
        broke()


def _end(writer: asyncio.StreamWriter) -> None:
    """Close an end now: what it would not take until now, it does not get."""
    if writer.transport.get_write_buffer_size():
        writer.transport.abort()
    else:
        writer.close()


async def _more(reader: asyncio.StreamReader, most: int) -> bytes:
    data = await reader.read(most)
    if not data:
        raise EOFError
    return data


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, over: _Over) -> None:
    """Say why, and read what else was sent, else the kernel may take the words back (RFC 9112, 9.6)."""
    body = f"{over.decision.why}\n".encode("ascii", "replace")
    head = (
        f"HTTP/1.1 {over.status} {_REASONS[over.status]}\r\nContent-Type: text/plain\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_FAREWELL_S):
            writer.write(head.encode("ascii") + body)
            if over.decision.cause == "busy":
                return
            writer.write_eof()
            left = connect.MAX_HEAD_BYTES * 8
            while left > 0 and (data := await reader.read(CHUNK)):
                left -= len(data)
