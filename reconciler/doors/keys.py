"""Keys of a terminal one by one, and what else wakes a live screen: another size, and the wish to end it.

While it is open the terminal gives keys at once and shows none of them; afterwards it is as it was, whatever
ended the process short of a kill. Where stdin is no terminal there are no keys, and waiting only waits.
"""

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

END = b""  # the terminal is gone, or a signal wants the end
NOTHING = b"\0"  # no key in that time
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Keys:
    """The keys of stdin, where it is a terminal."""

    def __init__(self, woken: int) -> None:
        """``woken`` is a pipe's end that becomes readable with each signal."""
        self.ended = False  # a signal asked for the end
        self._woken = woken
        self._stdin = sys.stdin.fileno() if sys.stdin.isatty() else None

    def within(self, seconds: float) -> bytes:
        """The key that is pressed within some seconds, ``NOTHING`` (also when the size changes), ``END``."""
        sources = [self._woken] if self._stdin is None else [self._woken, self._stdin]
        ready, _, _ = select.select(sources, [], [], seconds)
        if self._woken in ready:
            os.read(self._woken, 1024)
        if self.ended:
            return END
        if self._stdin is None or self._stdin not in ready:
            return NOTHING
        try:
            return os.read(self._stdin, 1) or (END if _is_gone(self._stdin) else NOTHING)
        except OSError:
            return END


@contextmanager
def pressed() -> Iterator[Keys]:
    """Open the keys; SIGINT, SIGTERM and SIGHUP become the key ``END`` inside, so that all is put back.

    None of them raises: what is raised while an import, or what Python frees, runs is told to nobody.
    """
    woken, wake = os.pipe()
    keys = Keys(woken)

    def end(_number: int, _frame: FrameType | None) -> None:
        keys.ended = True

    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    before = {number: signal.signal(number, end) for number in _ENDING}
    before[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, _nothing)
    waker = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    modes = termios.tcgetattr(sys.stdin) if sys.stdin.isatty() else None
    try:
        if modes is not None:
            _give_at_once(sys.stdin.fileno())
        yield keys
    finally:
        if modes is not None:
            with suppress(termios.error):  # it is gone
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, modes)
        signal.set_wakeup_fd(waker)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(woken)
        os.close(wake)


def _give_at_once(terminal: int) -> None:
    """Each key as it comes. A read never waits: Ctrl-C takes back keys that were already told of."""
    tty.setcbreak(terminal)
    modes = termios.tcgetattr(terminal)
    modes[6][termios.VMIN] = 0
    termios.tcsetattr(terminal, termios.TCSANOW, modes)


def _is_gone(terminal: int) -> bool:
    poll = select.poll()
    poll.register(terminal, 0)
    return any(events & (select.POLLHUP | select.POLLERR) for _, events in poll.poll(0))


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Be interrupted: the wait is over, and the size is asked anew."""
