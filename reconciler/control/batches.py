"""The format of what was admitted: batches of changed files, each whole or none. Pure: bytes in, values out.

A batch ends with a line that holds its digest: one that a crash cut short, or that a disk spoilt, is no
batch, and reading ends before it. Its last line also names the revision and tells of the look that admitted
it, so that the journal is its own history.

batch  = record* end
record = {"path": …, "size": n, "sha256": …, "executable": true} LF bytes LF | {"gone": path} LF
end    = {"end": sha256 of everything before it in the batch, then of the rest of this line, "revision": …,
          "at": …, "seconds": …, "refused": n, "count": n, "also": […]} LF
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

_LONGEST_LINE = 8192  # of a record's head: a path has at most 4 KiB


@dataclass(frozen=True, slots=True)
class Kept:
    """One file as it is on disk."""

    data: bytes
    executable: bool


Changes = Mapping[str, Kept | None]  # by path; None: it is in force no more
Files = Mapping[str, Kept]


@dataclass(frozen=True, slots=True)
class Note:
    """What is told of a batch: the revision, when it was admitted (wall clock), how long deciding took, how
    many objects were refused; how often these files were admitted, and under which other revisions.
    """

    revision: str = ""
    at: float = 0.0
    seconds: float = 0.0
    refused: int = 0
    count: int = 1
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch as read; ``end`` is where the next one starts."""

    changes: Changes
    note: Note
    end: int


def encoded(changes: Changes, note: Note) -> bytes:
    """A batch as bytes."""
    parts = [part for path in sorted(changes) for part in _record(path, changes[path])]
    body = b"".join(parts)
    told: dict[str, Any] = {
        "revision": note.revision,
        "at": round(note.at, 3),
        "seconds": round(note.seconds, 3),
        "refused": note.refused,
        "count": note.count,
        "also": list(note.also),
    }
    return body + orjson.dumps({"end": _seal(body, told), **told}) + b"\n"


def decoded(data: bytes) -> Iterator[Batch]:
    """Every whole batch of a journal, in order, up to the first that is not."""
    start, place = 0, 0
    changes: dict[str, Kept | None] = {}
    while (head := _head(data, place)) is not None:
        body_end, place = place, data.index(b"\n", place) + 1
        if "end" in head:
            seal = head.pop("end")
            if seal != _seal(data[start:body_end], head):
                return
            yield Batch(changes, _note(head), place)
            start, changes = place, {}
        elif "gone" in head:
            changes[str(head["gone"])] = None
        else:
            size = head.get("size")
            if not isinstance(size, int) or size < 0 or place + size >= len(data):
                return
            changes[str(head.get("path"))] = Kept(data[place : place + size], bool(head.get("executable")))
            place += size + 1


def weight(path: str, kept: Kept) -> int:
    """One file's part in the digest of many: a sum of them is that of the files, in whatever order."""
    one = hashlib.sha256(path.encode(errors="surrogateescape") + (b"\0x" if kept.executable else b"\0-"))
    one.update(kept.data)
    return int.from_bytes(one.digest(), "big")


def digest(whole: int) -> str:
    """The digest (64 hex) of files from the sum of their weights."""
    return hashlib.sha256(whole.to_bytes(64, "big")).hexdigest()


def change(files: Files, changes: Changes) -> int:
    """What changes do to the sum of the files' weights."""
    found = 0
    for path, kept in changes.items():
        if (old := files.get(path)) is not None:
            found -= weight(path, old)
        if kept is not None:
            found += weight(path, kept)
    return found


def edit(files: dict[str, Kept], changes: Changes) -> None:
    """Make the changes in place."""
    for path, kept in changes.items():
        if kept is None:
            files.pop(path, None)
        else:
            files[path] = kept


def _seal(body: bytes, told: Mapping[str, Any]) -> str:
    whole = hashlib.sha256(body)
    whole.update(str(told.get("revision", "")).encode())
    if rest := {key: value for key, value in told.items() if key != "revision"}:
        whole.update(orjson.dumps(rest, option=orjson.OPT_SORT_KEYS))
    return whole.hexdigest()


def _note(told: Mapping[str, Any]) -> Note:
    """A sealed line is as it was written; one of an earlier release names its revision alone."""
    return Note(
        revision=str(told.get("revision", "")),
        at=float(told.get("at", 0.0)),
        seconds=float(told.get("seconds", 0.0)),
        refused=int(told.get("refused", 0)),
        count=int(told.get("count", 1)),
        also=tuple(map(str, told.get("also", ()))),
    )


def _record(path: str, kept: Kept | None) -> Iterator[bytes]:
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


def _head(data: bytes, place: int) -> dict[str, Any] | None:
    end = data.find(b"\n", place, place + _LONGEST_LINE)
    if end < 0:
        return None
    try:
        head = orjson.loads(data[place:end])
    except orjson.JSONDecodeError:
        return None
    return head if isinstance(head, dict) else None
