"""The executor: a job of a connector that is a process, done by one of its own, which ends with it.

Each job has its own sandbox, made of the binding's recipe and named after the attempt's key: a second one of
that name cannot be, and whether it runs is known here alone. The connector is asked once, by the tool that
submits, and answers with the job's result when it has it; its process is gone before that counts. A wish to
stop it is carried out by ending every process of it, which proves the end. With the controller all of it
ends: what an earlier one had under way is provably gone.
"""

import asyncio
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from reconciler.attempts import parcels
from reconciler.attempts.happenings import Absent, Accepted, Failed, NotSent, Seen, Stopped
from reconciler.attempts.holdings import Reserve
from reconciler.attempts.identities import Destination
from reconciler.attempts.reconciling import By, Expired, FarEnd, Finished, Found, Sent, Unclear
from reconciler.attempts.records import Ack, Attempt, Execution, Idempotency, Request
from reconciler.control.dispatch import Dispatcher, Instances
from reconciler.control.jobs import CannotDraftError, Draft, LedgerJobs, Wish
from reconciler.model.calls import Lane, Refusal, Reply, Result, Sink
from reconciler.model.contract import Tool
from reconciler.model.effects import UNKNOWN
from reconciler.model.names import InstanceName
from reconciler.model.recipes import Pinned, Recipe
from reconciler.model.routes import ScopeFolder

NAME = "process"
RUNTIMES = frozenset({"python", "command", "mcp", "deno", "image"})
_LONGEST_S = 6 * 3600.0  # of one run; a connector bounds itself where it knows better
_JOB = "JOB_UNIT"  # tells a connector that it does one job and no other
_LINE_FACTOR, _LINE_ROOM = 2.5, 64 * 1024  # as of any answer of a connector
_PIECE = 2**20
_LOST = ("unavailable", UNKNOWN)  # codes that may come of a call that got lost: they prove nothing
_GONE = "the controller that ran it ended, and every process of it with it"


class Rooms(Instances, Protocol):
    """The supervisor, as much of it as a job needs."""

    async def declare(self, recipe: Recipe, code: Pinned | None, *, aside: bool = False) -> InstanceName: ...

    async def end(self, name: InstanceName) -> None: ...


@dataclass(slots=True)
class _Run:
    """One job while its process is, and after until its result is kept. It is the sink of its one call."""

    attempt: str
    agent: str
    told: asyncio.Event
    number: int = 0
    most_bytes: int = 0  # of its result, files and all
    errors: frozenset[str] = frozenset()  # the codes that say that nothing happened
    lane: Lane | None = None
    done_part: float | None = None
    reply: Reply | None = None
    files: dict[str, tuple[int, int]] = field(default_factory=dict)  # by property: size, descriptor
    is_cancelled: bool = False
    is_over: bool = False  # its end is in the ledger
    ended: asyncio.Event = field(default_factory=asyncio.Event)  # no process of it is left
    why: str = ""
    wants_progress: bool = True
    scope: tuple[ScopeFolder, ...] = ()
    entry: str = ""
    session: str = ""

    @property
    def caller(self) -> str:
        return self.agent

    def progress(self, progress: float, total: float | None) -> None:
        """Only what has a whole is a part of it."""
        if total and 0 <= progress <= total:
            self.done_part = progress / total

    def done(self, reply: Reply) -> None:
        """The answer; what it left is opened while its folder is there."""
        if self.reply is not None:
            return
        self.reply = reply
        if isinstance(reply, Result) and self.lane is not None:
            try:
                for name, blob in reply.files.items():
                    self.files[name] = _left(self.lane.outbox, blob)
            except OSError as error:
                self.reply = Refusal("unavailable", f"its output file cannot be read: {error.strerror}")
        self.told.set()

    def close(self) -> None:
        for _, descriptor in self.files.values():
            os.close(descriptor)
        self.files = {}


