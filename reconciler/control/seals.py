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

    def note(self, key: K) -> None:
        """Remember how the file looks now; one that is not there is not looked after."""
        look = _look(self._path(key))
        if look is None:
            self._looks.pop(key, None)
        else:
            self._looks[key] = look

    def wrote(self, key: K) -> None:
        """Remember how a file looks that was just written; one that somebody removed since is missed."""
        look = _look(self._path(key))
        self._looks[key] = _NO_LOOK if look is None else look

    def drop(self, key: K) -> None:
        """Look after this file no more."""
        self._looks.pop(key, None)

    def odd(self) -> tuple[K, ...]:
        """The keys of files that look otherwise than they were noted, or are gone."""
        return tuple(key for key, look in list(self._looks.items()) if _look(self._path(key)) != look)


def _look(path: Path) -> int | None:
    """How a file looks, in one number: that of thousands is kept."""
    try:
        found = lstat(path)
    except OSError:
        return None
    return hash((found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns))
