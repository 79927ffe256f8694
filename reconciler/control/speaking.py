"""Saying what is new: an object's words at once, the summary of all in its own time.

Two jobs beside each other, since the summary holds every object and waits for the disk, and nobody who edits
one object waits for that. Each draws what it says from the facts of the moment at which it begins, one at a
time; so what was said last was said of the newest facts, whatever was missed in between. A summary never says
more than the objects that it sums up: it is drawn when their words of the same facts are out.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import anyio
import anyio.to_thread

from reconciler.control.facts import Facts
from reconciler.control.status import Board, Drawn
from reconciler.control.telling import Teller
from reconciler.model.status import Summary

T = TypeVar("T")

_LOG = logging.getLogger("handler.loop")
_QUIET_S = 0.02  # instance events come in flurries: one status for what follows the first
_SUM_UP_S = 0.1  # the summary holds every object: once for all that changes meanwhile
_HEAD_START_S = 0.01  # words of objects are out by then, or are not waited for


@dataclass(frozen=True, slots=True)
class Sayings:
    """What there is to say: the facts and the summary's frame of this moment, asked in the loop; the summary
    over both, asked in a thread.
    """

    facts: Callable[[], Facts]
    frame: Callable[[], Summary]
    summary: Callable[[Facts, Summary], Summary]


class Speaker:
    """Says what a controller has to say. Made inside a running loop."""

    def __init__(self, board: Board, sayings: Sayings) -> None:
        self._board = board
        self._sayings = sayings
        board.stirred = self.soon
        self._teller = Teller()
        self._asked, self._told = 0, 0  # how often there was something new, and how much of it is out
        self._news, self._due = anyio.Event(), anyio.Event()
        self._mouth, self._pen = anyio.Lock(), anyio.Lock()  # of objects, and of the summary
        self._said = anyio.Event()  # set, and made anew, after each time something was said

    async def run(self) -> None:
        """Speak for as long as this runs; what cannot be said does not end it."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._tell)
            tasks.start_soon(self._sum_up)

    def soon(self) -> None:
        """There is something new to say."""
        self._asked += 1
        self._news.set()

    async def speak(self) -> None:
        """Say everything that there is to say now."""
        await self._summary()

    async def said(self) -> None:
        """Return when something was said, the next time."""
        said = self._said
        await said.wait()

    async def head_start(self) -> None:
        """Let what is new be said of objects first, where that is soon done."""
        wanted = self._asked
        with anyio.move_on_after(_HEAD_START_S):
            while self._told < wanted:
                await self.said()

    async def _tell(self) -> None:
        while True:
            await self._news.wait()
            self._news = anyio.Event()  # by nobody else: who waits holds on to it
            try:
                await self._words()
            except Exception:  # noqa: BLE001 - what cannot be said does not end what serves
                _LOG.exception("the status could not be drawn")
            self._due.set()
            await anyio.sleep(_QUIET_S)

    async def _sum_up(self) -> None:
        while True:
            await self._due.wait()
            self._due = anyio.Event()
            try:
                await self._summary()
            except Exception:  # noqa: BLE001 - what cannot be said does not end what serves
                _LOG.exception("the summary could not be drawn")
            await anyio.sleep(_SUM_UP_S)

    async def _words(self) -> None:
        async with self._mouth:
            await self._draw(self._write)
        self._was_said()

    async def _summary(self) -> None:
        async with self._pen:
            async with self._mouth:
                frame = self._sayings.frame()
                drawn = await self._draw(lambda facts: self._sum(facts, frame))
            await anyio.to_thread.run_sync(self._board.sum_up, drawn)
        self._was_said()

    async def _draw(self, draw: Callable[[Facts], T]) -> T:
        asked = self._asked
        facts = replace(self._sayings.facts(), jobs=self._board.jobs(), truths=self._board.truths())
        drawn = await anyio.to_thread.run_sync(draw, facts)
        self._told = asked
        return drawn

    def _was_said(self) -> None:
        self._said.set()
        self._said = anyio.Event()

    def _write(self, facts: Facts) -> None:
        try:
            told = self._teller.tell(facts)
            if told.whole:
                self._board.publish(told.changed)
            else:
                self._board.update(told.changed, [(ref.kind.value, ref.name) for ref in told.gone])
        except BaseException:
            self._teller = Teller()  # it may have told what nobody wrote down
            raise

    def _sum(self, facts: Facts, frame: Summary) -> Drawn:
        self._write(facts)
        return self._board.drawn(self._sayings.summary(facts, frame))
