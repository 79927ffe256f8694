"""What git says of a folder, without letting the repository run anything.

Branch and commit are read from ``HEAD``, loose and packed refs: no process. Whether the work tree differs
from the commit is decided by comparing the bytes in hand with the blob names of ``git ls-tree``, which runs
no hook, no filter and no fsmonitor and asks no remote; ``git status`` would do all three on a hostile
repository. So a file that git stores in another form (LFS, line ends) counts as different, which it is.
"""

# Asked several times at each look, where pathlib takes five times as long.
# ruff: noqa: PTH113, PTH116, PTH118, PTH120

import hashlib
import os
import re
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Protocol

_MAX_SMALL = 4096  # bytes of HEAD, gitdir and ref files; more is none of git's
_MAX_PACKED = 64 * 2**20
_MAX_SYMREFS = 5
_GIT_S = 5.0  # a listing takes milliseconds; a disk that hangs must not hold a look up
_ASK_AGAIN_S = 60.0  # how long a git that could not answer is left alone
_LOCK_S = 10.0  # a lock older than this was left by a git that died
_HEX = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
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
        return f"{self.branch or 'detached'}@{_algorithm(self.commit)}:{self.commit}"


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


class Reviser:
    """Names one tree after the other, so that a tree that differs a little costs a little.

    ``main@sha1:…`` when the bytes are the commit's; ``…+dirty:<digest>`` when they differ (the digest is of
    what differs); ``…+unchecked:<digest>`` when git cannot say; ``none@sha256:…`` without a commit.
    """

    def __init__(self, names: Sequence[str]) -> None:
        """``names`` are the files and folders, at the top of the tree, that a commit is compared in."""
        self._names = names
        self._whole = 0  # the sum of the parts: order does not matter, and one is quickly exchanged
        self._parts: dict[str, int] = {}
        self._unsummed: set[str] = set()  # paths whose part is not that of the tree named last
        self._compared: tuple[str, str] | None = None
        self._committed: Mapping[str, tuple[str, bool]] | None = None
        self._differing: dict[str, str] = {}
        self._ask_again_s = 0.0

    def name(self, where: "Where", tree: "_Contents", changed: Collection[str], now_s: float) -> str:
        """The revision of a tree of which only ``changed`` paths differ from the last one named; ``now_s`` is
        monotonic. Runs git once a commit, for at most 5 s.
        """
        self._unsummed.update(changed)
        if where.repository is None or where.head is None or not where.head.commit:
            return f"none@sha256:{self._digest(tree, 64)}"
        if self._compare(where, now_s):
            changed = {*tree.files, *(self._committed or ())}
            self._differing = {}
        if self._committed is None:
            return f"{where.head}+unchecked:{self._digest(tree, 12)}"
        for path in changed:
            self._judge(path, tree, where.head.commit)
        if not self._differing:
            return str(where.head)
        text = "\n".join(f"{blob} {path}" for path, blob in sorted(self._differing.items()))
        return f"{where.head}+dirty:{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    def due(self, where: "Where", now_s: float) -> bool:
        """True when the same tree is to be named anew: another commit, or a git that may answer by now."""
        if where.repository is None or where.head is None or not where.head.commit:
            return False
        wanted = (where.repository.git_dir, where.head.commit)
        return wanted != self._compared or (self._committed is None and now_s >= self._ask_again_s)

    def _digest(self, tree: "_Contents", digits: int) -> str:
        """A digest of everything, from the sum of one a file: what did not change is not read again."""
        for path in self._unsummed:
            self._whole -= self._parts.pop(path, 0)
            if (data := tree.files.get(path)) is not None:
                one = hashlib.sha256(path.encode(errors="surrogateescape") + b"\0")
                one.update(data)
                part = self._parts[path] = int.from_bytes(one.digest(), "big")
                self._whole += part
        self._unsummed.clear()
        return hashlib.sha256(self._whole.to_bytes(64, "big")).hexdigest()[:digits]

    def _compare(self, where: "Where", now_s: float) -> bool:
        """Ask git for the commit when that is due; True when everything is to be compared anew."""
        if not self.due(where, now_s) or where.repository is None or where.head is None:
            return False
        commit = where.head.commit
        self._committed = _listing(where.repository, commit, where.prefix, self._names)
        self._compared, self._ask_again_s = (where.repository.git_dir, commit), now_s + _ASK_AGAIN_S
        return True

    def _judge(self, path: str, tree: "_Contents", commit: str) -> None:
        data, committed = tree.files.get(path), (self._committed or {}).get(path)
        now = (_blob(data, commit), path in tree.executable) if data is not None else None
        if now == committed or path.partition("/")[0] not in self._names:
            self._differing.pop(path, None)
        else:
            self._differing[path] = f"{now[0]}{'x' if now[1] else '-'}" if now else "gone"


class _Contents(Protocol):
    """What a revision names: bytes by path, and which paths are executable."""

    @property
    def files(self) -> Mapping[str, bytes]: ...

    @property
    def executable(self) -> frozenset[str]: ...


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
    text, branch = _small(f"{repository.git_dir}/HEAD"), ""
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


def _listing(
    repository: Checkout, commit: str, prefix: str, names: Sequence[str]
) -> Mapping[str, tuple[str, bool]] | None:
    """Every file of ``commit`` below ``prefix/NAME`` for these names, by path from ``prefix``: blob and
    whether executable. None when git is missing, refuses, or takes longer than 5 s.
    """
    start = f"{prefix}/" if prefix else ""
    command = ["git", f"--git-dir={repository.git_dir}", "-c", "core.hooksPath=/dev/null"]
    command += ["-c", "core.fsmonitor=false", "-c", "protocol.allow=never"]
    command += ["ls-tree", "-r", "-z", "--full-tree", commit, "--", *(start + name for name in names)]
    try:
        done = subprocess.run(  # noqa: S603 - a fixed argument list; the commit is hex, the names are ours
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_S,
            check=True,
            env=_environment(),
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found: dict[str, tuple[str, bool]] = {}
    for line in done.stdout.split(b"\0"):
        facts, _, path = line.partition(b"\t")
        mode, _, rest = facts.partition(b" ")
        if mode.startswith(b"100"):
            blob = rest.rpartition(b" ")[2].decode("ascii", "replace")
            found[os.fsdecode(path).removeprefix(start)] = (blob, mode == b"100755")
    return found


def _blob(data: bytes, like: str) -> str:
    """The name git gives to these bytes, by the algorithm of ``like`` (another object's name)."""
    hasher: Callable[[bytes], hashlib._Hash] = hashlib.sha256 if _algorithm(like) == "sha256" else _sha1
    whole = hasher(b"blob %d\0" % len(data))
    whole.update(data)
    return whole.hexdigest()


def _sha1(data: bytes) -> "hashlib._Hash":
    return hashlib.sha1(data, usedforsecurity=False)


def _algorithm(name: str) -> str:
    return "sha256" if len(name) == 64 else "sha1"


def _environment() -> dict[str, str]:
    """What git may know of ours: no GIT_*, no settings of the machine or the person, no way to a remote."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return kept | {
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }


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
