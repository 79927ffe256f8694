"""Routes that serve although newer ones are desired, on disk while that is so: a restart serves the same.

A file only while an agent keeps earlier routes because the newer ones are not proven; usually there is none.
"""

import logging
from contextlib import suppress
from pathlib import Path

import orjson

from reconciler.control import atomic
from reconciler.control.seals import Seals
from reconciler.control.sessions import routes_from, routes_json
from reconciler.model.identity import moved
from reconciler.model.routes import AgentRoutes, RouteTable
from reconciler.plan import serving

_LOG = logging.getLogger("handler.loop")


class Retained:
    """One file below the state folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: tuple[AgentRoutes, ...] = ()
        self._seals: Seals[str] = Seals(lambda _: path)

    def load(self) -> RouteTable:
        """The routes that were kept when the last controller ended; the empty table when there were none."""
        look = self._seals.look("")
        try:
            agents, recipes = routes_from(orjson.loads(self._path.read_bytes()))
        except FileNotFoundError:
            return serving.NOTHING
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            _LOG.warning("%s cannot be read: what it kept is lost, the newest serves", self._path)
            with suppress(
                OSError
            ):  # what cannot be removed either is told each time that it is to be written
                self._path.unlink(missing_ok=True)
            return serving.NOTHING
        self._kept = agents
        self._seals.note("", look)
        return RouteTable(generation=0, agents={one.agent: one for one in agents}, recipes=recipes)

    def save(self, served: RouteTable, desired: RouteTable) -> None:
        """Make the file hold the agents of ``served`` that differ from ``desired``.

        Where it cannot be written, that is logged and tried again the next time: serving goes on.
        """
        odd = moved(desired.agents, served.agents) & served.agents.keys()
        kept = tuple(served.agents[name] for name in sorted(odd))
        if kept == self._kept:
            return
        try:
            self._write(kept, served)
        except OSError as error:
            _LOG.warning("kept routes cannot be written down: %s", error.strerror or error)
        else:
            self._kept = kept

    def altered(self) -> bool:
        """Whether somebody else changed or removed the file."""
        return bool(self._seals.odd())

    def rewrite(self, served: RouteTable) -> None:
        """Write what is kept down anew; OSError when that fails."""
        self._write(self._kept, served)

    def _write(self, kept: tuple[AgentRoutes, ...], served: RouteTable) -> None:
        if not kept:
            self._path.unlink(missing_ok=True)
            self._seals.drop("")
            return
        names = {route.instance for routes in kept for route in routes.every()}
        recipes = {name: served.recipes[name] for name in names if name in served.recipes}
        data = orjson.dumps(routes_json(kept, recipes))
        atomic.write(self._path, data)
        self._seals.wrote("", len(data))
