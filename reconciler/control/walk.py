"""Reading a folder of files without being led out of it, held up by it, or filled up by it.

Every open is relative to the descriptor of the folder above and never follows a link, so a folder swapped
for a symlink in between leads nowhere. Only regular files are read, their size is checked first, and what
cannot be taken in is a ``Fault`` at its path: said, not left out. A file whose size, times, inode and mode
did not change is not read again, unless it was written so shortly before it was read that its time could
not tell.

A symlink is a fault wherever it points: what is in force must be what the files here say. Not taken in at
all: dot files, editors' backups and temporary files, ``node_modules``, ``__pycache__``, virtual
environments.
"""

import errno
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from reconciler.model.inventory import Fault

FOLDERS = (
    "addons", "agents", "bindings", "chains", "connectors", "dialects", "interfaces", "policies", "profiles",
    "projects",
)  # fmt: skip
FILES = ("handler.toml", "handler.lock")

MAX_TEXT_BYTES = 2**20  # what a person writes: a TOML file of 1 MiB takes half a second to parse
MAX_FILE_BYTES = 32 * 2**20  # fixtures, and the files of a connector
_MAX_TREE_BYTES = 256 * 2**20  # all of it is held in memory
_MAX_FILES = 100_000
_MAX_DEPTH = 16
_RECENT_NS = 50_000_000  # a file system's clock ticks every 4 or 10 ms
_COARSE_NS = 2_500_000_000  # … or every 2 s, on those that keep whole seconds
_MAX_WALK_NS = 60_000_000_000  # a time later than this walk's is a wrong clock, not a file written just now
_TEXT = (".toml", ".json", ".lock", ".md")
_IGNORED = frozenset({"node_modules", "venv", "__pycache__", "4913", "Thumbs.db"})
_BACKUPS = (
    "~",
    ".swp",
    ".swo",
    ".swx",
    ".tmp",
    ".bak",
    ".orig",
    ".rej",
    ".pyc",
    "___jb_tmp___",
    "___jb_old___",
)
_LFS = b"version https://git-lfs.github.com/spec/"  # the first line of every pointer, by its specification
_SED = re.compile(r"sed[A-Za-z0-9]{6}")  # what `sed -i` writes before it renames

Signature = tuple[int, int, int, int, int]  # size, mtime, ctime (ns), inode, mode


class File(NamedTuple):
    """One file as it was read; ``unsure`` ones are read again, since their times could not show a change."""

    signature: Signature
    data: bytes | None
    fault: Fault | None
    unsure: bool

    @property
    def executable(self) -> bool:
        return self.fault is None and bool(self.signature[4] & 0o111)

    def same(self, other: "File | None") -> bool:
        """True when a reader of the tree sees no difference."""
        if other is None or self.fault != other.fault or self.executable != other.executable:
            return False
        return self.data is other.data or self.data == other.data


class Unstable(Exception):  # noqa: N818 - a fact about the folder, not an error
    """The folder changed while it was read."""


class Unreadable(Exception):  # noqa: N818
    """The folder cannot be read as a whole, so nothing may be concluded from what is missing; the text says
    why.
    """


