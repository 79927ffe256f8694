"""One program in a sandbox of its own, to its end: what it printed, how it ended, within a time and a size.

It has no terminal and no network; what it is to read is handed over in memory. Every process of it is gone
before its end counts, whichever way it ends: by itself, by its time, by too much output, or because nobody
waits for it any more. Spawn from the main thread: the sandbox dies with the thread that spawned it.
"""

import asyncio
import os
import subprocess
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

from reconciler.runtime import agentbox, infopipe, memory
from reconciler.runtime.limits import Group
from reconciler.runtime.process import NotStartedError, Process

Ended = Literal["exit", "signal", "timeout", "output"]
_SET_UP_S = 20.0
_PIECE = 65_536
_FLOOD = 64 * 2**20  # bytes of output that are read and mostly dropped, before the program is ended
_HEAD = 5  # a fifth of what is kept is its beginning
_LAST_S = 1.0  # for what is still in the pipes of a program that ended
_KILLED = 128 + 9


@dataclass(frozen=True, slots=True)
class Order:
    """What to run. ``label`` is the name that bubblewrap bears; ``command`` gets the descriptor that lets it
    begin; ``group`` makes its bounds.
    """

    bwrap: str
    label: str
    box: agentbox.Box
    command: Callable[[int], tuple[str, ...]]
    seccomp: bytes
    group: Callable[[], Group]
    stdin: bytes = b""


@dataclass(frozen=True, slots=True)
class Ran:
    """How it ended: ``code`` is 128 + N for signal N. ``cut``: some of the output was left out."""

    ended: Ended
    code: int
    stdout: str
    stderr: str
    cut: bool
    seconds: float


async def run(order: Order, timeout_s: float, most_bytes: int) -> Ran:
    """Run it; ``most_bytes`` are kept of each output. Raises NotStartedError, and nothing ran then."""
    loop = asyncio.get_running_loop()
    with ExitStack() as ends:
        taps = (_Tap(most_bytes), _Tap(most_bytes))
        process = await _started(order, taps, ends)
        began = loop.time()
        ended: Ended | None = None
        try:
            waited: list[asyncio.Future[Any]] = [process.ended, *(tap.flooded for tap in taps)]
            await asyncio.wait(waited, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if not process.ended.done():
                ended = "output" if any(tap.flooded.done() for tap in taps) else "timeout"
        finally:
            how = await asyncio.shield(process.kill())
        await asyncio.wait({asyncio.ensure_future(tap.closed.wait()) for tap in taps}, timeout=_LAST_S)
        word, _, number = how.partition(" ")
        if ended is None:
            ended = "signal" if word == "signal" else "exit"
        code = _KILLED if ended in ("timeout", "output") else int(number) + (128 if word == "signal" else 0)
        texts = [tap.text() for tap in taps]
        return Ran(ended, code, texts[0], texts[1], any(tap.cut for tap in taps), loop.time() - began)


async def _started(order: Order, taps: "tuple[_Tap, _Tap]", ends: ExitStack) -> Process:
    """The process behind its walls and bounds, running."""
    with ExitStack() as ours, ExitStack() as theirs:
        told, tell = infopipe.pipe(ours, theirs)
        blocked, unblock = infopipe.pipe(theirs, ours)
        outputs = []
        for tap in taps:
            read, write = infopipe.pipe(ends, theirs)
            tap.listen(read, ends)
            outputs.append(write)
        try:
            process = Process(_spawned(order, (tell, blocked), outputs, theirs))
        except (OSError, ValueError) as fault:
            raise NotStartedError(f"it cannot be spawned: {fault}") from None
        theirs.close()
        try:
            async with asyncio.timeout(_SET_UP_S):
                process.group = order.group()  # its end takes its group away, too
                inner = infopipe.child_pid(await infopipe.until(told, b"}"))
                process.adopt(inner)
                os.write(unblock, b"11")  # one for bubblewrap, one for what runs in it
        except (TimeoutError, OSError, ValueError) as fault:
            how = await process.kill()
            why = str(fault) or "it took too long"
            raise NotStartedError(f"the sandbox ended with {how}: {why}") from None
        except BaseException:
            await process.kill()
            raise
    return process


def _spawned(
    order: Order, signs: tuple[int, int], outputs: list[int], theirs: ExitStack
) -> "subprocess.Popen[bytes]":
    options = memory.packed(agentbox.options(order.box))
    number = memory.file("options", options, theirs)
    filters = memory.file("seccomp", order.seccomp, theirs)
    stdin = memory.file("stdin", order.stdin, theirs)
    tell, blocked = signs
    word = os.dup(blocked)
    theirs.callback(os.close, word)
    numbers = ("--info-fd", tell, "--block-fd", blocked, "--seccomp", filters, "--args", number)
    return subprocess.Popen(  # noqa: S603 - an argument list that agentbox builds
        (order.label, *map(str, numbers), "--new-session", "--", *order.command(word)),
        executable=order.bwrap,
        stdin=stdin,
        stdout=outputs[0],
        stderr=outputs[1],
        pass_fds=(tell, blocked, word, filters, number),
        cwd="/",
        env={},
    )


class _Tap:
    """What comes out of one pipe: its beginning and its end, as far as there is room."""

    def __init__(self, most: int) -> None:
        self.cut = False
        self.closed = asyncio.Event()
        self.flooded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._kept = 0  # bytes of the tail
        self._most_head, self._most_tail = most // _HEAD, most - most // _HEAD
        self._read = 0

    def listen(self, pipe: int, ends: ExitStack) -> None:
        """Take what comes, until ``ends``."""
        os.set_blocking(pipe, False)
        loop = asyncio.get_running_loop()
        loop.add_reader(pipe, self._take, pipe)
        ends.callback(loop.remove_reader, pipe)

    def _take(self, pipe: int) -> None:
        data = os.read(pipe, _PIECE)
        if not data:
            asyncio.get_running_loop().remove_reader(pipe)
            self.closed.set()
            return
        self._read += len(data)
        room = self._most_head - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail.append(data)
            self._kept += len(data)
        while self._tail and self._kept - len(self._tail[0]) >= self._most_tail:
            self._kept -= len(self._tail.popleft())
            self.cut = True
        if self._read > _FLOOD and not self.flooded.done():
            self.flooded.set_result(None)

    def text(self) -> str:
        """As text, with a line where something is left out."""
        tail = b"".join(self._tail)
        self.cut = self.cut or len(tail) > self._most_tail
        if not self.cut:
            return (bytes(self._head) + tail).decode("utf-8", "replace")
        left = self._read - len(self._head) - min(len(tail), self._most_tail)
        said = f"\n[{left} bytes left out]\n"
        kept = tail[len(tail) - min(len(tail), self._most_tail) :]
        return bytes(self._head).decode("utf-8", "replace") + said + kept.decode("utf-8", "replace")
