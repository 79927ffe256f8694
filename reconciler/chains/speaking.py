"""A question of a run as a turn of a model, and the model's answer as a message of the run.

Tools go by names that every provider takes (no dots); what comes back is turned round, and so are the calls
of earlier messages. Which model answers is chosen here, too: the first candidate that the agent is granted.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.chains import toolnames
from reconciler.chains.asks import AskModel, Candidate
from reconciler.chains.history import Message, ToolCall
from reconciler.chains.ports import NotTurned, Offered, Turned
from reconciler.chains.replies import ModelFailed, ModelSaid
from reconciler.chains.retrying import ErrorClass
from reconciler.model import turns
from reconciler.model.turns import Image, Text, ToolResult, ToolSpec, ToolUse, Turn

_THINK: Mapping[str, turns.Think] = {
    "off": "off", "false": "off", "none": "off", "disabled": "off", "disable": "off", "no": "off", "0": "off",
    "minimal": "minimal", "low": "low", "medium": "medium", "high": "high", "true": "high", "on": "high",
    "yes": "high", "1": "high", "xhigh": "xhigh",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Choice:
    """The model that is asked."""

    offered: Offered
    model: str


def chosen(ask: AskModel, offered: tuple[Offered, ...]) -> Choice | ModelFailed:
    """The first candidate that there is, and that can see where there is something to see."""
    blind: list[str] = []
    for candidate in ask.candidates:
        for one in offered:
            if not _is(candidate, one):
                continue
            if ask.needs_vision and not one.facts.vision:
                blind.append(one.model)
                continue
            return Choice(one, candidate.model if one.is_scripted and candidate.model else one.model)
    if blind:
        words = f"a picture is to be shown, and none of these can see: {', '.join(dict.fromkeys(blind))}"
        return ModelFailed(ErrorClass.PERMANENT, "no_vision_model", words)
    wanted = ", ".join(dict.fromkeys(_named(one) for one in ask.candidates))
    known = ", ".join(f"{one.model} of {one.provider}" for one in offered[:12]) or "none"
    return ModelFailed(
        ErrorClass.PERMANENT, "no_models", f"no model is there for {wanted}; the agent's models: {known}"
    )


def _is(candidate: Candidate, one: Offered) -> bool:
    if one.is_scripted:
        return True
    return candidate.model in ("", one.model) and candidate.provider in ("", one.provider, one.kind)


def _named(candidate: Candidate) -> str:
    told = f"'{candidate.model}'" if candidate.model else "any model"
    return f"{told} of '{candidate.provider}'" if candidate.provider else told


def turn(ask: AskModel, model: str, *, stream: bool) -> Turn:
    """The question as a turn. Raises ValueError for a picture that is no base64."""
    names = toolnames.aliases(_names(ask))
    tools = tuple(ToolSpec(names[one.full_name], one.description, one.input_schema) for one in ask.tools)
    return Turn(
        model,
        tuple(_message(one, names) for one in ask.messages),
        tools,
        max_tokens=ask.max_tokens or None,
        temperature=ask.temperature,
        think=_THINK.get(ask.think.strip().lower()),
        stream=stream,
    )


def _names(ask: AskModel) -> list[str]:
    called = [call.name for message in ask.messages for call in message.calls]
    return list(dict.fromkeys([one.full_name for one in ask.tools] + called))


def _message(one: Message, names: Mapping[str, str]) -> turns.Message:
    if one.role == "tool":
        return turns.Message("tool", (ToolResult(one.tool_call_id, one.content),))
    parts: list[turns.Part] = [Text(one.content)] if one.content or not one.calls else []
    for image in one.images:
        try:
            parts.append(Image(image.mime_type, base64.b64decode(image.data, validate=True)))
        except binascii.Error:
            raise ValueError("a picture of the conversation is no base64") from None
    parts += [ToolUse(call.id, names.get(call.name, call.name), call.arguments or "{}") for call in one.calls]
    return turns.Message(one.role, tuple(parts))


def reply(ask: AskModel, said: Turned | NotTurned, streamed: int = 0) -> ModelSaid | ModelFailed:
    """What the run is answered; ``streamed`` pieces were told before."""
    if isinstance(said, NotTurned):
        shown = said.midstream or streamed > 0
        return ModelFailed(said.error, said.code, said.detail, said.cannot_take_tools, midstream=shown)
    full = {alias: name for name, alias in toolnames.aliases(_names(ask)).items()}
    one = said.turn
    calls = tuple(ToolCall(use.id, full.get(use.name, use.name), use.arguments) for use in one.tools)
    message = Message("assistant", one.text or one.refusal, thinking=one.thinking, calls=calls)
    return ModelSaid(
        message,
        said.model or one.model,
        said.provider,
        one.usage.input_tokens,
        one.usage.output_tokens,
        one.finish,
        streamed,
    )
