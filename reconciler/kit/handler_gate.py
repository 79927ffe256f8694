"""How a connector sends HTTP: plainly, through the gate beside its sandbox, which adds secrets and TLS.

    from handler_connector import request

    answer = request("POST", "https://api.example.com/v1/pages", {"content-type": "application/json"}, body)
    if answer.status == 200: ...

Standard library only. A request says whose call it serves, so that it ends with it.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
from contextlib import suppress

from handler_connector import running

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from handler_connector import Call


class Unsent(OSError):  # noqa: N818 - it is an answer: nothing was sent, or nothing handed on
    """The gate did not send a request, or did not hand its answer on: a word, and a sentence."""

    def __init__(self, cause: str, why: str) -> None:
        super().__init__(why)
        self.cause = cause
        self.why = why


class Response:
    """What came back; ``headers`` is a mapping that knows no upper case, ``body`` is whole."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    def json(self) -> Any:
        """The body, when it is JSON; ValueError when it is not."""
        return json.loads(self.body)


def request(  # noqa: PLR0913 - a whole request has so many parts
    method: str,
    url: str,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    timeout: float | None = None,
    call: Call | None = None,
) -> Response:
    """Send one HTTP request through the gate: https to what ``egress`` lists, with the headers of the secret
    slots added on the way. Redirects are answers like others. Raises Unsent, and TimeoutError after
    ``timeout`` seconds of silence. A thread that a call started says whose it is by ``call``.
    """
    answer = opened(method, url, headers, body, timeout=timeout, call=call)
    try:
        return Response(answer.status, answer.headers, answer.read())
    except OSError:
        raise
    except Exception as fault:  # noqa: BLE001 - http.client's own: half an answer
        raise Unsent("answer", f"the answer broke off: {type(fault).__name__}") from None
    finally:
        answer.close()


def opened(  # noqa: PLR0913 - as above
    method: str,
    url: str,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    timeout: float | None = None,
    call: Call | None = None,
    begun: Callable[[socket.socket], None] | None = None,
) -> Any:
    """As ``request``, with the answer as ``http.client`` has it, to be read as it comes; close it.

    ``begun`` gets the socket before anything is sent: whoever shuts it down ends the request.
    """
    connection = http.client.HTTPConnection("gate")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(timeout)
    call = call or running()
    try:
        connection.sock.connect(os.environ.get("HANDLER_GATE_SOCKET", ""))
        if begun is not None:
            begun(connection.sock)
        connection.putrequest(method, url, skip_host=True, skip_accept_encoding=True)
        connection.putheader("Host", url.partition("://")[2].partition("/")[0].partition("?")[0])
        for name, value in (headers or {}).items():
            if name.lower() not in ("host", "content-length", "transfer-encoding", "connection"):
                connection.putheader(name, value)
        if call is not None:
            connection.putheader("x-handler-call", str(call.number))
        if body or method in ("POST", "PUT", "PATCH"):
            connection.putheader("Content-Length", str(len(body)))
        with suppress(BrokenPipeError):  # it was refused before it was all said: the answer says why
            connection.endheaders(body or None)
        answer = connection.getresponse()
    except TimeoutError:
        connection.close()
        raise
    except (OSError, http.client.HTTPException, ValueError) as fault:
        connection.close()
        raise Unsent("request", f"the gate is not reached: {type(fault).__name__}") from None
    if cause := answer.headers.get("x-handler-refused"):
        why = answer.read(4096).decode("ascii", "replace").strip()
        answer.close()
        raise Unsent(cause, why)
    return answer
