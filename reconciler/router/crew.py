"""Threads for work on files, which blocks: a few for each agent.

A folder on a server that hangs holds up whoever touches it, and no thread that waits there can be ended. So
an agent's work takes few threads at once and the rest of it waits, and what others ask for goes on meanwhile.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

_EACH = 4  # reading and hashing keep two cores busy
_MOST = 64  # of all agents: so many hang before others wait
_Piece = tuple[Future[object], Callable[..., object], tuple[object, ...]]


class Crew:
    """Threads of one name, made as they are needed. Safe to use from several threads."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(_MOST, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._waiting: dict[str, deque[_Piece]] = {}
        self._busy: dict[str, int] = {}

    def submit(self, who: str, work: Callable[..., object], *args: object) -> Future[object]:
        """Do a piece of work of ``who`` as soon as there is a thread for it; in order where it waits."""
        piece: _Piece = (Future(), work, args)
        with self._lock:
            busy = self._busy.get(who, 0)
            if busy >= _EACH:
                self._waiting.setdefault(who, deque()).append(piece)
            else:
                self._busy[who] = busy + 1
        if busy < _EACH:
            self._pool.submit(self._work, who, piece)
        return piece[0]

    def _work(self, who: str, piece: _Piece | None) -> None:
        while piece is not None:
            told, work, args = piece
            if told.set_running_or_notify_cancel():
                try:
                    told.set_result(work(*args))
                except BaseException as fault:  # noqa: BLE001 - its asker is told
                    told.set_exception(fault)
            piece = self._next(who)

    def _next(self, who: str) -> _Piece | None:
        with self._lock:
            if waiting := self._waiting.get(who):
                return waiting.popleft()
            self._waiting.pop(who, None)
            self._busy[who] -= 1
            if not self._busy[who]:
                del self._busy[who]
            return None