@dataclass(slots=True)
class Walk:
    """One pass over a folder. ``files`` shares what did not change with ``known``; nothing is read when
    ``only_look``: then any difference is ``Unstable``.
    """

    known: Mapping[str, File]
    now_ns: int  # wall clock, which is what file times are in
    follow: bool = False  # the product's own data, which package managers do link
    only_look: bool = False
    files: dict[str, File] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)  # paths at which a reader sees what was not known
    _bytes: int = 0

    def root(self, fd: int) -> None:
        """Walk the folder behind ``fd``. Raises ``Unstable``, or ``Unreadable`` when a whole kind is out of
        reach.
        """
        with os.scandir(fd) as entries:
            for entry in entries:
                name = entry.name
                if ignored(name):
                    continue
                if name in FOLDERS:
                    self._kind(fd, entry)
                elif entry.is_dir(follow_symlinks=False):
                    self._stray(fd, name)
                elif name in FILES or name.endswith(".toml"):
                    self._file(fd, entry, name)

    def one(self, fd: int, path: str) -> bool:
        """Read the one file at ``path`` below ``fd``; False when it must be found out by a whole walk."""
        *folders, name = path.split("/")
        opened: list[int] = []
        try:
            for folder in folders:
                opened.append(_open_folder(folder, opened[-1] if opened else fd))
            status = os.stat(name, dir_fd=opened[-1] if opened else fd, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                return False
            self.files[path] = self._read(opened[-1] if opened else fd, name, status, None)
        except FileNotFoundError:
            return path in self.known or not any(known.startswith(f"{path}/") for known in self.known)
        except OSError:
            return False
        finally:
            for folder_fd in opened:
                os.close(folder_fd)
        return True

    def gone(self) -> list[str]:
        """The known paths that a whole walk did not meet."""
        new = sum(path not in self.known for path in self.changed)
        return [] if len(self.files) - new == len(self.known) else list(self.known.keys() - self.files.keys())

    def _kind(self, fd: int, entry: "os.DirEntry[str]") -> None:
        if entry.is_symlink() and not self.follow:
            raise Unreadable(f"{entry.name} is a symlink, and symlinks are not followed")
        if not entry.is_dir(follow_symlinks=self.follow):
            raise Unreadable(f"{entry.name} is not a folder")
        try:
            folder = _open_folder(entry.name, fd, follow=self.follow)
        except OSError as error:
            _raise_if_moved(error)
            raise Unreadable(f"{entry.name}: {os.strerror(error.errno or 0)}") from error
        try:
            self._folder(folder, f"{entry.name}/", 1)
        finally:
            os.close(folder)

    def _stray(self, fd: int, name: str) -> None:
        """A folder of no kind: the TOML straight inside is taken in, so that it can be said to lie wrong."""
        try:
            folder = _open_folder(name, fd)
        except OSError:
            return
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if (
                        entry.name.endswith(".toml")
                        and not ignored(entry.name)
                        and entry.is_file(follow_symlinks=False)
                    ):
                        self._file(folder, entry, f"{name}/{entry.name}")
        finally:
            os.close(folder)

    def _folder(self, fd: int, prefix: str, depth: int) -> None:
        with os.scandir(fd) as entries:
            known, unchanged = self.known.get, self._unchanged
            for entry in entries:
                name = entry.name
                file = known(path := prefix + name)
                if (file is not None and unchanged(entry, path, file)) or ignored(name):
                    continue
                if entry.is_dir(follow_symlinks=self.follow):
                    self._below(fd, name, prefix + name, depth)
                else:
                    self._file(fd, entry, prefix + name)

    def _below(self, fd: int, name: str, path: str, depth: int) -> None:
        if (shown := printable(path)) != path:
            self._fault(shown, Fault("name", "its name is not UTF-8"))
            return
        if depth >= _MAX_DEPTH:
            self._fault(path, Fault("unreadable", f"nested deeper than {_MAX_DEPTH} folders"))
            return
        try:
            folder = _open_folder(name, fd, follow=self.follow)
        except OSError as error:
            _raise_if_moved(error)
            self._fault(path, Fault("unreadable", os.strerror(error.errno or 0)))
            return
        try:
            self._folder(folder, f"{path}/", depth + 1)
        finally:
            os.close(folder)

    def _unchanged(self, entry: "os.DirEntry[str]", path: str, known: File) -> bool:
        """Take over a known file that is as it was; the whole of a look at which nothing changed."""
        signature, data, _, unsure = known
        if unsure:
            return False
        try:
            now = entry.stat(follow_symlinks=self.follow)
        except OSError:
            return False
        # As `_signature` has it, written out: ten thousand times at each look
        if signature != (now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino, now.st_mode):
            return False
        self.files[path] = known
        if data is not None:
            self._bytes += signature[0]
        return True

    def _file(self, fd: int, entry: "os.DirEntry[str]", path: str) -> None:
        if (shown := printable(path)) != path:
            self._take(
                shown, File((0, 0, 0, 0, 0), None, Fault("name", "its name is not UTF-8"), unsure=False)
            )
            return
        known = self.known.get(path)
        if known is not None and self._unchanged(entry, path, known):
            return
        try:
            status = entry.stat(follow_symlinks=self.follow)
        except OSError as error:
            raise Unstable(path) from error
        if self.only_look:
            if known is None or known.signature != _signature(status):
                raise Unstable(path)
            self.files[path] = known
            return
        if len(self.files) >= _MAX_FILES:
            raise Unreadable(f"there are more than {_MAX_FILES} files")
        self._take(path, self._read(fd, entry.name, status, known))

    def _take(self, path: str, file: File) -> None:
        self.files[path] = file
        if not file.same(self.known.get(path)):
            self.changed.append(path)

    def _read(self, fd: int, name: str, status: os.stat_result, known: File | None) -> File:
        signature = _signature(status)
        fault = self._outer_fault(name, status)
        if fault is not None:
            return File(signature, None, fault, unsure=False)
        try:
            data, after = _bytes(fd, name, status.st_size, follow=self.follow)
        except OSError as error:
            _raise_if_moved(error)
            return File(signature, None, Fault("unreadable", os.strerror(error.errno or 0)), unsure=True)
        if signature != _signature(after) or len(data) != status.st_size:
            raise Unstable(name)
        if known is not None and known.data == data:
            data = known.data
        if (fault := content_fault(data)) is not None:
            return File(signature, None, fault, self._unsure(status.st_mtime_ns))
        self._bytes += len(data)
        return File(signature, data, None, self._unsure(status.st_mtime_ns))

    def _outer_fault(self, name: str, status: os.stat_result) -> Fault | None:
        if stat.S_ISLNK(status.st_mode):
            return Fault("symlink", "symlinks are not followed")
        if not stat.S_ISREG(status.st_mode):
            return Fault("special", _kind_of(status.st_mode))
        return size_fault(name, status.st_size, self._bytes)

    def _fault(self, path: str, fault: Fault) -> None:
        """A folder's fault stands at the folder and at every file that was known below it: none is taken for
        deleted.
        """
        below = f"{path}/"
        for lost in [path, *(known for known in self.known if known.startswith(below))]:
            self._take(lost, File((0, 0, 0, 0, 0), None, fault, unsure=True))

    def _unsure(self, mtime_ns: int) -> bool:
        window = _COARSE_NS if mtime_ns % 1_000_000_000 == 0 else _RECENT_NS
        return -window < mtime_ns - self.now_ns < _MAX_WALK_NS


def size_fault(name: str, size_bytes: int, held_bytes: int) -> Fault | None:
    """Why a file of this size is not read, where ``held_bytes`` of others are; None when it is."""
    limit = MAX_TEXT_BYTES if name.endswith(_TEXT) else MAX_FILE_BYTES
    if size_bytes > limit:
        return Fault("too_large", f"{size_bytes} bytes, more than {limit}")
    if held_bytes + size_bytes > _MAX_TREE_BYTES:
        return Fault("too_large", f"all files together have more than {_MAX_TREE_BYTES} bytes")
    return None


def content_fault(data: bytes) -> Fault | None:
    """Why bytes are not what they stand for: a pointer of Git LFS, whose file is elsewhere; else None."""
    return Fault("lfs") if data.startswith(_LFS) else None


def ignored(name: str) -> bool:
    """True for a file or folder name that no scan takes in."""
    return (
        name[0] in ".#"
        or name in _IGNORED
        or name.endswith(_BACKUPS)
        or (name[:3] == "sed" and _SED.fullmatch(name) is not None)
    )


def taken(path: str) -> bool:
    """True for a path (posix, relative) below the known folders, or a known file, that a scan takes in."""
    parts = path.split("/")
    known = parts[0] in FOLDERS if len(parts) > 1 else path in FILES
    return known and all(parts) and not any(ignored(part) for part in parts)


def _open_folder(name: str, parent: int, *, follow: bool = False) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    return os.open(name, flags, dir_fd=parent)


def _bytes(fd: int, name: str, size_bytes: int, *, follow: bool) -> tuple[bytes, os.stat_result]:
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    file = os.open(name, flags, dir_fd=fd)
    try:
        data = os.read(file, size_bytes + 1)
        while 0 < len(data) < size_bytes and (more := os.read(file, size_bytes + 1 - len(data))):
            data += more
        return data, os.fstat(file)
    finally:
        os.close(file)


def _raise_if_moved(error: OSError) -> None:
    """What was there a moment ago is gone or is something else: not a fault, but a folder that changes."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO):
        raise Unstable(error.filename) from error


def _signature(status: os.stat_result) -> Signature:
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode)


def _kind_of(mode: int) -> str:
    for test, word in ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket")):
        if test(mode):
            return word
    return "a device"


def printable(path: str) -> str:
    """The path as text that can be shown and written: bytes that are no UTF-8 become escapes."""
    if path.isascii():
        return path
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")
