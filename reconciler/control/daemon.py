"""``handlerd``: one process, one loop, one configuration.

The composition root: takes the lock, lays out the run folder, joins the rooms, and stops clean on SIGTERM
or SIGINT
with no process left over. Whatever moment it is killed at, the next one serves the same.
"""

import asyncio
import errno
import logging
import os
import resource
import secrets
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio
import anyio.abc

from reconciler import __version__
from reconciler.builtin.shell import Grounds
from reconciler.control import agentjobs, asked, folders, lock, looking, processes, rpc, speakers, withholding
from reconciler.control.adding import AddingDispatcher
from reconciler.control.admitted import Admitted
from reconciler.control.agentjobs import AgentRunner
from reconciler.control.attentive import Attentive
from reconciler.control.bad import Bad
from reconciler.control.callees import OwnCallees
from reconciler.control.chainmodels import ChainModels
from reconciler.control.chainservice import ChainService
from reconciler.control.decisionbook import DecisionBook
from reconciler.control.dialects import Dialects
from reconciler.control.dispatch import Dispatcher
from reconciler.control.doorkeeper import Doorkeeper
from reconciler.control.effects import LedgerEffects
from reconciler.control.evidence import Evidence, decision_id
from reconciler.control.executing import Executor
from reconciler.control.harnessdrift import HarnessDrift
from reconciler.control.jobbook import JobBook
from reconciler.control.jobs import LedgerJobs
from reconciler.control.journal import Journal
from reconciler.control.leaving import Leaving
from reconciler.control.ledgers import Ledgers
from reconciler.control.looking import Look, Looker
from reconciler.control.loop import Controller, Parts
from reconciler.control.methods import Methods
from reconciler.control.models import GrantedModels
from reconciler.control.observing import Address, Clocks, Observed
from reconciler.control.place import Place
from reconciler.control.policing import Policing
from reconciler.control.probing import Asked, Prober
from reconciler.control.prompting import Prompting
from reconciler.control.proving import Demand
from reconciler.control.receipts import Receipts
from reconciler.control.retained import Retained
from reconciler.control.runface import RunFace
from reconciler.control.runners import assembled
from reconciler.control.runs import Rooms, Runs
from reconciler.control.sessions import Sessions
from reconciler.control.shadowing import Shadows
from reconciler.control.smoke import Smoke
from reconciler.control.status import Board
from reconciler.control.talking import Talking
from reconciler.control.tracing import Tracer
from reconciler.control.truths import Truths
from reconciler.control.watch import Outside, Watch
from reconciler.control.withdrawn import Withdrawn
from reconciler.model import settings
from reconciler.model.calls import CallRecord, Sink
from reconciler.model.names import InstanceName
from reconciler.model.observations import Policy
from reconciler.model.recipes import Recipe
from reconciler.model.routes import AgentRoutes, RouteTable
from reconciler.model.status import InstanceSeen, Summary
from reconciler.router.server import Router
from reconciler.runtime.supervisor import RuntimeFolders, Supervisor

_LOG = logging.getLogger("handler")
_LONGEST = len("/s/0123456789ab/") + 20 + len(".sock")  # what the router appends to the run folder
_SOCKET_PATH = 107


# For so long a thread that computes (a look, the drawing of statuses) may keep the loop from a call, and the
# loop keep it from going on after each file it wrote. With Python's own 5 ms, both took ten times as long.
_DESCRIPTORS = 2**16  # more than a configuration of ten thousand agents needs
_SWITCH_S = 0.0005


class CannotStart(Exception):  # noqa: N818 - a verdict in words for a person
    """The controller cannot run here; the text says why and what to do."""


def _have_descriptors() -> None:
    """Have as many descriptors as we may: each agent's door takes some, each of its connections one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _leave_no_core() -> None:
    """It holds secrets of the environment, and agents' payload: no core, nor anything in one that a program
    of the host collects (which a limit of zero does not keep from it).
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with suppress(OSError):  # kernels without it
        Path("/proc/self/coredump_filter").write_text("0")


def run(config: Path, surroundings: Outside | None = None) -> int:
    """Run the controller in the foreground until it is told to stop; 0, or 2 with the reason on stderr."""
    place = Place.of(config)
    try:
        lay_run_folder(place.run)
        with lock.held(place.state) as mine:
            _need_nobody(place.run / "control.sock")
            place.claim()
            _LOG.info("handler %s controls %s (state %s)", __version__, place.config, place.state)
            sys.setswitchinterval(_SWITCH_S)
            _have_descriptors()
            _leave_no_core()
            outside = surroundings or Outside()
            anyio.run(_serve, place, mine, outside, backend="asyncio", backend_options={"use_uvloop": True})
    except (lock.Held, folders.Foreign, CannotStart, OSError) as error:
        _LOG.error("%s", error)
        return 2
    except ExceptionGroup as group:
        fact = _one_fact(group)
        if fact is None:
            raise
        _LOG.error("%s", fact)
        return 2
    _LOG.info("stopped")
    return 0


