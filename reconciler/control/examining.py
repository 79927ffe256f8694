"""A connector examined: every case of what it implements, through a router and a sandbox of its own.

No controller is needed and none is disturbed: supervisor, dispatcher and router are those of one, made for
the length of the examination in folders that are gone afterwards. Only what is installed for python
connectors is shared with the controller's state, since it takes minutes to install.
"""

import asyncio
import fcntl
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

import anyio

from reconciler.admission import absent
from reconciler.admission.admit import Admission
from reconciler.builtin.shell import Grounds
from reconciler.conformance import cases
from reconciler.conformance.cases import Case, Outcome
from reconciler.control import agentjobs, caserun, looking, proving, speakers, troubles
from reconciler.control.adding import AddingDispatcher
from reconciler.control.agentjobs import AgentRunner
from reconciler.control.caserun import Asking, CaseRunner, Suite
from reconciler.control.dialects import Dialects
from reconciler.control.dispatch import Dispatcher
from reconciler.control.effects import LedgerEffects
from reconciler.control.examcallees import ExamCallees
from reconciler.control.jobs import LedgerJobs
from reconciler.control.journal import Journal
from reconciler.control.leaving import Leaving
from reconciler.control.place import Place
from reconciler.control.runners import assembled
from reconciler.control.troubles import Meddler
from reconciler.control.within import InnerLane, Within
from reconciler.model import loglines
from reconciler.model.calls import CallRecord, Refusal
from reconciler.model.effects import Effects, Unkept
from reconciler.model.inventory import Resource
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.model.recipes import Pinned, Recipe
from reconciler.model.resources import Binding, Connector
from reconciler.model.status import InstanceSeen
from reconciler.plan import making
from reconciler.router.server import Router
from reconciler.runtime.resolving import Resolver
from reconciler.runtime.supervisor import RuntimeFolders, Supervisor

_PREFIX, _HELD = "handler-check-", "held"  # of an examination's folder, and the file in it that is locked
_LONGEST_RUN = 60  # bytes of the folder that sockets lie in: their paths are short
_LOG = 4000  # characters of its log that are told
_TURNS = 500  # ten milliseconds each, for a side of a socket to see that the other is gone
_ELSEWHERE = re.compile(r"[;:]? `handler logs \S+` says more")  # of a log that a check does not leave
_WORDS_S = 1.0  # how long a call's record is waited for, where it may say more


class Unfit(Exception):  # noqa: N818 - a fact, in words for a person
    """What was named cannot be examined in this release; the text says why."""


@dataclass(frozen=True, slots=True)
class Exam:
    """What is examined, and by which suites."""

    recipe: Recipe
    code: Pinned
    suites: tuple[Suite, ...]
    sources: dict[str, dict[str, bytes]]  # the files of each version, by NAME/vN


@dataclass(frozen=True, slots=True)
class Ground:
    """Whose secrets are found, and where environments are kept. ``ledger`` is the state folder in which the
    attempts of cases with effects are kept; None: no such case is asked.
    """

    config: Path
    environments: Path
    ledger: Path | None = None


class Listener(Protocol):
    """Who hears how an examination goes."""

    def step(self, words: str) -> None:
        """Something takes its time: what."""
        ...

    def begins(self, version: str, case: Case) -> None: ...

    def ended(self, version: str, case: Case, outcome: Outcome, faults: tuple[str, ...]) -> None: ...


def exam(admission: Admission, binding: str) -> Exam:
    """What there is to examine of a binding in force. Raises ``Unfit``."""
    form = cast("Resource[Binding]", admission.in_force[ObjectRef(Kind.BINDING, binding)])
    ref = ObjectRef(Kind.CONNECTOR, form.spec.connector or "")
    connector = cast("Resource[Connector]", admission.in_force[ref])
    if lacking := [*absent.needed(connector), *absent.needed(form)]:
        raise Unfit(f"{ref} cannot run in this release: not built: {', '.join(lacking)}")
    if form.spec.cassette is not None and form.spec.cassette.mode == "replay":
        raise Unfit(f"{form.ref} plays a cassette back: what it answers proves nothing of {ref}")
    found, sources = [], {}
    for version in connector.spec.implements:
        suite = caserun.suite_of(admission, version, form.spec)
        if suite is None:
            raise Unfit(f"{version}, which {ref} implements, is not in force")
        found.append(suite)
        sources[version] = dict(admission.in_force[ObjectRef(Kind.INTERFACE, version)].files)
    base = making.base(connector, making.profiles_of(admission, connector))
    recipe = making.recipe(form, base, state="none", kit=looking.kit_digest())
    return Exam(recipe, base.code, tuple(found), sources)


def unasked(suite: Suite, case: Case, *, effects: bool = False) -> str:
    """Why a case may not be asked, or "". ``effects``: somebody allowed them."""
    tool = suite.contract.tools[case.tool]
    if tool.effect != "none" and not effects:
        return f"{case.tool} has the effect '{tool.effect}': --allow-effects asks it for real"
    return ""


