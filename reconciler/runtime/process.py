"""One sandboxed process tree: spawned under its bounds, known to stand, and gone without a trace.

The order of a spawn: bubblewrap builds the sandbox and stops before it runs anything (``--block-fd``);
meanwhile its inner process is put under its control groups and limits, which takes the kernel about as long;
the block is lifted, and the interpreter says by one byte that it runs. Only then is the process handed out.
Options travel by a memory file, so no setting shows in a process list. Bubblewrap dies with the thread that
spawned it: spawn from the main thread.

Ending it means ending the first process of its pid namespace, which takes everything inside with it, however
it was started. It has ended when both are gone: bubblewrap leaves as soon as it knows the exit status, its
namespace a moment later.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.runtime import infopipe, memory
from reconciler.runtime.limits import Group

GRACE_S = 2.0  # between the request to stop and the end of the pid namespace
_GONE_S = 5.0  # the kernel ends a pid namespace in milliseconds, unless a process hangs in a device
_LEAVE_TRIES = 50  # ten milliseconds apart
_SET_UP_S = 10.0  # building the sandbox takes some milliseconds
_SIGNALLED = 128  # bubblewrap's own code for a child that a signal ended, plus its number


class NotStartedError(Exception):
    """The sandbox could not be built, or its interpreter never ran; the text is for operators."""


@dataclass(frozen=True, slots=True)
class Order:
    """What to spawn. ``command`` gets two numbers: the listening socket, and the pipe that says it runs."""

    label: str  # shown as the process's name; leftovers are found by it
    bwrap: str
    options: tuple[str, ...] = field(repr=False)  # a secret may be among them
    command: Callable[[int, int], tuple[str, ...]]
    seccomp: bytes
    listener: int
    output: int  # standard output and error, one pipe
    built: Callable[[int], Awaitable[None]] | None = None  # gets the inner process, before anything runs
    passed: tuple[int, ...] = ()  # further descriptors that the command inherits, under their own numbers


class Process:
    """A sandbox that stands. ``ended`` resolves once to how it ended: "exit 1", "signal 9"."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        self.group = Group((), "rlimit", ())  # its bounds; goes with it
        self._pidfd = os.pidfd_open(child.pid)
        self._inner: int | None = None  # a pidfd of the namespace's first process
        self._inner_pid = 0
        self._loop = asyncio.get_running_loop()
        self.pid = child.pid
        self.out_of_memory = False
        self.ended: asyncio.Future[str] = self._loop.create_future()
        self._left = asyncio.Event()  # its control groups are gone too, or will not go
        self._loop.add_reader(self._pidfd, self._reap)

    def adopt(self, inner_pid: int) -> None:
        """Learn the namespace's first process and put it under the bounds; OSError when it is gone."""
        self._inner = os.pidfd_open(inner_pid)
        if _parent(inner_pid) != self.pid:
            raise ProcessLookupError("the sandbox ended while it was built")
        self._inner_pid = inner_pid
        self.group.admit(inner_pid)

    def outbox(self) -> int:
        """A descriptor of the outbox inside the sandbox: files are opened in it by name, never listed.

        It is memory of the sandbox's own mount, so nothing of it lies on a disk or outlives this descriptor.
        """
        return os.open(
            f"/proc/{self._inner_pid}/root/run/connector/out", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        )

    async def stop(self, grace_s: float = GRACE_S) -> str:
        """Ask it to end, wait, then end it; how it ended. Nothing of it is left when this returns."""
        if not self.ended.done():
            self._ask()
            await asyncio.wait((self.ended,), timeout=grace_s)
        return await self.kill()

    async def kill(self) -> str:
        """End it now; how it ended. Nothing of it is left when this returns."""
        if not self.ended.done():
            self.cut()
            await asyncio.wait((self.ended,), timeout=_GONE_S)
        if not self.ended.done():
            self._child.kill()
            await self.ended
        await self._left.wait()
        return self.ended.result()

    def cut(self) -> None:
        """End the namespace, without waiting; with it gone, bubblewrap ends by itself."""
        with suppress(ProcessLookupError):
            if self._inner is not None:
                signal.pidfd_send_signal(self._inner, signal.SIGKILL)
            else:
                self._child.kill()

    def _ask(self) -> None:
        """SIGTERM to the connector itself: the first process of a namespace would not hear it."""
        for pid in children(self._inner_pid) if self._inner_pid else ():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGTERM)

    def _reap(self) -> None:
        """Bubblewrap is gone: see that its namespace goes too."""
        code = self._child.poll()
        if code is None:
            return
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        if self._inner is None:
            self._finish(code)
        else:
            self.cut()
            self._loop.add_reader(self._inner, self._finish, code)

    def _finish(self, code: int) -> None:
        if self._inner is not None:
            self._loop.remove_reader(self._inner)
            os.close(self._inner)
            self._inner = None
        self.out_of_memory = self.group.out_of_memory()
        self._leave(_LEAVE_TRIES)
        self.ended.set_result(_how(code))

    def _leave(self, tries: int) -> None:
        """Take the control groups away; the kernel may count a dead process for some milliseconds more."""
        if self.group.remove() or not tries:
            self._left.set()
        else:
            self._loop.call_later(0.01, self._leave, tries - 1)


