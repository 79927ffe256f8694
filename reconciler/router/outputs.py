"""An output file while it is written: without a name until it is whole, so that no crash leaves half of one.

An output is made with O_TMPFILE in the folder where it will lie; its one name is given in one step that never
replaces anything unless the folder is granted ``write``. Only two cases know a temporary name: replacing a
file (it is named, then renamed over it), and file systems without O_TMPFILE. Such a name is locked by
its writer (flock), so what a killed writer left is told from what another one writes right now: it is swept
with the next look into that folder. Nothing is synced to the disk: a file is whole or absent when a process
dies, not when the power does.
"""

import errno
import fcntl
import os
import stat
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from reconciler.router.beneath import Denial, Denied, short

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NAMELESS = os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC
_NO_TMPFILE = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)  # how file systems say so
_MODE = 0o666  # less the umask; an output is never executable
_BEFORE, _AFTER = ".handler-", ".part"
_MOST_ENTRIES = 20_000  # looked at in one sweep: some 10 ms
_MOST_FOLDERS = 4_096  # remembered as swept
_STALE_S = 60  # between making a file and locking it lies far less


@dataclass(slots=True)
class Spot:
    """Where an output file goes: the open parent folder and the name in it. ``again``: it may have been put
    there before; a plain file of the same bytes is it.
    """

    folder: int
    name: str
    overwrite: bool
    again: bool = False


@dataclass(slots=True)
class Output:
    """An output file that is being written; ``hidden`` is its temporary name, or empty."""

    descriptor: int
    hidden: str = ""


def begin(place: Spot, blob: str) -> Output:
    """Make an output file; ``blob`` is unique. Raises Denied."""
    try:
        return Output(os.open(".", _NAMELESS, _MODE, dir_fd=place.folder))
    except OSError as error:
        if error.errno not in _NO_TMPFILE:
            raise Denied(Denial.FAILED, f"a file cannot be made: {short(error)}") from None
    hidden = f"{_BEFORE}{blob}{_AFTER}"
    descriptor = create(place.folder, hidden, _MODE)
    with suppress(OSError):  # a file system without locks: a name that is left there stays
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return Output(descriptor, hidden)


def finish(output: Output, place: Spot, blob: str) -> None:
    """Give a whole output its name: over a plain file where that is granted, else never; raises Denied."""
    try:
        need_free(place)
        if not place.overwrite:
            _link(output, place, place.name)  # fails when the first comer is there, on every file system
            return
        with suppress(FileExistsError):
            _link(output, place, place.name)
            return
        if not output.hidden:
            hidden = f"{_BEFORE}{blob}{_AFTER}"
            fcntl.flock(output.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _link(output, place, hidden)
            output.hidden = hidden
        os.rename(output.hidden, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
        output.hidden = ""
    except FileExistsError:
        raise Denied(Denial.REFUSED, "something is there already") from None
    except OSError as error:
        raise Denied(Denial.FAILED, f"the file cannot be named: {short(error)}") from None


def close(output: Output, place: Spot) -> None:
    """End an output: what has no name by now is gone."""
    if output.hidden:
        discard(place.folder, output.hidden)
    os.close(output.descriptor)


def need_free(place: Spot) -> None:
    """See that an output file may get its name; raises Denied."""
    try:
        found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Denied(Denial.REFUSED, f"the place cannot be looked at: {short(error)}") from None
    if not ((place.overwrite or place.again) and stat.S_ISREG(found.st_mode)):
        raise Denied(Denial.REFUSED, "something is there already")


def create(folder: int, name: str, mode: int) -> int:
    """Make a new file in a folder; raises Denied."""
    try:
        return os.open(name, _NEW, mode, dir_fd=folder)
    except OSError as error:
        raise Denied(Denial.FAILED, f"a file cannot be made: {short(error)}") from None


def discard(folder: int, name: str) -> None:
    """Remove a file that may be there."""
    with suppress(OSError):
        os.unlink(name, dir_fd=folder)


def sweep(folder: int) -> None:
    """Remove what killed writers left in a folder; once a folder and process. Never raises."""
    with suppress(OSError):
        found = os.fstat(folder)
        if _swept.first(found.st_dev, found.st_ino):
            _sweep(folder)


class _Swept:
    """The folders that were swept, by device and inode; asked from several threads."""

    def __init__(self) -> None:
        self._known: set[tuple[int, int]] = set()
        self._lock = threading.Lock()

    def first(self, device: int, inode: int) -> bool:
        """Whether this folder is asked for the first time."""
        with self._lock:
            if (device, inode) in self._known:
                return False
            if len(self._known) >= _MOST_FOLDERS:
                self._known.clear()
            self._known.add((device, inode))
            return True


_swept = _Swept()


def _sweep(folder: int) -> None:
    listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        with os.scandir(listed) as entries:
            names = [entry.name for _, entry in zip(range(_MOST_ENTRIES), entries, strict=False)]
    finally:
        os.close(listed)
    for name in names:
        if name.startswith(_BEFORE) and name.endswith(_AFTER):
            with suppress(OSError):
                _remove_stale(folder, name)


def _remove_stale(folder: int, name: str) -> None:
    """Remove a plain file with one of our temporary names, unless its writer lives."""
    descriptor = os.open(
        name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=folder
    )
    try:
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode) and time.time() - found.st_ctime > _STALE_S:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises while its writer holds it
            os.unlink(name, dir_fd=folder)
    finally:
        os.close(descriptor)


def _link(output: Output, place: Spot, name: str) -> None:
    if output.hidden:
        os.link(output.hidden, name, src_dir_fd=place.folder, dst_dir_fd=place.folder, follow_symlinks=False)
        discard(place.folder, output.hidden)
        output.hidden = ""
    else:
        os.link(f"/proc/self/fd/{output.descriptor}", name, dst_dir_fd=place.folder, follow_symlinks=True)
