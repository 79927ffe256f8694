"""``agent/v1``: a job that another agent works on, by its command in its sandbox or by a chain.

A command works in a session of its own and ends with the controller: what one had under way that was killed
is not known, and is never begun again. A chain's run is on the disk, named after the attempt, so that the
next controller goes on with it, and a second one of that name cannot be. A wish to stop is carried out by
ending every process of the sandbox, or the run.
"""

import asyncio
import codecs
import hashlib
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import orjson

from reconciler.attempts import parcels
from reconciler.attempts.happenings import Absent, Accepted, Failed, NotSent, Seen, Stopped
from reconciler.attempts.holdings import Reserve
from reconciler.attempts.identities import Destination
from reconciler.attempts.reconciling import By, Expired, FarEnd, Finished, Found, Sent, Unclear
from reconciler.attempts.records import Ack, Attempt, Execution, Idempotency, Request
from reconciler.builtin.lane import RUNTIME
from reconciler.control import processes
from reconciler.control.callees import Callees, NotCalledError
from reconciler.control.jobs import CannotDraftError, Draft, LedgerJobs, Wish
from reconciler.control.runners import Registry
from reconciler.model.agentrun import Run
from reconciler.model.names import InstanceName
from reconciler.model.recipes import Recipe
from reconciler.runtime import worker
from reconciler.runtime.ringlog import Speaker
from reconciler.runtime.worker import Worker

NAME = "agent"  # the runner's, in an attempt's ``execution.executor``
RUNTIMES = frozenset({RUNTIME})
_COMMAND, _CHAIN = "command", "chain"  # an attempt's ``operation``
_INPUT = "{input}"
_CLASS = ".class"  # a file beside an answer's: no tool has one of that name
_MOST_WORD = 131_000  # bytes of one argument: the kernel takes 131,072
_MOST_PRINTED = 16 * 2**20
_MOST_TEXT = 900_000  # bytes of an answer that stand in the answer itself
_MOST_ESCAPED = (
    3_900_000  # bytes of it as JSON, where signs of control take six each; an answer has 4,000,000
)
_BEGINNING = 4_000  # bytes of it where the whole is in a file
_MOST_RESULT = 2 * _MOST_PRINTED
Logs = Callable[[str, str], Speaker]  # by binding and session: who prints on its account
Recipes = Callable[[InstanceName], Recipe | None]
_READ_S = 5.0  # less than the relay waits for a word
_GONE = "the controller that ran it ended, and every process of it with it"


class Chains(Protocol):
    """Who carries out runs of chains for called agents."""

    async def begin(self, run: str, chain: str, text: str, whose: "Whose") -> None:
        """Begin a run of that name, or find that it was begun. Raises ValueError: it cannot be begun so."""
        ...

    def seen(self, run: str) -> Mapping[str, Any] | None:
        """How it stands: ``state``, ``session``, ``code``, ``message``, and its ``text`` where it is
        completed; None where there is none of that name. Blocking.
        """
        ...

    async def over(self, run: str) -> None:
        """Return when it is not carried on any more."""
        ...

    async def cancel(self, run: str) -> None:
        """End it."""
        ...


@dataclass(frozen=True, slots=True)
class Whose:
    """For whom a called agent works: its name, who called it, and the class of what they said."""

    agent: str
    above: tuple[str, ...]
    class_name: str


@dataclass(slots=True)
class _Work:
    """One command while its processes are, and after until its result is kept."""

    session: str
    worker: Worker
    ended: asyncio.Event = field(default_factory=asyncio.Event)  # no process of it is left
    output: bytes = b""
    failed: Failed | None = None
    is_cancelled: bool = False


