"""Pinned code: a connector's files as they were when its instance was declared, read-only, named by digest.

Declaring an instance copies the files here and its sandbox shows this copy, so editing a connector never
changes what already runs. A folder that is found again is read and digested before it is trusted. The kit is
kept beside it with its bytecode, so that no start compiles it again.
"""

import importlib.util
import os
import py_compile
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path, PurePosixPath

from reconciler.model.recipes import folder_digest
from reconciler.runtime import fingerprint

_HALF_MADE = ".making-"
_AIDS = ("jmespath",)  # packages that the kit's own programs import: a connector never meets them by chance


class Objects:
    """The folder ``<state>/objects``: one directory a digest."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._looks: dict[str, str] = {}  # by folder: how it looked when it was read last, and whole
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in root.glob(f"{_HALF_MADE}*"):  # a controller that was killed while it copied
            _remove(left)

    def path(self, digest: str) -> Path | None:
        """Where the code of this digest lies, or None when it is not pinned."""
        path = self._root / digest
        return path if path.is_dir() else None

    def pin(self, digest: str, files: Mapping[str, bytes], executable: frozenset[str] = frozenset()) -> Path:
        """Keep these files under their digest; what lies there already is digested anew, and mended.

        Raises ValueError when the files are not what the digest says, or a path leaves the folder.
        """
        if folder_digest(files, executable) != digest:
            raise ValueError("the files to pin are not those that their digest names")
        for path in files:
            parts = PurePosixPath(path)
            if parts.is_absolute() or ".." in parts.parts or not parts.parts:
                raise ValueError("a pinned file lies outside of its folder")
        place = self._root / digest
        if self._is_whole(place, digest):
            return place
        self._place(place, lambda folder: _write(folder, files, executable))
        self._is_whole(place, digest)
        return place

    def untouched(self, digest: str) -> bool:
        """Whether the code of this digest looks as it did when it was found whole; nothing is read."""
        look = self._looks.get(digest)
        return look is not None and fingerprint.near(self._root / digest) == look

    def intact(self, digest: str) -> bool:
        """Whether the code of this digest still is what its digest says; read only when it looks touched."""
        place = self._root / digest
        look = fingerprint.near(place)
        return bool(look) and (self._looks.get(digest) == look or self._is_whole(place, digest))

    def _is_whole(self, place: Path, digest: str) -> bool:
        """Read what lies there; when it is what the digest says, remember how it looks."""
        look = fingerprint.near(place)
        if not look or _digest_of(place) != digest:
            self._looks.pop(digest, None)
            return False
        self._looks[digest] = look
        return True

    def kit_intact(self, kit: Path) -> bool:
        """Whether the kit that ``pin_kit`` gave looks as it did then."""
        return self._looks.get(kit.name) == fingerprint.near(kit)

    def pin_kit(self, source: Path) -> Path:
        """Keep the connector kit, compiled for the running interpreter; the folder to mount."""
        files = kit_files(source)
        place = self._root / f"kit-{folder_digest(files)}"
        known = self._looks.get(place.name)
        whole = all((place / name).is_file() and (place / name).read_bytes() == files[name] for name in files)
        if not whole or known not in (None, fingerprint.near(place)):
            _remove(place)
            self._place(place, lambda folder: _write_kit(folder, files))
        else:
            for file in (place / name for name in files):
                if not Path(importlib.util.cache_from_source(str(file))).is_file():  # of another interpreter
                    file.parent.chmod(0o755)
                    _compile(file, place)
        self._looks[place.name] = fingerprint.near(place)
        return place

    def remove(self, digest: str) -> None:
        """Forget this code; nothing happens when it is not pinned."""
        self._looks.pop(digest, None)
        _remove(self._root / digest)

    def prune(self, keep: Collection[str]) -> tuple[str, ...]:
        """Remove all code but this; the digests that went."""
        gone = [path.name for path in self._root.iterdir() if path.name not in keep and len(path.name) == 64]
        for digest in gone:
            self.remove(digest)
        return tuple(sorted(gone))

    def _place(self, place: Path, fill: Callable[[Path], None]) -> Path:
        """Make a folder whole under another name, then give it its own."""
        making = self._root / f"{_HALF_MADE}{os.getpid()}-{place.name}"
        _remove(making)
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        making.mkdir(mode=0o755)
        fill(making)
        making.chmod(0o755)  # whatever the umask is: the connector's own user id must get in
        if os.path.lexists(place):  # what is not whole makes way for a moment, and goes once it is replaced
            _remove(aside := making.with_name(f"{making.name}-old"))
            place.rename(aside)
            making.rename(place)
            _remove(aside)
        else:
            making.rename(place)
        return place


def kit_files(source: Path) -> dict[str, bytes]:
    """The kit as connectors see it, by path in ``/kit``: ``source``, what stands beside it, and ``aids/``."""
    files = {path.name: path.read_bytes() for path in (source, *sorted(source.parent.glob("handler_*.*")))}
    for name in _AIDS:
        spec = importlib.util.find_spec(name)
        for path in Path(spec.origin).parent.glob("*.py") if spec and spec.origin else ():
            files[f"aids/{name}/{path.name}"] = path.read_bytes()
    return files


def _write(folder: Path, files: Mapping[str, bytes], executable: frozenset[str]) -> None:
    for path, content in files.items():
        file = folder / path
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(0o555 if path in executable else 0o444)
    for inner in folder.rglob("*"):
        if inner.is_dir():
            inner.chmod(0o555)


def _write_kit(folder: Path, files: Mapping[str, bytes]) -> None:
    _write(folder, files, frozenset())
    for inner in (path for path in folder.rglob("*") if path.is_dir()):
        inner.chmod(0o755)
    for name in files:
        if name.endswith(".py"):
            _compile(folder / name, folder)


def _compile(file: Path, kit: Path) -> None:
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH  # the folder is named by the source's digest
    shown = f"/kit/{file.relative_to(kit)}"  # what a traceback names
    made = Path(py_compile.compile(str(file), dfile=shown, doraise=True, invalidation_mode=unchecked) or "")
    made.parent.chmod(0o755)
    made.chmod(0o444)


def _digest_of(folder: Path) -> str:
    """The digest of what lies there now; "" when it holds anything but plain files and folders."""
    files: dict[str, bytes] = {}
    executable: set[str] = set()
    for path in folder.rglob("*"):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            return ""
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            files[name] = path.read_bytes()
            if path.stat().st_mode & 0o111:
                executable.add(name)
    return folder_digest(files, frozenset(executable))


def _remove(folder: Path) -> None:
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    if not folder.exists():
        return
    for path in (folder, *folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)  # an ordinary user cannot empty a folder that is not writable
    shutil.rmtree(folder)
