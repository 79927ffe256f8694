"""Where a git repository is, and what git is doing in it, read from its files: no process, nothing written.

``.git`` may be a folder, a file that names one (a linked worktree, a submodule), or the folder itself where
there is no work tree. Who owns it does not matter.
"""

# Asked several times at each look, where pathlib takes five times as long.
# ruff: noqa: PTH112, PTH113, PTH118, PTH120

import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.control import gitstore


_MAX_SMALL = 4096  # bytes of HEAD, gitdir and ref files; more is none of git's
_MAX_CONFIG = 2**20
_LOCK_S = 10.0  # a lock older than this was left by a git that died
_SHA256 = re.compile(rb"^\s*objectformat\s*=\s*\"?sha256", re.MULTILINE)
_UNFINISHED = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "sequencer": "a series of cherry-picks or reverts",
    "BISECT_LOG": "a bisect",  # which checks out one old commit after the other
}


@dataclass(frozen=True, slots=True)
class Checkout:
    """The repository that a folder lies in; a worktree or submodule has its own ``git_dir``."""

    git_dir: str
    common_dir: str
    top: str


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


def checkout(root: Path) -> Checkout | None:
    """The repository that ``root`` lies in, or None. ``.git`` may be a folder, or a file that names one."""
    top = os.fspath(root)
    if is_bare(root):
        return Checkout(top, top, top)
    while True:
        found = _git_dir(top)
        if found is not None:
            common = small(f"{found}/commondir")
            return Checkout(found, os.path.realpath(os.path.join(found, common)) if common else found, top)
        top, below = os.path.dirname(top), top
        if top == below:
            return None


def is_bare(root: Path) -> bool:
    """True when the folder is itself a repository, without a work tree."""
    top = os.fspath(root)
    if os.path.lexists(f"{top}/.git") or not os.path.isfile(f"{top}/HEAD"):
        return False
    return os.path.isdir(f"{top}/objects") and os.path.isdir(f"{top}/refs")


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


def store(repository: Checkout, like: str = "") -> "gitstore.Store":
    """Where the objects are; ``like`` is any object's full name, if one is known: it tells the hash."""
    from reconciler.control import gitstore  # noqa: PLC0415 - files that lie in no commit need no git

    place = repository.common_dir
    kind = algorithm(like) if like else _algorithm_of(f"{place}/config")
    shallow = f"{place}/shallow"
    return gitstore.Store(f"{place}/objects", kind, shallow if os.path.isfile(shallow) else "")


def algorithm(name: str) -> str:
    """The hash that an object's full name is of: ``sha1`` or ``sha256``."""
    return "sha256" if len(name) == 64 else "sha1"


def _algorithm_of(config: str) -> str:
    with suppress(OSError):
        text = plain(config, _MAX_CONFIG).lower()
        return "sha256" if _SHA256.search(text) else "sha1"
    return "sha1"


def _git_dir(top: str) -> str | None:
    place = f"{top.rstrip('/')}/.git"
    if not os.path.lexists(place):
        return None
    text = small(place)
    if text.startswith("gitdir: "):
        place = os.path.realpath(os.path.join(top, text.removeprefix("gitdir: ")))
    return place if os.path.isfile(f"{place}/HEAD") else None


def plain(path: str, most_bytes: int) -> bytes:
    """What a regular file begins with; OSError where it is none: nobody waits for who writes into a pipe."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(f"{path} is no regular file")
        return file.read(most_bytes)


def small(path: str) -> str:
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
