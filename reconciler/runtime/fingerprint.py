"""How a folder looks, without reading it: a short text that changes when anything in it may have.

What is pinned or installed is large and never written again, so whether somebody touched it is told by one
``lstat`` an entry; only what looks touched is read. Two looks: a *near* one also sees the times that nobody
can set back, and holds while the controller lives; a *lasting* one is the same after a restart, and after a
copy that keeps times.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

lstat = os.lstat  # one call for each entry that is looked at


def near(folder: Path) -> str:
    """The look of a folder, changed by every change below it; "" when there is none, or a link instead."""
    return _look(folder, "", with_change=True)


def lasting(folder: Path, but: str = "") -> str:
    """The look of a folder by modes, sizes and times of writing; ``but`` names one entry to leave out."""
    return _look(folder, but, with_change=False)


def _look(folder: Path, but: str, *, with_change: bool) -> str:
    whole, root = hashlib.blake2b(digest_size=16), str(folder)
    try:
        for path, found in _entries(root):
            if but and path == f"{root}/{but}":
                continue
            size = 0 if stat.S_ISDIR(found.st_mode) else found.st_size
            change = found.st_ctime_ns if with_change else 0
            line = f"{path[len(root) :]} {found.st_mode} {size} {found.st_mtime_ns} {change}\n"
            whole.update(line.encode(errors="surrogateescape"))
    except (FileNotFoundError, NotADirectoryError):
        return ""
    return whole.hexdigest()


def _entries(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """A folder and all below it with what ``lstat`` says, in one fixed order; links are not followed."""
    yield folder, lstat(folder)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    number = os.open(folder, flags)  # a link in place of the folder is no folder
    try:
        with os.scandir(number) as found:
            entries = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in found)
    finally:
        os.close(number)
    for name, is_folder in entries:
        path = f"{folder}/{name}"
        if is_folder:
            yield from _entries(path)
        else:
            yield path, lstat(path)