def adopt(config: Path) -> None:
    """Make the folders that another configuration used this one's: it was moved here. Raises ``lock.Held``
    while a controller runs on them, ``CannotStart`` and OSError.
    """
    place = Place(config, folders.state(config, whosever=True), folders.run(config))
    lay_run_folder(place.run)
    with lock.held(place.state):
        _need_nobody(place.run / "control.sock")
        for folder in (place.state, place.run):
            folders.claim(config, folder)


def _one_fact(error: Exception) -> OSError | None:
    """What the system refused, where that alone ended the controller; None for a fault of ours."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error if isinstance(error, OSError) else None


def lay_run_folder(run_folder: Path) -> None:
    """Make the run folder, 0700 and ours; raises ``CannotStart`` when it is somebody else's or too long a
    path.
    """
    if len(os.fsencode(run_folder)) + _LONGEST > _SOCKET_PATH:
        raise CannotStart(
            f"the run folder {run_folder} is too long for Unix sockets: set HANDLER_RUN to a shorter path"
        )
    for folder in (run_folder.parent, run_folder):
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except PermissionError:
            raise CannotStart(
                f"cannot make {folder}, the folder of its sockets: set HANDLER_RUN (or XDG_RUNTIME_DIR) "
                "to a folder that is yours"
            ) from None
    above = run_folder.parent.stat()
    shared = above.st_mode & 0o002 and not above.st_mode & stat.S_ISVTX
    if above.st_uid not in (0, os.geteuid()) or shared:
        raise CannotStart(
            f"others may exchange what lies in {run_folder.parent}: set HANDLER_RUN to a folder elsewhere"
        )
    found = run_folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise CannotStart(f"the run folder {run_folder} belongs to somebody else: set HANDLER_RUN to another")
    run_folder.chmod(0o700)


async def _serve(place: Place, mine: lock.Lock, outside: Outside) -> None:
    """Join the rooms, run until told to stop, and leave nothing."""
    stop = anyio.Event()
    effects = LedgerEffects(place.state, time.time, ledgers=Ledgers(place.state, place.config))
    controller, news, leaving = _joined(place, mine, effects)
    parts, observed = controller.parts, news.observed
    jobs = _jobs(place, news, parts, effects)
    await effects.start()
    watch = Watch(observed, Address(observed, place.run, outside.serve), outside, effects.follow)
    book = JobBook(effects.exists, effects.writing, effects.recount)
    own = Methods(controller, pid=os.getpid(), stop=stop).table()
    runs = _runs(place, news, jobs)
    prober = _prober(news, parts.dispatcher)
    answers = {**own, **book.table(), **asked.table(news.policing), **prober.table()}
    answers |= _spoken(controller, runs, news)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_until_signalled, stop)
            for job in (watch.run, effects.run, jobs.run, book.keep_house, runs.run, prober.run):
                tasks.start_soon(job)
            await controller.run(stop, lambda: _listen(place.run, answers, watch, runs))
            watch.stopping()
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await asyncio.gather(runs.close(), news.agents.close())
            await parts.doorkeeper.close_all()
            await news.shadows.close()
            await parts.supervisor.close()
            await news.policing.close()
            news.dialects.close()
            await leaving.close()
            await effects.close()
            news.router.flush()
            parts.journal.close()
            rpc.clear(place.run / "control.sock")


def _joined(place: Place, mine: lock.Lock, effects: LedgerEffects) -> tuple[Controller, "_News", Leaving]:
    """The rooms, joined: the controller, whom its rooms ask and tell, and what lets connectors out."""
    journal = Journal(place.state, time.time)
    news = _News()
    laid = RuntimeFolders(place.state, place.run, (place.config,))
    leaving = Leaving(journal)
    supervisor = Supervisor(
        laid, event=news.instance, kit=looking.KIT, way_out=leaving.serve, secrets=effects.ledgers.resolver,
        gate=leaving.serve_gate,
    )  # fmt: skip
    dispatcher = AddingDispatcher(supervisor, recipe=news.recipe, root=place.config, ours=supervisor.ours)
    leaving.serves = partial(_serves, news, dispatcher)
    news.shadows = shadows = Shadows(place.state, time.time, time.monotonic)
    withdrawn = Withdrawn(dispatcher, shadows)
    sessions = Sessions(place.state / "sessions", now=time.time, token=lambda: secrets.token_hex(6))
    shadows.opening, shadows.instance, withdrawn.shared = withdrawn.open_plain, news.wanted, sessions.shared

    def record(call: CallRecord) -> None:
        journal.call(call)
        sessions.called(call.session)
        news.called(call)

    news.router = router = _router(news, withdrawn, record, effects)
    news.policing = leaving.policing = _policing(place, journal, effects)
    _police(news, leaving, dispatcher, withdrawn)
    _speak(news, speakers.joined(leaving, effects, supervisor, news.policing, truths=news.truths), withdrawn)
    dispatcher.within.join(news.dialects, Grounds(*supervisor.grounds))
    news.keeper = doorkeeper = Doorkeeper(place.run, router, sessions, table=news.table, now=time.time)
    looker = Looker(place, Admitted(place.state / "admitted"))
    board, retained = Board(place.state / "status", time.time), Retained(place.state / "retained.json")
    smoke = Smoke(router, place.run, token=lambda: secrets.token_hex(6), clock=time.monotonic)

    def demand(look: Look, binding: str) -> Demand:
        found = smoke.demand(look.admission, binding)
        return withholding.demand(found, look.proofs, binding).less(news.readiness(binding))

    bad, written = Bad(place.state / "bad.json", _instant), HarnessDrift(place.state)
    parts = Parts(
        looker, supervisor, dispatcher, doorkeeper, board, journal, retained, bad, mine, written, demand
    )
    news.controller = controller = Controller(parts, withdrawn, _frame(place), clock=time.monotonic)
    news.observed = Observed(
        controller, Clocks(time.time, time.monotonic), Tracer(os.environ, secrets.token_hex)
    )
    news.observed.more = lambda: (*shadows.families(), *effects.families(), *news.truths.families())
    _board(board, news.truths, effects, journal)
    journal.left, supervisor.undeclared = news.observed.left, news.own
    doorkeeper.ended, sessions.revision = (lambda _: controller.session_changed()), lambda: controller.serving
    return controller, news, leaving


def _runs(place: Place, news: "_News", jobs: LedgerJobs) -> Runs:
    """Whoever carries out runs of chains."""

    def routes(agent: str, session: str) -> AgentRoutes | None:
        pinned = next((one.serving for one in news.keeper.sessions() if one.id == session), None)
        return pinned or news.table().agents.get(agent)

    models = ChainModels(news.models, routes)
    rooms = Rooms(news.router, news.keeper, news.table, lambda: news.policing.approvals, models)
    rooms.jobs, rooms.classes = jobs, news.callees
    runs = Runs(place.state, rooms, time.time)
    news.agents.ready = runs.ready
    others = news.observed.more
    news.observed.more = lambda: (*others(), *runs.families())
    return runs


def _spoken(controller: Controller, runs: Runs, news: "_News") -> dict[str, rpc.Method]:
    """What the control socket answers about chains and models."""

    def record(call: CallRecord) -> None:
        controller.parts.journal.call(call)
        news.observed.called(call)

    talking = Talking(controller, lambda: news.models, record)
    face = RunFace(controller, runs)
    news.agents.chains = ChainService(face, runs)
    return {**face.table(), **talking.table()}


def _board(board: Board, truths: Truths, effects: LedgerEffects, journal: Journal) -> None:
    """Have status files say what is beside the loop's own facts: attempts, and what was observed."""
    board.jobs, effects.changed = effects.jobs, board.stir
    board.truths, truths.changed, truths.event = truths.observations, board.stir, journal.event


