"""The ledger's one writer: a thread that takes what waits and puts it on the disk in one commit.

The controller's loop never waits for a disk: it hands over a piece of work and is called back, on its loop,
once that is durable. What waits together shares a commit (32 callers cost about two commits, not 32), each
piece in a savepoint of its own, so one that fails takes nothing else with it. The order is the order of
handing over. Held attempts are renewed here too, so that an owner that lives keeps its leases and one that is
stopped loses them.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from reconciler.attempts.ledger import LEASE_S, Ledger
from reconciler.attempts.papers import Papers
from reconciler.attempts.records import Attempt
from reconciler.attempts.store import UnusableError

T = TypeVar("T")
Work = Callable[[Ledger], T]
_BATCH = 64  # pieces of work in one commit
_WAITING = 4096  # pieces that may wait; the next is refused, and nothing is sent for it
RENEW_S = LEASE_S / 3


@dataclass(slots=True)
class _Piece(Generic[T]):
    work: Work[T]
    done: Callable[[T | Exception], None]
    loop: asyncio.AbstractEventLoop
    outcome: T | Exception | None = None


class Writing:
    """The ledger, for one loop. ``close`` ends the thread when all that was handed over is written."""

    def __init__(self, ledger: Ledger, clock: Callable[[], float]) -> None:
        """``clock`` gives seconds since 1970."""
        self._ledger = ledger
        self._clock = clock
        self._waiting: queue.Queue[_Piece[Any] | None] = queue.Queue()
        self._held: dict[str, tuple[Attempt, Callable[[], None]]] = {}
        self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)
        self._thread.start()

    def later(self, work: Work[T], done: Callable[[T | Exception], None]) -> None:
        """Do it in the writer's thread; ``done`` is called on the calling loop with its value or its
        exception, after the commit. Raises nothing: a ledger that is behind answers UnusableError.
        """
        loop = asyncio.get_running_loop()
        if self._waiting.qsize() >= _WAITING:
            loop.call_soon(done, UnusableError("too much waits to be written to the ledger"))
            return
        self._waiting.put(_Piece(work, done, loop))

    async def run(self, work: Work[T]) -> T:
        """Do it in the writer's thread, and give its value when it is durable. Raises what it raises.

        Who is cancelled while they wait gives up the value: the work is done all the same.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def told(outcome: T | Exception) -> None:
            if future.done():
                return
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

        self.later(work, told)
        return await future

    async def paper(self, ref: str, chunks: Iterable[bytes], max_bytes: int) -> tuple[str, int]:
        """Put a result on its shelf, in a thread of its own: its digest and size. Raises OSError and
        ``papers.TooLargeError``.
        """
        return await asyncio.to_thread(self._ledger.papers.keep, "results", ref, chunks, max_bytes)

    async def seal(self, ref: str, body: bytes | Iterable[bytes]) -> tuple[str, int]:
        """Put a request's exact bytes on their shelf, before ``prepare``. Raises OSError."""
        pieces = (body,) if isinstance(body, bytes) else body
        return await asyncio.to_thread(self._ledger.papers.keep, "sealed", ref, pieces)

    @property
    def papers(self) -> Papers:
        """The files beside it; whoever reads or writes one does so in a thread."""
        return self._ledger.papers

    def hold(self, one: Attempt, lost: Callable[[], None]) -> None:
        """Keep an attempt's lease while work goes on; ``lost`` is called when somebody else took it over."""
        self._held[one.id] = (one, lost)

    def let_go(self, attempt_id: str) -> None:
        """Renew its lease no more."""
        self._held.pop(attempt_id, None)

    async def renew(self) -> None:
        """Renew every lease that is held; to be called every ``RENEW_S`` seconds. Raises UnusableError."""
        held = [one for one, _ in self._held.values()]
        if not held:
            return
        kept = await self.run(lambda ledger: ledger.renew(held, self._clock()))
        for one in held:
            if one.id not in kept and one.id in self._held:
                self._held.pop(one.id)[1]()

    async def close(self) -> None:
        """Write what waits, and let go of the file."""
        self._waiting.put(None)
        await asyncio.to_thread(self._thread.join)
        self._ledger.close()

    def _run(self) -> None:
        going = True
        while going:
            first = self._waiting.get()
            pieces: list[_Piece[Any]] = []
            while first is not None:
                pieces.append(first)
                if len(pieces) >= _BATCH or self._waiting.empty():
                    break
                first = self._waiting.get_nowait()
            going = first is not None
            if pieces:
                self._commit(pieces)
                for piece in pieces:
                    self._tidy(piece.outcome)
                _tell(pieces)

    def _commit(self, pieces: list[_Piece[Any]]) -> None:
        """All of it in one commit; where that fails as a whole, each in one of its own."""
        if len(pieces) > 1 and self._together(pieces):
            return
        for piece in pieces:
            piece.outcome = self._one(piece)

    def _together(self, pieces: list[_Piece[Any]]) -> bool:
        try:
            with self._ledger.store.transaction():
                for piece in pieces:
                    piece.outcome = self._one(piece)
        except UnusableError:
            return False  # nothing of it is on the disk
        return True

    def _tidy(self, outcome: object) -> None:
        """Nothing is sent again for an attempt that is over: its sealed request goes."""
        if isinstance(outcome, Attempt) and outcome.is_over and outcome.request.sealed_ref:
            with suppress(OSError):  # retention finds it later
                self._ledger.papers.drop("sealed", outcome.request.sealed_ref)

    def _one(self, piece: _Piece[Any]) -> Any:
        try:
            with self._ledger.store.transaction():
                return piece.work(self._ledger)
        except Exception as error:  # noqa: BLE001 - the caller's, on its own loop
            return error


def _tell(pieces: list[_Piece[Any]]) -> None:
    for loop in {id(piece.loop): piece.loop for piece in pieces}.values():
        mine = [piece for piece in pieces if piece.loop is loop]
        try:
            loop.call_soon_threadsafe(_call, mine)
        except RuntimeError:  # the loop is gone, and nobody waits any more
            continue


def _call(pieces: list[_Piece[Any]]) -> None:
    for piece in pieces:
        try:
            piece.done(piece.outcome)
        except Exception as error:  # noqa: BLE001 - the others of the commit are told all the same
            told = {"message": "a fault in what hears of the ledger", "exception": error}
            piece.loop.call_exception_handler(told)
