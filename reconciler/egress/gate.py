"""The gate of one connector: plain HTTP from inside, TLS to what is listed, secrets added on the way.

For each connection: one request, read whole (``asked``); its origin on the list; the controller asked whether
this may go, by its digest and size; the name resolved once and connected to where it was checked; TLS for
that very name; the request written anew with the headers of the secret slots; and the answer handed back with
few of its headers. Nothing is retried, no redirect is followed, no variable of the surroundings is read.

An answer that holds an added secret is not handed on, in none of the forms that are looked for; for that, no
encoding is asked for, and an encoded answer is refused. Everything is bounded: connections, heads, bodies,
silence.
"""

import asyncio
import hashlib
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import h11

from reconciler.egress import asked
from reconciler.egress.asked import MAX_HEAD_BYTES, Outgoing, Refused
from reconciler.egress.decisions import Cause, Decision, Verdict
from reconciler.egress.names import Names, Resolve, resolved
from reconciler.egress.reaching import CHUNK, Dial, Reach, Streams, Unreached, dialled
from reconciler.egress.visitors import Visitors
from reconciler.model.hosts import Allow
from reconciler.model.secrets import Filled
from reconciler.runtime.redaction import Redactor

REFUSED_HEADER = "x-handler-refused"  # in an answer of the gate's own: the cause
_LOG = logging.getLogger("handler.gate")
_FAREWELL_S = 2.0
_LEFT = "the connector left before the end of its answer"
_STREAMS = (b"text/event-stream", b"application/x-ndjson")
_VERSIONS = (b"1.0", b"1.1")
_MAX_INFORMED = 8  # answers of 1xx before the one that counts


@dataclass(frozen=True, slots=True)
class Caps:
    """How much one connector may use."""

    connections: int = 32
    ask_s: float = 60.0  # for the whole request, so that a slow drip ends
    dial_s: float = 15.0  # for resolving and connecting, and again for TLS
    idle_s: float = 600.0  # as long as models think before their first word
    held_bytes: int = 128 * 2**20  # of all requests together
    body_bytes: int = 64 * 2**20  # of one request
    answer_bytes: int = 1 * 2**30
    whole_bytes: int = 65_536  # of an answer that is read before its head is handed on


@dataclass(frozen=True, slots=True)
class Ask:
    """What the controller is asked before anything is sent: whose, whereto, and what, without its text."""

    call: str
    origin: str
    method: str
    path: str  # a digest under the controller's key
    body: str  # sha256 of the body, in hex
    size: int  # of the body, in bytes
    wire: str = ""  # names this very request, secrets and framing apart (``model.transmission``)


@dataclass(frozen=True, slots=True)
class Verdicted:
    """What the controller says to it."""

    go: bool
    cause: Cause = "denied"
    why: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """One request, for the record: the decision, and what is peculiar to the gate."""

    decision: Decision
    call: str = ""
    origin: str = ""
    method: str = ""
    path: str = ""
    status: int = 0  # of the origin's answer; 0 without one

    def as_json(self) -> dict[str, Any]:
        """The passage as a journal keeps it."""
        more = ("call", "origin", "method", "path", "status")
        return {**self.decision.as_json(), **{name: getattr(self, name) for name in more}}


@dataclass(slots=True, repr=False)
class Slots:
    """The secrets of one connector: their headers, and what finds them in an answer."""

    headers: Mapping[str, bytes] = field(default_factory=dict)
    redactor: Redactor | None = None

    @classmethod
    def of(cls, filled: Sequence[Filled]) -> "Slots":
        """The headers of filled slots: ``x-api-key``, or ``Authorization: Bearer {}``."""
        headers = {}
        for one in filled:
            name, _, form = (one.use.header or "").partition(":")
            before, _, after = (form.strip() or "{}").partition("{}")
            headers[name] = before.encode() + one.value.reveal() + after.encode()
        return cls(headers, Redactor(filled) if filled else None)

    def finds(self, text: bytes) -> bool:
        """Whether a secret stands in a text."""
        return self.redactor is not None and self.redactor.finds(text)

    def held(self, text: bytes) -> int:
        """How many bytes at a text's end may be the beginning of a secret."""
        return self.redactor.held(text) if self.redactor is not None else 0


class _Over(Exception):  # noqa: N818 - how one request ends, caught where it began
    def __init__(
        self, verdict: Verdict, cause: Cause, why: str, status: int = 0, *, lingers: bool = True
    ) -> None:
        super().__init__(why)
        self.verdict, self.cause, self.why, self.status = verdict, cause, why, status
        self.lingers = lingers  # what else the connector sends is read, so that it hears why


