"""A connection that asks and is answered in JSON-RPC lines: what ``call`` and the control client speak over.

Blocking, standard library, no threads: one caller that waits. Answers are matched by number; notifications
that come in between go to whoever asked to hear them.
"""

import json
import os
import time

from reconciler.doors import bridge

_CHUNK = 1 << 16
_MAX_LINE = 64 * 2**20  # far above any answer; a peer without line ends does not fill the memory

Json = dict[str, object]


class Lost(Exception):  # noqa: N818 - a fact about a connection
    """The connection ended, or said nothing that can be read, before the answer came."""


class Late(Exception):  # noqa: N818 - a fact about time
    """The answer did not come in time."""


class Fault(Exception):  # noqa: N818 - the other side's verdict
    """The other side answered with a JSON-RPC error; the text is its own."""

    def __init__(self, code: object, message: str) -> None:
        super().__init__(message)
        self.code = code


class Line:
    """One connection to a Unix socket. Numbers count up from 1."""

    def __init__(self, path: str) -> None:
        """Connect at once; OSError when nobody answers there."""
        self._sock = bridge.connect(path)
        self._held: list[bytes] = []
        self._ready: list[bytes] = []
        self._number = 0

    def close(self) -> None:
        self._sock.close()

    def post(self, method: str, params: Json) -> int:
        """Send a request and return its number, without waiting; ``Lost`` when the connection ended."""
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        return self._number

    def tell(self, method: str, params: Json) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, number: int, timeout_s: float, heard: "Listener | None" = None) -> object:
        """The result of one request; raises ``Fault``, ``Late`` or ``Lost``. Other answers are dropped."""
        until = time.monotonic() + timeout_s
        while True:
            message = self._message(until)
            error = message.get("error")
            unread = message.get("id") is None and isinstance(error, dict)  # what we sent could not be read
            if (message.get("id") == number or unread) and "method" not in message:
                if isinstance(error, dict):
                    raise Fault(error.get("code"), str(error.get("message")))
                return message.get("result")
            if heard is not None and message.get("method") == "notifications/progress":
                params = message.get("params")
                heard.progress(params if isinstance(params, dict) else {})

    def ask(self, method: str, params: Json, timeout_s: float) -> object:
        """Send a request and wait for its result; raises as ``answer`` does."""
        return self.answer(self.post(method, params), timeout_s)

    def _send(self, message: Json) -> None:
        data = memoryview(json.dumps(message, ensure_ascii=False).encode() + b"\n")
        self._sock.settimeout(None)
        try:
            while data:
                data = data[self._sock.send(data) :]
        except OSError as error:
            raise Lost(f"the connection ended: {os.strerror(error.errno or 0)}") from None

    def _message(self, until: float) -> Json:
        while not self._ready:
            self._receive(until)
        try:
            message = json.loads(self._ready.pop(0))
        except ValueError:
            raise Lost("the other side does not speak JSON-RPC") from None
        if not isinstance(message, dict):
            raise Lost("the other side does not speak JSON-RPC")
        return message

    def _receive(self, until: float) -> None:
        self._sock.settimeout(max(0.001, until - time.monotonic()))
        try:
            data = self._sock.recv(_CHUNK)
        except TimeoutError:
            raise Late("no answer in time") from None
        except OSError as error:
            raise Lost(f"the connection ended: {os.strerror(error.errno or 0)}") from None
        if not data:
            raise Lost("the connection ended before the answer came")
        *whole, rest = data.split(b"\n")
        if whole:
            self._ready += [b"".join((*self._held, whole[0])), *whole[1:]]
            self._held = [rest]
        else:
            self._held.append(rest)
            if len(self._held) * _CHUNK > _MAX_LINE and sum(map(len, self._held)) > _MAX_LINE:
                raise Lost("the other side sends a line without an end")


class Listener:
    """Who hears of progress while an answer is awaited; this one does nothing."""

    def progress(self, params: Json) -> None:
        """The params of one ``notifications/progress``."""
