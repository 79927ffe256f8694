"""What a connector says to its operator: the log of a binding, and the diagnostic of a call that failed.

Both are files below the state folder, so they are read without asking the controller. A log is a ring of two
halves (``runtime.ringlog``): ``NAME.log`` is appended to until it is full, then becomes ``NAME.log.1``.
"""

import codecs
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from reconciler.control import folders
from reconciler.doors import callrecords, columns, following, standing, usage

_RECORD_S = 1.0  # records of calls are written in batches, at most this late
_PAUSE_S = 0.05


def run(settings: usage.Settings, name: str, count: int, *, follow: bool, looks: int | None = None) -> int:
    """Print the last lines of a binding's log and, with ``follow``, what comes (for so many ``looks``, or
    until interrupted). 0 printed, 1 there is no such binding.
    """
    kind, slash, plain = name.rpartition("/")
    if slash and standing.kind_of(kind) != "binding":
        raise usage.Usage(f"only bindings have logs: 'handler logs BINDING', not '{name}'")
    path = Path(standing.log_path(settings.config, plain))
    if not plain or plain.startswith(".") or not (path.is_file() or _is_known(settings, plain)):
        sys.stderr.write(f"handler: nothing is known of binding/{columns.shown(plain)}\n")
        return 1
    with ExitStack() as files:
        held = following.opened(path, files)  # before the lines are read: what comes meanwhile is not lost
        if held:
            held.seek(0, os.SEEK_END)
        lines = standing.log_lines(str(path), count)
        sys.stdout.write("".join(map(_line, lines)))
        if held is None and not settings.quiet:
            sys.stderr.write(f"Nothing is written yet to {usage.path_shown(str(path))}.\n")
        if follow:
            _print(following.appended(path, held, files, looks))
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


def _is_known(settings: usage.Settings, name: str) -> bool:
    try:
        standing.document(settings.config, "binding", name)
    except standing.Unknown:
        return False
    return True


def _line(text: str) -> str:
    return f"{columns.shown(text.expandtabs())}\n"


def _print(pieces: Iterator[bytes]) -> None:
    """Print the lines that are appended, each once it is whole."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    for piece in pieces:
        *whole, rest = (rest + decoder.decode(piece)).split("\n")
        sys.stdout.write("".join(map(_line, whole)))
        sys.stdout.flush()


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
