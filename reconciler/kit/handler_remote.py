"""Makes a remote MCP server a connector: streamable HTTP through the gate, names and shapes as mapped.

It runs inside the sandbox, whose one way to the server is the gate, which adds TLS and the headers of secret
slots: nothing here holds a key. ``/app/connector.toml`` says where the server is (``url``) and how its tools
become the interface's (``tool.NAME``, as for a wrapped server). Both eras of the protocol are spoken: with a
handshake and sessions (2025-11-25 and before), and one exchange a call (2026-07-28). A session that the
server has forgotten is begun anew; a stream of events that breaks off is taken up again where it numbers its
events. Nothing else is ever sent twice. Of what the server asks, only a ping is answered.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
import tomllib
from contextlib import suppress
from itertools import count

from handler_connector import MAX_LINE_BYTES, Call, Failure, serve
from handler_gate import Unsent, opened
from handler_wrapper import Refused, Tool

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator
    from typing import Any

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
MODERN = "2026-07-28"
MAX_PAGES = 100
MAX_EVENTS = 10_000  # of one answer
_TAKEN_UP = 5  # times that a broken stream is asked for again
_LOOK_S = 0.05
_TELL_S = 5.0
_SILENT_S = 300.0  # a server says something at least this often, if only that it lives
_AGAIN_S, _AGAIN_MOST_S = 0.2, 2.0
_CONFIG = "/app/connector.toml"
_INFO = {"name": "handler", "version": "1"}
_META = "io.modelcontextprotocol/"
_EVENTS = "text/event-stream"
_NOT_FOUND = -32601
_HTTP_NOT_FOUND = 404
_KEYS = ("401", "403", "407")
_LATER = ("408", "425", "429", "500", "502", "503", "504")
_NO_WAY = ("unreachable", "unresolved", "busy", "idle", "answer", "request")


class Forgotten(Exception):  # noqa: N818 - an answer: the session is to be begun anew
    """The server knows the session no more; the call did not reach it."""


class Remote:
    """The server at an address. Requests come from several threads."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._numbers = count(1)
        self._greeting = threading.Lock()
        self._session = ""
        self._version = VERSIONS[0]
        self._is_modern = False
        self._has_greeted = False

    def greet(self) -> set[str]:
        """Its handshake, in the era that it speaks; the names of its tools. Raises Refused and Unsent."""
        self._hands_shaken()
        names: set[str] = set()
        cursor = None
        for _ in range(MAX_PAGES):
            page = self.ask("tools/list", {"cursor": cursor} if cursor else {})
            tools = page.get("tools")
            listed = tools if isinstance(tools, list) else []
            names |= {str(tool.get("name")) for tool in listed if isinstance(tool, dict)}
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or not cursor:
                break
        return names

    def ask(self, method: str, params: dict[str, Any], call: Call | None = None) -> dict[str, Any]:
        """The result of a request; Refused with its error or its HTTP status, Failure when nobody waits."""
        session = self._session
        try:
            return self._once(method, params, call)
        except Forgotten:
            with self._greeting:
                if self._session == session:  # nobody else has begun another meanwhile
                    self._hands_shaken()
        try:
            return self._once(method, params, call)
        except Forgotten:
            raise Refused("404", "the server forgets each session at once") from None

    def _hands_shaken(self) -> None:
        params: dict[str, Any] = {"protocolVersion": VERSIONS[0], "capabilities": {}, "clientInfo": _INFO}
        try:
            result = self._once("initialize", params, None)
        except Refused as fault:
            if fault.code in _KEYS or fault.code in _LATER:
                raise
            self._is_modern = True
            try:
                self._once("server/discover", {}, None)
            except Refused:
                self._is_modern = False
                raise fault from None
            self._version, self._has_greeted = MODERN, True
            return
        version = result.get("protocolVersion")
        if version not in VERSIONS:
            raise Refused("", f"it speaks MCP {version!r:.40}, which is not spoken here")
        self._version, self._has_greeted = str(version), True
        self._tell("notifications/initialized", {})

    def _once(self, method: str, params: dict[str, Any], call: Call | None) -> dict[str, Any]:
        number = next(self._numbers)
        meta: dict[str, Any] = {"progressToken": number} if call is not None else {}
        if self._is_modern:
            meta |= {f"{_META}protocolVersion": MODERN, f"{_META}clientInfo": _INFO}
            meta |= {f"{_META}clientCapabilities": {}}
        if meta:
            params = {**params, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        watch = _Watch(call)
        try:
            found = self._exchanged(message, number, call, watch)
        except (OSError, Failure) as fault:
            if watch.left:
                self._tell("notifications/cancelled", {"requestId": number})
                raise Failure("unavailable", "nobody waits for it any more") from None
            raise fault if isinstance(fault, Unsent) and call is None else _failure(fault) from None
        finally:
            watch.end()
        if isinstance(error := found.get("error"), dict):
            raise Refused(str(error.get("code")), str(error.get("message")))
        result = found.get("result")
        if not isinstance(result, dict):
            raise Refused("0", "the answer has no result")
        return result

    def _exchanged(
        self, message: dict[str, Any], number: int, call: Call | None, watch: _Watch
    ) -> dict[str, Any]:
        """Send a request and find the message that answers it."""
        answer = self._posted(message, call, watch)
        try:
            if message["method"] == "initialize":
                self._session = answer.headers.get("mcp-session-id", "")
            kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind == _EVENTS and answer.status == 200:
                return self._heard(answer, number, call, watch)
            if kind == "application/json":
                found = _message(_read(answer))
                if found is not None and _is_answer(found, number, answer.status):
                    return found
        finally:
            answer.close()
        if answer.status == _HTTP_NOT_FOUND and self._session and message["method"] != "initialize":
            raise Forgotten
        words = "a redirect, which is not followed" if 300 <= answer.status < 400 else "no MCP"
        raise Refused(str(answer.status), f"the server answers status {answer.status}: {words}")

    def _heard(self, answer: Any, number: int, call: Call | None, watch: _Watch) -> dict[str, Any]:
        """The answer among the events of a stream, which is taken up again where it breaks off."""
        last, wait_s = "", 1.0
        for _ in range(_TAKEN_UP):
            with suppress(ConnectionError):
                for event in _events(answer):
                    last, wait_s = event.number or last, event.wait_s or wait_s
                    found = _message(event.data)
                    if found is not None and (mine := self._said(found, number, call)) is not None:
                        return mine
            answer.close()
            if not last or watch.left:
                break
            time.sleep(min(wait_s, 5.0))
            more = {"accept": _EVENTS, "last-event-id": last, **self._own("")}
            answer = opened("GET", self._url, more, timeout=_SILENT_S, call=call, begun=watch.begun)
            if answer.headers.get("content-type", "").partition(";")[0] != _EVENTS:
                break
        raise Failure("unavailable", "the server broke its answer off")

    def _said(self, found: dict[str, Any], number: int, call: Call | None) -> dict[str, Any] | None:
        """The answer, when a message is it; what the server tells or asks besides is seen to."""
        if "method" not in found:
            return found if found.get("id") == number and found.keys() & _ANSWERS else None
        params = found.get("params")
        if "id" in found:
            answer: dict[str, Any] = {"jsonrpc": "2.0", "id": found["id"]}
            error = {"code": _NOT_FOUND, "message": "nothing but tools is served here"}
            answer |= {"result": {}} if found["method"] == "ping" else {"error": error}
            self._dropped(answer)
        elif found["method"] == "notifications/progress" and call is not None and isinstance(params, dict):
            done, total = params.get("progress"), params.get("total")
            if params.get("progressToken") == number and type(done) in (int, float):
                call.progress(done, total if type(total) in (int, float) else None)
        return None

    def _posted(self, message: dict[str, Any], call: Call | None, watch: _Watch | None) -> Any:
        headers = {"content-type": "application/json", "accept": f"application/json, {_EVENTS}"}
        headers |= self._own(str(message.get("method", "")), message.get("params"))
        body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
        begun = watch.begun if watch is not None else None
        return opened("POST", self._url, headers, body, timeout=_SILENT_S, call=call, begun=begun)

    def _own(self, method: str, params: Any = None) -> dict[str, str]:
        """The headers by which the server knows the era, and the session."""
        if method == "initialize":
            return {}
        if self._is_modern:
            name = params.get("name") if isinstance(params, dict) and method == "tools/call" else None
            named = {"mcp-name": str(name)} if name else {}
            return {"mcp-protocol-version": MODERN, "mcp-method": method, **named}
        session = {"mcp-session-id": self._session} if self._session else {}
        return session | ({"mcp-protocol-version": self._version} if self._has_greeted else {})

    def _tell(self, method: str, params: dict[str, Any]) -> None:
        """Tell it something, and wait until it has heard that, or for some seconds."""
        if not self._is_modern:
            self._dropped({"jsonrpc": "2.0", "method": method, "params": params}).join(_TELL_S)

    def _dropped(self, message: dict[str, Any]) -> threading.Thread:
        """Send what has no answer, in a thread of its own: it serves no call, which may be over."""

        def post() -> None:
            with suppress(OSError):
                self._posted(message, None, None).close()

        thread = threading.Thread(target=post, daemon=True)
        thread.start()
        return thread


_ANSWERS = {"result", "error"}


def _is_answer(found: dict[str, Any], number: int, status: int) -> bool:
    """Whether JSON is the answer to a request, and not what a door in front of the server says."""
    if str(status) in (*_KEYS, *_LATER, "404"):
        return False
    error = found.get("error")
    if isinstance(error, dict) and found.get("id") is None:
        return True  # it could not even read whose answer this is
    return found.get("id") == number and ("result" in found or isinstance(error, dict))


def _failure(fault: Exception) -> Failure:
    match fault:
        case Failure():
            return fault
        case TimeoutError():
            return Failure("unavailable", "the server said nothing for too long")
        case Unsent():
            return Failure("unavailable", f"{fault.cause}: {fault.why}")
        case _:
            return Failure("unavailable", "the server broke its answer off")


def _read(answer: Any) -> bytes:
    try:
        data: bytes = answer.read(MAX_LINE_BYTES + 1)
    except OSError:
        raise
    except Exception as fault:  # noqa: BLE001 - http.client's own, of half an answer
        raise ConnectionError(type(fault).__name__) from None
    return data


class _Watch:
    """Ends a request when nobody waits for its call any more."""

    def __init__(self, call: Call | None) -> None:
        self._call, self._over = call, threading.Event()
        self._wire: socket.socket | None = None
        self.left = False

    def begun(self, wire: socket.socket) -> None:
        self._wire = wire
        if self._call is not None and not self.left:
            threading.Thread(target=self._look, args=(wire, self._call), daemon=True).start()

    def end(self) -> None:
        self._over.set()

    def _look(self, wire: socket.socket, call: Call) -> None:
        while self._wire is wire and not self._over.wait(_LOOK_S):
            if call.cancelled.is_set():
                self.left = True
                with suppress(OSError):
                    wire.shutdown(2)
                return


class _Event:
    __slots__ = ("data", "number", "wait_s")

    def __init__(self) -> None:
        self.data, self.number, self.wait_s = b"", "", 0.0


def _events(answer: Any) -> Iterator[_Event]:
    """The events of a stream; ConnectionError where it breaks off, Failure for one without an end."""
    event, size = _Event(), 0
    for _ in range(MAX_EVENTS * 10):
        try:
            line = answer.readline(MAX_LINE_BYTES)
        except TimeoutError:
            raise
        except Exception as fault:  # noqa: BLE001 - http.client's own, of half a chunk
            raise ConnectionError(type(fault).__name__) from None
        if not line:
            return
        size += len(line)
        if size >= MAX_LINE_BYTES:
            break
        name, _, value = line.rstrip(b"\r\n").partition(b":")
        value = value.removeprefix(b" ")
        if not name and not value and line in (b"\n", b"\r\n"):
            yield event
            event, size = _Event(), 0
        elif name == b"data":
            event.data += value + b"\n"
        elif name == b"id" and re.fullmatch(rb"[\x21-\x7e]{1,1000}", value):
            event.number = value.decode()
        elif name == b"retry" and value.isdigit():
            event.wait_s = int(value[:9]) / 1000
    raise Failure("unavailable", "an event of the server's does not end, or its events do not")


def _message(data: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(data) if data and len(data) <= MAX_LINE_BYTES else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - the connector's log


def _greeted(server: Remote) -> set[str]:
    """Its tools, as soon as it answers; Refused for what waiting does not mend."""
    wait_s, said = _AGAIN_S, ""
    while True:
        try:
            return server.greet()
        except Refused as fault:
            if fault.code not in _LATER:
                raise
            words = fault.text
        except Unsent as fault:
            if fault.cause not in _NO_WAY:
                raise Refused("", f"{fault.cause}: {fault.why}") from None
            words = fault.why
        except (OSError, Failure) as fault:
            words = getattr(fault, "diagnostic", "") or str(fault)
        if words != said:
            _say(f"the server cannot be greeted yet: {words}")
        said = words
        time.sleep(wait_s)
        wait_s = min(2 * wait_s, _AGAIN_MOST_S)


def main() -> int:
    """Greet the server and serve its tools; an exit code when it refuses."""
    with open(_CONFIG, "rb") as file:  # noqa: PTH123 - pathlib costs 3 ms at start
        config = tomllib.load(file)
    mappings = config.get("tool", {})
    server = Remote(config["url"])
    try:
        there = _greeted(server)
    except Refused as fault:
        _say(f"handler: the server refuses the handshake: {fault.code} {fault.text}")
        return 1
    tools = {name: Tool(server, name, mapping) for name, mapping in mappings.items()}
    missing = sorted({tool.theirs for tool in tools.values()} - there)
    if missing:
        _say(f"handler: the server has no tool {', '.join(missing)}; it has {', '.join(sorted(there))}")
        return 1
    serve(tools)
    return 0


if __name__ == "__main__":
    os._exit(main())
