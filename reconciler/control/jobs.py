"""Jobs: submitted as rows of the ledger, done by runners that the relay tends, asked about by agents.

Implements ``model.jobs.Jobs``. A submit is durable before its handle is given away; sending it is the relay's
work, and everything after: nobody else sends, and a controller that dies loses nothing. A handle answers to
its own agent alone, in whatever session.
"""

import asyncio
import logging
import random
import secrets
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import orjson

from reconciler.attempts import identities, parcels
from reconciler.attempts.happenings import Checked, Collected
from reconciler.attempts.holdings import NoRoomError, Reserve
from reconciler.attempts.identities import Destination
from reconciler.attempts.ledger import ConflictError, Ledger, OvertakenError, Prepared
from reconciler.attempts.machine import ForbiddenError
from reconciler.attempts.papers import Papers
from reconciler.attempts.reconciling import By, Expired, FarEnd, Found, Reconciler, Sent, Unclear
from reconciler.attempts.records import Ack, Attempt, Execution, Idempotency, Request, State
from reconciler.attempts.relay import Relay
from reconciler.attempts.retention import kept_until
from reconciler.attempts.writing import Writing
from reconciler.control.effects import LedgerEffects, attempt_of
from reconciler.control.staging import Staging
from reconciler.model.calls import Refusal
from reconciler.model.effects import CONFLICT, UNKNOWN, Intent
from reconciler.model.jobs import JOB, JobSeen, Standing, What, companions
from reconciler.model.names import InstanceName

_LOG = logging.getLogger("handler.jobs")
_LOOK_S = 5.0  # between two looks at an attempt that a run of a chain waits for
Heard = Callable[[JobSeen | Refusal], None]


