"""All connectors of one controller as processes: declared, started by the first call, held, retired.

The face of this room. One supervisor has one state folder and one run folder; what an earlier one left behind
is ended before anything starts. It must live in the main thread: a sandbox dies with the thread that spawned
it. Never JSON-RPC, never a tool's name: whoever speaks to a connector says when it answered or is broken.
"""

import asyncio
import hashlib
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.model.names import InstanceName
from reconciler.model.problems import Bug
from reconciler.model.recipes import Pinned, Recipe
from reconciler.model.status import InstanceSeen, Reason
from reconciler.runtime import finding, leftovers, outdated
from reconciler.runtime.cell import Endpoint
from reconciler.runtime.environments import Environments, NotBuiltError, place_of
from reconciler.runtime.gating import GateFor, ProxyFor, no_gate, no_way_out
from reconciler.runtime.identities import Identities
from reconciler.runtime.images import Images
from reconciler.runtime.laying import Store
from reconciler.runtime.limits import Limits
from reconciler.runtime.objects import Objects
from reconciler.runtime.resolving import Resolver, Unresolved
from reconciler.runtime.ringlog import RingLog
from reconciler.runtime.roll import Roll
from reconciler.runtime.rotation import Rotation
from reconciler.runtime.running import Running
from reconciler.runtime.walls import Walls, probe
from reconciler.runtime.workshop import Unready, Workshop

_CLOSE_TRIES = 50  # ten milliseconds apart: the kernel counts a dead process a little longer

__all__ = ["Altered", "Endpoint", "NotBuiltError", "RuntimeFolders", "Supervisor", "Unready"]


@dataclass(frozen=True, slots=True)
class RuntimeFolders:
    """Where a supervisor keeps things (``state``) and has its sockets (``run``); nobody else's. ``others``
    are further folders of ours: no setting and no link leads a connector into any of them.
    """

    state: Path
    run: Path
    others: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Altered:
    """What was changed from outside: pinned code and environments by digest, the kit, and the instances that
    serve but have lost their place in the run folder.
    """

    code: frozenset[str] = frozenset()
    environments: frozenset[str] = frozenset()
    kit: bool = False
    cut_off: frozenset[InstanceName] = frozenset()


