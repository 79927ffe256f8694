"""Whom an agent may call, and the sessions in which the called work: with their own scope and services.

An agent calls those whom its file lists, as its session was pinned and as the configuration has it today.
Each call makes a chain of callers one longer, and the chain has an end: ``MOST_DEEP``. What the caller has
read is of a class, and so is what it says: the called agent's session begins with that class, and gives its
own back with its answer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from reconciler.control.doorkeeper import Doorkeeper
from reconciler.control.loop import Controller
from reconciler.control.openings import Openings
from reconciler.control.policing import Policing
from reconciler.control.processes import Process
from reconciler.model.agentrun import Run
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.resources import Agent

_LONGEST = 1000  # characters of what is said of one
MOST_DEEP = 3  # agents that call one another, the first caller not counted


class NotCalledError(Exception):
    """An agent cannot be called; ``code`` is what its caller reads, the text is for operators."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


@dataclass(frozen=True, slots=True)
class Callee:
    """An agent that may be called: how it works, and the agents on whose behalf it does."""

    name: str
    run: Run
    above: tuple[str, ...]


class Callees(Protocol):
    """Who knows whom an agent may call, and opens sessions for those who are. For the loop's thread."""

    def listed(self, session: str) -> list[dict[str, str]]:
        """Whom a session may call: their names, and what they are for. For any thread."""
        ...

    def callee(self, session: str, caller: str, name: str) -> Callee:
        """Whom a session calls. Raises NotCalledError."""
        ...

    def still(self, caller: str, name: str) -> Run:
        """How an agent works that was called a while ago. Raises NotCalledError."""
        ...

    def class_of(self, session: str, agent: str) -> str:
        """The class of what is said in a session; "" where nothing has one."""
        ...

    def mark(self, session: str, class_name: str) -> None:
        """What a session says from now on is at least of that class. Raises OSError."""
        ...

    async def open(self, name: str, opener: Process, above: tuple[str, ...]) -> Mapping[str, Any]:
        """A session for whoever works for an agent, as the control socket tells of one. Raises
        NotCalledError, OSError.
        """
        ...

    async def close(self, session: str) -> None:
        """That work is over."""
        ...


class OwnCallees:
    """The agents of the configuration."""

    def __init__(
        self, config: Path, controller: Callable[[], Controller], keeper: Doorkeeper, policing: Policing
    ) -> None:
        self._config = config
        self._controller, self._keeper, self._policing = controller, keeper, policing

    def listed(self, session: str) -> list[dict[str, str]]:
        """As ``Callees`` has it."""
        found = self._keeper.session(session)
        told = []
        for name in found.routes.agents if found is not None else ():
            form = self._form(name)
            if form is not None and form.run is not None:
                told.append({"agent": name, "description": form.description[:_LONGEST]})
        return told

    def callee(self, session: str, caller: str, name: str) -> Callee:
        """As ``Callees`` has it."""
        found = self._keeper.session(session)
        if found is None or name not in found.routes.agents:
            raise NotCalledError("no_such_agent", f"{caller} may not call {name}")
        above = (*found.above, caller)
        if len(above) > MOST_DEEP:
            raise NotCalledError("too_deep", f"{' > '.join(above)} > {name}")
        return Callee(name, self.still(caller, name), above)

    def still(self, caller: str, name: str) -> Run:
        """As ``Callees`` has it."""
        mine, form = self._form(caller), self._form(name)
        if mine is None or name not in mine.agents or form is None:
            raise NotCalledError("no_such_agent", f"{caller} may not call {name} any more")
        if form.run is None:
            raise NotCalledError("no_such_agent", f"agents/{name}.toml has no [run]: it works for nobody")
        if name not in self._controller().table.agents:
            raise NotCalledError("unavailable", f"agent {name} can open no session now")
        return form.run

    def class_of(self, session: str, agent: str) -> str:
        """As ``Callees`` has it."""
        return self._policing.class_of(session, agent)

    def mark(self, session: str, class_name: str) -> None:
        """As ``Callees`` has it."""
        self._policing.mark(session, class_name)

    async def open(self, name: str, opener: Process, above: tuple[str, ...]) -> Mapping[str, Any]:
        """As ``Callees`` has it."""
        table = self._controller().table
        routes = table.agents.get(name)
        if routes is None:
            raise NotCalledError("unavailable", f"agent {name} can open no session now")
        session = await self._keeper.open(routes, table, opener, above)
        return {**Openings(self._controller()).answer(session), "config": str(self._config)}

    async def close(self, session: str) -> None:
        """As ``Callees`` has it."""
        await self._keeper.close(session)

    def _form(self, name: str) -> Agent | None:
        look = self._controller().look
        form = look.admission.in_force.get(ObjectRef(Kind.AGENT, name)) if look else None
        return form.spec if form is not None and isinstance(form.spec, Agent) else None
