"""The last admitted revisions, each with the files that were in force, so that one can be served again.

Drawn from the journal of what was admitted (``batches``), which keeps what these revisions differ in. One
entry stands for one content: admitted again, under the same or another name (edits that were committed, a
commit that was taken back), it comes to the front and is counted. At most five, and fewer where they differ
by more than 64 MiB. Pure but for ``read``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reconciler.control import batches
from reconciler.control.batches import Batch, Files, Kept, Note
from reconciler.control.status import iso
from reconciler.model.inventory import Tree

KEPT = 5
_MOST_BYTES = 64 * 2**20  # of what earlier revisions differ in
_NAMES = 4  # other names of one content that are remembered


@dataclass(frozen=True, slots=True)
class Entry:
    """One content that was in force: the digest of its files, and what was told when it was admitted last."""

    digest: str
    note: Note

    @property
    def revision(self) -> str:
        return self.note.revision

    @property
    def names(self) -> tuple[str, ...]:
        """Every revision that is known to have put it in force, the newest first."""
        return (self.note.revision, *self.note.also)


@dataclass(frozen=True, slots=True)
class Past:
    """What was in force after one batch, or after several with the same content."""

    entry: Entry
    files: Files

    def tree(self) -> Tree:
        """Its files as a tree that may be admitted again."""
        executable = frozenset(path for path, kept in self.files.items() if kept.executable)
        files = {path: kept.data for path, kept in self.files.items()}
        return Tree(self.entry.revision, files, {}, executable)


@dataclass(frozen=True, slots=True)
class Replay:
    """What a journal's batches add up to: the files in force and the sum of their weights, the entries (the
    newest first) with the number of the batch that each was last admitted by, and how many bytes are whole.
    """

    files: dict[str, Kept]
    weight: int
    entries: tuple[Entry, ...]
    marks: Mapping[str, int]  # by digest
    whole_bytes: int


def noted(entries: Sequence[Entry], digest: str, note: Note) -> tuple[Entry, ...]:
    """The entries, the newest first, once this content was admitted (again)."""
    known = next((entry for entry in entries if entry.digest == digest), None)
    if known is not None:
        names = (*known.names, *note.also)
        also = tuple(dict.fromkeys(name for name in names if name != note.revision))[:_NAMES]
        note = replace(note, count=known.note.count + note.count, also=also)
    others = [entry for entry in entries if entry.digest != digest]
    return (Entry(digest, note), *others[: KEPT - 1])


def replayed(found: Iterable[Batch]) -> Replay:
    """Add up batches in their order."""
    files: dict[str, Kept] = {}
    entries: tuple[Entry, ...] = ()
    marks: dict[str, int] = {}
    whole, end = 0, 0
    for number, batch in enumerate(found):
        whole += batches.change(files, batch.changes)
        batches.edit(files, batch.changes)
        digest, end = batches.digest(whole), batch.end
        entries = noted(entries, digest, batch.note)
        marks[digest] = number
    return Replay(files, whole, entries, {entry.digest: marks[entry.digest] for entry in entries}, end)


def pasts(found: Sequence[Batch]) -> tuple[Past, ...]:
    """The entries that batches add up to, the newest first, each with its files."""
    replay = replayed(found)
    files: dict[str, Kept] = {}
    snapshots: dict[int, Files] = {}
    wanted = set(replay.marks.values())
    for number, batch in enumerate(found):
        batches.edit(files, batch.changes)
        if number in wanted:
            snapshots[number] = dict(files)
    return tuple(Past(entry, snapshots[replay.marks[entry.digest]]) for entry in replay.entries)


def compacted(newest_first: Sequence[Past]) -> bytes:
    """A journal that holds these revisions and nothing else, and ends with the newest."""
    kept, size = [newest_first[0]], 0
    for past in newest_first[1:]:
        odd = _difference(past.files, kept[-1].files)
        size += sum(len(one.data) for one in odd.values() if one)
        if size > _MOST_BYTES:
            break
        kept.append(past)
    before: Files = {}
    parts = []
    for past in reversed(kept):
        parts.append(batches.encoded(_difference(before, past.files), past.entry.note))
        before = past.files
    return b"".join(parts)


def read(path: Path) -> tuple[Past, ...]:
    """The revisions that a journal holds, the newest first; ``()`` without one. Raises OSError."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ()
    return pasts(list(batches.decoded(data)))


def tree_digest(found: Tree) -> str:
    """The digest of a tree's content, whatever its revision is called."""
    whole = sum(
        batches.weight(path, Kept(data, path in found.executable)) for path, data in found.files.items()
    )
    return batches.digest(whole)


def as_json(entries: Iterable[Entry]) -> tuple[Mapping[str, Any], ...]:
    """The entries as the summary tells them, the newest first."""
    return tuple(
        {
            "revision": one.revision,
            "digest": f"sha256:{one.digest}",
            "status": "AppliedInPart" if one.note.refused else "Applied",
            "refused": one.note.refused,
            "at": iso(one.note.at) if one.note.at else "",
            "count": one.note.count,
            "seconds": one.note.seconds,
            "also": list(one.note.also),
        }
        for one in entries
    )


def _difference(before: Files, after: Files) -> dict[str, Kept | None]:
    odd: dict[str, Kept | None] = {path: kept for path, kept in after.items() if before.get(path) != kept}
    return odd | dict.fromkeys(before.keys() - after.keys())
