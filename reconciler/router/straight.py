"""The straight way of a call: what the law of ``call`` comes to when it has nothing to ask but the answer.

Nearly every call is of one shape: to a tool without files, with right arguments and room to begin, while its
connector runs. Such a call takes this way, one function in and one out: every line of Python that is not here
is felt by every caller. Whatever is not of that shape is not judged here: ``begin`` says False, nothing has
happened, and the connection hears the line in full. A test holds both ways to the same outcome.

Nothing of the law is left out for speed. A line is compared with what was read of it, written anew: so no key
stood twice and no number was bent. Closed schemas bound how deep their instances are, so only tools whose
schemas do that go straight. What is sent on is written from what was checked.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import orjson

from reconciler.model.calls import Lane, Refusal, Reply, Result
from reconciler.model.contract import Tool
from reconciler.model.names import InstanceName
from reconciler.model.routes import Route, ScopeFolder
from reconciler.router import answers, mcp
from reconciler.router.call import judged
from reconciler.router.flight import CANCELLED, Desk
from reconciler.router.parties import Flying
from reconciler.router.steps import Refused
from reconciler.router.telling import Teller
from reconciler.wire import strict
from reconciler.wire.jsonrpc import Id

_END = orjson.OPT_APPEND_NEWLINE
_REQUEST_KEYS = 4  # jsonrpc, id, method, params
_CALL_KEYS = 2  # name, arguments; and at most _meta
_LEGACY: mcp.Era = (False, None, "")
_SHORT_ID = 64  # characters; longer ids are measured on the other way


class Way:
    """A tool of one session whose calls may go straight."""

    __slots__ = ("accepts", "allows", "desk", "exchange", "instance", "most", "name", "offer")

    def __init__(self, desk: Desk, offer: mcp.Offer) -> None:
        self.desk = desk
        self.exchange = desk.exchange
        self.offer = offer
        self.name = offer.tool.name
        self.accepts = offer.tool.accepts
        self.allows = offer.tool.allows
        self.instance: InstanceName = offer.route.instance
        self.most = offer.route.contract.spec.limits.max_output_bytes


def ways(desks: Mapping[str, Desk], face: mcp.Face) -> Mapping[str, Way]:
    """The straight ways of one socket of a session, by tool."""
    return {
        name: Way(desks[offer.route.interface.name], offer)
        for name, offer in face.offers.items()
        if _is_plain(offer.route, offer.tool)
    }


def _is_plain(route: Route, tool: Tool) -> bool:
    """Whether the law asks nothing for its calls but the answer."""
    chooses = tool.takes_model and route.models is not None
    is_shallow = tool.is_shallow_in and tool.is_shallow_out
    is_one_call = tool.kind == "call" and tool.effect == "none"
    return is_shallow and is_one_call and not tool.files and not chooses and route.suspended is None


class Caller(Protocol):
    """A connection, as much of it as a straight call needs."""

    ways: Mapping[str, Way]
    flights: dict[Id, Flying]
    listens: dict[Id, mcp.Listen]

    def answered(self, ident: Id, line: bytes | None) -> None:
        """As ``flight.Client`` has it."""
        ...

    def report(self, line: bytes) -> None:
        """As ``flight.Client`` has it."""
        ...


def begin(caller: Caller, line: bytes) -> bool:
    """Send the call that a line is, if it is one that may go straight; else False, and nothing was done."""
    try:
        message: Any = orjson.loads(line)
        params = message["params"]
        way = caller.ways[params["name"]]
        arguments = params["arguments"]
        ident = message["id"]
        same = orjson.dumps(message, None, _END)
        if same != line:
            strict.need_exact(line, same)
        if (
            message["method"] != "tools/call"
            or message["jsonrpc"] != "2.0"
            or len(message) != _REQUEST_KEYS
            or type(arguments) is not dict
            or not (type(ident) is int or (type(ident) is str and len(ident) <= _SHORT_ID))
        ):
            return False
        era = _LEGACY if len(params) == _CALL_KEYS else _era(params)
    except (KeyError, TypeError, ValueError):
        return False
    usage = way.desk.usage
    if era is None or not (usage.is_free() and way.accepts(arguments)):
        return False
    lane = way.exchange.dispatch.lane(way.instance)
    if lane is None or ident in caller.flights or ident in caller.listens:
        return False
    usage.made += 1
    usage.running += 1
    way.exchange.running += 1
    caller.flights[ident] = call = Straight(caller, way, ident, era)
    call.in_bytes = len(line)
    call.lane = lane
    call.number = lane.send(way.name, arguments, call, usage.longest)
    return True


def _era(params: Mapping[str, Any]) -> mcp.Era | None:
    return mcp.era(params["_meta"]) if len(params) == _CALL_KEYS + 1 else None


class Straight:
    """One call on the straight way. It is the sink of what it sends."""

    __slots__ = (
        "_caller", "_started", "_teller", "_token", "_trace", "_way", "id", "in_bytes", "lane", "modern",
        "number", "over", "wants_progress",
    )  # fmt: skip
    entry = ""  # nobody was asked
    attempt = ""  # it has no effect

    def __init__(self, caller: Caller, way: Way, ident: Id, era: mcp.Era) -> None:
        self._caller = caller
        self._way = way
        self.id = ident
        self.modern, self._token, self._trace = era
        self.wants_progress = self._token is not None
        self._started = way.exchange.clock()
        self.over = False
        # Set by who makes it: five words would be too many.
        self.in_bytes: int
        self.lane: Lane
        self.number: int

    @property
    def caller(self) -> str:
        """The agent whose call this is."""
        return self._way.desk.agent

    @property
    def session(self) -> str:
        """The session that it was made in."""
        return self._way.desk.session

    @property
    def scope(self) -> tuple[ScopeFolder, ...]:
        """What that agent may reach of the machine's files."""
        return self._way.desk.scope

    @property
    def offer(self) -> mcp.Offer:
        """What was called."""
        return self._way.offer

    def is_late(self) -> bool:
        """Whether the call's time is up, on the router's clock."""
        return self._way.exchange.clock() - self._started >= self._way.desk.usage.timeout_s

    def progress(self, progress: float, total: float | None) -> None:
        """A connector's progress, passed on as ``Teller`` tells it."""
        if self._token is None or self.over:
            return
        if not hasattr(self, "_teller"):
            self._teller = Teller(self._token, self._way.exchange.clock)
        line = self._teller.tell(progress, total)
        if line is not None:
            self._caller.report(line)

    def done(self, reply: Reply) -> None:
        """The answer to the sent call."""
        if self.over:
            return
        way = self._way
        if type(reply) is Result and way.allows(reply.structured):
            structured = orjson.dumps(reply.structured)
            size = len(structured)
            if size <= way.most:
                self._end(answers.success(self, structured), "ok", size)
                return
        outcome = judged(way.desk.route.contract, way.offer.tool, reply)
        if isinstance(outcome, Refused):
            line = answers.failure(self, outcome.code, outcome.detail)
            self._end(line, outcome.code, 0, outcome.diagnostic or outcome.detail)

    def expire(self) -> None:
        """The deadline passed: the agent is told, the connector is told to stop."""
        self.lane.cancel(self.number)
        self.done(Refusal("unavailable", f"no end within {self._way.desk.usage.timeout_s:g} s"))

    def cancel(self) -> None:
        """The agent gave the call up: stop, and say nothing."""
        self.lane.cancel(self.number)
        self._end(None, CANCELLED, 0)

    def abandon(self, why: str) -> None:
        """Its session ends: the agent is told that nobody answers, the connector is told to stop."""
        self.lane.cancel(self.number)
        self.done(Refusal("unavailable", why))

    def _end(self, line: bytes | None, code: str, out_bytes: int, diagnostic: str = "") -> None:
        self.over = True
        way = self._way
        exchange, desk = way.exchange, way.desk
        desk.usage.running -= 1
        exchange.running -= 1
        self._caller.answered(self.id, line)
        if not exchange.notes:
            exchange.write()
        times, sizes = (self._started, exchange.clock()), (self.in_bytes, out_bytes)
        exchange.notes.append((desk, "", way.name, code, times, sizes, (), diagnostic, self._trace, ""))
        if desk.queue:
            desk.next_turn()
