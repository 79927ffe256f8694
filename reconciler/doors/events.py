"""``handler events``: what the controller did, from its journal; with ``-w`` also what it does.

The journal (``<state>/events.jsonl``, and the older ``.1`` beside it) counts repeats: of the lines that say
the same, the last one tells how often. It is read as a file, so no controller need run.
"""

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from reconciler.control import unwaiting
from reconciler.doors import columns, following, kept, standing, usage

_MOST_BYTES = 16 * 2**20  # both files
_WHOLE = "configuration"
_LONG = re.compile(r"\b([0-9a-f]{7})[0-9a-f]{33}(?:[0-9a-f]{24})?\b")  # a commit or a content, whole
_OBJECT, _REASON = 28, 18  # cells of a stream's columns, which cannot know what is to come

Event = dict[str, object]


def run(settings: usage.Settings, subject: str, count: int, *, watch: bool, looks: int | None = None) -> int:
    """Print the last events (of one object) and, with ``watch``, what comes (for so many ``looks``, or until
    interrupted); 0. Raises ``usage.Usage``, and ``usage.Stopped`` where there is no configuration.
    """
    state = kept.state(settings)
    about = _about(subject)
    path = state / "events.jsonl"
    with ExitStack() as files:
        held = following.opened(path, files)
        text = _tail(Path(f"{path}.1"), _MOST_BYTES // 2) + (held.read() if held else b"")
        _print(settings, list(_last(_events(text), about))[-count:] if count else [], whole=not watch)
        if watch:
            shown = _forward if settings.output != "json" else list
            for found in _coming(following.appended(path, held, files, looks)):
                mine = [one for one in found if about in ("", one.get("object"))]
                _print(settings, shown(mine), whole=False)
    return 0


def _about(subject: str) -> str:
    """The object as the journal names it, or "" for all."""
    if not subject or subject == _WHOLE:
        return subject
    kind, slash, name = subject.partition("/")
    if not slash or not name:
        raise usage.Usage(f"name an object as KIND/NAME (or '{_WHOLE}'), not '{subject}'")
    return f"{standing.kind_of(kind)}/{name}"


def _events(text: bytes) -> Iterator[Event]:
    for line in text.splitlines():
        try:
            one = json.loads(line)
        except ValueError:
            continue  # cut by a crash, or the tail begins in the middle of a line
        if isinstance(one, dict):
            yield one


def _last(found: Iterator[Event], about: str) -> list[Event]:
    """Of the lines that say the same thing the last, in the order in which they were heard last."""
    kept: dict[tuple[object, ...], Event] = {}
    for one in found:
        if about and one.get("object") != about:
            continue
        key = tuple(str(one.get(word)) for word in ("object", "reason", "message", "firstTimestamp"))
        kept[key] = one
    return sorted(kept.values(), key=lambda one: str(one.get("timestamp")))


def _forward(found: list[Event]) -> list[Event]:
    """What came, for people: a repeat's count, which is written when something newer was, is left out."""
    newest = max((str(one.get("timestamp")) for one in found if one.get("count") in (None, 1)), default="")
    return [one for one in found if one.get("count") in (None, 1) or str(one.get("timestamp")) >= newest]


def _print(settings: usage.Settings, found: list[Event], *, whole: bool) -> None:
    if settings.output == "json":
        if whole:
            sys.stdout.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
        else:
            sys.stdout.write("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in found))
    elif found:
        _table(settings, found, headed=whole)
    elif whole and not settings.quiet:
        sys.stderr.write("Nothing is told of that.\n")
    sys.stdout.flush()


def _table(settings: usage.Settings, found: list[Event], *, headed: bool) -> None:
    paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
    rows, colours = [], []
    if headed:
        rows.append(["WHEN", "", "OBJECT", "REASON", "MESSAGE"])
        colours.append(["bold"] * 5)
    for one in found:
        times = one.get("count")
        often = f" ({times} times)" if isinstance(times, int) and times > 1 else ""
        bad = one.get("severity") == "Warning"
        facts = [_when(one, headed=headed), "!" if bad else "", one.get("object"), one.get("reason")]
        cells = list(map(str, facts))
        if not headed:
            cells[1], cells[2], cells[3] = cells[1] or " ", cells[2].ljust(_OBJECT), cells[3].ljust(_REASON)
        rows.append([*cells, f"{_LONG.sub(_shortened, str(one.get('message')))}{often}"])
        colours.append(["grey", "yellow", "", "yellow" if bad else "", ""])
    sys.stdout.write(columns.table(rows, paint, colours))


def _shortened(found: re.Match[str]) -> str:
    return found[1]


def _when(one: Event, *, headed: bool) -> str:
    """An age in a table; the time of day (UTC) of what comes line by line, which is read later."""
    at = standing.instant(str(one.get("timestamp")))
    if at is None:
        return "-"
    return columns.age(time.time() - at) if headed else str(one.get("timestamp"))[11:19]


def _coming(pieces: Iterator[bytes]) -> Iterator[list[Event]]:
    """The events that are appended, each once its line is whole."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield list(_events(b"\n".join(whole)))


def _tail(path: Path, most: int) -> bytes:
    try:
        with open(path, "rb", opener=unwaiting.opener) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most))
            return file.read()
    except OSError:
        return b""
