"""One run that is going: its engine, what was told of it, and whoever waits to hear more.

What is told has a position ``EPOCH.EVENTS.PIECES``: engine events are numbered for good; pieces of a model's
answer live as long as the controller does, and only the newest are held. A follower says where it is and gets
what came since, or waits.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from reconciler.chains.engine import Run
from reconciler.control.runfiles import Head

_MOST_HELD = 20_000  # events and pieces of one run
_MOST_BYTES = 2**20  # of one answer to a follower


class Live:
    """A run in memory. ``task`` carries it on; ``carrying`` is what it waits for now."""

    def __init__(self, head: Head, run: Run, epoch: str) -> None:
        self.head, self.run = head, run
        self.task: asyncio.Task[None] | None = None
        self.carrying: asyncio.Task[Any] | None = None
        self._is_cancelled = False
        self.script: list[dict[str, Any]] | None = None
        self._epoch = epoch
        self._told: deque[tuple[int, int, dict[str, Any]]] = deque(maxlen=_MOST_HELD)
        self._pieces = 0
        self._events = 0
        self._more = asyncio.Event()
        for event in run.events:
            self._add(event.to_json())

    def cancel(self) -> None:
        """Nobody wants it any more."""
        self._is_cancelled = True

    def is_cancelled(self) -> bool:
        """Whether somebody said so."""
        return self._is_cancelled

    def fresh(self) -> list[dict[str, Any]]:
        """The engine's events since this was last asked; followers have them from now on."""
        new = [one.to_json() for one in self.run.events[self._events :]]
        for one in new:
            self._add(one)
        return new

    def piece(self, said: Mapping[str, Any]) -> None:
        """A piece of an answer that a model gives now."""
        self._told.append((self._events, self._pieces, dict(said)))
        self._pieces += 1
        self.stir()

    def stir(self) -> None:
        """Something is new: followers look again."""
        self._more.set()
        self._more = asyncio.Event()

    def since(self, after: str) -> tuple[list[dict[str, Any]], str]:
        """What came after that position (\"\": all), and the position then."""
        events, pieces = place(after, self._epoch)
        found: list[dict[str, Any]] = []
        size = 0
        gone = self._events + self._pieces - len(self._told)
        for at_event, at_piece, one in islice(self._told, max(0, events + pieces - gone), None):
            is_piece = "number" not in one
            if (at_piece < pieces) if is_piece else (at_event < events):
                continue
            size += len(str(one.get("content", ""))) + 200
            if found and size > _MOST_BYTES:
                break
            found.append(one)
            events, pieces = (events, at_piece + 1) if is_piece else (at_event + 1, pieces)
        return found, f"{self._epoch}.{events}.{pieces}"

    async def changed(self, seconds: float) -> None:
        """Return when something is new, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._more.wait()

    def models_had(self) -> int:
        """How many answers of a model it has got."""
        return sum(line["reply"] in ("model", "model_failed") for line in self.run.answers)

    def _add(self, event: dict[str, Any]) -> None:
        self._told.append((self._events, self._pieces, event))
        self._events += 1


def place(after: str, epoch: str) -> tuple[int, int]:
    """Events and pieces that a position has seen; pieces of an earlier controller are gone."""
    parts = after.split(".")
    if len(parts) != 3 or not (parts[1].isdecimal() and parts[2].isdecimal()):
        return 0, 0
    return int(parts[1]), int(parts[2]) if parts[0] == epoch else 0
