"""What ``fs/v1`` opens: plain files and folders beneath the scope, by descriptor, and files piece by piece.

A FIFO, a device or a socket is opened without waiting and refused by its kind; what the kernel makes up and
hard links to other people's files are refused as the router's file hand-off refuses them.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from reconciler.builtin.asking import Asked, Ended
from reconciler.router import beneath, scopes
from reconciler.router.beneath import Denial, Denied

MOST_BYTES = 64 * 2**20  # of a file that is looked through
PIECE = 2**20
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER = _READ | os.O_DIRECTORY


@dataclass(frozen=True, slots=True)
class Found:
    """Something of the scope, open. ``access`` is the word of the folder that grants it."""

    descriptor: int
    stat: os.stat_result
    access: str

    @property
    def kind(self) -> str:
        """``file``, ``folder`` or ``other``."""
        return kind_of(self.stat.st_mode)


def kind_of(mode: int) -> str:
    """The word for what lies somewhere; a link is never followed."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


@contextmanager
def anything(asked: Asked, path: str) -> Iterator[Found]:
    """Open a file or folder of the scope, closed afterwards; raises Denied."""
    folder, parts = scopes.within_or_at(asked.scope, path)
    root = scopes.open_root(asked.scope, folder)
    try:
        descriptor = beneath.open_beneath(root, "/".join(parts) or ".", _READ)
    finally:
        os.close(root)
    try:
        found = Found(descriptor, os.fstat(descriptor), folder.access)
        foreign = found.kind == "file" and found.stat.st_nlink > 1 and found.stat.st_uid != os.geteuid()
        if foreign:
            raise Denied(Denial.REFUSED, "it is a hard link to somebody else's file")
        if found.kind in ("file", "folder"):
            beneath.need_real(descriptor)
        yield found
    finally:
        os.close(descriptor)


@contextmanager
def plain(asked: Asked, path: str) -> Iterator[Found]:
    """Open a regular file of the scope; raises Denied, and Ended where another kind lies there."""
    with anything(asked, path) as found:
        if found.kind != "file" or path.endswith("/"):
            raise Ended("wrong_kind", "it is no regular file")
        if found.stat.st_size > MOST_BYTES:
            raise Ended("too_large", f"it has more than {MOST_BYTES} bytes")
        yield found


def below(parent: int, name: str) -> int:
    """Open a folder by its one name in an open one; raises Denied."""
    descriptor = beneath.open_beneath(parent, name, _FOLDER)
    try:
        beneath.need_real(descriptor)
    except Denied:
        os.close(descriptor)
        raise
    return descriptor


def file_below(parent: int, name: str) -> int:
    """Open a regular file by its one name in an open folder; raises Denied."""
    descriptor = beneath.open_beneath(parent, name, _READ)
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and (found.st_nlink == 1 or found.st_uid == os.geteuid()):
        return descriptor
    os.close(descriptor)
    raise Denied(Denial.REFUSED, "it is no plain file of its owner's")


def pieces(descriptor: int, asked: Asked, most: int = MOST_BYTES) -> Iterator[bytes]:
    """A file from its beginning, counted while it is read: it may grow meanwhile. Raises Ended."""
    size = 0
    while piece := os.pread(descriptor, PIECE, size):
        size += len(piece)
        if size > most:
            raise Ended("too_large", f"it has more than {most} bytes")
        asked.go_on()
        yield piece
