"""Calls that come from within the controller: a run of a chain calls the tools of its session.

The law is the same as for an agent at a socket, and so are limits, records, policy and ledger; only nobody
is connected. Whoever stops waiting gives the call up, as an agent does: what may have had an effect goes on.
"""

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from reconciler.router import mcp
from reconciler.router.answers import ERROR_KEY
from reconciler.router.flight import Exchange, Flight
from reconciler.router.guest import Guest, answering
from reconciler.wire.jsonrpc import Id

_NUMBERS = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Ask:
    """A tool of an interface, with its arguments. ``key`` names the call for good, where it has an effect:
    made again under it, it is answered by what came of it the first time.
    """

    interface: str
    tool: str
    arguments: Mapping[str, Any]
    key: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """What came of a call: ``ok`` with the answer, or a code and the sentence that an agent reads."""

    code: str
    structured: Any = None
    message: str = ""


async def call(exchange: Exchange, guest: Guest, ask: Ask) -> Said:
    """Make a call and wait for its end."""
    served = guest.at(ask.interface)
    offer = served.face.offers.get(ask.tool) if served else None
    if offer is None:
        return Said("refused", message=mcp.ROUTER_TEXTS["refused"])
    heard: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
    size = len(orjson.dumps(ask.arguments))
    wish = mcp.Call(next(_NUMBERS), offer, dict(ask.arguments), modern=False, key=ask.key)
    flight = Flight(answering(guest.desks[ask.interface], wish), _Waiting(heard), wish, size)
    exchange.inside.add(flight)
    try:
        flight.begin()
        if not exchange.watching:
            exchange.watch()
        return _said(await heard)
    finally:
        exchange.inside.discard(flight)
        if not flight.over and (heard.cancelled() or not heard.done()):
            flight.cancel()


def abandon(exchange: Exchange, session: str) -> None:
    """A session has ended: its calls from within are told so."""
    for flight in [one for one in exchange.inside if one.session == session and not one.over]:
        flight.abandon("its session ended while it ran")


class _Waiting:
    """The client of such a call: it hears of the end."""

    def __init__(self, heard: "asyncio.Future[bytes | None]") -> None:
        self._heard = heard

    def answered(self, ident: Id, line: bytes | None) -> None:
        """The end."""
        if not self._heard.done():
            self._heard.set_result(line)

    def send(self, line: bytes) -> None:
        """Nothing else is sent to it."""

    def report(self, line: bytes) -> None:
        """It asks for no progress."""


def _said(line: bytes | None) -> Said:
    if line is None:
        return Said("unavailable", message=mcp.ROUTER_TEXTS["unavailable"])
    result = orjson.loads(line)["result"]
    if result.get("isError"):
        body = result["_meta"][ERROR_KEY]
        return Said(body["error"], message=body["message"])
    return Said("ok", result["structuredContent"])
