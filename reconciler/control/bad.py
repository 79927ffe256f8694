"""Instances that did not prove themselves: how often, since when, and which are tried no more by themselves.

One file, ``<state>/bad.json``, so that a restart does not begin anew. An entry is of one binding at one
digest (the instance's name) and of what was asked of it: an edit of either is another claim, a proof that
succeeds ends it, and a person's ``handler apply`` tries once more. Only failures of what was declared are
counted here: a missing wall, a full disk or an installation that waits for a network pass by themselves, and
are tried again for ever.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from reconciler.control import atomic
from reconciler.control.typed import text, whole
from reconciler.model.names import InstanceName

_LOG = logging.getLogger("handler.loop")
TRIES = 5  # as many ends as make a crash loop
_MOST = 256  # entries; a person who edits on and on forgets the oldest
_FIRST_RETRY_S = 0.5  # doubled each time: five tries take 7.5 s, longer than a port or a lock is in the way


@dataclass(frozen=True, slots=True)
class Mark:
    """How one instance failed. ``left`` says how often it is tried yet by itself; instants are ISO, UTC."""

    tries: int
    left: int
    since: str
    last: str
    why: str

    @property
    def known(self) -> bool:
        """It is known to be bad: nothing is tried until something or somebody changes that."""
        return self.left <= 0

    @property
    def retry_s(self) -> float:
        """How long to wait before the next try."""
        return float(_FIRST_RETRY_S * 2.0 ** (TRIES - self.left - 1))


@dataclass(frozen=True, slots=True)
class Claim:
    """What an instance claims to be, and what was asked of it: the digest of its smoke cases, or ""."""

    name: InstanceName
    asked: str = ""


class Bad:
    """The book of what failed, in memory and in one file."""

    def __init__(self, path: Path, now: Callable[[], str]) -> None:
        """``now`` gives the wall clock as ISO in UTC. A file that cannot be read knows nothing."""
        self._path = path
        self._now = now
        self._marks: dict[Claim, Mark] = {}
        try:
            for value in orjson.loads(path.read_bytes())["bad"]:
                claim, mark = _entry(value)
                self._marks[claim] = mark
        except FileNotFoundError:
            pass
        except (OSError, ValueError, LookupError, TypeError):
            _LOG.warning("%s cannot be read: what failed before is tried anew", path)
            self._marks = {}

    def mark(self, claim: Claim) -> Mark | None:
        """What is known of a claim; None: nothing bad."""
        return self._marks.get(claim)

    def failed(self, claim: Claim, why: str) -> Mark:
        """One more failure of what was declared."""
        before, now = self._marks.pop(claim, None), self._now()
        if before is None:
            mark = Mark(1, TRIES - 1, now, now, why)
        else:
            mark = replace(before, tries=before.tries + 1, left=max(before.left - 1, 0), last=now, why=why)
        self._marks[claim] = mark
        while len(self._marks) > _MOST:
            del self._marks[next(iter(self._marks))]  # the one that failed last longest ago
        self._save()
        return mark

    def forget(self, claims: Collection[Claim]) -> None:
        """These proved themselves."""
        if known := [claim for claim in claims if claim in self._marks]:
            for claim in known:
                del self._marks[claim]
            self._save()

    def pardon(self, claims: Collection[Claim]) -> None:
        """A person asked: each of these that is known to be bad has one more try."""
        if known := [claim for claim in claims if claim in self._marks and self._marks[claim].known]:
            for claim in known:
                self._marks[claim] = replace(self._marks[claim], left=1)
            self._save()

    def _save(self) -> None:
        """Where the disk is full, that is logged; what is in memory counts."""
        found = [
            {"binding": claim.name.binding, "digest": claim.name.digest, "asked": claim.asked, **asdict(mark)}
            for claim, mark in self._marks.items()
        ]
        try:
            if found:
                atomic.write(self._path, orjson.dumps({"bad": found}, option=orjson.OPT_INDENT_2) + b"\n")
            else:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            _LOG.warning("%s cannot be written: %s", self._path, error.strerror or error)


def _entry(value: Mapping[str, Any]) -> tuple[Claim, Mark]:
    """One entry of the file. TypeError, LookupError or ValueError when it is none: a hand may have written
    it.
    """
    claim = Claim(InstanceName(text(value["binding"]), text(value["digest"])), text(value["asked"]))
    mark = Mark(
        tries=whole(value["tries"]),
        left=min(whole(value["left"]), TRIES),
        since=text(value["since"]),
        last=text(value["last"]),
        why=text(value["why"]),
    )
    return claim, mark
