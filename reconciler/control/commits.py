"""A configuration as a commit has it: read from the object store, never from the work tree.

The commit's own bytes are taken in by the rules of a scan (``control.walk``), so that the same content gives
the same tree: links, huge files, names that are no UTF-8 and pointers of Git LFS are faults at their path, a
kind's folder that is none is ``Gone``. What git would convert on a checkout (line ends, filters) is what git
stores. Nothing of the repository runs and nothing is fetched: see ``control.gitstore``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from reconciler.control import checkouts, gitstore, listing, repository, source, walk
from reconciler.control.listing import Listed
from reconciler.control.repository import Head, Where
from reconciler.control.source import Gone
from reconciler.model.inventory import Fault, Tree

_STEPS = re.compile(r"(?P<name>.*?)(?P<steps>[~^][~^0-9]*)?")
_SHORT = re.compile(r"[0-9a-f]{4,64}")  # git takes no shorter start of a name
_BATCH_BYTES = 16 * 2**20  # of blobs that are held twice for a moment
_FILE, _EXECUTABLE = 0o100644, 0o100755
_MEND = "write a branch, a tag, a commit, or steps from one (main~2)"


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit, in which repository and how deep in it the configuration lies; ``where.head`` names it."""

    where: Where

    @property
    def name(self) -> str:
        return self.where.head.commit if self.where.head else ""

    @property
    def revision(self) -> str:
        """``main@sha1:…`` by the branch or tag it was asked for, ``detached@…`` for anything else."""
        return str(self.where.head)


@dataclass(frozen=True, slots=True)
class Taken:
    """What was read of a commit, and by which objects, so that the next one costs what differs."""

    tree: Tree
    files: Mapping[str, walk.File]
    listed: Mapping[str, Listed]


def resolve(config: Path, rev: str) -> Commit | Gone:
    """The commit that ``rev`` means in the repository around ``config``: ``HEAD``, a branch, a tag, a full
    ref, a commit or the start of its name, each with steps (``~2``, ``^``); or why it means none.
    """
    where = repository.where(config.resolve())
    if where.repository is None:
        return Gone(f"{config} lies in no git repository")
    if repository.has_reftable(where.repository):
        return Gone(f"{config}: the repository keeps its refs in a reftable, which is not read yet")
    steps = _steps(rev)
    name = rev[: len(rev) - len(steps)]
    try:
        head = _head(where, "HEAD" if name == "@" else name, steps)
    except gitstore.Unanswered as why:
        return Gone(f"{config}: {why}")
    if head is None:
        return Gone(f"{rev[:80]!r} names no commit of {where.repository.top}: {_MEND}")
    return Commit(Where(where.repository, head, where.prefix))


def mark(config: Path, rev: str) -> object:
    """What ``rev`` rests on, found without a process: while it is equal, ``resolve`` finds the same commit.
    Where ``resolve`` finds none it says nothing.
    """
    where = repository.where(config.resolve())
    name = rev[: len(rev) - len(_steps(rev))]
    head = repository.ref(where.repository, "HEAD" if name == "@" else name) if where.repository else None
    return where.repository, where.prefix, head


def tree(commit: Commit) -> Tree | Gone:
    """The configuration as this commit has it, or why it cannot be read."""
    found = taken(commit)
    return found if isinstance(found, Gone) else found.tree


def taken(commit: Commit, before: Taken | None = None) -> Taken | Gone:
    """As ``tree``; what did not change since ``before`` keeps its bytes and is not read again."""
    try:
        listed = listing.listing(commit.where, commit.name, _is_wanted)
        if listed is None:
            return Gone(f"{commit.revision} has no folder {commit.where.prefix!r}")
        if (why := _misplaced(listed)) is not None:
            return Gone(f"{commit.revision}: {why}")
        files = _files(listed, before)
    except gitstore.Unanswered as why_not:
        return Gone(f"{commit.revision}: {why_not}")
    known = before.files if before else {}
    changed = [path for path, file in files.items() if not file.same(known.get(path))]
    changed += known.keys() - files.keys()
    made = source.changed_tree(before.tree if before else Tree("", {}), files, changed)
    return Taken(Tree(commit.revision, made.files, made.faults, made.executable), files, listed)


def _steps(rev: str) -> str:
    match = _STEPS.fullmatch(rev)
    return (match["steps"] or "") if match else ""


