"""The gate, met by raw sockets on both sides: what goes out, what comes back, and what never does."""

import asyncio
import base64
import json
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from reconciler.egress.gate import Ask, Caps, Gate, Passage, Slots, Verdicted
from reconciler.egress.reaching import Streams, dialled
from reconciler.model.hosts import Allow
from reconciler.model.recipes import SecretUse
from reconciler.model.secrets import Filled, Resolved
from reconciler.runtime import sockets
from tests.egress.authority import Authority

pytestmark = pytest.mark.slow

DEADLINE_S = 30
VALUE = b"sk-CANARY-77ab01/+zQ"
PUBLIC = "93.184.216.34"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
GO, CAPS = Verdicted(go=True), Caps()
JSON = b"Content-Type: application/json\r\n"
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: one\n\n"
ASK = b"GET https://api.example.com/v1 HTTP/1.1\r\nHost: api.example.com\r\n\r\n"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@dataclass
class World:
    gate: Gate
    path: str
    passages: list[Passage] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)  # what the origin got, a request each
    dialled: list[str] = field(default_factory=list)
    said: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, data: bytes = ASK, *, end: bool = False) -> bytes:
        """Everything that comes back until the connection ends, however it does."""
        reader, writer = await asyncio.open_unix_connection(self.path)
        writer.write(data)
        if end:
            writer.write_eof()
        got = b""
        async with asyncio.timeout(DEADLINE_S):
            with suppress(ConnectionError):
                while data := await reader.read(65536):
                    got += data
        writer.transport.abort()
        return got

    async def passed(self) -> Passage:
        async with asyncio.timeout(DEADLINE_S):
            while not self.passages:
                self.said.clear()
                await self.said.wait()
        return self.passages[-1]

    async def refused(self, data: bytes, status: int, cause: str, why: str = "") -> None:
        """A request that ends so, of which the origin hears nothing."""
        self.passages.clear()
        answer = await self.ask(data)
        assert answer.startswith(b"HTTP/1.1 %d " % status), answer
        assert f"x-handler-refused: {cause}\r\n".encode() in answer, answer
        assert why.encode() in answer, answer
        assert (await self.passed()).decision.cause == cause
        assert self.sent == []


def filled(header: str, value: bytes = VALUE, slot: str = "api_key") -> Filled:
    return Filled(SecretUse(slot, "file", (), None, "gate", header), Resolved(value, key=b"k" * 32))