async def spawn(order: Order, bounds: Callable[[], Group]) -> Process:
    """Build the sandbox and see its interpreter run; raises NotStartedError, and leaves nothing then.

    ``bounds`` makes the group, while bubblewrap is at work.
    """
    with ExitStack() as ours, ExitStack() as theirs:
        told, tell = infopipe.pipe(ours, theirs)
        blocked, unblock = infopipe.pipe(theirs, ours)
        runs, started = infopipe.pipe(ours, theirs)
        process = Process(_bubblewrap(order, tell, blocked, started))
        theirs.close()
        try:
            async with asyncio.timeout(_SET_UP_S):
                process.group = bounds()
                inner = infopipe.child_pid(await infopipe.until(told, b"}"))
                process.adopt(inner)
                if order.built is not None:
                    await order.built(inner)
                os.write(unblock, b"1")
                if not await infopipe.until(runs, b"1"):
                    raise NotStartedError("the interpreter did not start")
        except (TimeoutError, OSError, ValueError, NotStartedError) as fault:
            how = await process.kill()
            why = str(fault) or "it took too long"  # a timeout has no words of its own
            raise NotStartedError(f"the sandbox ended with {how}: {why}") from None
        except BaseException:
            await process.kill()
            raise
    return process


def _bubblewrap(order: Order, tell: int, blocked: int, started: int) -> subprocess.Popen[bytes]:
    with ExitStack() as files:
        filters = memory.file("seccomp", order.seccomp, files)
        options = memory.file("options", memory.packed(order.options), files)
        numbers = ("--info-fd", tell, "--block-fd", blocked, "--seccomp", filters, "--args", options)
        return subprocess.Popen(  # noqa: S603 - an argument list that sandbox builds
            (order.label, *map(str, numbers), "--", *order.command(order.listener, started)),
            executable=order.bwrap,
            stdin=subprocess.DEVNULL,
            stdout=order.output,
            stderr=order.output,
            pass_fds=(tell, blocked, started, order.listener, filters, options, *order.passed),
            cwd="/",
            env={},
        )


def children(pid: int) -> list[int]:
    """The processes that a process's first thread started; none where it has ended."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _parent(pid: int) -> int:
    """The parent of a process, from the field after its name in ``/proc/PID/stat``; 0 when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    return int(stat.rpartition(b")")[2].split()[1])


def _how(code: int) -> str:
    if code < 0:
        return f"signal {-code}"
    return f"signal {code - _SIGNALLED}" if code > _SIGNALLED else f"exit {code}"
