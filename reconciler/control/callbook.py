"""What is kept of calls: one file a session, one line a call, and never a payload.

``calls/SESSION.jsonl`` below the state folder. Records wait for others, a second at most while calls go on,
and each session's are written together. A session keeps its newest calls (two files of 8 MiB), and the folder
the sessions that were used last: so many files and bytes, and no more. On a full disk records wait in memory;
those that find no room there are counted, and the count is written when there is room again.
"""

import os
import re
import threading
from collections import Counter, OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from reconciler.control.appended import Appended
from reconciler.control.status import iso
from reconciler.model.calls import CallRecord

_SESSION_BYTES = 8 * 2**20  # about 25,000 calls in each of two files
_KEPT_BYTES = 256 * 2**20
_KEPT_FILES = 4096  # a script that calls without a session of its own makes one a call
_PRUNE_FILES = 128  # new files before the oldest go…
_PRUNE_BYTES = 16 * 2**20  # …or bytes
_BATCH = 256  # calls that are written at once
_BATCH_S = 1.0  # a record waits this long at most while calls go on
_WAITING = 8192  # calls that may wait while the disk is full: about 4 MB
_KNOWN = 1024  # files of which the size is remembered
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")  # every session's, and no path


class CallBook:
    """The records of one controller's calls. Safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        """Nothing is touched before there is something to write."""
        self._folder = folder
        self._waiting: list[CallRecord] = []
        self._dropped: Counter[str] = Counter()
        self._since = 0.0  # when the first that waits came
        self._files: OrderedDict[str, Appended] = OrderedDict()
        self._new_files, self._new_bytes = (
            _PRUNE_FILES,
            0,
        )  # what an earlier controller left is looked at, too
        self._turn, self._pen = threading.Lock(), threading.Lock()  # of what waits, and of the files

    def take(self, record: CallRecord) -> bool:
        """Keep one call's record until it is written; True when it is time to ``write``. Microseconds."""
        with self._turn:
            if len(self._waiting) >= _WAITING:
                self._dropped[_name(record)] += 1
                return False
            if not self._waiting:
                self._since = record.at
            self._waiting.append(record)
            due = len(self._waiting) % _BATCH == 0 or not 0 <= record.at - self._since < _BATCH_S
            if due:
                self._since = record.at
            return due

    def write(self) -> bool:
        """Write what waits; False when nothing did. OSError when not all of it can be written: the rest waits
        on.
        """
        with self._pen:
            with self._turn:
                taken, self._waiting = self._waiting, []
                dropped, self._dropped = self._dropped, Counter()
            lines: dict[str, list[bytes]] = {}
            for record in taken:
                line = orjson.dumps(_as_json(record), option=orjson.OPT_APPEND_NEWLINE)
                lines.setdefault(_name(record), []).append(line)
            for name, count in dropped.items():
                counted = orjson.dumps({"dropped": count}, option=orjson.OPT_APPEND_NEWLINE)
                lines.setdefault(name, []).append(counted)
            try:
                for name in list(lines):
                    self._append(name, b"".join(lines[name]))
                    del lines[name]
                    dropped.pop(name, None)
            except OSError:
                with self._turn:
                    self._waiting[:0] = [one for one in taken if _name(one) in lines]
                    self._dropped += dropped
                raise
            self._prune()
            return bool(taken or dropped)

    def _append(self, name: str, data: bytes) -> None:
        file = self._files.get(name)
        if file is None:
            path = self._folder / f"{name}.jsonl"
            file = self._files[name] = Appended(path, self._folder / f"{name}.1.jsonl", _SESSION_BYTES)
            self._new_files += 1
            if len(self._files) > _KNOWN:
                self._files.popitem(last=False)
        self._files.move_to_end(name)
        file.append(data)
        self._new_bytes += len(data)

    def _prune(self) -> None:
        """Remove the files that were written to longest ago, where there are too many."""
        if self._new_files < _PRUNE_FILES and self._new_bytes < _PRUNE_BYTES:
            return
        self._new_files = self._new_bytes = 0
        with suppress(OSError):
            found = [
                (one.stat(), one.path) for one in os.scandir(self._folder) if one.name.endswith(".jsonl")
            ]
            found.sort(key=lambda one: one[0].st_mtime_ns, reverse=True)
            kept = 0
            for number, (seen, path) in enumerate(found):
                kept += seen.st_size
                if number >= _KEPT_FILES or (kept > _KEPT_BYTES and number > 0):
                    Path(path).unlink(missing_ok=True)


def _name(record: CallRecord) -> str:
    return record.session if _NAME.fullmatch(record.session) else "others"


def _as_json(record: CallRecord) -> dict[str, Any]:
    more = {"attempt": record.attempt} if record.attempt else {}
    return {
        "at": iso(record.at),
        "call": record.call,
        "session": record.session,
        "agent": record.agent,
        "interface": record.interface,
        "tool": record.tool,
        "binding": record.binding,
        "instance": record.instance,
        "code": record.code,
        "ms": round(record.ms, 3),
        "inBytes": record.in_bytes,
        "outBytes": record.out_bytes,
        "files": [{"property": name, "sizeBytes": size, "sha256": sha} for name, size, sha in record.files],
        "diagnostic": record.diagnostic,
        **more,
    }