class Bench:
    """One instance that stands ready to be asked."""

    def __init__(self, rooms: "_Rooms", name: InstanceName, records: "_Records") -> None:
        self._rooms = rooms
        self.name = name
        self._records = records

    async def start(self) -> Refusal | None:
        """Have it answer its first question: None, or why it did not."""
        return await proving.started(self._rooms.dispatcher, self.name)

    async def ask_all(self, suite: Suite, wanted: tuple[Case, ...], listener: Listener) -> None:
        """Ask cases of one suite in order and judge each. OSError: they cannot be asked."""
        version = str(suite.contract.interface)
        async with self._rooms.runner.opened(suite, self.name, "check") as asking:
            for case in wanted:
                listener.begins(version, case)
                seen = self._records.count
                outcome = await asking.ask(case)
                faults = cases.judge(case, outcome)
                if (
                    faults
                    and outcome.error == "unavailable"
                    and (why := await self._records.diagnostic(seen))
                ):
                    faults = (*faults, f"the call's record says: {_here(why)}")
                listener.ended(version, case, outcome, faults)

    def log(self) -> str:
        """What the connector printed last; secrets that it was given are not in it."""
        path = self._rooms.folders.state / "logs" / f"{self.name.binding}.log"
        try:
            text = path.read_text("utf-8", "replace")
        except OSError:
            return ""
        return "\n".join(line.text for line in loglines.lines(text))[-_LOG:].strip()

    @asynccontextmanager
    async def opened(self, suite: Suite) -> AsyncIterator[Asking]:
        """A door to it, for cases of one suite."""
        async with self._rooms.runner.opened(suite, self.name, "check") as asking:
            yield asking

    @property
    def meddler(self) -> Meddler:
        """What makes trouble with its calls."""
        return self._rooms.meddler

    async def drop(self) -> None:
        """Cut its connection, and wait until the router's side knows."""
        await self._rooms.meddler.drop()
        for _ in range(_TURNS):
            if self._rooms.dispatcher.lane(self.name) is None:
                return
            await asyncio.sleep(0.01)

    def forgive(self) -> None:
        """Let it start again at once: what ended it was on purpose."""
        self._rooms.supervisor.forgive(self.name)

    async def replaced(self, most_s: float) -> bool:
        """Wait until the process that runs now has ended; False where it has not within so many seconds."""
        pid = self._pid()
        with anyio.move_on_after(most_s):
            while pid is not None and self._pid() == pid:
                await self._rooms.stirred.next()
            return True
        return False

    def _pid(self) -> int | None:
        seen = self._rooms.supervisor.seen(self.name)
        return seen.pid if seen is not None else None

    async def walls(self) -> dict[str, str]:
        """Which walls stand around it. Raises ``walls.SandboxUnavailable``."""
        lane = self._rooms.dispatcher.lane(self.name)
        if isinstance(lane, InnerLane) and not getattr(lane, "is_contained", False):
            return {"sandbox": "none"}
        return dict((await self._rooms.supervisor.walls()).standing)


class _Records:
    """The records of the calls, as far as they have come: the router writes many at once, a little later."""

    def __init__(self) -> None:
        self.count = 0
        self._last = ""
        self._came = asyncio.Event()

    def add(self, record: CallRecord) -> None:
        self.count += 1
        self._last = record.diagnostic
        self._came.set()

    async def diagnostic(self, seen: int) -> str:
        """What the record of the last call says beyond its code; ``seen`` records were there before it."""
        with anyio.move_on_after(_WORDS_S):
            while self.count <= seen:
                self._came.clear()
                await self._came.wait()
        return self._last if self.count > seen else ""


@dataclass(frozen=True, slots=True)
class _Rooms:
    """What was made for one examination."""

    folders: RuntimeFolders
    supervisor: Supervisor
    dispatcher: Dispatcher
    runner: CaseRunner
    meddler: Meddler
    stirred: "_Stirred"


