"""JSON-RPC 2.0, one message a line: bounded framing, strict reading, writing. Pure.

Everything that speaks on a socket of ours uses this codec: agents, connectors, the control socket. It is
stricter than RFC 8259 where parsers are known to differ: split on 0x0A only, UTF-8 by the book, no duplicate
keys, no NaN, no lone surrogates, no number beyond 64 bits or a double, at most 64 levels. The reader is
orjson; what orjson lets through (duplicate keys, depth, large integers turned into floats) is checked against
the raw line, most often by writing the value again and finding the same bytes. Batches are refused. What a
method means is not decided here.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import orjson

MAX_LINE = 4 * 2**20  # from agents; a connector's bound follows the interface's limits
MAX_DEPTH = 64
MAX_ID_BYTES = 256
MAX_METHOD = 128

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

_HEAD = 256  # bytes of an oversized line that are kept, to see whose it was
_TOO_DEEP = f"it is nested deeper than {MAX_DEPTH} levels"
_SPACE = 0x20
_COUNTED = 1024  # bytes of a line short enough to count its brackets
_INT64 = 2.0**63

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


@dataclass(slots=True)
class Oversized:
    """A line above the bound, reported once and then dropped up to its end."""

    head: bytes


class Framer:
    """Cuts a byte stream into lines at 0x0A, never holding more than ``limit`` bytes of one.

    A longer line is reported once, as soon as it is too long, and skipped; the next line is whole again.
    """

    __slots__ = ("_parts", "_size", "dropped", "limit", "skipping")

    def __init__(self, limit: int = MAX_LINE) -> None:
        self.limit = limit
        self.skipping = False
        self.dropped = 0  # bytes of the line being skipped
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        """The lines that ``data`` completes, in order, blank ones left out. One may still have its end on."""
        size = len(data)
        if (  # one whole line: the usual case
            not self._size
            and not self.skipping
            and data.find(b"\n") == size - 1
            and 1 < size <= self.limit
            and data[0] > _SPACE
        ):
            return [data]
        lines: list[bytes | Oversized] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._take(data[start:end], lines)
            self._end(lines)
            start = end + 1
        if start < size:
            self._take(data[start:] if start else data, lines)
        return lines

    def _take(self, piece: bytes, lines: list[bytes | Oversized]) -> None:
        if self.skipping:
            self.dropped += len(piece)
            return
        self._parts.append(piece)
        self._size += len(piece)
        if self._size > self.limit:
            lines.append(Oversized(b"".join(self._parts)[:_HEAD]))
            self.skipping, self.dropped = True, self._size
            self._parts, self._size = [], 0

    def _end(self, lines: list[bytes | Oversized]) -> None:
        if self.skipping:
            self.skipping = False
            self.dropped = 0
            return
        line = b"".join(self._parts) if len(self._parts) != 1 else self._parts[0]
        self._parts, self._size = [], 0
        if line and not line.isspace():
            lines.append(line)


def parse(line: bytes) -> Any:
    """Read strict JSON; raises ValueError with one clause that repeats nothing of the input."""
    try:
        value = orjson.loads(line)
        same = orjson.dumps(value)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"this is not JSON at character {error.pos + 1}") from None
    except TypeError:  # orjson writes 254 levels
        raise ValueError(_TOO_DEEP) from None
    # The same bytes again (and the line's end): no key stood twice, no number was bent.
    if len(line) - len(same) > 1 or not line.startswith(same):
        _need_single_keys(line, value)
    if len(line) > _COUNTED or line.count(b"{") + line.count(b"[") > MAX_DEPTH:
        _need_shallow(value)
    return value


def decode(line: bytes) -> Message:
    """Read one line as a message; never raises. A Fault says what to answer to what is no message."""
    try:
        message = parse(line)
    except ValueError as error:
        return Fault(PARSE_ERROR, f"cannot read this line: {error}")
    if type(message) is not dict:
        what = "a batch is not answered: send one message a line"
        return Fault(INVALID_REQUEST, what if type(message) is list else "a message is an object")
    # The two usual shapes, with exactly their keys; all else is looked at one rule after the other.
    ident = message.get("id")
    if message.get("jsonrpc") == "2.0" and (
        type(ident) is int or (type(ident) is str and len(ident) <= _SHORT_ID)
    ):
        if len(message) == _REQUEST_KEYS:
            method, params = message.get("method"), message.get("params")
            if type(method) is str and type(params) is dict and len(method) <= MAX_METHOD:
                return Request(ident, method, params)
        elif len(message) == _RESPONSE_KEYS and "result" in message:
            return Response(ident, message["result"])
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
    elif type(params) is not dict:
        return Fault(INVALID_PARAMS, "params must be an object", ident)
    if len(method) > MAX_METHOD:
        return Fault(METHOD_NOT_FOUND, "there is no method of that length", ident)
    return Notification(method, params) if ident is None else Request(ident, method, params)


_NONE: Any = object()


def _unusual(message: dict[str, Any]) -> Message:
    """Everything but a plain request: notifications, answers, and what is neither."""
    ident = message.get("id")
    known = ident if id_is_legal(ident) else None
    if message.get("jsonrpc") != "2.0":
        return Fault(INVALID_REQUEST, 'a message says "jsonrpc": "2.0"', known)
    if ("method" in message) + ("result" in message) + ("error" in message) != 1:
        return Fault(INVALID_REQUEST, "a message has exactly one of method, result and error", known)
    if "method" not in message:
        return _response(message, known)
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


def id_is_legal(value: object) -> bool:
    """A string of at most 256 bytes or an integer; never a boolean, a fraction or null."""
    if type(value) is str:
        return len(value) <= _SHORT_ID or len(value.encode()) <= MAX_ID_BYTES
    return type(value) is int


def _need_shallow(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [node for node in level if type(node) is dict or type(node) is list]
        if not level:
            return
        level = [item for node in level for item in (node.values() if type(node) is dict else node)]
    raise ValueError(_TOO_DEEP)


def _need_single_keys(line: bytes, value: Any) -> None:
    """Check a line that is not written as we write: count its members, or read it again, slowly.

    Every member has a colon outside of strings. So when the colons of the line, less those inside of its
    strings, are as many as the members that were read, none was lost to a second one of the same name.
    """
    if b"\\u003" not in line:
        found = _members(value)
        if found is not None and found == line.count(b":"):
            return
    _read_slowly(line)


def _members(value: Any) -> int | None:
    """Members and colons inside strings; None where a number may have been bent."""
    total = 0
    stack = [value]
    while stack:
        node = stack.pop()
        kind = type(node)
        if kind is str:
            total += node.count(":")
        elif kind is dict:
            total += len(node)
            stack.extend(node)
            stack.extend(node.values())
        elif kind is list:
            stack.extend(node)
        elif kind is float and not -_INT64 < node < _INT64:
            return None
    return total


def _read_slowly(line: bytes) -> None:
    def single(pairs: list[tuple[str, Any]]) -> None:
        if len({key for key, _ in pairs}) != len(pairs):
            raise ValueError("a key stands twice in one object")

    def fits(text: str) -> int:
        if len(text) > _MAX_DIGITS or not -(2**63) <= int(text) < 2**64:
            raise ValueError("an integer does not fit 64 bits")
        return 0

    try:
        json.loads(line.decode(), object_pairs_hook=single, parse_int=fits, parse_constant=_refuse)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


_MAX_DIGITS = 21


def _refuse(_: str) -> NoReturn:
    raise ValueError("a number is not finite")
