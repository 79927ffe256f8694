"""The status folder: one file an object, and the summary; what people and scripts read when nobody can be
asked.

A file is written whole or not at all, and only when what it says changed, so its age says when that was.
The summary waits for the disk. An object's file does not: whatever a power cut leaves of it, the next
controller writes it anew, since it takes none for told that it did not write itself.
Since when a condition holds is settled here and survives a restart, because the files are read back. What
cannot be written (a full disk, a folder made read-only) is one line in the log, ``fault``, and another try
at the next publishing: serving goes on.
"""

import hashlib
import logging
import re
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson

from reconciler.attempts.holdings import Tally
from reconciler.control import atomic, outcomes
from reconciler.control.seals import Seals
from reconciler.control.summary_md import Page
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.observations import Seen
from reconciler.model.status import Condition, ObjectStatus, Summary, settle

_LOG = logging.getLogger("handler.status")
_VERSION = "handler.status/v1"
_SUMMARY = "summary.json"
_PAGE = "summary.md"
_PLAIN = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._@-]{0,99}")  # a name that is a file name everywhere

_RANKS = ("False", "Unknown", "True")

Key = tuple[str, str]
SUMMARY: Key = ("summary", "")  # among the keys of altered files


@dataclass(frozen=True, slots=True)
class _Told:
    """What was last written of one object, and its row in the summary."""

    status: ObjectStatus
    conditions: tuple[Condition, ...]
    row: orjson.Fragment
    attempts: tuple[outcomes.Attempt, ...] = ()  # the newest first
    handled: str = ""  # when a person last asked for it by name and was answered


@dataclass(frozen=True, slots=True)
class Drawn:
    """A summary that may be written: its conditions, the document but for its instant, and the page."""

    conditions: tuple[Condition, ...]
    said: bytes
    page: str


