"""Whether what runs was started with what its references give now: a changed value is used without a restart
by hand.

Files and credentials are read at each look, which costs nothing; a program (of a person's password store, of
a keyring) may ask its owner for a touch or a password, so it is run once an hour at most, and not within an
hour after a start asked it. What the environment gave is held and never changes. A reference that does not
resolve at a look ends nothing: a file may be on its way, and the next start decides.
"""

import asyncio
from collections.abc import Callable, Collection

from reconciler.model.recipes import SecretUse
from reconciler.runtime.resolving import Resolver, Unresolved
from reconciler.runtime.running import Running

ASK_AGAIN_S = 3600.0
_READ = ("file", "systemd")
_HELD = "env"
_AT_ONCE = 8


class Rotation:
    """One supervisor's memory of when it asked which program."""

    def __init__(self, resolver: Resolver, clock: Callable[[], float]) -> None:
        self._resolver = resolver
        self._clock = clock
        self._asked: dict[tuple[str, tuple[str, ...]], float] = {}

    async def changed(self, units: Collection[Running]) -> list[Running]:
        """Those of the units whose process was started with another value than is found now."""
        wanted: dict[tuple[str, tuple[str, ...]], SecretUse] = {}
        serving = [unit for unit in units if unit.marks and not unit.stale]
        for unit in serving:
            for use in unit.recipe.secrets:
                source = (use.form, use.reference)
                if use.form != _HELD and self._is_due(source, unit.resolved_at):
                    wanted.setdefault(source, use)
        turns = asyncio.Semaphore(_AT_ONCE)
        told = await asyncio.gather(*(self._mark(use, turns) for use in wanted.values()))
        marks = {source: mark for source, mark in zip(wanted, told, strict=True) if mark}
        return [unit for unit in serving if self._differs(unit, marks)]

    def _is_due(self, source: tuple[str, tuple[str, ...]], resolved_at: float) -> bool:
        if source[0] in _READ:
            return True
        now = self._clock()
        if now - max(resolved_at, self._asked.get(source, resolved_at)) < ASK_AGAIN_S:
            return False
        self._asked[source] = now
        return True

    async def _mark(self, use: SecretUse, turns: asyncio.Semaphore) -> str:
        try:
            async with turns:
                return (await self._resolver.one(use)).value.fingerprint
        except Unresolved:
            return ""

    @staticmethod
    def _differs(unit: Running, marks: dict[tuple[str, tuple[str, ...]], str]) -> bool:
        """False also for a process that ended meanwhile."""
        return any(
            unit.marks.get(use.slot, found) != found
            for use in unit.recipe.secrets
            if (found := marks.get((use.form, use.reference))) is not None
        )
