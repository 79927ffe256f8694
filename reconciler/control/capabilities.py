"""How the interfaces of sessions stand, and the sheets that tell agents of it. No binding is named in either.

News of instances and of what was withdrawn come in; ``stand`` says of one route what follows from them, and
since when. A sheet is ``capabilities.json`` in a session's folder: an agent that finds an interface missing
can do without instead of trying. A process that ended and is started by the next call is no trouble; one that
cannot be started is, until it has answered again.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from reconciler.control import atomic
from reconciler.model.routes import AgentRoutes, Route
from reconciler.model.stands import MEANS, Stand, instant, together
from reconciler.model.status import InstanceSeen

SHEET = "capabilities.json"
_LOG = logging.getLogger("handler.sessions")
_WELL = ("declared", "ready", "idle")


class Standings:
    """Which instances struggle and which bindings are withdrawn, and since when."""

    def __init__(self, now: Callable[[], float]) -> None:
        """``now`` is the wall clock, in seconds."""
        self.changed: Callable[[], None] = lambda: None  # hears that some route stands otherwise
        self._now = now
        self._troubled: dict[str, float] = {}  # instances, by binding@digest12
        self._recovered: dict[str, float] = {}
        self._withdrawn: dict[str, float] = {}  # bindings, and instances that are withheld
        self._returned: dict[str, float] = {}
        self._remembered: dict[str, float] = {}  # what an earlier controller wrote down, until it is used

    def remember(self, routes: AgentRoutes, told: bytes) -> None:
        """Take since when things are missing from a sheet that an earlier controller wrote; anything else
        than a sheet tells nothing.
        """
        try:
            for one in orjson.loads(told)["interfaces"]:
                first = routes.routes.get(str(one["interface"]).partition("/")[0])
                since = datetime.fromisoformat(one["since"]).timestamp()
                for route in first.each if first is not None and one["state"] == "missing" else ():
                    self._remembered[route.binding] = min(since, self._now())
        except (ValueError, TypeError, LookupError, OverflowError):
            return

    def stand(self, route: Route) -> Stand:
        """How a route stands now. One that was pinned closed stays so, whatever became of its binding. Where
        several answer, some of them missing is degraded.
        """
        return together([self._stand(one) for one in route.each])

    def _stand(self, route: Route) -> Stand:
        binding, instance = route.binding, str(route.instance)
        for name in (binding, instance):
            if name in self._withdrawn:
                return Stand("missing", self._withdrawn[name])
        if route.suspended is not None:
            return Stand("missing")
        if instance in self._troubled:
            return Stand("degraded", self._troubled[instance])
        return Stand("bound", max(self._recovered.get(instance, 0.0), self._returned.get(binding, 0.0)))

    def heard(self, seen: InstanceSeen) -> None:
        """Take news of an instance. One that starts has neither failed again nor recovered yet."""
        ended_only = seen.vanished and seen.reason is None
        if seen.phase == "failed" and not ended_only:
            if seen.name not in self._troubled:
                self._troubled[seen.name] = self._now()
                self.changed()
        elif seen.phase in _WELL and self._troubled.pop(seen.name, None) is not None:
            self._recovered[seen.name] = self._now()
            self.changed()

    def follow(self, withdrawn: Mapping[str, str], known: Mapping[str, InstanceSeen]) -> None:
        """Take the bindings that serve nobody now, and the instances there are: others are forgotten."""
        before, now = self._withdrawn, self._now()
        if before.keys() != withdrawn.keys():
            known_since = self._remembered | before
            self._withdrawn = {name: known_since.get(name, now) for name in withdrawn}
            self._returned |= dict.fromkeys(before.keys() - withdrawn.keys(), now)
            self.changed()
        self._remembered = {}
        for forgotten in (self._troubled, self._recovered):
            for name in [name for name in forgotten if name not in known]:
                del forgotten[name]


@dataclass(frozen=True, slots=True)
class Sheet:
    """What one sheet is about: a session, or with session "" an agent's standing door."""

    folder: Path
    routes: AgentRoutes
    session: str
    opened_at: float  # seconds since 1970; of a door, when its first session began

    @property
    def path(self) -> Path:
        return self.folder / SHEET

    def read(self) -> bytes:
        """What it says now; b"" where there is none."""
        try:
            return self.path.read_bytes()
        except OSError:
            return b""

    def write(self, stand: Callable[[Route], Stand]) -> None:
        """Have it on disk as things stand; nothing happens where it says so already. A folder that is gone is
        one of a session that is over.
        """
        data = orjson.dumps(self._as_json(stand), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        try:
            atomic.write(self.path, data, durable=False)
        except FileNotFoundError:
            return
        except OSError as error:
            _LOG.warning("%s cannot be written: %s", self.path, error.strerror or error)

    def remove(self) -> None:
        """Have none there."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _as_json(self, stand: Callable[[Route], Stand]) -> dict[str, Any]:
        return {
            "apiVersion": "handler.capabilities/v1",
            "agent": self.routes.agent,
            "session": self.session or None,
            "services": str(self.folder / "services.sock"),
            "interfaces": [
                self._one(name, route, stand(route)) for name, route in self.routes.routes.items()
            ],
        }

    def _one(self, name: str, route: Route, stand: Stand) -> dict[str, Any]:
        since = stand.since or self.opened_at
        if stand.state == "bound":
            since = max(since, self.opened_at)
        return {
            "interface": str(route.interface),
            "description": route.contract.spec.description.strip(),
            "tools": [tool for tool in route.contract.tools if route.tools is None or tool in route.tools],
            "socket": str(self.folder / f"{name}.sock"),
            "state": stand.state,
            "since": instant(since),
            "means": MEANS[stand.state],
        }
