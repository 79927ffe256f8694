"""One instance as it runs: the shell around ``instance.State``.

It is started once for all who ask, and stopped when idle. Everything happens on one loop, in the main thread.
A change of phase is told to ``event``, but for the flips between ready and idle, which calls make thousands
of times a second. The descriptors of an ended process stay open while a call still holds the instance, so
that no number is used again under it.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from operator import is_

from reconciler.model import places
from reconciler.model.recipes import Recipe
from reconciler.model.secrets import Filled
from reconciler.model.status import InstanceSeen, Reason
from reconciler.runtime import cell, gating, host, instance, programs, sandbox, strangers
from reconciler.runtime.attached import WALLS, Attachment, attached
from reconciler.runtime.cell import Cell, Endpoint, Site
from reconciler.runtime.environments import NotBuiltError
from reconciler.runtime.gating import Gated
from reconciler.runtime.process import NotStartedError
from reconciler.runtime.resolving import Unresolved
from reconciler.runtime.ringlog import RingLog
from reconciler.runtime.walls import SandboxUnavailable, told
from reconciler.runtime.workshop import Unready, Workshop

_PATIENCE_S = 0.25  # a back-off this short is waited for; a longer one is told
_PRINTED = "it printed a secret that it was given, which was left out of its log"
_SENT = "an answer from outside held a secret that the gate had added: it was not handed on"
_REBUILD_S = 1.0  # at least, between two tries to install an environment


_LOG = logging.getLogger("handler.runtime")


class Running:
    """One declared instance."""

    def __init__(self, recipe: Recipe, shop: Workshop) -> None:
        self.recipe = recipe
        self.name = str(recipe.name)
        self.gone = asyncio.Event()  # retired, and nothing of it runs
        self._shop = shop
        self._loop = asyncio.get_running_loop()
        self._state = instance.State()
        self._walls: Mapping[str, str] = {}
        self._cell: Cell | Attachment | None = None
        self._outlived: list[Endpoint] = []  # of ended processes, while calls hold the instance
        self._blame: tuple[Reason | None, str] | None = None  # why we end the process ourselves
        self.stale = False  # its process is to be replaced by another once no call needs it
        self._vanished = False  # its last process served, and ended without being asked
        self.marks: Mapping[str, str] = {}  # slot → fingerprint of what its process was started with
        self.resolved_at = 0.0  # when that was found, on the loop's clock
        self._revoked = ""  # why its secrets are not to be used on
        self._unfound = ""  # why its next start would find no secret
        self._echoed = ""  # where a secret that it was given showed up
        self._started_at = ""
        self._seen: InstanceSeen | None = None
        self._seen_of: tuple[object, ...] = ()  # what it was seen of
        self._idle_since = 0.0
        self._building: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[Endpoint] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def prepare(self) -> None:
        """Begin to install what it needs, in the background."""
        if self._shop.store.lacks(self.recipe):
            self._become(self._state.building("what it needs is being installed"))
            self._building = self._loop.create_task(self._build())
            self._building.add_done_callback(self._build_is_over)

    async def ready(self) -> Endpoint:
        """The running process, started when needed, once for all who ask; raises Unready."""
        while self._stopping is not None:
            await asyncio.shield(self._stopping)
        if self._retiring:
            raise Unready("Draining", "it takes no new calls: it is being stopped")
        if self._revoked:
            raise Unready("SecretUnresolved", self._revoked)
        if self._cell is not None:
            return self._cell.endpoint
        if self._starting is None:
            self._starting = self._loop.create_task(self._start())
            self._starting.add_done_callback(self._start_is_over)
        return await asyncio.shield(self._starting)

    def hold(self) -> None:
        """A call needs the process: it does not stop for being idle."""
        self._become(self._state.held(1))

    def release(self) -> None:
        """A call is over."""
        self._become(self._state.held(-1))
        if self._state.holds:
            return
        self._idle_since = self._loop.time()
        while self._outlived:
            self._outlived.pop().close()
        self._wind_down()

    def answered(self) -> None:
        """The process answered: its start is over."""
        if self._cell is None or self._state.answered:
            return
        self._become(self._state.answering())
        self._idle_since = self._loop.time()
        self._watch(self.recipe.idle_stop_s, self._rest)
        self._wind_down()

    def broken(self, reason: Reason | None, message: str) -> None:
        """The process is of no use: end it, and let the back-off apply."""
        if self._cell is not None and self._stopping is None and not self._cell.process.ended.done():
            self._blame = (reason, message)
            self._cell.process.cut()

    def revoke(self, why: str) -> None:
        """End its process and start none, for as long as ``why`` is not "": its secrets were taken back."""
        if why == self._revoked:
            return
        self._revoked = why
        if why:
            self.broken("SecretUnresolved", why)
        else:
            self.forgive()
        self._tell()

    @property
    def revoked(self) -> str:
        """Why its secrets are not to be used, or ""."""
        return self._revoked

    def lacks(self, words: str) -> None:
        """What a look at its secrets found: why its next start fails, or ""; what runs goes on."""
        if words == self._unfound:
            return
        self._unfound = words
        self._become(self._state if words else self._state.found())
        self._tell()

    def forgive(self) -> None:
        """The next start need not wait for its back-off."""
        self._become(self._state.forgiven())

    def renew(self) -> None:
        """Stop its process as soon as no call needs it; whoever asks next starts another."""
        self.stale = self._cell is not None or self._starting is not None
        self._wind_down()

    @property
    def is_building(self) -> bool:
        """True while what it needs is being installed."""
        return self._building is not None and not self._building.done()

    def is_cut_off(self) -> bool:
        """True when it serves, but what its process was given below the run folder is not there any more."""
        if self._cell is None or not self._state.answered or self._stopping is not None:
            return False
        return not self._cell.stands()

    def recall(self) -> None:
        """It is wanted again."""
        if not self._retiring:
            return
        self.gone.clear()
        self._become(self._state.recalled())
        if not self._state.running:
            self.prepare()

    def retire(self) -> None:
        """End it when its last call is over; ``gone`` says when."""
        if self._building is not None:
            self._building.cancel()
        if not self._retiring:
            self._become(self._state.retiring())
        self._wind_down()

    async def close(self) -> None:
        """End it now, calls or not."""
        for task in (self._building, self._starting):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if self._cell is not None and self._stopping is None:
            self._stop()
        if self._stopping is not None:
            await asyncio.shield(self._stopping)
        while self._outlived:
            self._outlived.pop().close()
        self.gone.set()

    def seen(self) -> InstanceSeen:
        """What is observed of it now."""
        state = self._state
        aside = (self._revoked, self._unfound, self._echoed)
        case = (state, self._cell, self._walls, self._started_at, *aside)
        if self._seen is not None and all(map(is_, case, self._seen_of)):  # asked of thousands at each word
            return self._seen
        self._seen_of = case
        if self._cell is not None:
            state = state.beside("SecretUnresolved", self._unfound).beside("SecretEcho", self._echoed)
        elif (why := self._revoked or self._unfound) and not self._retiring:
            state = replace(state, phase="failed", reason="SecretUnresolved", message=why)
        self._seen = InstanceSeen(
            name=self.name,
            phase="draining" if state.phase == "retired" else state.phase,
            pid=self._cell.process.pid if self._cell is not None else None,
            started_at=self._started_at if self._cell is not None else "",
            restarts=state.restarts,
            last_exit=state.last_exit,
            reason=state.reason,
            message=state.message or (f"serves session {self.recipe.session}" if self.recipe.session else ""),
            session=self.recipe.session,
            calls=state.holds,
            runtime=self.recipe.runtime,
            walls=self._walls,
            vanished=self._vanished and state.phase == "failed",
            killed=state.killed and state.phase == "failed",
        )
        return self._seen

    # building and starting

    async def _build(self) -> None:
        """Install the environment, again and again until that works: its cause may go without any edit."""
        while True:
            try:
                await self._shop.store.lay(self.recipe, self._told)
                break
            except (NotBuiltError, OSError) as fault:
                message = f"cannot install what it needs: {fault}"
                self._become(self._state.refused("ReconcileError", message, self._loop.time()))
            await asyncio.sleep(max(_REBUILD_S, self._state.wait_s(self._loop.time())))
            self._become(self._state.building(self._state.message))
        self._become(self._state.built())

    def _build_is_over(self, task: asyncio.Task[None]) -> None:
        """A fault of ours is a failure that is seen, not an installation that never ends."""
        if not task.cancelled() and (fault := task.exception()) is not None:
            _LOG.error("an installation broke off", exc_info=fault)
            self._become(self._state.refused("InternalError", "an installation broke off", self._loop.time()))

    def _told(self, line: str) -> None:
        if self._state.phase == "building":
            self._become(self._state.building(line))
            self._shop.event(self.seen())

    async def _start(self) -> Endpoint:
        if self._building is not None and not self._building.done():
            await asyncio.wait((self._building,), timeout=self.recipe.ready_timeout_s)
            if not self._building.done():
                raise Unready(self._state.reason or "Starting", self._state.message)
        wait_s = self._state.wait_s(self._loop.time())
        if wait_s > _PATIENCE_S:
            words = f"{self._state.message}; it may start again in {wait_s:.1f} s"
            raise Unready(self._state.reason or "Starting", words)
        await asyncio.sleep(wait_s)
        try:
            made = await self._opened()
        except Unresolved as fault:
            self._shop.revoke(self.recipe, fault)
            raise self._refuse(fault.reason, str(fault)) from None
        except (SandboxUnavailable, host.Missing) as fault:
            raise self._refuse("SandboxUnavailable", str(fault)) from None
        except NotStartedError as fault:
            # No code of the connector has run: the last line is bubblewrap's or the interpreter's.
            raise self._refuse("SandboxUnavailable", f"{fault}; {self._log.last_line()}") from None
        except ValueError as fault:
            raise self._refuse("ReconcileError", str(fault)) from None
        except Exception as fault:
            self._refuse("InternalError", f"its start met {type(fault).__name__}")
            raise
        return self._stands(made)

    async def _opened(self) -> Cell | Attachment:
        """Its process, started, or found where it is attached."""
        if self.recipe.socket:
            made = attached(self.recipe.socket, self._shop.run / self.name, self._shop.ours)
            self._walls = WALLS
            self._become(self._state.started(self._loop.time()))
            return made
        standing = (await asyncio.shield(self._shop.walls())).standing
        self._walls = told(standing, self.recipe.sandbox)
        filled = await self._shop.secrets.resolve(self.recipe.secrets) if self.recipe.secrets else ()
        inside = tuple(one for one in filled if one.use.via != "gate")
        place, machine = self._place()
        place = replace(place, secrets=inside)
        self.marks = {one.use.slot: one.value.fingerprint for one in filled}
        self.resolved_at = self._loop.time()
        self._become(self._state.started(self._loop.time()))
        self._echoed = self._unfound = ""
        return await cell.opened(replace(self._site(filled), machine=machine), place, self.recipe.sandbox)

    def _stands(self, made: Cell | Attachment) -> Endpoint:
        self._cell, self._vanished = made, False
        self._started_at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        made.process.ended.add_done_callback(self._on_end)
        self._watch(self.recipe.ready_timeout_s, self._late)
        self._shop.event(self.seen())
        if self._revoked:  # meanwhile
            self.broken("SecretUnresolved", self._revoked)
        self._wind_down()
        return made.endpoint

    def _site(self, filled: tuple[Filled, ...]) -> Site:
        """Where its cell is made, with the two ways out where it lists what it may reach."""
        shop = self._shop
        site = Site(
            shop.run / self.name, shop.owner, shop.limits, self._log, None, partial(self._echo, _PRINTED)
        )
        site = replace(site, sets_aside=programs.SET_ASIDE.get(self.recipe.runtime))
        if not self.recipe.egress:
            return site
        at_gate = tuple(one for one in filled if one.use.via == "gate")
        way_out = partial(shop.way_out, self.recipe)
        return replace(site, way_out=way_out, gate=partial(self._gate, at_gate))

    def _gate(self, filled: tuple[Filled, ...], listener: socket.socket) -> Callable[[], None]:
        return self._shop.gate(self.recipe, listener, Gated(filled, self._refill, partial(self._echo, _SENT)))

    async def _refill(self) -> tuple[Filled, ...]:
        """What fills the header slots of the running process now; raises Unresolved, and ends it then."""
        uses = tuple(use for use in self.recipe.secrets if use.via == "gate")
        try:
            return await self._shop.secrets.resolve(uses)
        except Unresolved as fault:
            self._shop.revoke(self.recipe, fault)
            self.broken(fault.reason, str(fault))
            raise

    def _place(self) -> tuple[sandbox.Place, sandbox.Host | None]:
        """Everything the sandbox shows, and the host as an image meets it; raises ValueError or host.Missing
        with the words of a condition.
        """
        recipe, shop = self.recipe, self._shop
        if recipe.runtime not in programs.RUNTIMES or recipe.sandbox.gpu:
            raise ValueError(
                "connectors of this runtime have no process here, or need a GPU, which is not built yet"
            )
        code = shop.store.objects.path(recipe.code)
        if code is None:
            raise ValueError("its pinned code is gone: apply the configuration again")
        environment = shop.store.environments.path(recipe.environment) if recipe.environment else None
        if recipe.environment and environment is None:
            raise ValueError("what it needs is not installed")
        needs = [host.program(name) for name in recipe.sandbox.programs]
        needs.extend(host.readable(path, shop.ours) for path in recipe.sandbox.read)
        shown = {key: host.folder(path, shop.ours) for key, path in (*recipe.folders, *recipe.adds)}
        needs.extend(sandbox.Need(mounts=((shown[key], places.place(key)),)) for key, _ in recipe.folders)
        begun = programs.launch(recipe, code, environment)
        variables = dict(sandbox.variables(recipe)) | dict(begun.variables)
        needs.extend(begun.needs)
        if recipe.egress and (bundle := host.certificates()) is not None:
            needs.append(bundle)
            variables["SSL_CERT_FILE"] = bundle.mounts[0][1]
        place = sandbox.Place(
            app=str(code),
            entry=begun.entry,
            words=begun.words,
            kit=str(shop.kit),
            environment=str(environment or ""),
            inbox=str(shop.run / self.name / "in"),
            gate=str(shop.run / self.name / gating.NAME) if recipe.egress else "",
            uid=shop.identities.uid(recipe.connector) if host.survey().root else os.geteuid(),
            variables=tuple(sorted(variables.items())),
            needs=tuple(needs),
        )
        if not recipe.image:
            return place, None
        image = shop.store.images.unpacked(recipe.image)
        if image is None:
            raise ValueError("its image is not unpacked")
        return strangers.furnished(place, image)

    def _refuse(self, reason: Reason, message: str) -> Unready:
        self._become(self._state.refused(reason, message, self._loop.time()))
        self._wind_down()
        return Unready(reason, message)

    def _start_is_over(self, task: asyncio.Task[Endpoint]) -> None:
        self._starting = None
        if not task.cancelled():
            task.exception()  # whoever asked may have left: that is no fault to report

    # stopping and ending

    def _late(self) -> None:
        most_s = self.recipe.ready_timeout_s
        words = f"it did not answer within {most_s:g} s, its connector's ready.timeoutSeconds"
        self.broken("StartTimeout", words)

    def _rest(self) -> None:
        """Stop it when it has been idle long enough, else look again when it may have been."""
        idle_s = self._loop.time() - self._idle_since
        if self._state.phase == "idle" and idle_s >= self.recipe.idle_stop_s:
            self._stop()
        else:
            busy = self._state.phase != "idle"
            self._watch(self.recipe.idle_stop_s if busy else self.recipe.idle_stop_s - idle_s, self._rest)

    def _wind_down(self) -> None:
        """Go on with a retirement or a renewal, as far as calls let it."""
        if self._state.phase == "retired":
            self.gone.set()
        elif self._cell is None or self._state.holds:
            return
        elif self._state.phase == "draining" or (self.stale and self._state.phase == "idle"):
            self._stop()

    def _stop(self) -> None:
        if self._stopping is None and self._cell is not None:
            self._stopping = self._loop.create_task(self._stop_process(self._cell))

    async def _stop_process(self, made: Cell | Attachment) -> None:
        try:
            await made.process.stop()
        finally:
            self._stopping = None

    def _on_end(self, ended: asyncio.Future[str]) -> None:
        made, self._cell, self.marks = self._cell, None, {}
        assert made is not None  # noqa: S101 - a cell ends once
        if self._timer is not None:
            self._timer.cancel()
        made.clear()
        if self._state.holds:
            self._outlived.append(made.endpoint)
        else:
            made.endpoint.close()
        blame, self._blame = self._blame, None
        self.stale, self._vanished = False, self._state.answered and blame is None
        how = ended.result()
        if self._stopping is not None:
            self._become(self._state.stopped(how))
        else:
            if made.process.out_of_memory:
                most = self.recipe.sandbox.memory_bytes
                words = f"it needed more memory than its bound, {most} bytes: raise instance.memoryBytes"
                blame = ("OutOfMemory", words)
            self._become(self._ended(how, blame))
        self._wind_down()

    def _ended(self, how: str, blame: tuple[Reason | None, str] | None) -> instance.State:
        """What it is once its process is gone, which nobody asked for: by whose doing is told apart."""
        now = self._loop.time()
        if blame is None and instance.is_from_outside(how):
            words = f"its process was ended from outside, with {how}, or by a machine without memory"
            return self._state.killed_by_others(how, words, now)
        # Before it has answered: later the same words may stand beside what it was asked.
        why = "" if self._state.answered else self._log.why()
        more = f"`handler logs {self.recipe.binding}` says more"
        said = f"its process ended with {how}: " + (f"{why}; {more}" if why else more)
        return self._state.ended(how, *(blame or (None, said)), now)

    def _echo(self, words: str) -> None:
        if not self._echoed:
            self._echoed = words
            self._tell()

    def _tell(self) -> None:
        self._shop.stirred(self)
        self._shop.event(self.seen())

    def _watch(self, after_s: float, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(after_s, then)

    def _become(self, state: instance.State) -> None:
        before, self._state = self._state, state
        self._shop.stirred(self)
        flip = {before.phase, state.phase} == {"ready", "idle"}
        if state.phase != before.phase and state.phase != "retired" and not flip:
            self._shop.event(self.seen())

    @property
    def _retiring(self) -> bool:
        return self._state.phase in {"draining", "retired"}

    @property
    def _log(self) -> RingLog:
        return self._shop.log(self.recipe.binding)
