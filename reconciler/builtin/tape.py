"""Cassettes: the answers of a real connector written down, and played back where there is none.

A cassette is a file of JSON lines below the configuration's ``cassettes/``: what was asked, by the digest of
tool, arguments and the bytes of files that went in, and what came back, files included. It holds payload. Who
is asked what is not on it answers ``unavailable``; nothing is ever guessed. The last recording of a question
is the one that is played.
"""

import base64
import hashlib
import json
import logging
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reconciler.builtin.asking import Asked, Ended
from reconciler.builtin.lane import BuiltinLane, Holder
from reconciler.model.calls import Refusal, Relayed, Reply, Result, Sink
from reconciler.model.names import InstanceName
from reconciler.model.recipes import Recipe

RUNTIME = "cassette"
_MOST_BYTES = 64 * 2**20  # of a cassette that is played, and of one that is written
_LARGEST = 16 * 2**20  # bytes of one file that is written down
_PIECE = 2**20
_LOG = logging.getLogger("handler.cassette")


def question(tool: str, arguments: Mapping[str, Any], inbox: int) -> str:
    """sha256 (hex) of what is asked: files count by their bytes, output files by being asked for. OSError."""
    plain = {name: _plain(value, inbox) for name, value in arguments.items()}
    text = json.dumps([tool, plain], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any, inbox: int) -> Any:
    if isinstance(value, list):
        return [_plain(one, inbox) for one in value]
    blob = _blob(value)
    if blob is None:
        return value
    if value.keys() == {"name", "blob"}:
        return {"output": True}
    whole = hashlib.sha256()
    number = os.open(blob, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=inbox)
    try:
        while piece := os.read(number, _PIECE):
            whole.update(piece)
    finally:
        os.close(number)
    return {"file": whole.hexdigest()}


def _blob(value: Any) -> str | None:
    """The name of what was handed over in place of a value, or None where nothing was."""
    if isinstance(value, Mapping) and value.keys() in (
        {"name", "blob"},
        {"name", "mediaType", "size", "blob"},
    ):
        blob = value["blob"]
        return blob if isinstance(blob, str) and "/" not in blob else None
    return None


# playing back


class TapeLane(BuiltinLane):
    """The lane of a binding that plays a cassette: no process, no engine, no network."""

    def __init__(self, name: InstanceName, holder: Holder, most: int, file: Path) -> None:
        """``file`` is looked at anew whenever it changed."""
        super().__init__(name, holder, most)
        self._file = file
        self._folder = tempfile.TemporaryDirectory(prefix="handler-tape-", ignore_cleanup_errors=True)
        places = [Path(self._folder.name, one) for one in ("in", "out")]
        for place in places:
            place.mkdir(mode=0o700)
        self.inbox, self.outbox = (
            os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) for place in places
        )
        self._known: tuple[tuple[int, int], dict[str, Any]] = ((-1, -1), {})

    def close(self) -> None:
        """Let go of the folders."""
        os.close(self.inbox)
        os.close(self.outbox)
        self._folder.cleanup()

    def answer(self, tool: str, arguments: Mapping[str, Any], asked: Asked) -> Reply:
        """What the cassette has for a question. Runs in a thread."""
        asked.go_on()
        found = self._answers().get(question(tool, arguments, self.inbox))
        if found is None:
            raise Ended("unavailable", "the cassette has no answer to this call: record it")
        if "error" in found:
            raise Ended(str(found["error"]), "as it was recorded")
        files = {}
        for name, text in found.get("files", {}).items():
            blob = _blob(arguments.get(name))
            if blob is None:
                raise Ended("unavailable", "the cassette has a file that was not asked for")
            _put(self.outbox, blob, base64.b64decode(text))
            files[name] = blob
        return Result(found["answer"], files)

    def _answers(self) -> dict[str, Any]:
        try:
            found = self._file.stat()
            seen = (found.st_mtime_ns, found.st_size)
            if seen != self._known[0]:
                self._known = (seen, read(self._file))
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise Ended("unavailable", f"its cassette cannot be played: {why}") from None
        return self._known[1]


