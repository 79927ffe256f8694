"""An agent's program in its sandbox, in the foreground of a terminal: spawned, obeyed, and its end told.

The terminal stays the program's own: no session of its own, so that job control and the size of the window
work as ever; that a program cannot type into the terminal that it shares is the filter's work (TIOCSTI).
What the terminal sends to the foreground (Ctrl-C, Ctrl-Z) reaches the program from the kernel; a signal that
somebody sends to us is passed on. bubblewrap itself hears none of them, or it would end before the program
could put things in order. They are blocked, not ignored, until there is a program to pass them on to, so one
that comes while the sandbox is built is not lost. It dies with us: spawn from the main thread.
"""

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from reconciler.runtime import infopipe, memory, netns
from reconciler.runtime.limits import Group

_PASSED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
_SET_UP_S = 20.0
_SOON_S = 0.01

Serve = Callable[[socket.socket], Awaitable[None]]


class NotStartedError(Exception):
    """The sandbox could not be built; bubblewrap's own words went to standard error."""


@dataclass(frozen=True, slots=True)
class Order:
    """What to spawn. ``command`` gets the signals that are blocked and to be the program's own again, and the
    descriptor that lets it begin; ``group`` bounds it from before its first step.
    """

    bwrap: str
    options: tuple[str, ...]
    command: Callable[[tuple[int, ...], int], tuple[str, ...]]
    seccomp: bytes
    group: Group


def run(order: Order, serve: Serve | None, close: Callable[[], Awaitable[None]]) -> int:
    """Run it to its end; its exit code (128 + N for signal N). Raises NotStartedError, netns.NoListenerError.

    ``serve`` gets a listening socket inside its network before it runs, None for no way out; ``close`` is
    called at the end.
    """
    before = {number: how for number in _PASSED if (how := signal.getsignal(number)) is not signal.SIG_IGN}
    terminal = _foreground()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, before)
    try:
        return asyncio.run(_run(order, serve, close, tuple(set(before) - mask)))
    finally:
        for number in before:
            signal.signal(number, signal.SIG_IGN)  # it ended already: there is nobody to tell
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, how in before.items():
            signal.signal(number, how)
        _take_back(terminal)


async def _run(
    order: Order, serve: Serve | None, close: Callable[[], Awaitable[None]], own: tuple[int, ...]
) -> int:
    loop = asyncio.get_running_loop()
    for number in signal.sigpending() & set(own):  # it cannot be for what is not there yet
        await close()
        return 128 + int(number)
    child, told, unblock = _spawned(order, own)
    try:
        with ExitStack() as ends:
            ends.callback(os.close, told)
            ends.callback(os.close, unblock)
            inner = await _inner_pid(told)
            order.group.admit(inner)
            if serve is not None:
                await serve(await netns.listener(inner))
            for number in own:
                loop.add_signal_handler(number, _pass_on, number, inner)
            os.write(unblock, b"11")  # one for bubblewrap, one for what runs in it
            signal.pthread_sigmask(signal.SIG_UNBLOCK, own)
        return await _end(child)
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, own)
        for number in own:
            loop.remove_signal_handler(number)
        child.kill()
        child.wait()
        await close()


def _spawned(order: Order, own: tuple[int, ...]) -> tuple[subprocess.Popen[bytes], int, int]:
    """bubblewrap, which builds and waits; where it tells of its inner process, and what lets it go on."""
    try:
        packed = memory.packed(order.options)
    except ValueError as fault:
        raise NotStartedError(str(fault)) from None
    told, tell = os.pipe()
    blocked, unblock = os.pipe()
    with ExitStack() as theirs:
        theirs.callback(os.close, tell)
        theirs.callback(os.close, blocked)
        filters = memory.file("seccomp", order.seccomp, theirs)
        options = memory.file("options", packed, theirs)
        word = os.dup(blocked)
        theirs.callback(os.close, word)
        numbers = ("--info-fd", tell, "--block-fd", blocked, "--seccomp", filters, "--args", options)
        child = subprocess.Popen(  # noqa: S603 - an argument list that agentbox builds
            (order.bwrap, *map(str, numbers), "--", *order.command(own, word)),
            pass_fds=(tell, blocked, word, filters, options),
            cwd="/",
            env={},
        )
    return child, told, unblock


async def _inner_pid(told: int) -> int:
    try:
        async with asyncio.timeout(_SET_UP_S):
            return infopipe.child_pid(await infopipe.until(told, b"}"))
    except TimeoutError:
        raise NotStartedError("bubblewrap took too long") from None
    except ValueError as error:
        raise NotStartedError(str(error)) from None


async def _end(child: subprocess.Popen[bytes]) -> int:
    loop = asyncio.get_running_loop()
    pidfd = os.pidfd_open(child.pid)
    ended = asyncio.Event()
    loop.add_reader(pidfd, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)
    code = child.wait()
    return code if code >= 0 else 128 - code


def _pass_on(number: int, inner: int) -> None:
    """Give a signal to the program, unless the terminal did: then its whole foreground has it already."""
    if number in _FROM_TERMINAL and _foreground() is not None:
        return
    with suppress(OSError):
        children = Path(f"/proc/{inner}/task/{inner}/children").read_text().split()
        for pid in map(int, children):
            os.kill(pid, number)
        if not children:  # it is about to be started
            asyncio.get_running_loop().call_later(_SOON_S, _pass_on, number, inner)


def _foreground() -> int | None:
    """A terminal whose foreground we are, as a standard descriptor; None without one."""
    for number in (0, 1, 2):
        with suppress(OSError):
            if os.tcgetpgrp(number) == os.getpgrp():
                return number
    return None


def _take_back(terminal: int | None) -> None:
    """Be the foreground again, where a shell inside had put itself there."""
    if terminal is None:
        return
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    with suppress(OSError):
        os.tcsetpgrp(terminal, os.getpgrp())
    signal.signal(signal.SIGTTOU, before)