def _head(where: Where, name: str, steps: str) -> Head | None:
    """What the name means, then the steps from there; an annotated tag leads to its commit."""
    assert where.repository is not None  # noqa: S101 - asked by `resolve`
    found = repository.ref(where.repository, name)
    if found is None and not _SHORT.fullmatch(name):
        return None
    like = found.commit if found else where.head.commit if where.head else ""
    start = found.commit if found else name
    if not start:
        return None
    commit = gitstore.commit_name(checkouts.store(where.repository, like), start + steps)
    return Head(found.branch if found and not steps else "", commit) if commit else None


def _is_wanted(path: str, folder: bool) -> bool:  # noqa: FBT001 - as trees are gone through
    top, *below = path.split("/")
    name = below[-1] if below else top
    if walk.ignored(name):
        return False
    if not below:
        return folder or name in walk.FILES or name in walk.FOLDERS or name.endswith(".toml")
    return top in walk.FOLDERS or (not folder and len(below) == 1 and name.endswith(".toml"))


def _misplaced(listed: Mapping[str, Listed]) -> str | None:
    """Why nothing can be concluded from what is missing: a kind's folder is something else."""
    for name in walk.FOLDERS:
        if (one := listed.get(name)) is not None:
            return f"{name} is {_WHAT.get(one.mode, 'not a folder')}"
    return None


_WHAT = {
    gitstore.LINK: "a symlink, and symlinks are not followed",
    gitstore.SUBMODULE: "a submodule whose commit is not here: `git submodule update --init` fetches it",
}


def _files(listed: Mapping[str, Listed], before: Taken | None) -> dict[str, walk.File]:
    """Every file, in the order of the commit; what ``before`` has of the same object is not read again."""
    found: dict[str, walk.File | None] = {}
    for path, one in listed.items():
        shown = walk.printable(path)
        if before is not None and before.listed.get(path) == one and shown == path:
            found[path] = before.files[path]
        else:
            found[shown] = _at_once(one, readable=shown == path)
    wanted = {path: listed[path] for path, file in found.items() if file is None}
    found.update(_read(wanted, sum(len(file.data or b"") for file in found.values() if file)))
    return {path: file for path, file in found.items() if file is not None}


def _at_once(one: Listed, *, readable: bool) -> walk.File | None:
    """The fault of what is no file, whatever it holds; None: it is to be read."""
    if not readable:
        return _fault("name", "its name is not UTF-8")
    if one.mode == gitstore.LINK:
        return _fault("symlink", "symlinks are not followed")
    if one.mode == gitstore.SUBMODULE:
        return _fault("submodule", "its commit is not in this repository")
    if one.mode == gitstore.FOLDER:
        return _fault("unreadable", "nested too deep")
    return None


def _read(wanted: Mapping[str, Listed], held_bytes: int) -> Iterator[tuple[str, walk.File]]:
    for store in dict.fromkeys(one.store for one in wanted.values()):
        of_it = {path: one for path, one in wanted.items() if one.store == store}
        with gitstore.opened(store) as reader:
            sizes = reader.sizes(list(dict.fromkeys(one.name for one in of_it.values())))
            fits: dict[str, Listed] = {}
            for path, one in of_it.items():
                fault = walk.size_fault(path, sizes.get(one.name, 0), held_bytes)
                if fault is not None:
                    yield path, _fault(fault.word, fault.detail)
                else:
                    held_bytes += sizes.get(one.name, 0)
                    fits[path] = one
            for some in _batches(fits, sizes):
                blobs = reader.read(list(dict.fromkeys(one.name for one in some.values())))
                for path, one in some.items():
                    yield path, _file(blobs.get(one.name), one)


def _batches(fits: Mapping[str, Listed], sizes: Mapping[str, int]) -> Iterable[dict[str, Listed]]:
    batch: dict[str, Listed] = {}
    held = 0
    for path, one in fits.items():
        batch[path] = one
        held += sizes.get(one.name, 0)
        if held >= _BATCH_BYTES:
            yield batch
            batch, held = {}, 0
    if batch:
        yield batch


def _file(blob: gitstore.Object | None, one: Listed) -> walk.File:
    if blob is None:
        return _fault(
            "unreadable", "its content is not in this repository (of a partial clone, nothing is fetched)"
        )
    if (fault := walk.content_fault(blob.data)) is not None:
        return _fault(fault.word, fault.detail)
    mode = _EXECUTABLE if one.mode == "100755" else _FILE
    return walk.File((len(blob.data), 0, 0, 0, mode), blob.data, None, unsure=False)


def _fault(word: str, detail: str) -> walk.File:
    return walk.File((0, 0, 0, 0, 0), None, Fault(word, detail), unsure=False)