def _prober(news: "_News", starts: Dispatcher) -> Prober:
    """Who asks besides real calls, and is asked by calls where a binding wants that."""
    made = Prober(news.truths, Asked(news.look, news.recipe, news.dialects.speaker, starts))
    news.truths.asks, news.truths.policy = made, news.readiness
    return made


def _router(
    news: "_News", withdrawn: Withdrawn, record: Callable[[CallRecord], None], effects: LedgerEffects
) -> Router:
    """The agents' side, which asks what is known of whom it sends to, and says what it hears."""
    attentive = Attentive(withdrawn, news.truths, news.recipe)
    router = Router(attentive, record=record, now=time.time, clock=time.monotonic)
    router.keep_effects(effects)
    router.tell_unanswered(news.truths.unanswered)
    return router


def _jobs(place: Place, news: "_News", parts: Parts, effects: LedgerEffects) -> LedgerJobs:
    """Whoever keeps jobs, in the ledger that the settings name, and who does them."""
    supervisor = parts.supervisor
    effects.ledgers.settings = news.ledger
    jobs, news.executor, runners = assembled(supervisor, news.recipe, effects)
    speakers.do_jobs(runners, news.dialects, jobs, effects.state)
    news.callees = callees = OwnCallees(place.config, lambda: news.controller, news.keeper, news.policing)
    parts.dispatcher.within.listed = callees.listed
    news.agents = AgentRunner(jobs, callees, lambda name, who: supervisor.log(name).speaker(who), news.recipe)
    agentjobs.register(runners, news.agents)
    news.router.keep_jobs(jobs)
    return jobs


