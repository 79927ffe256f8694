"""Sends for instances that are no process: a sealed request, leave for it, the gate, the reply.

A ``Speaker`` is one instance's: what it speaks by, and its way out, opened when first something is sent. The
secrets behind the way are found when it opens and looked at again after a while; another value, or a
reference that was taken back, closes it. Every transmission has a permit of its own.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.control import hearing
from reconciler.control.permitting import Permitting, Sending
from reconciler.control.sending import Coming, NotSent, Way
from reconciler.control.spoken import Spoken
from reconciler.control.truths import Truths, Watch, deaf
from reconciler.egress.permits import Permit, Permits
from reconciler.model.calls import Refusal
from reconciler.model.names import InstanceName
from reconciler.model.recipes import Recipe
from reconciler.model.sealed import Reply, Sealed
from reconciler.runtime.gating import Gated
from reconciler.runtime.resolving import Resolver, Unresolved

_LOOK_AGAIN_S = 60.0  # at secrets, before the next request


class Barred(NotSent):
    """Nothing may be sent for the instance now: its secret is not there, or was taken back. ``reason`` is of
    the closed list.
    """

    def __init__(self, why: str, reason: str) -> None:
        super().__init__("barred", why)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Outside:
    """What speakers of one controller are given. ``way`` opens a way out; ``barred`` says why an instance may
    not be used, or "".
    """

    way: Callable[[Recipe, Gated, Path], Way]
    permits: Permits
    permitting: Permitting
    resolver: Resolver
    folder: Path  # below the run folder: emptied at the start
    barred: Callable[[InstanceName], str] = lambda name: ""
    truths: Truths = field(default_factory=deaf)
    revoked: Callable[[InstanceName], str] = lambda name: ""  # the same, also of what is declared no more

    def clear(self) -> None:
        """Nothing of an earlier controller is left there."""
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Leave:
    """For whom something is sent. ``given`` hears of the permit before anything goes."""

    sending: Sending
    timeout_s: float
    given: Callable[[Permit], None] = lambda permit: None


@dataclass(slots=True)
class _Open:
    way: Way
    marks: dict[str, str] = field(default_factory=dict)
    looked_s: float = 0.0
    users: int = 0
    is_over: bool = False

    def leave(self) -> None:
        self.users -= 1
        if self.is_over and not self.users:
            self.way.close()

    def end(self) -> None:
        self.is_over = True
        if not self.users:
            self.way.close()


class Speaker:
    """One instance's. All methods are for the loop's own thread."""

    def __init__(self, spoken: Spoken, outside: Outside) -> None:
        self.spoken = spoken
        self.name = spoken.recipe.name
        self._outside = outside
        self._open: _Open | None = None
        self._opening = asyncio.Lock()

    def close(self) -> None:
        """Nothing new is sent; what goes on may end."""
        if self._open is not None:
            self._open.end()
            self._open = None

    async def let_in(self, tool: str) -> Refusal | None:
        """Why nothing is to be sent for a tool now, by what is known of the service; None: it may be."""
        return await self._outside.truths.before(self.name, tool)

    def heard(self, tool: str, what: object) -> None:
        """What became of a transmission for a tool: an outcome of its driver, or what broke it off."""
        if (said := hearing.of(what)) is not None:
            self._outside.truths.heard_of_call(self.name, tool, said)

    def watch(self, tool: str) -> Watch:
        """Watch over a reply that comes in pieces."""
        return self._outside.truths.watch(self.name, tool)

    async def whole(self, sealed: Sealed, leave: Leave) -> Reply:
        """Send it once and read the reply whole; raises NotSent or MaybeSent."""
        one, permit = await self._begun(sealed, leave)
        try:
            return await one.way.send(sealed, permit, timeout_s=leave.timeout_s)
        finally:
            one.leave()

    @asynccontextmanager
    async def coming(self, sealed: Sealed, leave: Leave) -> AsyncIterator[Coming]:
        """Send it once and give the reply as it comes; raises NotSent or MaybeSent."""
        one, permit = await self._begun(sealed, leave)
        try:
            async with one.way.opened(sealed, permit, timeout_s=leave.timeout_s) as coming:
                yield coming
        finally:
            one.leave()

    def take_back(self, permit: Permit) -> bool:
        """Let a permit not be used any more; whether it had not been."""
        return self._outside.permits.take_back(permit.id)

    async def permit(self, sealed: Sealed, sending: Sending) -> Permit:
        """Leave to send exactly this, once; raises NotSent."""
        return await self._outside.permitting.permit(self.spoken.recipe, sealed, sending)

    async def by(self, permit: Permit, sealed: Sealed, timeout_s: float) -> Reply:
        """Send it by a permit that was given before; raises NotSent or MaybeSent."""
        one = await self._way()
        try:
            return await one.way.send(sealed, permit, timeout_s=timeout_s)
        finally:
            one.leave()

    async def _begun(self, sealed: Sealed, leave: Leave) -> tuple[_Open, Permit]:
        one = await self._way()
        try:
            permit = await self.permit(sealed, leave.sending)
            leave.given(permit)
        except BaseException:
            one.leave()
            raise
        return one, permit

    async def _way(self) -> _Open:
        """The way out as it is to be now, in use; whoever gets it leaves it."""
        async with self._opening:
            if why := self._outside.barred(self.name):
                self.close()
                raise Barred(why, "SecretUnresolved")
            now_s = asyncio.get_running_loop().time()
            one = self._open
            if one is None or (one.marks and now_s - one.looked_s > _LOOK_AGAIN_S):
                one = await self._looked(one, now_s)
            one.users += 1
            return one

    async def _looked(self, one: _Open | None, now_s: float) -> _Open:
        recipe = self.spoken.recipe
        uses = tuple(use for use in recipe.secrets if use.via == "gate")
        try:
            filled = await self._outside.resolver.resolve(uses) if uses else ()
        except Unresolved as fault:
            self.close()
            raise Barred(str(fault), fault.reason) from None
        marks = {filling.use.slot: filling.value.fingerprint for filling in filled}
        if one is not None and one.marks == marks:
            one.looked_s = now_s
            return one
        self.close()
        self._outside.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        gated = Gated(filled, lambda: self._outside.resolver.resolve(uses))
        try:
            way = self._outside.way(recipe, gated, self._outside.folder)
        except OSError as fault:
            raise NotSent("gate", f"its way out cannot be opened: {fault.strerror}") from None
        self._open = _Open(way, marks, now_s)
        return self._open
