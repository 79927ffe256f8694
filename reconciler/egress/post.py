"""Messages between the controller and its gate: one JSON object a datagram of a socket pair, and descriptors.

Nothing is lost and nothing is put together wrong: the kernel keeps the bounds of each (``SOCK_SEQPACKET``).
What cannot go out at once waits here, in order; ``crowded``
says when whoever can do without should. The end of the other side is the end of the pair.
"""

import asyncio
import json
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from reconciler.model.problems import Bug

MOST_BYTES = 160 * 1024  # of one message: a secret has at most 64 KiB, and is written in base64
MOST_WAITING = 1024  # messages, before what can be done without is left out
_BUFFER = 1024 * 1024
_TURN = 32  # messages read before others get a turn

Heard = Callable[[dict[str, Any], list[int]], None]


def pair() -> tuple[socket.socket, socket.socket]:
    """The two ends, non-blocking and not inherited."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for one in ends:
        one.settimeout(0)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    return ends


class Post:
    """One end. ``heard`` gets each message with its descriptors, which are its own then; ``ended`` is called
    once, when the other side is gone.
    """

    def __init__(self, end: socket.socket, heard: Heard, ended: Callable[[], None]) -> None:
        self._end, self._heard, self._ended = end, heard, ended
        self._waiting: deque[tuple[bytes, tuple[int, ...], Callable[[], None] | None]] = deque()
        self._loop = asyncio.get_running_loop()
        self._open = True
        self._loop.add_reader(end.fileno(), self._read)

    def __repr__(self) -> str:
        return "Post()"  # what waits may hold a secret

    def crowded(self, most: int = MOST_WAITING) -> bool:
        """The other side reads too slowly: so many messages wait already."""
        return len(self._waiting) >= most

    def send(
        self, message: dict[str, Any], numbers: tuple[int, ...] = (), gone: Callable[[], None] | None = None
    ) -> None:
        """Send a message; ``gone`` is called when it has left with its descriptors, or never can. One that
        is longer than MOST_BYTES is a Bug.
        """
        data = json.dumps(message, separators=(",", ":")).encode()
        if len(data) > MOST_BYTES:
            raise Bug("a message between the controller and its gate is too long")
        if not self._open:
            if gone is not None:
                gone()
            return
        self._waiting.append((data, numbers, gone))
        if len(self._waiting) == 1:
            self._write()

    def close(self) -> None:
        """Hear and send nothing more."""
        if not self._open:
            return
        self._open = False
        self._loop.remove_reader(self._end.fileno())
        self._loop.remove_writer(self._end.fileno())
        self._end.close()
        while self._waiting:
            self._left()

    def _left(self) -> None:
        _, _, gone = self._waiting.popleft()
        if gone is not None:
            gone()

    def _write(self) -> None:
        while self._waiting and self._open:
            data, numbers, _ = self._waiting[0]
            try:
                socket.send_fds(self._end, [data], list(numbers))
            except BlockingIOError:
                self._loop.add_writer(self._end.fileno(), self._write)
                return
            except OSError:  # the other side is gone: its end is read
                pass
            self._left()
        if self._open:
            self._loop.remove_writer(self._end.fileno())

    def _read(self) -> None:
        for _ in range(_TURN):
            if not self._open:
                return
            try:
                data, numbers, _, _ = socket.recv_fds(self._end, MOST_BYTES, 4)
            except BlockingIOError:
                return
            except OSError:
                data, numbers = b"", []
            if not data:
                self.close()
                self._ended()
                return
            self._heard(json.loads(data), list(numbers))
