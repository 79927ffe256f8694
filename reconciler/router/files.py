"""Files by descriptor: what an agent names is opened beneath its scope, and by no other road.

``openat2`` with BENEATH, NO_SYMLINKS and NO_MAGICLINKS on a descriptor of the scope's folder, after a lexical
check; so no link, race or ``..`` leads out (S4). Input: regular files only, opened without waiting, counted
while copied. Output: a new file written under a temporary name beside its place, without an execute bit, then
named in one step that never replaces anything unless the folder is granted ``write``. Missing and forbidden
look alike. Everything here blocks: it runs in threads.
"""

import ctypes
import errno
import hashlib
import mimetypes
import os
import re
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from reconciler.model.routes import ScopeFolder

MAX_PATH = 4096
_CHUNK = 256 * 1024  # small enough for the cache and for a prompt end, large enough to cost no time
_SYS_OPENAT2 = 437  # the same on every architecture
_RESOLVE = 0x08 | 0x04 | 0x02  # BENEATH | NO_SYMLINKS | NO_MAGICLINKS
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
# Texts that harnesses read as instructions: no service writes them (a later session would obey them).
_INSTRUCTIONS = frozenset({"skill.md", "agents.md", "claude.md", "gemini.md"})
_TYPES = mimetypes.MimeTypes()

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_MAX_PART = 255

_libc = ctypes.CDLL(None, use_errno=True)


class Denial(Enum):
    """Why a file is not handed over. Missing and forbidden are one: the agent learns nothing from it."""

    REFUSED = "refused"
    TOO_LARGE = "too_large"
    FAILED = "unavailable"  # our own side: no space, a lost folder, a call that ended meanwhile


class Denied(Exception):  # noqa: N818 - an answer of the scope, not an error of the program
    """Ends a hand-off; ``diagnostic`` is for the record and names no path."""

    def __init__(self, denial: Denial, diagnostic: str) -> None:
        super().__init__(diagnostic)
        self.denial = denial
        self.diagnostic = diagnostic


@dataclass(slots=True)
class Opened:
    """An input file, open: the descriptor is the file, whatever happens to its name."""

    descriptor: int
    name: str
    media_type: str


@dataclass(slots=True)
class Spot:
    """Where an output file goes: the open parent folder and the name in it."""

    folder: int
    name: str
    overwrite: bool


@dataclass(frozen=True, slots=True)
class Copied:
    size: int
    sha256: str


def read(scope: Sequence[ScopeFolder], text: str, max_bytes: int) -> Opened:
    """Open an input file of the scope; raises Denied. Relative paths are of the first folder (ruling 11)."""
    folder, parts = _within(scope, text)
    root = _open_root(folder)
    try:
        descriptor = _open_beneath(root, "/".join(parts), _READ)
    finally:
        os.close(root)
    try:
        _need_plain(os.fstat(descriptor), max_bytes)
    except Denied:
        os.close(descriptor)
        raise
    return Opened(descriptor, parts[-1], _TYPES.guess_type(parts[-1])[0] or "application/octet-stream")


def spot(scope: Sequence[ScopeFolder], text: str) -> Spot:
    """Find the place of an output file; raises Denied. Its folder exists; the file does not, unless the
    folder is granted ``write`` and it is a plain one.
    """
    folder, parts = _within(scope, text)
    if folder.access == "read":
        raise Denied(Denial.REFUSED, "the folder is granted for reading")
    if any(part.startswith(".") for part in parts) or parts[-1].casefold() in _INSTRUCTIONS:
        raise Denied(Denial.REFUSED, "a hidden or instruction file is never written")
    root = _open_root(folder)
    try:
        parent = _open_beneath(root, "/".join(parts[:-1]) or ".", _FOLDER)
    finally:
        os.close(root)
    found = Spot(parent, parts[-1], folder.access == "write")
    try:
        _need_free(found)
    except Denied:
        os.close(parent)
        raise
    return found


def hand_in(opened: Opened, inbox: int, blob: str, *, max_bytes: int, wanted: Callable[[], bool]) -> Copied:
    """Copy an input file to ``blob`` in the connector's inbox, which it can only read; raises Denied."""
    target = _create(inbox, blob, 0o440)
    try:
        os.fchmod(target, 0o440)  # whatever the umask: the connector reads it by its group
        return _copy(opened.descriptor, target, max_bytes, wanted)
    finally:
        os.close(target)


def hand_out(outbox: int, blob: str, place: Spot, *, max_bytes: int, wanted: Callable[[], bool]) -> Copied:
    """Copy what the connector left as ``blob`` to its place, all or nothing; raises Denied."""
    try:
        source = os.open(blob, _READ | os.O_NOFOLLOW, dir_fd=outbox)
    except OSError as error:
        raise Denied(Denial.FAILED, f"the output file cannot be opened: {_short(error)}") from None
    try:
        found = os.fstat(source)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise Denied(Denial.FAILED, "the output is not one plain file")
        hidden = f".{blob}.part"
        target = _create(place.folder, hidden, 0o666)
        try:
            copied = _copy(source, target, max_bytes, wanted)
        except Denied:
            discard(place.folder, hidden)
            raise
        finally:
            os.close(target)
        _name(place, hidden)
        return copied
    finally:
        os.close(source)


