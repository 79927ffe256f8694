"""The journal: what the controller did, and one record of each call; appended, bounded, never in the way.

``events.jsonl`` holds one line an event; the same words about the same object again are counted, not
repeated: a line says how often they were heard so far (``count``) and when last, and comes at most every half
minute.
A full file goes aside, in the place of the one before it: two of 8 MiB. Of calls ``callbook`` keeps one line
each; ``egress.jsonl`` has one line for each connection that left a sandbox or was refused to. A line is
written whole or, on a full disk, not at all; what is lost is counted and said. No record holds a payload.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from reconciler.control.appended import Appended
from reconciler.control.callbook import CallBook
from reconciler.control.status import iso
from reconciler.model.calls import CallRecord
from reconciler.model.status import InstanceSeen

_LOG = logging.getLogger("handler.journal")
_EVENTS = "events.jsonl"
_EGRESS = "egress.jsonl"
_EGRESS_A_SECOND = 50  # a program that tries again and again has made itself clear
_EVENTS_BYTES = 8 * 2**20
_REPEAT_S = 30.0
_AT_ONCE = 2  # that it happened again is news, too
_FORGET_S = 3600.0  # words not heard for an hour are news again
_REMEMBERED = 4096  # different events whose repeats are counted
_REASONS = {"ready": "Running", "idle": "Idle", "draining": "Draining", "failed": "ReconcileError"}


def _became(seen: InstanceSeen) -> tuple[str, str]:
    """The reason and the words of an event about an instance."""
    if seen.phase == "declared" and seen.last_exit:
        return "Idle", f"{seen.name} was stopped: the next call starts it"
    if seen.phase == "declared":
        return "Idle", f"{seen.name} can be started: its first call does"
    reason = seen.reason or _REASONS.get(seen.phase, "Starting")
    if seen.vanished and seen.reason is None:
        reason = "ProcessVanished"
    if seen.pid is not None and seen.reason is not None and seen.message:
        return reason, f"{seen.name}: {seen.message}"
    return reason, f"{seen.name} is {seen.phase}" + (f" ({seen.message})" if seen.message else "")


@dataclass(slots=True)
class _Heard:
    """One thing that is said again and again."""

    first: str
    line: dict[str, Any]
    count: int = 1
    written: int = 0
    written_at: float = 0.0
    last_at: float = 0.0


class Journal:
    """Appends events and calls below one state folder. Safe to use from several threads."""

    def __init__(self, state: Path, now: Callable[[], float]) -> None:
        """``now`` is the wall clock in seconds. Nothing is touched before there is something to write."""
        self.left: Callable[[Mapping[str, Any]], None] = lambda attempt: None  # hears of each, written or not
        self.fault = ""  # why nothing can be written, or ""
        self._now = now
        self._events = Appended(state / _EVENTS, state / f"{_EVENTS}.1", _EVENTS_BYTES)
        self._calls = CallBook(state / "calls")
        self._egress = Appended(state / _EGRESS, state / f"{_EGRESS}.1", _EVENTS_BYTES)
        self._attempts: dict[str, tuple[int, int]] = {}  # by object: the last second, and how many in it
        self._heard: dict[tuple[str, str, str], _Heard] = {}
        self._turn = threading.Lock()

    def event(
        self,
        about: str,
        severity: str,
        reason: str,
        message: str,
        *,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Say what happened to an object (``binding/x``); ``severity`` is Normal or Warning. Heard before:
        count.
        """
        with self._turn:
            now = self._now()
            key = (about, reason, message)
            heard = self._heard.pop(key, None)  # and back in at the end: the first is the one longest unheard
            if heard is None or now - heard.last_at > _FORGET_S:
                line = {"object": about, "severity": severity, "reason": reason, "message": message}
                heard = _Heard(iso(now), {**line, "metadata": dict(metadata or {})})
            else:
                heard.count += 1
            self._heard[key] = heard
            if len(self._heard) > _REMEMBERED:
                del self._heard[next(iter(self._heard))]
            heard.last_at = now
            if heard.count <= _AT_ONCE or now - heard.written_at >= _REPEAT_S:
                self._trying(lambda: self._write_event(heard, now))

    def egress(self, attempt: Mapping[str, Any]) -> None:
        """Say what became of an attempt to leave a sandbox; beyond so many a second of one object they are
        only counted.
        """
        self.left(attempt)
        with self._turn:
            now = self._now()
            about = str(attempt.get("object", ""))
            second, tried = self._attempts.pop(about, (0, 0))
            if int(now) != second:
                dropped, second, tried = max(0, tried - _EGRESS_A_SECOND), int(now), 0
                dropped += int(attempt.get("droppedBefore", 0))
                attempt = {**attempt, "droppedBefore": dropped} if dropped else attempt
            self._attempts[about] = (second, tried + 1)
            if len(self._attempts) > _REMEMBERED:
                del self._attempts[next(iter(self._attempts))]
            if tried < _EGRESS_A_SECOND:
                line = orjson.dumps({"at": iso(now), **attempt}, option=orjson.OPT_APPEND_NEWLINE)
                self._trying(lambda: self._egress.append(line))

    def instance(self, seen: InstanceSeen) -> None:
        """Say what became of an instance."""
        binding = seen.name.rpartition("@")[0]
        reason, words = _became(seen)
        severity = "Warning" if seen.phase == "failed" else "Normal"
        facts = {"pid": seen.pid, "restarts": seen.restarts, "lastExit": seen.last_exit}
        self.event(f"binding/{binding}", severity, reason, words, metadata={"instance": seen.name, **facts})

    def call(self, record: CallRecord) -> None:
        """Take one call's record; it is written with the next batch, or by ``flush``. Costs microseconds."""
        if self._calls.take(record):
            self._write_calls()

    def flush(self) -> None:
        """Write what waits: calls, and the counts of what was heard again. Once a second is often enough."""
        self._write_calls()
        with self._turn:
            self._write_repeats(self._now(), _REPEAT_S)

    def close(self) -> None:
        """Write all that waits, at the end."""
        self._write_calls()
        with self._turn:
            self._write_repeats(self._now(), 0.0)

    def _write_repeats(self, now: float, after_s: float) -> None:
        for key, heard in list(self._heard.items()):
            if heard.count > heard.written and now - heard.written_at >= after_s:
                self._trying(lambda one=heard: self._write_event(one, now))  # type: ignore[misc]
            elif now - heard.last_at > _FORGET_S:
                del self._heard[key]

    def _write_event(self, heard: _Heard, now: float) -> None:
        line = {
            "timestamp": iso(heard.last_at),
            "firstTimestamp": heard.first,
            **heard.line,
            "count": heard.count,
        }
        self._events.append(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        heard.written, heard.written_at = heard.count, now

    def _write_calls(self) -> None:
        self._trying(self._calls.write)

    def _trying(self, write: Callable[[], object]) -> None:
        try:
            if write() is False:
                return  # nothing was to be written: nobody knows whether it could be
        except OSError as error:
            fault = f"the journal cannot be written: {error.strerror or error}"
            if fault != self.fault:
                _LOG.warning("%s", fault)
            self.fault = fault
            return
        if self.fault:
            _LOG.warning("the journal is written again")
            self.fault = ""
