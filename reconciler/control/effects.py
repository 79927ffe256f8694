"""The router's way to the ledger: calls with an effect are kept before they are sent, and how they ended.

Implements ``model.effects.Effects``. The ledger is opened when the first such call comes, or at the start
where there is one already; then what an earlier controller left between "about to be sent" and "answered" is
INDETERMINATE at once: nobody here can know. Every write is the ledger thread's; the loop only hears of it.
"""

import asyncio
import hashlib
import logging
import secrets
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

import orjson

from reconciler.attempts import identities
from reconciler.attempts.happenings import (
    Accepted,
    Failed,
    Happening,
    Lost,
    NotSent,
    Refused,
    Submit,
    Succeeded,
    Withdrawn,
)
from reconciler.attempts.holdings import NoRoomError, Tally
from reconciler.attempts.ledger import LEASE_S, ConflictError, Ledger, OvertakenError, Prepared
from reconciler.attempts.machine import ForbiddenError
from reconciler.attempts.records import Attempt, Execution, Owner, Request, State
from reconciler.attempts.writing import RENEW_S, Writing
from reconciler.control.exposition import Family, counted
from reconciler.control.ledgers import Ledgers
from reconciler.model.calls import Refusal
from reconciler.model.effects import CONFLICT, REQUEST_KEY, UNKNOWN, Begun, Ending, Heard, Intent, Known
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.settings import Config

_LOG = logging.getLogger("handler.effects")
_PATIENCE_S = 5.0  # an agent waits so long for its call's end to be written down
_PATIENT = 0.9  # of a call's own time it waits for the same one's end
_LOOK_S = 1.0  # between two looks at one that another controller has
_AGAIN_S = 5.0  # between two tries to write what could not be written
_COUNT_S = 0.5  # after a change, before the counts of the status are drawn
_CHECK = "check/"  # begins the names of those whose calls are cases of a suite
_MOST_LEFT = 100_000  # attempts under way at once: far more than calls can be
_LEFT = "the controller that sent it ended before an answer came"


