"""What a python connector imports: name your functions, and they are served as an interface's tools.

    from handler_connector import Failure, serve

    def ocr_extract(args, call):
        page = args["path"].read()                       # an input file: its bytes
        if not page.startswith(b"%PDF"):
            raise Failure("unsupported_format", "the first bytes are not a PDF's")
        return {"text": read_text(page)}                 # what the interface's output schema says

    serve({"ocr_extract": ocr_extract})

A function gets the arguments, already validated against the interface, and a ``Call``; it returns a plain
dict. Several calls run at once, each in a thread of its own. Standard library only; what is printed goes to
the connector's log. Wire: MCP, one JSON message a line, on the socket that Handler hands over.
"""

from __future__ import annotations

import json
import os
import socket
import threading

TYPE_CHECKING = False  # typing costs 5 ms at start, and nothing here needs it when it runs
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, BinaryIO

    Tool = Callable[[dict[str, Any], "Call"], Mapping[str, Any]]

INBOX = "/run/connector/in"
OUTBOX = "/run/connector/out"
MAX_LINE_BYTES = 16 * 2**20  # a request is at most 4 MiB at the agents' door; the rest is room for escapes
_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
_ADDED = iter(range(2**63))  # one number for each file; next() of it is atomic
_INFO = {"name": "handler-connector", "version": "1"}


class Failure(Exception):  # noqa: N818 - it is an answer of the interface, not an error of the program
    """End the call with one of the interface's error codes.

    ``diagnostic`` is for the operator's journal; the agent sees the interface's own words for the code.
    ``nothing_happened`` matters where a tool has an effect (sends, pays, writes): with True you vouch that
    this call had none. Without it ``unavailable`` reaches the agent as ``outcome_unknown``; any other code
    means by itself that nothing happened.
    """

    def __init__(self, code: str, diagnostic: str = "", *, nothing_happened: bool = False) -> None:
        super().__init__(code, diagnostic)
        self.code = code
        self.diagnostic = diagnostic
        self.nothing_happened = nothing_happened


class File:
    """A file that the agent handed in; ``size`` is in bytes, ``path`` may be given to a program to read."""

    __slots__ = ("media_type", "name", "path", "size")

    def __init__(self, name: str, media_type: str, size: int, path: str) -> None:
        self.name = name
        self.media_type = media_type
        self.size = size
        self.path = path

    def read(self, size: int = -1) -> bytes:
        """All its bytes, or the first ``size``."""
        with self.open() as file:
            return file.read(size)

    def open(self) -> BinaryIO:
        """The file, open for reading: for what is too large to hold."""
        return open(self.path, "rb")  # noqa: PTH123 - pathlib costs 3 ms at start


class OutputFile:
    """A file that the agent asked for: write it once, whole or through ``open``. ``name`` is the agent's."""

    __slots__ = ("blob", "name", "path")

    def __init__(self, name: str, blob: str, path: str) -> None:
        self.name = name
        self.blob = blob
        self.path = path

    def write(self, data: bytes) -> None:
        """Make ``data`` the file's content."""
        with self.open() as file:
            file.write(data)

    def open(self) -> BinaryIO:
        """The file, empty, open for writing; close it before the call returns."""
        return open(self.path, "wb")  # noqa: PTH123 - as above; the connector closes it


class Cancelled(threading.Event):
    """Whether nobody waits for a call any more: ``if call.cancelled``, ``call.cancelled.wait(seconds)``."""

    def __bool__(self) -> bool:
        return self.is_set()


class Call:
    """One call that is running: ask whether it is still wanted, and tell how far it is."""

    __slots__ = ("_connection", "_last", "_token", "added", "cancelled", "number", "tool")

    def __init__(self, connection: _Connection, number: Any, params: Mapping[str, Any]) -> None:
        meta = params.get("_meta")
        self._connection = connection
        self._token = meta.get("progressToken") if isinstance(meta, dict) else None
        self._last = -1.0
        self.number = number
        self.tool = params.get("name")
        self.cancelled = Cancelled()
        self.added: list[dict[str, Any]] = []

    def add(self, setting: str, name: str, data: bytes) -> None:
        """Hand over a new file for the folder of a setting with ``access = "add"``, under a plain ``name``
        below it (``new/1.a``). It is put there, whole and on the disk, once the call has answered, before
        the agent hears of it; where that fails so does the call. What is there is never replaced.
        """
        blob = f"added-{os.getpid()}-{next(_ADDED)}"
        with open(f"{OUTBOX}/{blob}", "xb") as file:  # noqa: PTH123 - as above
            file.write(data)
        self.added.append({"setting": setting, "name": name, "blob": blob, "size": len(data)})

    def progress(self, done: float, total: float | None = None) -> None:
        """Tell how far the call is. ``done`` grows: what does not is left out. Free when nobody listens."""
        if self._token is None or done <= self._last or self.cancelled:
            return
        self._last = done
        params: dict[str, Any] = {"progressToken": self._token, "progress": done}
        if total is not None:
            params["total"] = total
        self._connection.write({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})


