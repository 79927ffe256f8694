"""What an observer may ask of the controller: metrics, liveness, readiness; and where it may ask.

Metrics and health are drawn when they are asked for, from what the rooms know anyway. The address is
``http.listen`` of ``handler.toml``: opened, changed and closed with that file, while everything else goes on.
Who speaks HTTP there is handed in, and is not even imported while no address is given. Nothing that is served
holds a payload or a secret; a Unix socket is for the same user alone, a loopback port for every local user.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from reconciler import __version__
from reconciler.control import exposition, health, upkeep
from reconciler.control.exposition import Family, counted, counter, gauge
from reconciler.control.looking import settings_in_force
from reconciler.control.loop import Controller
from reconciler.control.tally import Tally
from reconciler.control.tracing import Tracer
from reconciler.model.calls import CallRecord
from reconciler.model.resources import Config
from reconciler.model.status import Condition

_LOG = logging.getLogger("handler.http")
_UNIX = "unix"
_SOCKET = "http.sock"
_BACKLOG = 16
_RETRY_S = 5.0  # how often an address that is taken is tried again
_UP = ("ready", "idle", "draining")

Serve = Callable[[socket.socket, "Observed"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Clocks:
    """Seconds: of the wall, and monotonic ones."""

    wall: Callable[[], float]
    steady: Callable[[], float]


class Observed:
    """One controller as its observers see it. All methods are for the loop's own thread."""

    def __init__(self, controller: Controller, clocks: Clocks, tracer: Tracer) -> None:
        self.tally: Tally | None = None  # while somebody may ask
        self.tracer = tracer
        self.more: Callable[[], Iterable[Family]] = tuple  # that others count
        self.started_at = clocks.wall()
        self.controller = controller
        self._clocks = clocks
        self._looked_at = clocks.steady()
        self._well_at = 0.0  # wall clock: when a look last came to be in force
        controller.ears.turned = self._turned

    def called(self, record: CallRecord) -> None:
        """A call ended."""
        if self.tally is not None:
            self.tally.call(record)
        self.tracer.called(record)

    def left(self, attempt: Mapping[str, Any]) -> None:
        """A sandbox tried to send something out."""
        if self.tally is not None:
            self.tally.left(attempt)

    def _turned(self, controller: str, result: str, seconds: float) -> None:
        if controller == "world":
            self._looked_at = self._clocks.steady()
            if self.controller.source.status == "True":
                self._well_at = self._clocks.wall()
        if self.tally is not None:
            self.tally.turn(controller, result, seconds)

    def vital(self) -> health.Vital:
        """What the checks of liveness and readiness go by."""
        now, parts = self.controller, self.controller.parts
        places = (("journal", parts.journal), ("status", parts.board), ("state", parts.looker))
        return health.Vital(
            looked=now.looks > 0 and now.look is not None,
            source=now.source,
            quiet_s=self._clocks.steady() - self._looked_at,
            scan_s=settings(now).reconcile.scan_seconds,
            faults=tuple((name, "it cannot be written" if place.fault else "") for name, place in places),
        )

    def live(self, *, verbose: bool) -> tuple[int, str]:
        """The HTTP status and text of ``/livez``."""
        return health.told(health.alive(self.vital()), "livez", verbose=verbose)

    def ready(self, *, verbose: bool) -> tuple[int, str]:
        """The HTTP status and text of ``/readyz``."""
        return health.told(health.ready(self.vital()), "readyz", verbose=verbose)

    async def metrics(self) -> bytes:
        """The text of ``/metrics``."""
        objects = await anyio.to_thread.run_sync(self.controller.parts.board.counts)
        families = [*self._of_calls(), *self._of_the_loop(), *self._of_instances()]
        families.append(counted("handler_objects", "Objects.", ("kind", "ready"), objects, kind="gauge"))
        return exposition.text([*families, *upkeep.families(self.started_at)])

    def _of_calls(self) -> Iterator[Family]:
        if self.tally is not None:
            yield from self.tally.families()
        yield self.tracer.family()
        yield from self.more()
        keeper = self.controller.parts.doorkeeper
        kinds: dict[tuple[str, ...], float] = {("opened",): 0, ("standing",): 0}
        for session in keeper.sessions():
            kinds["standing" if session.standing else "opened",] += 1
        yield counted("handler_sessions", "Open sessions.", ("kind",), kinds, kind="gauge")

    def _of_the_loop(self) -> Iterator[Family]:
        now = self.controller
        well = now.source.status == "True"
        yield gauge("handler_workqueue_depth", "Keys that wait to be looked at.", now.queued)
        if self.tally is not None:
            retries = self.tally.retries()
            yield counter("handler_workqueue_retries_total", "Turns that come again.", retries)
        yield gauge(
            "handler_config_last_reload_successful",
            "Whether the newest state of the source is in force as a whole.",
            well,
        )
        yield gauge(
            "handler_config_last_reload_success_timestamp_seconds",
            "When it last was.",
            self._well_at,
        )
        refused = len(now.look.admission.refused) if now.look else 0
        yield gauge("handler_config_refused_objects", "Objects whose newest form is refused.", refused)
        yield gauge(
            "handler_config_generation", "The generation of routes that serves.", now.table.generation
        )
        revision = now.look.admission.inventory.revision if now.look else ""
        yield gauge("handler_config_info", "What is in force, and what serves.", 1, revision=revision)
        yield gauge("handler_build_info", "The release.", 1, version=__version__)

    def _of_instances(self) -> Iterator[Family]:
        supervisor = self.controller.parts.supervisor
        phases: dict[tuple[str, ...], float] = {}
        for seen in supervisor.observed().values():
            phases[seen.phase,] = phases.get((seen.phase,), 0) + 1
        yield counted("handler_instances", "Instances by phase.", ("phase",), phases, kind="gauge")
        ups: dict[tuple[str, ...], float] = {}
        restarts: dict[tuple[str, ...], float] = {}
        calls: dict[tuple[str, ...], float] = {}
        for seen in supervisor.lively():
            name = (seen.name.rpartition("@")[0], seen.name)
            ups[name] = seen.phase in _UP and seen.pid is not None
            restarts[name] = seen.restarts
            calls[name] = seen.calls
        labels = ("binding", "instance")
        yield counted("handler_instance_up", "Whether its process serves.", labels, ups, kind="gauge")
        yield counted("handler_instance_restarts_total", "Starts after the first.", labels, restarts)
        yield counted("handler_instance_calls", "Calls in flight.", labels, calls, kind="gauge")