class Board:
    """Writes the status of one configuration. Safe to use from several threads."""

    def __init__(self, folder: Path, now: Callable[[], float]) -> None:
        """``now`` is the wall clock in seconds; the folder is made, 0700, when something is published."""
        self.fault = ""  # why nothing can be written, or ""
        self.jobs: Callable[[], Mapping[ObjectRef, Tally]] = dict  # attempts of bindings that are not over
        self.truths: Callable[[], Mapping[ObjectRef, Seen]] = dict  # what was observed of bindings
        self.stirred: Callable[[], None] = lambda: None  # hears of it when those are others
        self._folder = folder
        self._now = now
        self._wanted: dict[Key, ObjectStatus] = {}  # what the folder is to hold
        self._told: dict[Key, _Told] = {}  # what it holds
        self._pending: set[Key] = set()  # where the two may differ
        self._order: list[Key] = []  # the keys of what is told, sorted
        self._rows: list[orjson.Fragment] = []  # … and what the summary says of each
        self._conditions: tuple[Condition, ...] | None = (
            None  # the summary's; None before they were read back
        )
        self._said = b""  # the summary last written, but for its instant
        self._page = Page()
        self._page_said = ""  # the page last written, but for its instant
        self._seals = Seals(self._path)
        self._swept = False
        self._began: float | None = None  # when the last look began, of which this tells; None: now
        self._turn = threading.Lock()
        self._summing = (
            threading.Lock()
        )  # taken before the turn: a summary waits for the disk, no object does

    def stir(self) -> None:
        """Something beside the facts is to be said anew: tell who says it."""
        self.stirred()

    def look_began(self, at: float) -> None:
        """What is told from now on came of a look that began then (wall clock): how long attempts took."""
        self._began = at

    def handled(self, key: Key) -> None:
        """A person asked for this object by name and was answered: its file says when."""
        with self._turn:
            told = self._told.get(key)
            if told is not None and key in self._wanted:
                self._told[key] = told = replace(told, handled=iso(self._now()))
                document = _document(told)
                if self._trying(lambda: int(atomic.write(self._path(key), document))):
                    self._seals.wrote(key, len(document))

    def publish(self, objects: Iterable[ObjectStatus]) -> int:
        """Make the folder hold these objects and no other; how many files were written or removed.

        What is not ready is written first. Never raises for a folder that cannot be written.
        """
        with self._turn:
            before, self._wanted = self._wanted, {(status.kind, status.name): status for status in objects}
            self._pending |= before.keys() - self._wanted.keys()
            self._pending |= {key for key, one in self._wanted.items() if before.get(key) != one}
            return self._trying(self._write)

    def update(self, changed: Iterable[ObjectStatus], gone: Iterable[Key]) -> int:
        """Make the folder hold these objects in place of what it holds of them, and hold no ``gone`` one; how
        many files were written or removed. For the rest as ``publish``, which comes first.
        """
        with self._turn:
            for status in changed:
                key = (status.kind, status.name)
                if self._wanted.get(key) != status:
                    self._wanted[key] = status
                    self._pending.add(key)
            for key in gone:
                if self._wanted.pop(key, None) is not None:
                    self._pending.add(key)
            return self._trying(self._write)

    def summary(self, summary: Summary) -> bool:
        """Write ``summary.json`` over the objects last published; False when it said the same already."""
        return self.sum_up(self.drawn(summary))

    def drawn(self, summary: Summary) -> Drawn:
        """The summary over the objects last published, not written yet."""
        if self._conditions is None:
            self._conditions = _conditions_of(_json(self._folder / _SUMMARY))
        conditions = self._since(self._conditions, summary.conditions, "")
        with self._turn:
            said = orjson.dumps(_summary(summary, conditions, self._order, self._rows))
            page = self._page.text(summary, conditions, Counter(map(itemgetter(0), self._order)))
        return Drawn(conditions, said, page)

    def sum_up(self, drawn: Drawn) -> bool:
        """Write a summary, one at a time and in the order in which they were drawn; False when it said the
        same already. No object waits for the disk meanwhile.
        """
        with self._summing:
            return self._trying(lambda: self._write_summary(drawn)) > 0

    def altered(self) -> tuple[Key, ...]:
        """The files that somebody else changed or removed, by kind and name."""
        with self._summing, self._turn:
            return tuple(filter(self._is_altered, self._seals.odd()))

    def _is_altered(self, key: Key) -> bool:
        """Compare the bytes of a file that looks otherwise: one that was only touched is as it was."""
        look = self._seals.look(key)
        try:
            found = self._path(key).read_bytes()
        except OSError:
            return True
        told = self._told.get(key)
        if key == SUMMARY:
            same = found.startswith(self._said[:-1]) and found.endswith(b"}\n")
        else:
            same = told is not None and found == _document(told)
        if same:
            self._seals.note(key, look)
        return not same

    def rewrite(self, keys: Iterable[Key]) -> None:
        """Write these files anew, the summary the next time that it is said."""
        with self._summing, self._turn:
            for key in keys:
                if key == SUMMARY:
                    self._said = b""
                elif key in self._wanted and (told := self._told.get(key)) is not None:
                    self._told[key] = replace(told, status=replace(told.status, digest="?"))
                    self._pending.add(key)
            self._trying(self._write)

    def counts(self) -> dict[tuple[str, ...], float]:
        """How many objects there are, by kind and by whether they are ready."""
        with self._turn:
            told = list(self._wanted.values())
        return dict(Counter((one.kind, _truth(one.conditions, "Ready").status) for one in told))

    def _trying(self, write: Callable[[], int]) -> int:
        try:
            count = write()
        except OSError as error:
            fault = f"status cannot be written to {self._folder}: {error.strerror or error}"
            if fault != self.fault:
                _LOG.warning("%s", fault)
            self.fault = fault
            return 0
        if self.fault:
            _LOG.warning("status is written again to %s", self._folder)
            self.fault = ""
        return count

    def _write(self) -> int:
        if not self._swept:
            self._sweep()
            self._pending |= self._told.keys() - self._wanted.keys()
        count = 0
        for key in sorted(self._pending, key=self._rank):
            status = self._wanted.get(key)
            count += self._put(key, status) if status else self._remove(key)
            self._pending.discard(key)
        return count

    def _rank(self, key: Key) -> tuple[int, Key]:
        """What is not ready comes first, then what may be; the same order for the same objects."""
        status = self._wanted.get(key)
        ready = _truth(status.conditions, "Ready").status if status else "True"
        return _RANKS.index(ready), key

    def _put(self, key: Key, status: ObjectStatus) -> bool:
        """Write an object's file; False when it said the same."""
        before = self._told.get(key)
        if before is not None and before.status == status:
            return False
        path = self._path(key)
        told = self._settled(status, before or _read(path))
        document = _document(told)
        try:
            written = atomic.write(path, document, durable=False)
        except FileNotFoundError:  # the first of its folder
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            written = atomic.write(path, document, durable=False)
        self._note(key, told)
        self._seals.wrote(key, len(document))
        return written

    def _note(self, key: Key, told: _Told) -> None:
        place = bisect_left(self._order, key)
        if key in self._told:
            self._rows[place] = told.row
        else:
            self._order.insert(place, key)
            self._rows.insert(place, told.row)
        self._told[key] = told
        self._page.note(told.status, told.conditions)

    def _settled(self, status: ObjectStatus, before: _Told | None) -> _Told:
        """The status with the instants at which its conditions came to hold."""
        was = before.conditions if before else ()
        conditions = self._since(was, status.conditions, status.digest)
        now = self._now()
        tried = outcomes.attempted(
            before.attempts if before else (), status, now, now if self._began is None else self._began
        )
        row = orjson.Fragment(orjson.dumps(_row(status)))
        return _Told(status, conditions, row, tried, before.handled if before else "")

    def _since(
        self, was: tuple[Condition, ...], now: tuple[Condition, ...], generation: str
    ) -> tuple[Condition, ...]:
        instant = iso(self._now())
        for condition in now:
            new = replace(condition, since=instant, generation=condition.generation or generation)
            was = settle(was, new)
        types = {condition.type for condition in now}
        return tuple(condition for condition in was if condition.type in types)

    def _remove(self, key: Key) -> bool:
        """Remove an object's file; False when nothing was told of it."""
        if key not in self._told:
            return False
        path = self._path(key)
        path.unlink(missing_ok=True)
        self._seals.drop(key)
        self._page.forget(key)
        del self._told[key]
        place = bisect_left(self._order, key)
        del self._order[place], self._rows[place]
        if path.parent != self._folder / key[0] and not any(path.parent.iterdir()):
            path.parent.rmdir()  # the last version of an interface
        return True

    def _path(self, key: Key) -> Path:
        if key == SUMMARY:
            return self._folder / _SUMMARY
        kind, name = key
        parts = [part if _PLAIN.fullmatch(part) else _short(part) for part in name.split("/")]
        return self._folder.joinpath(kind, *parts[:-1], f"{parts[-1]}.json")

    def _sweep(self) -> None:
        """Take over what an earlier controller left: its objects are known, its half-written files go."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        atomic.sweep(self._folder)
        for kind in Kind:
            home = self._folder / kind.value
            for folder in (home, *(path for path in home.glob("*") if path.is_dir())):
                atomic.sweep(folder)
            for path in home.rglob("*.json"):
                told = _read(path)
                if told is not None and self._path((told.status.kind, told.status.name)) == path:
                    self._note((told.status.kind, told.status.name), told)
                else:
                    path.unlink(missing_ok=True)
        self._swept = True

    def _write_summary(self, drawn: Drawn) -> int:
        if drawn.said == self._said:
            return 0
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        instant = b',"at":' + orjson.dumps(iso(self._now())) + b"}\n"
        document = drawn.said[:-1] + instant
        atomic.write(self._folder / _SUMMARY, document)
        with self._turn:
            self._seals.wrote(SUMMARY, len(document))
        self._write_page(drawn.page)
        self._conditions, self._said = drawn.conditions, drawn.said
        return 1

    def _write_page(self, text: str) -> None:
        """The same for people, when that changed; it can be drawn anew, so no disk is waited for."""
        path = self._folder / _PAGE
        if text != self._page_said or not path.exists():
            atomic.write(path, f"{text}\n*As of {iso(self._now())}.*\n".encode(), durable=False)
            self._page_said = text


def iso(seconds: float) -> str:
    """An instant of the wall clock as status files have it: UTC, milliseconds, ``Z``."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _truth(conditions: Iterable[Condition], kind: str) -> Condition:
    found = (condition for condition in conditions if condition.type == kind)
    return next(found, Condition("Ready", "Unknown", "Starting"))


