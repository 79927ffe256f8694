"""The SHA-256 of bytes on their way from one file to another: beside their writing, where that pays.

A large file's bytes are hashed by a thread of their own while they are written, so that hashing, the longer
half, does not add to the writing. Two buffers go round: one is read into while the other is hashed. Nothing
is left behind: the thread ends with the ``with`` block, whatever happened in it.
"""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue

PIECE = 256 * 1024  # bytes: small enough for the cache and for a prompt end, large enough to cost no time
_LARGE = 4 * PIECE  # from here on a thread is worth its start


class Hasher:
    """Hashes at once, in the caller's thread."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._buffer = memoryview(bytearray(PIECE))

    def buffer(self) -> memoryview:
        """What to read into next; what was taken before stays as it is until then."""
        return self._buffer

    def take(self, piece: memoryview) -> None:
        """Hash a piece of the buffer; it may be read meanwhile, and not be changed."""
        self._digest.update(piece)

    def hexdigest(self) -> str:
        """The digest of all that was taken."""
        return self._digest.hexdigest()

    def end(self) -> None:
        """Stop; once."""


class _Beside(Hasher):
    """Hashes in a thread of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._free: SimpleQueue[memoryview] = SimpleQueue()
        self._full: SimpleQueue[tuple[memoryview, memoryview] | None] = SimpleQueue()
        self._free.put(self._buffer)
        self._free.put(memoryview(bytearray(PIECE)))
        self._thread = threading.Thread(target=self._run, name="files-sha256", daemon=True)
        self._thread.start()

    def buffer(self) -> memoryview:
        self._buffer = self._free.get()
        return self._buffer

    def take(self, piece: memoryview) -> None:
        self._full.put((self._buffer, piece))

    def hexdigest(self) -> str:
        self.end()
        return super().hexdigest()

    def end(self) -> None:
        self._full.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (given := self._full.get()) is not None:
            buffer, piece = given
            self._digest.update(piece)
            self._free.put(buffer)


@contextmanager
def hasher(size: int) -> Iterator[Hasher]:
    """A hasher for about that many bytes."""
    found = _Beside() if size >= _LARGE else Hasher()
    try:
        yield found
    finally:
        found.end()
