"""Looking: one consistent reading of a folder, or why there is none.

Events are hints, the timed scan is the truth. A tree is accepted when git is not at work in it and two
looks agree; a hint names paths, which are read twice between two looks at git's markers. A lock older than
10 s, left by a git that died, is passed with a warning. What did not change keeps its bytes, and a tree
that did not change is the same tree (``is``). A folder that is gone, unreadable, or was replaced by an
empty one is ``Gone``, never an empty tree: nothing is concluded from what could not be seen.

"""

import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.control import checkouts, repository, revision, walk
from reconciler.model.identity import Edited, whole
from reconciler.model.inventory import Layer, Tree
from reconciler.model.status import Reason

_TRIES = 3  # a folder that changes under three walks in a row is being written: look again later
_BUSY_S = 0.1  # a checkout of 1,000 files takes 0.2 s
_MAX_HINTED = 64  # more paths than this cost more one by one than a walk


@dataclass(frozen=True, slots=True)
class Busy:
    """The folder is being changed; ``reason`` is ``lock``, ``unfinished`` or ``changing``. Look again
    later.
    """

    reason: str
    detail: str
    after_s: float = _BUSY_S


@dataclass(frozen=True, slots=True)
class Gone:
    """Nothing can be concluded, so what was admitted stays in force: the folder cannot be read as a whole, or
    (``SourceRefused``) what was read may not be believed.
    """

    detail: str
    reason: Reason = "SourceUnavailable"