class LedgerEffects:
    """The attempts of one controller. All methods are for the loop's own thread."""

    def __init__(
        self, state: Path, now: Callable[[], float], *, owns: bool = True, ledgers: Ledgers | None = None
    ) -> None:
        """``state`` is where the ledger lies, or which says where; ``now`` gives seconds since 1970.
        ``owns``: the state folder's lock is ours, so whatever others left under way there is nobody's any
        more.
        """
        self.tallies: Mapping[str, Tally] = {}  # by binding: attempts that are not over
        self.changed: Callable[[], None] = lambda: None  # told when those are others
        self.home = ""  # what its holders' names begin with, once the ledger is open
        self._run = secrets.token_hex(8)
        self.state = state
        self.ledgers = ledgers or Ledgers(state)
        self._owns = owns
        self.now = now
        self._told: str | None = None  # a wish for another ledger that was heard
        self._opening: asyncio.Task[Writing] | None = None
        self._writing: Writing | None = None
        self._open: dict[str, Attempt] = {}  # begun and not settled, as the ledger has them
        self._waiting: dict[str, list[Callable[[], None]]] = {}  # who waits for an attempt's end, by its id
        self._unwritten: dict[str, tuple[Attempt, Ending]] = {}
        self._counting: asyncio.TimerHandle | None = None
        self._quiet = asyncio.Event()  # nothing is under way
        self._quiet.set()
        self._jobs: set[asyncio.Task[None]] = set()

    # the ledger

    @property
    def holder(self) -> str:
        """The name of this run, by which its attempts are held."""
        return self.home + self._run

    def exists(self) -> bool:
        """Whether there is a ledger: a file is made when the first effect is asked for."""
        return self._writing is not None or self.ledgers.exists()

    async def start(self) -> None:
        """Where there is a ledger, settle what an earlier controller left. To be awaited before any door
        opens; a ledger that cannot be used is said in the log, and no effect is served.
        """
        if self.exists():
            try:
                await self.writing()
            except OSError as error:
                _LOG.error("calls with effects are refused: %s", error)

    async def found(self) -> Writing:
        """The ledger, as soon as there is one that can be used; tries again until then."""
        while True:
            try:
                return await self.writing()
            except OSError:  # said where it was opened, and to each call
                await asyncio.sleep(_AGAIN_S)

    def follow(self, settings: Config) -> None:
        """The settings say which ledger is wanted; one that is open stays until the controller's end."""
        if self.ledgers.settings() is None:
            return  # nobody says: the one that was used last stays
        wanted = settings.ledger
        if self._writing is not None and (wanted.url or "") != self.ledgers.used and wanted.url != self._told:
            _LOG.warning("[ledger] names another one: it counts from the controller's next start")
        self._told = wanted.url

    async def run(self) -> None:
        """Renew the leases of what is under way, and write what could not be written; until cancelled."""
        while True:
            await asyncio.sleep(min(RENEW_S, _AGAIN_S))
            if self._writing is None:
                continue
            with suppress(OSError):
                await self._writing.renew()
            for one, ending in list(self._unwritten.values()):
                del self._unwritten[one.id]
                self._write_end(self._writing, one, ending, lambda: None)

    async def close(self) -> None:
        """Write what waits, and let go of the file."""
        if self._counting is not None:
            self._counting.cancel()
        if self._opening is not None and not self._opening.done():
            with suppress(OSError):
                await asyncio.shield(self._opening)
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                await self._quiet.wait()  # connectors were stopped: calls end in the loop's next rounds
        if self._writing is not None:
            await self._writing.close()
            self._writing = None

    async def writing(self) -> Writing:
        """The ledger, opened when it is first asked for. Raises OSError when it cannot be used."""
        if self._writing is not None:
            return self._writing
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._opened())
        try:
            self._writing = await asyncio.shield(self._opening)
        except BaseException:
            if self._opening.done():
                self._opening = None  # the next call tries again
            raise
        return self._writing

    async def _opened(self) -> Writing:
        self.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        ledger = await asyncio.to_thread(self.ledgers.open)
        if why := await asyncio.to_thread(self.ledgers.remembered):
            _LOG.warning("%s", why)
        self.home = ledger.home
        writing = Writing(ledger, self.now)
        left = await writing.run(self._settle_left) if self._owns else []
        for one in left:
            what = f"{one.tool} of binding {one.execution.binding}"
            _LOG.warning("nobody knows whether %s happened: attempt %s", what, one.id)
        self._count_soon(writing)
        return writing

    def _settle_left(self, ledger: Ledger) -> list[Attempt]:
        """Runs in the ledger's thread. Jobs are the relay's to look after, not ours."""
        left = []
        for one in ledger.listing(_MOST_LEFT, only_open=True):
            if one.kind != "call" or one.holder == self.holder or not one.holder.startswith(self.home):
                continue
            if one.state is State.SUBMITTING:
                said = Lost(_LEFT, parked=True)
                left.append(ledger.apply(one, self.now(), said, actor=self.holder))
            elif one.state is State.PREPARED:
                withdrawn = Withdrawn("unavailable", "its controller ended before it was sent")
                ledger.apply(one, self.now(), withdrawn, actor=self.holder)
        return left

    # what the router asks for

    def begin(self, intent: Intent, heard: Heard) -> None:
        """Keep that a call is about to be sent."""
        if self._writing is None:
            self._keep(self._begin_later(intent, heard))
        else:
            self._begin(self._writing, intent, heard)

    async def _begin_later(self, intent: Intent, heard: Heard) -> None:
        try:
            writing = await self.writing()
        except Exception as error:  # noqa: BLE001 - whatever it is, the call is told of it
            heard(_refusal(error))
        else:
            self._begin(writing, intent, heard)

    def _begin(self, writing: Writing, intent: Intent, heard: Heard, until: float = 0.0) -> None:
        new = attempt_of(intent, self.holder, self.now())
        until = until or asyncio.get_running_loop().time() + _PATIENT * intent.timeout_s

        def kept(outcome: "Attempt | _UnderWay | Known | Refusal | Exception") -> None:
            if isinstance(outcome, Attempt):
                self._open[outcome.id] = outcome
                self._quiet.clear()
                writing.hold(outcome, lambda: _LOG.error("attempt %s was taken over", outcome.id))
                self._count_soon(writing)
                heard(Begun(outcome.id))
            elif isinstance(outcome, _UnderWay):
                self._wait(outcome, lambda: self._begin(writing, intent, heard, until), heard, until)
            elif isinstance(outcome, Exception):
                heard(_refusal(outcome))
            else:
                heard(outcome)

        guards = intent.tool.effect != "local"
        writing.later(lambda ledger: _prepared(ledger, new, self.now(), guards=guards), kept)

    def _wait(self, one: "_UnderWay", again: Callable[[], None], heard: Heard, until: float) -> None:
        """The same wish is under way by another call: ask again when that has ended, here or elsewhere."""
        loop = asyncio.get_running_loop()
        left_s = until - loop.time()
        if left_s <= 0:
            heard(Refusal(UNKNOWN, f"the same call is under way, as attempt {one.attempt}"))
            return
        waiting = self._waiting.setdefault(one.attempt, [])

        def look() -> None:
            timer.cancel()
            if look in waiting:
                waiting.remove(look)
                if not waiting:
                    self._waiting.pop(one.attempt, None)
                again()

        timer = loop.call_later(min(_LOOK_S, left_s), look)
        waiting.append(look)

    def settle(self, attempt: str, ending: Ending, heard: Callable[[], None]) -> None:
        """Keep how a call ended; whoever waits hears of it in some seconds, written or not."""
        one = self._open.pop(attempt, None)
        if one is None or self._writing is None:
            heard()
            return
        if not self._open:
            self._quiet.set()
        self._writing.let_go(attempt)
        waiting = [heard]

        def told() -> None:
            if waiting:
                waiting.pop()()

        timer = asyncio.get_running_loop().call_later(_PATIENCE_S, told)

        def written() -> None:
            timer.cancel()
            told()

        self._write_end(self._writing, one, ending, written)

    def _write_end(self, writing: Writing, one: Attempt, ending: Ending, written: Callable[[], None]) -> None:
        def kept(outcome: Attempt | Exception) -> None:
            if isinstance(outcome, OvertakenError | ForbiddenError):
                _LOG.error("how attempt %s ended is not kept: %s", one.id, outcome)
            elif isinstance(outcome, Exception):
                _LOG.warning("how attempt %s ended is not kept yet: %s", one.id, outcome)
                self._unwritten[one.id] = (one, ending)
            self._count_soon(writing)
            written()
            for look in list(self._waiting.pop(one.id, ())):
                look()

        writing.later(lambda ledger: _ended(ledger, one, ending, self.now()), kept)

    # what a status says

    def recount(self) -> None:
        """Attempts were moved by somebody else: draw the counts of the status soon."""
        if self._writing is not None:
            self._count_soon(self._writing)

    def jobs(self) -> Mapping[ObjectRef, Tally]:
        """The attempts of each binding that are not over, as they were last counted."""
        return {ObjectRef(Kind.BINDING, name): tally for name, tally in self.tallies.items()}

    def families(self) -> Iterator[Family]:
        """The same, as metrics."""
        found: dict[tuple[str, ...], float] = {}
        for name, tally in self.tallies.items():
            found[name, "open"], found[name, "indeterminate"] = tally.open, tally.indeterminate
        told = "Attempts at an effect that are not over, and those of them that nobody knows the outcome of."
        yield counted("handler_attempts", told, ("binding", "which"), found, kind="gauge")

    def _count_soon(self, writing: Writing) -> None:
        if self._counting is None:
            loop = asyncio.get_running_loop()
            self._counting = loop.call_later(_COUNT_S, self._count, writing)

    def _count(self, writing: Writing) -> None:
        self._counting = None

        def counted(outcome: dict[str, Tally] | Exception) -> None:
            if not isinstance(outcome, Exception) and outcome != self.tallies:
                self.tallies = outcome
                self.changed()

        writing.later(lambda ledger: ledger.tallies(), counted)

    def _keep(self, job: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(job)
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)


