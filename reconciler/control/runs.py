"""Carries out runs of chains: what the engine asks, asked of tools, models, people and the clock.

Each run is one task. An answer is on the disk before the next ask is carried out, so a controller that is
killed anywhere goes on with the same ask under the same name when it is back: effects and questions to people
are known by that name and happen once. A run belongs to an agent and calls as a session of it.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from reconciler.chains import engine, flow, speaking, state
from reconciler.chains.asks import Ask, AskApproval, AskModel, AskSleep, AskTool, AskTools
from reconciler.chains.engine import Finished, Run
from reconciler.chains.history import History
from reconciler.chains.ports import Asker, Models, NoModels
from reconciler.chains.replies import (
    Cancelled,
    Decided,
    ModelFailed,
    ModelSaid,
    Reply,
    Slept,
    TimedOut,
    ToolFailed,
)
from reconciler.chains.retrying import ErrorClass
from reconciler.chains.state import Laws
from reconciler.control import approvals, runapprovals, runjobs, runtools
from reconciler.control.approvals import Approvals
from reconciler.control.doorkeeper import Doorkeeper
from reconciler.control.exposition import Family, counted
from reconciler.control.runfiles import Head, RunFiles, State
from reconciler.control.runlive import Live
from reconciler.control.scripted import Scripted
from reconciler.model import approvals as policies
from reconciler.model.contract import arguments_fault
from reconciler.model.routes import RouteTable
from reconciler.model.turns import Event, TextDelta, ThinkingDelta
from reconciler.router.server import Pinned, Router

_LOG = logging.getLogger("handler.runs")
BUILT_IN = "built-in"  # a run's word for its policy where the one that there is, is refused
_KEEP_S = 3600.0  # so often sessions of runs are kept from ending for a day without a call
_LONGEST_WHY = 300  # characters of a fault that is kept
_GOING: tuple[State, ...] = ("running", "waiting_approval", "waiting_service")
MOST_LIVE = 200  # runs at once, those that wait included


class Unrunnable(Exception):  # noqa: N818 - a verdict in words
    """A run that cannot be begun or resumed; the text says why and what to do."""


class Classes(Protocol):
    """Who knows of which class what is said in a session is."""

    def class_of(self, session: str, agent: str) -> str: ...

    def mark(self, session: str, class_name: str) -> None: ...


@dataclass
class Rooms:
    """Whom runs are carried out by."""

    router: Router
    keeper: Doorkeeper
    table: Callable[[], RouteTable]
    approvals: Callable[[], Approvals]
    models: Models = field(default_factory=NoModels)
    jobs: runjobs.Jobs = field(default_factory=runjobs.NoJobs)
    classes: Classes | None = None


@dataclass(frozen=True, slots=True)
class Wish:
    """A run that is asked for: an admitted chain, its input and settings, for an agent."""

    begun: dict[str, Any]  # chain, input, settings, policy, script
    chain: str
    agent: str
    above: tuple[str, ...] = ()  # the agents on whose behalf, the first one first
    class_name: str = ""  # of what they said; "": nothing is known of it


def tokens(text: str) -> int:
    """How many tokens a text has, at most: nobody knows each model's own way to count."""
    return (len(text.encode()) + 2) // 3


