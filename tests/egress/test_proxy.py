"""The proxy over real sockets on loopback: who gets through, who does not, and what it costs the others."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
import uvloop

from reconciler.egress import connect
from reconciler.egress.decisions import Decision
from reconciler.egress.proxy import Caps, Proxy, Streams, dialled
from reconciler.model.hosts import Allow
from tests.egress import tls

PUBLIC = "93.184.216.34"
ASK = b"CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n"
GREETING = tls.greeting("api.example.com")
DEADLINE_S = 30


@dataclass
class World:
    """A proxy, a server that sends back what it gets, and what the two were asked."""

    proxy: Proxy
    port: int
    server_port: int
    decisions: list[Decision]
    asked: list[str]
    dialled: list[tuple[str, int]]
    said: asyncio.Event = field(default_factory=asyncio.Event)
    clients: list["Client"] = field(default_factory=list)

    async def client(self) -> "Client":
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        self.clients.append(client)
        return client

    async def heard(self, *causes: str) -> list[Decision]:
        """All decisions, once as many as these were said; their causes are these."""
        async with asyncio.timeout(DEADLINE_S):
            while len(self.decisions) < len(causes):
                self.said.clear()
                await self.said.wait()
        assert [one.cause for one in self.decisions] == list(causes), self.decisions
        return self.decisions


@dataclass
class Client:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def rest(self) -> bytes:
        """Everything until the connection ends, however it does."""
        got = b""
        async with asyncio.timeout(DEADLINE_S):
            with suppress(ConnectionError):
                while data := await self.reader.read(65536):
                    got += data
        return got

    async def get(self, size: int) -> bytes:
        async with asyncio.timeout(DEADLINE_S):
            return await self.reader.readexactly(size)

    async def opened(self, ask: bytes = ASK, greeting: bytes = GREETING) -> "Client":
        """Through to the server, which has sent the greeting back."""
        await self.send(ask)
        answer = await self.get(len(b"HTTP/1.1 200 Connection established\r\n\r\n"))
        assert answer == b"HTTP/1.1 200 Connection established\r\n\r\n"
        await self.send(greeting)
        assert await self.get(len(greeting)) == greeting
        return self


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()


Names = Sequence[str] | Callable[[], Awaitable[Sequence[str]]]


@asynccontextmanager
async def world(
    *listed: str, names: Names = (PUBLIC,), caps: Caps | None = None, server: object = echo
) -> AsyncIterator[World]:
    asked: list[str] = []
    reached: list[tuple[str, int]] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return await names() if callable(names) else names

    async def dial(address: str, port: int) -> Streams:
        reached.append((address, port))
        if address != PUBLIC:
            return await dialled(address, port)
        return await dialled("127.0.0.1", made.server_port)

    def record(decision: Decision) -> None:
        made.decisions.append(decision)
        made.said.set()

    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    far = await asyncio.start_server(server, "127.0.0.1", 0)  # type: ignore[arg-type]
    server_port = far.sockets[0].getsockname()[1]
    allow = Allow(listed or ("api.example.com:443",))
    proxy = Proxy(allow, record, resolve, dial, caps or Caps())
    made = World(proxy, port, server_port, [], asked, reached)
    await proxy.start(listener)
    try:
        yield made
    finally:
        await proxy.close()
        far.close()
        for client in made.clients:
            client.writer.transport.abort()
        async with asyncio.timeout(DEADLINE_S):
            while len(asyncio.all_tasks()) > 1:  # the server's connections end with the proxy's
                await asyncio.sleep(0)
            for _ in range(5):
                await asyncio.sleep(0)


def on_both_loops(scenario: Callable[[], Awaitable[None]]) -> None:
    """The controller runs on uvloop, a command on asyncio's own loop."""
    for factory in (None, uvloop.new_event_loop):
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(scenario())  # type: ignore[arg-type]


def test_a_listed_host_is_reached_and_counted() -> None:
    async def scenario() -> None:
        async with world() as made:
            client = await (await made.client()).opened()
            await client.send(b"x" * 300_000)
            assert await client.get(300_000) == b"x" * 300_000
            client.writer.write_eof()
            assert await client.rest() == b""
            opened, ended = await made.heard("listed", "ended")
            assert (opened.verdict, str(opened.target), opened.address) == (
                "allowed", "api.example.com:443", PUBLIC,
            )  # fmt: skip
            size = 300_000 + len(GREETING)
            assert (ended.up_bytes, ended.down_bytes) == (size, size)
            assert made.asked == ["api.example.com"]
            assert made.dialled == [(PUBLIC, 443)]

    on_both_loops(scenario)


