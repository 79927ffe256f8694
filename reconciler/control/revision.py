"""The name of a tree: what git calls it, and whether its bytes are the commit's.

Whether the work tree differs from the commit is decided by comparing the bytes in hand with the names in the
commit's trees, read by ``control.gitstore``; ``git status`` would run what a hostile repository names. So a
file that git stores in another form (LFS, converted line ends) counts as different, which it is.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from reconciler.control import checkouts, gitstore, listing, repository

_SURROGATES = re.compile("[\udc80-\udcff]")  # bytes that are no UTF-8
_ASK_AGAIN_S = 60.0  # how long a git that could not answer is left alone


class Reviser:
    """Names one tree after the other, so that a tree that differs a little costs a little.

    ``main@sha1:…`` when the bytes are the commit's; ``…+dirty:<digest>`` when they differ (the digest is of
    what differs); ``…+unchecked:<digest>`` when git cannot say; ``none@sha256:…`` without a commit.
    """

    def __init__(self, names: Sequence[str], ignored: Callable[[str], bool]) -> None:
        """``names`` are the files and folders, at the top of the tree, that a commit is compared in;
        ``ignored`` tells the name of a file or folder that no scan takes in.
        """
        self._names = names
        self._ignored = ignored
        self._whole = 0  # the sum of the parts: order does not matter, and one is quickly exchanged
        self._parts: dict[str, int] = {}
        self._unsummed: set[str] = set()  # paths whose part is not that of the tree named last
        self._compared: tuple[str, str] | None = None
        self._committed: Mapping[str, tuple[str, bool]] | None = None
        self._differing: dict[str, str] = {}
        self._ask_again_s = 0.0

    def name(self, where: repository.Where, tree: "_Contents", changed: Collection[str], now_s: float) -> str:
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

    def due(self, where: repository.Where, now_s: float) -> bool:
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

    def _compare(self, where: repository.Where, now_s: float) -> bool:
        """Ask git for the commit when that is due; True when everything is to be compared anew."""
        if not self.due(where, now_s) or where.repository is None or where.head is None:
            return False
        commit = where.head.commit
        self._committed = self._files(where, commit)
        self._compared, self._ask_again_s = (where.repository.git_dir, commit), now_s + _ASK_AGAIN_S
        return True

    def _files(self, where: repository.Where, commit: str) -> Mapping[str, tuple[str, bool]] | None:
        """Every file of the commit that a scan would take in: blob, and whether executable."""
        try:
            found = listing.listing(where, commit, self._wanted)
        except gitstore.Unanswered:
            return None
        files = {path: one for path, one in (found or {}).items() if one.mode.startswith("100")}
        return {path: (one.name, one.mode == "100755") for path, one in files.items()}

    def _wanted(self, path: str, folder: bool) -> bool:  # noqa: FBT001 - as trees are gone through
        shown = not _SURROGATES.search(path)  # of other names a scan tells only that they are there
        return shown and path.partition("/")[0] in self._names and not self._ignored(path.rpartition("/")[2])

    def _judge(self, path: str, tree: "_Contents", commit: str) -> None:
        data, committed = tree.files.get(path), (self._committed or {}).get(path)
        now = (
            (gitstore.named("blob", data, checkouts.algorithm(commit)), path in tree.executable)
            if data is not None
            else None
        )
        if now == committed or path in tree.faults or path.partition("/")[0] not in self._names:
            self._differing.pop(path, None)
        else:
            self._differing[path] = f"{now[0]}{'x' if now[1] else '-'}" if now else "gone"


class _Contents(Protocol):
    """What a revision names: bytes by path, which paths are executable, and where something else is."""

    @property
    def files(self) -> Mapping[str, bytes]: ...

    @property
    def faults(self) -> Mapping[str, object]: ...

    @property
    def executable(self) -> frozenset[str]: ...
