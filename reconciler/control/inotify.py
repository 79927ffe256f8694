"""What the kernel says of a folder: inotify watches that follow the folders below it as they come and go.

The law: what is reported may be too much, never silently too little. A folder that came is reported itself,
after its watch stands, so whatever was put into it before is found by looking. Events that the kernel
dropped, and a root that was moved or deleted, end the watch (``Lost``) instead of leaving it deaf. A file
that is being written is reported when its writer closes it, not while half of it is there.

Nothing here waits or has a thread: the descriptor is readable when there is something to read, and whoever
has a loop watches it. man 7 inotify.
"""

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

_libc = ctypes.CDLL(None, use_errno=True)

_ATTRIB, _CLOSE_WRITE = 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF = 0x400, 0x800
_UNMOUNT, _OVERFLOW, _IGNORED = 0x2000, 0x4000, 0x8000
_ONLYDIR, _DONT_FOLLOW, _EXCL_UNLINK, _ISDIR = 0x0100_0000, 0x0200_0000, 0x0400_0000, 0x4000_0000
_NEWS = _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_BELOW = _NEWS | _ONLYDIR | _DONT_FOLLOW | _EXCL_UNLINK
_ROOT = _NEWS | _ONLYDIR | _DELETE_SELF | _MOVE_SELF
_CAME = _CREATE | _MOVED_TO

_HEAD = struct.Struct("iIII")  # watch, mask, cookie, length of the name
_BUFFER_BYTES = 1 << 16
_PASSED_OVER = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES)  # gone again, a link, not to be seen
_LIMITS = {
    errno.EMFILE: "no inotify instance is left: raise fs.inotify.max_user_instances",
    errno.ENOSPC: "no inotify watch is left: raise fs.inotify.max_user_watches",
}


class Lost(Exception):  # noqa: N818 - a fact about the watch, not an error
    """The watch hears no more of what changes; the text says why. Begin anew, and look at everything."""


class Watches:
    """Watches of one folder and of those below that are ``wanted``. A context manager."""

    def __init__(self, root: Path, wanted: Callable[[str], bool]) -> None:
        """``wanted`` is asked of folders by their path from the root. Raises OSError, with the limit to
        raise where one is reached.
        """
        self._root = top = str(root.resolve())
        self._wanted = wanted
        self._paths: dict[int, str] = {}  # by watch: the folder's path from the root, "" or ending in "/"
        self._fd = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), top)
        try:
            self._top = _checked(_libc.inotify_add_watch(self._fd, os.fsencode(top), _ROOT), top)
            self._paths[self._top] = ""
            self._add_below("")
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._fd

    def __len__(self) -> int:
        """How many folders are watched."""
        return len(self._paths)

    def read(self) -> set[str]:
        """The paths, from the root, at which something may have changed since they were last read. Raises
        ``Lost``, and OSError when a folder that came cannot be watched.
        """
        found: set[str] = set()
        while data := self._data():
            for watch, mask, name in _events(data):
                self._take(watch, mask, name, found)
        return found

    def _data(self) -> bytes:
        try:
            return os.read(self._fd, _BUFFER_BYTES)
        except BlockingIOError:
            return b""

    def _take(self, watch: int, mask: int, name: str, found: set[str]) -> None:
        if mask & _OVERFLOW:
            raise Lost("the kernel dropped events")
        if mask & _UNMOUNT or (watch == self._top and mask & (_DELETE_SELF | _MOVE_SELF)):
            raise Lost("the folder is not where it was")
        if mask & _IGNORED:
            self._paths.pop(watch, None)
            return
        above = self._paths.get(watch)
        if above is None or not name:
            return  # of a folder that was moved away, or of the watched folder itself, told by the one above
        path = above + name
        if mask & _ISDIR:
            self._follow(path, mask)
        elif mask & _CREATE and self._is_being_written(path):
            return
        found.add(path)

    def _follow(self, path: str, mask: int) -> None:
        """A folder came, went, or may be read now."""
        if mask & _MOVED_FROM:
            inside = f"{path}/"
            for watch in [watch for watch, known in self._paths.items() if known.startswith(inside)]:
                del self._paths[watch]
                _libc.inotify_rm_watch(self._fd, watch)
        elif mask & (_CAME | _ATTRIB):
            self._add(path)

    def _add(self, path: str) -> None:
        if not self._wanted(path):
            return
        watch = _libc.inotify_add_watch(self._fd, os.fsencode(f"{self._root}/{path}"), _BELOW)
        if watch < 0 and ctypes.get_errno() in _PASSED_OVER:
            return
        self._paths[_checked(watch, path)] = f"{path}/"
        self._add_below(f"{path}/")

    def _add_below(self, path: str) -> None:
        folders: list[str] = []
        with suppress(OSError), os.scandir(f"{self._root}/{path}") as entries:
            folders = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        for name in folders:
            self._add(path + name)

    def _is_being_written(self, path: str) -> bool:
        """A file that was made by opening it: its writer closes it, which is heard. One that was linked is
        whole.
        """
        try:
            now = Path(self._root, path).lstat()
        except OSError:
            return False
        return stat.S_ISREG(now.st_mode) and now.st_nlink == 1


def _events(data: bytes) -> Iterator[tuple[int, int, str]]:
    place = 0
    while place < len(data):
        watch, mask, _, size = _HEAD.unpack_from(data, place)
        place += _HEAD.size
        yield watch, mask, os.fsdecode(data[place : place + size].rstrip(b"\0"))
        place += size


def _checked(result: int, path: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, _LIMITS.get(number) or os.strerror(number), path)
    return result
