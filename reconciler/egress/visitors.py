"""The connections that come through one listening socket, each served by a task of its own."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from reconciler.egress.reaching import CHUNK

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Visitors:
    """Serves from ``start`` until ``close``; its length is how many are there. ``broke`` hears of a fault
    that ``serve`` did not end itself.
    """

    def __init__(self, serve: Serve, broke: Callable[[BaseException], None]) -> None:
        self._serve, self._broke = serve, broke
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    async def start(self, start_server: Callable[..., Any], listener: socket.socket) -> None:
        """Take what comes, by asyncio's starter for the socket's family; the socket is ours then."""
        self._server = await start_server(self._came, sock=listener, limit=CHUNK)

    async def close(self) -> None:
        """Take nothing more and end what goes on; returns when it has ended."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        tasks = list(self._open)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._went)

    def _went(self, task: "asyncio.Future[None]") -> None:
        self._open.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._broke(fault)
