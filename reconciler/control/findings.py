"""What there is of drift: each thing that the controller laid down, compared with what lies there now.

Looking costs an ``lstat`` a thing, off the loop where there are many. Each finding brings the way to put it
right; what takes long is an errand, so that nobody waits for it. What an instance loses is made good by a new
process, begun as soon as no call needs the old one.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import anyio
import anyio.to_thread

from reconciler.control import status
from reconciler.control.admitted import Admitted
from reconciler.control.dispatch import Dispatcher
from reconciler.control.doorkeeper import Doorkeeper, owner
from reconciler.control.drift import Found, Mend
from reconciler.control.errands import Errands
from reconciler.control.harnessdrift import HarnessDrift
from reconciler.control.lock import Held, Lock
from reconciler.control.looking import Look
from reconciler.control.proving import started
from reconciler.control.retained import Retained
from reconciler.control.rpc import ControlSocket
from reconciler.control.status import Board
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.model.recipes import Pinned, Recipe
from reconciler.model.routes import RouteTable
from reconciler.model.status import InstanceSeen
from reconciler.runtime.supervisor import NotBuiltError, Supervisor

_AGAIN = "it is being started again"


@dataclass(frozen=True, slots=True)
class Grounds:
    """Where drift is looked for: everything that lays something down."""

    supervisor: Supervisor
    dispatcher: Dispatcher
    doorkeeper: Doorkeeper
    board: Board
    admitted: Admitted
    retained: Retained
    control: ControlSocket
    lock: Lock
    harnesses: HarnessDrift


@dataclass(frozen=True, slots=True)
class Meant:
    """What is meant to be there now: ``recipes`` are declared, ``left`` are those of them that somebody else
    sees to, or that must not start.
    """

    look: Look
    recipes: Mapping[InstanceName, Recipe]
    serving: RouteTable
    left: Callable[[], Collection[InstanceName]]


class Findings:
    """Finds what has drifted from what is ``meant``; all methods are for the loop's thread."""

    def __init__(self, grounds: Grounds, meant: Callable[[], Meant], errands: Errands) -> None:
        self._of = grounds
        self._meant = meant
        self._errands = errands
        self._in_vain: dict[str, str] = {}  # instances that did not start again, and why

    async def all(self) -> list[Found]:
        """Everything, the controller's own first: what agents need of the run folder rests on it."""
        meant = self._meant()
        found = [*self._own_sockets(), *self._doors(), *self._vanished(meant)]
        found += [*await self._laid_down(meant), *await self._records(), *await self._harnesses(meant)]
        return found

    # sockets

    def _own_sockets(self) -> Iterator[Found]:
        control = self._of.control

        async def again() -> str:
            await control.listen()
            return ""

        if control.is_lost():
            yield Found("SocketMissing", "the control socket is gone from its place", (), again, own=True)

    def _doors(self) -> Iterator[Found]:
        keeper = self._of.doorkeeper
        keeper.put_sheets_back()
        for lost in keeper.unreachable():

            async def again(door_id: str = lost.door, names: tuple[str, ...] = lost.sockets) -> str:
                await keeper.listen_again(door_id, names)
                return ""

            sockets = ", ".join(f"{lost.door}/{name}.sock" for name in lost.sockets)
            yield Found("SocketMissing", f"gone from the run folder: {sockets}", (lost.about,), again)

    # processes

    def _vanished(self, meant: Meant) -> Iterator[Found]:
        """Processes that served and ended unasked. One that did not start again is left to the next call."""
        failed = {one.name: one for one in self._of.supervisor.lively() if one.phase == "failed"}
        self._in_vain = {name: why for name, why in self._in_vain.items() if name in failed}
        gone = [one for one in failed.values() if one.vanished or one.name in self._in_vain]
        if not gone:
            return
        left = meant.left()
        names = {str(name): name for name in meant.recipes if name not in left}
        for one in gone:
            if one.name in names and one.reason is None:
                mend = partial(self._start_again, names[one.name])
                yield Found("ProcessVanished", f"{one.name}: {_end(one)}", _bindings([names[one.name]]), mend)

    async def _start_again(self, name: InstanceName) -> str:
        if why := self._in_vain.get(str(name)):
            return why
        return self._errands.send(("start", name), partial(self._started, name), _AGAIN)

    async def _started(self, name: InstanceName) -> str:
        """Have it answer its first question; where it does not, remember that."""
        refusal = await started(self._of.dispatcher, name)
        if refusal is None:
            return ""
        why = f"it did not start again ({refusal.diagnostic or refusal.code}): the next call tries"
        self._in_vain[str(name)] = why
        return why

    def _replace(self, names: Iterable[InstanceName]) -> None:
        """Have the processes of these replaced, where they run."""
        seen = self._of.supervisor.observed()
        for name in names:
            if seen[str(name)].pid is not None:
                self._of.dispatcher.leave(name)
                self._of.supervisor.renew(name)
                self._errands.send(("start", name), partial(self._started, name), _AGAIN)

    # what was laid down

    async def _laid_down(self, meant: Meant) -> list[Found]:
        altered = await self._of.supervisor.altered()
        found = []
        for digest in sorted(altered.code):
            names = [name for name, recipe in meant.recipes.items() if recipe.code == digest]
            if not names:
                continue  # its last user is being retired
            message = f"its pinned code was changed or removed: objects/{digest}"
            mend = partial(self._repin, meant.look.desired.code.get(digest), names)
            found.append(Found("CodeChanged", message, _bindings(names), mend))
        for digest in sorted(altered.environments):
            names = [name for name, recipe in meant.recipes.items() if recipe.environment == digest]
            if not names:
                continue
            message = f"what is installed for it was changed or removed: envs/{digest[:12]}…"
            mend = partial(self._reinstall, digest, names)
            found.append(Found("EnvironmentChanged", message, _bindings(names), mend))
        for name in sorted(altered.cut_off & meant.recipes.keys()):
            message = f"{name} has lost its folder or its socket in the run folder"
            found.append(Found("SocketMissing", message, _bindings([name]), partial(self._renew, name)))
        if altered.kit:
            message = "the connector kit was changed or removed below objects/"
            found.append(Found("CodeChanged", message, (), partial(self._repin_kit, meant), own=True))
        return found

    async def _repin(self, code: Pinned | None, names: list[InstanceName]) -> str:
        if code is None:
            return "its files are in no configuration any more: it stays so until its sessions end"
        await self._of.supervisor.repin(code)
        self._replace(names)
        return ""

    async def _repin_kit(self, meant: Meant) -> str:
        await self._of.supervisor.repin_kit()
        self._replace(meant.recipes)
        return ""

    async def _reinstall(self, digest: str, names: list[InstanceName]) -> str:
        async def work() -> str:
            recipe = self._meant().recipes.get(names[0])
            if recipe is None:
                return ""  # nobody wants it any more
            try:
                await self._of.supervisor.reinstall(recipe)
            except NotBuiltError as error:
                return f"it cannot be installed again: {error}"
            self._replace(name for name in names if name in self._meant().recipes)
            return ""

        return self._errands.send(("install", digest), work, "it is being installed again")

    async def _renew(self, name: InstanceName) -> str:
        self._replace([name])
        return ""

    # records

    async def _records(self) -> list[Found]:
        of, found = self._of, []
        if of.lock.is_lost():
            found.append(_edited("lock", self._lock_again))
        keys = await anyio.to_thread.run_sync(of.board.altered)
        objects = tuple(ObjectRef(Kind(kind), name) for kind, name in keys if (kind, name) != status.SUMMARY)
        if objects:
            mend = partial(self._rewrite_status, keys)
            words = "its status file was changed or removed by somebody else"
            found.append(Found("StatusEdited", words, objects, mend, own=True))
        if status.SUMMARY in keys:
            mend = partial(self._rewrite_status, (status.SUMMARY,))
            words = "the summary was changed or removed by somebody else"
            found.append(Found("StatusEdited", words, (), mend, own=True))
        for session in of.doorkeeper.altered_sessions():
            words = f"sessions/{session.id}.json was changed or removed by somebody else"
            rewrite = _at_once(partial(of.doorkeeper.rewrite, session))
            found.append(Found("StateEdited", words, (owner(session.agent),), rewrite, own=True))
        if of.retained.altered():
            serving = self._meant().serving
            found.append(_edited("retained.json", _at_once(partial(of.retained.rewrite, serving))))
        if await anyio.to_thread.run_sync(of.admitted.altered):
            found.append(_edited("admitted/journal", _at_once(of.admitted.rewrite)))
        return found

    # what lies in other people's folders

    async def _harnesses(self, meant: Meant) -> list[Found]:
        if self._of.harnesses.is_idle():
            return []
        agents = {ref.name for ref in meant.look.admission.in_force if ref.kind is Kind.AGENT}
        served = {
            agent: {name: route.contract.spec.limits.timeout_seconds for name, route in one.routes.items()}
            for agent, one in meant.serving.agents.items()
        }
        return await anyio.to_thread.run_sync(self._of.harnesses.found, agents, served)

    async def _lock_again(self) -> str:
        """Keep other controllers out again; says so where one came in meanwhile."""
        try:
            self._of.lock.take_again()
        except Held as other:
            return f"{other}; two run now and undo each other's work: stop one"
        return ""

    async def _rewrite_status(self, keys: Collection[status.Key]) -> str:
        """What is said of drift has written most of them already."""
        still = [key for key in await anyio.to_thread.run_sync(self._of.board.altered) if key in keys]
        await anyio.to_thread.run_sync(self._of.board.rewrite, still)
        return self._of.board.fault


def _edited(file: str, mend: Mend) -> Found:
    return Found("StateEdited", f"{file} was changed or removed by somebody else", (), mend, own=True)


def _at_once(act: Callable[[], object]) -> Mend:
    """What is done in one go, on a thread: it waits for the disk."""

    async def mend() -> str:
        await anyio.to_thread.run_sync(act)
        return ""

    return mend


def _bindings(names: Iterable[InstanceName]) -> tuple[ObjectRef, ...]:
    return tuple(ObjectRef(Kind.BINDING, name) for name in sorted({name.binding for name in names}))


def _end(seen: InstanceSeen) -> str:
    return f"its process ended with {seen.last_exit} and nobody asked for that"