def test_what_the_server_says_at_last_arrives_whole() -> None:
    async def last_words(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(GREETING))
        writer.write(GREETING + b"z" * 3_000_000)
        writer.close()

    async def scenario() -> None:
        async with world(server=last_words) as made:
            client = await (await made.client()).opened()
            assert len(await client.rest()) == 3_000_000

    on_both_loops(scenario)


REFUSED = [
    ("plain http", b"GET http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n", 403, "request"),
    ("a body behind it", b"POST http://api.example.com/ HTTP/1.1\r\n\r\n" + b"x" * 60_000, 403, "request"),
    ("an unlisted host", ASK.replace(b"api.", b"evil."), 403, "unlisted"),
    ("an unlisted port", ASK.replace(b":443", b":22"), 403, "unlisted"),
    ("an unlisted address", b"CONNECT 127.0.0.1:443 HTTP/1.1\r\n\r\n", 403, "unlisted"),
    ("two requests at once", ASK + ASK, 400, "request"),
    ("a request with a body", ASK.replace(b"\r\n\r\n", b"\r\nContent-Length: 1\r\n\r\nx"), 400, "request"),
    ("a huge head", ASK[:-2] + b"X-A: b\r\n" * 2000, 431, "request"),
]


@pytest.mark.parametrize(
    ("data", "status", "cause"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_is_refused_hears_why_and_reaches_nothing(data: bytes, status: int, cause: str) -> None:
    async def scenario() -> None:
        async with world() as made:
            client = await made.client()
            await client.send(data)
            answer = await client.rest()
            assert answer.startswith(b"HTTP/1.1 %d " % status)
            (decision,) = await made.heard(cause)
            assert decision.verdict == "refused"
            assert answer.endswith(decision.why.encode() + b"\n")
            assert made.asked == made.dialled == []

    on_both_loops(scenario)


@pytest.mark.parametrize(
    "names",
    [
        ("127.0.0.1",),
        ("169.254.169.254",),
        ("::ffff:10.0.0.1",),
        ("64:ff9b::7f00:1",),
        (PUBLIC, "192.168.0.1"),
        ("fd00:ec2::254", PUBLIC),
    ],
)
def test_a_name_that_leads_to_an_address_that_is_not_public_is_refused(names: tuple[str, ...]) -> None:
    async def scenario() -> None:
        async with world(names=names) as made:
            client = await made.client()
            await client.send(ASK)
            assert (await client.rest()).startswith(b"HTTP/1.1 403 ")
            await made.heard("address")
            assert made.dialled == []

    asyncio.run(scenario())


def test_a_closed_address_is_named_and_its_listing_lets_the_name_lead_there() -> None:
    async def scenario() -> None:
        async with world("api.example.com:443", names=("10.1.2.3",)) as made:
            client = await made.client()
            await client.send(ASK)
            said = (
                b"api.example.com leads to 10.1.2.3, a private address: list '10.1.2.3:443' too if it should"
            )
            assert (await client.rest()).endswith(said + b"\n")
            (decision,) = await made.heard("address")
            assert decision.as_json()["address"] == "10.1.2.3"

            async def dial(address: str, port: int) -> Streams:
                assert (address, port) == ("10.1.2.3", 443)
                return await dialled("127.0.0.1", made.server_port)

            made.proxy.dial = dial
            made.proxy.allow = Allow(["api.example.com:443", "10.1.2.3:443"])
            await (await made.client()).opened()

    asyncio.run(scenario())


def test_plain_http_reaches_an_address_that_is_listed() -> None:
    async def scenario() -> None:
        async with world("127.0.0.1:1") as made:
            at = b"127.0.0.1:%d" % made.server_port
            ask = b"POST http://%b/x HTTP/1.1\r\nHost: %b\r\nContent-Length: 4\r\n\r\nbo" % (at, at)
            client = await made.client()
            await client.send(ask)
            assert (await client.rest()).startswith(b"HTTP/1.1 403 ")
            made.proxy.allow = Allow([at.decode()])
            client = await made.client()
            await client.send(ask)
            head = b"POST /x HTTP/1.1\r\nHost: %b\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbo" % at
            assert await client.get(len(head)) == head  # the server sends back what it gets
            await client.send(b"dy")
            assert await client.get(2) == b"dy"
            assert made.asked == []

    on_both_loops(scenario)


def test_a_name_is_resolved_once_however_its_answers_change() -> None:
    answers = iter([(PUBLIC,), ("127.0.0.1",)])

    async def names() -> Sequence[str]:
        return next(answers)

    async def scenario() -> None:
        async with world(names=names) as made:
            await (await made.client()).opened()
            assert made.dialled == [(PUBLIC, 443)]
            second = await made.client()
            await second.send(ASK)
            assert (await second.rest()).startswith(b"HTTP/1.1 403 ")

    asyncio.run(scenario())


def test_an_address_that_is_listed_is_reached_without_a_name_and_without_tls() -> None:
    async def scenario() -> None:
        async with world("127.0.0.1:1") as made:  # another port than the server's: not listed
            client = await made.client()
            await client.send(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % made.server_port)
            assert (await client.rest()).startswith(b"HTTP/1.1 403 ")
            made.proxy.allow = Allow([f"127.0.0.1:{made.server_port}"])
            ask = b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % made.server_port
            await (await made.client()).opened(ask, b"GET / HTTP/1.1\r\n\r\n")
            assert made.asked == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "greeting",
    [
        tls.greeting("evil.example.com"),
        tls.real(None),
        tls.greeting("api.example.com", tls.extension(0xFE0D, b"\0" * 40)),
        b"GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
        b"EHLO me\r\n",
        ASK,
    ],
)
def test_a_tunnel_that_greets_for_another_name_or_none_ends_before_anything_went_on(greeting: bytes) -> None:
    got: list[bytes] = []

    async def listens(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.read(100))
        writer.close()

    async def scenario() -> None:
        async with world(server=listens) as made:
            client = await made.client()
            await client.send(ASK)
            await client.get(len(b"HTTP/1.1 200 Connection established\r\n\r\n"))
            await client.send(greeting)
            assert await client.rest() == b""
            (decision,) = await made.heard("name")
            assert (decision.verdict, decision.up_bytes) == ("refused", 0)
        assert got == [b""]

    asyncio.run(scenario())


def test_a_greeting_in_pieces_goes_on_whole() -> None:
    async def scenario() -> None:
        async with world() as made:
            client = await made.client()
            for byte in ASK:
                await client.send(bytes([byte]))
            await client.get(len(b"HTTP/1.1 200 Connection established\r\n\r\n"))
            real = tls.real("api.example.com")
            for at in range(0, len(real), 100):
                await client.send(real[at : at + 100])
            assert await client.get(len(real)) == real

    asyncio.run(scenario())


def test_a_name_without_an_address_and_a_server_that_is_away_are_told_apart() -> None:
    async def none() -> Sequence[str]:
        raise socket.gaierror(-2, "Name or service not known")

    async def scenario() -> None:
        async with world(names=none) as made:
            client = await made.client()
            await client.send(ASK)
            assert (await client.rest()).startswith(b"HTTP/1.1 502 ")
            await made.heard("unresolved")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        async with world(f"127.0.0.1:{port}") as made:
            client = await made.client()
            await client.send(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % port)
            assert (await client.rest()).startswith(b"HTTP/1.1 502 ")
            await made.heard("unreachable")

    asyncio.run(scenario())


def test_a_server_that_does_not_answer_is_given_up() -> None:
    async def never() -> Sequence[str]:
        await asyncio.Event().wait()
        return ()

    async def scenario() -> None:
        async with world(names=never, caps=Caps(dial_s=0.05)) as made:
            client = await made.client()
            await client.send(ASK)
            assert (await client.rest()).startswith(b"HTTP/1.1 502 ")
            await made.heard("unreachable")

    asyncio.run(scenario())


@pytest.mark.slow
def test_a_slow_drip_ends_with_its_time_however_often_it_drips() -> None:
    async def dripped(client: Client, data: bytes) -> None:
        with suppress(ConnectionError):
            for byte in data:
                await client.send(bytes([byte]))
                await asyncio.sleep(0.01)

    async def scenario() -> None:
        async with world(caps=Caps(ask_s=1.0)) as made:
            client = await made.client()
            drip = asyncio.create_task(dripped(client, ASK[:-2] + b"X-A: b\r\n" * 900))
            assert (await client.rest()).startswith(b"HTTP/1.1 408 ")
            await drip
            await made.heard("slow")
            second = await made.client()
            await second.send(ASK)
            await second.get(len(b"HTTP/1.1 200 Connection established\r\n\r\n"))
            drip = asyncio.create_task(dripped(second, tls.records(tls.message(None), size=1)))
            assert await second.rest() == b""
            await drip
            await made.heard("slow", "slow")

    asyncio.run(scenario())


@pytest.mark.slow
def test_a_silent_tunnel_ends_and_a_talking_one_does_not() -> None:
    async def scenario() -> None:
        async with world(caps=Caps(idle_s=3.0)) as made:
            silent = await (await made.client()).opened()
            talking = await (await made.client()).opened()
            ends = asyncio.create_task(silent.rest())
            while not ends.done():
                await talking.send(b"x")
                assert await talking.get(1) == b"x"
                await asyncio.sleep(0.05)
            assert await ends == b""
            assert [one.cause for one in made.decisions] == ["listed", "listed", "idle"]

    asyncio.run(scenario())


def test_a_tunnel_that_may_not_be_there_any_more_is_broken_off_and_no_other() -> None:
    async def scenario() -> None:
        async with world("api.example.com:443", "other.example.com:443") as made:
            there, other = await made.client(), await made.client()
            await there.opened()
            ask, greeting = ASK.replace(b"api.", b"other."), tls.greeting("other.example.com")
            await other.opened(ask, greeting)
            slow = await made.client()  # on its way: nothing of it went on yet
            await slow.send(ASK)
            await slow.get(len(b"HTTP/1.1 200 Connection established\r\n\r\n"))
            made.proxy.cut(lambda target: "" if target.host.startswith("other") else "not with this data")
            with suppress(ConnectionError):
                await slow.send(GREETING)
            assert (await there.rest(), await slow.rest()) == (b"", b"")
            await other.send(b"on")
            assert await other.get(2) == b"on"
            async with asyncio.timeout(DEADLINE_S):
                while len(made.decisions) < 4:
                    made.said.clear()
                    await made.said.wait()
            # What was on its way ended before anything went on.
            assert sum(one.up_bytes for one in made.decisions[2:]) == len(GREETING)

    on_both_loops(scenario)


def test_a_tunnel_carries_so_much_and_no_more() -> None:
    async def scenario() -> None:
        async with world(caps=Caps(tunnel_bytes=200_000)) as made:
            client = await (await made.client()).opened()
            with suppress(ConnectionError):
                await client.send(b"x" * 400_000)
            assert len(await client.rest()) <= 200_000 + 2 * 65_536
            _, ended = await made.heard("listed", "bytes")
            assert ended.verdict == "allowed"

    asyncio.run(scenario())


def test_one_connection_too_many_is_refused_and_the_others_go_on() -> None:
    async def scenario() -> None:
        async with world(caps=Caps(connections=3)) as made:
            held = [await (await made.client()).opened() for _ in range(3)]
            for _ in range(20):
                more = await made.client()
                assert (await more.rest()).startswith(b"HTTP/1.1 503 ")
            for client in held:
                await client.send(b"still here")
                assert await client.get(10) == b"still here"
            held[0].writer.close()
            await made.heard(*["listed"] * 3, *["busy"] * 20, "ended")
            await (await made.client()).opened()

    asyncio.run(scenario())


@pytest.mark.slow
def test_a_reader_that_stops_holds_little_here_and_nobody_else() -> None:
    async def floods(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.readexactly(len(GREETING))
        writer.write(first)
        with suppress(ConnectionError):
            while True:
                writer.write(b"z" * 65536)
                await writer.drain()

    async def scenario() -> None:
        async with world(server=floods, caps=Caps(idle_s=2.0)) as made:
            stopped = await (await made.client()).opened()
            stopped.writer.transport.pause_reading()  # type: ignore[attr-defined]
            other = await (await made.client()).opened()
            assert await other.get(1_000_000) == b"z" * 1_000_000
            other.writer.transport.abort()
            await made.heard("listed", "listed", "ended", "idle")
            assert made.decisions[-1].down_bytes < 32 * 2**20  # what the kernel's buffers took

    asyncio.run(scenario())


def test_nothing_is_left_when_it_closes() -> None:
    async def scenario() -> None:
        async with world() as made:
            client = await (await made.client()).opened()
            waiting = await made.client()
            await waiting.send(ASK[:10])
            port = made.port
        assert await client.rest() == b""
        assert await waiting.rest() == b""
        assert [one.cause for one in made.decisions] == ["listed", "ended"]
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", port)

    on_both_loops(scenario)


def test_a_decision_says_nothing_that_the_sandbox_wrote_but_the_target() -> None:
    async def scenario() -> None:
        async with world() as made:
            for ask in (
                b"CONNECT canary-4711@api.example.com:443 HTTP/1.1\r\n\r\n",
                ASK[:-2] + b"X-Canary: canary-4711\r\n folded\r\n\r\n",
                b"canary-4711 HTTP/1.1\r\n\r\n",
            ):
                client = await made.client()
                await client.send(ask)
                assert b"canary" not in await client.rest()
            assert len(await made.heard("request", "request", "request")) == 3
            assert not any("canary" in str(one.as_json()) for one in made.decisions)

    assert connect.read(b"") is None
    asyncio.run(scenario())
