"""A configuration looked at without a controller: one reading, judged, nothing remembered, nothing written.

What ``validate``, ``rebind``, ``lock add`` stand on. A folder in which git is at work is read as it lies: a
commit hook runs in the middle of git's own work, and that is where validation belongs.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.admission import admit as admission_room
from reconciler.admission.admit import Admission
from reconciler.config import load
from reconciler.control import checkouts, folders, walk
from reconciler.control.place import Place
from reconciler.control.source import Busy, Gone, Source
from reconciler.doors import usage
from reconciler.doors.usage import Stopped
from reconciler.model.inventory import Layer, Tree

_PATIENCE_S = 2.0  # a folder that is being written settles well within it
_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Look:
    """One judged reading of a configuration."""

    root: Path
    trees: Mapping[Layer, Tree]
    admission: Admission

    @property
    def tree(self) -> Tree:
        return self.trees[Layer.CONFIG]

    def with_file(self, path: str, data: bytes) -> "Look":
        """The same configuration with other bytes in one file, judged anew."""
        return self.with_files({path: data})

    def with_files(self, files: Mapping[str, bytes]) -> "Look":
        """The same configuration with other bytes in some files, judged anew."""
        tree = replace(self.tree, files={**self.tree.files, **files})
        return _judged(self.root, {**self.trees, Layer.CONFIG: tree})


def nothing(root: Path) -> str:
    """One sentence where a folder is no configuration by any sign (neither a file nor a folder of one, nor a
    bare repository), with what to do; else "".
    """
    signs = (*walk.FILES, *walk.FOLDERS)
    if any(os.path.lexists(root / name) for name in signs) or checkouts.is_bare(root.resolve()):
        return ""
    return (
        f"there is no handler.toml in {usage.path_shown(str(root))}, nor anything else of a configuration: "
        "name one with -c DIR or HANDLER_CONFIG, or make one with 'handler init DIR'"
    )


def look(root: Path) -> Look:
    """Read and judge the configuration at ``root``; raises ``Stopped`` when it cannot be read."""
    if not root.is_dir():
        raise Stopped(folders.absent(str(root)))
    trees = {Layer.CONFIG: _read(root)}
    if root.resolve() != folders.catalog().resolve():  # the catalogue itself has nothing below it
        trees[Layer.CATALOG] = _shipped()
    return _judged(root, trees)


def catalogue(root: Path) -> Look:
    """The catalogue alone, judged as a configuration at ``root`` that holds nothing would have it."""
    return _judged(root, {Layer.CONFIG: Tree("", {}), Layer.CATALOG: _shipped()})


def root_of(path: Path) -> Path:
    """The configuration that a path belongs to: the nearest folder upward with a ``handler.toml``, else the
    folder itself, or the one above the folder of kinds that a file lies in.
    """
    path = path.absolute()
    for folder in (path, *path.parents):
        if (folder / "handler.toml").is_file():
            return folder
    return path if path.is_dir() else path.parent.parent


def _judged(root: Path, trees: Mapping[Layer, Tree]) -> Look:
    inventory = load.inventory(trees)
    admission = admission_room.admit(inventory, {}, None, Place.of(root).surroundings())
    return Look(root, trees, admission)


def _read(root: Path) -> Tree:
    if checkouts.is_bare(root.resolve()):  # there are no files: the commit is what can be judged
        from reconciler.control import commits  # noqa: PLC0415 - git's objects, which files need not

        commit = commits.resolve(root, "HEAD")
        return _taken(commit if isinstance(commit, Gone) else commits.tree(commit), "the configuration")
    source = Source(root, Layer.CONFIG)
    until = time.monotonic() + _PATIENCE_S
    found = source.scan()
    while isinstance(found, Busy) and time.monotonic() < until:
        if found.reason != "changing":
            found = Source(root, Layer.CATALOG).scan()  # as the catalogue is read: without asking git
        else:
            time.sleep(_PAUSE_S)
            found = source.scan()
    return _taken(found, "the configuration")


def _shipped() -> Tree:
    return _taken(Source(folders.catalog(), Layer.CATALOG).scan(), "the product's own catalogue")


def _taken(found: Tree | Busy | Gone, what: str) -> Tree:
    if isinstance(found, Tree):
        return found
    raise Stopped(f"cannot read {what}: {found.detail}")