class AgentRunner:
    """Does the jobs of ``agent/v1``. Implements ``jobs.Runner``; for the loop's own thread."""

    def __init__(self, jobs: LedgerJobs, callees: Callees, logs: Logs, recipe: Recipes) -> None:
        self._jobs, self._callees, self._logs, self._recipe = jobs, callees, logs, recipe
        self.chains: Chains | None = None
        self.ready = asyncio.Event()  # there are routes
        self._works: dict[str, _Work] = {}  # by attempt
        self._watched: set[str] = set()  # chains whose end is waited for
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    # a new job

    async def draft(self, wish: Wish) -> Draft:
        """Whom it calls with what, and on whose behalf."""
        intent = wish.intent
        recipe = self._recipe(intent.route.instance)
        if recipe is None:
            raise CannotDraftError("unavailable", "the binding is being put in place")
        name, text = str(intent.arguments["agent"]), str(intent.arguments["input"])
        try:
            callee = self._callees.callee(intent.session, intent.agent, name)
            _need_fit(callee.run, text)
        except NotCalledError as fault:
            raise CannotDraftError(fault.code, str(fault)) from None
        said = {
            "caller": intent.agent,
            "agent": name,
            "input": text,
            "above": callee.above,
            "class": self._callees.class_of(intent.session, intent.agent),
            "output": "output" in intent.arguments,
        }
        how = _CHAIN if callee.run.chain else _COMMAND
        key = wish.key(wish.attempt, Destination("", name, ""))
        return Draft(
            Execution(intent.route.binding, str(intent.route.instance), recipe.connector, executor=NAME),
            Request(""),
            parcels.packed(said, {}),
            how,
            Idempotency(key, "natural" if how == _CHAIN else "none"),
            reserve=(Reserve(f"jobs:{recipe.binding}", 1, recipe.max_concurrent_calls),),
        )

    # what the relay asks

    def far_end(self, one: Attempt) -> FarEnd | None:
        """Whatever works here can be asked about."""
        ways: frozenset[By] = frozenset(("job-id", "key"))
        return FarEnd(ways, absence_is_proof=True, can_cancel=True, max_result_bytes=_MOST_RESULT)

    async def permit(self, one: Attempt) -> str:
        """Nothing leaves this machine by it; what the called agent sends has decisions of its own. It can
        begin when the configuration is read: until then nothing is said of it.
        """
        try:
            async with asyncio.timeout(_READ_S):
                await self.ready.wait()
        except TimeoutError:
            raise LookupError("the configuration is not read yet") from None
        return ""

    async def submit(self, one: Attempt) -> Sent:
        """Have the agent begin. What cannot begin was not sent."""
        try:
            said = await self._said(one)
            run = self._callees.still(said["caller"], said["agent"])
            if one.operation == _CHAIN:
                return await self._begun(one, said, run)
            return await self._started(one, said, run)
        except NotCalledError as fault:
            return NotSent(str(fault), fault.code)
        except OSError as fault:
            return NotSent(fault.strerror or str(fault))

    async def lookup(self, one: Attempt, by: By) -> Found:
        """How far it is, or how it ended."""
        if one.operation == _CHAIN:
            return await self._chain(one)
        work = self._works.get(one.id)
        if work is None:
            return Stopped("no process of it is left") if one.cancel.asked_at else _lost()
        if not work.ended.is_set():
            return Seen("running")
        if work.is_cancelled and one.cancel.asked_at:
            return Stopped("every process of it was ended")
        return work.failed or Finished()

    async def cancel(self, one: Attempt) -> Ack:
        """End every process of it, or its run."""
        if one.operation == _CHAIN:
            return await self._run_ended(_run(one))
        if (work := self._works.get(one.id)) is not None:
            if not work.ended.is_set():
                work.is_cancelled = True
                await work.worker.end()
                await work.ended.wait()
            return "proved" if work.is_cancelled else "refused"  # too late: it has answered
        return "proved"

    async def fetch(self, one: Attempt) -> Iterable[bytes] | Expired | Unclear:
        """What the agent answered, and of which class it is: its run may be gone when it is collected."""
        said = await self._said(one)
        name, _, session = one.provider.job_id.partition("/")
        if one.operation == _CHAIN:
            seen = await asyncio.to_thread(self._need_chains().seen, _run(one))
            if seen is None:
                return Expired("its run is kept no more")
            whole, session = str(seen.get("text", "")).encode(), str(seen["session"])
        else:
            work = self._works.get(one.id)
            if work is None:
                return Expired("its process is gone")
            whole = work.output
        return _answer(said, whole, self._callees.class_of(session, name))

    def over(self, one: Attempt) -> None:
        """Its end is in the ledger: what was kept for it goes."""
        work = self._works.pop(one.id, None)
        if work is not None and not work.ended.is_set():  # a person said so while it runs
            work.is_cancelled = True
            self._keep(work.worker.end())

    async def collected(self, one: Attempt, session: str) -> None:
        """A session gets what another agent answered: what it says from now on is of that class, too."""
        papers = (await self._jobs.writing()).papers
        path = papers.path("results", one.ended.result_ref)
        name, _, theirs = one.provider.job_id.partition("/")
        kept = await asyncio.to_thread(_class, path)
        for found in (kept or "", self._callees.class_of(theirs, name)):  # the higher one counts
            self._callees.mark(session, found)

    # a command

    async def _started(self, one: Attempt, said: Mapping[str, Any], run: Run) -> Sent:
        made = await worker.spawned()
        try:
            opener = processes.Process(made.pid, processes.start_time(made.pid) or 0)
            opened = await self._callees.open(said["agent"], opener, tuple(said["above"]))
            session = str(opened["session"])
            self._callees.mark(session, said["class"])
        except BaseException:
            await asyncio.shield(made.end())
            raise
        work = self._works[one.id] = _Work(session, made)
        command = [said["input"] if word == _INPUT else word for word in run.command or ()]
        order = orjson.dumps({"opened": opened, "command": command})
        self._keep(self._until_over(one, work, (order, said["input"].encode()), run.timeout_seconds))
        return Accepted(f"{said['agent']}/{session}", status="running")

    async def _until_over(
        self, one: Attempt, work: _Work, given: tuple[bytes, bytes], longest_s: float
    ) -> None:
        """Wait for its end, and have the relay look."""
        speaker = self._logs(one.execution.binding, work.session)
        try:
            async with asyncio.timeout(longest_s):
                ended = await work.worker.run(*given, _MOST_PRINTED, speaker.say)
            work.output, work.failed = ended.output, _failure(ended)
        except TimeoutError:
            work.failed = Failed("timed_out", f"no end within {longest_s:g} s", "happened")
        except Exception as fault:  # noqa: BLE001 - whatever it is, the job has an end
            work.failed = Failed("unavailable", f"{type(fault).__name__}: {fault}", "unknown")
        finally:
            await asyncio.shield(work.worker.end())
            if self._closing:
                work.failed = _lost()
            work.ended.set()
        if not self._closing:
            await self._callees.close(work.session)
            await self._jobs.due(one.id)

    # a chain

    async def _begun(self, one: Attempt, said: Mapping[str, Any], run: Run) -> Sent:
        whose = Whose(said["agent"], tuple(said["above"]), said["class"])
        try:
            await self._need_chains().begin(_run(one), run.chain or "", said["input"], whose)
        except ValueError as fault:
            return NotSent(str(fault), "failed")
        self._watch(one)
        return Accepted(f"{said['agent']}/{_run(one)}", status="running")

    async def _chain(self, one: Attempt) -> Found:
        seen = await asyncio.to_thread(self._need_chains().seen, _run(one))
        if seen is None:
            return Absent("there is no run of its name")
        match seen["state"]:
            case "completed":
                return Finished()
            case "cancelled" if one.cancel.asked_at:
                return Stopped("its run was ended")
            case "cancelled":
                return Failed("cancelled", "its run was ended by a person", "happened")
            case "failed":
                return Failed("failed", f"{seen['code']}: {seen['message']}", "happened")
            case state:
                self._watch(one)
                return Seen(str(state))

    async def _run_ended(self, run: str) -> Ack:
        """End a run that is not over; what came of that."""
        chains = self._need_chains()
        await chains.cancel(run)
        seen = await asyncio.to_thread(chains.seen, run)
        match seen["state"] if seen is not None else "cancelled":
            case "completed" | "failed":
                return "refused"  # too late
            case "cancelled":
                return "proved"
            case _:
                return "requested"

    def _watch(self, one: Attempt) -> None:
        if one.id not in self._watched:
            self._watched.add(one.id)
            self._keep(self._until_run_over(one))

    async def _until_run_over(self, one: Attempt) -> None:
        try:
            await self._need_chains().over(_run(one))
            await self._jobs.due(one.id)
        finally:
            self._watched.discard(one.id)

    def _need_chains(self) -> Chains:
        if self.chains is None:
            raise LookupError("nobody here carries out chains")
        return self.chains

    async def _said(self, one: Attempt) -> Mapping[str, Any]:
        """What was kept of it when it was submitted."""
        papers = (await self._jobs.writing()).papers
        path = papers.path("sealed", one.request.sealed_ref)
        return (await asyncio.to_thread(parcels.opened, path)).said

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """The controller ends, and what runs with it: the next one knows that nobody knows how."""
        self._closing = True
        for work in list(self._works.values()):
            with suppress(Exception):
                await work.worker.end()


