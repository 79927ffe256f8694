"""JSON-RPC 2.0, one message a line: strict reading, and writing. Pure.

Agents and connectors are spoken to with this codec. Lines are cut by ``framing`` and read by ``strict``; here
they become requests, notifications and answers, or a fault that says what to answer. Batches are refused; ids
are strings of at most 256 bytes or 64-bit integers. What a method means is not decided here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import orjson

from reconciler.wire.strict import parse

MAX_ID_BYTES = 256
MAX_METHOD = 128

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603


Id = str | int


@dataclass(slots=True)
class Request:
    """A call that wants an answer. ``params`` is ``{}`` when there were none."""

    id: Id
    method: str
    params: dict[str, Any]


@dataclass(slots=True)
class Notification:
    method: str
    params: dict[str, Any]


@dataclass(slots=True)
class Response:
    """An answer: ``error`` is None, or the code and the words of a failure."""

    id: Id | None
    result: Any
    error: tuple[int, str] | None = None


@dataclass(slots=True)
class Fault:
    """A line that is no message: what to answer, and to which id (None where it cannot be known)."""

    code: int
    message: str
    id: Id | None = None


Message = Request | Notification | Response | Fault


def decode(line: bytes) -> Message:
    """Read one line as a message; never raises. A Fault says what to answer to what is no message."""
    try:
        return understood(parse(line))
    except ValueError as error:
        return Fault(PARSE_ERROR, f"cannot read this line: {error}")


def understood(message: Any) -> Message:
    """What a line that was read says as JSON-RPC; never raises."""
    if type(message) is not dict:
        what = "a batch is not answered: send one message a line"
        return Fault(INVALID_REQUEST, what if type(message) is list else "a message is an object")
    try:  # the two usual shapes, with exactly their keys; all else is looked at one rule after the other
        ident = message["id"]
        if message["jsonrpc"] == "2.0" and (
            type(ident) is int or (type(ident) is str and len(ident) <= _SHORT_ID)
        ):
            if len(message) == _RESPONSE_KEYS and "result" in message:
                return Response(ident, message["result"])
            method, params = message["method"], message["params"]
            if (
                len(message) == _REQUEST_KEYS
                and type(params) is dict
                and type(method) is str
                and len(method) <= MAX_METHOD
            ):
                return Request(ident, method, params)
    except KeyError:
        pass
    return _unusual(message)


def encode(message: Mapping[str, Any]) -> bytes:
    """One message as one line, its end included."""
    return orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)


def result(ident: Id, value: Mapping[str, Any]) -> bytes:
    """The line that answers ``ident``."""
    return encode({"jsonrpc": "2.0", "id": ident, "result": value})


def error(ident: Id | None, code: int, message: str, data: Mapping[str, Any] | None = None) -> bytes:
    """The line that refuses ``ident`` (None: it could not be known)."""
    body: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        body["data"] = data
    return encode({"jsonrpc": "2.0", "id": ident, "error": body})


_SHORT_ID = MAX_ID_BYTES // 4  # characters that fit in any case
_REQUEST_KEYS = 4  # jsonrpc, id, method, params
_RESPONSE_KEYS = 3  # jsonrpc, id, result


def _with_params(message: dict[str, Any], ident: Id | None, method: str) -> Message:
    params = message.get("params", _NONE)
    if params is _NONE:
        params = {}
    if ident is None:  # whatever is wrong with a notification, JSON-RPC leaves it unanswered
        return Notification(method[:MAX_METHOD], params if type(params) is dict else {})
    if type(params) is not dict:
        return Fault(INVALID_PARAMS, "params must be an object", ident)
    if len(method) > MAX_METHOD:
        return Fault(METHOD_NOT_FOUND, "there is no method of that length", ident)
    return Request(ident, method, params)


_NONE: Any = object()


def _unusual(message: dict[str, Any]) -> Message:
    """Everything but a plain request: notifications, answers, and what is neither."""
    ident = message.get("id")
    # An id in what is no request is one that we gave: an answer by it would be taken for another one's.
    known = ident if id_is_legal(ident) and not ("result" in message or "error" in message) else None
    if message.get("jsonrpc") != "2.0":
        return Fault(INVALID_REQUEST, 'a message says "jsonrpc": "2.0"', known)
    if ("method" in message) + ("result" in message) + ("error" in message) != 1:
        return Fault(INVALID_REQUEST, "a message has exactly one of method, result and error", known)
    if "method" not in message:
        return _response(message, ident if id_is_legal(ident) else None)
    if "id" in message and known is None:
        return Fault(
            INVALID_REQUEST, f"an id is a 64-bit integer or a string of at most {MAX_ID_BYTES} bytes"
        )
    method = message["method"]
    if type(method) is not str:
        return Fault(INVALID_REQUEST, "method must be a string", known)
    return _with_params(message, known, method)


def _response(message: dict[str, Any], ident: Id | None) -> Message:
    if "result" in message:
        if ident is None:
            return Fault(INVALID_REQUEST, "an answer names the id that it answers")
        return Response(ident, message["result"])
    body = message["error"]
    code = body.get("code") if type(body) is dict else None
    words = body.get("message") if type(body) is dict else None
    return Response(
        ident,
        None,
        (code if type(code) is int else INTERNAL_ERROR, words if type(words) is str else ""),
    )


def id_is_legal(value: object) -> TypeGuard[Id]:
    """A string of at most 256 bytes or an integer; never a boolean, a fraction or null."""
    if type(value) is str:
        return len(value) <= _SHORT_ID or len(value.encode()) <= MAX_ID_BYTES
    return type(value) is int
