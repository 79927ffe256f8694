"""What a connector prints, kept bounded: the last half to whole megabyte, at most a megabyte a second.

Both of its streams are one pipe that the loop reads. A connector that floods is not read for the rest of the
second: it waits at its own write, and neither disk nor loop pays. Control characters do not reach the file,
so reading a log never plays tricks on a terminal. Each line begins with when it was read and which instance
printed it (``model.loglines``); the head counts as printed, so that a flood of empty lines costs no more.
"""

import asyncio
import os
import time
from pathlib import Path

from reconciler.model import loglines
from reconciler.runtime.redaction import Sieve

RING_BYTES = 2**20
RATE_BYTES = 2**20  # a second
_HALF = RING_BYTES // 2
_CHUNK = 65536
_CLEAN = bytes(byte if (byte >= 0x20 and byte != 0x7F) or byte in b"\n\t" else 0x3F for byte in range(256))

_OURS = "handler: "  # so the kit's own programs begin the reason for which they end


class RingLog:
    """The log of one binding, shared by its instances: ``NAME.log`` and, before it, ``NAME.log.1``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._older = path.with_name(path.name + ".1")
        self._size = path.stat().st_size if path.exists() else 0
        self._newest: Speaker | None = None
        self._half_said: Speaker | None = None  # whose last line has not ended

    def speaker(self, digest: str) -> "Speaker":
        """What one process of an instance prints, from now on."""
        self._newest = Speaker(self, digest)
        return self._newest

    def write(self, data: bytes, speaker: "Speaker") -> int:
        """Append what a process printed; how many bytes of the log that are. When the newer half is full it
        becomes the older one. A disk that is full loses lines.
        """
        text = speaker.headed(data[-(_HALF - 3 * loglines.HEAD) :].translate(_CLEAN))
        cut = len(text) >= _HALF
        if cut:
            text = text[text.find(b"\n", len(text) - _HALF) + 1 :]
        if self._half_said is speaker and not cut:
            goes_on = text[loglines.HEAD :]
        else:
            goes_on = text if self._half_said is None else b"\n" + text
        try:
            if self._size + len(goes_on) >= _HALF and self._size:
                self._turn()
                goes_on = text
            with self._path.open("ab") as file:
                file.write(goes_on)
        except OSError:
            return len(text)
        self._size += len(goes_on)
        self._half_said = None if text.endswith(b"\n") else speaker
        return len(text)

    def _turn(self) -> None:
        if self._half_said is not None:  # each half is of whole lines
            with self._path.open("ab") as file:
                file.write(b"\n")
        self._path.replace(self._older)
        self._size = 0

    def last_line(self) -> str:
        """The last line that was written, at most 200 characters; "" when there is none."""
        said = (line.text.strip() for line in reversed(loglines.lines(self._end())))
        return next(filter(None, said), "")[:200]

    def why(self) -> str:
        """What our own program in front of a connector said last of why it ends, at most 200 characters; ""
        where the newest process said nothing of the kind.
        """
        if self._newest is None or not self._newest.spoke:
            return ""
        for line in reversed(loglines.lines(self._end())):
            if line.text.startswith(_OURS):
                return line.text.removeprefix(_OURS).strip()[:200]
            if line.begins:
                break
        return ""

    def _end(self) -> str:
        try:
            with self._path.open("rb") as file:
                file.seek(max(0, self._size - 4096))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""


class Speaker:
    """One process as its log knows it."""

    def __init__(self, log: RingLog, digest: str) -> None:
        self._log = log
        self._digest = digest
        self.spoke = False

    def say(self, data: bytes) -> int:
        """Put what was read of it into the log; how many bytes of the log that are."""
        return self._log.write(data, self) if data else 0

    def headed(self, data: bytes) -> bytes:
        """What it printed now, a head before each line."""
        now_s = time.time()
        at = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now_s))}.{int(now_s * 1000) % 1000:03}Z"
        first = loglines.head(at, self._digest, begins=not self.spoke).encode()
        more = b"\n" + loglines.head(at, self._digest, begins=False).encode()
        self.spoke = True
        lines = data.removesuffix(b"\n")
        return first + lines.replace(b"\n", more) + data[len(lines) :]


class Reader:
    """Carries one pipe through a sieve into a ring log until it ends; owns the descriptor."""

    def __init__(self, pipe: int, speaker: Speaker, sieve: Sieve | None = None) -> None:
        self._pipe = pipe
        self._sieve = sieve
        self._speaker = speaker
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
        self._speaker.say(self._sieve.through(rest) + self._sieve.rest() if self._sieve else rest)
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
        cost = self._speaker.say(self._sieve.through(data) if self._sieve else data)
        now = self._loop.time()
        if now - self._second >= 1:
            self._second, self._left = now, RATE_BYTES
        self._left -= max(len(data), cost)
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
