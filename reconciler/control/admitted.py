"""What was admitted last, on disk: the files behind every form in force, so that a restart serves the same.

One append-only file of batches, ``<state>/admitted/journal``. A batch is written by one call, reaches the
disk before ``save`` returns, and ends with a line that holds its digest: one that a crash cut short, or
that a disk spoilt, is no batch, and reading ends before it. When more than half of the file is outdated it
is written anew, whole or not at all. Only the configuration's own files are kept: what ships with the
product comes from there.

batch  = record* end
record = {"path": …, "size": n, "sha256": …, "executable": true} LF bytes LF | {"gone": path} LF
end    = {"end": sha256 of everything before it in the batch, then the revision; "revision": …} LF
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from reconciler.admission.admit import Admission
from reconciler.admission.view import inside, whole_path
from reconciler.control import atomic
from reconciler.model.identity import moved
from reconciler.model.inventory import Layer, Resource, Tree
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.resources import Record

_FILE = "journal"
_LOCK = "handler.lock"
_SLACK_BYTES = 1 << 20  # outdated bytes that are not worth a rewriting
_LONGEST_LINE = 8192  # of a record's head: a path has at most 4 KiB


@dataclass(frozen=True, slots=True)
class _Kept:
    """One file as it is on disk."""

    data: bytes
    executable: bool


@dataclass(frozen=True, slots=True)
class _Replay:
    """What reading the journal gave, and how many of its bytes are whole batches."""

    files: dict[str, _Kept]
    revision: str
    whole_bytes: int


class Admitted:
    """The last admitted files of one configuration. One writer: the controller that holds the lock."""

    def __init__(self, folder: Path) -> None:
        """Nothing is read or made before ``load`` or ``save``."""
        self._path = folder / _FILE
        self._files: dict[str, _Kept] = {}
        self._live_bytes = 0  # of these files
        self._forms: Mapping[ObjectRef, Resource[Record]] | None = None  # what was saved last, once it was
        self._revision = ""
        self._size_bytes: int | None = None  # None: not read yet

    def load(self) -> Tree:
        """The files that were in force when the last controller ended; no file the first time. Raises
        OSError.
        """
        self._replay()
        files = {path: kept.data for path, kept in self._files.items()}
        executable = frozenset(path for path, kept in self._files.items() if kept.executable)
        return Tree(self._revision, files, {}, executable)

    def save(self, admission: Admission) -> bool:
        """Make what is in force durable; False when it was already. Raises OSError and leaves what was
        saved.
        """
        if self._size_bytes is None:
            self._replay()
        changes = self._changes(admission)
        revision = admission.inventory.revision
        if changes or revision != self._revision:
            self._append(changes, revision)
        self._forms = admission.in_force
        return bool(changes)

    def _changes(self, admission: Admission) -> dict[str, _Kept | None]:
        """Every path whose file is not as it was kept; None: it is in force no more."""
        odd = moved(self._forms or {}, admission.in_force)
        now = dict(file for form in _ours(admission.in_force, odd) for file in _files(form))
        was = {path for form in _ours(self._forms or {}, odd) for path in _paths(form)}
        gone = (self._files.keys() if self._forms is None else was & self._files.keys()) - now.keys()
        changes: dict[str, _Kept | None] = {
            path: kept for path, kept in now.items() if self._files.get(path) != kept
        }
        changes.update(dict.fromkeys(gone - {_LOCK}))
        lock = self._lock(admission)
        if lock is not None and self._files.get(_LOCK) != lock:
            changes[_LOCK] = lock
        return changes

    def _lock(self, admission: Admission) -> _Kept | None:
        """The lock under which these forms were admitted: not the newest where an interface keeps its last
        form.
        """
        for ref in admission.retained:
            form = admission.in_force.get(ref)
            if ref.kind is Kind.INTERFACE and form is not None and form.layer is Layer.CONFIG:
                return self._files.get(_LOCK)
        data = admission.inventory.trees[Layer.CONFIG].files.get(_LOCK)
        return _Kept(data, executable=False) if data is not None else None

    def _append(self, changes: Mapping[str, _Kept | None], revision: str) -> None:
        files, live = dict(self._files), self._live_bytes
        for path, kept in changes.items():
            if (old := files.pop(path, None)) is not None:
                live -= len(old.data)
            if kept is not None:
                files[path] = kept
                live += len(kept.data)
        batch, size = _batch(changes, revision), self._size_bytes or 0
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if size == 0 or size + len(batch) > 2 * live + _SLACK_BYTES:
            batch = _batch(files, revision)
            atomic.write(self._path, batch)
            self._size_bytes = len(batch)
        else:
            self._size_bytes = None  # until it is known to be there, nothing is known
            _append_at(self._path, size, batch)
            self._size_bytes = size + len(batch)
        self._files, self._live_bytes, self._revision = files, live, revision

    def _replay(self) -> None:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            data = b""
        atomic.sweep(self._path.parent)
        replay = _replayed(data)
        self._files, self._revision = replay.files, replay.revision
        self._size_bytes = replay.whole_bytes
        self._live_bytes = sum(len(kept.data) for kept in self._files.values())
        self._forms = None


def _append_at(path: Path, size_bytes: int, batch: bytes) -> None:
    """Write a batch behind the whole ones, over whatever half of one lies there, and wait for the disk."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.ftruncate(fd, size_bytes)
        os.lseek(fd, size_bytes, os.SEEK_SET)
        atomic.write_all(fd, batch)
        os.fsync(fd)
    finally:
        os.close(fd)


