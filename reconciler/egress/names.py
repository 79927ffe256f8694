"""Names and their addresses, looked up so that a resolver that does not answer holds nobody else up.

The C library's lookup blocks, for half a minute where no server answers, and cannot be given up. On the
loop's own few threads the lookups of one sandbox would hold up all that the controller does there, and its
end. So each has a thread of its own that nobody waits for at the end, and one name is looked up once at a
time, however many ask: as many threads as names are listed, and no more than a few at once.
"""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from reconciler.model.hosts import Target

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
_AT_ONCE = 8  # lookups of one sandbox


@dataclass(slots=True)
class Names:
    """The lookups of one sandbox that are under way."""

    _asked: dict[Target, asyncio.Task[Sequence[str]]] = field(default_factory=dict)
    _room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def addresses(self, target: Target, resolve: Resolve) -> Sequence[str]:
        """The addresses of a listed name; OSError, ValueError or UnicodeError when there are none. Who gives
        up waiting leaves the lookup to those who ask next.
        """
        task = self._asked.get(target)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._looked_up(target, resolve))
            self._asked[target] = task
            task.add_done_callback(lambda done: self._ended(target, done))
        return await asyncio.shield(task)

    def close(self) -> None:
        """Wait for none of them any more."""
        for task in self._asked.values():
            task.cancel()

    async def _looked_up(self, target: Target, resolve: Resolve) -> Sequence[str]:
        async with self._room:
            return await resolve(target.host, target.port)

    def _ended(self, target: Target, task: asyncio.Task[Sequence[str]]) -> None:
        self._asked.pop(target, None)
        if not task.cancelled():
            task.exception()  # heard, though all who asked may have left


async def resolved(host: str, port: int) -> Sequence[str]:
    """The addresses of a name, as this machine resolves it; OSError when there are none."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Sequence[str]] = loop.create_future()

    def settle(found: Sequence[str] | OSError | UnicodeError) -> None:
        if answer.done():
            return
        if isinstance(found, OSError | UnicodeError):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def look() -> None:
        found: Sequence[str] | OSError | UnicodeError
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found = list(dict.fromkeys(str(row[4][0]) for row in rows))
        except (OSError, UnicodeError) as fault:
            found = fault
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, found)

    try:
        threading.Thread(target=look, name="handler-name", daemon=True).start()
    except RuntimeError:
        raise OSError(11, "no thread can be started") from None
    return await answer
