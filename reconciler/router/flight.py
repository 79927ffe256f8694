"""One call in flight: carries out what the law of ``call`` asks for, and says how it ended.

All callbacks on one loop, no task a call: this is the hot path. Blocking work on files goes to a few threads.
A flight ends once: answered, refused, late, or cancelled by its agent; whatever was taken is given back then.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol, assert_never

from reconciler.model.calls import CallRecord, Dispatch, Lane, Refusal, Reply
from reconciler.model.problems import Bug
from reconciler.model.routes import AgentRoutes, Route
from reconciler.router import answers, mcp
from reconciler.router.call import (
    Answer,
    HandOver,
    Look,
    Outcome,
    Place,
    Refused,
    Send,
    Step,
    Turn,
    Usage,
    serve,
)
from reconciler.router.files import Denied
from reconciler.router.handoff import HandOff

_THREADS = 4  # for files: reading and hashing keep two cores busy
CANCELLED = "cancelled"  # the record's code for a call that its agent gave up


class Desk:
    """One interface of one session: what was used of it, and the calls that wait for their turn."""

    def __init__(self, route: Route) -> None:
        self.usage = Usage(route)
        self.interface = str(route.interface)  # as records have them
        self.binding = route.binding
        self.instance = str(route.instance)
        self.queue: deque[Flight] = deque()

    def next_turn(self) -> None:
        """Let waiting calls begin while there is room; one whose time is up does not begin any more."""
        while self.queue and self.usage.running < self.usage.concurrent:
            flight = self.queue.popleft()
            if flight.is_late():
                flight.expire()
            else:
                flight.go_on(None)


@dataclass(slots=True)
class Guest:
    """A session as the router knows it, shared by its connections."""

    session: str
    routes: AgentRoutes
    desks: dict[str, Desk] = field(default_factory=dict)  # by interface name
    faces: dict[str, mcp.Face] = field(default_factory=dict)  # by socket name

    def desk(self, route: Route) -> Desk:
        desk = self.desks.get(route.interface.name)
        if desk is None:
            desk = self.desks[route.interface.name] = Desk(route)
        return desk


class Exchange:
    """What all calls of a router share: connectors, clocks, threads, and the records not yet written."""

    def __init__(self, dispatch: Dispatch, now: Callable[[], float], clock: Callable[[], float]) -> None:
        self.dispatch = dispatch
        self.now = now
        self.clock = clock
        self.threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="files")
        self.calls = 0
        self.watching = False  # the sweep of deadlines is on
        self.watch: Callable[[], None] = lambda: None  # starts it
        self.records: list[CallRecord] = []  # they wait for others, to be written together
        self.write: Callable[[], None] = lambda: None  # called with the first of them
        self._prefix = f"{int(now() * 1000):x}-"

    def call_id(self, number: int) -> str:
        """What names a call in records and as blobs: unique across restarts."""
        return f"{self._prefix}{number:x}"


class Client(Protocol):
    """The connection that a call came from."""

    def answered(self, flight: "Flight", line: bytes | None) -> None:
        """The flight is over; the line (None: nothing) goes to the agent."""
        ...

    def report(self, line: bytes) -> None:
        """Progress: may be left out when the agent does not keep up."""
        ...


class Flight:
    """One call, from ``begin`` to its end. It is the sink of what it sends."""

    # What few calls need is set where it is needed: this is made once a call.
    over = False
    _step: Step | None = None
    _lane: Lane | None = None
    _number: int | None = None  # of the sent call, while it is out
    _handoff: HandOff | None = None
    _working = False  # a thread is at the files
    _told = -1.0  # the last progress
    _held: Lane | None = None  # kept from stopping while files are prepared

    def __init__(
        self, exchange: Exchange, client: Client, guest: Guest, ask: mcp.Call, *, in_bytes: int
    ) -> None:
        route = ask.offer.route
        exchange.calls = self.call = exchange.calls + 1
        self.ask = ask
        self.wants_progress = ask.token is not None
        self._exchange = exchange
        self._client = client
        self._guest = guest
        self._in_bytes = in_bytes
        self._desk = guest.desks.get(route.interface.name) or guest.desk(route)
        self._started = exchange.clock()
        self._law = serve(route, ask.offer.tool, ask.arguments, self._desk.usage)

    def is_late(self) -> bool:
        """Whether the call's time is up, on the router's clock."""
        return self._exchange.clock() - self._started >= self._desk.usage.timeout_s

    def go_on(self, reply: object) -> None:
        """Send a reply into the law and do what it asks for next."""
        try:
            self._step = step = self._law.send(reply)
        except StopIteration as end:
            self._end(end.value)
            return
        match step:
            case Send() | HandOver():
                self._with_lane(step)
            case Turn():
                self._desk.queue.append(self)
            case Look():
                self._handoff = HandOff(self._exchange.call_id(self.call), self._guest.routes.scope, step)
                self._in_thread(self._handoff.look)
            case Place():
                self._in_thread(self._need_handoff().place, step.blobs)
            case _:
                assert_never(step)

    def begin(self) -> None:
        """Start; the end may come before this returns."""
        self.go_on(None)

    def progress(self, progress: float, total: float | None) -> None:
        """A connector's progress, passed on while it grows (MCP: strictly increasing)."""
        token = self.ask.token
        if token is not None and not self.over and progress > self._told:
            self._told = progress
            self._client.report(answers.progress(token, progress, total))

    def done(self, reply: Reply) -> None:
        """The answer to the sent call."""
        self._number = None
        if not self.over:
            self.go_on(reply)

    def expire(self) -> None:
        """The deadline passed: the agent is told, the connector is told to stop."""
        self._halt()
        self.go_on(Refusal("unavailable", f"no end within {self._desk.usage.timeout_s:g} s"))

    def cancel(self) -> None:
        """The agent gave the call up: stop, and say nothing."""
        self._halt()
        self._law.close()
        self._end(None)

    def _with_lane(self, step: Send | HandOver) -> None:
        lane = self._lane
        if lane is None:
            instance = self.ask.offer.route.instance
            lane = self._exchange.dispatch.lane(instance)
            if lane is None:
                self._exchange.dispatch.open_lane(instance, self._lane_came)
                return
            self._lane = lane
        if type(step) is Send:
            self._number = lane.send(step.tool, step.arguments, self, step.max_bytes)
            return
        handoff = self._need_handoff()
        try:
            handoff.attach(lane.inbox, lane.outbox)
        except OSError:
            self.go_on(Refusal("unavailable", "the connector ended before its files were handed over"))
            return
        self._held = lane
        lane.hold()
        self._in_thread(handoff.fill)

    def _lane_came(self, lane: Lane | Refusal) -> None:
        if self.over or not isinstance(self._step, Send | HandOver):
            return  # late: the call has ended meanwhile
        if isinstance(lane, Refusal):
            self.go_on(lane)
        else:
            self._lane = lane
            self._with_lane(self._step)

    def _in_thread(self, work: Callable[..., object], *args: object) -> None:
        self._working = True
        future = asyncio.get_running_loop().run_in_executor(self._exchange.threads, _outcome, work, args)
        future.add_done_callback(self._worked)

    def _worked(self, future: "asyncio.Future[object]") -> None:
        self._working = False
        if self.over:
            self._close_files()
        else:
            self.go_on(future.result())

    def _halt(self) -> None:
        """Stop whatever the call is at; nothing of it comes back."""
        if self._number is not None and self._lane is not None:
            self._lane.cancel(self._number)
            self._number = None
        if self._handoff is not None:
            self._handoff.wanted = False
        if type(self._step) is Turn and self in self._desk.queue:
            self._desk.queue.remove(self)

    def _end(self, outcome: Outcome | None) -> None:
        self.over = True
        if type(outcome) is Answer:
            line: bytes | None = answers.success(self.ask, outcome.structured)
        elif type(outcome) is Refused:
            line = answers.failure(self.ask, outcome.code, outcome.detail)
        else:
            line = None
        self._client.answered(self, line)
        self._note(outcome)
        if self._held is not None:
            self._held.release()
        if self._handoff is not None and not self._working:
            self._close_files()
        if self._desk.queue:
            self._desk.next_turn()

    def _note(self, outcome: Outcome | None) -> None:
        code, diagnostic, size = CANCELLED, "", 0
        if type(outcome) is Answer:
            code, size = "ok", len(outcome.structured)
        elif type(outcome) is Refused:
            code, diagnostic = outcome.code, outcome.diagnostic or outcome.detail
        exchange, desk = self._exchange, self._desk
        if not exchange.records:
            exchange.write()
        exchange.records.append(
            CallRecord(
                exchange.now(),
                exchange.call_id(self.call),
                self._guest.session,
                self._guest.routes.agent,
                desk.interface,
                self.ask.offer.tool.name,
                desk.binding,
                desk.instance,
                code,
                (exchange.clock() - self._started) * 1000,
                self._in_bytes,
                size,
                tuple(self._handoff.handed) if self._handoff else (),
                diagnostic,
            )
        )

    def _close_files(self) -> None:
        if self._handoff is not None:
            self._exchange.threads.submit(self._handoff.close)
            self._handoff = None

    def _need_handoff(self) -> HandOff:
        if self._handoff is None:
            raise Bug("the law handed files over without looking at them")
        return self._handoff


def _outcome(work: Callable[..., object], args: tuple[object, ...]) -> object:
    """Run in a thread; a denial is a reply like any other."""
    try:
        return work(*args)
    except Denied as denied:
        return Refusal(denied.denial.value, denied.diagnostic)
