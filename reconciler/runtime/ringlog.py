"""What a connector prints, kept bounded: the last half to whole megabyte, at most a megabyte a second.

Both of its streams are one pipe that the loop reads. A connector that floods is not read for the rest of the
second: it waits at its own write, and neither disk nor loop pays. Control characters do not reach the file,
so reading a log never plays tricks on a terminal.
"""

import asyncio
import os
from pathlib import Path

from reconciler.runtime.redaction import Sieve

RING_BYTES = 2**20
RATE_BYTES = 2**20  # a second
_CHUNK = 65536
_CLEAN = bytes(byte if (byte >= 0x20 and byte != 0x7F) or byte in b"\n\t" else 0x3F for byte in range(256))


class RingLog:
    """The log of one binding, shared by its instances: ``NAME.log`` and, before it, ``NAME.log.1``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._older = path.with_name(path.name + ".1")
        self._size = path.stat().st_size if path.exists() else 0

    def write(self, data: bytes) -> None:
        """Append; when the newer half is full it becomes the older one. A disk that is full loses lines."""
        half = RING_BYTES // 2
        data = data[-half:].translate(_CLEAN)
        try:
            if self._size + len(data) > half and self._size:
                self._path.replace(self._older)
                self._size = 0
            with self._path.open("ab") as file:
                file.write(data)
        except OSError:
            return
        self._size += len(data)

    def last_line(self) -> str:
        """The last line that was written, at most 200 characters; "" when there is none."""
        try:
            with self._path.open("rb") as file:
                file.seek(max(0, self._size - 4096))
                lines = file.read().decode("utf-8", "replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1][:200] if lines else ""


class Reader:
    """Carries one pipe through a sieve into a ring log until it ends; owns the descriptor."""

    def __init__(self, pipe: int, log: RingLog, sieve: Sieve | None = None) -> None:
        self._pipe = pipe
        self._sieve = sieve
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._left = RATE_BYTES
        self._second = self._loop.time()
        self._pause: asyncio.TimerHandle | None = None
        os.set_blocking(pipe, False)
        self._loop.add_reader(pipe, self._read)

    def close(self) -> None:
        """Take what is still in the pipe and let go of it; safe to call twice."""
        if self._pipe < 0:
            return
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._pipe)
        rest = self._rest()
        self._log.write(self._sieve.through(rest) + self._sieve.rest() if self._sieve else rest)
        os.close(self._pipe)
        self._pipe = -1

    def _read(self) -> None:
        try:
            data = os.read(self._pipe, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self.close()
            return
        self._log.write(self._sieve.through(data) if self._sieve else data)
        now = self._loop.time()
        if now - self._second >= 1:
            self._second, self._left = now, RATE_BYTES
        self._left -= len(data)
        if self._left <= 0:
            self._loop.remove_reader(self._pipe)
            self._pause = self._loop.call_at(self._second + 1, self._resume)

    def _resume(self) -> None:
        self._loop.add_reader(self._pipe, self._read)

    def _rest(self) -> bytes:
        taken = b""
        try:
            while len(taken) < RING_BYTES and (data := os.read(self._pipe, _CHUNK)):
                taken += data
        except BlockingIOError:
            pass  # another process still holds the pipe open
        return taken
