"""HTTP for observers: ``/metrics``, ``/livez``, ``/readyz``; read-only, and nothing else.

Starlette on uvicorn, imported once an address is given. A request must name the address it came to as its
Host (a web page that had its own name point here could read it otherwise). Bounds: so many connections, so
long for a request to come in and for its answer to be read, so large a head. What strangers send is not
logged: every user of the machine could fill the log.
"""

import asyncio
import logging
import socket
from typing import Any, Protocol

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from reconciler.control import exposition

_CONNECTIONS = 32
_HEAD_BYTES = 8192
_IDLE_S = 5  # between two requests of one connection
_REQUEST_S = 10.0  # from the connection, or the last answer, to a whole request; and for its answer
_LAST = {"connection": "close"}  # whoever is refused keeps no connection
_HOME = "Handler, for observers: /metrics /livez /readyz?verbose\n"


class Observed(Protocol):
    """Whom the pages are asked of."""

    def live(self, *, verbose: bool) -> tuple[int, str]: ...

    def ready(self, *, verbose: bool) -> tuple[int, str]: ...

    async def metrics(self) -> bytes: ...


async def serve(listener: socket.socket, observed: Observed) -> None:
    """Serve on a listening socket until cancelled; the socket stays open.

    Uvicorn's protocol without its server: that one would look about ten times a second, and take the signals.
    """
    config = uvicorn.Config(
        OwnHost(application(observed), own_hosts(listener)),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=_IDLE_S,
        h11_max_incomplete_event_size=_HEAD_BYTES,
    )
    config.load()
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    state = ServerState()
    loop = asyncio.get_running_loop()

    def made() -> asyncio.Protocol:
        return _Patient(config, state, {}, loop)

    create = loop.create_unix_server if listener.family == socket.AF_UNIX else loop.create_server
    server = await create(made, sock=listener.dup())
    try:
        await asyncio.Event().wait()
    finally:
        server.close()
        for connection in list(state.connections):
            if isinstance(connection, _Patient):
                connection.transport.abort()
        for task in list(state.tasks):
            task.cancel()


def application(observed: Observed) -> Starlette:
    """The pages, over whom they are asked of."""

    async def metrics(request: Request) -> Response:
        return Response(await observed.metrics(), headers={"content-type": exposition.CONTENT_TYPE})

    async def live(request: Request) -> Response:
        return _health(*observed.live(verbose="verbose" in request.query_params))

    async def ready(request: Request) -> Response:
        return _health(*observed.ready(verbose="verbose" in request.query_params))

    async def home(request: Request) -> Response:
        return PlainTextResponse(_HOME)

    pages = {"/": home, "/metrics": metrics, "/livez": live, "/readyz": ready}
    return Starlette(routes=[Route(path, page, methods=["GET"]) for path, page in pages.items()])


def _health(status: int, text: str) -> Response:
    return PlainTextResponse(text, status, {"cache-control": "no-store", "x-content-type-options": "nosniff"})


def own_hosts(listener: socket.socket) -> frozenset[bytes] | None:
    """What a request may name as its Host; None for a Unix socket, which no web page reaches."""
    name = listener.getsockname()
    if listener.family == socket.AF_UNIX:
        return None
    host, port = name[:2]
    named = {f"[{host}]" if ":" in host else host, "localhost"}
    return frozenset(f"{one}:{port}".encode() for one in named) | (
        frozenset(one.encode() for one in named) if port == 80 else frozenset()
    )


class OwnHost:
    """Refuses a request that was meant for another host (421), or has too much of a head (431)."""

    def __init__(self, app: ASGIApp, hosts: frozenset[bytes] | None) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        head = sum(len(name) + len(value) for name, value in scope["headers"])
        if head + len(scope["raw_path"]) + len(scope["query_string"]) > _HEAD_BYTES:  # it came in one piece
            return PlainTextResponse("the head of this request is too large\n", 431, _LAST)
        told = [value.lower() for name, value in scope["headers"] if name == b"host"]
        if self._hosts is None or (len(told) == 1 and told[0] in self._hosts):
            return None
        return PlainTextResponse("the Host of this request is another one\n", 421, _LAST)


class _Patient(H11Protocol):
    """A connection that is dropped when a whole request does not come, or its answer is not read, in time."""

    def connection_made(self, transport: Any) -> None:
        """Begin to count; beyond twice what is served, nobody is even told so."""
        super().connection_made(transport)
        if len(self.connections) > 2 * _CONNECTIONS:
            transport.abort()
        self._watch = asyncio.get_running_loop().call_later(_REQUEST_S, self._look)
        self._seen: Any = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is left to watch."""
        self._watch.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        if self.cycle is self._seen:  # None before the first request
            self.transport.abort()
            return
        self._seen = self.cycle
        self._watch = asyncio.get_running_loop().call_later(_REQUEST_S, self._look)
