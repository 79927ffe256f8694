"""Asks a server as its OpenAPI document says: one function for every operation of ``operations.json``.

Written by ``handler import openapi``, and the same for every document. Values go into the path encoded, one
segment each; what a redirect leads to is not followed; nothing is sent twice. The gate adds secrets and TLS.
"""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from handler_connector import Failure, Unsent, opened, serve

if TYPE_CHECKING:
    from handler_connector import Call

_TIMEOUT_S = 50.0  # the call has 60
_MOST_BYTES, _MOST_TEXT, _DEEPEST = 2 * 2**20, 1_000_000, 5
_CODES = {
    **dict.fromkeys((401, 403, 407), "no_access"),
    **dict.fromkeys((404, 410), "not_found"),
    429: "too_many",
}
# The gate's words for a request of which no byte left this machine.
_NOT_SENT = (
    *("request", "unlisted", "address", "busy", "unresolved", "unreachable", "slow", "call", "denied", "tls"),
)


def tool(operation: Mapping[str, Any]) -> Callable[[Mapping[str, Any], Call], dict[str, Any]]:
    """The function that asks one operation."""

    def ask(arguments: Mapping[str, Any], call: Call) -> dict[str, Any]:
        url, body = address(operation, arguments), sent(operation, arguments)
        headers = {"accept": "application/json, */*;q=0.1", "user-agent": "handler-openapi"}
        if body:
            headers["content-type"] = operation.get("type", "application/json")
        until = time.monotonic() + _TIMEOUT_S
        wires: list[Any] = []
        try:
            answer = opened(operation["method"], url, headers, body, timeout=_TIMEOUT_S, begun=wires.append)
        except Unsent as fault:
            proven = fault.cause in _NOT_SENT
            raise Failure("unavailable", f"no answer: {fault.why}", nothing_happened=proven) from None
        except TimeoutError:
            raise Failure("unavailable", f"no answer within {_TIMEOUT_S:.0f} s") from None
        with answer:
            status = int(answer.status)
            if not 200 <= status < 300:
                code = "unavailable" if status >= 500 or status < 200 else _CODES.get(status, "rejected")
                raise Failure(code, f"HTTP {status}")
            data, is_whole = _read(answer, wires[0], until)
        if not is_whole and operation["method"] == "GET":
            raise Failure("unavailable", "the answer is too large, or broke off")
        return {"status": status, **_told(data, is_whole)}

    return ask


def address(operation: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """Where an operation is asked; raises Failure for a value that would be another place."""
    path = operation["path"]
    for given, original in operation["in_path"].items():
        value = _plain(arguments[given])
        if value in ("", ".", ".."):
            raise Failure("rejected", "a part of the path is no name", nothing_happened=True)
        path = path.replace(f"{{{original}}}", quote(value, safe=""))
    words: list[tuple[str, str]] = []
    for given, original in operation["in_query"].items():
        if given in arguments:
            words += _asked(operation, given, original, _valued(arguments, given, operation.get("json", ())))
    server = os.environ["OPENAPI_SERVER"].rstrip("/")
    return f"{server}{path}" + (f"?{urlencode(words, quote_via=quote)}" if words else "")


def _asked(operation: Mapping[str, Any], given: str, original: str, value: Any) -> list[tuple[str, str]]:
    """A value in the query: each part on its own, or as the document says."""
    if not isinstance(value, list | dict) or given in operation.get("as_text", ()):
        return [(original, json.dumps(value) if given in operation.get("as_text", ()) else _plain(value))]
    if isinstance(value, list):
        pairs = [(original, _plain(one)) for one in value]
    elif given in operation.get("deep", ()):
        return [(f"{original}[{key}]", _plain(one)) for key, one in value.items()]
    else:
        pairs = [(key, _plain(one)) for key, one in value.items()]
    if given not in operation.get("joined", ()):
        return pairs
    parts = [one for pair in pairs for one in pair[isinstance(value, list) :]]
    return [(original, ",".join(parts))] if parts else []


def sent(operation: Mapping[str, Any], arguments: Mapping[str, Any]) -> bytes:
    """The body of a request, b"" where there is none."""
    texts = operation.get("json", ())
    if whole := operation.get("whole"):
        return json.dumps(_valued(arguments, whole, texts)).encode() if whole in arguments else b""
    record = {
        original: _valued(arguments, given, texts)
        for given, original in operation["in_body"].items()
        if given in arguments
    }
    return json.dumps(record).encode() if operation["in_body"] else b""


def _valued(arguments: Mapping[str, Any], given: str, texts: Collection[str]) -> Any:
    """An argument; what stands as JSON text is read. Raises Failure."""
    if given not in texts:
        return arguments[given]
    try:
        return json.loads(arguments[given], parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise Failure("rejected", f"{given} holds no JSON", nothing_happened=True) from None


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value)


def _read(answer: Any, wire: Any, until: float) -> tuple[bytes, bool]:
    """The body as far as it came, and whether that is all."""
    data = bytearray()
    try:
        while (left := until - time.monotonic()) > 0:
            if not answer.isclosed():
                wire.settimeout(left)
            if not (piece := answer.read1(65_536)):
                return bytes(data), True
            data += piece
            if len(data) > _MOST_BYTES:
                return bytes(data[:_MOST_BYTES]), False
    except (OSError, http.client.HTTPException):
        return bytes(data), False
    return bytes(data), False


def _told(data: bytes, is_whole: bool) -> dict[str, Any]:  # noqa: FBT001 - as it was read
    text = data.decode("utf-8", "replace")
    if not text.strip():
        return {"complete": is_whole}
    try:
        value = json.loads(text, parse_constant=_no_number) if is_whole else text
    except (ValueError, RecursionError):
        value = None
    if is_whole and value is not None and _depth(value) <= _DEEPEST:
        return {"value": value, "complete": True}
    return {"text": text[:_MOST_TEXT], "complete": is_whole and len(text) <= _MOST_TEXT}


def _no_number(word: str) -> Any:
    raise ValueError(word)


def _depth(value: Any, most: int = _DEEPEST + 1) -> int:
    """How deep values are nested, as far as it matters."""
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if not isinstance(value, dict | list):
        return 0
    return 1 + (max((_depth(one, most - 1) for one in below), default=0) if most else 0)


def main() -> None:
    """Serve every operation."""
    found = json.loads((Path(__file__).parent / "operations.json").read_text("utf-8"))
    serve({one["tool"]: tool(one) for one in found})


if __name__ == "__main__":
    main()