_SECRETS: dict[str, str] = {}  # what was read from a descriptor, which gives it once
for _name, _number in os.environ.items():
    if _name.startswith("HANDLER_SECRET_FD_"):
        os.set_inheritable(int(_number), False)  # noqa: FBT003 - no program that it starts gets it


def secret(slot: str) -> str | None:
    """The secret that the binding put into a slot of ``connector.toml``; None where it put none.

    It comes however the slot says (``via``); keep it out of answers, files and what is printed.
    """
    name = slot.upper().replace("-", "_")
    if slot in _SECRETS:
        return _SECRETS[slot]
    if number := os.environ.pop(f"HANDLER_SECRET_FD_{name}", None):
        with open(int(number), encoding="utf-8", newline="") as file:  # noqa: PTH123 - as above
            return _SECRETS.setdefault(slot, file.read())
    if path := os.environ.get(f"HANDLER_SECRET_FILE_{name}"):
        with open(path, encoding="utf-8", newline="") as file:  # noqa: PTH123 - as above
            return file.read()
    return os.environ.get(os.environ.get(f"HANDLER_SECRET_ENV_{name}", ""))


_RUNNING = threading.local()  # the call that a thread answers


def running() -> Call | None:
    """The call that this thread answers; None in a thread that a connector started."""
    call: Call | None = getattr(_RUNNING, "call", None)
    return call


def __getattr__(name: str) -> Any:
    """``request`` and its kin, from a file of their own that only those load who ask."""
    if name in ("request", "opened", "Response", "Unsent"):
        import handler_gate  # noqa: PLC0415 - as said

        return getattr(handler_gate, name)
    if name in ("ask", "Unanswered"):
        import handler_asking  # noqa: PLC0415 - as said

        return getattr(handler_asking, name)
    raise AttributeError(name)


def serve(tools: Mapping[str, Tool]) -> None:
    """Serve ``tools`` (tool name → function) until the process is stopped; it does not return.

    Listens on the descriptor in ``HANDLER_CONNECTOR_FD``, else on the path in ``HANDLER_CONNECTOR_SOCKET``.
    """
    with _listener() as listener:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_Connection(connection, tools).run, daemon=True).start()


def _listener() -> socket.socket:
    if number := os.environ.get("HANDLER_CONNECTOR_FD"):
        return socket.socket(fileno=int(number))
    path = os.environ["HANDLER_CONNECTOR_SOCKET"]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(128)
    return listener


