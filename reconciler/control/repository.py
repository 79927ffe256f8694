"""A git repository as its files tell it: where it is, what ``HEAD`` and refs name, what git is doing in it.

Read from ``.git``, loose and packed refs: no process, nothing of the repository runs, nothing is written.
Refs in a reftable are not read; who owns the repository does not matter.
"""

# Asked several times at each look, where pathlib takes five times as long.
# ruff: noqa: PTH110, PTH112, PTH113, PTH116, PTH118, PTH120

import os
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from reconciler.control import gitstore

_MAX_SMALL = 4096  # bytes of HEAD, gitdir and ref files; more is none of git's
_MAX_PACKED = 64 * 2**20
_MAX_SYMREFS = 5
_MAX_CONFIG = 2**20
_LOCK_S = 10.0  # a lock older than this was left by a git that died
_HEX = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SHA256 = re.compile(rb"^\s*objectformat\s*=\s*\"?sha256", re.MULTILINE)
_ODD = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|^\.")  # what git allows in no ref's name
_UNFINISHED = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
}


@dataclass(frozen=True, slots=True)
class Checkout:
    """The repository that a folder lies in; a worktree or submodule has its own ``git_dir``."""

    git_dir: str
    common_dir: str
    top: str


@dataclass(frozen=True, slots=True)
class Head:
    """Where ``HEAD`` points: the branch ("" when detached) and the commit ("" before the first one)."""

    branch: str
    commit: str

    def __str__(self) -> str:
        return f"{self.branch or 'detached'}@{algorithm(self.commit)}:{self.commit}"


@dataclass(frozen=True, slots=True)
class Marker:
    """A sign that git is at work: ``lock`` of so many seconds, or an ``unfinished`` act of a person's."""

    word: str
    detail: str
    age_s: float = 0.0
    lock: tuple[int, int] = (0, 0)  # which lock: a clock that was set back makes a dead one look new for ever

    @property
    def stale(self) -> bool:
        """A lock so old that its git must have died; a slow git looks the same, so it is said."""
        return self.word == "lock" and self.age_s > _LOCK_S


@dataclass(frozen=True, slots=True)
class Where:
    """Where a tree was read: in which repository, at which head, how deep in it."""

    repository: Checkout | None = None
    head: Head | None = None
    prefix: str = ""


def where(root: Path, known: "Where | None" = None) -> Where:
    """Where ``root`` (absolute, real) is, now. With what is known of it, the repository is not searched
    again.
    """
    if known is not None:
        return replace(known, head=head(known.repository)) if known.repository else known
    repository = checkout(root)
    if repository is None:
        return Where()
    prefix = os.path.relpath(root, repository.top)
    return Where(repository, head(repository), "" if prefix == "." else prefix)


def checkout(root: Path) -> Checkout | None:
    """The repository that ``root`` lies in, or None. ``.git`` may be a folder, or a file that names one."""
    top = os.fspath(root)
    while True:
        found = _git_dir(top)
        if found is not None:
            common = _small(f"{found}/commondir")
            return Checkout(found, os.path.realpath(os.path.join(found, common)) if common else found, top)
        top, below = os.path.dirname(top), top
        if top == below:
            return None


def has_reftable(repository: Checkout) -> bool:
    """True when refs are kept in a way that is not read here."""
    return os.path.isdir(f"{repository.common_dir}/reftable")


def marker(repository: Checkout, now_s: float) -> Marker | None:
    """What git, or a person, is in the middle of; ``now_s`` is wall clock. An unfinished act comes first."""
    for name, act in _UNFINISHED.items():
        if os.path.lexists(f"{repository.git_dir}/{name}"):
            return Marker("unfinished", f"{act} is not finished ({name} is there)")
    with suppress(FileNotFoundError, NotADirectoryError):
        lock = os.lstat(f"{repository.git_dir}/index.lock")
        age_s = max(0.0, now_s - lock.st_mtime)
        mark = (lock.st_ino, lock.st_mtime_ns)
        return Marker("lock", "git is at work (index.lock is there)", age_s, mark)
    return None