def _document(told: _Told) -> bytes:
    status = told.status
    document = {
        "apiVersion": _VERSION,
        "kind": status.kind,
        "name": status.name,
        "source": {"file": status.file, "digest": status.digest},
        "generation": status.digest,
        "observedGeneration": status.observed_digest,
        "suspended": status.suspended,
        "declared": status.declared,
        "services": status.services,
        "conditions": [_condition(condition) for condition in told.conditions],
        "problems": status.problems,
        "inventory": status.inventory,
        "usedBy": status.used_by,
        "jobs": status.jobs,
        "observations": status.observations,
        "models": status.models,
        "history": outcomes.as_json(told.attempts, iso),
        "lastHandledRequestAt": told.handled,
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _condition(condition: Condition) -> dict[str, str]:
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "observedGeneration": condition.generation,
        "lastTransitionTime": condition.since,
        "expiresAt": condition.until,
    }


def _row(status: ObjectStatus) -> dict[str, Any]:
    ready, first = _truth(status.conditions, "Ready"), status.problems[0] if status.problems else {}
    return {
        "kind": status.kind,
        "name": status.name,
        "ready": ready.status,
        "reason": ready.reason,
        "message": ready.message,
        "file": first.get("file") or status.file,
        "line": first.get("line") or 0,
        "column": first.get("column") or 0,
        "synced": _truth(status.conditions, "Synced").status,
        "late": _late(status),
        "drifted": _drifted(status),
        "usedBy": status.used_by,
        "indeterminate": (status.jobs or {}).get("indeterminate", 0),
    }


