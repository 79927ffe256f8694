"""What was admitted last, on disk: the files behind every form in force, so that a restart serves the same.

One append-only file of batches (``batches``), ``<state>/admitted/journal``. A batch is written by one call
and reaches the disk before ``save`` (or ``settle``, where that is not waited for) returns. When more than
half of the file is outdated it is written anew, whole or not at all, with the last revisions that ``history``
keeps. Only the configuration's own files are kept: what ships with the product comes from there.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from reconciler.admission.admit import Admission
from reconciler.admission.view import inside, whole_path
from reconciler.config import lock
from reconciler.control import atomic, batches, history
from reconciler.control.batches import Batch, Kept, Note
from reconciler.control.seals import Seals
from reconciler.model.identity import moved
from reconciler.model.inventory import Layer, Resource, Tree
from reconciler.model.names import PUBLISHED, ObjectRef, locked_object
from reconciler.model.resources import Record

_FILE = "journal"
_LOCK = "handler.lock"
_SLACK_BYTES = 1 << 20  # outdated bytes that are not worth a rewriting


class Admitted:
    """The last admitted files of one configuration. One writer: the controller that holds the lock."""

    def __init__(self, folder: Path, now: Callable[[], float] = time.time) -> None:
        """``now`` is the wall clock. Nothing is read or made before ``load`` or ``save``."""
        self.history: tuple[history.Entry, ...] = ()  # the newest first; of what was loaded or saved
        self._path = folder / _FILE
        self._now = now
        self._files: dict[str, Kept] = {}
        self._weight = 0  # the sum of these files' weights
        self._live_bytes = 0  # of these files
        self._whole_bytes = 0  # of the journal when it was last written anew
        self._forms: Mapping[ObjectRef, Resource[Record]] | None = None  # what was saved last, once it was
        self._size_bytes: int | None = None  # None: not read yet
        self.unsettled = False  # a batch is written, and may not have reached the disk
        self._lost = False  # … and never will: the file is to be written anew
        self._seals: Seals[str] = Seals(lambda _: self._path)

    def load(self) -> Tree:
        """The files that were in force when the last controller ended; no file the first time. Raises
        OSError.
        """
        self._replay()
        files = {path: kept.data for path, kept in self._files.items()}
        executable = frozenset(path for path, kept in self._files.items() if kept.executable)
        return Tree(self._revision, files, {}, executable)

    def save(self, admission: Admission, seconds: float = 0.0, *, wait: bool = True) -> bool:
        """Make what is in force durable; False when it was already. Raises OSError and leaves what was
        saved. ``seconds`` is how long it took to decide. Without ``wait``, ``settle`` is to follow: until
        then a power cut (never a crash of ours) may leave what was saved before.
        """
        if self._size_bytes is None:
            self._replay()
        elif self._lost or self.altered():
            self.rewrite()
            self._lost = False
        changes = self._changes(admission)
        revision = admission.inventory.revision
        if changes or revision != self._revision:
            self._append(changes, Note(revision, self._now(), seconds, len(admission.refused)))
        self._forms = admission.in_force
        if wait:
            self.settle()
        return bool(changes)

    def settle(self) -> None:
        """Wait for the disk, where something was saved that did not reach it. Raises OSError; then the next
        ``save`` writes everything anew.
        """
        if self.unsettled:
            self.unsettled, self._lost = False, True
            _fsync(self._path)
            self._lost = False

    def past(self, digest: str) -> history.Past | None:
        """A revision that is kept, with its files, by the digest of its content. Raises OSError."""
        return next((past for past in history.read(self._path) if past.entry.digest == digest), None)

    def altered(self) -> bool:
        """Whether somebody else changed or removed the journal, so that a restart would read otherwise."""
        if not self._seals.odd():
            return False
        look = self._seals.look("")
        try:
            data = self._path.read_bytes()
        except OSError:
            return True
        replay = history.replayed(batches.decoded(data))
        same = (len(data), self._weight) == (replay.whole_bytes, replay.weight)
        same &= [(one.digest, one.names) for one in self.history] == [
            (one.digest, one.names) for one in replay.entries
        ]
        if same:
            self._seals.note("", look)
        return not same

    def rewrite(self) -> None:
        """Write the journal anew: what is in force, and the earlier revisions that it still tells of. Raises
        OSError.
        """
        if not self.history:
            return
        try:
            found = history.read(self._path)
        except OSError:
            found = ()
        known = {entry.digest for entry in self.history[1:]}
        earlier = [past for past in found if past.entry.digest in known]
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        newest = history.Past(self.history[0], self._files)
        atomic.write(self._path, history.compacted([newest, *earlier]), anew=self._lost)
        forms = self._forms
        self._replay()
        self._forms = forms

    @property
    def _revision(self) -> str:
        return self.history[0].revision if self.history else ""

    def _changes(self, admission: Admission) -> dict[str, Kept | None]:
        """Every path whose file is not as it was kept; None: it is in force no more."""
        odd = moved(self._forms or {}, admission.in_force)
        now = dict(file for form in _ours(admission.in_force, odd) for file in _files(form))
        was = {path for form in _ours(self._forms or {}, odd) for path in _paths(form)}
        gone = (self._files.keys() if self._forms is None else was & self._files.keys()) - now.keys()
        changes: dict[str, Kept | None] = {
            path: kept for path, kept in now.items() if self._files.get(path) != kept
        }
        changes.update(dict.fromkeys(gone - {_LOCK}))
        lock = self._lock(admission)
        if lock is not None and self._files.get(_LOCK) != lock:
            changes[_LOCK] = lock
        return changes

    def _lock(self, admission: Admission) -> Kept | None:
        """The lock under which these forms were admitted: not the newest where what is published keeps its
        last form.
        """
        for ref in admission.retained:
            form = admission.in_force.get(ref)
            if ref.kind in PUBLISHED and form is not None and form.layer is Layer.CONFIG:
                return self._files.get(_LOCK)
        inventory = admission.inventory
        files, own = inventory.trees[Layer.CONFIG].files, inventory.locks.get(Layer.CONFIG)
        for name in own.entries if own else ():
            form = admission.in_force.get(locked_object(name))
            if own and form is not None and form.layer is Layer.CONFIG and form.file not in files:
                return Kept(lock.render(own).encode(), executable=False)  # held: removed, and in force
        data = files.get(_LOCK)
        return Kept(data, executable=False) if data is not None else None

    def _append(self, changes: batches.Changes, note: Note) -> None:
        files, live = self._files, self._live_bytes
        weight = self._weight + batches.change(files, changes)
        for path, kept in changes.items():
            live += len(kept.data if kept else b"") - (len(files[path].data) if path in files else 0)
        batch, size = batches.encoded(changes, note), self._size_bytes or 0
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if size + len(batch) > 2 * max(live, self._whole_bytes) + _SLACK_BYTES or size == 0:
            batch = self._compacted(changes, note) if size else batch
            atomic.write(self._path, batch)
            self._size_bytes = self._whole_bytes = len(batch)
        else:
            self._size_bytes = None  # until it is known to be there, nothing is known
            _append_at(self._path, size, batch)
            self.unsettled = True
            self._size_bytes = size + len(batch)
        batches.edit(files, changes)
        self._live_bytes, self._weight = live, weight
        self._seals.wrote("", self._size_bytes)
        self.history = history.noted(self.history, batches.digest(weight), note)

    def _compacted(self, changes: batches.Changes, note: Note) -> bytes:
        """The journal with these changes, less what is outdated."""
        data = self._path.read_bytes()[: self._size_bytes]
        return history.compacted(history.pasts([*batches.decoded(data), Batch(changes, note, len(data))]))

    def _replay(self) -> None:
        look = self._seals.look("")
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            data = b""
        atomic.sweep(self._path.parent)
        replay = history.replayed(batches.decoded(data))
        self._files, self._weight, self.history = replay.files, replay.weight, replay.entries
        self._size_bytes = replay.whole_bytes
        self._live_bytes = sum(len(kept.data) for kept in self._files.values())
        self._whole_bytes = 0
        self._forms = None
        self._seals.note("", look)


def _append_at(path: Path, size_bytes: int, batch: bytes) -> None:
    """Write a batch behind the whole ones, over whatever half of one lies there."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if os.fstat(fd).st_size < size_bytes:
            raise OSError("it was cut by somebody else")
        os.ftruncate(fd, size_bytes)
        os.lseek(fd, size_bytes, os.SEEK_SET)
        atomic.write_all(fd, batch)
    finally:
        os.close(fd)


def _fsync(path: Path) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _ours(
    forms: Mapping[ObjectRef, Resource[Record]], refs: Iterable[ObjectRef]
) -> Iterator[Resource[Record]]:
    """The configuration's own of these."""
    found = (forms.get(ref) for ref in refs)
    return (form for form in found if form is not None and form.layer is Layer.CONFIG)


def _files(form: Resource[Record]) -> Iterator[tuple[str, Kept]]:
    """An object's files by their path from the configuration's root."""
    for path, data in inside(form).items():
        whole = _whole(form, path)
        yield whole, Kept(data, whole in form.executable or path in form.executable)


def _paths(form: Resource[Record]) -> Iterator[str]:
    return (_whole(form, path) for path in inside(form))


def _whole(form: Resource[Record], path: str) -> str:
    return path if path == form.file or "/" not in form.file else whole_path(form, path)
