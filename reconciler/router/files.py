"""Files by descriptor: what an agent names is opened beneath its scope, and by no other road.

``openat2`` with BENEATH, NO_SYMLINKS and NO_MAGICLINKS on a descriptor of the scope's folder, after a lexical
check; so no link, race or ``..`` leads out (S4; ``beneath``). Input: regular files of real file systems only,
opened without waiting, counted while copied. Output: a new file without a name until it is whole, without an
execute bit (``outputs``). Missing and forbidden look alike. Everything here blocks: it runs in threads.
"""

import errno
import hashlib
import mimetypes
import os
import re
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reconciler.model.routes import ScopeFolder
from reconciler.router import beneath, digests, outputs, scopes
from reconciler.router.beneath import Denial as Denial  # noqa: PLC0414 - part of this module's face
from reconciler.router.beneath import Denied as Denied  # noqa: PLC0414 - likewise
from reconciler.router.outputs import Spot as Spot  # noqa: PLC0414 - likewise
from reconciler.router.outputs import discard as discard  # noqa: PLC0414 - likewise

_CHUNK = digests.PIECE
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# What harnesses read from a project as instructions, or as programs to start, in any case of letters and with
# a middle word (AGENTS.override.md): no service writes it, for a later session would obey it.
_OBEYED = re.compile(
    r"(skill|agents?|claude|codex|copilot|copilot-instructions|gemini|qwen|opencode|vibe)(\.[^.]*)?\.md"
    r"|opencode\.jsonc?"
)
_TYPES = mimetypes.MimeTypes()


@dataclass(slots=True)
class Opened:
    """An input file, open: the descriptor is the file, whatever happens to its name."""

    descriptor: int
    name: str
    media_type: str


@dataclass(frozen=True, slots=True)
class Blob:
    """A private copy in a connector's inbox, open: nobody but Handler can change it. Close it."""

    descriptor: int
    size: int


@dataclass(frozen=True, slots=True)
class Copied:
    size: int
    sha256: str


def read(scope: Sequence[ScopeFolder], text: str, max_bytes: int) -> Opened:
    """Open an input file of the scope; raises Denied. Relative paths are of the first folder (ruling 11)."""
    folder, parts = scopes.within(scope, text)
    root = scopes.open_root(scope, folder)
    try:
        descriptor = beneath.open_beneath(root, "/".join(parts), _READ)
    finally:
        os.close(root)
    try:
        _need_plain(descriptor, max_bytes)
    except Denied:
        os.close(descriptor)
        raise
    return Opened(descriptor, parts[-1], _TYPES.guess_type(parts[-1])[0] or "application/octet-stream")


def spot(scope: Sequence[ScopeFolder], text: str, *, again: bool = False) -> Spot:
    """Find the place of an output file; raises Denied. Its folder exists; the file does not, unless it is a
    plain one and the folder is granted ``write``, or it may have been put there before (``again``).
    """
    folder, parts = scopes.within(scope, text)
    if folder.access == "read":
        raise Denied(Denial.REFUSED, "the folder is granted for reading")
    root = scopes.open_root(scope, folder)
    try:
        return spot_beneath(root, parts, overwrite=folder.access == "write", again=again)
    finally:
        os.close(root)


def spot_beneath(root: int, parts: Sequence[str], *, overwrite: bool = False, again: bool = False) -> Spot:
    """The place of an output file by plain names below an open folder; raises Denied."""
    if any(part.startswith(".") for part in parts) or _OBEYED.fullmatch(parts[-1].casefold()):
        raise Denied(Denial.REFUSED, "a hidden or instruction file is never written")
    parent = beneath.open_beneath(root, "/".join(parts[:-1]) or ".", beneath.FOLDER)
    found = Spot(parent, parts[-1], overwrite, again)
    try:
        beneath.need_real(parent)
        outputs.need_free(found)
    except Denied:
        os.close(parent)
        raise
    outputs.sweep(parent)
    return found


def hand_in(opened: Opened, inbox: int, blob: str, *, max_bytes: int, wanted: Callable[[], bool]) -> Blob:
    """Copy an input file to ``blob`` in the connector's inbox, which it can only read; raises Denied.

    The kernel copies from page to page. What went over is hashed from the copy, when there is time: the
    connector need not wait for it (``digest``).
    """
    target = outputs.create(inbox, blob, 0o440)
    try:
        os.fchmod(target, 0o440)  # whatever the umask: the connector reads it by its group
        return Blob(target, _send(opened.descriptor, target, max_bytes, wanted))
    except BaseException:
        os.close(target)
        raise