def attempt_of(intent: Intent, holder: str, now: float) -> Attempt:
    """The attempt of one call: whose bytes are sent is the connector's to say, so its grade is boundary."""
    route, tool = intent.route, intent.tool
    key = intent.key or intent.arguments.get(REQUEST_KEY)
    return Attempt(
        id=identities.attempt_id(now, secrets.token_bytes(10)),
        handle=identities.handle(secrets.token_bytes(16)),
        owner=Owner(intent.agent, intent.session),
        scope=identities.scope("", "", intent.agent),
        call_key=identities.call_key(key if isinstance(key, str) else None, secrets.token_bytes(16)),
        interface=str(route.interface),
        tool=tool.name,
        execution=Execution(route.binding, str(route.instance)),
        request=Request(
            _digest(intent),
            purpose="conformance" if intent.agent.startswith(_CHECK) else "",
            artifacts=tuple(
                {"property": name, "size": size, "sha256": sha} for name, size, sha in intent.files
            ),
        ),
        effect=cast(Literal["local", "paid", "external"], tool.effect),
        holder=holder,
        lease_until=now + LEASE_S,
        deadline=now + intent.timeout_s,
    )


def _digest(intent: Intent) -> str:
    files = [(name, sha) for name, _, sha in intent.files]
    try:
        return identities.input_digest(intent.tool.name, intent.arguments, files)
    except ValueError:  # a number that JSON's canonical form does not know
        text = orjson.dumps(intent.arguments, option=orjson.OPT_SORT_KEYS).decode()
        return identities.input_digest(intent.tool.name, {"": text}, files)


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """The same wish was made by another call, which has not ended."""

    attempt: str


