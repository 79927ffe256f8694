"""Puts decision records into the ledger, behind whoever decided: the receipt is what a decision waits for."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from reconciler.attempts import holding
from reconciler.attempts.holdings import Decision
from reconciler.attempts.writing import Writing

_LOG = logging.getLogger("handler.egress")
_MOST = 2000  # records that wait to be written; beyond it the receipt alone tells of a decision


class DecisionBook:
    """One controller's. ``writing`` opens the ledger when it is first asked; OSError where it cannot."""

    def __init__(self, writing: Callable[[], Awaitable[Writing]]) -> None:
        self._writing = writing
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_lost = False

    def keep(self, decision: Decision) -> None:
        """Write it soon. What cannot be written is said once; its receipt stands."""
        if len(self._tasks) >= _MOST:
            self._lose("too many wait")
            return
        task = asyncio.get_running_loop().create_task(self._write(decision))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Write what waits."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _write(self, decision: Decision) -> None:
        try:
            writing = await self._writing()
            await writing.run(lambda ledger: holding.decide(ledger.store, decision))
        except Exception as fault:  # noqa: BLE001 - whoever decided does not wait for it
            self._lose(type(fault).__name__)
        else:
            self._is_lost = False

    def _lose(self, why: str) -> None:
        if not self._is_lost:
            _LOG.error("decisions are kept as receipts alone: the ledger does not take them (%s)", why)
        self._is_lost = True
