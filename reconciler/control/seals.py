"""Whether somebody else wrote to our files: each one's look when we wrote it, compared by one ``lstat``.

A file that looks otherwise may still hold the same bytes; who owns it decides that, and notes it anew.
"""

import os
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

lstat = os.lstat  # one call for each file that is looked at
_NO_LOOK = -1  # which no hash is, so the file is odd at the next look


class Seals(Generic[K]):
    """The looks of files by their owner's key; safe from several threads as far as their owner is."""

    def __init__(self, path: Callable[[K], Path]) -> None:
        self._path = path
        self._looks: dict[K, int] = {}

    def look(self, key: K) -> int | None:
        """How a file looks now, for ``note``: asked before it is read, so that an edit in between shows."""
        found = _look(self._path(key))
        return found[0] if found else None

    def note(self, key: K, look: int | None) -> None:
        """Remember how the file looked; one that was not there is not looked after."""
        if look is None:
            self._looks.pop(key, None)
        else:
            self._looks[key] = look

    def wrote(self, key: K, size_bytes: int) -> None:
        """Remember how a file looks that was just written; one that somebody removed or edited since is odd,
        as far as its size tells.
        """
        found = _look(self._path(key))
        self._looks[key] = found[0] if found and found[1] == size_bytes else _NO_LOOK

    def drop(self, key: K) -> None:
        """Look after this file no more."""
        self._looks.pop(key, None)

    def odd(self) -> tuple[K, ...]:
        """The keys of files that look otherwise than they were noted, or are gone."""
        return tuple(key for key, look in list(self._looks.items()) if self.look(key) != look)


def _look(path: Path) -> tuple[int, int] | None:
    """How a file looks, in one number (that of thousands is kept), and its size."""
    try:
        found = lstat(path)
    except OSError:
        return None
    return hash((found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)), found.st_size