def usual_origin(
    answer: bytes,
) -> Callable[[World, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def serve(made: World, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()

    return serve


async def request_of(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    size = next(
        (int(one.split(b":")[1]) for one in head.lower().split(b"\r\n") if one.startswith(b"content-length")),
        0,
    )
    return head + await reader.readexactly(size)


@asynccontextmanager
async def world(
    authority: Authority,
    origin: Any = OK,
    *,
    listed: Sequence[str] = ("api.example.com:443",),
    slots: Sequence[Filled] | None = None,
    names: Any = (PUBLIC,),
    may: Verdicted = GO,
    caps: Caps = CAPS,
    tls: str = "api.example.com",
) -> AsyncIterator[World]:
    serve = usual_origin(origin) if isinstance(origin, bytes) else origin

    async def came(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            made.sent.append(await request_of(reader))
            await serve(made, reader, writer)
        writer.close()

    secure = await asyncio.start_server(came, "127.0.0.1", 0, ssl=authority.server(tls))
    plain = await asyncio.start_server(came, "127.0.0.1", 0)
    ports = {443: secure.sockets[0].getsockname()[1]}

    async def resolve(host: str, port: int) -> Sequence[str]:
        return await names() if callable(names) else names

    async def dial(address: str, port: int) -> Streams:
        made.dialled.append(address)
        return await dialled("127.0.0.1", ports.get(port, plain.sockets[0].getsockname()[1]))

    async def decide(ask: Ask) -> Verdicted:
        made.asks.append(ask)
        return may

    def record(passage: Passage) -> None:
        made.passages.append(passage)
        made.said.set()

    with tempfile.TemporaryDirectory() as folder:
        at = sockets.folder(Path(folder))
        listener = sockets.listen(at, "gate.sock")
        listener.setblocking(False)
        held = Slots.of([filled("x-api-key")] if slots is None else slots)
        gate = Gate(Allow(listed), held, decide, record, b"k" * 32, authority.trust(), resolve, dial, caps)
        made = World(gate, f"{folder}/gate.sock")
        await gate.start(listener)
        try:
            yield made
        finally:
            await gate.close()
            secure.close()
            plain.close()


def told(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(story())  # type: ignore[arg-type]


def test_a_request_goes_out_by_tls_with_the_header_and_its_answer_comes_back(authority: Authority) -> None:
    body = b'{"page": 1}'
    asked = (
        b"POST https://api.example.com/v1/pages?x=1 HTTP/1.1\r\nHost: api.example.com\r\n"
        + JSON
        + b"x-handler-call: 7\r\nX-Api-Key: mine\r\nAccept-Encoding: gzip\r\nContent-Length: 11\r\n\r\n"
        + body
    )
    answer = (
        b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nSet-Cookie: a=b\r\nServer: x\r\n"
        b"X-RateLimit-Left: 3\r\nLocation: https://evil.example.com/\r\nContent-Length: 4\r\n\r\ntrue"
    )

    async def story() -> None:
        async with world(authority, answer) as made:
            got = await made.ask(asked)
            (sent,) = made.sent
            assert sent == (
                b"POST /v1/pages?x=1 HTTP/1.1\r\nHost: api.example.com\r\ncontent-type: application/json\r\n"
                b"x-api-key: " + VALUE + b"\r\nAccept-Encoding: identity\r\nContent-Length: 11\r\n"
                b"Connection: close\r\n\r\n" + body
            )
            assert got == (
                b"HTTP/1.1 201 \r\ncontent-type: application/json\r\nx-ratelimit-left: 3\r\n"
                b"location: https://evil.example.com/\r\nContent-Length: 4\r\nConnection: close\r\n\r\ntrue"
            )
            (ask,) = made.asks
            assert (ask.call, ask.origin, ask.method, ask.size) == (
                "7",
                "https://api.example.com:443",
                "POST",
                11,
            )
            passage = (await made.passed()).as_json()
            assert (passage["verdict"], passage["cause"], passage["status"]) == ("allowed", "ended", 201)
            assert (passage["upBytes"], passage["downBytes"], passage["address"]) == (11, 4, PUBLIC)
            assert "pages" not in json.dumps(passage)
            assert made.dialled == [PUBLIC]

    told(story)


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ("x-api-key", b"x-api-key: " + VALUE),
        ("Authorization: Bearer {}", b"Authorization: Bearer " + VALUE),
        ("Authorization:Token token={}, v=1", b"Authorization: Token token=" + VALUE + b", v=1"),
    ],
)
def test_a_header_is_a_name_or_a_form(authority: Authority, header: str, line: bytes) -> None:
    async def story() -> None:
        async with world(authority, slots=[filled(header)]) as made:
            await made.ask(
                b"GET /v1 HTTP/1.1\r\nHost: api.example.com\r\nauthorization: Bearer placeholder\r\n\r\n"
            )
            assert line in made.sent[0].split(b"\r\n")
            assert header.startswith("x") or b"placeholder" not in made.sent[0]

    told(story)


def test_an_address_that_is_listed_is_asked_plainly_and_a_name_never(authority: Authority) -> None:
    async def story() -> None:
        async with world(authority, listed=("127.0.0.1:8080", "api.example.com:80")) as made:
            assert (await made.ask(b"GET /x HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n")).endswith(b"hi")
            assert made.sent.pop().startswith(b"GET /x HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n")
            plain = b"GET http://api.example.com/ HTTP/1.1\r\nHost: api.example.com:80\r\n\r\n"
            await made.refused(plain, 403, "request", "plain http is for addresses that are listed")

    told(story)


HOST = b"Host: api.example.com\r\n"
EVIL = b"Host: evil.example.com\r\n"
GET, POST = b"GET / HTTP/1.1\r\n" + HOST, b"POST / HTTP/1.1\r\n" + HOST
WRONG = {
    "two-hosts": (GET + b"Host: evil.example.com\r\n\r\n", 400),
    "no-host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two-lengths": (POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
    "length-and-chunks": (
        POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
    ),
    "odd-chunks": (POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501),
    "two-codings": (POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 501),
    "negative-length": (POST + b"Content-Length: -1\r\n\r\n", 400),
    "connection-options": (GET + b"Connection: x-api-key\r\n\r\n", 400),
    "upgrade": (GET + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n", 400),
    "expectation": (POST + b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\n", 417),
    "absolute-form-elsewhere": (b"GET https://api.example.com/ HTTP/1.1\r\n" + EVIL + b"\r\n", 400),
    "host-elsewhere": (b"GET https://evil.example.com/ HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "user-information": (b"GET https://api.example.com@evil.example.com/ HTTP/1.1\r\n" + HOST + b"\r\n", 403),
    "fragment": (b"GET /a#b HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "space-in-path": (b"GET /a b HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "null-in-header": (GET + b"x: a\0b\r\n\r\n", 400),
    "return-in-path": (b"GET /a\rX: y HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "method": (b"CONNECT api.example.com:443 HTTP/1.1\r\n" + HOST + b"\r\n", 405),
    "trace": (b"TRACE / HTTP/1.1\r\n" + HOST + b"\r\n", 405),
    "other-scheme": (b"GET ftp://api.example.com/ HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "asterisk": (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "call-twice": (GET + b"x-handler-call: 1\r\nx-handler-call: 2\r\n\r\n", 400),
    "call-odd": (GET + b"x-handler-call: ../1\r\n\r\n", 400),
    "many-headers": (GET + b"a: b\r\n" * 101 + b"\r\n", 431),
    "long-head": (b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 431),
    "tls": (b"\x16\x03\x01\x02\x00\x01\x00", 400),
    "second-version": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "circled-digits": ("GET / HTTP/1.1\r\nHost: ①②⑦.0.0.1\r\n\r\n".encode(), 403),
    "short-address": (b"GET / HTTP/1.1\r\nHost: 127.1\r\n\r\n", 403),
}  # fmt: skip


def test_whatever_could_be_read_in_two_ways_is_refused_and_nothing_is_sent(authority: Authority) -> None:
    async def story() -> None:
        async with world(authority) as made:
            for name, (data, status) in WRONG.items():
                made.passages.clear()
                answer = await made.ask(data, end=name in ("tls", "long-head"))
                assert answer.startswith(b"HTTP/1.1 %d " % status), (name, answer)
                assert b"x-handler-refused: request\r\n" in answer, (name, answer)
            assert (made.sent, made.asks, made.dialled) == ([], [], [])

    told(story)


def test_a_second_request_behind_the_first_is_never_sent(authority: Authority) -> None:
    async def story() -> None:
        async with world(authority) as made:
            await made.ask(ASK + b"GET https://api.example.com/smuggled HTTP/1.1\r\n\r\n")
            body = b"GET /smuggled HTTP/1.1\r\nHost: api.example.com\r\n\r\n"
            sent = b"POST /v1 HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(body)
            await made.ask(sent + body + b"GET /more HTTP/1.1\r\n\r\n")
            assert all(not one.startswith(b"GET /smuggled") for one in made.sent)
            assert len(made.sent) <= 2

    told(story)


def test_what_is_not_listed_is_refused_before_anybody_is_asked(authority: Authority) -> None:
    async def story() -> None:
        async with world(authority) as made:
            for at in ("evil.example.com", "api.example.com:8443", "127.0.0.1", "[::1]", "xapi.example.com"):
                line = f"GET / HTTP/1.1\r\nHost: {at}\r\n\r\n".encode()
                await made.refused(line, 403, "unlisted", "is not on the list of what may be reached")
            assert made.asks == []

    told(story)


def test_the_controller_has_the_last_word(authority: Authority) -> None:
    async def story() -> None:
        said = Verdicted(go=False, cause="call", why="no such call runs")
        async with world(authority, may=said) as made:
            await made.refused(ASK, 403, "call", "no such call runs")
            assert made.dialled == []

    told(story)


def test_a_name_that_leads_inside_is_refused_and_what_was_checked_is_what_is_reached(
    authority: Authority,
) -> None:
    turns = iter([["10.0.0.7"], [PUBLIC], ["127.0.0.1"]])

    async def names() -> Sequence[str]:
        return next(turns)

    async def story() -> None:
        async with world(authority, names=names) as made:
            await made.refused(ASK, 403, "address", "leads to 10.0.0.7, a private address")
            assert (await made.ask()).endswith(b"hi")
            made.sent.clear()
            await made.refused(ASK, 403, "address", "leads to 127.0.0.1, a loopback address")
            assert made.dialled == [PUBLIC]  # each resolved once, and connected to what was checked

    told(story)


def test_who_is_not_who_was_asked_for_gets_nothing(authority: Authority) -> None:
    async def story() -> None:
        async with world(authority, tls="other.example.com") as made:
            await made.refused(ASK, 502, "tls", "is not who it should be: its certificate is not accepted")
        async with world(authority) as made:
            made.gate.trust = ssl.create_default_context()
            await made.refused(ASK, 502, "tls", "its certificate is not accepted")

    told(story)


def test_a_redirect_is_an_answer_and_is_not_followed(authority: Authority) -> None:
    answer = b"HTTP/1.1 307 Go\r\nLocation: https://evil.example.com/\r\nContent-Length: 0\r\n\r\n"

    async def story() -> None:
        async with world(authority, answer) as made:
            got = await made.ask()
            assert got.startswith(b"HTTP/1.1 307 ")
            assert b"location: https://evil.example.com/" in got
            assert len(made.sent) == len(made.dialled) == 1

    told(story)


def written(value: bytes) -> dict[str, bytes]:
    return {
        "plain": value, "hex": value.hex().encode(), "base64": base64.b64encode(b"x" + value + b"yz"),
        "url": b"sk-CANARY-77ab01%2F%2BzQ", "json": b"sk-CANARY-77ab01\\/+zQ",
    }  # fmt: skip


@pytest.mark.parametrize("form", ["plain", "hex", "base64", "url", "json"])
def test_an_answer_that_tells_the_secret_is_not_handed_on(authority: Authority, form: str) -> None:
    echo = written(VALUE)[form]

    async def story() -> None:
        for answer in (
            b"HTTP/1.1 401 No\r\nContent-Length: %d\r\n\r\n" % (len(echo) + 7) + b"bad key" + echo,
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: " + echo + b"\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Debug: " + echo + b"\r\n\r\n",
        ):
            async with world(authority, answer) as made:
                got = await made.ask()
                assert got.startswith(b"HTTP/1.1 502 ")
                assert b"x-handler-refused: echo\r\n" in got
                assert echo not in got
                assert (await made.passed()).decision.cause == "echo"

    told(story)


def test_a_secret_that_comes_in_pieces_after_the_head_went_is_cut_off(authority: Authority) -> None:
    async def drip(made: World, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: one\n\n"
        )
        for byte in VALUE:
            writer.write(bytes([byte]))
            await writer.drain()
        writer.write(b"tail" * 100)

    async def long(made: World, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Length: 500020\r\n\r\n" + b"x" * 400_000 + VALUE + b"y" * 100_000
        )

    async def story() -> None:
        for origin in (drip, long):
            async with world(authority, origin) as made:
                got = await made.ask()
                assert got.startswith(b"HTTP/1.1 200 ") or (origin is drip and b": echo\r\n" in got)
                assert VALUE[:8] not in got
                assert not got.endswith(b"0\r\n\r\n")  # cut, not ended
                assert (await made.passed()).decision.cause == "echo"

    told(story)


def test_events_come_as_they_are_said(authority: Authority) -> None:
    async def story() -> None:
        more = asyncio.Event()

        async def events(made: World, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(EVENTS)
            await more.wait()
            writer.write(b"data: two\n\n")

        async with world(authority, events) as made:
            reader, writer = await asyncio.open_unix_connection(made.path)
            writer.write(ASK)
            async with asyncio.timeout(DEADLINE_S):
                await reader.readuntil(b"data: one\n\n")
                more.set()
                assert b"data: two" in await reader.read()
            writer.close()

    told(story)


@pytest.mark.parametrize(
    ("answer", "status", "cause"),
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", 502, "answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", 502, "answer"),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", 502, "answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhi", 502, "answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi", 502, "answer"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000 + b"\r\n", 502, "answer"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 20, 502, "answer"),
        (b"", 502, "answer"),
        (b"HTTP/1.1 103 Early\r\n\r\n" + OK, 200, "ended"),
        (b"HTTP/1.1 204 Nothing\r\n\r\n", 204, "ended"),
    ],
)
def test_an_answer_is_http_or_none(authority: Authority, answer: bytes, status: int, cause: str) -> None:
    async def story() -> None:
        async with world(authority, answer) as made:
            assert (await made.ask()).startswith(b"HTTP/1.1 %d " % status)
            assert (await made.passed()).decision.cause == cause

    told(story)


def test_everything_is_bounded(authority: Authority) -> None:
    async def huge(made: World, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    async def silent(made: World, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)

    async def story() -> None:
        few = Caps(ask_s=0.3, idle_s=0.3, body_bytes=1000, held_bytes=1500, answer_bytes=300_000)
        async with world(authority, huge, caps=few) as made:
            assert len(await made.ask()) < 400_000
            assert (await made.passed()).decision.cause == "bytes"
            made.sent.clear()
            large = b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 2000\r\n\r\n" + b"x" * 2000
            await made.refused(large, 413, "request", "larger than the gate takes")
            await made.refused(b"GET / HTTP/1.1\r\nHost: api", 408, "slow", "did not come in time")
            await made.refused(large[:900], 408, "slow")
        async with world(authority, silent, caps=few) as made:
            assert (await made.ask()).startswith(b"HTTP/1.1 504 ")
            assert (await made.passed()).decision.cause == "idle"
        async with world(authority, silent, caps=Caps(connections=1)) as made:
            _, first = await asyncio.open_unix_connection(made.path)
            first.write(ASK)
            async with asyncio.timeout(DEADLINE_S):
                while not made.sent:
                    await asyncio.sleep(0.01)
            assert (await made.ask()).startswith(b"HTTP/1.1 503 ")
            first.close()
            async with asyncio.timeout(DEADLINE_S):  # whoever leaves takes what goes on with it
                while made.passages[-1].decision.cause != "left":
                    await asyncio.sleep(0.01)

    told(story)


def test_nothing_of_a_secret_is_in_what_a_gate_prints() -> None:
    slots = Slots.of([filled("x-api-key")])
    assert VALUE.decode() not in repr(slots) + str(filled("x-api-key"))
