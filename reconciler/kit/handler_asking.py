"""One request to a server and its answer as JSON, bounded in bytes and time.

    from handler_connector import Unanswered, ask

    found = ask(f"https://api.example.com/v1/search?{words}", timeout_s=20)

Through the gate beside the sandbox, which adds TLS and the headers of secrets: no key is ever here. No
redirect is followed: the server was named, not wherever it points. Nothing of an answer that is not what was
asked for is kept, since a server's words may hold what it was sent. Standard library only.
"""

from __future__ import annotations

import http.client
import json
import time

from handler_gate import Unsent, opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

MOST_BYTES = 8 * 2**20
MOST_SENT_BYTES = 64 * 2**20  # what the gate takes
_CHUNK = 65_536
_TOO_LARGE = 413


class Unanswered(Exception):  # noqa: N818 - it is an answer: there is none to use
    """There is no answer to use. ``status`` is the server's, 0 where none came; ``body`` its JSON or None."""

    def __init__(self, why: str, status: int = 0, body: Any = None) -> None:
        super().__init__(why)
        self.status = status
        self.body = body


def ask(url: str, body: Any = None, *, timeout_s: float, most_bytes: int = MOST_BYTES) -> Any:
    """The JSON value of the answer to a GET, or to a POST of ``body`` as JSON; raises Unanswered after
    ``timeout_s`` in all, and for an answer of more than ``most_bytes``, of another status than 2xx or that is
    no JSON.
    """
    data = b"" if body is None else json.dumps(body).encode()
    if len(data) > MOST_SENT_BYTES:
        raise Unanswered("the request is larger than the gate takes", _TOO_LARGE)
    about = {"Accept": "application/json", "User-Agent": "handler-connector"}
    if data:
        about["Content-Type"] = "application/json"
    deadline = time.monotonic() + timeout_s
    wires: list[socket.socket] = []
    method = "POST" if data else "GET"
    try:
        with opened(method, url, about, data, timeout=timeout_s, begun=wires.append) as answer:
            if not 200 <= answer.status < 300:
                said = _said(answer, wires[0], deadline)
                raise Unanswered(f"HTTP {answer.status}", answer.status, said)
            return _value(_read(answer, wires[0], deadline, most_bytes))
    except Unsent as fault:
        raise Unanswered(f"no answer: {fault.why}") from None
    except TimeoutError:
        raise Unanswered(f"no answer within {timeout_s:.0f} s") from None
    except (OSError, http.client.HTTPException) as fault:
        raise Unanswered(f"no answer: {type(fault).__name__}") from None


def _read(answer: Any, wire: socket.socket, deadline: float, most_bytes: int) -> bytes:
    data = bytearray()
    while (left_s := deadline - time.monotonic()) > 0:
        if not answer.isclosed():  # else nobody waits for it
            wire.settimeout(left_s)
        if not (part := answer.read1(_CHUNK)):
            return bytes(data)
        data += part
        if len(data) > most_bytes:
            raise Unanswered("the answer is too large")
    raise TimeoutError


def _value(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise Unanswered("the answer is not JSON") from None


def _said(answer: Any, wire: socket.socket, deadline: float) -> Any:
    try:
        return _value(_read(answer, wire, deadline, MOST_BYTES))
    except (Unanswered, OSError, http.client.HTTPException):
        return None