class CannotDraftError(ValueError):
    """No job can be made of these arguments; ``code`` is what the agent reads, the text is for operators."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


@dataclass(frozen=True, slots=True)
class Wish:
    """One job that is about to be kept. ``key`` gives the key that its far end may be shown."""

    intent: Intent
    attempt: str
    key: Callable[[str, Destination], str]  # by the request's digest and where it goes


@dataclass(frozen=True, slots=True)
class Draft:
    """A job as it will be sent: with what, which bytes (without a secret), by which key, until when.

    Bytes in pieces are read in a thread, before the submit is answered. A result that has files is fetched
    as a parcel (``attempts.parcels``): the answer is what it says, the files are by their properties.
    """

    execution: Execution
    request: Request  # its ``sealed_ref`` is set by the keeper, its ``input_digest`` may be empty
    sealed: bytes | Iterable[bytes]
    operation: str = ""
    idempotency: Idempotency = field(default_factory=Idempotency)
    deadline: float = 0.0
    reserve: tuple[Reserve, ...] = ()


class Runner(Reconciler, Protocol):
    """Who does the jobs of an instance: makes the bytes of a new one, and speaks to the far end of any."""

    async def draft(self, wish: Wish) -> Draft:
        """What would be sent; nothing is. Raises CannotDraftError."""
        ...


class Runners(Protocol):
    """Who does jobs. None: nobody (any more)."""

    def of(self, instance: InstanceName) -> Runner | None:
        """For a new job of an instance."""
        ...

    def behind(self, one: Attempt) -> Runner | None:
        """For an attempt that was made once, also when its binding is gone or another instance serves."""
        ...

    def progress(self, one: Attempt) -> float | None:
        """How far it is at this moment, 0 to 1, where that is known without asking anybody."""
        ...

    def over(self, one: Attempt) -> None:
        """Its end is in the ledger."""
        ...

    async def collected(self, one: Attempt, session: str) -> None:
        """A session is about to get its result. Raises OSError where that cannot be."""
        ...


class LedgerJobs:
    """The jobs of one controller. All methods are for the loop's own thread."""

    def __init__(self, effects: LedgerEffects, now: Callable[[], float], runners: Runners) -> None:
        """``effects`` has the ledger; ``runners`` says who does the jobs of an instance, None: nobody."""
        self._staging = Staging(effects.state / "staging")
        self.staging = self._staging.descriptors
        self.staged = self._staging.path
        self.writing = effects.writing  # the ledger, opened when it is first asked for
        self._effects = effects
        self.now = now
        self._runners = runners
        self._install = ""
        self._first = asyncio.Event()  # there is a ledger to look after
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: dict[str, set[asyncio.Event]] = {}  # runs of chains, by the attempt that they wait for
        self._owed: set[str] = set()  # attempts to be looked at again once the relay is done with them
        self.stir: Callable[[], None] = lambda: None  # something is due: the relay looks at once

    async def run(self) -> None:
        """Look after attempts that nobody holds, once there is a ledger; until cancelled."""
        if not self._effects.exists():
            await self._first.wait()
        writing = await self._effects.found()
        far = _Far(self._runners)
        relay = Relay(writing, far, self._effects.holder, clock=self.now, chance=random.random)
        relay.moved, relay.trouble, self.stir = self._moved, _trouble, relay.stir
        await relay.run(orphans=True)

    def _moved(self, one: Attempt) -> None:
        self._effects.recount()
        if one.is_over or one.parked:
            for heard in self._waiting.get(one.id, ()):
                heard.set()
        if one.is_over:
            self._owed.discard(one.id)
            self._runners.over(one)
        elif one.id in self._owed and not one.lease_until:
            self._keep(self.due(one.id))

    async def attempt(self, handle: str, agent: str) -> str:
        """The attempt behind a handle of an agent; "" where there is none."""
        one = await (await self.writing()).run(lambda ledger: ledger.by_handle(handle, agent))
        return one.id if one is not None else ""

    async def over(self, attempt: str) -> str:
        """Wait until an attempt is over, or parked for a person; its handle, "" where it is kept no more."""
        heard = asyncio.Event()
        waiting = self._waiting.setdefault(attempt, set())
        waiting.add(heard)
        try:
            while True:
                heard.clear()
                with suppress(OSError):  # a disk that is full today
                    one = await (await self.writing()).run(lambda ledger: ledger.get(attempt))
                    if one is None or one.is_over or one.parked:
                        return one.handle if one is not None else ""
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_S):  # a person's word comes by no relay
                        await heard.wait()
        finally:
            waiting.discard(heard)
            if not waiting:
                self._waiting.pop(attempt, None)

    async def due(self, attempt: str) -> None:
        """Have the relay look at an attempt at once, or again where it is at it just now: what it hears then
        may be from before.
        """
        self._owed.add(attempt)

        def look(ledger: Ledger) -> bool:
            one = ledger.get(attempt)
            if one is None or one.is_over or one.state is State.PREPARED:
                return True
            if one.lease_until > self.now():
                return False
            with suppress(OvertakenError, ForbiddenError):
                ledger.apply(one, self.now(), Checked(0.0, "it ended"))
            return True

        with suppress(OSError):
            if await (await self.writing()).run(look):
                self._owed.discard(attempt)
            self.stir()

    def ask(self, what: What, intent: Intent, heard: Heard) -> None:
        """Submit a job, or ask about one."""
        work = self._submitted(intent) if what == "job" else self._asked(what, intent)
        self._keep(self._answered(work, heard))

    def find(self, handle: str, agent: str, heard: Heard) -> None:
        """How the job of a handle stands, whichever tool it is of."""
        self._keep(self._answered(self._found(handle, agent), heard))

    async def _found(self, handle: str, agent: str) -> JobSeen | Refusal:
        if not self._effects.exists():
            return _NOT_YOURS
        one = await (await self.writing()).run(lambda ledger: ledger.by_handle(handle, agent))
        return _NOT_YOURS if one is None or one.kind != "job" else self._live(one)

    def _live(self, one: Attempt) -> JobSeen:
        seen = _seen(one)
        live = self._runners.progress(one) if seen.state == "working" else None
        return seen if live is None else replace(seen, progress=live)

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answered(self, work: Coroutine[None, None, JobSeen | Refusal], heard: Heard) -> None:
        try:
            heard(await work)
        except CannotDraftError as fault:
            heard(Refusal(fault.code, str(fault)))
        except ConflictError as fault:
            heard(Refusal("refused", f"{CONFLICT}: {fault}"))
        except NoRoomError as fault:
            heard(Refusal("limit", str(fault)))
        except Exception as fault:  # noqa: BLE001 - whatever it is, the call is told of it
            if not isinstance(fault, OSError):
                _LOG.exception("a job could not be answered for")
            heard(Refusal("unavailable", f"the ledger: {fault}"))

    async def _submitted(self, intent: Intent) -> JobSeen | Refusal:
        runner = self._runners.of(intent.route.instance)
        if runner is None:
            return Refusal("unavailable", "nobody does the jobs of this binding")
        writing = await self.writing()
        self._first.set()
        if not self._install:
            chance = secrets.token_hex(16)
            self._install = await writing.run(lambda ledger: ledger.fact("install", chance))
        new = replace(
            attempt_of(intent, self._effects.home, self.now()), kind="job", grade="wire", lease_until=0.0
        )
        while True:
            kept, reserve = await self._drafted(runner, intent, new, writing)
            found = await writing.run(partial(_prepared, new=kept, reserve=reserve, now=self.now()))
            one = found.attempt
            if found.how != "known" or not _did_nothing(one):
                self._effects.recount()
                self.stir()
                return _seen(one)
            new = replace(new, id=_new_id(self.now()), generation=one.generation + 1)

    async def _drafted(
        self, runner: Runner, intent: Intent, new: Attempt, writing: Writing
    ) -> tuple[Attempt, tuple[Reserve, ...]]:
        def key(request_digest: str, to: Destination) -> str:
            named = (new.scope, new.call_key, new.generation)
            return identities.idem_key(self._install, named, request_digest, to)

        draft = await runner.draft(Wish(intent, new.id, key))
        outputs = [one.name for one in intent.tool.files if one.output]
        places = {name: intent.arguments[name] for name in outputs if name in intent.arguments}
        await writing.seal(new.id, draft.sealed)
        if places:
            pieces = (orjson.dumps(places),)
            await asyncio.to_thread(writing.papers.keep, "places", new.id, pieces)
        request = replace(draft.request, sealed_ref=new.id, input_digest=new.request.input_digest)
        kept = replace(
            new,
            execution=draft.execution,
            request=request,
            operation=draft.operation,
            idempotency=draft.idempotency,
            deadline=draft.deadline,
        )
        return kept, draft.reserve

    async def _asked(self, what: What, intent: Intent) -> JobSeen | Refusal:
        if not self._effects.exists():
            return _NOT_YOURS
        writing = await self.writing()
        handle, agent, now = str(intent.arguments[JOB]), intent.agent, self.now()

        def look(ledger: Ledger) -> Attempt | None:
            one = ledger.by_handle(handle, agent)
            asks = companions(one.tool).values() if one is not None else ()
            if one is None or one.interface != str(intent.route.interface) or intent.tool.name not in asks:
                return None
            if what == "cancel" and not one.is_over:
                one = ledger.ask_cancel(one.id, agent, now)
            has_it = what == "result" and not ledger.papers.has("places", one.id)
            if one.state is State.SUCCEEDED and (what == "kept" or has_it):
                with suppress(OvertakenError, ForbiddenError):
                    one = ledger.apply(one, now, Collected())
            return one

        one = await writing.run(look)
        if one is None:
            return _NOT_YOURS
        self._effects.recount()
        if what == "cancel":
            self.stir()
        seen = self._live(one)
        if seen.state != "succeeded" or what not in ("result", "files"):
            return seen
        return await self._given(seen, one, writing.papers, intent)

    async def _given(self, seen: JobSeen, one: Attempt, papers: Papers, intent: Intent) -> JobSeen | Refusal:
        """A job that succeeded, with its result; without, where a person found out that it happened."""
        if not one.ended.result_ref:
            return seen
        try:
            await self._runners.collected(one, intent.session)
            return await asyncio.to_thread(self._result, seen, one, papers, intent.handed)
        except FileNotFoundError:
            if self.now() < seen.kept_until:
                raise
            return Refusal("refused", "its result is kept no more")

    def _result(
        self, seen: JobSeen, one: Attempt, papers: Papers, wanted: Mapping[str, Any]
    ) -> JobSeen | Refusal:
        """What came of it; the files that are ``wanted`` are laid out in the staging folder."""
        parcel = parcels.opened(papers.path("results", one.ended.result_ref))
        for name, value in wanted.items():
            if name not in parcel.files:
                return Refusal("unavailable", f"there is no file of {name} in the result")
            self._staging.lay(str(value["blob"]), parcel.pieces(name))
        places: dict[str, str] = {}
        if not one.ended.collected_at and papers.has("places", one.id):
            places = orjson.loads(papers.read("places", one.id))
        return replace(seen, structured=orjson.dumps(parcel.said), files=places)


