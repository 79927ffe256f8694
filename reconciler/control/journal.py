"""The journal: what the controller did, and one record of each call; appended, bounded, never in the way.

``events.jsonl`` holds one line an event; the same words about the same object again are counted, not
repeated: a line says how often they were heard so far (``count``) and when last, and comes at most every half
minute.
``calls/DAY.jsonl`` holds one line a call, written in batches. Old files go: two of 8 MiB for events, two
weeks or 256 MiB for calls. A line is written whole or, on a full disk, not at all; what is lost is counted
and said. No record holds a payload.
"""

import logging
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from reconciler.control.status import iso
from reconciler.model.calls import CallRecord
from reconciler.model.status import InstanceSeen

_LOG = logging.getLogger("handler.journal")
_EVENTS = "events.jsonl"
_EVENTS_BYTES = 8 * 2**20
_CALLS_BYTES = 64 * 2**20  # one file; a busier day has several
_KEPT_BYTES = 256 * 2**20
_KEPT_FILES = 14
_BATCH = 256  # calls that are written at once
_WAITING = 8192  # calls that may wait while the disk is full: about 4 MB
_REPEAT_S = 30.0
_FORGET_S = 3600.0  # words not heard for an hour are news again
_REMEMBERED = 4096  # different events whose repeats are counted
_BATCH_S = 1.0  # a record waits this long at most while calls go on
_DAY = 10  # characters of an ISO date
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


@dataclass(slots=True)
class _Appended:
    """A file that lines are appended to, by one write each batch."""

    path: Path
    limit_bytes: int
    size_bytes: int | None = field(default=None)

    def append(self, lines: bytes) -> None:
        """Append whole lines; a full file is moved aside first. OSError leaves no half line behind."""
        if self.size_bytes is None:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.size_bytes = _mended(self.path)
        if self.size_bytes and self.size_bytes + len(lines) > self.limit_bytes:
            self.path.replace(_aside(self.path))
            self.size_bytes = 0
        fd = self._opened()
        try:
            if os.write(fd, lines) != len(lines):
                os.ftruncate(fd, self.size_bytes)
                raise OSError(28, "No space left on device")
        finally:
            os.close(fd)
        self.size_bytes += len(lines)

    def _opened(self) -> int:
        """The file, made when it is missing: somebody may have removed it with its folder."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(self.path, flags, 0o600)
        except FileNotFoundError:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.size_bytes = 0
            return os.open(self.path, flags, 0o600)


class Journal:
    """Appends events and calls below one state folder. Safe to use from several threads."""

    def __init__(self, state: Path, now: Callable[[], float]) -> None:
        """``now`` is the wall clock in seconds. Nothing is touched before there is something to write."""
        self.fault = ""  # why nothing can be written, or ""
        self._now = now
        self._events = _Appended(state / _EVENTS, _EVENTS_BYTES)
        self._calls_folder = state / "calls"
        self._calls: _Appended | None = None
        self._waiting: list[bytes] = []
        self._day = ""
        self._since = 0.0  # when the first that waits came
        self._dropped = 0
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
            if not heard.written or now - heard.written_at >= _REPEAT_S:
                self._trying(lambda: self._write_event(heard, now))

    def instance(self, seen: InstanceSeen) -> None:
        """Say what became of an instance."""
        binding = seen.name.rpartition("@")[0]
        reason, words = _became(seen)
        severity = "Warning" if seen.phase == "failed" else "Normal"
        facts = {"pid": seen.pid, "restarts": seen.restarts, "lastExit": seen.last_exit}
        self.event(f"binding/{binding}", severity, reason, words, metadata={"instance": seen.name, **facts})

    def call(self, record: CallRecord) -> None:
        """Take one call's record; it is written with the next batch, or by ``flush``. Costs microseconds."""
        line = orjson.dumps(_call(record), option=orjson.OPT_APPEND_NEWLINE)
        with self._turn:
            day = iso(record.at)[:_DAY]
            if day != self._day and self._waiting:
                self._trying(self._write_calls)
            self._day = day
            if len(self._waiting) >= _WAITING:
                self._dropped += 1
                return
            if not self._waiting:
                self._since = record.at
            self._waiting.append(line)
            if len(self._waiting) % _BATCH == 0 or not 0 <= record.at - self._since < _BATCH_S:
                self._since = record.at
                self._trying(self._write_calls)

    def flush(self) -> None:
        """Write what waits: calls, and the counts of what was heard again. Once a second is often enough."""
        with self._turn:
            if self._waiting:
                self._trying(self._write_calls)
            self._write_repeats(self._now(), _REPEAT_S)

    def close(self) -> None:
        """Write all that waits, at the end."""
        with self._turn:
            if self._waiting:
                self._trying(self._write_calls)
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
        path = self._calls_folder / f"{self._day}.jsonl"
        if self._calls is None or self._calls.path != path:
            self._calls = _Appended(path, _CALLS_BYTES)
            _prune(self._calls_folder)
        lines = list(self._waiting)
        if self._dropped:
            lines.append(orjson.dumps({"dropped": self._dropped}, option=orjson.OPT_APPEND_NEWLINE))
        before = self._calls.size_bytes
        self._calls.append(b"".join(lines))
        if before is not None and (self._calls.size_bytes or 0) < before:
            _prune(self._calls_folder)
        self._waiting.clear()
        self._dropped = 0

    def _trying(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            fault = f"the journal cannot be written: {error.strerror or error}"
            if fault != self.fault:
                _LOG.warning("%s", fault)
            self.fault = fault
            return
        if self.fault:
            _LOG.warning("the journal is written again")
            self.fault = ""


def _call(record: CallRecord) -> dict[str, Any]:
    fields = asdict(record)
    files = [{"property": name, "sizeBytes": size, "sha256": digest} for name, size, digest in record.files]
    return {
        "at": iso(record.at),
        **{
            key: fields[key]
            for key in ("call", "session", "agent", "interface", "tool", "binding", "instance", "code")
        },
        "ms": round(record.ms, 3),
        "inBytes": record.in_bytes,
        "outBytes": record.out_bytes,
        "files": files,
        "diagnostic": record.diagnostic,
    }


def _mended(path: Path) -> int:
    """The size of a file that ends with a whole line: a line that a killed writer left half is cut off."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return 0
    try:
        size = os.fstat(fd).st_size
        tail = os.pread(fd, 65536, max(0, size - 65536))
        if tail and not tail.endswith(b"\n"):
            size -= len(tail) - (tail.rfind(b"\n") + 1)
            os.ftruncate(fd, size)
        return size
    finally:
        os.close(fd)


def _aside(path: Path) -> Path:
    """Where a full file goes: events have one predecessor, a day's calls as many as there are."""
    if path.name == _EVENTS:
        return path.with_name(f"{path.name}.1")
    taken = [one.stem.rpartition(".")[2] for one in path.parent.glob(f"{path.stem}.*{path.suffix}")]
    number = 1 + max((int(word) for word in taken if word.isdigit()), default=0)
    return path.with_name(f"{path.stem}.{number:05}{path.suffix}")


def _prune(folder: Path) -> None:
    """Remove the oldest calls beyond what is kept; names sort by day."""
    kept = 0
    for number, path in enumerate(sorted(folder.glob("*.jsonl"), key=_age, reverse=True)):
        kept += path.stat().st_size
        if number >= _KEPT_FILES or (kept > _KEPT_BYTES and number > 0):
            path.unlink(missing_ok=True)


def _age(path: Path) -> tuple[str, str]:
    """Newest last: by day; in a day the file without a number, which is written now, after the others."""
    day, _, number = path.stem.partition(".")
    return day, number or "~"
