"""`make flows-egress`: attempt → verdict, through the real gate, by a permit and past one.

Each attempt is made against a real origin over TLS on loopback, which counts what it got. Exit 1 when one
passed that should not, or was stopped by something else.
"""

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler.control.sending import MaybeSent, NotSent, Way
from reconciler.egress.gate import Ask, Gate, Passage, Slots, Verdicted
from reconciler.egress.permits import Permit, Permits, Refusal
from reconciler.egress.reaching import Streams, dialled
from reconciler.model.hosts import Allow
from reconciler.model.names import InstanceName
from reconciler.model.recipes import Recipe, SandboxPolicy, SecretUse
from reconciler.model.sealed import Sealed, wire_digest
from reconciler.model.secrets import Filled, Resolved
from reconciler.runtime.gating import Gated
from tests.egress.authority import Authority

HOST, PUBLIC = "api.example.com", "93.184.216.34"
KEY = b"sk-CANARY-report-01"
RECIPE = Recipe("far", "far", "dialect", "0" * 64, "", "", (), (), (), (), SandboxPolicy(), "none", "0" * 64)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
AWAY = b"HTTP/1.1 307 Away\r\nLocation: https://evil.example.com/\r\nContent-Length: 0\r\n\r\n"
_S = 20.0


def sealed(**more: Any) -> Sealed:
    """What was decided on, or that with something else in it."""
    method, origin = more.get("method", "POST"), more.get("origin", f"https://{HOST}:443")
    target, body = more.get("target", "/v1/x?y=1"), more.get("body", b'{"a":1}')
    headers = more.get("headers", (("content-type", "application/json"),))
    digest = wire_digest((method, origin, target), headers, body)
    return Sealed(method, origin, target, headers, body, None, digest)


@dataclass
class World:
    """A gate, an origin, and a clock."""

    way: Way
    permits: Permits
    got: list[bytes] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)
    addresses: list[str] = field(default_factory=lambda: [PUBLIC])
    dialled: list[str] = field(default_factory=list)
    answer: bytes = OK
    now: float = 0.0
    given: int = 0

    def permit(self, what: Sealed, **more: Any) -> Permit:
        """Leave for exactly this."""
        self.given += 1
        instance = more.get("instance", RECIPE.name)
        made = Permit(f"p{self.given}", "d", instance, what.wire_digest, self.now + 60)
        self.permits.give(made, self.now)
        return made

    async def send(self, what: Sealed, permit: Permit) -> str:
        """What came of it, in a word or two."""
        try:
            reply = await self.way.send(what, permit, timeout_s=_S)
        except NotSent as fault:
            return f"refused ({fault.cause})"
        except MaybeSent as fault:
            return f"unknown ({fault.cause})"
        return f"{reply.status}"


Attempt = Callable[[World], Awaitable[str]]


async def _sent(world: World) -> str:
    return await world.send(sealed(), world.permit(sealed()))


async def _reused(world: World) -> str:
    permit = world.permit(sealed())
    await world.send(sealed(), permit)
    world.got.clear()
    return await world.send(sealed(), permit)


def _other(**more: Any) -> Attempt:
    async def attempt(world: World) -> str:
        return await world.send(sealed(**more), world.permit(sealed()))

    return attempt


async def _expired(world: World) -> str:
    permit = world.permit(sealed())
    world.now += 60
    return await world.send(sealed(), permit)


async def _none(world: World) -> str:
    return await world.send(sealed(), Permit("unheard-of", "d", RECIPE.name, sealed().wire_digest, 60))


async def _foreign(world: World) -> str:
    return await world.send(sealed(), world.permit(sealed(), instance=InstanceName("near", "1" * 64)))


async def _redirected(world: World) -> str:
    world.answer = AWAY
    said = await _sent(world)
    world.got = world.got[1:]  # the first was permitted
    return said


async def _rebound(world: World) -> str:
    world.addresses = ["169.254.169.254"]
    return await _sent(world)


async def _mapped(world: World) -> str:
    world.addresses = ["::ffff:127.0.0.1"]
    return await _sent(world)


async def _two_answers(world: World) -> str:
    world.addresses = [PUBLIC, "10.0.0.7"]
    return await _sent(world)


async def _unlisted(world: World) -> str:
    elsewhere = sealed(origin="https://evil.example.com:443")
    return await world.send(elsewhere, world.permit(elsewhere))


async def _other_port(world: World) -> str:
    elsewhere = sealed(origin=f"https://{HOST}:8443")
    return await world.send(elsewhere, world.permit(elsewhere))


