"""One call in flight: carries out what the law of ``call`` asks for, and says how it ended.

All callbacks on one loop, no task a call: this is the hot path. Blocking work on files goes to a few threads.
A flight ends once: answered, refused, late, or cancelled by its agent; whatever was taken is given back then.
What has an effect goes on without its agent once it may have been sent: it is ``adrift`` until it ends.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from itertools import compress
from typing import Any, assert_never

from reconciler.model.calls import CallRecord, Dispatch, Lane, NoEffect, Refusal, Reply, Unanswered
from reconciler.model.effects import UNKNOWN, Effects, Intent, Unkept
from reconciler.model.entries import Entering, Policed
from reconciler.model.jobs import AskJob, Jobs, JobSeen, NoJobs
from reconciler.model.problems import needed
from reconciler.model.routes import AgentRoutes, Route, ScopeFolder
from reconciler.router import answers, mcp, tasks
from reconciler.router.call import Usage, about_a_job, serve
from reconciler.router.crew import Crew
from reconciler.router.entering import LetIn
from reconciler.router.guard import Guard
from reconciler.router.handoff import HandOff, is_held, outcome_of
from reconciler.router.kept import Kept, ask_job
from reconciler.router.parties import NOBODY, Client
from reconciler.router.steps import (
    Answer,
    Begin,
    Enter,
    HandOver,
    Hash,
    Join,
    Look,
    Outcome,
    Place,
    Refused,
    Send,
    Settle,
    Step,
    Turn,
)
from reconciler.router.telling import Teller

_LARGE = 64 * 1024  # bytes of a call; as many smaller ones as may wait are no burden
_MAX_QUEUED = 32 * 2**20  # bytes of the calls of one session and interface that wait
Law = Generator[Step, Any, Outcome]
CANCELLED = "cancelled"  # the record's code for a call that its agent gave up
_SETTLE_S = 60.0  # a record waits so long for the hashes of its files: a lost file system holds a thread up
_CLOSE_S = 5.0  # the same while a door closes
Handed = HandOff | tuple[()]  # the files that went over, if any: hashed by the time that the record is made
# What a record is made of later: desk, the call's name and tool, code, times, sizes, files, diagnostic, trace
# and attempt. One of these is made for every call: never its payload.
Note = tuple["Desk", str, str, str, tuple[float, float], tuple[int, int], Handed, str, str, str]


class Desk:
    """One interface of one session: what was used of it, the calls that wait, and what its records say."""

    def __init__(self, exchange: "Exchange", session: str, routes: AgentRoutes, route: Route) -> None:
        self.exchange = exchange
        self.route = route
        self.usage = Usage(route, exchange.policed)
        self.scope = routes.scope
        self.queue: deque[Flight] = deque()
        self.session = session
        self.agent = routes.agent
        self._interface, self._instance = str(route.interface), str(route.instance)
        self.others: Mapping[str, Desk] = {}  # by binding: those of further ones

    def queued_bytes(self) -> int:
        """What the calls that wait hold."""
        return sum(flight.in_bytes for flight in self.queue)

    def next_turn(self) -> None:
        """Let waiting calls begin while there is room; one whose time is up does not begin any more."""
        while self.queue and self.usage.running < self.usage.concurrent:
            flight = self.queue.popleft()
            if flight.is_late():
                flight.expire()
            else:
                flight.go_on(None)

    def note(self, flight: "Flight", code: str, out_bytes: int, diagnostic: str = "") -> None:
        """Keep a call's record: never its payload."""
        exchange = self.exchange
        if not exchange.notes:
            exchange.write()
        times = flight.started, exchange.clock()
        sizes = flight.in_bytes, out_bytes
        flown = flight.name, flight.tool.name, code, times, sizes, flight.handed
        exchange.notes.append((self, *flown, diagnostic, flight.ask.trace, flight.attempt))

    def record(self, note: Note, past: float) -> CallRecord:
        """The record of a call that has ended; ``past`` added to the router's clock is the wall clock."""
        _, name, tool, code, (started, ended), (in_bytes, out_bytes), files, diagnostic, trace, attempt = note
        return CallRecord(
            past + ended,
            name or self.exchange.new_name(),
            self.session,
            self.agent,
            self._interface,
            tool,
            self.route.binding,
            self._instance,
            code,
            (ended - started) * 1000,
            in_bytes,
            out_bytes,
            tuple(files.handed) if files else (),
            diagnostic,
            trace,
            attempt,
        )