def _batch(changes: Mapping[str, _Kept | None], revision: str) -> bytes:
    parts = [part for path in sorted(changes) for part in _record(path, changes[path])]
    body = b"".join(parts)
    return body + orjson.dumps({"end": _seal(body, revision), "revision": revision}) + b"\n"


def _seal(body: bytes, revision: str) -> str:
    whole = hashlib.sha256(body)
    whole.update(revision.encode())
    return whole.hexdigest()


def _record(path: str, kept: _Kept | None) -> Iterator[bytes]:
    if kept is None:
        yield orjson.dumps({"gone": path}) + b"\n"
        return
    head = {
        "path": path,
        "size": len(kept.data),
        "sha256": hashlib.sha256(kept.data).hexdigest(),
        "executable": kept.executable,
    }
    yield orjson.dumps(head) + b"\n"
    yield kept.data
    yield b"\n"


def _replayed(data: bytes) -> _Replay:
    """Every whole batch of a journal, in order, up to the first that is not."""
    files: dict[str, _Kept] = {}
    revision, start, place = "", 0, 0
    changes: dict[str, _Kept | None] = {}
    while (head := _head(data, place)) is not None:
        body_end, place = place, data.index(b"\n", place) + 1
        if "end" in head:
            named = str(head.get("revision", ""))
            if head["end"] != _seal(data[start:body_end], named):
                break
            for path, kept in changes.items():
                if kept is None:
                    files.pop(path, None)
                else:
                    files[path] = kept
            revision, start, changes = named, place, {}
        elif "gone" in head:
            changes[str(head["gone"])] = None
        else:
            size = head.get("size")
            if not isinstance(size, int) or size < 0 or place + size >= len(data):
                break
            changes[str(head.get("path"))] = _Kept(data[place : place + size], bool(head.get("executable")))
            place += size + 1
    return _Replay(files, revision, start)


def _head(data: bytes, place: int) -> dict[str, Any] | None:
    end = data.find(b"\n", place, place + _LONGEST_LINE)
    if end < 0:
        return None
    try:
        head = orjson.loads(data[place:end])
    except orjson.JSONDecodeError:
        return None
    return head if isinstance(head, dict) else None


def _ours(
    forms: Mapping[ObjectRef, Resource[Record]], refs: Iterable[ObjectRef]
) -> Iterator[Resource[Record]]:
    """The configuration's own of these."""
    found = (forms.get(ref) for ref in refs)
    return (form for form in found if form is not None and form.layer is Layer.CONFIG)


def _files(form: Resource[Record]) -> Iterator[tuple[str, _Kept]]:
    """An object's files by their path from the configuration's root."""
    for path, data in inside(form).items():
        whole = _whole(form, path)
        yield whole, _Kept(data, whole in form.executable or path in form.executable)


def _paths(form: Resource[Record]) -> Iterator[str]:
    return (_whole(form, path) for path in inside(form))


def _whole(form: Resource[Record], path: str) -> str:
    return path if path == form.file or "/" not in form.file else whole_path(form, path)