class Source:
    """One layer's folder, looked at again and again. One look at a time, on any thread."""

    def __init__(
        self,
        root: Path,
        layer: Layer,
        *,
        wall_ns: Callable[[], int] = time.time_ns,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.root = root
        self.warnings: tuple[str, ...] = ()  # what was passed over in the last look
        self.held_files = False  # whether an earlier controller read files here: then empty is no first sight
        self._layer = layer
        self._wall_ns = wall_ns
        self._clock = clock
        self._files: Mapping[str, walk.File] = {}
        self._tree: Tree | None = None
        self._where = repository.Where()
        self._identity: tuple[int, int] | None = None
        self._lock: tuple[tuple[int, int], float] = ((0, 0), 0.0)  # the last one met, and when it was
        self._reviser = revision.Reviser((*walk.FOLDERS, *walk.FILES), walk.ignored)

    def scan(self) -> Tree | Busy | Gone:
        """Look at everything. Unchanged: one look, and the same tree; changed: what changed is read, and a
        second look must agree. Up to three tries, then ``Busy``.
        """
        for _ in range(_TRIES):
            found = self._between_markers(self._scanned, whole=True)
            if not isinstance(found, Busy) or found.reason != "changing":
                return found
        return found

    def hint(self, paths: Collection[str]) -> Tree | Busy | Gone:
        """Look at these paths (posix, relative) on top of the last tree; at everything when they do not
        suffice.

        Paths that no scan takes in are nothing; no path at all says: look at everything.
        """
        wanted = sorted({path for path in paths if walk.taken(path)})
        if self._tree is None or not paths or len(wanted) > _MAX_HINTED:
            return self.scan()
        if not wanted:
            return self._tree
        found = self._between_markers(lambda fd: self._hinted(fd, wanted), whole=False)
        return self.scan() if isinstance(found, Busy) and found.reason == "changing" else found

    def _between_markers(self, read: Callable[[int], "_Reading"], *, whole: bool) -> Tree | Busy | Gone:
        try:
            fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            return Gone(f"cannot read {self.root}: {os.strerror(error.errno or 0)}")
        try:
            before = self._place(whole=whole)
            if (busy := self._at_work(before)) is not None:
                return busy
            reading = read(fd)
            if before != repository.where(self.root, before):
                raise walk.Unstable("git moved on")
            return self._at_work(before) or self._accepted(fd, before, reading)
        except walk.Unstable as moved:
            return Busy("changing", f"the folder changes while it is read: {moved}")
        except walk.Unreadable as out_of_reach:
            return Gone(f"cannot read {self.root}: {out_of_reach}")
        except OSError as error:
            return Gone(f"cannot read {self.root}: {os.strerror(error.errno or 0)}")
        finally:
            os.close(fd)

    def _place(self, *, whole: bool) -> repository.Where:
        if self._layer is Layer.CATALOG:
            return repository.Where()
        return repository.where(_real(self.root)) if whole else repository.where(self.root, self._where)

    def _at_work(self, where: repository.Where) -> Busy | None:
        if where.repository is None:
            return None
        found = checkouts.marker(where.repository, self._wall_ns() / 1e9)
        if found is None:
            self.warnings = ()
            return None
        if found.word == "lock":
            if self._lock[0] != found.lock:
                self._lock = (found.lock, self._clock())
            found = replace(found, age_s=max(found.age_s, self._clock() - self._lock[1]))
        if found.stale:
            self.warnings = (f"index.lock is {found.age_s:.0f} s old: a git that died left it; delete it",)
            return None
        return Busy(found.word, found.detail)

    def _walk(self, known: Mapping[str, walk.File], *, only_look: bool = False) -> walk.Walk:
        follow = self._layer is Layer.CATALOG
        return walk.Walk(known, self._wall_ns(), follow=follow, only_look=only_look)

    def _scanned(self, fd: int) -> "_Reading":
        first = self._walk(whole(self._files))
        first.root(fd)
        files, changed = first.files, first.changed + first.gone()
        if changed:
            second = self._walk(files, only_look=True)
            second.root(fd)
            if second.files.keys() != files.keys():
                raise walk.Unstable("files come and go")
        return _Reading(files, changed)

    def _hinted(self, fd: int, paths: Collection[str]) -> "_Reading":
        """The files with these paths read anew, twice; ``Unstable`` when only a whole walk can tell."""
        if self._identity != _identity(os.fstat(fd)):
            raise walk.Unstable("the folder was replaced")
        first, second = self._walk(self._files), self._walk(self._files)
        for one in (first, second):
            if not all(one.one(fd, path) for path in paths):
                raise walk.Unstable("a folder came or went")
        files, changed = Edited(self._files), []
        for path in paths:
            now, again = first.files.get(path), second.files.get(path)
            if _differs(now, again):
                raise walk.Unstable(path)
            if _differs(now, files.get(path)):
                changed.append(path)
            if now is None:
                files.pop(path, None)
            else:
                files[path] = now
        return _Reading(files, changed)

    def _accepted(self, fd: int, where: repository.Where, reading: "_Reading") -> Tree | Gone:
        identity = _identity(os.fstat(fd))
        if identity != _identity_of(self.root):
            raise walk.Unstable("the folder was replaced")
        if not reading.files and self._identity != identity:
            if self._identity is not None:
                return Gone(f"{self.root} was replaced by an empty folder")
            if self.held_files:
                return Gone(f"{self.root} is empty and was not: add a handler.toml if it is meant")
        again = where != self._where or self._reviser.due(where, self._clock())
        self._identity, self._where, self._files = identity, where, reading.files
        if self._tree is None or reading.changed or again:
            self._tree = self._named(where, reading)
        return self._tree

    def _named(self, where: repository.Where, reading: "_Reading") -> Tree:
        """The tree of what was read; the last one itself when neither its revision nor its bytes are new."""
        tree = changed_tree(self._tree or Tree("", {}), reading.files, reading.changed)
        name = self._reviser.name(where, tree, reading.changed, self._clock())
        if self._tree is not None and not reading.changed and name == self._tree.revision:
            return self._tree
        return replace(tree, revision=name)


@dataclass(frozen=True, slots=True)
class _Reading:
    """All files as they are now, and the paths at which a reader sees another thing than in the last tree."""

    files: Mapping[str, walk.File]
    changed: Collection[str]


def _differs(file: walk.File | None, other: walk.File | None) -> bool:
    return file is not other and (file is None or not file.same(other))


def changed_tree(last: Tree, now: Mapping[str, walk.File], changed: Collection[str]) -> Tree:
    """The tree of these files, of which only ``changed`` paths differ from the last one; unnamed."""
    files, faults, turned = Edited(last.files), Edited(last.faults), set[str]()
    for path in changed:
        file = now.get(path)
        fault, data = (file.fault, file.data) if file is not None else (None, None)
        faults.pop(path, None)
        if fault is not None:
            faults[path] = fault
        if fault is None and data is not None:
            files[path] = data  # in its place: later rooms compare two trees in their order
        else:
            files.pop(path, None)
        if (file is not None and file.executable) != (path in last.executable):
            turned.add(path)
    return Tree("", files, faults, last.executable ^ turned if turned else last.executable)


def _real(root: Path) -> Path:
    return root.resolve()


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _identity_of(root: Path) -> tuple[int, int]:
    return _identity(root.stat())