class Exchange:
    """What all calls of a router share: connectors, clocks, threads, and the records not yet written."""

    def __init__(self, dispatch: Dispatch, now: Callable[[], float], clock: Callable[[], float]) -> None:
        self.dispatch = dispatch
        self.now = now
        self.clock = clock
        self.threads = Crew("files")
        self.calls = 0
        self.effects: Effects = Unkept()
        self.policed = Policed()
        self.jobs: Jobs = NoJobs()
        self.unanswered: Unanswered = lambda *_: None
        self.guard = Guard(clock)
        self.adrift: set[Flight] = set()  # flights that go on without their agents
        self.inside: set[Flight] = set()  # flights of runs, which have no connection
        self.running = 0  # flights that are not over
        self.unsent: list[tuple[Client, bytes]] = []  # answers of this turn of the loop
        self.watching = False  # the sweep of deadlines is on
        self.watch: Callable[[], None] = lambda: None  # starts it
        self.notes: list[Note] = []  # of calls that ended: they become records together
        self.write: Callable[[], None] = lambda: None  # called before the first of them
        self._prefix = f"{int(now() * 1000):x}-"

    def send_soon(self, client: "Client", line: bytes) -> None:
        """Send an answer with the others of this turn of the loop; when nothing else runs it need not wait.

        A write wakes its reader, who may take the processor from us; so the turn's work is done first.
        """
        if not self.unsent:
            asyncio.get_running_loop().call_soon(self.flush)
        self.unsent.append((client, line))

    def flush(self) -> None:
        """Send the answers that wait."""
        lines, self.unsent = self.unsent, []
        for client, line in lines:
            client.send(line)

    def records(self) -> list[CallRecord]:
        """The records of the calls that have ended since this was last asked. Those whose files are still
        being hashed come next time.
        """
        notes, self.notes = self.notes, []
        past = self.now() - (clock := self.clock())
        if any(note[6] for note in notes):
            held = [is_held(note[6]) and clock - note[4][1] < _SETTLE_S for note in notes]
            self.notes = list(compress(notes, held))
            notes = [note for note, late in zip(notes, held, strict=True) if not late]
        if self.notes:
            self.write()
        return [note[0].record(note, past) for note in notes]

    async def settled(self) -> None:
        """Wait, for some seconds at most, until no record of a call that has ended is held back."""
        if late := [note[6].settled for note in self.notes if note[6]]:
            await asyncio.wait([asyncio.wrap_future(one) for one in late], timeout=_CLOSE_S)

    def new_name(self) -> str:
        """What names a call in records and in its blobs: unique, across restarts too."""
        self.calls = number = self.calls + 1
        return f"{self._prefix}{number:x}"


