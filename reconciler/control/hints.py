"""Hints: which paths of a folder may have changed, as soon as the kernel says so.

Hints are hints: the timed scan is the truth. They make an edit quick, and nothing rests on their coming.
The first event of a quiet time is passed on at once, those of a flood together. Where the machine cannot
watch (no inotify instance or watch left, the folder is gone) that is said and tried again; where events were
dropped, or the folder was replaced, everything is looked at and a new watch begun.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from reconciler.control import inotify, walk

_LOG = logging.getLogger("handler.source")
_GIT = ".git"
_GIT_MOVED = (_GIT, ".git/index.lock", ".git/HEAD", ".git/packed-refs")  # a checkout, a commit
_GIT_REFS = ".git/refs"

_BREATH_S = 0.25  # how soon it is noticed that a folder far above was replaced, which no watch hears
_QUIET_S = 0.004  # events of one act come closer together than this
_CAP_S = 0.05  # … and a flood is passed on at least this often
_RETRY_S = 2.0  # how soon a watch is tried again where there was none


async def hints(root: Path, degraded: Callable[[str], None] | None = None) -> AsyncIterator[frozenset[str]]:
    """Paths below ``root`` that may have changed, relative and posix; an empty set says: look at
    everything.

    Flooded with events, they come 4 to 50 ms apart. ``degraded`` hears why nothing can be watched and, when
    it can again, "". Never ends by itself.
    """
    complaint = ""
    while True:
        why, pause_s = "", 0.0
        try:
            async for paths in _watched(root):
                if complaint and degraded:
                    degraded("")
                complaint = ""
                yield paths
        except inotify.Lost as lost:
            why = f"changes were found by a scan: {lost}"
        except Exception as error:  # noqa: BLE001 - a hint that fails to come, however, leaves the scan
            why, pause_s = f"changes are found by the timed scan alone: {_words(error)}", _RETRY_S
        if why and why != complaint:
            _LOG.warning("%s", why)
            if degraded:
                degraded(why)
            complaint = why
        await asyncio.sleep(pause_s)


def _words(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


async def _watched(root: Path) -> AsyncIterator[frozenset[str]]:
    """The hints of one watch; ends when another folder is there, of which it would hear nothing for ever."""
    identity = _identity_of(root)
    loop = asyncio.get_running_loop()
    with inotify.Watches(root, followed) as watches:
        ear = _Ear(watches)
        loop.add_reader(watches, ear.hear)
        try:
            yield frozenset()  # what changed before the watch stood
            pause_s, passed_at = _QUIET_S, 0.0
            while True:
                found = await ear.heard(_BREATH_S)
                if _identity_of(root) != identity:
                    return
                if not found:
                    continue
                yield frozenset() if "" in found else frozenset(found)
                flood = loop.time() - passed_at < 2 * pause_s
                pause_s, passed_at = min(2 * pause_s, _CAP_S) if flood else _QUIET_S, loop.time()
                await asyncio.sleep(pause_s)
        finally:
            loop.remove_reader(watches)


class _Ear:
    """Takes the events as they come, so that the kernel's queue is empty however long somebody thinks."""

    def __init__(self, watches: inotify.Watches) -> None:
        self._watches = watches
        self._news = asyncio.Event()
        self._found: set[str] = set()
        self._fault: Exception | None = None

    def hear(self) -> None:
        try:
            self._found.update(hint for path in self._watches.read() if (hint := hint_of(path)) is not None)
        except (OSError, inotify.Lost) as fault:
            self._fault = fault
            asyncio.get_running_loop().remove_reader(self._watches)
        if self._found or self._fault:
            self._news.set()

    async def heard(self, within_s: float) -> set[str]:
        """What was heard since the last time, once there is something; nothing when there was nothing."""
        try:
            async with asyncio.timeout(within_s):
                await self._news.wait()
        except TimeoutError:
            return set()
        self._news.clear()
        if self._fault:
            raise self._fault
        found, self._found = self._found, set()
        return found


def hint_of(path: str) -> str | None:
    """The hint that an event at ``path`` gives: the path, "" for everything, or None for nothing."""
    if walk.taken(path):
        return path
    if path in walk.FOLDERS or path in _GIT_MOVED or path.startswith(f"{_GIT_REFS}/"):
        return ""
    return None


def followed(folder: str) -> bool:
    """True for a folder (posix, relative) in which something may happen that gives a hint."""
    if folder in walk.FOLDERS or folder in (_GIT, _GIT_REFS):
        return True
    return walk.taken(folder) or folder.startswith(f"{_GIT_REFS}/")


def _identity_of(root: Path) -> tuple[int, int]:
    status = os.stat(root)  # noqa: PTH116 - four times a second for ever
    return status.st_dev, status.st_ino