async def _plain(world: World) -> str:
    elsewhere = sealed(origin=f"http://{HOST}:443")
    return await world.send(elsewhere, world.permit(elsewhere))


async def _stranger(world: World) -> str:
    elsewhere = sealed(origin="https://other.example.com:443")
    return await world.send(elsewhere, world.permit(elsewhere))


JSON = ("content-type", "application/json")
ATTEMPTS: tuple[tuple[str, Attempt, str], ...] = (
    ("what was decided on", _sent, "200"),
    ("the same permit again", _reused, "refused (denied)"),
    ("one byte of the body changed", _other(body=b'{"a":2}'), "refused (denied)"),
    ("another path", _other(target="/v1/y?y=1"), "refused (denied)"),
    ("another query", _other(target="/v1/x?y=2"), "refused (denied)"),
    ("another method", _other(method="PUT"), "refused (denied)"),
    ("another header's value", _other(headers=(("content-type", "text/plain"),)), "refused (denied)"),
    ("one more header", _other(headers=(JSON, ("x-api-key", "mine"))), "refused (denied)"),
    ("another host by this permit", _other(origin="https://other.example.com:443"), "refused (denied)"),
    ("a host that is not listed", _unlisted, "refused (unlisted)"),
    ("another port of a listed host", _other_port, "refused (unlisted)"),
    ("plain http to a name", _plain, "refused (request)"),
    ("a permit that has expired", _expired, "refused (denied)"),
    ("no permit", _none, "refused (denied)"),
    ("a permit of another instance", _foreign, "refused (denied)"),
    ("a redirect to another origin", _redirected, "307"),
    ("a name that leads to the cloud's own address", _rebound, "refused (address)"),
    ("a name that leads to loopback, in IPv6's clothes", _mapped, "refused (address)"),
    ("a name with a public and a private address", _two_answers, "refused (address)"),
    ("a server that is not who it should be", _stranger, "refused (tls)"),
)


def rows(folder: Path) -> Iterator[tuple[str, str, bool]]:
    """Each attempt, what came of it, and whether that is right."""
    authority = Authority(folder)
    for words, attempt, wanted in ATTEMPTS:
        said, got = asyncio.run(_tried(attempt, authority, folder))
        passed = wanted == "200"
        held = said == wanted and (len(got) == 1 if passed else not got) and all(KEY in one for one in got)
        yield words, said, held


async def _tried(attempt: Attempt, authority: Authority, folder: Path) -> tuple[str, list[bytes]]:
    async def came(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            world.got.append(head + await reader.readexactly(size))
            writer.write(world.answer)
            await writer.drain()
        writer.close()

    async def may(ask: Ask) -> Verdicted:
        try:
            world.permits.take(ask.call, RECIPE.name, ask.wire, world.now)
        except Refusal as fault:
            return Verdicted(go=False, why=str(fault))
        return Verdicted(go=True)

    async def resolve(host: str, port: int) -> list[str]:
        return world.addresses

    async def dial(address: str, port: int) -> Streams:
        world.dialled.append(address)
        return await dialled("127.0.0.1", server.sockets[0].getsockname()[1])

    def serve(recipe: Recipe, listener: Any, gated: Gated) -> Callable[[], None]:
        listener.setblocking(False)
        starting.append(asyncio.ensure_future(gate.start(listener)))
        return lambda: None

    server = await asyncio.start_server(came, "127.0.0.1", 0, ssl=authority.server(HOST))
    use = SecretUse("key", "file", (), None, "gate", "x-api-key")
    slots = Slots.of([Filled(use, Resolved(KEY, key=b"k" * 32))])
    listed = Allow([f"{HOST}:443", "other.example.com:443"])
    passages: list[Passage] = []
    gate = Gate(listed, slots, may, passages.append, b"k" * 32, authority.trust(), resolve, dial)
    starting: list[asyncio.Future[None]] = []
    permits = Permits()
    with tempfile.TemporaryDirectory(dir=folder) as run:
        world = World(Way(RECIPE, Gated(), serve, permits=permits, run=Path(run)), permits)
        await asyncio.gather(*starting)
        try:
            return await attempt(world), world.got
        finally:
            world.way.close()
            await gate.close()
            server.close()


def main() -> int:
    """Print the table; 1 where one row is not as it should be."""
    fault = False
    with tempfile.TemporaryDirectory() as folder:
        for words, said, held in rows(Path(folder)):
            fault |= not held
            sys.stdout.write(f"{'✓' if held else '✗'}  {words:<50} {said}\n")
    return int(fault)


if __name__ == "__main__":
    sys.exit(main())