class _Stirred:
    """The next change of an instance, for whoever waits for it."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def now(self) -> None:
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def next(self) -> None:
        await self._event.wait()


class _Kept:
    """The ledger of an examination, where effects are allowed."""

    def __init__(self, state: Path | None, recipe: Callable[[InstanceName], Recipe | None]) -> None:
        self._recipe = recipe
        self._ledger = LedgerEffects(state, time.time, owns=False) if state is not None else None
        self._apart: LedgerEffects | None = None
        self._relaying: asyncio.Future[None] | None = None
        self._tending = asyncio.ensure_future(self._ledger.run()) if self._ledger is not None else None

    @property
    def effects(self) -> Effects:
        return self._ledger or Unkept()

    def spoken(self, leaving: Leaving, supervisor: Supervisor, journal: Journal) -> Dialects:
        """Who speaks for what has no process; what its calls cost is kept like any other effect."""
        effects = self._ledger or self._own(supervisor)
        return speakers.examined(leaving, effects, supervisor, journal=journal, recipe=self._recipe)

    def jobs(self, supervisor: Supervisor, dialects: Dialects, within: Within) -> LedgerJobs:
        """Who does the jobs of cases: a ledger of the examination's own has them, so that no controller
        takes them for its.
        """
        effects = self._own(supervisor)
        jobs, _, runners = assembled(supervisor, self._recipe, effects)
        speakers.do_jobs(runners, dialects, jobs, effects.state)
        callees = ExamCallees(supervisor.folders)
        within.listed = callees.listed
        agents = AgentRunner(jobs, callees, lambda name, who: supervisor.log(name).speaker(who), self._recipe)
        agents.ready.set()
        agentjobs.register(runners, agents)
        self._relaying = asyncio.ensure_future(jobs.run())
        return jobs

    def _own(self, supervisor: Supervisor) -> LedgerEffects:
        if self._apart is None:
            self._apart = LedgerEffects(supervisor.folders.state, time.time)
        return self._apart

    async def close(self) -> None:
        for one in (self._tending, self._relaying):
            if one is not None:
                one.cancel()
        for ledger in (self._ledger, self._apart):
            if ledger is not None:
                await ledger.close()


@asynccontextmanager
async def standing(exam: Exam, ground: Ground, listener: Listener) -> AsyncIterator[Bench]:
    """Lay everything out for one examination, and nothing of it stays but what was installed."""
    with _folders(ground) as folders:
        stirred = _Stirred()

        def heard(seen: InstanceSeen) -> None:
            if seen.phase == "building":
                listener.step(seen.message)
            stirred.now()

        journal = Journal(folders.state, time.time)
        leaving = Leaving(journal)
        supervisor = Supervisor(
            folders,
            event=heard,
            kit=looking.KIT,
            way_out=leaving.serve,
            secrets=Resolver(ground.config),
            gate=leaving.serve_gate,
        )
        kept = _Kept(ground.ledger, lambda name: exam.recipe)
        dialects = kept.spoken(leaving, supervisor, journal)
        try:
            records = _Records()
            kill = troubles.killing(lambda one: seen.pid if (seen := supervisor.seen(one)) else None)
            meddler = Meddler(supervisor, kill, _longest(exam))
            dispatcher = AddingDispatcher(meddler, recipe=lambda name: exam.recipe, ours=supervisor.ours)
            dispatcher.within.join(dialects, Grounds(*supervisor.grounds))
            leaving.serves = dispatcher.serves
            router = Router(dispatcher, record=records.add, now=time.time, clock=time.monotonic)
            router.keep_effects(kept.effects)
            router.keep_jobs(kept.jobs(supervisor, dialects, dispatcher.within))
            runner = CaseRunner(router, folders.run, token=lambda: secrets.token_hex(6), clock=time.monotonic)
            name = await supervisor.declare(exam.recipe, exam.code)
            while (seen := supervisor.seen(name)) is not None and seen.phase == "building":
                await stirred.next()
            yield Bench(_Rooms(folders, supervisor, dispatcher, runner, meddler, stirred), name, records)
            await meddler.drop()
        finally:
            dialects.close()
            await supervisor.close()
            await leaving.close()
            await kept.close()
            journal.close()


def _longest(exam: Exam) -> int:
    """More bytes than any answer of its interfaces may have."""
    most = max((suite.contract.spec.limits.max_output_bytes for suite in exam.suites), default=0)
    return 3 * most + 2**20


@contextmanager
def _folders(ground: Ground) -> Iterator[RuntimeFolders]:
    """A state and a run folder that are gone afterwards, the one with the environments that are kept."""
    whole = Path(tempfile.mkdtemp(prefix=_PREFIX))
    if len(os.fsencode(whole)) > _LONGEST_RUN:
        whole.rmdir()
        whole = Path(tempfile.mkdtemp(prefix=_PREFIX, dir="/tmp"))
    sweep(whole.parent)
    held = _held(whole / _HELD, os.O_CREAT)
    try:
        ground.environments.mkdir(mode=0o700, parents=True, exist_ok=True)
        state, run = whole / "s", whole / "r"
        state.mkdir(mode=0o700)
        run.mkdir(mode=0o700)
        (state / "envs").symlink_to(ground.environments.resolve(), target_is_directory=True)
        ours = Place.of(ground.config).surroundings().forbidden
        yield RuntimeFolders(state, run, tuple(map(Path, ours)))
    finally:
        _take_away(whole)
        if held is not None:
            os.close(held)


def sweep(place: Path) -> None:
    """Take away what examinations left that were killed: their folders are held by nobody any more."""
    for left in place.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            found = left.lstat()
            if found.st_uid != os.geteuid() or not stat.S_ISDIR(found.st_mode):
                continue
            if (held := _held(left / _HELD, 0)) is not None:
                _take_away(left)
                os.close(held)


def _take_away(whole: Path) -> None:
    """The file that says whose it is goes last: what one leaves who is killed here, the next takes away."""
    for inner in (whole / "s", whole / "r", whole):
        shutil.rmtree(inner, ignore_errors=True)


def _held(path: Path, flags: int) -> int | None:
    """A descriptor that holds a file for as long as this process lives; None where another holds it."""
    held = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        return None
    return held


def _here(why: str) -> str:
    """A diagnostic without the command that shows a binding's log: a check tells the end of its own."""
    return _ELSEWHERE.sub("", why)
