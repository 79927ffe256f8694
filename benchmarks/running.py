"""A supervisor whose one instance runs already: what stands for a real one in benchmarks of the router."""

import asyncio
import os
import socket
from typing import Any


class Running:
    """The instance behind a socket, as ``control.dispatch`` asks for it."""

    def __init__(self, upstream: str, inbox: str, outbox: str) -> None:
        """``upstream`` is the path of its socket; the folders are those of its files. Within a loop."""
        self.inbox = os.open(inbox, os.O_RDONLY | os.O_DIRECTORY)
        self.outbox = os.open(outbox, os.O_RDONLY | os.O_DIRECTORY)
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.echoes = None  # it was given no secret
        self._upstream = upstream

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._upstream)
        connection.setblocking(False)
        return connection

    async def ready(self, name: Any) -> "Running":
        return self

    def hold(self, name: Any) -> None: ...

    def release(self, name: Any) -> None: ...

    def answered(self, name: Any) -> None: ...

    def broken(self, name: Any, reason: str, message: str) -> None:
        raise SystemExit(f"{reason}: {message}")