def _late(status: ObjectStatus) -> str:
    """Why an object's newest form is not in force, or ""."""
    admitted, synced = (_truth(status.conditions, type_) for type_ in ("Admitted", "Synced"))
    if synced.status != "False":
        return ""
    return admitted.message if admitted.status == "False" and admitted.message else synced.message


def _drifted(status: ObjectStatus) -> str:
    """What is not as the controller left it, with its reason, or ""."""
    told = _truth(status.conditions, "Drifted")
    return f"{told.reason}: {told.message}" if told.type == "Drifted" and told.status == "True" else ""


def _summary(
    summary: Summary, conditions: tuple[Condition, ...], keys: list[Key], rows: list[orjson.Fragment]
) -> dict[str, Any]:
    """The whole document but for its instant; ``keys`` are sorted, and ``rows`` theirs."""
    return {
        "apiVersion": _VERSION,
        "kind": "summary",
        "configuration": summary.configuration,
        "lastAttemptedRevision": summary.last_attempted,
        "lastAppliedRevision": summary.last_applied,
        "servingRevision": summary.serving,
        "dirty": summary.dirty,
        "generation": summary.generation,
        "controller": summary.controller,
        "conditions": [_condition(condition) for condition in conditions],
        "counts": Counter(map(itemgetter(0), keys)),
        "objects": rows,
        "instances": summary.instances,
        "problems": summary.problems,
        "history": summary.history,
        "rollback": summary.rollback,
        "lastHandledRequestAt": summary.handled,
    }


def _json(path: Path) -> Mapping[str, Any]:
    try:
        found = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _conditions_of(document: Mapping[str, Any]) -> tuple[Condition, ...]:
    try:
        return tuple(
            Condition(
                one["type"],
                one["status"],
                one["reason"],
                one["message"],
                one["lastTransitionTime"],
                one["observedGeneration"],
            )
            for one in document.get("conditions", ())
        )
    except (KeyError, TypeError):
        return ()


def _read(path: Path) -> _Told | None:
    """What a file of an earlier controller says: enough to go on with, never enough to be taken for told."""
    document = _json(path)
    kind, name = document.get("kind"), document.get("name")
    if not isinstance(kind, str) or not isinstance(name, str):
        return None
    status = ObjectStatus(kind, name, "", "", "", suspended=False, conditions=())
    handled = str(document.get("lastHandledRequestAt") or "")
    row = orjson.Fragment(b"{}")
    return _Told(status, _conditions_of(document), row, outcomes.from_json(document), handled)


def _short(part: str) -> str:
    return f"_{hashlib.sha256(part.encode(errors='surrogateescape')).hexdigest()[:16]}"
