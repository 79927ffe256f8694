"""The controller's watch: after each look, whoever looks on from outside is told and given what it asks for.

That is the supervisor (``READY``, ``WATCHDOG``), the log (``[log]``), the address of metrics and health
(``[http]``), and the collector of traces (``[telemetry]``). Each follows ``handler.toml`` while everything
goes on. SIGHUP means: look now.
"""

import logging
import signal
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import anyio

from reconciler.control import health
from reconciler.control.observing import Address, Observed, Serve, settings
from reconciler.control.systemd import Notifier
from reconciler.model.settings import Config, Log
from reconciler.model.status import Condition

_LOG = logging.getLogger("handler")


async def _nobody(listener: socket.socket, observed: Observed) -> None:
    """Serve nothing: who runs a controller without a door for HTTP gets none."""
    raise OSError("this controller was started without HTTP")


@dataclass(frozen=True, slots=True)
class Outside:
    """What a controller is given by whoever starts it: who speaks HTTP, writes the log, supervises."""

    serve: Serve = _nobody
    log: Callable[[Log], None] = lambda log: None
    notifier: Notifier = field(default_factory=lambda: Notifier({}))


class Watch:
    """Keeps the watch over one controller. All methods are for the loop's own thread."""

    def __init__(
        self,
        observed: Observed,
        address: Address,
        outside: Outside,
        follow: Callable[[Config], None] = lambda _settings: None,
    ) -> None:
        """``follow`` hears of the settings in force, too."""
        self._observed = observed
        self._address = address
        self._outside = outside
        self._status = ""
        self._follow = follow
        self._moved = anyio.Event()
        observed.tracer.fault = self._not_traced
        ears = observed.controller.ears
        ears.looked, ears.beside, address.changed = self._looked, self._beside, self._address_changed

    async def run(self) -> None:
        """Keep it until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._address.run)
            tasks.start_soon(self._observed.tracer.run)
            tasks.start_soon(self._tell)
            if self._outside.notifier.heard:
                tasks.start_soon(self._reload)
            if self._outside.notifier.interval_s is not None:
                tasks.start_soon(self._beat, self._outside.notifier.interval_s)

    def ready(self) -> None:
        """The controller answers: say so."""
        self._outside.notifier.send(READY=1)

    def stopping(self) -> None:
        """The controller ends: say so."""
        self._outside.notifier.send(STOPPING=1)

    def _looked(self) -> None:
        config = settings(self._observed.controller)
        self._outside.log(config.log)
        self._follow(config)
        self._address.follow(config.http.listen)
        self._observed.tracer.follow(config.telemetry.otlp_endpoint)
        table = self._observed.controller.table
        status = f"generation {table.generation} serves, agents: {len(table.agents)}"
        if status != self._status:
            self._status = status
            self._outside.notifier.send(STATUS=status)

    def _not_traced(self, words: str) -> None:
        event = self._observed.controller.parts.journal.event
        event("configuration", "Warning", "ReconcileError", words)

    def _beside(self) -> Iterable[Condition]:
        told = self._address.condition()
        return (told,) if told else ()

    def _address_changed(self) -> None:
        self._observed.controller.ears.address = self._address.shown
        self._moved.set()

    async def _tell(self) -> None:
        """Have the summary say where the address is."""
        while True:
            await self._moved.wait()
            self._moved = anyio.Event()
            if self._observed.controller.look is not None:
                await self._observed.controller.speak()

    async def _reload(self) -> None:
        """SIGHUP of a supervisor means: look now. From a terminal it means what it always did."""
        with anyio.open_signal_receiver(signal.SIGHUP) as signals:
            async for _ in signals:
                self._outside.notifier.reloading()
                try:
                    await self._observed.controller.now()
                except Exception:  # noqa: BLE001 - the timed scan looks again
                    _LOG.exception("the look that was asked for broke off")
                self.ready()

    async def _beat(self, interval_s: float) -> None:
        """Tell the supervisor that the loop turns, for as long as it does."""
        while True:
            if not any(check.fault for check in health.alive(self._observed.vital())):
                self._outside.notifier.send(WATCHDOG=1)
            await anyio.sleep(interval_s)