@dataclass(slots=True)
class _Turn:
    """One request as it goes on."""

    began: float
    near: h11.Connection
    outgoing: Outgoing | None = None
    body: bytes = b""
    held: int = 0
    address: str = ""
    status: int = 0
    up_bytes: int = 0
    down_bytes: int = 0
    head: bytes = b""  # of the answer, until its first bytes go to the connector
    begun: bool = False  # the head of an answer went to the connector
    far: asyncio.StreamWriter | None = None


@dataclass(slots=True)
class Gate:
    """Serves one connector, from ``start`` until ``close``. ``may`` decides, ``record`` hears what became of
    each request and must not raise; ``key`` marks paths. ``resolve`` and ``dial`` reach the network.
    """

    allow: Allow
    slots: Slots
    may: Callable[[Ask], Awaitable[Verdicted]]
    record: Callable[[Passage], None]
    key: bytes
    trust: ssl.SSLContext
    resolve: Resolve = resolved
    dial: Dial = dialled
    caps: Caps = field(default_factory=Caps)
    _names: Names = field(default_factory=Names)
    _visitors: Visitors = field(init=False)
    _held: int = 0

    def __post_init__(self) -> None:
        self._visitors = Visitors(
            self._serve,
            lambda fault: _LOG.error("a request broke off at its end: %s", type(fault).__name__),
        )

    async def start(self, listener: socket.socket) -> None:
        """Serve what comes through a listening Unix socket, which is the gate's from now on."""
        await self._visitors.start(asyncio.start_unix_server, listener)

    async def close(self) -> None:
        """Take nothing more and end what goes on."""
        self._names.close()
        await self._visitors.close()
        self.slots = Slots()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        now = asyncio.get_running_loop().time()
        turn = _Turn(now, h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES))
        try:
            await self._passed(turn, reader, writer)
            self._tell(turn, "allowed", "ended")
        except _Over as over:
            self._tell(turn, over.verdict, over.cause, over.why)
            await _refuse(turn, over, reader, writer)
        except OSError:
            self._tell(turn, "failed", "left", "the connector left before its answer came")
        except Exception as fault:  # noqa: BLE001 - the connector is answered, and a line is written
            # The words of a fault may hold what was sent: its class alone is told.
            _LOG.error("a request broke off: %s", type(fault).__name__)
            failed = _Over("failed", "fault", f"the gate failed: {type(fault).__name__}", 500)
            self._tell(turn, failed.verdict, failed.cause, failed.why)
            await _refuse(turn, failed, reader, writer)
        finally:
            self._held -= turn.held
            writer.close()
            if turn.far is not None:
                turn.far.transport.abort()

    async def _passed(self, turn: _Turn, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._visitors) > self.caps.connections:
            most = self.caps.connections
            raise _Over("refused", "busy", f"more than {most} connections are open", 503, lingers=False)
        outgoing = await self._asked(turn, reader)
        if outgoing.target not in self.allow:
            why = f"{outgoing.target} is not on the list of what may be reached"
            raise _Over("refused", "unlisted", why, 403)
        digest = hashlib.sha256(turn.body).hexdigest()
        mark = outgoing.path_mark(self.key)
        wire = outgoing.wire_digest((digest, len(turn.body)))
        ask = Ask(outgoing.call, outgoing.origin, outgoing.method, mark, digest, len(turn.body), wire)
        said = await self.may(ask)
        if not said.go:
            raise _Over("refused", said.cause, said.why, 403)
        sending = asyncio.ensure_future(self._sent(turn, outgoing, writer))
        leaving = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                verdict: Verdict = "allowed" if turn.begun else "failed"
                raise _Over(verdict, "left", _LEFT)
            sending.result()
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    # what the connector asks

    async def _asked(self, turn: _Turn, reader: asyncio.StreamReader) -> Outgoing:
        """The one request, whole."""
        outgoing: Outgoing | None = None
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(self.caps.ask_s):
                while True:
                    event = turn.near.next_event()
                    if event is h11.NEED_DATA:
                        turn.near.receive_data(await reader.read(CHUNK))
                    elif isinstance(event, h11.Request):
                        if event.http_version not in _VERSIONS:
                            raise Refused(505, "the gate speaks HTTP/1.1")
                        turn.outgoing = outgoing = asked.understood(event.method, event.target, event.headers)
                    elif isinstance(event, h11.Data):
                        self._hold(turn, len(event.data))
                        parts.append(bytes(event.data))
                    elif isinstance(event, h11.EndOfMessage) and outgoing is not None:
                        turn.body = b"".join(parts)
                        return outgoing
                    else:  # it was closed without a request
                        raise _Over("refused", "request", "the connection ended before its request", 400)
        except TimeoutError:
            raise _Over("refused", "slow", "the request did not come in time", 408) from None
        except Refused as fault:
            raise _Over("refused", "request", fault.why, fault.status) from None
        except h11.RemoteProtocolError as fault:
            status = fault.error_status_hint
            raise _Over("refused", "request", "the request is no plain HTTP/1.1", status) from None

    def _hold(self, turn: _Turn, size: int) -> None:
        turn.held += size
        self._held += size
        if turn.held > self.caps.body_bytes:
            raise _Over("refused", "request", "the request is larger than the gate takes", 413)
        if self._held > self.caps.held_bytes:
            raise _Over("refused", "busy", "too much is on its way at once", 503)

    # what is sent, and what comes back

    async def _sent(self, turn: _Turn, outgoing: Outgoing, writer: asyncio.StreamWriter) -> None:
        reader, turn.far = await self._connected(turn, outgoing)
        far = h11.Connection(h11.CLIENT, max_incomplete_event_size=2 * MAX_HEAD_BYTES)
        has_body = bool(turn.body) or outgoing.method in ("POST", "PUT", "PATCH")
        headers = outgoing.sent_headers(self.slots.headers, len(turn.body), has_body=has_body)
        head = far.send(h11.Request(method=outgoing.method, target=outgoing.path, headers=headers))
        tail = far.send(h11.Data(data=turn.body)) if turn.body else b""
        far.send(h11.EndOfMessage())
        try:
            turn.far.write((head or b"") + (tail or b""))
            turn.up_bytes = len(turn.body)
            await self._answered(turn, far, reader, writer)
        except TimeoutError:
            raise _Over("failed", "idle", f"{outgoing.target} said nothing for too long", 504) from None
        except h11.RemoteProtocolError:
            raise _Over("failed", "answer", f"what {outgoing.target} answers is no HTTP", 502) from None
        except ConnectionError:
            raise _Over("failed", "answer", f"{outgoing.target} broke its answer off", 502) from None

    async def _connected(self, turn: _Turn, outgoing: Outgoing) -> Streams:
        ways = Reach(self.allow, self.resolve, self.dial, self.caps.dial_s, names=self._names)
        target = outgoing.target
        try:
            (reader, writer), turn.address = await ways.connected(target)
        except Unreached as fault:
            turn.address = fault.address
            raise _Over(fault.verdict, fault.cause, fault.why, fault.status) from None
        turn.far = writer
        if outgoing.scheme == "https":
            try:
                await writer.start_tls(
                    self.trust, server_hostname=target.host, ssl_handshake_timeout=self.caps.dial_s
                )
            except (OSError, ValueError) as fault:  # ssl.SSLError is an OSError
                words = _tls_words(fault)
                raise _Over("failed", "tls", f"{target} is not who it should be: {words}", 502) from None
        return reader, writer

    async def _answered(
        self, turn: _Turn, far: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        response = await self._head(far, reader)
        turn.status = response.status_code
        kinds = dict(response.headers)
        encodings = {value.lower() for name, value in response.headers if name == b"content-encoding"}
        if encodings - {b"identity"}:
            raise _Over("refused", "answer", "the answer is encoded though no encoding was asked for", 502)
        passed = asked.narrowed(response.headers)
        if any(self.slots.finds(part) for header in response.headers for part in header):
            raise self._echo()
        first, is_whole = b"", False
        if not kinds.get(b"content-type", b"").lower().startswith(_STREAMS):
            first, is_whole = await self._first(turn, far, reader)
        turn.head = _head_of(turn, passed, len(first) if is_whole else None)
        await self._relayed(turn, (far, reader), writer, first, is_whole=is_whole)

    async def _head(self, far: h11.Connection, reader: asyncio.StreamReader) -> h11.Response:
        for _ in range(_MAX_INFORMED):
            event = await self._next(far, reader)
            if isinstance(event, h11.Response):
                if asked.size_of(event.headers) > 2 * MAX_HEAD_BYTES:
                    break
                return event
            if not isinstance(event, h11.InformationalResponse) or event.status_code == 101:
                break
        raise h11.RemoteProtocolError("no answer")

    async def _next(self, far: h11.Connection, reader: asyncio.StreamReader) -> Any:
        async with asyncio.timeout(self.caps.idle_s):
            while (event := far.next_event()) is h11.NEED_DATA:
                far.receive_data(await reader.read(CHUNK))
        return event

    async def _first(
        self, turn: _Turn, far: h11.Connection, reader: asyncio.StreamReader
    ) -> tuple[bytes, bool]:
        """What an answer begins with, and whether that is all: so much is looked through before its head."""
        body = b""
        while len(body) < self.caps.whole_bytes:
            event = await self._next(far, reader)
            if not isinstance(event, h11.Data):
                if self.slots.finds(body):
                    raise self._echo()
                return body, True
            body += event.data
        if self.slots.finds(body):
            raise self._echo()
        return body, False

    async def _relayed(
        self,
        turn: _Turn,
        far: tuple[h11.Connection, asyncio.StreamReader],
        writer: asyncio.StreamWriter,
        text: bytes,
        *,
        is_whole: bool,
    ) -> None:
        """Hand on the head and the body; the end of what came waits where a secret might begin in it."""
        writer.transport.set_write_buffer_limits(high=0)  # so that draining means: it is gone
        while not is_whole:
            event = await self._next(*far)
            if not isinstance(event, h11.Data):
                break
            text += event.data
            if self.slots.finds(text):
                raise self._echo()
            held = self.slots.held(text)
            await self._hand_on(turn, writer, text[: len(text) - held])
            text = text[len(text) - held :]
        await self._hand_on(turn, writer, text)
        await self._written(writer, turn.near.send(h11.EndOfMessage()) or b"")

    async def _hand_on(self, turn: _Turn, writer: asyncio.StreamWriter, text: bytes) -> None:
        head, turn.head = turn.head, b""
        turn.begun = True
        turn.down_bytes += len(text)
        if turn.down_bytes > self.caps.answer_bytes:
            raise _Over("allowed", "bytes", "the answer is larger than the gate hands on", 502)
        data = turn.near.send(h11.Data(data=text)) if text else b""
        if head or data:
            await self._written(writer, head + (data or b""))

    async def _written(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        """Give bytes to the connector, which may have left: that is no fault of the origin's."""
        try:
            writer.write(data)
            async with asyncio.timeout(self.caps.idle_s):
                await writer.drain()
        except ConnectionError:
            raise _Over("allowed", "left", _LEFT) from None

    def _echo(self) -> _Over:
        return _Over("refused", "echo", "the answer held a secret that the gate had added", 502)

    def _tell(self, turn: _Turn, verdict: Verdict, cause: Cause, why: str = "") -> None:
        after_s = asyncio.get_running_loop().time() - turn.began
        asked_for = turn.outgoing
        sizes = (turn.up_bytes, turn.down_bytes, after_s)
        target = asked_for.target if asked_for else None
        decision = Decision(verdict, cause, why, target, turn.address, *sizes)
        if asked_for is None:
            self.record(Passage(decision))
        else:
            about = (asked_for.call, asked_for.origin, asked_for.method, asked_for.path_mark(self.key))
            self.record(Passage(decision, *about, status=turn.status))


def _head_of(turn: _Turn, passed: list[tuple[bytes, bytes]], size: int | None) -> bytes:
    """The head of the answer to the connector; in chunks where its size is not known yet."""
    is_bare = turn.status in (204, 304) or (turn.outgoing is not None and turn.outgoing.method == "HEAD")
    length = [] if size is None or is_bare else [(b"Content-Length", b"%d" % size)]
    headers = [*passed, *length, (b"Connection", b"close")]
    return turn.near.send(h11.Response(status_code=turn.status, headers=headers)) or b""


def _tls_words(fault: Exception) -> str:
    """What is wrong with TLS, by the library's own words, which hold nothing that was sent."""
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted ({fault.verify_message})"
    return f"no TLS comes about ({getattr(fault, 'reason', None) or type(fault).__name__})"


async def _refuse(
    turn: _Turn, over: _Over, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Say why, where no answer was begun; else break off, so that no half of one is taken for the whole."""
    if turn.begun or not over.status:
        writer.transport.abort()
        return
    body = f"{over.why}\n".encode("ascii", "replace")
    head = (
        f"HTTP/1.1 {over.status} Refused\r\nContent-Type: text/plain\r\n{REFUSED_HEADER}: {over.cause}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_FAREWELL_S):
            writer.write(head.encode("ascii") + body)
            if (
                not over.lingers
            ):  # there is no end to those who are too many: their descriptors are everybody's
                return
            writer.write_eof()
            left = 2**20  # what is left unread takes the words back
            while left > 0 and (data := await reader.read(CHUNK)):
                left -= len(data)
