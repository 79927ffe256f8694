"""What the control socket answers about models alone: which an agent may ask, and one turn of one.

For doors that hold a conversation themselves, like the OpenAI-compatible one. Each turn has today's routes of
the agent, a decision and a charge of its own, and is told in pieces while it comes; it ends when its caller
leaves. Of what is said nothing is kept, of each turn a record.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from reconciler.control import rpc
from reconciler.control.loop import Controller
from reconciler.control.rpc import Refused
from reconciler.model import modelport, turnlines
from reconciler.model.calls import CallRecord
from reconciler.model.chain import END, Chain, Task
from reconciler.model.modelport import Candidate, Models, TurnFailed
from reconciler.model.names import Kind
from reconciler.model.routes import AgentRoutes
from reconciler.model.turns import (
    Answered,
    Event,
    Image,
    ModelTurn,
    Part,
    Sound,
    Text,
    TextDelta,
    ToolCallDelta,
    ToolResult,
    ToolUse,
    Turn,
)

_LONGEST_S = 3600.0
_USUAL_S = 600.0
_NO_STOPS = "field.stop"  # what stands in a cause that says: the profile states no ``stop``


class Talking:
    """The controller's answers, by method name. All on the loop's own thread."""

    def __init__(
        self, controller: Controller, models: Callable[[], Models], record: Callable[[CallRecord], None]
    ) -> None:
        """``models``: whoever asks them. ``record`` takes one record of each turn, as of a call."""
        self._controller, self._models, self._record = controller, models, record

    def table(self) -> Mapping[str, rpc.Method]:
        """The methods."""
        return {"llm.models": self.listed, "llm.turn": rpc.Attended(self.turn)}

    async def listed(self, params: Mapping[str, Any], caller: rpc.Caller) -> Any:
        """The models that ``agent`` (the only one) may ask, in its order, and the chains; of each chain the
        tasks that may be its last.
        """
        routes = self._routes(str(params.get("agent") or ""))
        found = self._models().candidates(self._caller(routes, ""))
        look = self._controller.look
        forms = look.admission.in_force if look else {}
        chains = {
            ref.name: [task.id for task in form.spec.tasks if _may_be_last(task)]
            for ref, form in sorted(forms.items(), key=lambda one: one[0].name)
            if ref.kind is Kind.CHAIN and isinstance(form.spec, Chain)
        }
        return {
            "agent": routes.agent,
            "models": [
                {"model": one.model, "provider": one.binding, "vision": one.facts.vision}
                for one in found
                if one.model
            ],
            "chains": chains,
        }

    async def turn(self, params: Mapping[str, Any], caller: rpc.Caller) -> Any:
        """One ``turn`` for ``agent``; "" as its model is the first. Tells ``{"event": …}`` while it comes,
        answers ``{"answer": …}`` or ``{"failed": code, "cause": …}``.
        """
        routes = self._routes(str(params.get("agent") or ""))
        try:
            turn = turnlines.turn_from(params["turn"])
            seconds = min(float(params.get("timeoutSeconds") or _USUAL_S), _LONGEST_S)
        except (KeyError, TypeError, ValueError) as fault:
            raise Refused(f"that is no turn of this version: {type(fault).__name__}") from None
        asking = self._caller(routes, str(params.get("session") or ""))
        models = self._models()
        shows = any(isinstance(part, Image) for one in turn.messages for part in one.parts)
        chosen = modelport.choose(models.candidates(asking), turn.model, vision=shows)
        if not isinstance(chosen, Candidate):
            return {"failed": chosen, "cause": "", "retryAfterSeconds": None}
        ending = _Ending(asking, chosen, turn)
        try:
            said = ending.said = await _told(models, (asking, chosen, turn, seconds), caller)
            if isinstance(said, TurnFailed) and turn.stop and _NO_STOPS in said.cause:
                turn = replace(turn, stop=())  # nothing was sent: whoever asked cuts the text itself
                said = ending.said = await _told(models, (asking, chosen, turn, seconds), caller)
        finally:
            if not chosen.is_called:
                self._record(ending.record())
        if isinstance(said, Answered):
            return {"answer": turnlines.answer(said.turn), "model": chosen.model, "provider": chosen.binding}
        return {"failed": said.fault, "cause": said.cause, "retryAfterSeconds": said.retry_after_s}

    def _routes(self, named: str) -> AgentRoutes:
        agents = self._controller.table.agents
        known = ", ".join(sorted(agents)) or "none"
        if named and named not in agents:
            raise Refused(f"there is no agent {named[:80]!r} whose models could be asked; agents: {known}")
        if not named and len(agents) != 1:
            raise Refused(f"say whose models are asked (--agent): {known}")
        return agents[named or next(iter(agents))]

    def _caller(self, routes: AgentRoutes, session: str) -> modelport.Caller:
        return modelport.Caller(routes.agent, session or f"talk-{secrets.token_hex(6)}", routes)


@dataclass
class _Ending:
    """A turn, and what became of it so far: nobody wanted it any more."""

    caller: modelport.Caller
    candidate: Candidate
    turn: Turn
    said: Answered | TurnFailed | None = None
    began: tuple[float, float] = field(default_factory=lambda: (time.time(), time.monotonic()))

    def record(self) -> CallRecord:
        """What is kept of it: never a payload."""
        failed = self.said if isinstance(self.said, TurnFailed) else None
        routes = self.caller.routes.every()
        route = next((one for one in routes if one.binding == self.candidate.binding), None)
        return CallRecord(
            at=self.began[0],
            call=secrets.token_hex(6),
            session=self.caller.session,
            agent=self.caller.agent,
            interface=self.caller.interface,
            tool="turn",
            binding=self.candidate.binding,
            instance=str(route.instance) if route else "",
            code="cancelled" if self.said is None else failed.fault if failed else "ok",
            ms=(time.monotonic() - self.began[1]) * 1000,
            in_bytes=sum(_size(part) for one in self.turn.messages for part in one.parts),
            out_bytes=len(self.said.turn.text.encode()) if isinstance(self.said, Answered) else 0,
            diagnostic=failed.cause if failed else "",
        )


def _size(part: Part) -> int:
    match part:
        case Text(text) | ToolResult(text=text):
            return len(text.encode())
        case ToolUse(arguments=text):
            return len(text.encode())
        case Image(data=data) | Sound(data=data):
            return len(data)


def _may_be_last(task: Task) -> bool:
    branches = task.transition.branches
    return not branches or any(one.goto in ("", END) for one in branches)


class _Telling:
    """The pieces of one answer on their way to who asked; words that wait for a slow one become one piece."""

    def __init__(self, caller: rpc.Caller) -> None:
        self._caller, self._pieces, self._more = caller, list[Event](), asyncio.Event()
        self.began = False

    def heard(self, event: Event) -> None:
        self.began = True
        last = self._pieces[-1] if self._pieces else None
        if isinstance(event, TextDelta) and isinstance(last, TextDelta):
            self._pieces[-1] = TextDelta(last.text + event.text)
        else:
            self._pieces.append(event)
        self._more.set()

    async def tell(self) -> None:
        """Tell what waits."""
        while self._pieces:
            if (line := turnlines.event(self._pieces.pop(0))) is not None:
                await self._caller.tell({"event": line})

    async def on(self) -> None:
        """Tell all that comes, until cancelled."""
        while True:
            await self._more.wait()
            self._more.clear()
            await self.tell()

    async def rest(self, said: ModelTurn) -> None:
        """Tell what is left: of a model that answers as a whole alone, all of it."""
        if not self.began:
            self._pieces += [TextDelta(said.text)] if said.text else []
            self._pieces += [
                ToolCallDelta(n, use.id, use.name, use.arguments) for n, use in enumerate(said.tools)
            ]
        await self.tell()


async def _told(
    models: Models, asked: tuple[modelport.Caller, Candidate, Turn, float], caller: rpc.Caller
) -> Answered | TurnFailed:
    """The answer, once the caller was told of its pieces."""
    asking, chosen, turn, seconds = asked
    telling = _Telling(caller)
    wanted = telling.heard if turn.stream else None
    work = asyncio.ensure_future(models.turn(asking, chosen, turn, timeout_s=seconds, on_event=wanted))
    teller = asyncio.ensure_future(telling.on())
    try:
        await asyncio.wait((work, teller), return_when=asyncio.FIRST_COMPLETED)
        if teller.done():
            await teller  # the caller left: what it raises ends this
        said = await work
    finally:
        for one in (work, teller):
            one.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await one
    if turn.stream and isinstance(said, Answered):
        await telling.rest(said.turn)
    else:
        await telling.tell()
    return said
