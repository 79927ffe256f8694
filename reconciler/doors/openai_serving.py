"""``openai serve|token``: the OpenAI-compatible door as a process of its own, in front of a controller.

On loopback alone. Uvicorn carries HTTP; connections that send nothing, or take nothing, are dropped.
"""

import asyncio
import contextlib
import ipaddress
import json
import logging
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from reconciler.control import folders
from reconciler.doors import client, columns, http, openai_app, usage
from reconciler.doors.openai_far import Far
from reconciler.doors.openai_token import Token

DEFAULT = "127.0.0.1:8417"
_TIMEOUT_S = 600.0  # of one answer, where no --timeout is given
_CONNECTIONS = 64
_LOOK_S = 10.0  # how often connections are looked at
_STUCK = 3  # looks without a byte taken, until a client counts as gone
_GRACE_S = 3  # for answers that are under way when the door ends


def serve(settings: usage.Settings, agent: str, listen: str) -> int:
    """Serve until told to stop; 0. Raises ``usage.Stopped``, ``usage.Usage``."""
    control = client.Client(settings.config)
    known = control.ask("llm.models", {"agent": agent})
    agent = str(known["agent"])
    token = Token(folders.state(Path(control.config)), agent)
    if not token.exists():
        raise usage.Stopped(
            f"there is no token to come in with: make one with 'handler openai token --agent {agent}'"
        )
    listener = listening(listen)
    far = Far(control.path, agent, settings.timeout_s or _TIMEOUT_S)
    app = http.OwnHost(openai_app.Door(far, token.allows).application(), http.own_hosts(listener))
    _log(settings)
    _tell(settings, listener, agent, known)
    with contextlib.closing(listener):
        asyncio.run(_served(app, listener))
    return 0


def make_token(settings: usage.Settings, agent: str, *, revoke: bool) -> int:
    """Make an agent's token and print it, or revoke it; 1 where there was none to revoke."""
    control = client.Client(settings.config)
    if absent := folders.absent(control.config, usage.path_shown(control.config)):
        raise usage.Stopped(absent)
    if not agent:
        agent = str(control.ask("llm.models", {})["agent"])
    token = Token(folders.state(Path(control.config)), _named(agent))
    if revoke:
        found = token.revoke()
        sys.stderr.write(f"{'revoked' if found else 'there is no token'}: {agent}\n")
        return 0 if found else 1
    sys.stdout.write(f"{token.make()}\n")
    if not settings.quiet:
        sys.stderr.write(
            f"With it, one asks models and chains as {agent}. It is not shown again: a new one replaces it.\n"
        )
    return 0


def _named(agent: str) -> str:
    if not agent.replace("-", "").isalnum() or not agent.isascii():
        raise usage.Usage(f"'{agent[:40]}' is no agent's name")
    return agent


def listening(listen: str) -> socket.socket:
    """A socket that listens at HOST:PORT, on loopback."""
    host, _, port = listen.rpartition(":")
    host = host.strip("[]").replace("localhost", "127.0.0.1")
    try:
        address = ipaddress.ip_address(host)
        number = int(port)
    except ValueError:
        raise usage.Usage(f"'{listen}' is no address like {DEFAULT}") from None
    if not address.is_loopback or not 0 <= number < 2**16:
        raise usage.Usage(f"'{listen}' is not on loopback: others of the network are not served")
    listener = socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, number))
        listener.listen(_CONNECTIONS)
    except OSError as fault:
        listener.close()
        raise usage.Stopped(f"cannot listen at {listen}: {fault.strerror}") from None
    return listener


def _tell(settings: usage.Settings, listener: socket.socket, agent: str, known: dict[str, Any]) -> None:
    """Say where it is, so that a script that started it can go on."""
    host, port = listener.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"
    as_json = json.dumps({"url": url, "agent": agent})
    sys.stdout.write(f"{as_json if settings.output == 'json' else url}\n")
    sys.stdout.flush()
    if settings.quiet:
        return
    counts = (
        f"{columns.counted(len(known['models']), 'model')}, {columns.counted(len(known['chains']), 'chain')}"
    )
    sys.stderr.write(f"Serves {counts} as agent {agent}; a token is needed ('handler openai token').\n")


def _log(settings: usage.Settings) -> None:
    level = logging.INFO if settings.verbose else logging.ERROR if settings.quiet else logging.WARNING
    logging.basicConfig(stream=sys.stderr, level=level, format="%(asctime)s %(name)s: %(message)s")
    logging.getLogger("uvicorn.error").setLevel(
        logging.CRITICAL
    )  # it tells what a client did; faults we tell


async def _served(app: ASGIApp, listener: socket.socket) -> None:
    made = server(app)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, made.leave)
    await made.serve(sockets=[listener])


def server(app: ASGIApp, grace_s: int = _GRACE_S) -> "Server":
    """One that serves it until ``leave``; ``grace_s`` is for answers that are under way then."""
    return Server(
        uvicorn.Config(
            app,
            http=_Watched,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            limit_concurrency=_CONNECTIONS,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=grace_s,
            h11_max_incomplete_event_size=8192,
        )
    )


class Server(uvicorn.Server):
    """One that leaves the signals to us: the first ends it in order, the next at once."""

    def leave(self) -> None:
        """End it."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve, and let answers that were broken off say so."""
        await super().serve(sockets)
        if tasks := set(self.server_state.tasks):
            await asyncio.wait(tasks, timeout=_GRACE_S)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take none."""
        yield


class _Watched(H11Protocol):
    """A connection that is dropped when no request comes on it, or nobody takes what is sent."""

    def connection_made(self, transport: Any) -> None:
        """Begin to look; beyond twice what is served, nobody is even told so."""
        super().connection_made(transport)
        if len(self.connections) > 2 * _CONNECTIONS:
            transport.abort()
        self._seen: Any = self
        self._stuck = 0
        self._watch = asyncio.get_running_loop().call_later(_LOOK_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is left to look at."""
        self._watch.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        cycle: Any = self.cycle  # None before the first request
        answers = cycle is not None and not cycle.response_complete
        takes = not self.flow.write_paused and not self.transport.is_closing()
        self._stuck = 0 if takes else self._stuck + 1
        if self._stuck >= _STUCK or (not answers and self._seen is cycle):
            self.transport.abort()
            return
        self._seen = self if answers else cycle
        self._watch = asyncio.get_running_loop().call_later(_LOOK_S, self._look)
