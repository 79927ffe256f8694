"""A rollback: an earlier admitted revision is served on purpose, until the source moves past the bad one.

``<state>/rollback.json`` says which content is served instead of which content of the source, so that a
restart serves the same. The source is never written. It has moved on when its files read otherwise, by
whatever revision they go; a commit of the very same files, or another branch's name for them, ends nothing.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from reconciler.control import atomic, history
from reconciler.control.admitted import Admitted
from reconciler.control.status import iso
from reconciler.model import revisions
from reconciler.model.inventory import Tree
from reconciler.model.names import ObjectRef
from reconciler.model.problems import quoted
from reconciler.model.status import Condition

_LOG = logging.getLogger("handler.look")
_SHORTEST = 4  # hex digits that may stand for a commit or a content
_FEW = 5  # revisions in a message
_FILE = "rollback.json"
_PASSED = 16  # contents that "the previous one" leaves out: those that were rolled back from


class NotKept(Exception):  # noqa: N818 - a verdict in words for a person
    """There is no such revision to go back to; the text lists those that are kept."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """Which content is served, instead of which. Digests are of contents; ``at`` is of the wall clock."""

    revision: str
    digest: str
    instead_of: str
    source_digest: str
    passed: tuple[str, ...]  # every content that was rolled back from since the source was last served
    at: float
    had: frozenset[str] | None = None  # what was in force before; None: nobody knows


class Rolling:
    """The rollback of one configuration, or none. One writer: whoever holds the lock."""

    def __init__(self, state: Path, admitted: Admitted, now: Callable[[], float]) -> None:
        """``now`` is the wall clock. Nothing is read before ``load``."""
        self.current: Rollback | None = None
        self._path = state / _FILE
        self._admitted = admitted
        self._now = now
        self._tree: Tree | None = None  # what is served instead
        self._compared: tuple[Tree | None, bool] = (
            None,
            False,
        )  # a tree of the source, and whether it stands

    def load(self) -> None:
        """Go on with the rollback that an earlier controller left. Raises OSError where the journal cannot be
        read.
        """
        try:
            told = orjson.loads(self._path.read_bytes())
            current = Rollback(
                str(told["revision"]),
                str(told["digest"]),
                str(told["insteadOf"]),
                str(told["sourceDigest"]),
                tuple(map(str, told["passed"])),
                float(told["at"]),
                frozenset(map(str, told["had"])) if told.get("had") is not None else None,
            )
        except FileNotFoundError:
            return
        except (OSError, ValueError, LookupError, TypeError):
            _LOG.warning("%s cannot be read: the source is served", self._path)
            return
        past = self._admitted.past(current.digest)
        if past is None:
            _LOG.warning("revision %s is not kept any more: the source is served", current.revision)
            return
        self.current, self._tree = current, past.tree()

    def instead_of(self, tree: Tree) -> Tree:
        """What is to be served where the source reads like this: the tree itself without a rollback, or once
        the source moved on.
        """
        if self.current is None or self._tree is None:
            return tree
        if self._compared[0] is not tree:
            self._compared = (tree, history.tree_digest(tree) == self.current.source_digest)
        return self._tree if self._compared[1] else tree

    def target(self, wanted: str) -> history.Past:
        """The revision that ``wanted`` names; "": the one before what is served. Raises ``NotKept``."""
        return _named(self._admitted, wanted, self.current)

    def brought_back(self, in_force: Collection[ObjectRef]) -> Set[ObjectRef]:
        """What of this was not in force before the rollback, and is by it alone."""
        had = self.current.had if self.current else None
        return frozenset() if had is None else {ref for ref in in_force if str(ref) not in had}

    def begin(
        self, past: history.Past, source: Tree | None, in_force: Collection[ObjectRef] = frozenset()
    ) -> Tree:
        """Serve an earlier revision instead of the source as it reads now (None: nobody can read it, so what
        it held last counts); the tree to serve. ``in_force`` is what was so far. Durable when this returns;
        raises OSError, and ``NotKept`` where that is what the source holds.
        """
        instead_of, stands = self._held(source)
        if source is not None and stands == past.entry.digest:
            raise NotKept(f"{past.entry.revision} is what the source holds: 'handler apply' serves that")
        served = self._admitted.history[0].digest
        passed = (served, stands, *(self.current.passed if self.current else ()))
        left = tuple(dict.fromkeys(one for one in passed if one != past.entry.digest))[:_PASSED]
        had = self.current.had if self.current else frozenset(map(str, in_force))
        current = Rollback(
            past.entry.revision, past.entry.digest, instead_of, stands, left, round(self._now(), 3), had
        )
        told = {
            "revision": current.revision,
            "digest": current.digest,
            "insteadOf": current.instead_of,
            "sourceDigest": current.source_digest,
            "passed": list(current.passed),
            "at": current.at,
            "had": None if had is None else sorted(had),
        }
        atomic.write(self._path, orjson.dumps(told, option=orjson.OPT_APPEND_NEWLINE))
        self.current, self._tree, self._compared = current, past.tree(), (source, source is not None)
        return self._tree

    def _held(self, source: Tree | None) -> tuple[str, str]:
        """What the source holds, or held when it could be read last: its revision, and the digest of it."""
        if source is not None:
            return source.revision, history.tree_digest(source)
        if self.current is not None:
            return self.current.instead_of, self.current.source_digest
        newest = self._admitted.history[0]
        return newest.revision, newest.digest

    def end(self) -> None:
        """The source is served again. Raises OSError where that cannot be written down: a restart would roll
        back again.
        """
        if self.current is None:
            return
        atomic.remove(self._path)
        self.current, self._tree, self._compared = None, None, (None, False)

    def condition(self, attempted: str) -> Condition | None:
        """What is said of the source while a rollback is in force; ``attempted`` is where the source is."""
        if self.current is None:
            return None
        text = f"{words(self.current)} (handler rollback), until the source changes or 'handler apply'"
        if attempted != self.current.instead_of:
            text += f"; the source is at {attempted} by now"
        return Condition("Synced", "False", "RolledBack", text)

    def beside(self, detail: str) -> str:
        """What keeps the source from being read, and that it would not be served either."""
        one = self.current
        return f"{detail}; {one.revision} is served meanwhile (handler rollback)" if one else detail

    def as_json(self) -> Mapping[str, Any] | None:
        """The rollback as the summary tells it."""
        if self.current is None:
            return None
        one = self.current
        return {
            "revision": one.revision,
            "digest": f"sha256:{one.digest}",
            "insteadOf": one.instead_of,
            "insteadOfDigest": f"sha256:{one.source_digest}",
            "at": iso(one.at),
        }


def words(one: Rollback) -> str:
    """What is served instead of what, with the contents where the revisions read the same."""
    to, instead = one.revision, one.instead_of
    if revisions.look_alike(to, instead):
        to, instead = f"{to} (content {one.digest[:12]})", f"{instead} (content {one.source_digest[:12]})"
    return f"{to} is served instead of {instead}"


def event(before: Rollback | None, after: Rollback | None, revision: str) -> tuple[str, str, str] | None:
    """The severity, reason and words of the event when a rollback began or ended; None when neither did."""
    if after is not None and after is not before:
        return "Warning", "RolledBack", words(after)
    if before is not None and after is None:
        which = f" (content {before.digest[:12]})" if revisions.look_alike(before.revision, revision) else ""
        ended = f"the rollback to {before.revision}{which} ended: {revision} is served"
        return "Normal", "ReconcileSuccess", ended
    return None


def _named(admitted: Admitted, wanted: str, current: Rollback | None) -> history.Past:
    entries = admitted.history
    if wanted:
        found = [entry for entry in entries if _is_meant(entry, wanted)]
        exact = [entry for entry in found if wanted == entry.revision]
        found = exact or [entry for entry in found if wanted in entry.names][:1] or found
    else:
        passed = current.passed if current else ()
        found = [entry for entry in entries[1:] if entry.digest not in passed][:1]
    if len(found) != 1:
        raise NotKept(_why_not(entries, wanted, len(found)))
    past = admitted.past(found[0].digest)
    if past is None:
        raise NotKept(_why_not(entries, wanted, 0))
    return past


def _is_meant(entry: history.Entry, wanted: str) -> bool:
    """Whether a person's word names an entry: a whole revision, the beginning of a commit or of a content."""
    if any(revisions.is_meant(name, wanted) for name in entry.names):
        return True
    word = wanted.removeprefix("sha256:")
    return "@" not in word and len(word) >= _SHORTEST and entry.digest.startswith(word)


def _why_not(entries: Sequence[history.Entry], wanted: str, count: int) -> str:
    named = [f"{revisions.shortened(one.revision)} (content {one.digest[:12]})" for one in entries[:_FEW]]
    more = f" and {len(entries) - _FEW} more ('handler history')" if len(entries) > _FEW else ""
    kept = ", ".join(named) + more
    if count:
        return f"{quoted(wanted)} may be {count} revisions: name one by its content; kept are: {kept}"
    if not entries:
        return "nothing was ever admitted here: there is no revision to go back to"
    what = f"{quoted(wanted)} is not kept" if wanted else "there is no earlier revision to go back to"
    return f"{what}; kept are: {kept}"
