"""The control socket: JSON-RPC lines from the command line to the running controller.

One Unix socket in the run folder, for the same user alone (folder 0700, peer checked). Methods are handed in;
what one refuses is a ``Refused`` and becomes a JSON-RPC error whose message people read. A fault in a
method is
told in one sentence and logged with its traceback; the connection and the controller live on.

A method may tell its caller how it goes before it answers (``Caller.tell``: ``notifications/progress`` lines
with the request's id); one that is ``Attended`` ends when its caller leaves.
"""

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from reconciler.control import processes

_LOG = logging.getLogger("handler.control")
_MAX_LINE = 24 * 2**20  # a conversation with pictures fits; garbage without a newline does not grow
_REFUSED = -31000  # our own code: outside the range that JSON-RPC reserves


class Refused(Exception):  # noqa: N818 - a verdict, not a fault
    """A request that is understood and denied; the text says why and what to do."""


async def _nobody(told: Mapping[str, Any]) -> None:
    """Tell a caller that hears nothing."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the process at the other end. ``tell`` sends it one line about the request before its answer,
    and waits while it reads slowly; ConnectionError once it left.
    """

    process: processes.Process
    tell: Callable[[Mapping[str, Any]], Awaitable[None]] = _nobody


Method = Callable[[Mapping[str, Any], Caller], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Attended:
    """A method that nobody wants any more once its caller left: it is cancelled then."""

    method: Method

    async def __call__(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """What the method answers."""
        return await self.method(params, caller)


async def listen(path: Path, methods: Mapping[str, Method]) -> asyncio.Server:
    """Serve the methods on ``path``; a dead socket there is replaced (the caller holds the state lock)."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _serve(reader, writer, methods)
        except (ConnectionError, asyncio.LimitOverrunError, ValueError):
            _LOG.info("a control connection broke off")
        finally:
            writer.close()

    return await asyncio.start_unix_server(serve, sock=_bound(path), limit=_MAX_LINE)


class ControlSocket:
    """The control socket of one controller, which is made anew where somebody removed it."""

    def __init__(self, listen: Callable[[], Awaitable[asyncio.Server]]) -> None:
        """``listen`` makes it, as the function of this module does."""
        self._listen = listen
        self._server: asyncio.Server | None = None
        self._place: tuple[int, int] | None = None

    async def listen(self) -> None:
        """Listen, in place of what listened before; connections stay. Raises OSError."""
        if self._server is not None:
            self._server.close()
        self._server = await self._listen()
        self._place = self._found()

    def is_lost(self) -> bool:
        """Whether something else, or nothing, lies where it was put."""
        return self._server is not None and self._found() != self._place

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()

    def _found(self) -> tuple[int, int] | None:
        """Device and inode of what lies there; None for nothing, and for what is no Unix socket of ours."""
        path = self._server.sockets[0].getsockname() if self._server and self._server.sockets else None
        try:
            found = os.lstat(path) if isinstance(path, str) else None
        except OSError:
            return None
        return (found.st_dev, found.st_ino) if found else None


def clear(path: Path) -> None:
    """Remove the socket at ``path``, and nothing else that somebody may have put there."""
    if path.is_socket():
        path.unlink()


def _bound(path: Path) -> socket.socket:
    clear(path)
    if os.path.lexists(path):
        raise OSError(f"{path} is in the way of the control socket: remove it")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(0o600)
    return listener


async def _serve(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, methods: Mapping[str, Method]
) -> None:
    process = _process(writer.get_extra_info("socket"))
    if process is None:
        return
    line = await reader.readline()
    while line:
        request = _request(line, methods)
        following: asyncio.Future[bytes] | None = None
        if isinstance(request, dict):
            answer = request
        else:
            caller = Caller(process, _teller(writer, request))
            if isinstance(request.method, Attended):
                following = asyncio.ensure_future(reader.readline())
            answer = await _answer_to(request, caller, following)
        writer.write(orjson.dumps(answer) + b"\n")
        await writer.drain()
        line = await (following or reader.readline())


@dataclass(frozen=True, slots=True)
class _Request:
    number: object
    name: str
    method: Method
    params: Mapping[str, Any]


def _teller(
    writer: asyncio.StreamWriter, request: _Request
) -> Callable[[Mapping[str, Any]], Awaitable[None]]:
    async def tell(told: Mapping[str, Any]) -> None:
        note = {
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {"id": request.number, **told},
        }
        writer.write(orjson.dumps(note) + b"\n")
        await writer.drain()

    return tell


async def _answer_to(
    request: _Request, caller: Caller, following: asyncio.Future[bytes] | None
) -> dict[str, Any]:
    """The answer; with the line that follows on the connection, ConnectionError where none is before."""
    if following is None:
        return await _answer(request, caller)
    work = asyncio.ensure_future(_answer(request, caller))
    try:
        await asyncio.wait((work, following), return_when=asyncio.FIRST_COMPLETED)
        if not work.done() and not following.result():
            raise ConnectionResetError("the caller left")
        return await work
    finally:
        if not work.done():
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)


def _process(sock: socket.socket) -> processes.Process | None:
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", raw)
    if uid != os.geteuid():
        _LOG.warning("refused a control connection of uid %d", uid)
        return None
    return processes.Process(pid, processes.start_time(pid) or 0)


def _request(line: bytes, methods: Mapping[str, Method]) -> _Request | dict[str, Any]:
    """The request of a line, or the answer that says what is wrong with it."""
    try:
        request = orjson.loads(line)
        method, number = request["method"], request["id"]
        params = request.get("params") or {}
        if not isinstance(params, dict):
            return _error(number, -32602, "params are named: an object")
    except orjson.JSONDecodeError as fault:
        return _error(None, -32600, f"the request is no JSON that can be read: {fault.msg}")
    except (KeyError, TypeError, AttributeError):
        return _error(None, -32600, "a request has method, id and params")
    if not isinstance(method, str) or method not in methods:
        return _error(number, -32601, f"the controller has no method {str(method)[:40]!r}")
    return _Request(number, method, methods[method], params)


async def _answer(request: _Request, caller: Caller) -> dict[str, Any]:
    number = request.number
    try:
        return {"jsonrpc": "2.0", "id": number, "result": await request.method(request.params, caller)}
    except Refused as refusal:
        return _error(number, _REFUSED, str(refusal))
    except Exception:  # noqa: BLE001 - one broken request must not end the controller
        _LOG.exception("control method %s broke", request.name)
        return _error(number, -32603, "the controller met a fault of its own; its log has the details")


def _error(number: object, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}