def digest(blob: Blob) -> str:
    """The SHA-256 of a private copy, whole; raises OSError."""
    hashed = hashlib.sha256()
    buffer = bytearray(_CHUNK)
    view = memoryview(buffer)
    at = 0
    while count := os.preadv(blob.descriptor, [buffer], at):
        hashed.update(view[:count])
        at += count
    return hashed.hexdigest()


def hand_out(  # noqa: PLR0913 - each is needed, and named
    outbox: int,
    blob: str,
    place: Spot,
    *,
    max_bytes: int,
    wanted: Callable[[], bool],
    settled: Callable[[int], None] = lambda _: None,
) -> Copied:
    """Copy what the connector left as ``blob`` to its place, all or nothing; raises Denied. ``settled`` does
    what is to be done with the whole file before it has a name; it may raise Denied.
    """
    try:
        source = os.open(blob, _READ | os.O_NOFOLLOW, dir_fd=outbox)
    except OSError as error:
        raise Denied(Denial.FAILED, f"the output file cannot be opened: {beneath.short(error)}") from None
    try:
        found = os.fstat(source)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise Denied(Denial.FAILED, "the output is not one plain file")
        _need_size(found, max_bytes)
        output = outputs.begin(place, blob)
        try:
            copied = _copy(source, output.descriptor, max_bytes, wanted)
            settled(output.descriptor)
            try:
                outputs.finish(output, place, blob)
            except Denied:
                if not (place.again and _is_there(place, copied)):
                    raise
        finally:
            outputs.close(output, place)
        return copied
    finally:
        os.close(source)


def _is_there(place: Spot, copied: Copied) -> bool:
    """Whether a plain file of the very bytes that were copied lies in their place."""
    try:
        there = os.open(place.name, _READ | os.O_NOFOLLOW, dir_fd=place.folder)
    except OSError:
        return False
    try:
        found = os.fstat(there)
        is_as_large = stat.S_ISREG(found.st_mode) and found.st_size == copied.size
        return is_as_large and digest(Blob(there, copied.size)) == copied.sha256
    except OSError:
        return False
    finally:
        os.close(there)


def _need_plain(descriptor: int, max_bytes: int) -> None:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise Denied(Denial.REFUSED, "it is not a regular file")
    if found.st_nlink > 1 and found.st_uid != os.geteuid():
        raise Denied(Denial.REFUSED, "it is a hard link to somebody else's file")
    beneath.need_real(descriptor)
    _need_size(found, max_bytes)


def _need_size(found: os.stat_result, max_bytes: int) -> None:
    """See that a file is not too large as it lies; what it grows to meanwhile is counted while copying."""
    if found.st_size > max_bytes:
        raise Denied(Denial.TOO_LARGE, f"it has {found.st_size} bytes, more than {max_bytes}")


def _send(source: int, target: int, max_bytes: int, wanted: Callable[[], bool]) -> int:
    """Copy from file to file inside of the kernel; what is counted is what was copied. Raises Denied."""
    size = 0
    try:
        while count := _sent(source, target, min(_CHUNK, max_bytes - size)):
            size += count
            _need_wanted(wanted)
        if size == max_bytes and os.read(source, 1):
            raise Denied(Denial.TOO_LARGE, f"it has more than {max_bytes} bytes")
    except OSError as error:
        raise Denied(Denial.FAILED, f"the copy broke off: {beneath.short(error)}") from None
    return size


def _sent(source: int, target: int, count: int) -> int:
    try:
        return os.sendfile(target, source, None, count)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS):
            raise
    piece = memoryview(os.read(source, count))  # a file system that only reads
    sent = len(piece)
    while piece:
        piece = piece[os.write(target, piece) :]
    return sent


def _copy(source: int, target: int, max_bytes: int, wanted: Callable[[], bool]) -> Copied:
    """Copy from file to file and hash the very bytes that are written. Raises Denied."""
    size = 0
    try:
        with digests.hasher(os.fstat(source).st_size) as hashed:
            while count := os.readv(source, [buffer := hashed.buffer()]):
                size += count
                if size > max_bytes:
                    raise Denied(Denial.TOO_LARGE, f"it has more than {max_bytes} bytes")
                _need_wanted(wanted)
                piece = buffer[:count]
                hashed.take(piece)
                while piece:
                    piece = piece[os.write(target, piece) :]
            return Copied(size, hashed.hexdigest())
    except OSError as error:
        raise Denied(Denial.FAILED, f"the copy broke off: {beneath.short(error)}") from None


def _need_wanted(wanted: Callable[[], bool]) -> None:
    if not wanted():
        raise Denied(Denial.FAILED, "the call ended meanwhile")
