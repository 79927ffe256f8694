"""``handler status --watch``: the status on a live screen, redrawn when its files change.

The one place that imports rich, after the first look. It reads what ``status`` reads and asks nobody, so it
may run all day; off a terminal it prints the status once for each change.
"""

import sys
import time
from contextlib import suppress

from rich.console import Console
from rich.live import Live
from rich.text import Text

from reconciler.doors import columns, standing, tables, usage

_LOOK_S = 0.5  # a person sees a change within a second; a look costs a few milliseconds


def run(settings: usage.Settings, *, times: int | None = None) -> int:
    """Watch until interrupted (or ``times`` looks); 0 when everything was ready at the end, else 1."""
    console = Console(no_color=settings.color == "never" or None, highlight=False)
    if not sys.stdout.isatty():
        return _printed(settings, times)
    code = 1
    with (
        suppress(KeyboardInterrupt),
        Live(console=console, auto_refresh=False, screen=True, vertical_overflow="crop") as live,
    ):
        while times is None or times > 0:
            text, code = _drawn(settings, console.size.width)
            live.update(Text.from_ansi(_fitted(text, console.size.height), no_wrap=True), refresh=True)
            time.sleep(_LOOK_S)
            times = None if times is None else times - 1
    return code


def _printed(settings: usage.Settings, times: int | None) -> int:
    code, last = 1, ""
    while times is None or times > 0:
        text, code = _drawn(settings)
        if text != last:
            sys.stdout.write(text)
            sys.stdout.flush()
            last = text
        time.sleep(_LOOK_S)
        times = None if times is None else times - 1
    return code


def _drawn(settings: usage.Settings, room: int | None = None) -> tuple[str, int]:
    """The screen as text (on a terminal with ``room`` cells a line), and the exit code of ``status``."""
    paint = columns.Paint(settings.color, tty=room is not None)
    try:
        seen = standing.read(settings.config)
    except standing.Unreadable as fault:
        return f"{fault}\n", 1
    text = tables.screen(seen, paint, wide=settings.output == "wide", room=room)
    return text, 0 if tables.is_ready(seen) else 1


def _fitted(text: str, height: int) -> str:
    """The first and the last lines of a text that is taller than the screen."""
    lines = text.splitlines()
    if len(lines) <= height:
        return text
    return "\n".join([*lines[: height - 2], f"… {len(lines) - height + 1} more lines", lines[-1]])
