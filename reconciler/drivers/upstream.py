"""The MCP that our side speaks to a connector: lines to send, and what a line from it means. Pure.

MCP 2025-11-25, one message a line. Of what a connector says only its structured answer, a code and the blobs
of output files go on; its words become a diagnostic for the operator's journal, cut short. It is a server of
tools and nothing else: what it asks of us (sampling, roots, elicitation) is answered -32601, what it
announces is not heard (S1). Whether a code is one of the interface's is decided by the law of a call.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import orjson

from reconciler.model.calls import Added, NoEffect, Refusal, Reply, Result
from reconciler.wire import jsonrpc
from reconciler.wire.jsonrpc import Id, Notification, Request, Response
from reconciler.wire.strict import read as read_exact

VERSION = "2025-11-25"
FILES_KEY = "ai.handler/files"
ADDED_KEY = "ai.handler/added"
ERROR_KEY = "ai.handler/error"
EFFECT_KEY = "ai.handler/effect"  # "none": the connector says that the call that failed did nothing
_ANSWER_KEYS = 3  # jsonrpc, id, result
_MAX_DIAGNOSTIC = 500  # characters
_MAX_ERROR_TEXT = 16 * 1024  # characters at the end of an error's text in which its code is looked for…
_MAX_ERROR_LINES = 8  # …and of its lines: each is a try to read JSON
_HEAD_ID = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*,')
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(slots=True)
class Progressed:
    number: int
    progress: float
    total: float | None


@dataclass(slots=True)
class Garbage:
    """A line that means nothing. It is counted."""

    why: str


# An answer to a number of ours, progress, a line to send back, what means nothing, or what may be ignored.
Heard = Response | Progressed | bytes | Garbage | None


def initialize(number: int, version: str) -> bytes:
    """The first line to a connector. ``version`` is the product's."""
    params = {
        "protocolVersion": VERSION,
        "capabilities": {},
        "clientInfo": {"name": "handler", "version": version},
    }
    return jsonrpc.encode({"jsonrpc": "2.0", "id": number, "method": "initialize", "params": params})


# The line that ends the handshake.
INITIALIZED = jsonrpc.encode({"jsonrpc": "2.0", "method": "notifications/initialized"})


def ping(number: int) -> bytes:
    """A line that any living connector answers."""
    return jsonrpc.encode({"jsonrpc": "2.0", "id": number, "method": "ping"})


def call(number: int, tool: str, arguments: Mapping[str, Any], *, progress: bool) -> bytes:
    """The line of one call; with ``progress`` the connector may report under the call's number."""
    meta = b',"_meta":{"progressToken":%d}' % number if progress else b""
    return _CALL % (number, orjson.dumps(tool), orjson.dumps(arguments), meta)


# Written by hand: a dictionary of dictionaries costs more than all that it says.
_CALL = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%b,"arguments":%b%b}}\n'


def cancel(number: int) -> bytes:
    """The line that says nobody waits for a call any more."""
    return jsonrpc.encode(
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
    )


def read(line: bytes) -> Heard:
    """What a connector's line means."""
    try:
        value = read_exact(line)
    except ValueError as error:
        return Garbage(str(error))
    # The usual line, an answer to a number of ours, in a few steps.
    if type(value) is dict and len(value) == _ANSWER_KEYS and "result" in value:
        number = value.get("id")
        if type(number) is int and value.get("jsonrpc") == "2.0":
            return Response(number, value["result"])
    return _unusual(jsonrpc.understood(value))


def _unusual(message: jsonrpc.Message) -> Heard:
    if isinstance(message, Response):
        return message if type(message.id) is int else Garbage("an answer to an id that was never given")
    if isinstance(message, Notification):
        return _progress(message.params) if message.method == "notifications/progress" else None
    if isinstance(message, Request):
        return _refusal(message.id, message.method)
    return Garbage(message.message)


def owner(head: bytes) -> int | None:
    """Whose answer a line was that is too long to read, when its head says so."""
    match = _HEAD_ID.match(head)
    return int(match[1]) if match else None


def greeting_fault(response: Response) -> str | None:
    """What is wrong with the answer to ``initialize``, or None."""
    result = response.result
    if type(result) is dict and type(result.get("protocolVersion")) is str:
        return None
    return _error(response) or "it names no protocol version"


