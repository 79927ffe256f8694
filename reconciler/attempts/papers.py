"""The files beside the ledger: exact bytes of requests, results, and where a result's files are to go.

Each is whole or not there: ``sealed/``, ``results/`` and ``places/`` below the ledger's folder, 0700 with
files of 0600, each with the name of its attempt. A file is on the disk, under its name, before a row speaks
of it; one without a row is swept away by retention.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

Shelf = Literal["sealed", "results", "places"]
SHELVES: tuple[Shelf, ...] = ("sealed", "results", "places")
_NAME = re.compile(r"[0-9a-f][0-9a-f.-]{0,79}")


class TooLargeError(ValueError):
    """A result is larger than it may be; nothing of it is kept."""


class Papers:
    """The files of one ledger. Safe to use from several threads: each attempt's file has its own name."""

    def __init__(self, folder: Path, *, only_read: bool = False) -> None:
        """Make the folders where they are missing, but to ``only_read``. Raises OSError."""
        self._folder = folder
        for one in () if only_read else (folder, *(folder / shelf for shelf in SHELVES)):
            one.mkdir(mode=0o700, exist_ok=True)

    def path(self, shelf: Shelf, ref: str) -> Path:
        """Where a paper lies. Raises ValueError for what is no name of a paper."""
        if not _NAME.fullmatch(ref):
            raise ValueError(f"{ref!r} is no paper's name")
        return self._folder / shelf / ref

    def keep(
        self, shelf: Shelf, ref: str, chunks: Iterable[bytes], max_bytes: int | None = None
    ) -> tuple[str, int]:
        """Put a paper on its shelf, durable: its digest and size. The same name again replaces it whole.

        Raises OSError and TooLargeError, and leaves what was there.
        """
        path = self.path(shelf, ref)
        aside = path.with_name(f"{ref}.{os.getpid()}.part")
        aside.unlink(missing_ok=True)
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        sum_, size = hashlib.sha256(), 0
        try:
            with os.fdopen(fd, "wb", buffering=0) as file:
                for chunk in chunks:
                    size += len(chunk)
                    if max_bytes is not None and size > max_bytes:
                        raise TooLargeError(f"more than {max_bytes} bytes")
                    sum_.update(chunk)
                    rest = memoryview(chunk)
                    while rest:
                        rest = rest[file.write(rest) or 0 :]
                os.fsync(file.fileno())
            aside.rename(path)
        except BaseException:
            with suppress(OSError):
                aside.unlink()
            raise
        _settle(path.parent)
        return f"sha256:{sum_.hexdigest()}", size

    def read(self, shelf: Shelf, ref: str) -> bytes:
        """A paper's bytes. Raises OSError."""
        return self.path(shelf, ref).read_bytes()

    def has(self, shelf: Shelf, ref: str) -> bool:
        """Whether a paper lies there."""
        return self.path(shelf, ref).is_file()

    def drop(self, shelf: Shelf, ref: str) -> None:
        """Take a paper away, if it is there. Raises OSError."""
        self.path(shelf, ref).unlink(missing_ok=True)

    def listing(self, shelf: Shelf) -> Iterator[tuple[str, os.stat_result]]:
        """Every file of a shelf, half-written ones too."""
        with os.scandir(self._folder / shelf) as entries:
            for one in entries:
                with suppress(FileNotFoundError):
                    yield one.name, one.stat(follow_symlinks=False)


def _settle(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