def lane(name: InstanceName, holder: Holder, recipe: Recipe, root: Path | None) -> BuiltinLane:
    """The lane of an instance that has no process: of a cassette, or of a part of the product."""
    most = recipe.max_concurrent_calls
    if recipe.runtime != RUNTIME or root is None:
        return BuiltinLane(name, holder, most)
    return TapeLane(name, holder, most, root / recipe.cassette)


def recorder(recipe: Recipe | None, root: Path | None) -> "Tape | None":
    """What writes down the answers of an instance whose binding asks for it."""
    return Tape(root / recipe.cassette) if recipe and root and recipe.cassette else None


def read(file: Path) -> dict[str, Any]:
    """The answers on a cassette by question. OSError, and ValueError with the line that is none."""
    with file.open("rb") as lines:
        if os.fstat(lines.fileno()).st_size > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES} bytes")
        found = {}
        for number, line in enumerate(lines, 1):
            try:
                one = json.loads(line)
                if not isinstance(one["answer"] if "error" not in one else one, dict):
                    raise TypeError
                for text in one.get("files", {}).values():
                    base64.b64decode(text, validate=True)
                found[str(one["question"])] = one
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                raise ValueError(f"line {number} is no recording") from None
    return found


def _put(outbox: int, blob: str, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(blob, flags, 0o600, dir_fd=outbox), "wb") as file:
        file.write(data)


# recording


class Tape:
    """What a connector answers, written down as it comes; a call is never held up by a fault of it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def listening(
        self, call: tuple[str, Mapping[str, Any]], sink: Sink, boxes: tuple[int, int]
    ) -> "Listening":
        """A sink that writes down what comes of a call before it hands it on."""
        return Listening(self, call, sink, boxes)

    def take(self, call: tuple[str, Mapping[str, Any]], reply: Reply, boxes: tuple[int, int]) -> None:
        """Write down one answer, or one error of the interface; an engine that is not there is none."""
        if isinstance(reply, Refusal) and (reply.reason or reply.code == "unavailable"):
            return
        (tool, arguments), (inbox, outbox) = call, boxes
        try:
            line: dict[str, Any] = {"question": question(tool, arguments, inbox), "tool": tool}
            if isinstance(reply, Refusal):
                line["error"] = reply.code
            else:
                line["answer"] = reply.structured
                line["files"] = {name: _taken(outbox, blob) for name, blob in reply.files.items()}
            self._append(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        except (OSError, ValueError) as error:
            _LOG.warning("an answer was not recorded: %s", getattr(error, "strerror", None) or error)

    def _append(self, line: bytes) -> None:
        self._file.parent.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(self._file, flags, 0o600), "ab", buffering=0) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise ValueError("the cassette is no plain file")
            if found.st_size + len(line) > _MOST_BYTES:
                raise ValueError(f"the cassette would have more than {_MOST_BYTES} bytes")
            file.write(line)


def _taken(outbox: int, blob: str) -> str:
    """What a connector left, as base64. ValueError for what is no plain file, or too large."""
    number = os.open(blob, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=outbox)
    with os.fdopen(number, "rb") as file:
        found = os.fstat(number)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise ValueError("what the connector left is no plain file")
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ValueError(f"what the connector left has more than {_LARGEST} bytes")
    return base64.b64encode(data).decode()


class Listening(Relayed):
    """The sink of a call that is recorded."""

    def __init__(
        self, tape: Tape, call: tuple[str, Mapping[str, Any]], sink: Sink, boxes: tuple[int, int]
    ) -> None:
        super().__init__(sink)
        self._tape, self._call, self._boxes = tape, call, boxes

    def done(self, reply: Reply) -> None:
        """As ``model.calls.Sink`` has it: once the answer is written down."""
        self._tape.take(self._call, reply, self._boxes)
        self._sink.done(reply)