def _policing(place: Place, journal: Journal, effects: LedgerEffects) -> Policing:
    """Whoever asks the policy, and keeps in receipts and in the ledger what it said."""
    evidence = Evidence(journal, Receipts(place.state, time.time), now=time.time, token=decision_id)
    book = DecisionBook(effects.writing)
    evidence.keep = book.keep
    policing = Policing(place.state, evidence, time.time)
    policing.closing = book.close
    return policing


def _police(news: "_News", leaving: Leaving, dispatcher: Dispatcher, withdrawn: Withdrawn) -> None:
    """Let the rooms ask the policy, and it them."""
    policing = news.policing
    policing.entered = partial(leaving.look, policing)
    policing.recipe, policing.sink = news.recipe, partial(_serves, news, dispatcher)
    policing.followed = lambda watched: news.router.ask_entries(policing, on=watched)
    withdrawn.followed = policing.follow


def _speak(news: "_News", dialects: Dialects, withdrawn: Withdrawn) -> None:
    """Let calls, chains and doors reach what speaks a dialect."""
    news.dialects = dialects
    news.models = GrantedModels(dialects.speaker, withdrawn.barred, Prompting(news.router.call_apart))


def _serves(news: "_News", dispatcher: Dispatcher, name: InstanceName, number: int) -> Sink | None:
    """Who waits for an answer of an instance: a call, or a job."""
    return dispatcher.serves(name, number) or (news.executor.serves(name, number) if news.executor else None)


def _need_nobody(path: Path) -> None:
    """Raise ``CannotStart`` where a controller listens still: somebody removed its lock."""
    with socket.socket(socket.AF_UNIX) as other:
        other.settimeout(0)
        if other.connect_ex(str(path)) not in (0, errno.EAGAIN):  # EAGAIN: it has not accepted others yet
            return
    raise CannotStart(f"another controller answers at {path}: stop it first (handler daemon stop)")


def _instant() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


async def _listen(
    run_folder: Path, answers: Mapping[str, rpc.Method], watch: Watch, runs: Runs
) -> asyncio.Server:
    """Open the control socket; the folder may have been removed since it was laid."""
    lay_run_folder(run_folder)
    control = await rpc.listen(run_folder / "control.sock", answers)
    watch.ready()
    runs.ready.set()
    return control


def _frame(place: Place) -> Summary:
    pid = os.getpid()
    return Summary(
        configuration=str(place.config),
        controller={
            "pid": pid,
            "startTime": processes.start_time(pid),
            "bootId": processes.boot_id(),
            "version": __version__,
        },
    )


class _News:
    """What the rooms ask of, and tell to, the controller, which is made after them."""

    controller: Controller
    observed: Observed
    keeper: Doorkeeper
    router: Router
    shadows: Shadows
    policing: Policing
    dialects: Dialects
    models: GrantedModels
    callees: OwnCallees
    agents: AgentRunner
    executor: Executor | None = None

    def __init__(self) -> None:
        self.truths = Truths(time.time, self.recipe)

    def called(self, call: CallRecord) -> None:
        self.observed.called(call)
        self.truths.called(call)

    def instance(self, seen: InstanceSeen) -> None:
        self.keeper.standings.heard(seen)
        self.controller.instance_changed(seen)

    def look(self) -> Look | None:
        return self.controller.look

    def ledger(self) -> settings.Ledger | None:
        look = self.controller.look
        said = looking.settings_said(look.admission) if look is not None else None
        return said.ledger if said is not None else None

    def readiness(self, binding: str) -> Policy | None:
        look = self.controller.look
        return looking.probe_in_force(look.admission, binding).readiness if look is not None else None

    def recipe(self, name: InstanceName) -> Recipe | None:
        found = self.controller.recipe(name) or self.keeper.own(name)  # whose first call is judged, too
        return found or (self.executor.recipe(name) if self.executor else None)

    def own(self, name: InstanceName) -> Recipe | None:
        """What serves one open session alone, which its first call declares."""
        recipe = self.keeper.own(name)
        if recipe is not None:
            self.controller.session_changed(recipe)
        return recipe

    def table(self) -> RouteTable:
        return self.controller.table

    def wanted(self, binding: str) -> InstanceName | None:
        """The instance that a binding is to have, once it is declared."""
        look = self.controller.look
        names = look.desired.recipes if look is not None else ()
        return next((one for one in names if one.binding == binding and self.recipe(one)), None)


async def _until_signalled(stop: anyio.Event) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            stop.set()
