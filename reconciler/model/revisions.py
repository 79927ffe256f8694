"""A revision as text: ``main@sha1:…``, ``detached@…``, ``none@sha256:…``, ``…+dirty:…``, ``…+unchecked:…``.

A branch may be called almost anything, ``fix+dirty@v2`` too, so who takes a revision apart does it here.
Quick commands import this: it rests on little.
"""

import re

_REVISION = re.compile(
    r"(?P<branch>.*)@(?P<algorithm>sha1|sha256):(?P<name>[0-9a-f]+)(?:\+(?P<edits>(?:dirty|unchecked):[0-9a-z:]*))?",
    re.DOTALL,
)
_LONG = re.compile(r"@(?:sha1|sha256):([0-9a-f]{7})[0-9a-f]{33,}(\+(?:dirty|unchecked):[0-9a-z:]*)?")
_COMMIT = re.compile(r"(?<![:\w])([0-9a-f]{7})[0-9a-f]{33}(?:[0-9a-f]{24})?\b")
_SHORTEST = 4  # hex digits that may stand for a commit


class Parts:
    """What a revision says. ``edits`` tells of bytes that are not the commit's, or is ""."""

    __slots__ = ("_algorithm", "branch", "edits", "name")

    def __init__(self, branch: str, name: str = "", edits: str = "", algorithm: str = "") -> None:
        """``name``: hex digits of the commit, or of the digest of the files where there is none."""
        self.branch = branch
        self.name = name
        self.edits = edits
        self._algorithm = algorithm

    @property
    def commit(self) -> str:
        """The commit's name; "" where there is none."""
        return "" if (self.branch, self._algorithm) == ("none", "sha256") else self.name

    @property
    def dirty(self) -> bool:
        """The bytes are known to differ from the commit's."""
        return self.edits.startswith("dirty:")


def parts(revision: str) -> Parts:
    """The parts of a revision; of other text, all of it as the branch."""
    found = _REVISION.fullmatch(revision)
    return (
        Parts(found["branch"], found["name"], found["edits"] or "", found["algorithm"])
        if found
        else Parts(revision)
    )


def shortened(text: str) -> str:
    """A sentence with the revisions in it as people read them: ``main@4f2c1aa``, ``main@4f2c1aa +edits``."""
    text = _LONG.sub(lambda found: f"@{found[1]}" + (" +edits" if found[2] else ""), text)
    return _COMMIT.sub(r"\1", text)


def look_alike(one: str, other: str) -> bool:
    """Whether two revisions read the same to people: one commit, and edits beside it in both or in neither.
    What was admitted of it may differ all the same: by the edits, or by what was held back.
    """
    mine, others = parts(one), parts(other)
    return (mine.branch, mine.name, bool(mine.edits)) == (others.branch, others.name, bool(others.edits))


def is_meant(revision: str, word: str) -> bool:
    """Whether a person's word names a revision: whole, or by the beginning of its commit (``4f2c1aa``,
    ``main@4f2c1aa``). One with edits is named whole.
    """
    if revision == word:
        return True
    own = parts(revision)
    branch, at, digits = word.rpartition("@")
    start = digits.removeprefix("sha256:").removeprefix("sha1:")
    return (
        len(start) >= _SHORTEST
        and not own.edits
        and (not at or own.branch == branch)
        and own.name.startswith(start)
    )
