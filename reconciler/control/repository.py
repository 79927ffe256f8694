"""What ``HEAD`` and the refs of a git repository name, read from its files.

Loose and packed refs: no process, nothing of the repository runs, nothing is written. Refs in a reftable are
not read.
"""

# Asked several times at each look, where pathlib takes five times as long.
# ruff: noqa: PTH112, PTH116

import os
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from reconciler.control import checkouts
from reconciler.control.checkouts import Checkout

_MAX_PACKED = 64 * 2**20
_MAX_SYMREFS = 5
_HEX = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_ODD = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|^\.")  # what git allows in no ref's name


@dataclass(frozen=True, slots=True)
class Head:
    """Where ``HEAD`` points: the branch ("" when detached) and the commit ("" before the first one)."""

    branch: str
    commit: str

    def __str__(self) -> str:
        return f"{self.branch or 'detached'}@{checkouts.algorithm(self.commit)}:{self.commit}"


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
    repository = checkouts.checkout(root)
    if repository is None:
        return Where()
    prefix = os.path.relpath(root, repository.top)
    return Where(repository, head(repository), "" if prefix == "." else prefix)


def has_reftable(repository: Checkout) -> bool:
    """True when refs are kept in a way that is not read here."""
    return os.path.isdir(f"{repository.common_dir}/reftable")


def head(repository: Checkout) -> Head | None:
    """Branch and commit now; None when ``HEAD`` cannot be read as either."""
    return _followed(repository, checkouts.small(f"{repository.git_dir}/HEAD"))


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


def _ref(repository: Checkout, name: str) -> str:
    for folder in dict.fromkeys((repository.git_dir, repository.common_dir)):
        if text := checkouts.small(f"{folder}/{name}"):
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
    for line in checkouts.plain(path, _MAX_PACKED).splitlines():
        if line.endswith(b" " + os.fsencode(name)):
            return line.partition(b" ")[0].decode("ascii", "replace")
    return ""


def _shown(name: str) -> str:
    """A name as text that can be written: git takes any bytes in a branch, no status file does."""
    return os.fsencode(name).decode(errors="backslashreplace")
