"""What a sandbox's attempts to leave come to: told to the controller as they happen, to a person at the end.

While a program runs, the terminal is its own, so nothing is printed then. Where no controller answers (it
may be restarting), an attempt is told to the person alone.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from reconciler.doors import usage
from reconciler.egress.decisions import Decision

_MOST_WAITING = 1000  # attempts, while the controller takes its time
_A_BATCH = 100
_PATIENCE_S = 5.0

Post = Callable[[Sequence[Mapping[str, object]]], object]


class Attempts:
    """Hears the decisions of one sandbox's proxy; ``post`` takes some at once to the controller, blocking."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self._waiting: list[Mapping[str, object]] = []
        self._posting: asyncio.Task[None] | None = None
        self._refused: Counter[str] = Counter()

    def note(self, decision: Decision) -> None:
        """Take one decision; called on the loop."""
        if decision.verdict != "allowed":
            self._refused[decision.why] += 1
        if len(self._waiting) < _MOST_WAITING:
            self._waiting.append(decision.as_json())
        if self._posting is None or self._posting.done():
            self._posting = asyncio.get_running_loop().create_task(self._post_all())

    async def flush(self) -> None:
        """Let what waits reach the controller, and no longer than some seconds."""
        if self._posting is not None:
            await asyncio.wait((self._posting,), timeout=_PATIENCE_S)

    def tell(self) -> None:
        """Say on standard error what was refused, each thing once."""
        for why, times in self._refused.items():
            more = f" ({times} times)" if times > 1 else ""
            sys.stderr.write(f"handler: refused on the way out of the sandbox: {why}{more}\n")

    async def _post_all(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:_A_BATCH], self._waiting[_A_BATCH:]
            try:
                await asyncio.to_thread(self._post, batch)
            except (usage.Stopped, OSError):
                continue  # the person hears of it at the end
