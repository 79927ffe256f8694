"""A turn of a conversation by ``llm_complete``: for models of connectors that have code of their own.

Such a connector knows one tool, of one prompt: ``llm/v1``. A turn that fits it goes there by the law of every
call, policy and record included; of a conversation with earlier messages, these are the material and the last
one is the prompt. What it has no room for (tools, pictures, a seed) is refused by the fact's name before
anything is asked, as with a profile that does not state it. A temperature is the connector's own.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from reconciler.model.modelport import Caller, Candidate, Fault, TurnFailed
from reconciler.model.names import InterfaceRef
from reconciler.model.outcome import Effect, Usage
from reconciler.model.routes import Route
from reconciler.model.turns import Answered, Message, ModelFacts, ModelTurn, Text, Turn
from reconciler.router.server import Ask, Pinned
from reconciler.router.within import Said

INTERFACE, TOOL = InterfaceRef("llm", 1), "llm_complete"
_GO_ON = "Give the next message of the assistant in this conversation."
_SO_FAR = "The conversation so far:"
_FAULTS: dict[str, tuple[Fault, str, Effect]] = {
    "invalid_input": ("invalid_input", "the turn is larger than llm_complete takes", "none"),
    "refused": ("refused", "llm_complete was refused", "none"),
    "limit": ("limit", "a limit of llm/v1 is reached", "none"),
    "too_long": ("invalid_input", "context length exceeded", "none"),
    "unsupported_schema": ("refused", "field.schema: the connector cannot use this schema", "none"),
}
Calling = Callable[[Pinned, Ask], Awaitable[Said]]


class Unfit(ValueError):  # noqa: N818 - a turn that does not fit is no fault of anybody's
    """What of a turn has no room in ``llm_complete``: the fact's name, and words for operators."""


@dataclass(frozen=True, slots=True)
class Prompting:
    """``call`` makes one call in a session, with nothing counted for it."""

    call: Calling

    def candidates(self, route: Route) -> Iterator[Candidate]:
        """The models of a route whose connector has code: those that are granted by name; where any may be
        asked for, its usual one, which has no name.
        """
        if not is_asked_by_prompt(route):
            return
        for model in route.models if route.models is not None else ("",):
            yield Candidate(model, route.binding, route.binding, ModelFacts(json_schema=True), is_called=True)

    async def turn(self, caller: Caller, route: Route, turn: Turn, timeout_s: float) -> Answered | TurnFailed:
        """Ask once. Nothing is raised but being cancelled."""
        if not is_asked_by_prompt(route):
            return TurnFailed("refused", f"{TOOL} of {INTERFACE} is not granted", "none")
        try:
            given = arguments(turn)
        except Unfit as fault:
            return TurnFailed("refused", str(fault), "none")
        session = caller.session or f"turn-{secrets.token_hex(6)}"
        try:
            async with asyncio.timeout(timeout_s):
                said = await self.call(Pinned(session, caller.routes), Ask(INTERFACE.name, TOOL, given))
        except TimeoutError:
            return TurnFailed("timeout", "no answer in time")
        if said.code != "ok":
            return TurnFailed(*_FAULTS.get(said.code, ("unavailable", said.code, "unknown")))
        return _answered(said.structured, turn)


def is_asked_by_prompt(route: Route) -> bool:
    """Whether what stands there is asked by the tool, as it is published, and the agent may."""
    return (
        not route.vacant
        and route.interface == INTERFACE
        and TOOL in route.contract.tools
        and (route.tools is None or TOOL in route.tools)
    )


def arguments(turn: Turn) -> dict[str, Any]:
    """A turn as the arguments of ``llm_complete``. Raises Unfit."""
    beyond: dict[str, object] = {
        "tools": turn.tools if turn.tool_choice != "none" else (),
        "top_p": turn.top_p,
        "seed": turn.seed,
        "stop": turn.stop,
        "think": turn.think if turn.think != "off" else None,
    }
    for name in (one for one, asked in beyond.items() if asked not in (None, ())):
        raise Unfit(f"field.{name}: a connector with code is asked by {TOOL}, which has no {name}")
    system = [_words(one) for one in turn.messages if one.role in ("system", "developer")]
    said = [one for one in turn.messages if one.role not in ("system", "developer")]
    last = said.pop() if said and said[-1].role == "user" else None
    earlier = "\n\n".join(f"{one.role}: {_words(one)}" for one in said)
    given: dict[str, Any] = {
        "model": turn.model,
        "system": "\n\n".join(filter(None, system)),
        "prompt": (_words(last) if last else "") or _GO_ON,
        "input": f"{_SO_FAR}\n\n{earlier}" if earlier else "",
        "maxTokens": turn.max_tokens,
        "schema": orjson.dumps(turn.schema).decode() if turn.schema is not None else None,
    }
    return {name: value for name, value in given.items() if value}


def _words(message: Message) -> str:
    if any(not isinstance(part, Text) for part in message.parts):
        raise Unfit(f"field.messages: {TOOL} takes words here, no pictures, sounds or calls of tools")
    return "\n".join(part.text for part in message.parts if isinstance(part, Text))


def _answered(told: Any, turn: Turn) -> Answered | TurnFailed:
    if turn.schema is not None and not told["valid"]:
        return TurnFailed("unavailable", "the answer does not fit the schema, after two tries")
    text = orjson.dumps(told["value"]).decode() if "value" in told else str(told.get("text", ""))
    usage = Usage(input_tokens=told["usage"]["inTokens"], output_tokens=told["usage"]["outTokens"])
    return Answered(ModelTurn(text, "stop", usage=usage, model=turn.model))