class Runs:
    """The runs of one controller. All methods are for the loop's own thread."""

    def __init__(self, state_folder: Path, rooms: Rooms, now: Callable[[], float]) -> None:
        """``now`` is the wall clock, in seconds since 1970."""
        self.files = RunFiles(state_folder)
        self.rooms = rooms
        self.live: dict[str, Live] = {}
        self.ready = asyncio.Event()  # sessions of before are open again, and there are routes
        self._now = now
        self._turn = asyncio.Lock()  # of two that resume one run, the second finds it going
        self._closing = False
        self._counted: dict[str, int] = {}
        self._counting = asyncio.Lock()
        self._epoch = secrets.token_hex(4)

    def counts(self) -> dict[str, int]:
        """How many runs go on, by state."""
        states = [live.head.state for live in self.live.values()]
        return {state: states.count(state) for state in _GOING}

    def families(self) -> Iterator[Family]:
        """The same, as metrics."""
        found: dict[tuple[str, ...], float] = {(state,): count for state, count in self.counts().items()}
        told = "Runs of chains that go on: at work, waiting for a person, waiting for a job."
        yield counted("handler_runs", told, ("state",), found, kind="gauge")

    async def _count(self) -> None:
        async with self._counting:  # one after another, or an older number could be the one that stays
            if (counts := self.counts()) != self._counted:
                self._counted = counts
                await asyncio.to_thread(self.files.going, counts)

    # begin and end

    async def run(self) -> None:
        """Go on with what an earlier controller left, once it is ``ready``; until cancelled."""
        await self.ready.wait()
        for head in await asyncio.to_thread(self.files.heads):
            if not head.is_over and head.state != "stopped" and head.id not in self.live:
                try:
                    await self.resume(head.id)
                except (Unrunnable, OSError) as fault:
                    _LOG.warning("run %s is not resumed: %s", head.id, fault)
                    await self._left(head.id, str(fault))
        await self._count()  # an earlier controller's number counts those that stand still now
        while True:
            await asyncio.sleep(_KEEP_S)
            for live in self.live.values():
                self.rooms.keeper.keep(live.head.session)

    async def close(self) -> None:
        """Stop all runs where they are; the next controller goes on with them."""
        self._closing = True
        tasks = [one.task for one in self.live.values() if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def start(self, wish: Wish) -> Live:
        """Begin a run: it is on the disk when this returns. Raises ``Unrunnable``, OSError."""
        if len(self.live) >= MOST_LIVE:
            raise Unrunnable(f"{MOST_LIVE} runs go on already: wait, or cancel some ('handler runs list')")
        run_id = wish.begun["settings"]["run"]
        scripted = wish.begun.get("script") is not None
        head = Head(run_id, wish.chain, wish.agent, self._now(), scripted=scripted, above=wish.above)
        run = _resumed(wish.begun, [])
        head = replace(head, session=await self._session(head))
        try:
            if self.rooms.classes is not None:
                self.rooms.classes.mark(head.session, wish.class_name)
            await asyncio.to_thread(self.files.begin, head, wish.begun)
        except OSError:
            await self.rooms.keeper.close(head.session)
            raise
        return self._going(head, run, wish.begun)

    async def resume(self, run: str) -> Live:
        """Go on with a run that is on the disk. Raises ``Unrunnable``, OSError."""
        async with self._turn:
            head = await self._idle(run)
            if isinstance(head, Live):
                return head
            begun, resumed = await self._read(head)
            head = replace(head, state="running", waits_for="", message="", session=await self._session(head))
            await asyncio.to_thread(self.files.put, head)
            told = [one.to_json() for one in resumed.events]
            await asyncio.to_thread(lambda: self.files.tell(head.id, told, anew=True))
            return self._going(head, resumed, begun)

    async def _idle(self, run: str) -> Head | Live:
        """A run that is not over: as it goes, or how it stands where nobody carries it on."""
        head = None
        for _ in range(2):  # one that went when it was read may have ended since: then it is read again
            head = await asyncio.to_thread(self.files.head, run)
            if head is not None and (live := self.live.get(head.id)) is not None:
                return live
        if head is None:
            raise Unrunnable(f"there is no run {run[:40]!r}: 'handler runs list' lists them")
        if head.is_over:
            raise Unrunnable(f"run {head.id} is over: it {head.state}")
        return head

    async def _read(self, head: Head) -> tuple[dict[str, Any], Run]:
        """What a run began with, and where its answers led it; one that cannot be read has failed."""
        try:
            begun = await asyncio.to_thread(self.files.begun, head.id)
            answers = await asyncio.to_thread(self.files.answers, head.id)
            return begun, _resumed(begun, answers)
        except Exception as fault:
            if isinstance(fault, OSError) and not isinstance(fault, FileNotFoundError):
                raise  # the disk, which may come back
            why = (
                str(fault)
                if isinstance(fault, ValueError)
                else f"its files are not what a run leaves: {fault!r}"
            )
            ended = replace(
                head, state="failed", ended=self._now(), code="not_resumable", message=why[:_LONGEST_WHY]
            )
            await asyncio.to_thread(self.files.finish, ended, None)
            raise Unrunnable(f"run {head.id} cannot go on: {ended.message}") from None

    async def _left(self, run: str, why: str) -> None:
        """Say of a run that nobody carries on that it stands still, where it is not over."""
        with suppress(Unrunnable, OSError):
            head = await self._idle(run)
            if isinstance(head, Head):
                await asyncio.to_thread(self.files.put, replace(head, state="stopped", message=why))

    async def cancel(self, run: str) -> Head:
        """End a run; what it began that has an effect goes on. Raises ``Unrunnable``, OSError."""
        async with self._turn:
            live = await self._idle(run)
            if isinstance(live, Head):
                self._withdrawn(live.waits_for)
                head = replace(live, state="cancelled", ended=self._now(), waits_for="", code="cancelled")
                await asyncio.to_thread(self.files.finish, head, None)
                await self.rooms.keeper.close(head.session)
                return head
        live.cancel()
        if live.carrying is not None:
            live.carrying.cancel()
        self._withdrawn(live.head.waits_for)
        if live.task is not None:
            await asyncio.wait([live.task], timeout=5)
        return live.head

    def _withdrawn(self, question: str) -> None:
        """Answer a question of a run that is cancelled: nobody waits for it any more."""
        if question:
            with suppress(approvals.Refused, OSError):
                self.rooms.approvals().answer(question, "its run was cancelled", agreed=False)

    async def _session(self, head: Head) -> str:
        """The session that a run calls in: its own of before, where that is still open, or a new one."""
        if any(one.id == head.session for one in self.rooms.keeper.sessions()):
            return head.session
        table = self.rooms.table()
        routes = table.agents.get(head.agent)
        if routes is None:
            raise Unrunnable(f"agent {head.agent!r} has no session to run in: 'handler get agents' says why")
        session = (await self.rooms.keeper.open(routes, table, None, head.above)).id
        if head.session and (classes := self.rooms.classes) is not None:  # it has read what it has read
            classes.mark(session, classes.class_of(head.session, head.agent))
        return session

    def _going(self, head: Head, run: Run, begun: dict[str, Any]) -> Live:
        live = self.live[head.id] = Live(head, run, self._epoch)
        live.script = begun.get("script")
        live.task = asyncio.get_running_loop().create_task(self._carry_on(live))
        return live

    # the way of one run

    async def _carry_on(self, live: Live) -> None:
        try:
            while (ask := live.run.ask) is not None:
                reply = await self._carried(live, ask)
                line = live.run.advance(reply, datetime.now(UTC))
                await asyncio.to_thread(self.files.answer, live.head.id, line)
                self._tell(live)
            await self._over(live)
        except OSError as fault:  # it cannot be written down: nothing more is done that could be lost
            why = f"it cannot be written down: {fault.strerror or fault}"
            _LOG.error("run %s stops: %s", live.head.id, why)
            live.head = replace(live.head, state="stopped", message=why)
            with suppress(OSError):
                await asyncio.to_thread(self.files.put, live.head)
        except Exception as fault:  # noqa: BLE001 - one broken run must not end the controller
            _LOG.exception("run %s broke", live.head.id)
            live.head = replace(
                live.head, state="stopped", message=f"a fault of the controller: {type(fault).__name__}"
            )
            with suppress(OSError):
                await asyncio.to_thread(self.files.put, live.head)
        finally:
            if self.live.pop(live.head.id, None) is not None and not self._closing:
                await self._count()
            live.stir()

    def _tell(self, live: Live) -> None:
        if new := live.fresh():
            self.files.tell(live.head.id, new)
        live.stir()

    async def _over(self, live: Live) -> None:
        outcome, output = live.run.outcome, None
        head = replace(live.head, ended=self._now(), waits_for="", steps=len(live.run.units))
        if isinstance(outcome, Finished):
            head, output = replace(head, state="completed"), output_of(outcome)
        elif outcome is not None:
            ended: Any = "cancelled" if outcome.code == "cancelled" else "failed"
            head = replace(head, state=ended, code=outcome.code, message=outcome.message, task=outcome.task)
        self._tell(live)
        await asyncio.to_thread(self.files.finish, head, output)
        live.head = head
        await self.rooms.keeper.close(head.session)

    async def _put(self, live: Live, head: Head) -> None:
        live.head = head
        await asyncio.to_thread(self.files.put, head)
        await self._count()
        live.stir()

    async def _carried(self, live: Live, ask: Ask) -> Reply:
        """The answer to an ask: its own, or that its time is over, or that the run is cancelled."""
        if live.is_cancelled():
            return Cancelled()
        task = asyncio.get_running_loop().create_task(self._asked(live, ask))
        live.carrying = task
        try:
            deadline = getattr(ask, "deadline", None)
            left = None if deadline is None else max(0.0, deadline.timestamp() - self._now())
            done, _ = await asyncio.wait([task], timeout=left)
            if not done:
                task.cancel()
                await asyncio.wait([task])
                if live.is_cancelled():
                    return Cancelled()
                await self._put(live, replace(live.head, state="running", waits_for=""))
                return TimedOut()
            if task.cancelled():
                if live.is_cancelled():
                    return Cancelled()
                raise asyncio.CancelledError
            return task.result()
        finally:
            live.carrying = None
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def _asked(self, live: Live, ask: Ask) -> Coroutine[Any, Any, Reply]:
        match ask:
            case AskTools():
                return self._tools(live, ask)
            case AskTool():
                return self._service(live, ask)
            case AskModel():
                return self._model(live, ask)
            case AskApproval():
                return self._approval(live, ask)
            case AskSleep():
                return self._sleep(ask)

    async def _tools(self, live: Live, ask: AskTools) -> Reply:
        return runtools.found(ask, (await self._pinned(live)).routes, tokens)

    async def _tool(self, live: Live, ask: AskTool) -> Reply:
        try:
            pinned = await self._pinned(live)
        except (Unrunnable, OSError) as fault:
            return ToolFailed("refused", str(fault))
        return await runtools.called(ask, self.rooms.router, pinned, self.rooms.table())

    async def _service(self, live: Live, ask: AskTool) -> Reply:
        """A call; where it submits a job, what came of that, over whatever death of ours."""
        if live.head.job_ask != ask.id:
            said = await self._tool(live, ask)
            handle = runjobs.handle(ask, self.rooms.table().agents.get(live.head.agent), said)
            attempt = await self.rooms.jobs.attempt(handle, live.head.agent) if handle else ""
            if not attempt:
                return said
            await self._put(live, replace(live.head, job=attempt, job_ask=ask.id))
        attempt = live.head.job
        await self._put(live, replace(live.head, state="waiting_service", waits_for=attempt))
        await self.rooms.keeper.close(live.head.session)  # nothing is held while it waits
        handle = await self.rooms.jobs.over(attempt)
        await self._put(live, replace(live.head, state="running", waits_for=""))
        return await self._tool(live, runjobs.collecting(ask, handle))

    async def _pinned(self, live: Live) -> Pinned:
        """The session of a run, opened anew where it has ended meanwhile."""
        session = await self._session(live.head)
        if session != live.head.session:
            await self._put(live, replace(live.head, session=session))
        routes = next(one.serving for one in self.rooms.keeper.sessions() if one.id == session)
        return Pinned(session, routes)

    async def _sleep(self, ask: AskSleep) -> Reply:
        await asyncio.sleep(max(0.0, ask.until.timestamp() - self._now()))
        return Slept()

    async def _approval(self, live: Live, ask: AskApproval) -> Reply:
        async def waits(number: str) -> None:
            await self._put(live, replace(live.head, state="waiting_approval", waits_for=number))

        about = {"agent": live.head.agent, "run": live.head.id, "chain": live.head.chain}
        try:
            reply = await runapprovals.asked(self.rooms.approvals(), ask, about, waits=waits, now=self._now)
        except OSError as fault:
            _LOG.warning("run %s: nobody can be asked: %s", live.head.id, fault)
            reply = Decided("denied", "nobody could be asked")
        await self._put(live, replace(live.head, state="running", waits_for=""))
        return reply

    async def _model(self, live: Live, ask: AskModel) -> Reply:
        models = self.rooms.models
        if live.script is not None:
            models = Scripted(live.script, live.models_had)
        choice = speaking.chosen(ask, models.offered(live.head.agent))
        if isinstance(choice, ModelFailed):
            return choice
        pieces = 0

        def told(event: Event) -> None:
            nonlocal pieces
            if ask.kind == "route" or not isinstance(event, TextDelta | ThinkingDelta) or not event.text:
                return
            key = "content" if isinstance(event, TextDelta) else "thinking"
            pieces += 1
            live.piece({"kind": "step_chunk", "task_id": ask.task, key: event.text})

        asker = Asker(live.head.agent, live.head.session, ask.id)
        try:
            turn = speaking.turn(ask, choice.model, stream=choice.offered.facts.stream)
        except ValueError as fault:
            return ModelFailed(ErrorClass.PERMANENT, "bad_input", str(fault))
        said = await models.turn(asker, choice.offered.provider, turn, told=told, deadline=ask.deadline)
        reply: ModelSaid | ModelFailed = speaking.reply(ask, said, pieces)
        return reply


def _resumed(begun: dict[str, Any], answers: list[dict[str, Any]]) -> Run:
    """The run of what it began with and was answered. Raises ValueError, KeyError, TypeError."""
    written = begun.get("policy")
    own = policies.policy(written) if isinstance(written, dict) else policies.BUILT_IN
    whose = "policies/approval.toml" if isinstance(written, dict) else "the built-in policy"
    laws = Laws(tokens, state.judge_by(own), written is None, whose, arguments_fault)
    return engine.resumed({**begun, "answers": answers}, laws)


def output_of(finished: Finished) -> dict[str, Any]:
    """A run's result: its type, its data, and the text that a person reads."""
    value = finished.value
    data = value.data
    if isinstance(data, History):
        said = [one.content for one in data.messages if one.role == "assistant" and one.content.strip()]
        text = said[-1] if said else ""
    else:
        text = "" if data is None else flow.serialised(value)
    told = flow.to_json(value)
    return {"type": told["type"], "data": told["data"], "text": text, "task": finished.task}
