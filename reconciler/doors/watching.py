"""``handler status --watch``: the status on a live screen, redrawn when its files or the terminal change.

The one place that imports rich, after the first look. It reads what ``status`` reads and asks nobody, so it
may run all day, before there is a controller and after it left; off a terminal it prints the status once for
each change. What is starting has a mark that turns. ``q`` or Ctrl-C ends it, and the terminal is left as it
was.
"""

import os
import sys
import time

from rich.console import Console, ConsoleDimensions
from rich.live import Live
from rich.text import Text

from reconciler.doors import columns, keys, standing, tables, usage

_LOOK_S = 0.5  # a person sees a change within a second; a look costs a few milliseconds
_TURN_S = 0.1  # a step of the mark that turns
_TURNING = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_COMING = "…"  # how the status marks what is on its way
_QUIT = (b"q", b"Q", b"\x03", b"\x04", keys.END)
_HELP = "q ends this screen"


def run(settings: usage.Settings, *, times: int | None = None) -> int:
    """Watch until a person ends it (or ``times`` looks); 0 when everything was ready at the end, else 1."""
    if not sys.stdout.isatty():
        return _printed(settings, times)
    screen = _Screen(settings)
    with keys.pressed() as pressed, screen.live:
        while times is None or times > 0:
            times = None if times is None else times - 1
            if pressed.within(screen.show()) in _QUIT:
                break
    return screen.code


class _Screen:
    """What is on the terminal, and what was read last. ``code`` is the exit code of the last look."""

    def __init__(self, settings: usage.Settings) -> None:
        self.code = 1
        self._settings = settings
        self._console = Console(no_color=settings.color == "never" or None, highlight=False)
        self.live = Live(console=self._console, auto_refresh=False, screen=True)
        self._text, self._lives, self._width = "", False, 0
        self._looked = float("-inf")
        self._turn = 0
        self._there: object = None  # what the terminal shows

    def show(self) -> float:
        """Bring the terminal up to date; how long, in seconds, it stays so."""
        now, size = time.monotonic(), ConsoleDimensions(*os.get_terminal_size(sys.stdout.fileno()))
        self._console.size = size  # asked of the terminal: COLUMNS would be what it was at the start
        if now - self._looked >= _LOOK_S or size.width != self._width:
            self._text, self.code, self._lives = _drawn(self._settings, size.width)
            self._looked, self._width = now, size.width
        mark = _TURNING[self._turn % len(_TURNING)]
        lines = _fitted(self._text, size.height - 1).splitlines()
        if self._lives:
            lines = [_turned(line, mark) for line in lines]
        self._turn += 1
        help_line = columns.Paint(self._settings.color, tty=True)(_HELP, "grey")
        lines += [""] * (size.height - 1 - len(lines)) + [help_line]
        if (lines, size) != self._there:
            self._there = (lines, size)
            self.live.update(
                Text.from_ansi("\n".join(lines), no_wrap=True, overflow="ellipsis"), refresh=True
            )
        turns = any(mark in line for line in lines)
        return _TURN_S if turns else max(0.0, self._looked + _LOOK_S - time.monotonic())


def _printed(settings: usage.Settings, times: int | None) -> int:
    code, last = 1, ""
    while times is None or times > 0:
        text, code, _ = _drawn(settings)
        if text != last:
            sys.stdout.write(text)
            sys.stdout.flush()
            last = text
        time.sleep(_LOOK_S)
        times = None if times is None else times - 1
    return code


def _drawn(settings: usage.Settings, room: int | None = None) -> tuple[str, int, bool]:
    """The screen as text (on a terminal with ``room`` cells a line), the exit code of ``status``, and whether
    a controller lives.
    """
    paint = columns.Paint(settings.color, tty=room is not None)
    try:
        seen = standing.read(settings.config)
    except standing.Unreadable as fault:
        return f"{fault}\n", 1, False
    text = tables.screen(seen, paint, wide=settings.output == "wide", room=room)
    return text, 0 if tables.is_ready(seen) else 1, seen.lives


def _turned(line: str, mark: str) -> str:
    """A line of the status with the turning mark in place of the still one, where something is starting."""
    at = line.find(_COMING)
    starts = at >= 0 and "Progressing" in line and Text.from_ansi(line[:at]).plain == ""
    return f"{line[:at]}{mark}{line[at + 1 :]}" if starts else line


def _fitted(text: str, height: int) -> str:
    """The first and the last lines of a text that is taller than the screen."""
    lines = text.splitlines()
    if len(lines) <= height:
        return text
    return "\n".join([*lines[: height - 2], f"… {len(lines) - height + 1} more lines", lines[-1]])
