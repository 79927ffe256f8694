"""An archive of a foreign file system, written below one folder: nothing in it names anything outside.

Each name is walked from the folder's descriptor, one part at a time and through no link, and what is made is
made anew: a file never opens what lies there, and a hard link never follows one. So no order of entries leads
out, and nothing but what this call made gets a mode. Symbolic links may point anywhere: they are met inside
a sandbox alone.
"""

import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_MAX_BYTES = 32 * 2**30
_MAX_ENTRIES = 2_000_000
_MODE = 0o755  # no set-user-id, no write for others
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def unpack(stream: IO[bytes], root: Path) -> None:
    """Write the plain files, folders and links of a tar archive into ``root``, which is made; devices, pipes
    and what links to them are left out. Raises tarfile.TarError or OSError, and leaves what it wrote then.
    """
    root.mkdir(mode=0o755)
    root.chmod(0o755)
    written = 0
    with _opened(root) as at, tarfile.open(fileobj=stream, mode="r|") as archive:
        for number, entry in enumerate(archive):
            written += entry.size
            if written > _MAX_BYTES or number > _MAX_ENTRIES:
                raise tarfile.TarError("the image is too large")
            _write(archive, entry, at)
            archive.members.clear()  # type: ignore[attr-defined] # a million of them is a gigabyte


def make_folder(root: Path, path: str) -> None:
    """Make the folder ``path`` below ``root``, unless a part of it is there and is no folder."""
    with _opened(root) as at, suppress(OSError, tarfile.TarError), _parent(at, (*_parts(path), "")):
        pass


def _write(archive: tarfile.TarFile, entry: tarfile.TarInfo, root: int) -> None:
    parts = _parts(entry.name)
    if entry.isdir():
        _add_folder(root, parts, (entry.mode & _MODE) | 0o700)
        return
    if not parts:
        raise tarfile.TarError("an entry has the name of the whole image")
    with _parent(root, parts) as at:
        if entry.isreg():
            with os.fdopen(os.open(parts[-1], _NEW, 0o600, dir_fd=at), "wb") as file:
                content = archive.extractfile(entry)
                assert content is not None  # noqa: S101 - of a regular entry
                shutil.copyfileobj(content, file, 2**20)
                file.flush()
                os.fchmod(file.fileno(), (entry.mode & _MODE) | 0o400)
                with suppress(OverflowError, OSError):  # compiled modules tell by it whether they are stale
                    os.utime(file.fileno(), (entry.mtime, entry.mtime))
        elif entry.issym():
            os.symlink(entry.linkname, parts[-1], dir_fd=at)
        elif entry.islnk():
            _link(root, _parts(entry.linkname), at, parts[-1])


def _link(root: int, target: tuple[str, ...], at: int, name: str) -> None:
    """A second name for what was written before; for what was left out there is nothing to name."""
    with suppress(FileNotFoundError), _parent(root, target) as there:
        os.link(target[-1], name, src_dir_fd=there, dst_dir_fd=at, follow_symlinks=False)


def _add_folder(root: int, parts: tuple[str, ...], mode: int) -> None:
    """Make a folder or find it, with the parents that no entry told of."""
    if not parts:
        return
    with _parent(root, (*parts, "")) as made:
        os.fchmod(made, mode)


@contextmanager
def _parent(root: int, parts: tuple[str, ...]) -> Iterator[int]:
    """The folder of a name, found through no link, or made."""
    at = os.dup(root)
    try:
        for part in parts[:-1]:
            at, above = _below(at, part), at
            os.close(above)
        yield at
    finally:
        os.close(at)


def _below(at: int, name: str) -> int:
    """A folder of a folder: found, or made for all to read, whatever the umask is."""
    made = True
    try:
        os.mkdir(name, 0o700, dir_fd=at)
    except FileExistsError:
        made = False
    number = os.open(name, _FOLDER, dir_fd=at)
    if made:
        os.fchmod(number, 0o755)
    return number


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    number = os.open(path, _FOLDER)
    try:
        yield number
    finally:
        os.close(number)


def _parts(name: str) -> tuple[str, ...]:
    """The parts of a name, from the folder that is written into; TarError when one climbs."""
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts:
        raise tarfile.TarError("an entry leads out of the image")
    return parts
