"""Sends one sealed request through the gate, once, and gives the reply whole or as it comes.

An instance that is no process (a dialect) has its place at the gate as others do; the controller itself is
the client there. The request names its permit, the gate tells the controller what it understood, and goes on
when that is what the permit is for: so the bytes that leave are those decided on. Nothing is retried and no
redirect is followed.

How it ends is told apart by what is proved. ``NotSent``: no byte of it left this machine: the gate says so by
its cause, or nobody had used the permit when it was taken back. ``MaybeSent``: everything else without a
reply.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import h11

from reconciler.egress.gate import REFUSED_HEADER
from reconciler.egress.permits import Permit, Permits
from reconciler.model.recipes import Recipe
from reconciler.model.sealed import Reply, Sealed
from reconciler.runtime import gating, sockets
from reconciler.runtime.gating import Gated, GateFor

_CHUNK = 65_536
_MAX_HEAD_BYTES = 65_536
# What the gate says before a byte of the request has left. Whatever else it says, it may have gone out.
_PROOFS = frozenset(
    ("request", "unlisted", "address", "busy", "unresolved", "unreachable", "slow", "call", "denied", "tls")
)


class NotSent(Exception):  # noqa: N818 - the law's own word
    """Not one byte of the request left: it proves that nothing happened. ``cause`` is the gate's word, or
    ``gate``, ``timeout``, ``cut``; ``why`` is for operators.
    """

    def __init__(self, cause: str, why: str = "") -> None:
        super().__init__(f"{cause}: {why}" if why else cause)
        self.cause, self.why = cause, why


class MaybeSent(Exception):  # noqa: N818 - the law's own word
    """The request may have arrived, wholly or in part, and its reply is not known. ``cause`` is the gate's
    word, or ``timeout``, ``cut``, ``too-large``; ``why`` is for operators.
    """

    def __init__(self, cause: str, why: str = "") -> None:
        super().__init__(f"{cause}: {why}" if why else cause)
        self.cause, self.why = cause, why


@dataclass(frozen=True, slots=True)
class Coming:
    """A reply whose body is still coming. ``body`` raises MaybeSent where it breaks off."""

    status: int
    headers: Mapping[str, str]
    body: AsyncIterator[bytes]


class Way:
    """The way out of one instance. ``close`` ends its place at the gate; what goes on breaks off."""

    def __init__(self, recipe: Recipe, gated: Gated, serve: GateFor, *, permits: Permits, run: Path) -> None:
        """Open it: a socket below ``run`` that only we can reach. OSError where that, or the gate, fails."""
        self.instance = recipe.name
        self._permits = permits
        self._path = Path(tempfile.mkdtemp(prefix="w-", dir=run))
        self._folder = sockets.folder(self._path)
        try:
            self._end: Callable[[], None] = serve(recipe, gating.listen(self._folder, os.geteuid()), gated)
        except BaseException:
            self._end = lambda: None
            self.close()
            raise

    def close(self) -> None:
        """Nothing is sent from here any more."""
        self._end()
        self._end = lambda: None
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1
        shutil.rmtree(self._path, ignore_errors=True)

    async def send(self, sealed: Sealed, permit: Permit, *, timeout_s: float) -> Reply:
        """Send it once and read the reply whole; raises NotSent or MaybeSent, whatever goes wrong. What is
        cancelled may have been sent.
        """
        began_s = asyncio.get_running_loop().time()
        most = sealed.stream.max_bytes if sealed.stream is not None else sealed.max_response
        async with self.opened(sealed, permit, timeout_s=timeout_s) as coming:
            parts, size = [], 0
            async for part in coming.body:
                size += len(part)
                if size > most:
                    raise MaybeSent("too-large")
                parts.append(part)
            elapsed_ms = round((asyncio.get_running_loop().time() - began_s) * 1000)
            return Reply(coming.status, coming.headers, b"".join(parts), elapsed_ms)

    @asynccontextmanager
    async def opened(self, sealed: Sealed, permit: Permit, *, timeout_s: float) -> AsyncIterator[Coming]:
        """Send it once and give the reply as it comes. The time is for all of it, the body included."""
        timeout = asyncio.timeout(timeout_s)
        exchange: _Exchange | None = None
        try:
            async with timeout:
                exchange = _Exchange(await self._connected())
                yield await exchange.begun(sealed, permit.id)
        except (OSError, h11.ProtocolError) as fault:  # a TimeoutError is one
            if isinstance(fault, TimeoutError) and not timeout.expired():
                raise
            unused = self._permits.take_back(permit.id)
            cause = "timeout" if timeout.expired() else "cut"
            raise (NotSent if unused else MaybeSent)(cause) from None
        finally:
            self._permits.take_back(permit.id)
            if exchange is not None:
                exchange.close()

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            connection = sockets.connect(self._folder, gating.NAME)
        except BlockingIOError:
            raise NotSent("busy") from None
        except OSError:
            raise NotSent("gate") from None
        return await asyncio.open_unix_connection(sock=connection, limit=_CHUNK)


class _Exchange:
    """One request and its reply over one connection to the gate."""

    def __init__(self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self._reader, self._writer = streams
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
        self._sending: asyncio.Task[None] | None = None

    def close(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
        self._writer.transport.abort()

    async def begun(self, sealed: Sealed, permit: str) -> Coming:
        """The reply's head. The body is sent beside: the gate may refuse before it has read it all."""
        self._sending = asyncio.create_task(self._send(sealed, permit))
        self._sending.add_done_callback(self._sent)
        event = await self._next()
        if not isinstance(event, h11.Response):
            raise h11.RemoteProtocolError("no answer")
        headers: dict[str, str] = {}
        for name, value in event.headers:
            word, text = name.decode(), value.decode("latin-1")
            headers[word] = text
        if cause := headers.get(REFUSED_HEADER):
            why = await self._words()
            raise (NotSent if cause in _PROOFS else MaybeSent)(cause, why)
        return Coming(event.status_code, headers, self._body())

    async def _send(self, sealed: Sealed, permit: str) -> None:
        authority = sealed.origin.partition("://")[2]
        head = h11.Request(
            method=sealed.method,
            target=sealed.origin + sealed.target,
            headers=[
                ("Host", authority),
                *sealed.headers,
                ("x-handler-call", permit),
                ("Content-Length", str(len(sealed.body))),
                ("Connection", "close"),
            ],
        )
        self._writer.write(self._http.send(head) or b"")
        with suppress(ConnectionError):  # refused before it was all said: the answer says why
            for at in range(0, len(sealed.body), _CHUNK):
                self._writer.write(self._http.send(h11.Data(data=sealed.body[at : at + _CHUNK])) or b"")
                await self._writer.drain()
            self._http.send(h11.EndOfMessage())

    def _sent(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:  # told to whoever waits for the reply
            self._writer.transport.abort()

    async def _next(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._sending is not None and self._sending.done():
                self._sending.result()
            self._http.receive_data(await self._reader.read(_CHUNK))
        return event

    async def _body(self) -> AsyncIterator[bytes]:
        try:
            while not isinstance(event := await self._next(), h11.EndOfMessage):
                if not isinstance(event, h11.Data):
                    raise MaybeSent("cut")
                yield bytes(event.data)
        except (ConnectionError, h11.ProtocolError):
            raise MaybeSent("cut") from None

    async def _words(self) -> str:
        text = b""
        with suppress(MaybeSent):
            async for part in self._body():
                text += part
                if len(text) > _CHUNK:
                    break
        return text[:400].decode("ascii", "replace").strip()