def _prepared(
    ledger: Ledger, new: Attempt, now: float, *, guards: bool
) -> "Attempt | _UnderWay | Known | Refusal":
    """A row for the call, about to be sent; or what is known of the same call. Runs in the ledger's thread.

    What a local effect did can be looked at where it is: after one that got lost, the same may be asked anew.
    """
    found = ledger.prepare(new, now, guard=guards)
    while found.how == "known" and _did_nothing(found.attempt):
        found = ledger.prepare(_again(new, found.attempt), now, guard=guards)
    if found.how == "made":
        return ledger.apply(found.attempt, now, Submit())
    return _known(ledger, found)


def _did_nothing(one: Attempt) -> bool:
    return one.is_over and one.state is not State.SUCCEEDED and one.ended.effect in ("", "none")


def _again(new: Attempt, before: Attempt) -> Attempt:
    """A new wish under the same key, where what the earlier one asked for never happened."""
    return replace(new, generation=before.generation + 1)


def _known(ledger: Ledger, found: Prepared) -> _UnderWay | Known | Refusal:
    one = found.attempt
    if one.state in (State.PREPARED, State.SUBMITTING):
        return _UnderWay(one.id)
    if one.state is State.SUCCEEDED and one.ended.result_ref:
        try:
            return Known(one.id, "ok", ledger.papers.read("results", one.ended.result_ref))
        except OSError:
            return Refusal(UNKNOWN, f"attempt {one.id} happened, and its result is kept no more")
    return Refusal(UNKNOWN, f"the same call was made before, as attempt {one.id}, which is {one.state}")


def _ended(ledger: Ledger, one: Attempt, ending: Ending, now: float) -> Attempt:
    """How a call ended, as its attempt. Runs in the ledger's thread."""
    happened: tuple[Happening, ...]
    if ending.effect == "unknown":
        happened = (Lost(ending.cause, parked=True),)
    elif ending.effect == "none" and not ending.was_sent:
        happened = (NotSent(ending.cause, ending.code),)
    elif ending.effect == "none":
        happened = (Refused(ending.code, ending.cause),)
    elif ending.code != "ok":
        happened = (Accepted(), Failed(ending.code, ending.cause, "happened"))
    else:
        happened = (Accepted(), _succeeded(ledger, one, ending.structured))
    return ledger.apply(one, now, *happened)


def _succeeded(ledger: Ledger, one: Attempt, structured: bytes) -> Succeeded:
    """The answer is kept where the caller has a key to ask for it again; else the agent alone has it."""
    digest = f"sha256:{hashlib.sha256(structured).hexdigest()}"
    if one.call_key.startswith("key:"):
        digest, _ = ledger.papers.keep("results", one.id, [structured])
        return Succeeded(one.id, digest, len(structured))
    return Succeeded("", digest, len(structured))


def _refusal(error: Exception) -> Refusal:
    match error:
        case ConflictError():
            return Refusal("refused", f"{CONFLICT}: {error}")
        case NoRoomError():
            return Refusal("limit", str(error))
        case _:
            return Refusal("unavailable", f"nothing was sent: {error}")