def discard(folder: int, name: str) -> None:
    """Remove a file that may be there."""
    with suppress(OSError):
        os.unlink(name, dir_fd=folder)


def _within(scope: Sequence[ScopeFolder], text: str) -> tuple[ScopeFolder, list[str]]:
    """The scope's folder that a path lies in, and the names below it; by its letters alone."""
    if not text or len(text) > MAX_PATH or _CONTROL.search(text):
        raise Denied(Denial.REFUSED, "the path is empty, too long, or holds control characters")
    if not scope:
        raise Denied(Denial.REFUSED, "the agent has no scope")
    folder, rest = scope[0], text.removeprefix("./")
    if text.startswith("/"):
        inside = [one for one in scope if text.startswith(one.path.rstrip("/") + "/")]
        if not inside:
            raise Denied(Denial.REFUSED, "the path lies outside of the scope")
        folder = max(inside, key=lambda one: len(one.path))  # the nearest folder's grant counts
        rest = text[len(folder.path.rstrip("/")) + 1 :]
    parts = rest.split("/")
    if any(part in ("", ".", "..") or len(os.fsencode(part)) > _MAX_PART for part in parts):
        raise Denied(Denial.REFUSED, "the path has empty, dotted or overlong parts")
    return folder, parts


def _open_root(folder: ScopeFolder) -> int:
    try:
        return os.open(folder.path, _FOLDER)
    except OSError as error:
        raise Denied(Denial.REFUSED, f"a folder of the scope cannot be opened: {_short(error)}") from None


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def _open_beneath(root: int, path: str, flags: int) -> int:
    """openat2(2). The path holds no NUL (checked before: ctypes would cut there)."""
    how = _How(flags, 0, _RESOLVE)
    for _ in range(_TRIES):
        found: int = _libc.syscall(
            _SYS_OPENAT2, root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how)
        )
        if found >= 0:
            return found
        fault = ctypes.get_errno()
        if fault not in (errno.EAGAIN, errno.EINTR):  # EAGAIN: something was renamed while it resolved
            break
    raise Denied(Denial.REFUSED, f"the path does not open: {errno.errorcode.get(fault, fault)}")


_TRIES = 16


def _need_plain(found: os.stat_result, max_bytes: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise Denied(Denial.REFUSED, "it is not a regular file")
    if found.st_nlink > 1 and found.st_uid != os.geteuid():
        raise Denied(Denial.REFUSED, "it is a hard link to somebody else's file")
    if found.st_size > max_bytes:
        raise Denied(Denial.TOO_LARGE, f"it has {found.st_size} bytes, more than {max_bytes}")


def _need_free(place: Spot) -> None:
    try:
        found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Denied(Denial.REFUSED, f"the place cannot be looked at: {_short(error)}") from None
    if not place.overwrite or not stat.S_ISREG(found.st_mode):
        raise Denied(Denial.REFUSED, "something is there already")


def _create(folder: int, name: str, mode: int) -> int:
    try:
        return os.open(name, _NEW, mode, dir_fd=folder)
    except OSError as error:
        raise Denied(Denial.FAILED, f"a file cannot be made: {_short(error)}") from None


def _copy(source: int, target: int, max_bytes: int, wanted: Callable[[], bool]) -> Copied:
    digest = hashlib.sha256()
    buffer = bytearray(_CHUNK)
    view = memoryview(buffer)
    size = 0
    try:
        while count := os.readv(source, [buffer]):
            size += count
            if size > max_bytes:
                raise Denied(Denial.TOO_LARGE, f"it has more than {max_bytes} bytes")
            if not wanted():
                raise Denied(Denial.FAILED, "the call ended meanwhile")
            piece = view[:count]
            digest.update(piece)
            while piece:
                piece = piece[os.write(target, piece) :]
    except OSError as error:
        raise Denied(Denial.FAILED, f"the copy broke off: {_short(error)}") from None
    return Copied(size, digest.hexdigest())


def _name(place: Spot, hidden: str) -> None:
    """Give the finished file its name: replacing a plain file where that is granted, else never."""
    try:
        _need_free(place)
        if place.overwrite:
            os.rename(hidden, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
            return
        # A second name fails when the first comer is there already, on every file system.
        os.link(hidden, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder, follow_symlinks=False)
    except FileExistsError:
        raise Denied(Denial.REFUSED, "something is there already") from None
    except OSError as error:
        raise Denied(Denial.FAILED, f"the file cannot be named: {_short(error)}") from None
    finally:
        discard(place.folder, hidden)


def _short(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, "unknown")
