"""The loop: look, admit, desire, do, say; level-triggered, one look at a time.

Hints and the timed scan only say *look*; a look decides everything anew from what is there. Starting a
connector,
which may be slow, is its own task and holds nothing up. What cannot be done now is tried again with
back-off; a
fault of our own ends that look, not the controller, and is said as the condition ``InternalError``.
"""

import asyncio
import gc
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import TypeVar, assert_never

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from reconciler.admission.admit import Admission
from reconciler.control import hints, holding, revoked, rolling, rpc, say
from reconciler.control.aside import Aside
from reconciler.control.bad import Bad
from reconciler.control.dispatch import Dispatcher
from reconciler.control.doorkeeper import Doorkeeper
from reconciler.control.drift import Voice
from reconciler.control.ears import Ears
from reconciler.control.facts import Facts
from reconciler.control.findings import Grounds, Meant
from reconciler.control.harnessdrift import HarnessDrift
from reconciler.control.journal import Journal
from reconciler.control.lock import Lock
from reconciler.control.looking import Look, Looker, settings_in_force
from reconciler.control.proving import Demand, Prover
from reconciler.control.queue import Failed, Outcome, Queue, Wait
from reconciler.control.resync import Resync
from reconciler.control.retained import Retained
from reconciler.control.rolling import Rollback
from reconciler.control.source import Busy, Gone
from reconciler.control.speaking import Sayings, Speaker
from reconciler.control.status import Board
from reconciler.control.withdrawn import Withdrawn
from reconciler.model.identity import moved
from reconciler.model.names import InstanceName
from reconciler.model.recipes import Pinned, Recipe
from reconciler.model.resources import Config
from reconciler.model.routes import RouteTable
from reconciler.model.status import Condition, InstanceSeen, Reason, Summary
from reconciler.plan import diff, serving
from reconciler.plan.diff import Declare, Prove, Retire, Standing, Step, SwapRoutes
from reconciler.runtime.supervisor import Supervisor

_LOG = logging.getLogger("handler.loop")
_FLUSH_S = 0.5  # how long call records wait for others


_SYNCED = Condition("Synced", "True", "ReconcileSuccess")
_WAITS = Condition(
    "Synced",
    "False",
    "AwaitingApply",
    "the configuration changed: `handler diff` shows what, `handler apply` does it",
)
_BROKE_OFF = "a look broke off by a fault of handlerd: nothing is stopped, it tries again; its log says more"


class _World(Enum):
    """The key that means: decide everything anew."""

    WORLD = "world"


_WORLD = _World.WORLD
Key = _World | InstanceName
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Parts:
    """What the loop is given: everything that touches the world."""

    looker: Looker
    supervisor: Supervisor
    dispatcher: Dispatcher
    doorkeeper: Doorkeeper
    board: Board
    journal: Journal
    retained: Retained
    bad: Bad
    lock: Lock
    harnesses: HarnessDrift
    demand: Callable[[Look, str], Demand]  # what a new instance of a binding has to show


