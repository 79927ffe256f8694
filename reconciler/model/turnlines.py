"""Turns, their pieces and their answers as JSON, for a line between two processes of ours.

``turn`` and ``turn_from`` give back exactly what went in, pictures as base64.
"""

import base64
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, assert_never, cast

from reconciler.model.outcome import Usage
from reconciler.model.turns import (
    Event,
    Finish,
    Image,
    Message,
    ModelTurn,
    Part,
    Preview,
    Sound,
    Text,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolResult,
    ToolSpec,
    ToolUse,
    Turn,
)

_PLAIN = (
    "model", "tool_choice", "max_tokens", "temperature", "top_p", "seed", "think", "schema", "stream",
)  # fmt: skip
_EVENTS: Mapping[str, type[TextDelta | ThinkingDelta | ToolCallDelta | Usage | Finish]] = {
    "text": TextDelta, "thinking": ThinkingDelta, "tool": ToolCallDelta, "usage": Usage, "finish": Finish,
}  # fmt: skip


def turn(one: Turn) -> dict[str, Any]:
    """A turn as JSON."""
    return {
        **{name: getattr(one, name) for name in _PLAIN},
        "messages": [
            {"role": each.role, "parts": [_part(part) for part in each.parts]} for each in one.messages
        ],
        "tools": [asdict(tool) for tool in one.tools],
        "stop": list(one.stop),
    }


def turn_from(stored: Mapping[str, Any]) -> Turn:
    """The turn that ``turn`` told of; raises KeyError, TypeError or ValueError for anything else."""
    return Turn(
        messages=tuple(
            Message(one["role"], tuple(_part_from(part) for part in one["parts"]))
            for one in stored["messages"]
        ),
        tools=tuple(ToolSpec(**one) for one in stored["tools"]),
        stop=tuple(stored["stop"]),
        **{name: stored[name] for name in _PLAIN},
    )


def event(one: Event) -> dict[str, Any] | None:
    """A piece as JSON; None for a picture or sound on its way, which no line carries."""
    if isinstance(one, Preview):
        return None
    kind = next(word for word, each in _EVENTS.items() if isinstance(one, each))
    return {"kind": kind, **asdict(one)}


def event_from(stored: Mapping[str, Any]) -> Event:
    """The piece that ``event`` told of; raises as ``turn_from`` does."""
    fields = {name: value for name, value in stored.items() if name != "kind"}
    return cast("Event", _EVENTS[stored["kind"]](**fields))


def answer(one: ModelTurn) -> dict[str, Any]:
    """A model's turn as JSON."""
    return asdict(one)


def answer_from(stored: Mapping[str, Any]) -> ModelTurn:
    """The turn that ``answer`` told of; raises as ``turn_from`` does."""
    wishes = tuple(ToolUse(**one) for one in stored["tools"])
    return ModelTurn(**{**stored, "tools": wishes, "usage": Usage(**stored["usage"])})


def _part(part: Part) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"text": text}
        case Image(media_type, data):
            return {"image": media_type, "data": base64.b64encode(data).decode()}
        case Sound(media_type, data):
            return {"sound": media_type, "data": base64.b64encode(data).decode()}
        case ToolUse():
            return {"use": asdict(part)}
        case ToolResult():
            return {"result": asdict(part)}
        case _:
            assert_never(part)


def _part_from(stored: Mapping[str, Any]) -> Part:
    if "text" in stored:
        return Text(stored["text"])
    if "use" in stored:
        return ToolUse(**stored["use"])
    if "result" in stored:
        return ToolResult(**stored["result"])
    data = base64.b64decode(stored["data"])
    return Image(stored["image"], data) if "image" in stored else Sound(stored["sound"], data)