def settings(controller: Controller) -> Config:
    """The settings of ``handler.toml`` that are in force."""
    return settings_in_force(controller.look.admission) if controller.look else Config()


class Address:
    """Where the observers are served: what ``http.listen`` asks for, and what came of it."""

    def __init__(self, observed: Observed, run: Path, serve: Serve) -> None:
        """``run`` is where a Unix socket goes; ``serve`` speaks HTTP on a socket until cancelled."""
        self.shown = ""  # where it is, in words that a client takes; "" while there is none
        self.fault = ""  # why there is none although one is asked for
        self.changed: Callable[[], None] = lambda: None  # told after each of them became another
        self._observed = observed
        self._run = run
        self._serve = serve
        self._wanted: str | None = None
        self._news = anyio.Event()

    def follow(self, listen: str | None) -> None:
        """Be where the settings say from now on; nowhere for None."""
        if listen != self._wanted:
            self._wanted = listen
            self._news.set()

    def condition(self) -> Condition | None:
        """What is said of the configuration while it asks for an address that cannot be had."""
        return Condition("Stalled", "True", "ReconcileError", self.fault) if self.fault else None

    async def run(self) -> None:
        """Serve for as long as this runs, wherever the settings say meanwhile."""
        try:
            while True:
                self._news = anyio.Event()
                if self._wanted is None:
                    self._observed.tally = None
                    self._tell("", "")
                    await self._news.wait()
                else:
                    await self._serve_at(self._wanted)
        finally:
            self._clear()

    async def _serve_at(self, listen: str) -> None:
        """Serve there until the settings say otherwise; where that cannot be, a moment later again."""
        try:
            listener = _bound(listen, self._run / _SOCKET)
        except OSError as error:
            why = error.strerror or str(error)
            self._tell("", f"http.listen: cannot listen on {listen}: {why}")
            with anyio.move_on_after(_RETRY_S):
                await self._news.wait()
            return
        self._observed.tally = self._observed.tally or Tally()
        self._tell(_shown(listener), "")
        with listener:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._kept, listener)
                await self._news.wait()
                tasks.cancel_scope.cancel()
        self._clear()

    async def _kept(self, listener: socket.socket) -> None:
        """Serve; a fault of the server's own ends neither the controller nor, for long, the service."""
        while True:
            try:
                await self._serve(listener, self._observed)
            except Exception:  # noqa: BLE001 - what serves agents goes on
                _LOG.exception("the observers' server broke off")
            await asyncio.sleep(_RETRY_S)

    def _tell(self, shown: str, fault: str) -> None:
        if (shown, fault) == (self.shown, self.fault):
            return
        self.shown, self.fault = shown, fault
        if fault:
            _LOG.warning("%s", fault)
        elif shown:
            _LOG.info("metrics and health are at %s", shown)
        self.changed()

    def _clear(self) -> None:
        path = self._run / _SOCKET
        with suppress(OSError):
            if path.is_socket():
                path.unlink()


def _bound(listen: str, path: Path) -> socket.socket:
    """A socket that listens there; OSError when it cannot."""
    if listen == _UNIX:
        with suppress(FileNotFoundError):
            if path.is_socket():
                path.unlink()
        listener = socket.socket(socket.AF_UNIX)
        name: object = str(path)
    else:
        host, _, port = listen.rpartition(":")
        listener = socket.socket(socket.AF_INET6 if host.startswith("[") else socket.AF_INET)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        name = (host.strip("[]"), int(port))
    try:
        listener.bind(name)  # type: ignore[arg-type]
        if listen == _UNIX:
            path.chmod(0o600)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    except OverflowError:
        listener.close()
        raise OSError("a port is at most 65535") from None
    listener.settimeout(0)
    return listener


def _shown(listener: socket.socket) -> str:
    """Where a socket listens, as one tells it to curl."""
    name = listener.getsockname()
    if isinstance(name, str):
        return f"unix:{name}"
    host, port = name[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