class Executor:
    """Does jobs by processes. Implements ``jobs.Runner``; for the loop's own thread."""

    def __init__(
        self, rooms: Rooms, recipe: Callable[[InstanceName], Recipe | None], jobs: LedgerJobs
    ) -> None:
        """``recipe`` gives a declared instance's; ``jobs`` keeps the attempts and what was submitted."""
        self._rooms = rooms
        self._recipe = recipe
        self._jobs = jobs
        self._runs: dict[str, _Run] = {}
        self._recipes: dict[InstanceName, Recipe] = {}
        self._lanes: dict[InstanceName, Dispatcher] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def recipe(self, name: InstanceName) -> Recipe | None:
        """That of a job's own instance, while it is there."""
        return self._recipes.get(name)

    def serves(self, name: InstanceName, number: int) -> Sink | None:
        """Who waits for the answer of a job's call."""
        lanes = self._lanes.get(name)
        return lanes.serves(name, number) if lanes is not None else None

    def progress(self, one: Attempt) -> float | None:
        """How far a job is at this moment."""
        run = self._runs.get(_unit(one))
        return run.done_part if run is not None else None

    def over(self, one: Attempt) -> None:
        """Its end is in the ledger: what was kept for it goes."""
        run = self._runs.get(_unit(one))
        if run is None:
            return
        run.is_over = True
        if run.ended.is_set():
            self._drop(run, one)
        else:  # a person said so while it runs
            run.is_cancelled = True
            run.told.set()

    def _drop(self, run: _Run, one: Attempt) -> None:
        self._runs.pop(_unit(one), None)
        run.close()

    # a new job

    async def draft(self, wish: Wish) -> Draft:
        """All that a run is made of, in one paper: the recipe, the arguments, the files."""
        intent = wish.intent
        recipe = self._recipe(intent.route.instance)
        if recipe is None:
            raise CannotDraftError("unavailable", "the binding is being put in place")
        limits = intent.route.contract.spec.limits
        outputs = sum(one.output for one in intent.tool.files)
        longest = int(limits.max_output_bytes * _LINE_FACTOR) + _LINE_ROOM
        said = {
            "recipe": recipe.as_json(),
            "tool": intent.tool.name,
            "arguments": {**intent.arguments, **intent.handed},
            "longest": longest,
            "most": longest + outputs * limits.max_file_bytes,
            "errors": [one for one in intent.route.contract.errors if one not in _LOST],
        }
        inputs = {
            blob: (size, _pieces(self._jobs.staged(blob)))
            for blob, size in _inputs(intent.tool, intent.handed)
        }
        execution = Execution(
            intent.route.binding, str(intent.route.instance), recipe.connector, executor=NAME
        )
        key = wish.key(wish.attempt, Destination("", intent.tool.name, ""))
        return Draft(
            execution,
            Request(""),
            parcels.packed(said, inputs),
            intent.tool.name,
            Idempotency(key, "natural"),
            reserve=(Reserve(f"jobs:{recipe.binding}", 1, recipe.max_concurrent_calls),),
        )

    # what the relay asks

    def far_end(self, one: Attempt) -> FarEnd | None:
        """Everything about a process of ours can be known."""
        run = self._runs.get(_unit(one))
        most = run.most_bytes if run is not None else 0
        ways: frozenset[By] = frozenset(("job-id", "key"))
        return FarEnd(ways, absence_is_proof=True, can_cancel=True, max_result_bytes=most)

    async def permit(self, one: Attempt) -> str:
        """Nothing leaves this machine by it; what a connector sends the gate asks about."""
        return ""

    async def submit(self, one: Attempt) -> Sent:
        """Start it. What cannot be started was not sent."""
        unit = _unit(one)
        if unit in self._runs:
            return Accepted(unit, status="running")
        run = self._runs[unit] = _Run(one.id, one.owner.agent, asyncio.Event(), session=one.owner.session)
        try:
            name = await self._started(unit, run, one)
        except BaseException as error:
            self._runs.pop(unit, None)
            if isinstance(error, _NotStarted | OSError):
                return NotSent(str(error))
            raise
        self._keep(self._until_over(name, run, one))
        return Accepted(unit, status="running")

    async def lookup(self, one: Attempt, by: By) -> Found:
        """Where its process is, or how it ended."""
        run = self._runs.get(_unit(one))
        if run is None:
            return await self._gone(one)
        if not run.ended.is_set():
            return Seen("running", run.done_part)
        if isinstance(run.reply, Result):
            return Finished()
        if run.is_cancelled and one.cancel.asked_at:
            return Stopped("every process of it was ended")
        return await self._failed(run, one)

    async def _gone(self, one: Attempt) -> Found:
        if one.cancel.asked_at:
            return Stopped("no process of it is left")
        if one.provider.job_id:
            return Failed("unavailable", _GONE, "none" if await self._is_contained(one) else "unknown")
        return Absent("no process of it is there")

    async def cancel(self, one: Attempt) -> Ack:
        """End every process of it; too late once it has answered."""
        run = self._runs.get(_unit(one))
        if run is None:
            return "proved"
        if run.reply is None:
            run.is_cancelled = True
            run.told.set()
        await run.ended.wait()
        return "proved" if run.is_cancelled else "refused"

    async def fetch(self, one: Attempt) -> Iterable[bytes] | Expired | Unclear:
        """The answer and its files, which no process can change any more."""
        run = self._runs.get(_unit(one))
        if run is None or not isinstance(run.reply, Result):
            return Expired("its process is gone")
        files = {name: (size, _reread(number, size)) for name, (size, number) in run.files.items()}
        return parcels.packed(run.reply.structured, files)

    # one run

    async def _started(self, unit: str, run: _Run, one: Attempt) -> InstanceName:
        papers = (await self._jobs.writing()).papers
        parcel = await asyncio.to_thread(parcels.opened, papers.path("sealed", one.request.sealed_ref))
        own = _own(Recipe.from_json(parcel.said["recipe"]), unit)
        name = own.name
        self._recipes[name] = own
        try:
            await self._rooms.declare(own, None, aside=True)
            self._lanes[name] = Dispatcher(self._rooms, recipe=self._recipes.get)
            run.lane = await self._lane(name)
            await asyncio.to_thread(_fill, run.lane.inbox, parcel)
            said = parcel.said
            run.most_bytes = said["most"]
            run.errors = frozenset(said.get("errors", ()))
            run.number = run.lane.send(said["tool"], said["arguments"], run, said["longest"])
        except BaseException:
            await asyncio.shield(self._ended(name))
            raise
        return name

    async def _lane(self, name: InstanceName) -> Lane:
        came: asyncio.Future[Lane | Refusal] = asyncio.get_running_loop().create_future()
        self._lanes[name].open_lane(name, lambda lane: None if came.done() else came.set_result(lane))
        lane = await came
        if isinstance(lane, Refusal):
            raise _NotStarted(lane.diagnostic or lane.code)
        return lane

    async def _until_over(self, name: InstanceName, run: _Run, one: Attempt) -> None:
        """Wait for the answer, or for the wish to stop; then end what is left, and have the relay look."""
        try:
            async with asyncio.timeout(_LONGEST_S):
                await run.told.wait()
        except TimeoutError:
            run.why = f"no end within {_LONGEST_S / 3600:g} hours"
        await self._ended(name)
        if run.reply is None and not run.is_cancelled:
            run.reply = Refusal("unavailable", run.why or "it was ended")
        run.lane = None
        run.ended.set()
        if run.is_over:
            self._drop(run, one)
            return
        await self._jobs.due(one.id)

    async def _ended(self, name: InstanceName) -> None:
        """No process of it is left, nor anything that is kept for it."""
        try:
            await self._rooms.end(name)
        finally:
            self._lanes.pop(name, None)
            self._recipes.pop(name, None)

    async def _failed(self, run: _Run, one: Attempt) -> Failed:
        """An error of the interface's list says that nothing happened, as of a call; so does a sandbox that
        nothing leaves but by a file that was never put in place.
        """
        refusal = run.reply if isinstance(run.reply, Refusal) else Refusal("unavailable", run.why)
        is_none = refusal.no_effect or refusal.code in run.errors
        nothing = is_none or await self._is_contained(one)
        return Failed(refusal.code, refusal.diagnostic, "none" if nothing else "unknown")

    async def _is_contained(self, one: Attempt) -> bool:
        if one.effect != "local":
            return False
        try:
            papers = (await self._jobs.writing()).papers
            path = papers.path("sealed", one.request.sealed_ref)
            recipe = Recipe.from_json((await asyncio.to_thread(parcels.opened, path)).said["recipe"])
        except (OSError, KeyError, TypeError):
            return False
        return not recipe.egress and not recipe.folders

    def _keep(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _NotStarted(Exception):  # noqa: N818 - an answer: nothing was sent
    pass


def _unit(one: Attempt) -> str:
    """The name of the one run that may be of its key."""
    return f"hdl-{hashlib.sha256(one.idempotency.key.encode()).hexdigest()[:32]}"


def _own(recipe: Recipe, unit: str) -> Recipe:
    """The recipe of one job's own instance."""
    settings = tuple(sorted((*recipe.settings, (_JOB, unit))))
    return replace(recipe, settings=settings, max_concurrent_calls=1, cassette="")


def _inputs(tool: Tool, handed: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for one in tool.files:
        if not one.output and one.name in handed:
            value = handed[one.name]
            for file in value if isinstance(value, list) else (value,):
                yield file["blob"], file["size"]


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def _fill(inbox: int, parcel: parcels.Parcel) -> None:
    for blob in parcel.files:
        number = os.open(blob, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o440, dir_fd=inbox)
        with os.fdopen(number, "wb") as file:
            os.fchmod(number, 0o440)  # whatever the umask: the connector reads it by its group
            for piece in parcel.pieces(blob):
                file.write(piece)


def _left(outbox: int, blob: str) -> tuple[int, int]:
    """What a connector left: its size, and a descriptor. Raises OSError for what is not one plain file."""
    number = os.open(blob, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=outbox)
    found = os.fstat(number)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        os.close(number)
        raise OSError(0, "it is not one plain file")
    return found.st_size, number


def _reread(number: int, size: int) -> Iterator[bytes]:
    at = 0
    while at < size and (piece := os.pread(number, min(_PIECE, size - at), at)):
        at += len(piece)
        yield piece