_NOT_YOURS = Refusal("refused", "there is no such job of this agent")


def _prepared(ledger: Ledger, *, new: Attempt, reserve: tuple[Reserve, ...], now: float) -> Prepared:
    """Runs in the ledger's thread. What was sealed in vain goes."""
    made = False
    try:
        found = ledger.prepare(new, now, reserve)
        made = found.how == "made"
    finally:
        if not made:
            with suppress(OSError):
                ledger.papers.drop("sealed", new.request.sealed_ref)
                ledger.papers.drop("places", new.id)
    return found


def _new_id(now: float) -> str:
    return identities.attempt_id(now, secrets.token_bytes(10))


def _did_nothing(one: Attempt) -> bool:
    return one.is_over and one.state is not State.SUCCEEDED and one.ended.effect in ("", "none")


def _seen(one: Attempt) -> JobSeen:
    """An attempt as its agent sees it: what is still looked after works, what is parked is unknown."""
    match one.state:
        case State.SUCCEEDED:
            state: Standing = "succeeded"
        case State.CANCELLED:
            state = "cancelled"
        case State.FAILED:
            state = "failed" if one.ended.effect != "unknown" else "unknown"
        case State.INDETERMINATE if one.parked:
            state = "unknown"
        case _:
            state = "working"
    error = {"failed": one.ended.code, "unknown": UNKNOWN}.get(state, "")
    return JobSeen(
        one.id,
        one.handle,
        state,
        one.provider.progress,
        error,
        tool=(one.interface, one.tool),
        made_at=one.entered[State.PREPARED],
        changed_at=max(*one.entered.values(), one.provider.seen_at),
        kept_until=kept_until(one),
    )