class Supervisor:
    """Keeps declared instances. Made inside a running loop, in the main thread; ``close`` leaves nothing."""

    def __init__(  # noqa: PLR0913 - all that it is given from outside, by name
        self,
        folders: RuntimeFolders,
        *,
        event: Callable[[InstanceSeen], None],
        kit: Path,
        way_out: ProxyFor = no_way_out,
        secrets: Resolver | None = None,
        gate: GateFor = no_gate,
    ) -> None:
        """``way_out`` serves the network of connectors that list what they may reach; ``secrets`` finds what
        their slots hold; ``gate`` sends for them what headers are added to.
        """
        if threading.current_thread() is not threading.main_thread():
            raise Bug("a supervisor lives in the main thread: sandboxes die with the thread that spawns them")
        self._loop = asyncio.get_running_loop()
        self._run = folders.run / "i"
        self._logs: dict[str, RingLog] = {}
        self._state = folders.state
        self._log_folder = folders.state / "logs"
        self._units: dict[InstanceName, Running] = {}
        self.undeclared: Callable[[InstanceName], Recipe | None] = lambda _: None  # declared by a first call
        self._roll = Roll()
        self._pinning: Counter[str] = Counter()
        self._walls: asyncio.Task[Walls] | None = None
        owner = hashlib.sha256(os.fsencode(folders.state.resolve())).hexdigest()[:12]
        leftovers.sweep(owner)
        self._limits = Limits(owner)
        self._limits.sweep()
        shutil.rmtree(self._run, ignore_errors=True)
        self._run.mkdir(mode=0o700, parents=True)
        self._log_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._objects = Objects(folders.state / "objects")
        self._environments = Environments(folders.state / "envs")
        self._images = Images(folders.state / "images")
        self._kit = kit
        self.folders, self.resolver = folders, secrets or Resolver()
        resolver = self.resolver
        self._rotation = Rotation(resolver, self._loop.time)
        self._revoked: Mapping[InstanceName, str] = {}
        self._looks: set[asyncio.Task[None]] = set()  # at secrets, each a second at most
        self.ours = tuple(one.resolve() for one in (folders.state, folders.run, *folders.others))
        self._shop = Workshop(
            run=self._run,
            owner=owner,
            kit=self._objects.pin_kit(kit),
            store=Store(self._objects, self._environments, self._images),
            identities=Identities(folders.state / "uids.json"),
            limits=self._limits,
            walls=self._probed,
            log=self.log,
            event=event,
            way_out=way_out,
            secrets=resolver,
            ours=self.ours,
            revoke=self._revoke,
            gate=gate,
            stirred=self._roll.stirred,
        )
        self._quiet = replace(self._shop, event=lambda _: None, stirred=lambda _: None)

    @property
    def grounds(self) -> tuple[Limits, tuple[str, ...]]:
        """The bounds of all that this controller starts, and its own folders, which no sandbox shows."""
        return self._limits, tuple(map(str, self._shop.ours))

    async def declare(self, recipe: Recipe, code: Pinned | None, *, aside: bool = False) -> InstanceName:
        """Pin an instance's code and begin to install what it needs; nothing starts before a call.

        ``code`` None: it is pinned already (a session of an earlier controller). Declaring twice changes
        nothing; declaring what is being retired keeps it. ValueError when code and digest disagree.
        ``aside``: it serves no binding but one job, so nobody is told of it, and ``end`` ends it.
        """
        name = recipe.name
        self._shop.secrets.claim(recipe.secrets)
        self._pinning[recipe.code] += 1
        try:
            if code is not None and not self._objects.untouched(recipe.code):  # thousands may share one
                await asyncio.to_thread(self._objects.pin, recipe.code, code.files, code.executable)
            unit = self._units.get(name)
            if unit is not None:
                unit.recall()
            else:
                unit = self._units[name] = Running(recipe, self._quiet if aside else self._shop)
                if not aside:
                    self._roll.came(unit)
                unit.prepare()
                await finding.miss((unit,), self._shop.secrets)
        finally:
            self._pinning[recipe.code] -= 1
        return name

    async def retire(self, name: InstanceName) -> None:
        """Take no new calls, wait for those that run, stop it, and forget its code with its last user.

        Returns when that is done, or when the instance was declared again meanwhile.
        """
        unit = self._units.get(name)
        if unit is None:
            return
        unit.retire()
        await unit.gone.wait()
        if self._units.get(name) is unit and unit.gone.is_set():
            del self._units[name]
            self._roll.went(unit)
            self._forget(unit.recipe.code)

    async def end(self, name: InstanceName) -> None:
        """End it now, calls or not, and forget it; returns when no process of it is left."""
        unit = self._units.get(name)
        if unit is not None:
            await unit.close()
            del self._units[name]
            self._roll.went(unit)
            self._forget(unit.recipe.code)

    async def ready(self, name: InstanceName) -> Endpoint:
        """The running connector, started when needed: one process, however many ask. Raises Unready."""
        if name not in self._units and (recipe := self.undeclared(name)) is not None:
            await self.declare(recipe, None)
        unit = self._units.get(name)
        if unit is None:
            raise Unready("UnresolvedReference", f"{name} is not declared")
        return await unit.ready()

    def hold(self, name: InstanceName) -> None:
        """A call needs this instance's process until ``release``; holds count."""
        if (unit := self._units.get(name)) is not None:
            unit.hold()

    def release(self, name: InstanceName) -> None:
        """One call is over. What was not held cannot be released: Bug."""
        if (unit := self._units.get(name)) is not None:
            unit.release()

    def answered(self, name: InstanceName) -> None:
        """The connector answered its first question: it is ready."""
        if (unit := self._units.get(name)) is not None:
            unit.answered()

    def broken(self, name: InstanceName, reason: Reason | None, message: str) -> None:
        """The connector is of no use: end its process; the next start waits for the back-off."""
        if (unit := self._units.get(name)) is not None:
            unit.broken(reason, message)

    def observe(self) -> tuple[InstanceSeen, ...]:
        """What there is now, sorted by name."""
        return tuple(sorted(self.observed().values(), key=lambda seen: seen.name))

    def observed(self) -> Mapping[str, InstanceSeen]:
        """What there is now, by name; a mapping that shares what did not change, and is never edited."""
        return self._roll.observed()

    def lively(self) -> tuple[InstanceSeen, ...]:
        """What there is now of those that ever did anything since they were declared."""
        return self._roll.lively()

    def seen(self, name: InstanceName) -> InstanceSeen | None:
        """What there is of one instance now; None when it is not declared."""
        unit = self._units.get(name)
        return unit.seen() if unit is not None else None

    def forgive(self, name: InstanceName) -> None:
        """A person asked: what failed may start again at once, without its back-off."""
        if (unit := self._units.get(name)) is not None:
            unit.forgive()
            if unit.recipe.secrets:  # a person who put one there wants to see it found
                task = self._loop.create_task(finding.miss((unit,), self._shop.secrets))
                self._looks.add(task)
                task.add_done_callback(self._looks.discard)

    async def altered(self) -> Altered:
        """What was changed under declared instances since it was laid down. Reads what looks touched."""
        known = self._roll.observed()
        cut_off = frozenset(n for n, unit in self._units.items() if str(n) in known and unit.is_cut_off())
        code, environments, kit = await asyncio.to_thread(self._look, *self._laid_down())
        still = self._laid_down()  # what was retired meanwhile is gone by right
        return Altered(code & still[0], environments & still[1], kit=kit, cut_off=cut_off)

    def _laid_down(self) -> tuple[frozenset[str], frozenset[str]]:
        """Code and environments that declared instances need and nobody is laying down just now."""
        units = self._units.values()
        building = {unit.recipe.environment for unit in units if unit.is_building}
        code = {unit.recipe.code for unit in units} - set(+self._pinning)
        return frozenset(code), frozenset({unit.recipe.environment for unit in units} - building - {""})

    def _look(
        self, code: frozenset[str], environments: frozenset[str]
    ) -> tuple[frozenset[str], frozenset[str], bool]:
        changed = frozenset(one for one in code if not self._objects.intact(one))
        odd = frozenset(one for one in environments if not self._environments.intact(one))
        return changed, odd, not self._objects.kit_intact(self._shop.kit)

    async def repin(self, code: Pinned) -> None:
        """Lay pinned code down anew. OSError when it cannot be written."""
        await asyncio.to_thread(self._objects.pin, code.digest, code.files, code.executable)

    async def repin_kit(self) -> None:
        """Lay the connector kit down anew. OSError when it cannot be written."""
        await asyncio.to_thread(self._objects.pin_kit, self._kit)

    async def reinstall(self, recipe: Recipe) -> None:
        """Install what this recipe needs anew; minutes, perhaps. Raises NotBuiltError or OSError."""
        code = self._objects.path(recipe.code)
        lock = (code / "requirements.lock").read_bytes() if code else b""
        await self._environments.rebuild(recipe.environment, lock, lambda _: None)

    def renew(self, name: InstanceName) -> None:
        """Stop the process of an instance as soon as no call needs it; the next ``ready`` starts another."""
        if (unit := self._units.get(name)) is not None:
            unit.renew()

    def prune(self) -> tuple[str, ...]:
        """Remove pinned code that no declared instance uses, and what ``outdated`` finds; call it once all
        that is wanted is declared. The digests of the code.
        """
        recipes, now_s = [unit.recipe for unit in self._units.values()], time.time()
        envs = self._state / "envs"
        used = {place_of(envs, recipe.environment).name for recipe in recipes if recipe.environment}
        aside = outdated.environments(envs, used, now_s)
        shown = {self._images.place(recipe.image).name for recipe in recipes if recipe.image}
        aside += outdated.environments(self._state / "images", shown, now_s)
        outdated.logs(self._log_folder, {recipe.binding for recipe in recipes}, now_s)
        self._loop.run_in_executor(None, outdated.erase, aside)
        return self._objects.prune({unit.recipe.code for unit in self._units.values()} | set(+self._pinning))

    async def walls(self) -> Walls:
        """Which walls stand; asked once of a trial run. Raises walls.SandboxUnavailable."""
        return await asyncio.shield(self._probed())

    async def close(self) -> None:
        """End every process, calls or not, and every installation; nothing is left but state."""
        if self._walls is not None:
            await asyncio.wait((self._walls,))
        await asyncio.gather(*self._looks, return_exceptions=True)
        await asyncio.gather(*(unit.close() for unit in self._units.values()))
        await self._environments.close()
        self._images.close()
        self._units.clear()
        shutil.rmtree(self._run, ignore_errors=True)
        for _ in range(_CLOSE_TRIES):
            if self._limits.close():
                return
            await asyncio.sleep(0.01)

    def code(self, digest: str) -> Path | None:
        """Where pinned code of this digest lies; None: it is not pinned."""
        return self._objects.path(digest)

    def barred(self, name: InstanceName) -> str:
        """Why nothing may be sent for an instance that needs no process, or "": it is not declared, or its
        secrets were taken back.
        """
        unit = self._units.get(name)
        return f"{name} is not declared" if unit is None else unit.revoked

    def revoked(self, name: InstanceName) -> str:
        """Why an instance's secrets are not to be used, or "": also of one that is gone."""
        unit = self._units.get(name)
        return unit.revoked if unit is not None else ""

    async def find_secrets(self, binding: str) -> list[finding.Found]:
        """Whether each secret of a binding's instances (``""``: of all) can be found now."""
        return await finding.look(tuple(self._units.values()), self._shop.secrets, binding)

    def revoke(self, why: Mapping[InstanceName, str]) -> None:
        """End these instances, which were started with secrets that their bindings name no more, and start
        none of them before a later word leaves it out.
        """
        before, self._revoked = self._revoked, why
        for name in {*before, *why}:
            if (unit := self._units.get(name)) is not None:
                unit.revoke(why.get(name, ""))

    async def follow_rotation(self) -> tuple[InstanceName, ...]:
        """Replace, once its calls are over, each process whose secret has another value now; those. What
        finds no secret at its next start is told so, and what would find it again, too.
        """
        await finding.miss([*self._units.values()], self._shop.secrets)
        changed = [unit.recipe.name for unit in await self._rotation.changed([*self._units.values()])]
        for name in changed:
            self.renew(name)
        return tuple(changed)

    def _revoke(self, recipe: Recipe, fault: Unresolved) -> None:
        """What was found behind a reference is no longer given: end what still holds it (ruling 54).

        What only took too long was not taken back.
        """
        if fault.reason != "SecretUnresolved":
            return
        source = (fault.use.form, fault.use.reference)
        for unit in self._units.values():
            if any((use.form, use.reference) == source for use in unit.recipe.secrets):
                unit.broken(fault.reason, str(fault))

    def _forget(self, code: str) -> None:
        users = {unit.recipe.code for unit in self._units.values()} | set(+self._pinning)
        if code not in users:
            self._objects.remove(code)

    def _probed(self) -> asyncio.Task[Walls]:
        """The trial, once; a trial that failed is repeated by the next start, since causes go away."""
        failed = self._walls is not None and self._walls.done() and self._walls.exception() is not None
        if self._walls is None or failed:
            self._walls = self._loop.create_task(probe(self._run, self._limits))
        return self._walls

    def log(self, binding: str) -> RingLog:
        """What the processes of a binding print, and what others print on its account."""
        if binding not in self._logs:
            self._logs[binding] = RingLog(self._log_folder / f"{binding}.log")
        return self._logs[binding]
