"""status --watch on a real terminal: drawn, redrawn on change and size, ended by a key, put back."""

import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from reconciler.doors import columns, keys, watching
from tests.doors import fakes
from tests.doors.conftest import World

pytestmark = pytest.mark.slow  # each test starts a process

_LEAVES = b"\x1b[?1049l"  # the alternate screen is left
_PATIENCE_S = 60.0
_SURROUNDINGS = {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}  # what a shell may export, once
# The terminal becomes the command's own, so that Ctrl-C and a new size are signals to it.
_START = """\
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from reconciler.doors.entry import main
sys.argv[0] = "handler"
raise SystemExit(main())
"""


class Terminal:
    """``handler status -w`` on a pseudo-terminal, and all that it drew."""

    def __init__(self, world: World) -> None:
        self.fd, there = pty.openpty()
        self.size(80, 24)
        self.before = termios.tcgetattr(self.fd)  # of a pair, either end tells
        self._there = there
        self.drawn = b""
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START, "status", "-w", "-c", str(world.config)],
            stdin=there, stdout=there, stderr=there, cwd=world.root, start_new_session=True,
            env={**world.env(**_SURROUNDINGS), "PYTHONPATH": str(Path(__file__).parents[2])},
        )  # fmt: skip

    def size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def until(self, word: bytes) -> bytes:
        """What is drawn from now on until a word is among it."""
        start, end = len(self.drawn), time.monotonic() + _PATIENCE_S
        while word not in self.drawn[start:]:
            left = end - time.monotonic()
            assert left > 0, self.drawn[start:]
            if select.select([self.fd], [], [], left)[0]:
                with suppress(OSError):
                    self.drawn += os.read(self.fd, 65536)
        return self.drawn[start:]

    def ended(self) -> int:
        self.until(_LEAVES)
        code = self.process.wait(_PATIENCE_S)
        assert termios.tcgetattr(self.fd) == self.before
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.fd)
        os.close(self._there)


@pytest.fixture
def terminal(world: World) -> Iterator[Terminal]:
    fakes.write_status(world.state, fakes.row("agent/reviewer"))
    made = Terminal(world)
    yield made
    made.close()


@pytest.mark.parametrize("key", [b"q", b"\x03", b"\x04"])
def test_a_key_ends_it_and_the_terminal_is_as_it_was(terminal: Terminal, key: bytes) -> None:
    assert b"\x1b[?1049h" in terminal.until(b"q ends this screen")
    os.write(terminal.fd, b"x")  # any other key does nothing
    os.write(terminal.fd, key)
    assert terminal.ended() in (0, 1)
    assert b"agent/reviewer" in terminal.drawn


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_the_terminal_is_as_it_was(terminal: Terminal, number: signal.Signals) -> None:
    terminal.until(b"q ends this screen")
    terminal.process.send_signal(number)
    assert terminal.ended() in (0, 1)


def test_a_change_is_drawn_and_so_is_a_state_that_goes_and_comes(terminal: Terminal, world: World) -> None:
    terminal.until(b"q ends this screen")
    fakes.write_status(world.state, fakes.row("agent/reviewer", "False", "CrashLoop"))
    terminal.until(b"CrashLoop")
    away = world.root / "away"
    shutil.move(world.state, away)
    terminal.until(b"nothing was ever applied")
    shutil.move(away, world.state)
    terminal.until(b"CrashLoop")
    os.write(terminal.fd, b"q")
    assert terminal.ended() == 1


def test_another_size_is_drawn_at_once(terminal: Terminal, world: World) -> None:
    message = "a message of the connector that is longer than eighty cells of a terminal can hold on one line"
    fakes.write_status(world.state, {**fakes.row("agent/reviewer", "False", "CrashLoop"), "message": message})
    assert message.encode() not in terminal.until("…".encode())
    terminal.size(200, 50)
    terminal.until(message.encode())
    os.write(terminal.fd, b"q")
    terminal.ended()


def test_only_what_is_starting_turns() -> None:
    assert watching._turned("\x1b[33m…\x1b[0m binding/x   Progressing   … of it", "⠋").startswith(
        "\x1b[33m⠋\x1b[0m b"
    )
    for line in ("✗ binding/x   NotReady   Progressing…", "… 12 more lines", "✓ binding/x   Ready"):
        assert watching._turned(line, "⠋") == line


def test_a_narrow_screen_cuts_no_place_and_no_word_of_the_source() -> None:
    rows = [["✗", "agent/reader", "NotReady", "why " * 30, "agents/a-long-name-of-an-agent.toml:16:12"]]
    (line,) = columns.table(rows, columns.Paint("never", tty=False), fit=(3, 80)).splitlines()
    assert columns.width(line) <= 80
    assert "why why why" in line
    assert line.endswith(".toml:16:12")
    told = columns.folded("a commit that nobody signed is refused " * 5, 9, 80)
    assert all(columns.width(one) <= 80 for one in told.splitlines())
    assert " ".join(told.split()) == ("a commit that nobody signed is refused " * 5).strip()
    assert columns.folded("short", 9, 80) == columns.folded("short", 9, None) == "short"


def test_a_signal_is_heard_whatever_runs_when_it_comes() -> None:
    """An exception would be lost in a finalizer, as in any callback of the interpreter's own."""

    class Freed:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0)

    with keys.pressed() as pressed:
        Freed()
        assert pressed.within(_PATIENCE_S) == keys.END


def test_keys_that_are_taken_back_keep_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C empties what was typed before it: a key may be told of and be gone."""
    typed, there = pty.openpty()
    with os.fdopen(there, "rb", buffering=0) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        with keys.pressed() as pressed:
            monkeypatch.setattr(select, "select", lambda *_: ([there], [], []))
            assert pressed.within(_PATIENCE_S) == keys.NOTHING
            os.write(typed, b"x")
            assert pressed.within(_PATIENCE_S) == b"x"
            os.close(typed)
            assert pressed.within(_PATIENCE_S) == keys.END