def head(repository: Checkout) -> Head | None:
    """Branch and commit now; None when ``HEAD`` cannot be read as either."""
    return _followed(repository, _small(f"{repository.git_dir}/HEAD"))


def ref(repository: Checkout, name: str) -> Head | None:
    """What a branch, a tag, a remote's branch or a full ref is now, in the order in which git tries them;
    None when there is no such one. An annotated tag's ``commit`` is still the tag's own name.
    """
    if name == "HEAD":
        return head(repository)
    if _ODD.search(name) or name.startswith(("/", "-")) or name.endswith(("/", ".lock")):
        return None
    for full in (name, f"refs/{name}", f"refs/tags/{name}", f"refs/heads/{name}", f"refs/remotes/{name}"):
        if full.startswith("refs/") and (text := _ref(repository, full)):
            found = _followed(repository, text)
            return Head(_shown(full.split("/", 2)[-1]), found.commit) if found and found.commit else None
    return None


def _followed(repository: Checkout, text: str) -> Head | None:
    branch = ""
    for _ in range(_MAX_SYMREFS):
        if _HEX.fullmatch(text):
            return Head(branch, text)
        if not text.startswith("ref: refs/") or ".." in text or "\0" in text:
            return None
        name = text.removeprefix("ref: ")
        branch = _shown(name.removeprefix("refs/heads/"))
        text = _ref(repository, name)
        if not text:
            return Head(branch, "")
    return None


def store(repository: Checkout, like: str = "") -> gitstore.Store:
    """Where the objects are; ``like`` is any object's full name, if one is known: it tells the hash."""
    place = repository.common_dir
    kind = algorithm(like) if like else _algorithm_of(f"{place}/config")
    shallow = f"{place}/shallow"
    return gitstore.Store(f"{place}/objects", kind, shallow if os.path.exists(shallow) else "")


def algorithm(name: str) -> str:
    """The hash that an object's full name is of: ``sha1`` or ``sha256``."""
    return "sha256" if len(name) == 64 else "sha1"


def _algorithm_of(config: str) -> str:
    with suppress(OSError):
        text = Path(config).read_bytes()[:_MAX_CONFIG].lower()
        return "sha256" if _SHA256.search(text) else "sha1"
    return "sha1"


def _git_dir(top: str) -> str | None:
    place = f"{top.rstrip('/')}/.git"
    if not os.path.lexists(place):
        return None
    text = _small(place)
    if text.startswith("gitdir: "):
        place = os.path.realpath(os.path.join(top, text.removeprefix("gitdir: ")))
    return place if os.path.isfile(f"{place}/HEAD") else None


def _ref(repository: Checkout, name: str) -> str:
    for folder in dict.fromkeys((repository.git_dir, repository.common_dir)):
        if text := _small(f"{folder}/{name}"):
            return text
    packed = f"{repository.common_dir}/packed-refs"
    with suppress(OSError):
        facts = os.stat(packed)
        return _packed(packed, name, facts.st_mtime_ns, facts.st_size, facts.st_ino)
    return ""


@lru_cache(maxsize=8)
def _packed(path: str, name: str, _mtime_ns: int, size_bytes: int, _inode: int) -> str:
    if size_bytes > _MAX_PACKED:
        return ""
    for line in Path(path).read_bytes().splitlines():
        if line.endswith(b" " + os.fsencode(name)):
            return line.partition(b" ")[0].decode("ascii", "replace")
    return ""


def _shown(name: str) -> str:
    """A name as text that can be written: git takes any bytes in a branch, no status file does."""
    return os.fsencode(name).decode(errors="backslashreplace")


def _small(path: str) -> str:
    """A small text file's content, stripped; "" when it is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.fsdecode(os.read(fd, _MAX_SMALL)).strip()
    except OSError:
        return ""  # a folder
    finally:
        os.close(fd)
