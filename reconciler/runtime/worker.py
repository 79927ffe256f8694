"""A program of ours that runs an agent's command in its sandbox and ends with us, as whoever waits sees it.

It is spawned with pipes and nothing else, gets its order as one JSON text by a descriptor, and says by
another why it could not begin. What the command prints is taken up to a bound. Ending it means ending the
first process of the sandbox's pid namespace: when that is gone, everything inside is, however it was started.
Spawn from the main thread: it dies with the thread that spawned it.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from reconciler.runtime import infopipe
from reconciler.runtime.process import children

_MODULE = "reconciler.doors.agentwork"
_STANDS_S = 30.0  # building the sandbox takes some milliseconds, and the machine may be busy
_GONE_S = 5.0
_LOOK_S = 0.02
_PIECE = 2**16


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended: the command's exit code and what it printed. ``cannot``: why it never began, or "".
    ``overflows``: it was ended, for it printed more than it may.
    """

    code: int
    output: bytes
    cannot: str = ""
    overflows: bool = False


class Worker:
    """One such process. All methods are for the loop's own thread, which is the main one."""

    def __init__(self, child: asyncio.subprocess.Process, ends: tuple[int, int]) -> None:
        """``ends`` are what its order is written to and what it says is read from; see ``spawned``."""
        self._child = child
        self._order, self._told = ends
        self._inner = -1  # a pidfd of the first process of its namespace
        self.pid = child.pid
        self._ending = asyncio.Lock()
        self._looking = asyncio.get_running_loop().create_task(self._look())

    async def run(self, order: bytes, stdin: bytes, most: int, said: Callable[[bytes], object]) -> Ended:
        """Let it work to its end. ``most`` bytes it may print; ``said`` hears its standard error."""
        try:
            number, self._order = self._order, -1
            await asyncio.to_thread(_write, number, order)
            feeding = asyncio.ensure_future(self._feed(stdin))
            hearing = asyncio.ensure_future(self._hear(said))
            telling = asyncio.ensure_future(infopipe.until(self._told, b"\n"))
            try:
                output, overflows = await self._taken(most)
                code = await self._child.wait()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_GONE_S):
                        await hearing
                cannot = (await telling).decode("utf-8", "replace").strip()
            finally:
                for task in (feeding, hearing, telling):
                    task.cancel()
                await asyncio.gather(feeding, hearing, telling, return_exceptions=True)
            return Ended(code, output, cannot, overflows)
        finally:
            await self.end()

    async def end(self) -> None:
        """End whatever is left of it; nothing is when this returns."""
        async with self._ending:
            await self._end()

    async def _end(self) -> None:
        if self._order >= 0:  # it never got one, and ends without
            os.close(self._order)
            self._order = -1
        leaving = asyncio.ensure_future(self._child.wait())
        # There is a sandbox in the making, or it ends.
        await asyncio.wait({leaving, self._looking}, return_when=asyncio.FIRST_COMPLETED)
        if self._inner >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._inner, signal.SIGKILL)
            await _readable(self._inner)
        with suppress(TimeoutError):
            async with asyncio.timeout(_GONE_S):
                await leaving
        if self._child.returncode is None:
            self._child.kill()
            await self._child.wait()
        self._close()

    async def _taken(self, most: int) -> tuple[bytes, bool]:
        assert self._child.stdout is not None  # noqa: S101 - a pipe was asked for
        found = bytearray()
        while piece := await self._child.stdout.read(_PIECE):
            found += piece
            if len(found) > most:
                await self.end()
                return bytes(found[:most]), True
        return bytes(found), False

    async def _feed(self, stdin: bytes) -> None:
        pipe = self._child.stdin
        assert pipe is not None  # noqa: S101 - a pipe was asked for
        with suppress(OSError):  # a command need not read it
            pipe.write(stdin)
            await pipe.drain()
            pipe.close()

    async def _hear(self, said: Callable[[bytes], object]) -> None:
        assert self._child.stderr is not None  # noqa: S101 - a pipe was asked for
        while piece := await self._child.stderr.read(_PIECE):
            said(piece)

    async def _look(self) -> None:
        """Find the first process of its namespace, once there is one."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_STANDS_S):
                while self._child.returncode is None and self._inner < 0:
                    self._inner = _first_inside(self.pid)
                    await asyncio.sleep(_LOOK_S)

    def _close(self) -> None:
        self._looking.cancel()
        for number in (self._inner, self._order, self._told):
            if number >= 0:
                os.close(number)
        self._inner = self._order = self._told = -1


async def spawned() -> Worker:
    """Start one; it waits for its order. Raises OSError."""
    order, ours = os.pipe()
    told, tell = os.pipe()
    try:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", _MODULE, str(os.getpid()), str(order), str(tell),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            pass_fds=(order, tell), cwd="/", start_new_session=True,
        )  # fmt: skip
    except BaseException:
        os.close(ours)
        os.close(told)
        raise
    finally:
        os.close(order)
        os.close(tell)
    os.set_blocking(told, False)
    return Worker(child, (ours, told))


def _write(number: int, data: bytes) -> None:
    with suppress(BrokenPipeError), os.fdopen(number, "wb") as pipe:  # what is small is written at its close
        pipe.write(data)


def _first_inside(pid: int) -> int:
    """A pidfd of the first process of a namespace that a child of that process made; -1: there is none."""
    for child in children(pid):
        for inner in children(child):
            with suppress(OSError):
                number = os.pidfd_open(inner)
                if 0 < _depth(child) < _depth(inner):
                    return number
                os.close(number)
    return -1


def _depth(pid: int) -> int:
    """In how many pid namespaces a process is seen; 0: it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((len(line.split()) - 1 for line in lines if line.startswith("NSpid:")), 0)


async def _readable(number: int) -> None:
    """Wait until a process has ended."""
    loop = asyncio.get_running_loop()
    gone = asyncio.Event()
    loop.add_reader(number, gone.set)
    try:
        await gone.wait()
    finally:
        loop.remove_reader(number)
