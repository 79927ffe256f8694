"""Requests that the controller sends itself: through the real gate, by a permit, once."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from reconciler.control.sending import MaybeSent, NotSent, Way
from reconciler.egress.gate import Ask, Caps, Gate, Passage, Slots, Verdicted
from reconciler.egress.permits import Permit, Permits, Refusal
from reconciler.model.hosts import Allow
from reconciler.model.recipes import Recipe, SandboxPolicy
from reconciler.model.sealed import Sealed, wire_digest
from reconciler.runtime.gating import Gated

DEADLINE_S = 30.0
DIALECT = Recipe(
    "llm-x", "llm-x", "dialect", "0" * 64, "", "", (), (), (), (), SandboxPolicy(), "none", "0" * 64
)
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi"


JSON = (("content-type", "application/json"),)


def sealed_of(origin: str, **more: Any) -> Sealed:
    method, target = more.get("method", "POST"), more.get("target", "/v1/x?y=1")
    headers, body = more.get("headers", JSON), more.get("body", b'{"a":1}')
    digest = wire_digest((method, origin, target), headers, body)
    most = more.get("max_response", 2**20)
    return Sealed(method, origin, target, headers, body, None, digest, max_response=most)


@dataclass
class World:
    way: Way
    origin: str
    permits: Permits
    sent: list[bytes] = field(default_factory=list)
    now: float = 100.0
    held: int = 0  # so many requests are read and not answered
    left: asyncio.Event = field(default_factory=asyncio.Event)  # whoever was not answered hung up

    def sealed(self, **more: Any) -> Sealed:
        return sealed_of(self.origin, **more)

    def permit(self, sealed: Sealed, number: str = "p1") -> Permit:
        permit = Permit(number, "d1", DIALECT.name, sealed.wire_digest, self.now + 60)
        self.permits.give(permit, self.now)
        return permit


@asynccontextmanager
async def world(tmp_path: Path, answer: bytes | None = OK, caps: Caps | None = None) -> AsyncIterator[World]:
    """A way to an origin on loopback; without an answer, that breaks off when it has read the request."""

    async def came(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            made.sent.append(head + await reader.readexactly(size))
            if made.held:
                made.held -= 1
                assert not await reader.read(1)
                made.left.set()
            elif answer is not None:
                writer.write(answer)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(came, "127.0.0.1", 0)
    at = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    gates: list[Gate] = []
    starting: list[asyncio.Task[None]] = []

    async def may(ask: Ask) -> Verdicted:
        try:
            made.permits.take(ask.call, DIALECT.name, ask.wire, made.now)
        except Refusal as fault:
            return Verdicted(go=False, cause="denied", why=str(fault))
        return Verdicted(go=True)

    def serve(recipe: Recipe, listener: object, gated: Gated) -> Callable[[], None]:
        passages: list[Passage] = []
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        gate = Gate(Allow([at]), Slots.of(()), may, passages.append, b"k" * 32, trust, caps=caps or Caps())
        gates.append(gate)
        listener.setblocking(False)  # type: ignore[attr-defined]
        starting.append(asyncio.ensure_future(gate.start(listener)))  # type: ignore[arg-type]
        return lambda: None

    permits = Permits()
    made = World(Way(DIALECT, Gated(), serve, permits=permits, run=tmp_path), f"http://{at}", permits)
    await asyncio.gather(*starting)
    try:
        yield made
    finally:
        made.way.close()
        await gates[0].close()
        server.close()
    assert list(tmp_path.iterdir()) == []


def told(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(story())  # type: ignore[arg-type]


def test_what_was_decided_on_is_sent_once_and_its_reply_comes_whole(tmp_path: Path) -> None:
    async def story() -> None:
        async with world(tmp_path) as made:
            sealed = made.sealed()
            permit = made.permit(sealed)
            reply = await made.way.send(sealed, permit, timeout_s=DEADLINE_S)
            assert (reply.status, reply.headers["content-type"], reply.body) == (200, "text/plain", b"hi")
            (sent,) = made.sent
            assert sent.startswith(b"POST /v1/x?y=1 HTTP/1.1\r\nHost: 127.0.0.1:")
            assert sent.endswith(b'\r\n\r\n{"a":1}')
            assert b"x-handler" not in sent.lower()
            with pytest.raises(NotSent, match="denied"):
                await made.way.send(sealed, permit, timeout_s=DEADLINE_S)
            assert len(made.sent) == 1

    told(story)


@pytest.mark.parametrize(
    "change",
    [
        {"body": b'{"a":2}'},
        {"target": "/v1/x?y=2"},
        {"method": "PUT"},
        {"headers": (("content-type", "text/plain"),)},
        {"headers": (("content-type", "application/json"), ("x-api-key", "mine"))},
    ],
    ids=str,
)
def test_nothing_else_goes_by_its_permit(tmp_path: Path, change: dict[str, object]) -> None:
    async def story() -> None:
        async with world(tmp_path) as made:
            permit = made.permit(made.sealed())
            with pytest.raises(NotSent, match="denied") as refused:
                await made.way.send(made.sealed(**change), permit, timeout_s=DEADLINE_S)
            assert refused.value.why == "the request is not the one that was decided on"
            with pytest.raises(NotSent, match="denied"):  # it is used up
                await made.way.send(made.sealed(), permit, timeout_s=DEADLINE_S)
            assert made.sent == []

    told(story)


def test_a_permit_expires_and_another_host_is_unlisted(tmp_path: Path) -> None:
    async def story() -> None:
        async with world(tmp_path) as made:
            sealed = made.sealed()
            permit = made.permit(sealed)
            made.now += 60
            with pytest.raises(NotSent) as refused:
                await made.way.send(sealed, permit, timeout_s=DEADLINE_S)
            assert refused.value.why == "the permit has expired"
            elsewhere = sealed_of("https://evil.example.com:443")
            with pytest.raises(NotSent) as refused:
                await made.way.send(elsewhere, made.permit(elsewhere, "p2"), timeout_s=DEADLINE_S)
            assert refused.value.cause == "unlisted"
            assert made.sent == []

    told(story)


def test_without_a_reply_it_may_have_been_sent(tmp_path: Path) -> None:
    async def story() -> None:
        async with world(tmp_path, None) as made:
            sealed = made.sealed()
            with pytest.raises(MaybeSent) as unknown:
                await made.way.send(sealed, made.permit(sealed), timeout_s=DEADLINE_S)
            assert unknown.value.cause == "answer"
            assert len(made.sent) == 1

    told(story)


def test_half_a_reply_is_none(tmp_path: Path) -> None:
    half = b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"a" * 100_000

    async def story() -> None:
        async with world(tmp_path, half) as made:
            sealed = made.sealed()
            with pytest.raises(MaybeSent):
                await made.way.send(sealed, made.permit(sealed), timeout_s=DEADLINE_S)

    told(story)


def test_what_takes_too_long_or_is_too_large_may_have_been_sent(tmp_path: Path) -> None:
    slow = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9\r\n\r\ndata"

    async def story() -> None:
        async with world(tmp_path, slow, Caps(idle_s=DEADLINE_S)) as made:
            sealed = made.sealed(max_response=3)
            with pytest.raises(MaybeSent) as unknown:
                await made.way.send(sealed, made.permit(sealed, "p0"), timeout_s=DEADLINE_S)
            assert unknown.value.cause == "too-large"

    told(story)


def test_where_nobody_asked_for_the_permit_nothing_was_sent(tmp_path: Path) -> None:
    """The gate's process is dead: the request waits in the backlog and is refused when one comes back."""

    def nobody(recipe: Recipe, listener: object, gated: Gated) -> Callable[[], None]:
        kept.append(listener)
        return lambda: None

    async def story() -> None:
        permits = Permits()
        way = Way(DIALECT, Gated(), nobody, permits=permits, run=tmp_path)
        sealed = sealed_of("https://h.example.com:443")
        permit = Permit("p", "d", DIALECT.name, sealed.wire_digest, 9e9)
        permits.give(permit, 0)
        with pytest.raises(NotSent) as refused:
            await way.send(sealed, permit, timeout_s=0.05)
        assert refused.value.cause == "timeout"
        with pytest.raises(Refusal):
            permits.take("p", DIALECT.name, sealed.wire_digest, 0)
        way.close()
        kept.pop().close()  # type: ignore[attr-defined]

    kept: list[object] = []
    told(story)


def test_a_reply_is_given_as_it_comes(tmp_path: Path) -> None:
    events = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: one\n\n"

    async def story() -> None:
        async with world(tmp_path, events) as made:
            sealed = made.sealed()
            async with made.way.opened(sealed, made.permit(sealed), timeout_s=DEADLINE_S) as coming:
                assert coming.status == 200
                assert b"".join([part async for part in coming.body]) == b"data: one\n\n"

    told(story)