class Flight:
    """One call by the law, from its first step to its end. It is the sink of what it sends."""

    # What few calls need is set where it is needed: one of these is made for every call.
    over = False
    name = ""  # of the call, once something asked for it
    handed: Handed = ()  # known at the end
    _law: Law
    _step: Step | None = None  # what is waited for, unless that is an answer
    _lane: Lane | None = None
    _number: int | None = None  # of the sent call, while it is out
    _handoff: HandOff | None = None
    _working = False  # a thread is at the files
    _teller: Teller | None = None  # once there was progress to tell
    _held: Lane | None = None  # kept from stopping while files are prepared, or an attempt is kept
    _kept: Kept | None = None  # of a call with an effect
    _let_in: LetIn | None = None  # where there is a policy
    seen: JobSeen | None = None  # the job that was submitted or asked about

    def __init__(self, desk: Desk, client: Client, ask: mcp.Call, in_bytes: int) -> None:
        self.ask = ask
        self.in_bytes = in_bytes
        self.started = desk.exchange.clock()
        self.wants_progress = ask.token is not None
        self._desk = desk
        self._client = client
        self.tool = ask.offer.tool

    @property
    def caller(self) -> str:
        """The agent whose call this is."""
        return self._desk.agent

    @property
    def session(self) -> str:
        """The session that it was made in."""
        return self._desk.session

    @property
    def scope(self) -> tuple[ScopeFolder, ...]:
        """What that agent may reach of the machine's files."""
        return self._desk.scope

    @property
    def entry(self) -> str:
        """What a policy let it in by; "" without one."""
        return self._let_in.entry if self._let_in is not None else ""

    @property
    def attempt(self) -> str:
        """The ledger's name for what it does; "" without an effect."""
        kept = self._kept or self.seen
        return kept.attempt if kept is not None else ""

    def waits_for(self, step: type) -> bool:
        """Whether it stands at such a step."""
        return type(self._step) is step

    def is_late(self) -> bool:
        """Whether the call's time is up, on the router's clock."""
        return self._desk.exchange.clock() - self.started >= self._desk.usage.timeout_s

    def begin(self) -> None:
        """Start; the end may come before this returns."""
        desk = self._desk
        desk.exchange.running += 1
        law = about_a_job if self.ask.task in ("get", "cancel") else serve
        self._law = law(desk.route, self.tool, self.ask.arguments, desk.usage)
        self.go_on(None)

    def go_on(self, reply: object) -> None:
        """Send a reply (None: begin) into the law and do what it asks for next."""
        try:
            step = self._law.send(reply)
        except StopIteration as end:
            self._end(end.value)
            return
        if type(step) is Send:
            lane = self._lane
            if lane is None:
                desk = self._desk
                self._lane = lane = desk.exchange.dispatch.lane(desk.route.instance)
            if lane is not None:
                self._step = None
                self._number = lane.send(step.tool, step.arguments, self, step.max_bytes)
                return
        self._step = step
        self._do(step)

    def _do(self, step: Step) -> None:
        desk = self._desk
        match step:
            case Send():
                desk.exchange.dispatch.open_lane(desk.route.instance, self._lane_came)
            case HandOver(staged=True):
                self._stage(step)
            case HandOver() | Begin():
                lane = self._lane or desk.exchange.dispatch.lane(desk.route.instance)
                if lane is None:
                    desk.exchange.dispatch.open_lane(desk.route.instance, self._lane_came)
                else:
                    self._lane_came(lane)
            case Join() | Settle() | AskJob():
                self._keep(step)
            case Turn():
                self._wait_for_a_turn()
            case Enter():
                self._enter(step)
            case Look() | Hash() | Place():
                self._go_to_files(step)
            case _:
                assert_never(step)

    def _go_to_files(self, step: Look | Hash | Place) -> None:
        if isinstance(step, Look):
            self.name = self._desk.exchange.new_name()
            self._handoff = HandOff(self.name, self._desk.scope, step)
            self._in_thread(self._handoff.look)
        elif isinstance(step, Hash):
            self._in_thread(self._need_handoff().hashes)
        else:
            self._in_thread(self._need_handoff().place, step.blobs)

    def _wait_for_a_turn(self) -> None:
        if self.in_bytes > _LARGE and self._desk.queued_bytes() + self.in_bytes > _MAX_QUEUED:
            self.go_on(Refusal("limit", f"{_MAX_QUEUED} bytes of calls that wait"))
        else:
            self._desk.queue.append(self)

    def _keep(self, step: Join | Settle | AskJob) -> None:
        if isinstance(step, AskJob):
            ask_job(self, self._desk.exchange.jobs, step, self._intent(step.arguments))
        elif isinstance(step, Settle):
            self._need_kept().settle(step.ending)
        else:
            self._kept = Kept(self, self._desk.exchange.guard, self._desk.exchange.effects)
            self._kept.join(step)

    def _enter(self, step: Enter) -> None:
        desk = self._desk
        left_s = desk.usage.timeout_s - (desk.exchange.clock() - self.started)
        who = (desk.agent, desk.session, desk.route, self.tool)
        self._let_in = LetIn(desk.exchange.policed, self.go_on)
        self._let_in.ask(Entering(*who, step.arguments, desk.scope, step.paths, step.files, left_s))

    def _intent(self, arguments: Mapping[str, Any]) -> Intent:
        files = tuple(self._handoff.handed) if self._handoff is not None else ()
        whose = (self.caller, self.session, self._desk.route, self.tool)
        return Intent(*whose, arguments, files, self._desk.usage.timeout_s, key=self.ask.key)

    def progress(self, progress: float, total: float | None) -> None:
        """A connector's progress, passed on as ``Teller`` tells it."""
        token = self.ask.token
        if token is None or self.over:
            return
        self._teller = self._teller or Teller(token, self._desk.exchange.clock)
        if (line := self._teller.tell(progress, total)) is not None:
            self._client.report(line)

    def done(self, reply: Reply) -> None:
        """The answer to the sent call."""
        if self.over:
            return
        self._number = None
        heard = reply if self._let_in is None else self._let_in.told(reply)
        if type(heard) is Refusal and heard.own:
            self._unanswered(heard)
        self.go_on(heard)

    def _unanswered(self, refusal: Refusal) -> None:
        self._desk.exchange.unanswered(self._desk.route.instance, self.tool.name, refusal)

    def expire(self) -> None:
        """The deadline passed: the agent is told, the connector is told to stop."""
        if type(self._step) is not Settle:  # it has ended, and its end is being written down
            was_out = self._number is not None
            proof: NoEffect = "" if self._halt() else "unsent"
            late = Refusal("unavailable", f"no end within {self._desk.usage.timeout_s:g} s", no_effect=proof)
            if was_out and not proof:
                self._unanswered(late)
            self.go_on(late)

    def cancel(self) -> None:
        """The agent gave the call up: stop, and say nothing. What may have an effect goes on."""
        if self._kept is not None and self._kept.attempt:
            self._drift(None)
            return
        self._halt()
        self._law.close()
        self._end(None)

    def abandon(self, why: str) -> None:
        """Its session ends: the agent is told that nobody answers, the connector is told to stop. What may
        have an effect goes on.
        """
        if self._kept is not None and self._kept.attempt:
            self._drift(answers.failure(self.ask, UNKNOWN))
            return
        code = UNKNOWN if type(self._step) is Join else "unavailable"
        self._halt()
        self._law.close()
        self._end(Refused(code, diagnostic=why))

    def _drift(self, line: bytes | None) -> None:
        """The agent is told for the last time; the call itself goes on to its end."""
        client, self._client = self._client, NOBODY
        self._desk.exchange.adrift.add(self)
        self._need_kept().drift()
        client.answered(self.ask.id, line)

    def _lane_came(self, lane: Lane | Refusal) -> None:
        step = self._step
        if self.over or not isinstance(step, Send | HandOver | Begin):
            return  # late: the call has ended meanwhile
        if isinstance(lane, Refusal):
            self.go_on(replace(lane, no_effect="unsent"))
        elif isinstance(step, HandOver):
            self._hand_over(lane, step)
        elif isinstance(step, Begin):
            self._begin(lane, step)
        else:
            self._lane = lane
            self._step = None
            self._number = lane.send(step.tool, step.arguments, self, step.max_bytes)

    def _begin(self, lane: Lane, step: Begin) -> None:
        if self._held is None:
            self._held = lane
            lane.hold()
        self._need_kept().begin(self._intent(step.arguments))

    def _hand_over(self, lane: Lane, step: HandOver) -> None:
        try:
            self._need_handoff().attach(lane.inbox, lane.outbox)
        except OSError:
            self.go_on(Refusal("unavailable", "the connector ended before its files were handed over"))
            return
        self._lane = self._held = lane
        lane.hold()
        self._fill(step)

    def _stage(self, step: HandOver) -> None:
        try:
            self._need_handoff().attach(*self._desk.exchange.jobs.staging())
        except OSError as error:
            self.go_on(Refusal("unavailable", f"the job's files cannot be kept: {error.strerror}"))
            return
        self._fill(step)

    def _fill(self, step: HandOver) -> None:
        handoff = self._need_handoff()
        if step.hashed:
            self._in_thread(handoff.fill_hashed, step.decided)
        else:
            self._in_thread(handoff.fill)

    def _in_thread(self, work: Callable[..., object], *args: object) -> None:
        self._working = True
        step = self._step
        told = self._desk.exchange.threads.submit(self.caller, outcome_of, work, args)
        future = asyncio.wrap_future(told)
        future.add_done_callback(lambda done: self._worked(step, done))

    def _worked(self, step: Step | None, future: "asyncio.Future[object]") -> None:
        self._working = False
        if self.over:
            self._give_back()
        elif self._step is step:  # else it was late: what it comes to is being written down
            self.go_on(future.result())

    def _halt(self) -> bool:
        """Stop whatever the call is at; nothing of it comes back. False: it never went out."""
        has_gone_out = type(self._step) is Place
        if self._number is not None and self._lane is not None:
            has_gone_out = self._lane.cancel(self._number) is not False  # only its word proves the contrary
            self._number = None
        if self._handoff is not None:
            self._handoff.wanted = False
        if type(self._step) is Turn and self in self._desk.queue:
            self._desk.queue.remove(self)
        return has_gone_out

    def _end(self, outcome: Outcome | None) -> None:
        self.over = True
        desk, ask = self._desk, self.ask
        if self._kept is not None:
            self._kept.leave(outcome, heard=self._client is not NOBODY)
            desk.exchange.adrift.discard(self)
        if self._let_in is not None:
            self._let_in.leave()
        self.handed = self._handoff or ()
        desk.exchange.running -= 1
        self._client.answered(ask.id, tasks.ended(ask, outcome, self.seen) if outcome else None)
        if type(outcome) is Answer:
            desk.note(self, "ok", len(outcome.structured))
        elif type(outcome) is Refused:
            desk.note(self, outcome.code, 0, outcome.diagnostic or outcome.detail)
        else:
            desk.note(self, CANCELLED, 0)
        if self._handoff is not None or self._held is not None:
            self._give_back()
        desk.next_turn()

    def _give_back(self) -> None:
        if self._held is not None:
            self._held.release()
            self._held = None
        if not self._working and self._handoff is not None:
            self._desk.exchange.threads.submit(self.caller, self._handoff.settle)
            self._handoff = None

    def _need_handoff(self) -> HandOff:
        return needed(self._handoff, "the law handed files over without looking at them")

    def _need_kept(self) -> Kept:
        return needed(self._kept, "the law began an effect without joining")