def _trouble(one: Attempt | None, error: Exception) -> None:
    _LOG.warning("%s cannot be looked after: %s", f"attempt {one.id}" if one else "the ledger", error)


class _Far:
    """The far ends of all attempts, each by the runner of its own instance."""

    def __init__(self, runners: Runners) -> None:
        self._runners = runners

    def _of(self, one: Attempt) -> Runner | None:
        if one.kind != "job":
            return None
        return self._runners.behind(one)

    def _need(self, one: Attempt) -> Runner:
        runner = self._of(one)
        if runner is None:
            raise LookupError(f"nobody does the jobs of {one.execution.instance} any more")
        return runner

    def far_end(self, one: Attempt) -> FarEnd | None:
        runner = self._of(one)
        return runner.far_end(one) if runner is not None else None

    async def lookup(self, one: Attempt, by: By) -> Found:
        return await self._need(one).lookup(one, by)

    async def permit(self, one: Attempt) -> str:
        return await self._need(one).permit(one)

    async def submit(self, one: Attempt) -> Sent:
        return await self._need(one).submit(one)

    async def cancel(self, one: Attempt) -> Ack:
        return await self._need(one).cancel(one)

    async def fetch(self, one: Attempt) -> Iterable[bytes] | Expired | Unclear:
        return await self._need(one).fetch(one)
