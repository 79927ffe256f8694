"""The models of chains, as their runs ask for them: ``chains.ports.Models`` over ``model.modelport``.

A run asks by its session's own routes, where that is open, else by those of its agent now; each failure gets
the class by which a chain's policy decides whether to ask again.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from reconciler.chains.ports import Asker, NotTurned, Offered, Told, Turned
from reconciler.chains.retrying import ErrorClass, classified
from reconciler.model import modelport
from reconciler.model.modelport import Caller, Candidate, TurnFailed
from reconciler.model.outcome import Seen
from reconciler.model.routes import AgentRoutes
from reconciler.model.turns import Turn

_LONGEST_S = 600.0  # of a turn where a chain names no deadline
_CLASSES: dict[modelport.Fault, ErrorClass] = {
    "refused": ErrorClass.PERMANENT,
    "rate_limit": ErrorClass.RATE_LIMIT,
    "auth": ErrorClass.AUTH,
    "limit": ErrorClass.RATE_LIMIT,
    "unavailable": ErrorClass.SERVER_ERROR,
    "timeout": ErrorClass.TIMEOUT,
    "substituted": ErrorClass.PERMANENT,
}
_CODES: dict[modelport.Fault, str] = {"refused": "refused", "limit": "limit", "rate_limit": "limit"}


class ChainModels:
    """``routes`` gives those of an agent's session ("" or one that is closed: the agent's own now); None: it
    has none.
    """

    def __init__(self, models: modelport.Models, routes: Callable[[str, str], AgentRoutes | None]) -> None:
        self._models, self._routes = models, routes

    def offered(self, agent: str) -> tuple[Offered, ...]:
        """As ``chains.ports.Models`` has it."""
        caller = self._caller(agent, "")
        found = self._models.candidates(caller) if caller is not None else ()
        return tuple(Offered(one.model, one.binding, one.provider, one.facts) for one in found)

    async def turn(
        self, asker: Asker, provider: str, turn: Turn, *, told: Told | None, deadline: datetime | None
    ) -> Turned | NotTurned:
        """As ``chains.ports.Models`` has it."""
        caller = self._caller(asker.agent, asker.session)
        found = self._models.candidates(caller) if caller is not None else ()
        chosen = modelport.choose(found, turn.model, provider)
        if caller is None or not isinstance(chosen, Candidate):
            return NotTurned(ErrorClass.PERMANENT, "no_models", f"{chosen}: nothing was sent")
        left_s = _LONGEST_S
        if deadline is not None:
            left_s = min(left_s, (deadline - datetime.now(UTC)).total_seconds())
        if left_s <= 0:
            return NotTurned(ErrorClass.TIMEOUT, "timeout", "no time was left, and nothing was sent")
        said = await self._models.turn(caller, chosen, turn, timeout_s=left_s, on_event=told)
        if isinstance(said, TurnFailed):
            return _failed(said, turn)
        return Turned(said.turn, said.turn.model or chosen.model, chosen.binding)

    def _caller(self, agent: str, session: str) -> Caller | None:
        routes = self._routes(agent, session)
        return Caller(agent, session, routes) if routes is not None else None


def _failed(said: TurnFailed, turn: Turn) -> NotTurned:
    error = _CLASSES.get(said.fault) or _by_status(said.seen, said.cause)
    code = "capacity" if error is ErrorClass.CAPACITY else _CODES.get(said.fault, said.fault)
    no_tools = bool(turn.tools) and said.fault == "refused" and "field.tools" in said.cause
    return NotTurned(error, code, said.cause, cannot_take_tools=no_tools, midstream=said.began)


def _by_status(seen: Seen, cause: str) -> ErrorClass:
    """The class of what a server said was no good: of a request that is too long it says so by a code."""
    return classified(seen.status or None, cause.replace("_", " "))
