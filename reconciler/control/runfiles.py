"""Runs of chains on the disk: ``<state>/runs/ID/``, one folder each, 0700, files 0600.

``head.json`` says how a run stands; ``begun.json`` what it began with: chain, input, settings, policy,
script. ``answers.jsonl`` has a line for each answer that it got, on the disk before the next ask is carried
out: that is the whole checkpoint. ``events.jsonl`` is what was told, made anew when a run is resumed.
``output.json`` is its result. Unlike records of calls, these hold what was said: input, conversation,
results of tools.
"""

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

import orjson

from reconciler.control import atomic

FOLDER = "runs"
_ID = re.compile(r"[0-9a-z]{8,24}")
_MOST_KEPT = 500  # runs that are over; those that ended first go first
_LATEST = 253_402_300_800.0  # seconds since 1970: the year 9999 is over
State = Literal[
    "running", "waiting_approval", "waiting_service", "stopped", "completed", "failed", "cancelled"
]
OVER = ("completed", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class Head:
    """How a run stands. Instants are seconds since 1970; ``waits_for`` is an approval's id, the id of an
    attempt at a job, or "".

    ``code``, ``message`` and ``task`` say why there is no output. ``stopped``: it can be resumed, and nobody
    does so by itself; ``message`` says why. ``job`` is the attempt that the ask named ``job_ask`` has
    submitted, ``above`` the agents on whose behalf it runs, the first one first.
    """

    id: str
    chain: str
    agent: str
    at: float
    state: State = "running"
    session: str = ""
    scripted: bool = False
    waits_for: str = ""
    ended: float = 0.0
    code: str = ""
    message: str = ""
    task: str = ""
    steps: int = 0
    job: str = ""
    job_ask: str = ""
    above: tuple[str, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.state in OVER

    def as_json(self) -> dict[str, Any]:
        """As its file has it."""
        return asdict(self)


class RunFiles:
    """The runs of one state folder. Blocking: for a thread, or for a command that only reads."""

    def __init__(self, state: Path) -> None:
        self.folder = state / FOLDER

    def path(self, run: str) -> Path:
        """A run's folder; raises ValueError where that is no run's name."""
        if not _ID.fullmatch(run):
            raise ValueError(f"{run[:40]!r} is no run")
        return self.folder / run

    def begin(self, head: Head, begun: Mapping[str, Any]) -> None:
        """Put a new run down, whole, before anything of it is carried out. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = self.path(head.id)
        folder.mkdir(mode=0o700)
        try:
            atomic.write(folder / "begun.json", orjson.dumps(begun))
            self.put(head)
            atomic.settle(self.folder)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def put(self, head: Head) -> None:
        """Keep how a run stands."""
        atomic.write(self.path(head.id) / "head.json", orjson.dumps(head.as_json()) + b"\n")

    def going(self, counts: Mapping[str, int]) -> None:
        """Keep how many runs go on, by state: what a status says of them. A disk that is full keeps an
        earlier number.
        """
        with suppress(OSError):
            atomic.write(self.folder / "going.json", orjson.dumps(counts) + b"\n")

    def answer(self, run: str, line: Mapping[str, Any]) -> None:
        """Keep an answer: on the disk when this returns. Raises OSError, and leaves no half line."""
        path = self.path(run) / "answers.jsonl"
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            size = os.fstat(fd).st_size
            try:
                atomic.write_all(fd, orjson.dumps(line) + b"\n")
                os.fsync(fd)
                if not size:
                    atomic.settle(path.parent)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(fd, size)
                raise
        finally:
            os.close(fd)

    def tell(self, run: str, events: Iterable[Mapping[str, Any]], *, anew: bool = False) -> None:
        """Add events to what is told of a run; ``anew``: these are all. A disk that is full loses some."""
        mode = os.O_TRUNC if anew else os.O_APPEND
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | mode
        with suppress(OSError):
            fd = os.open(self.path(run) / "events.jsonl", flags, 0o600)
            try:
                atomic.write_all(fd, b"".join(orjson.dumps(one) + b"\n" for one in events))
            finally:
                os.close(fd)

    def finish(self, head: Head, output: Mapping[str, Any] | None) -> None:
        """Keep a run's result, then that it is over."""
        if output is not None:
            atomic.write(self.path(head.id) / "output.json", orjson.dumps(output) + b"\n")
        self.put(head)
        self._prune()

    # reading

    def heads(self) -> list[Head]:
        """Every run, the newest first; what is none is passed over."""
        found = [head for path in self.folder.glob("*/head.json") if (head := _head(path)) is not None]
        return sorted(found, key=lambda one: (-one.at, one.id))

    def head(self, run: str) -> Head | None:
        """A run by its id, or by a beginning that only it has."""
        with suppress(ValueError):
            if (found := _head(self.path(run) / "head.json")) is not None:
                return found
        near = [one for one in self.heads() if run and one.id.startswith(run)]
        return near[0] if len(near) == 1 else None

    def begun(self, run: str) -> dict[str, Any]:
        """What it began with. Raises OSError, ValueError."""
        found = orjson.loads((self.path(run) / "begun.json").read_bytes())
        if not isinstance(found, dict):
            raise ValueError("begun.json is no object")
        return found

    def answers(self, run: str) -> list[dict[str, Any]]:
        """What it was answered. A last line that a killed writer left half is cut off; any other that cannot
        be read raises ValueError.
        """
        path = self.path(run) / "answers.jsonl"
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return []
        whole = raw[: raw.rfind(b"\n") + 1]
        if len(whole) != len(raw):
            os.truncate(path, len(whole))
        return [orjson.loads(line) for line in whole.splitlines()]

    def events(self, run: str, after: int = 0) -> list[dict[str, Any]]:
        """What was told of it, from this number on."""
        found = []
        with suppress(OSError, ValueError):
            for line in (self.path(run) / "events.jsonl").read_bytes().splitlines()[after:]:
                event = orjson.loads(line)
                found += [event] if isinstance(event, dict) else []
        return found

    def output(self, run: str) -> dict[str, Any] | None:
        """Its result, where it has one."""
        try:
            found = orjson.loads((self.path(run) / "output.json").read_bytes())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def _prune(self) -> None:
        over = sorted((one for one in self.heads() if one.is_over), key=lambda one: -one.ended)
        for one in over[_MOST_KEPT:]:
            shutil.rmtree(self.path(one.id), ignore_errors=True)


def _head(path: Path) -> Head | None:
    try:
        stored = orjson.loads(path.read_bytes())
        known = {one.name for one in fields(Head)}
        stored["above"] = tuple(stored.get("above", ()))
        head = Head(**{key: value for key, value in stored.items() if key in known})
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    return head if head.id == path.parent.name and _is_whole(head) else None


def _is_whole(head: Head) -> bool:
    """Whether a file's values are what this program writes: by one of another kind nothing could be told."""
    texts: tuple[object, ...] = (
        head.chain, head.agent, head.session, head.waits_for, head.code, head.message, head.task,
        head.job, head.job_ask, *head.above,
    )  # fmt: skip
    times: tuple[object, ...] = (head.at, head.ended)
    scripted: object = head.scripted
    steps: object = head.steps
    return (
        head.state in get_args(State)
        and all(isinstance(text, str) for text in texts)
        and all(type(at) in (int, float) and 0 <= at < _LATEST for at in times)  # type: ignore[operator]
        and (type(scripted), type(steps)) == (bool, int)
    )