class _Connection:
    """One client: reads its lines in one thread, answers each call from a thread of its own."""

    def __init__(self, connection: socket.socket, tools: Mapping[str, Tool]) -> None:
        self._socket = connection
        self._tools = tools
        self._calls: dict[Any, Call] = {}
        self._writing = threading.Lock()

    def run(self) -> None:
        """Read until the client leaves or breaks the framing; then nobody waits for its calls."""
        try:
            with self._socket.makefile("rb", 65536) as lines:
                while line := lines.readline(MAX_LINE_BYTES):
                    if not line.endswith(b"\n"):
                        break  # longer than a line may be, or cut off
                    self._read(line)
        except OSError:
            pass  # the client is gone
        finally:
            for call in list(self._calls.values()):
                call.cancelled.set()
            self._socket.close()

    def write(self, message: Mapping[str, Any]) -> None:
        """Send one message; a client that has left is not an error of the call."""
        self._send(_line(message))

    def _send(self, line: bytes) -> None:
        try:
            with self._writing:
                self._socket.sendall(line)
        except OSError:
            pass

    def _read(self, line: bytes) -> None:
        try:
            message = json.loads(line.decode())
        except (ValueError, RecursionError):
            return self._fail(None, -32700, "the line is not JSON")
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            return None  # an answer to a question that was never asked
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        if "id" not in message:
            return self._note(message["method"], params)
        if message["method"] == "tools/call":
            return self._start(message["id"], params)
        result = self._about(message["method"], params)
        if result is None:
            return self._fail(message["id"], -32601, "there is no such method")
        return self.write({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def _note(self, method: str, params: Mapping[str, Any]) -> None:
        call = self._calls.get(params.get("requestId")) if method == "notifications/cancelled" else None
        if call is not None:
            call.cancelled.set()

    def _about(self, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
        capabilities: dict[str, Any] = {"tools": {}}
        if method == "initialize":
            asked = params.get("protocolVersion")
            version = asked if asked in _VERSIONS else _VERSIONS[0]
            return {"protocolVersion": version, "capabilities": capabilities, "serverInfo": _INFO}
        if method == "server/discover":
            return {
                "resultType": "complete",
                "supportedVersions": list(_VERSIONS),
                "capabilities": capabilities,
                "ttlMs": 0,
                "cacheScope": "private",
                "_meta": {"io.modelcontextprotocol/serverInfo": _INFO},
            }
        if method == "tools/list":
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in self._tools]}
        return {} if method == "ping" else None

    def _start(self, number: Any, params: Mapping[str, Any]) -> None:
        tool = self._tools.get(params.get("name", ""))
        if tool is None:
            return self._fail(number, -32602, "there is no such tool")
        if number in self._calls:
            return self._fail(number, -32600, "a call with this id is still running")
        call = self._calls[number] = Call(self, number, params)
        arguments = params.get("arguments")
        work = (tool, call, arguments if isinstance(arguments, dict) else {})
        return threading.Thread(target=self._answer, args=work, daemon=True).start()

    def _answer(self, tool: Tool, call: Call, arguments: Mapping[str, Any]) -> None:
        _RUNNING.call = call
        try:
            given = {key: _unwrapped(value) for key, value in arguments.items()}
            line = _reply(call.number, _success(dict(tool(given, call)), given, call.added))
        except Failure as failure:
            line = _reply(call.number, _failure(failure.code, failure.diagnostic, failure.nothing_happened))
        except (Exception, SystemExit) as fault:  # noqa: BLE001 - whatever a connector's own code does wrong
            import traceback  # noqa: PLC0415 - 5 ms that only a fault pays

            traceback.print_exc()
            line = _reply(call.number, _failure("unavailable", _words(fault)))
        del self._calls[call.number]
        if not call.cancelled:
            self._send(line)

    def _fail(self, number: Any, code: int, text: str) -> None:
        self.write({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": text}})


def _line(message: Mapping[str, Any]) -> bytes:
    """One message as one line; ValueError for what JSON or UTF-8 cannot say (NaN, lone surrogates)."""
    return json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def _reply(number: Any, result: Mapping[str, Any]) -> bytes:
    return _line({"jsonrpc": "2.0", "id": number, "result": result})


def _words(fault: BaseException) -> str:
    """An exception for the operator's record: its class and where it was raised. Its text, which may repeat
    what an agent sent, is in the log alone.
    """
    trace = fault.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return type(fault).__name__
    file = trace.tb_frame.f_code.co_filename.rpartition("/")[2]
    return f"{type(fault).__name__} at {file}:{trace.tb_lineno}; the log says more"


def _unwrapped(value: Any) -> Any:
    """An argument as the connector sees it: hand-offs become files, everything else stays."""
    if isinstance(value, list):
        return [_unwrapped(item) for item in value]
    if not isinstance(value, dict):
        return value
    blob = value.get("blob")
    if not isinstance(blob, str) or "/" in blob:
        return value  # an agent's own words, in a tool that takes maps
    if value.keys() == {"name", "mediaType", "size", "blob"}:
        return File(value["name"], value["mediaType"], value["size"], f"{INBOX}/{value['blob']}")
    if value.keys() == {"name", "blob"}:
        return OutputFile(value["name"], value["blob"], f"{OUTBOX}/{value['blob']}")
    return value


def _success(answer: dict[str, Any], given: Mapping[str, Any], added: list[dict[str, Any]]) -> dict[str, Any]:
    files = {
        key: {"blob": value.blob, "size": os.path.getsize(value.path)}  # noqa: PTH202 - as above
        for key, value in given.items()
        if isinstance(value, OutputFile) and os.path.exists(value.path)  # noqa: PTH110 - as above
    }
    result: dict[str, Any] = {"structuredContent": answer, "content": []}
    if files or added:
        result["_meta"] = {"ai.handler/files": files}
    if added:
        result["_meta"]["ai.handler/added"] = added
    return result


def _failure(code: str, diagnostic: str, nothing_happened: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002
    diagnostic = diagnostic[:2000].encode("utf-8", "replace").decode()
    text = json.dumps({"error": code, "message": f"the connector answered {code}"})
    meta: dict[str, Any] = {"ai.handler/error": {"code": code, "diagnostic": diagnostic}}
    if nothing_happened:
        meta["ai.handler/effect"] = "none"
    return {"isError": True, "_meta": meta, "content": [{"type": "text", "text": text}]}