def register(runners: Registry, runner: AgentRunner) -> None:
    """Let the runner do the jobs of what is part of the product."""
    runners.register(NAME, runner, RUNTIMES, over=runner.over)
    runners.collecting[NAME] = runner.collected


def _need_fit(run: Run, text: str) -> None:
    """A text that is one argument is short enough for the kernel, and none that a program takes for an
    option.
    """
    if _INPUT not in (run.command or ()):
        return
    if "\0" in text or text.startswith("-"):
        raise NotCalledError("input_not_accepted", "an argument that begins with '-', or holds NUL")
    if len(text.encode()) > _MOST_WORD:
        raise NotCalledError("input_not_accepted", f"an argument of more than {_MOST_WORD} bytes")


def _run(one: Attempt) -> str:
    """The name of the one run that may be of its key."""
    return hashlib.sha256(one.idempotency.key.encode()).hexdigest()[:24]


def _lost() -> Failed:
    return Failed("unavailable", _GONE, "unknown")


def _failure(ended: worker.Ended) -> Failed | None:
    if ended.cannot:
        return Failed("unavailable", f"its command did not begin: {ended.cannot}", "none")
    if ended.overflows:
        return Failed("too_large", f"it printed more than {_MOST_PRINTED} bytes", "happened")
    if ended.code:
        return Failed("failed", f"its command ended with {ended.code}", "happened")
    return None


def _answer(said: Mapping[str, Any], whole: bytes, class_name: str) -> Iterable[bytes]:
    """The answer, whole in its file where one was wished for, and its class where no caller looks."""
    most = min(_BEGINNING if said["output"] else _MOST_TEXT, len(whole))
    text = _text(whole, most)
    while len(orjson.dumps(text)) > _MOST_ESCAPED:
        most = most * 3 // 4
        text = _text(whole, most)
    answer = {"agent": said["agent"], "text": text, "bytes": len(whole), "isWhole": len(whole) <= most}
    files: dict[str, tuple[int, Iterable[bytes]]] = {
        _CLASS: (len(class_name.encode()), (class_name.encode(),))
    }
    if said["output"]:
        files["output"] = (len(whole), (whole,))
    return parcels.packed(answer, files)


def _class(path: Path) -> str | None:
    """Of which class an answer is that was kept; None where that was not kept with it."""
    parcel = parcels.opened(path)
    return b"".join(parcel.pieces(_CLASS)).decode() if _CLASS in parcel.files else None


def _text(whole: bytes, most: int) -> str:
    """As much of it as text; a sign that is cut in two goes."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return decoder.decode(whole[:most], final=len(whole) <= most)
