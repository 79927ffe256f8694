"""From a host and port that are listed to a connection: resolved once, every address checked, then dialled.

What was checked is what is connected to: a name that leads elsewhere a moment later changes nothing. A name
may lead to public addresses, and to those that are listed themselves.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from reconciler.egress import addresses
from reconciler.egress.decisions import Cause, Verdict
from reconciler.egress.names import Names, Resolve, resolved
from reconciler.model.hosts import Allow, Target

CHUNK = 65_536

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Dial = Callable[[str, int], Awaitable[Streams]]


class Unreached(Exception):  # noqa: N818 - an answer: there is no connection, and why
    """Why a target is not connected to; ``address`` is the one that its name must not lead to, or ""."""

    def __init__(self, verdict: Verdict, cause: Cause, why: str, address: str = "") -> None:
        super().__init__(why)
        self.verdict, self.cause, self.why, self.address = verdict, cause, why, address

    @property
    def status(self) -> int:
        """The HTTP status that says it."""
        return 403 if self.verdict == "refused" else 502


async def dialled(address: str, port: int) -> Streams:
    """A connection to an address, which is no name; OSError when there is none."""
    return await asyncio.open_connection(address, port, limit=CHUNK, flags=socket.AI_NUMERICHOST)


@dataclass(slots=True)
class Reach:
    """The ways of one sandbox: whatever is on its list. ``resolve`` and ``dial`` reach the network."""

    allow: Allow
    resolve: Resolve = resolved
    dial: Dial = dialled
    dial_s: float = 15.0  # for resolving and connecting
    most: int = 4  # addresses of one name that are tried
    names: Names = field(default_factory=Names)

    async def connected(self, target: Target) -> tuple[Streams, str]:
        """A connection to one of the target's addresses, and which; raises Unreached."""
        try:
            async with asyncio.timeout(self.dial_s):
                found = [target.host] if target.address else await self._addresses(target)
                for address in found[: self.most]:
                    with suppress(OSError):
                        return await self.dial(address, target.port), address
        except TimeoutError:  # it is unreachable, like one that refuses
            pass
        raise Unreached("failed", "unreachable", f"{target} takes no connection now")

    async def _addresses(self, target: Target) -> Sequence[str]:
        try:
            found = await self.names.addresses(target, self.resolve)
            parsed = [ipaddress.ip_address(one) for one in found]
        except (OSError, ValueError, UnicodeError):
            raise Unreached("failed", "unresolved", f"{target.host} has no address now") from None
        for address in parsed:
            here = Target(str(address), target.port)
            if (why := addresses.closed(address)) and here not in self.allow:
                words = f"{target.host} leads to {address}, a {why} address: list '{here}' too if it should"
                raise Unreached("refused", "address", words, str(address))
        return [str(one) for one in parsed]
