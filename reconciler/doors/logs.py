"""What a connector says to its operator: the log of a binding, and the diagnostic of a call that failed.

Both are files below the state folder, so they are read without asking the controller. A log is a ring of two
halves (``runtime.ringlog``): ``NAME.log`` is appended to until it is full, then becomes ``NAME.log.1``.
Each line says when it was read and whose it is; people see that as a separator where another process speaks.
"""

import codecs
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from reconciler.control import folders
from reconciler.doors import callrecords, columns, following, standing, usage
from reconciler.model import loglines
from reconciler.model.loglines import Line

_RECORD_S = 1.0  # records of calls are written in batches, at most this late
_PAUSE_S = 0.05
_USUAL = 50  # lines
_TIME = 24  # cells of one
_SPANS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines, and how: the last ``count`` (None: 50, or all ``since``), those of one ``instance``, those
    ``since`` a span ago or an instant, each with its time.
    """

    count: int | None = None
    instance: str = ""
    since: str = ""
    timestamps: bool = False


def run(
    settings: usage.Settings, name: str, wanted: Wanted, *, follow: bool = False, looks: int | None = None
) -> int:
    """Print the last lines of a binding's log and, with ``follow``, what comes (for so many ``looks``, or
    until interrupted). 0 printed, 1 there is no such binding. Raises ``usage.Usage``.
    """
    kind, slash, plain = name.rpartition("/")
    if slash and standing.kind_of(kind) != "binding":
        raise usage.Usage(f"only bindings have logs: 'handler logs BINDING', not '{name}'")
    chosen = _chosen(wanted)
    path = Path(standing.log_path(settings.config, plain))
    named = plain and not plain.startswith(".")
    missing = "" if named and path.is_file() else _missing(settings, plain)
    if missing:
        sys.stderr.write(f"handler: {columns.shown(missing)}\n")
        return 1
    printer = _Printer(settings, plain, timestamps=wanted.timestamps)
    with ExitStack() as files:
        held = following.opened(path, files)
        if held is None and not settings.quiet:
            sys.stderr.write(f"Nothing is written yet to {usage.path_shown(str(path))}.\n")
        stream = _Stream()
        kept = stream.lines(_older(path, held, files) + (held.read() if held else b""))
        kept = list(chosen(kept if follow else [*kept, *stream.rest()]))
        most = wanted.count if wanted.count is not None else len(kept) if wanted.since else _USUAL
        printer.print(kept[-most:] if most else [], whole=not follow)
        for piece in following.appended(path, held, files, looks) if follow else ():
            printer.print(list(chosen(stream.lines(piece))), whole=False)
    return 0


def why(settings: usage.Settings, binding: str, session: str) -> str:
    """What an operator is told of the last call of a session, which failed: its diagnostic, and the log."""
    path = standing.log_path(settings.config, binding)
    record = _last(settings, session)
    state = folders.places(settings.config)[1]
    told = [str(record.get("diagnostic") or "")]
    told += [f"did not get out of its sandbox: {one}" for one in callrecords.stopped(state, binding, record)]
    text = "".join(f"handler: {columns.shown(one)}\n" for one in told if one)
    if standing.log_lines(path, 1):
        text += f"handler: the connector's log is {usage.path_shown(path)} ('handler logs {binding}')\n"
    return text


def _missing(settings: usage.Settings, name: str) -> str:
    """Why nothing is known of a binding; "" when something is."""
    try:
        standing.document(settings.config, "binding", name)
    except standing.Unknown as fault:
        return str(fault)
    return ""


def _chosen(wanted: Wanted) -> Callable[[Iterable[Line]], Iterator[Line]]:
    """Leaves of lines what is wanted; raises ``usage.Usage``."""
    digest = wanted.instance.rpartition("@")[2]
    if wanted.instance and not re.fullmatch("[0-9a-f]{1,12}", digest):
        raise usage.Usage("--instance wants BINDING@DIGEST, or how its digest begins")
    since = _instant(wanted.since) if wanted.since else ""

    def chosen(said: Iterable[Line]) -> Iterator[Line]:
        late = loglines.after(said, since)
        return (one for one in late if one.digest.startswith(digest) and (one.digest or not digest))

    return chosen


def _instant(text: str) -> str:
    """The instant that people write as a span before now (``90s``, ``1h30m``) or as an ISO time, in UTC."""
    if re.fullmatch(r"([0-9]{1,9}[smhd])+", text):
        span_s = sum(int(number) * _SPANS[unit] for number, unit in re.findall(r"([0-9]+)([smhd])", text))
        at = datetime.fromtimestamp(max(0.0, time.time() - span_s), UTC)
    else:
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise usage.Usage(
                f"--since wants a span, like 10m, or a time, like 2026-11-30T10:42, not '{text}'"
            ) from None
        at = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _older(path: Path, held: BinaryIO | None, files: ExitStack) -> bytes:
    """What was written before the log that is held: the other half, which may have been it until just now."""
    older = following.opened(path.with_name(f"{path.name}.1"), files)
    if older is None or (held and os.path.samestat(os.fstat(older.fileno()), os.fstat(held.fileno()))):
        return b""
    text = older.read()
    return text if text.endswith(b"\n") else text + b"\n"


class _Stream:
    """The lines of a log that is read piece by piece."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def lines(self, piece: bytes) -> list[Line]:
        """The lines that end in this piece."""
        *whole, self._rest = (self._rest + self._decoder.decode(piece)).split("\n")
        return [loglines.parted(line) for line in whole]

    def rest(self) -> list[Line]:
        """The line that has not ended, if there is one."""
        return [loglines.parted(self._rest)] if self._rest else []


class _Printer:
    """Prints lines for people, with a word where another process speaks, or as JSON."""

    def __init__(self, settings: usage.Settings, binding: str, *, timestamps: bool) -> None:
        self._settings = settings
        self._binding = binding
        self._timestamps = timestamps
        self._paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
        self._last = ""  # whose line was printed last

    def print(self, said: list[Line], *, whole: bool) -> None:
        """Print these; ``whole``: nothing comes after them."""
        if self._settings.output != "json":
            sys.stdout.write("".join(map(self._text, said)))
        elif whole:
            sys.stdout.write(json.dumps([*map(self._facts, said)], indent=2, ensure_ascii=False) + "\n")
        else:
            lines = (json.dumps(self._facts(one), ensure_ascii=False) for one in said)
            sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()

    def _facts(self, one: Line) -> dict[str, object]:
        instance = f"{self._binding}@{one.digest}" if one.digest else None
        return {"at": one.at or None, "instance": instance, "begins": one.begins, "text": one.text}

    def _text(self, one: Line) -> str:
        at = f"{self._paint(one.at or '-'.ljust(_TIME), 'grey')} " if self._timestamps else ""
        return f"{self._separator(one)}{at}{columns.shown(one.text.expandtabs())}\n"

    def _separator(self, one: Line) -> str:
        before, self._last = self._last, one.digest or self._last
        if self._settings.quiet or not (one.begins or (before and before != self._last)):
            return ""
        what = "a process begins" if one.begins else "goes on"
        return self._paint(f"── {self._binding}@{one.digest} {what}, {one.at}", "grey") + "\n"


def _last(settings: usage.Settings, session: str) -> Mapping[str, object]:
    """The record of the session's last call, waited for as long as that may take; or an empty one."""
    state = folders.places(settings.config)[1]
    until = time.monotonic() + _RECORD_S
    while True:
        for record in reversed(callrecords.of(state, session)):
            return record
        if time.monotonic() >= until:
            return {}
        time.sleep(_PAUSE_S)