def _error(response: Response) -> str:
    return f"error {response.error[0]}: {_cut(response.error[1])}" if response.error else ""


def reply(response: Response) -> Reply:
    """What an answer to ``tools/call`` says: a result, or a refusal with the connector's own code."""
    result = response.result
    if type(result) is not dict:
        return Refusal("unavailable", _error(response) or "the answer is not an object", own=True)
    if "isError" in result and result["isError"] is not False:
        return _refused(result)
    structured = result.get("structuredContent")
    if type(structured) is not dict:
        return Refusal("unavailable", "the answer has no structuredContent", own=True)
    if "_meta" in result and type(meta := result["_meta"]) is dict and not meta.keys().isdisjoint(_HANDED):
        files, added = _files(meta.get(FILES_KEY, _NO_FILES)), _added(meta.get(ADDED_KEY, []))
        if files is None or added is None:
            return Refusal("unavailable", "the answer's files are not as agreed", own=True)
        return Result(structured, files, added=added)
    return Result(structured, _NO_FILES)


_NO_FILES: Mapping[str, str] = {}
_HANDED = frozenset((FILES_KEY, ADDED_KEY))
_MOST_ADDED = 16  # files of one answer


def _added(value: object) -> tuple[Added, ...] | None:
    if type(value) is not list or len(value) > _MOST_ADDED:
        return None
    found = []
    for entry in value:
        words = [entry.get(key) for key in ("setting", "name", "blob")] if type(entry) is dict else [None]
        if not all(type(word) is str for word in words):
            return None
        found.append(Added(*words))
    return tuple(found)


def _files(value: object) -> Mapping[str, str] | None:
    if type(value) is not dict:
        return None
    found = {}
    for name, entry in value.items():
        if type(entry) is not dict or type(entry.get("blob")) is not str:
            return None
        found[name] = entry["blob"]
    return found


def _refused(result: Mapping[str, Any]) -> Refusal:
    """A tool error: our own ``_meta`` key, or the JSON object that ends its text, whichever is there."""
    meta = result.get("_meta")
    mine = meta.get(ERROR_KEY) if type(meta) is dict else None
    proof: NoEffect = "said" if type(meta) is dict and meta.get(EFFECT_KEY) == "none" else ""
    if type(mine) is dict and (code := _code(mine.get("code"))):
        return Refusal(code, _cut(mine.get("diagnostic")), no_effect=proof, own=True)
    text = _first_text(result.get("content"))
    for line in (text, *reversed(text[-_MAX_ERROR_TEXT:].splitlines()[-_MAX_ERROR_LINES:])):
        try:
            body = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if type(body) is dict and (code := _code(body.get("error"))):
            return Refusal(code, _cut(body.get("message")), no_effect=proof, own=True)
    return Refusal("unavailable", _cut(text) or "an error without a code", no_effect=proof, own=True)


def _code(value: object) -> str | None:
    return value if isinstance(value, str) and _CODE.fullmatch(value) else None


def _first_text(content: object) -> str:
    block = content[0] if type(content) is list and content else None
    text = block.get("text") if type(block) is dict else None
    return text if type(text) is str else ""


def _progress(params: Mapping[str, Any]) -> Heard:
    number, progress, total = params.get("progressToken"), params.get("progress"), params.get("total")
    if type(number) is not int or not _is_number(progress):
        return Garbage("progress of nothing")
    return Progressed(number, progress, total if _is_number(total) else None)


def _is_number(value: object) -> TypeGuard[float]:
    return type(value) is int or type(value) is float


def _refusal(ident: Id, method: str) -> bytes:
    if method == "ping":
        return jsonrpc.result(ident, {})
    return jsonrpc.error(ident, jsonrpc.METHOD_NOT_FOUND, "a connector is served no methods")


def _cut(text: object) -> str:
    """A connector's words as a diagnostic: one printable line, bounded."""
    if type(text) is not str:
        return ""
    line = " ".join(text[: 2 * _MAX_DIAGNOSTIC].split())
    return "".join(ch for ch in line if ch.isprintable())[:_MAX_DIAGNOSTIC]
