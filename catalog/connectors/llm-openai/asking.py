"""One request to a server and its answer as JSON, bounded in bytes and time.

Over the proxy that the sandbox names. No redirect is followed: the server was named, not wherever it points.
Nothing of an answer that is not what was asked for is kept, since a server's words may hold what it was sent.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from typing import Any

MOST_BYTES = 8 * 2**20
_CHUNK = 65_536


class UnansweredError(Exception):
    """There is no answer to use. ``status`` is the server's, 0 where none came; ``body`` its JSON or None."""

    def __init__(self, why: str, status: int = 0, body: Any = None) -> None:
        super().__init__(why)
        self.status = status
        self.body = body


class _Unfollowed(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:  # type: ignore[override]
        return None


_OPENER = urllib.request.build_opener(_Unfollowed)


def ask(url: str, headers: dict[str, str], body: Any = None, *, timeout_s: float) -> Any:
    """The JSON value of the answer to a GET, or to a POST of ``body``; raises UnansweredError."""
    data = None if body is None else json.dumps(body).encode()
    about = {"Accept": "application/json", "User-Agent": "handler-connector", **headers}
    if data is not None:
        about["Content-Type"] = "application/json"
    request = urllib.request.Request(url, data=data, headers=about)  # noqa: S310 - http(s), judged before
    deadline = time.monotonic() + timeout_s
    try:
        with _OPENER.open(request, timeout=timeout_s) as answer:
            return _value(_read(answer, deadline))
    except urllib.error.HTTPError as fault:
        with fault:
            raise UnansweredError(f"HTTP {fault.code}", fault.code, _said(fault, deadline)) from None
    except urllib.error.URLError as fault:
        raise UnansweredError(f"no answer: {type(fault.reason).__name__}") from None
    except (OSError, http.client.HTTPException) as fault:
        raise UnansweredError(f"no answer: {type(fault).__name__}") from None


def _read(answer: Any, deadline: float) -> bytes:
    data = bytearray()
    while part := answer.read1(_CHUNK):
        data += part
        if len(data) > MOST_BYTES:
            raise UnansweredError("the answer is too large")
        if time.monotonic() > deadline:
            raise UnansweredError("the answer did not end in time")
    return bytes(data)


def _value(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise UnansweredError("the answer is not JSON") from None


def _said(fault: urllib.error.HTTPError, deadline: float) -> Any:
    try:
        return _value(_read(fault, deadline))
    except (UnansweredError, OSError, http.client.HTTPException):
        return None
