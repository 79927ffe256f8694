"""Who is told at once that a process has ended: one descriptor of the kernel's a process, and no asking.

A ``pidfd`` becomes readable when its process ends, however it ends. It is taken before the process is looked
at, so a number that the kernel gave anew is never mistaken for the one that was meant. Where the system has
none to give, the timed sweep finds out a few seconds later.
"""

import asyncio
import logging
import os
from collections.abc import Callable

from reconciler.control import processes

_LOG = logging.getLogger("handler.sessions")


class Departures:
    """Processes whose end is awaited, by a key of the asker's. For the loop's own thread."""

    def __init__(self, gone: Callable[[str], None]) -> None:
        """``gone`` hears a key once, when its process has ended."""
        self._gone = gone
        self._watched: dict[str, int] = {}

    def watch(self, key: str, process: processes.Process) -> None:
        """Await the end of a process; one that has ended already is told of in the next turn of the loop."""
        loop = asyncio.get_running_loop()
        try:
            fd = os.pidfd_open(process.pid)
        except ProcessLookupError:
            loop.call_soon(self._gone, key)
            return
        except OSError as error:
            _LOG.warning("the end of process %d is only found by asking: %s", process.pid, error.strerror)
            return
        self.forget(key)
        if not processes.lives(process):
            os.close(fd)
            loop.call_soon(self._gone, key)
            return
        self._watched[key] = fd
        loop.add_reader(fd, self._ended, key)

    def forget(self, key: str) -> None:
        """Await it no more; one that is not awaited is none."""
        fd = self._watched.pop(key, None)
        if fd is not None:
            asyncio.get_running_loop().remove_reader(fd)
            os.close(fd)

    def close(self) -> None:
        """Await nobody any more."""
        for key in list(self._watched):
            self.forget(key)

    def _ended(self, key: str) -> None:
        self.forget(key)
        self._gone(key)