class Controller:
    """One configuration, made true for as long as ``run`` runs."""

    def __init__(
        self, parts: Parts, withdrawn: Withdrawn, frame: Summary, *, clock: Callable[[], float]
    ) -> None:
        """``frame`` says who controls what; ``clock`` is monotonic seconds."""
        self.parts = parts
        self._withdrawn = withdrawn
        self._clock = clock
        self._frame = frame
        self.table: RouteTable = serving.NOTHING
        self.look: Look | None = None
        self.serving = ""  # the revision that new sessions get
        self.looks = 0  # since the start
        self.ears = Ears()
        self._recipes: MutableMapping[InstanceName, Recipe] = {}  # declared to the supervisor
        self._prover = Prover(parts.dispatcher, parts.supervisor, parts.bad, self._not_proven)
        self._aside = Aside()
        self._queue: Queue[Key] = Queue()
        self._source = Condition("Synced", "Unknown", "Starting")
        self._wake = anyio.Event()
        self._speaker = Speaker(parts.board, Sayings(self.facts, self._framed, self._summary))
        self._blind = ""  # why only the timed scan finds changes, or ""
        self._hints: set[str] = set()
        self._done: tuple[object, ...] = ()  # what was brought about last: doing it twice does nothing
        self._pruned = False
        self._heard: dict[str, tuple[object, ...]] = {}  # the last news of each instance
        self._turn = anyio.Lock()
        self._tasks: TaskGroup | None = None  # or None until run
        self.resync: Resync | None = None  # or None until run

    async def run(self, stop: anyio.Event, listen: Callable[[], Awaitable[asyncio.Server]]) -> None:
        """Serve until ``stop`` is set. The first thing in force is what was admitted last; ``listen``
        opens the control socket, once there is something to answer with.
        """
        self.look = await anyio.to_thread.run_sync(self.parts.looker.first)
        self.table = self.parts.retained.load()
        await self.parts.doorkeeper.restore()
        await self._do(self.look)
        self._soon(_WORLD)
        control = rpc.ControlSocket(listen)
        await control.listen()
        self.resync = Resync(self._grounds(control), self._meant, Voice(self.parts.journal.event, self.speak))
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            for job in (self._watch, self._work, self._speaker.run, self._flush):
                tasks.start_soon(job)
            tasks.start_soon(self.resync.run, self._turn)
            await stop.wait()
            control.close()
            tasks.cancel_scope.cancel()

    async def now(
        self, *, explicit: bool = False, prune_all: bool = False, back_to: str | None = None
    ) -> Look | Busy | Gone:
        """Look at once and do what follows. ``explicit``: a person asked, so removals are not held back,
        but for what needs ``prune_all``.
        ``back_to``: an earlier revision is served instead ("": the previous one), as ``Looker.roll_back``.
        """
        async with self._turn:
            self.looks += 1
            rolled, began = self.parts.looker.rolling.current, time.time()
            paths, self._hints = frozenset(self._hints), set()
            held_by = None if explicit else self.parts.doorkeeper.in_use()
            found: Look | Busy | Gone
            if back_to is not None:
                found = await anyio.to_thread.run_sync(self.parts.looker.roll_back, back_to)
            else:
                look = partial(
                    self.parts.looker.look, held_by, () if explicit else paths, prune_all=prune_all
                )
                found = await anyio.to_thread.run_sync(look)
            if isinstance(found, Look):
                self.parts.board.look_began(began)
                self._tell_rolling(rolled, found)
                self._source = self._synced(found)
                before, generation = self.look, self.table.generation
                self._tell_of_what_waits(found)
                await self._do(found)
                if explicit:
                    self.try_again()
                    self._check_drift()
                if found.changed and before is not None:
                    self._tell(before.admission, found.admission)
                if self.table.generation != generation:
                    _LOG.info(
                        "generation %d serves, agents: %d", self.table.generation, len(self.table.agents)
                    )
                await self._settle(found)
            else:
                self._not_read(found)
            return found

    def _not_read(self, found: Busy | Gone) -> None:
        """Say why nothing was looked at; what serves goes on."""
        reason: Reason = "SourceBusy" if isinstance(found, Busy) else found.reason
        after = "it is read once that is over" if isinstance(found, Busy) else "nothing is stopped"
        words = f"{found.detail}; {after}"
        told = self.parts.looker.rolling.beside(words)
        if isinstance(found, Gone) and self._source.message != told:
            self.parts.journal.event("configuration", "Warning", reason, words)
        self._source = Condition("Synced", "False", reason, told)
        self._speaker.soon()

    async def _settle(self, found: Look) -> None:
        """Have on the disk what serves already, while that is being told."""
        looker = self.parts.looker
        if looker.admitted.unsettled:
            await self._speaker.head_start()
            await anyio.to_thread.run_sync(looker.settle)
            if looker.fault:
                self._source = self._synced(found)
                self._speaker.soon()

    def _tell_of_what_waits(self, found: Look) -> None:
        before = (self.look.held, self.look.flapping, self.look.proofs) if self.look else ({}, {}, {})
        for one in holding.news(before, (found.held, found.flapping, found.proofs)):
            self.parts.journal.event(*one)

    def _tell(self, before: Admission, after: Admission) -> None:
        """Events of a look that found something new: what is refused, what no longer is, which revision."""
        event = self.parts.journal.event
        for ref in sorted(moved(before.refused, after.refused)):
            problems = after.refused.get(ref)
            if problems is None:
                event(str(ref), "Normal", "Admitted", "it is refused no more")
            elif before.refused.get(ref) != problems:
                event(str(ref), "Warning", problems[0].reason, f"{problems[0].at}: {problems[0].what}")
        revision = after.inventory.revision
        notes = "".join(f" · {note}" for note in self.parts.looker.notes)
        event("configuration", "Normal", "ReconcileSuccess", f"{revision} is in force{notes}")
        _LOG.info("%s is in force, refused objects: %d", revision, len(after.refused))

    def _tell_rolling(self, before: Rollback | None, look: Look) -> None:
        """The event when a rollback began or ended."""
        revision = look.admission.inventory.revision
        if told := rolling.event(before, self.parts.looker.rolling.current, revision):
            self.parts.journal.event("configuration", *told)

    def _synced(self, look: Look) -> Condition:
        looker = self.parts.looker
        fault = looker.fault
        if fault:
            return Condition("Synced", "False", "ReconcileError", fault)
        if rolled := looker.rolling.condition(looker.attempted):
            return rolled
        if look.waits:
            return _WAITS
        if blocked := holding.condition(look.held):
            return blocked
        passed = looker.notes
        if not self._blind and not passed:
            return _SYNCED
        reason: Reason = "WatchDegraded" if self._blind else "ReconcileSuccess"
        return Condition("Synced", "True", reason, " · ".join((*filter(None, [self._blind]), *passed)))

    async def quietly(self, job: Callable[[], T]) -> T:
        """Run a job on a worker thread while nobody looks."""
        async with self._turn:
            return await anyio.to_thread.run_sync(job)

    def facts(self) -> Facts:
        """All that a status is drawn from, now."""
        assert self.look is not None  # noqa: S101 - set before anything can ask
        return Facts(
            admission=self.look.admission,
            desired=self.look.desired.table,
            serving=self.table,
            instances=self.parts.supervisor.observed(),
            unproven=dict(self._prover.unproven),
            held=self.look.held,
            flapping=self.look.flapping,
            proofs=self.look.proofs,
            drifted=self.resync.drift.objects if self.resync else {},
        )

    def _grounds(self, control: rpc.ControlSocket) -> Grounds:
        parts, looker = self.parts, self.parts.looker
        places = (parts.supervisor, parts.dispatcher, parts.doorkeeper, parts.board)
        lasting = (looker.admitted, parts.retained, control, parts.lock)
        return Grounds(*places, *lasting, parts.harnesses)

    def _meant(self) -> Meant:
        """What is meant to be there, for whoever looks for drift."""
        assert self.look is not None  # noqa: S101 - set before anybody looks
        return Meant(self.look, self._recipes, self._aside.joined(self.table), self._left)

    def _left(self) -> set[InstanceName]:
        """The instances that are being proven, or serve nobody from now on."""
        why = self._withdrawn.why
        return {name for name in self._recipes if name.binding in why} | self._prover.unproven.keys()

    def _check_drift(self) -> None:
        if self.resync is not None:
            self.resync.soon()

    def recipe(self, name: InstanceName) -> Recipe | None:
        """The recipe of a declared instance."""
        return self._recipes.get(name)

    def settled(self) -> bool:
        """True when the newest routes serve and nothing is being built or started."""
        if self.look is None or self._prover.unproven:
            return False
        proven = self._prover.proven
        return serving.serve(self.look.desired.table, self.table, proven) is self.table and not any(
            one.phase in ("building", "starting") for one in self.parts.supervisor.lively()
        )

    def stuck(self) -> bool:
        """True when what does not serve yet is known to be bad: waiting is in vain."""
        return self._prover.is_stuck()

    def waiting(self) -> dict[str, str]:
        """What is still on its way, by object, and how far it is."""
        told = {f"binding/{name.binding}": trial.why for name, trial in self._prover.unproven.items()}
        for one in sorted(self.parts.supervisor.lively(), key=lambda one: one.name):
            if one.phase in ("building", "starting"):
                told[f"binding/{one.name.rpartition('@')[0]}"] = one.message or one.phase
        return told

    async def until_settled(self) -> None:
        """Return when ``settled`` holds, or will not; each word on the way is the occasion to look."""
        while not self.settled() and not self.stuck():
            await self._speaker.said()

    def session_changed(self, own: Recipe | None = None) -> None:
        """A session is over: what only it held may be retired. Or a call declares what is its ``own``."""
        if own is not None:
            self._recipes[own.name] = own
        self._soon(_WORLD)

    def instance_changed(self, seen: InstanceSeen) -> None:
        """The supervisor's news: say it; what only tells how far an installation is, is no event."""
        news = (seen.phase, seen.reason, seen.pid)
        if self._heard.get(seen.name) != news:
            self._heard[seen.name] = news
            self.parts.journal.instance(seen)
        self._speaker.soon()

    async def _do(self, look: Look) -> None:
        """Bring what runs to what is desired, by the steps of ``plan.diff``. Doing it twice does nothing."""
        self.look = look
        self.ears.looked()
        wanted, keeper = look.desired.table, self.parts.doorkeeper
        self.table = self._aside.follow(self.table, wanted, look.admission)
        prover, pinned = self._prover, {**keeper.recipes(), **self._aside.recipes}
        case = (look.admission, look.desired, look.proofs, keeper.in_use(), pinned, frozenset(prover.proven))
        if case == self._done and not prover.unproven:
            self.parts.retained.save(self._aside.joined(self.table), wanted)  # again, after a full disk
            self._speaker.soon()
            return
        steps = diff.steps(wanted, Standing(self._recipes, self.table, pinned, prover.proven))
        for step in steps:
            await self._take(step, look.desired.code)
        self._recipes = diff.declared(self._recipes, wanted)
        self.parts.retained.save(self._aside.joined(self.table), wanted)
        self._withdrawn.follow(look.admission, keeper.in_use(), look.proofs)
        keeper.take_withdrawn(self._withdrawn.told, self.parts.supervisor.observed())
        proofs = [step.name for step in steps if isinstance(step, Prove)]
        for name in prover.want({one: self.parts.demand(look, one.binding) for one in proofs}):
            self._soon(name)
        if prover.proven:
            prover.lapse(serving.to_prove(wanted, self.table, ()))
        self.parts.supervisor.revoke(revoked.revoked(look, self._recipes, prover.unproven))
        await keeper.follow(self.table)
        self._done = case
        self._speaker.soon()
        if not prover.unproven:
            self.serving = look.admission.inventory.revision

    async def _take(self, step: Step, code: Mapping[str, Pinned]) -> None:
        """One step; proofs are begun together, once the routes are as they are to be meanwhile."""
        match step:
            case Declare(name, recipe):
                await self.parts.supervisor.declare(recipe, code.get(recipe.code))
                self._recipes[name] = recipe
            case SwapRoutes(table):
                self.table = table
            case Retire(name):
                self._retire(name)
            case Prove():
                pass
            case _:
                assert_never(step)

    def _retire(self, name: InstanceName) -> None:
        """Drain what nothing needs, which takes as long as its calls; a session may have opened on it."""
        if name not in self.parts.doorkeeper.recipes():
            del self._recipes[name]
            if self._tasks is not None:
                self._tasks.start_soon(self.parts.supervisor.retire, name)

    async def _prove(self, name: InstanceName) -> Outcome:
        """Have an instance proven that is to replace another; once it is, look again: the swap follows."""
        outcome = await self._prover.prove(name)
        if name in self._prover.proven:
            self._soon(_WORLD)
        self._speaker.soon()
        return outcome

    def try_again(self, binding: str = "") -> tuple[InstanceName, ...]:
        """A person asked: what is not proven (of one binding, or of all) is tried now, known to be bad or
        not, and what failed while it served need not wait for its next start. Those.
        """
        tried = self._prover.pardon(binding)
        for name in tried:
            self._soon(name)
        failed = {one.name for one in self.parts.supervisor.lively() if one.phase == "failed"}
        forgiven = [n for n in self._recipes if str(n) in failed and binding in ("", n.binding)]
        for name in forgiven:
            self.parts.supervisor.forgive(name)
        return (*tried, *(name for name in forgiven if name not in tried))

    def _not_proven(self, name: InstanceName, why: str) -> None:
        self.parts.journal.event(f"binding/{name.binding}", "Warning", "LastGoodRetained", f"{name}: {why}")

    async def _watch(self) -> None:
        async for paths in hints.hints(self.parts.looker.source.root, self._watched):
            if not self.parts.looker.can_wait(paths):
                self._hints.update(paths)
                self._soon(_WORLD)

    def _watched(self, why_not: str) -> None:
        self._blind = why_not
        self._soon(_WORLD)

    def _soon(self, key: Key) -> None:
        self._queue.add(key, self._clock())
        self._wake.set()

    async def _work(self) -> None:
        """Hand out keys as they fall due; each is worked on in a task of its own, the same one never
        twice.
        """
        async with anyio.create_task_group() as tasks:
            while True:
                self._wake = anyio.Event()
                while (key := self._queue.take(self._clock())) is not None:
                    tasks.start_soon(self._turn_of, key)
                due = self._queue.next_s()
                with anyio.move_on_after(None if due is None else max(due - self._clock(), 0)):
                    await self._wake.wait()

    async def _turn_of(self, key: Key) -> None:
        outcome: Outcome = Failed()
        began = self._clock()
        try:
            outcome = await (self._look_again() if key is _WORLD else self._prove(key))
        except Exception:  # noqa: BLE001 - a fault of ours ends the look, not the controller
            _LOG.exception("a look broke off")
            self._source = Condition("Synced", "False", "InternalError", _BROKE_OFF)
            self._speaker.soon()
        finally:
            now = self._clock()
            self._queue.done(key, outcome, now)
            self.ears.turn(outcome, now - began, world=key is _WORLD)
            self._wake.set()

    async def _look_again(self) -> Outcome:
        await self.parts.doorkeeper.sweep()
        found = await self.now()
        if isinstance(found, Busy):
            return Wait(found.after_s)
        if not self._pruned and isinstance(found, Look):
            self.parts.supervisor.prune()  # all that is wanted is declared: older code may go
            self._pruned = True
            gc.freeze()  # what was read stays: to go through it again and again would hold up calls
        config = settings_in_force(self.look.admission) if self.look else Config()
        due = self.parts.looker.due_after_s()
        return Wait(min(config.reconcile.scan_seconds, config.reconcile.scan_seconds if due is None else due))

    @property
    def source(self) -> Condition:
        """How it stands with what is read."""
        return self._source

    @property
    def queued(self) -> int:
        """How many keys wait."""
        return len(self._queue)

    async def speak(self) -> None:
        """Write everything that is to be said now."""
        await self._speaker.speak()

    def _framed(self) -> Summary:
        drifted = self.resync.drift.configuration if self.resync else None
        said = (self._source, *((drifted,) if drifted else ()), *self.ears.beside())
        controller = {**(self._frame.controller or {}), "http": self.ears.address or None}
        return replace(self._frame, conditions=said, controller=controller)

    def _summary(self, facts: Facts, frame: Summary) -> Summary:
        self._frame = self.parts.looker.told(say.summary(facts, frame))
        return self._frame

    async def _flush(self) -> None:
        while True:
            await anyio.sleep(_FLUSH_S)
            await anyio.to_thread.run_sync(self.parts.journal.flush)
