"""The conversation that a chain carries: messages, the tools they ask for, the images they show.

The JSON names are those of the format (``callTools``, ``tool_call_id``, ``mime_type``); unknown keys of a
history that comes from outside are dropped. A history is never changed: whatever adds to one makes another.
Thinking is kept and never sent to a model again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, cast

Role = Literal["system", "user", "assistant", "tool"]

_ROLES = ("system", "user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class Image:
    """A picture of a message: base64 text and its media type. Nothing is ever fetched."""

    data: str
    mime_type: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that a model asks for: ``name`` as ``provider.tool``, ``arguments`` as the model wrote them."""

    id: str
    name: str
    arguments: str = "{}"
    provider_meta: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """One message; of a ``tool`` message, ``tool_call_id`` names the call that it answers."""

    role: Role
    content: str = ""
    id: str = ""
    images: tuple[Image, ...] = ()
    thinking: str = ""
    tool_call_id: str = ""
    calls: tuple[ToolCall, ...] = ()
    timestamp: str = ""
    request_id: str = ""
    chain_ref: str = ""

    @property
    def call_ids(self) -> tuple[str, ...]:
        """The calls that it asks for, in the model's order."""
        return tuple(call.id for call in self.calls)


@dataclass(frozen=True, slots=True)
class History:
    """The messages, oldest first, the model that answered last, and what it counted."""

    messages: tuple[Message, ...] = ()
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0

    def plus(self, *messages: Message) -> Self:
        """The same with these at its end."""
        return replace(self, messages=(*self.messages, *messages))

    @property
    def last(self) -> Message | None:
        """The newest message, or None."""
        return self.messages[-1] if self.messages else None

    @property
    def has_images(self) -> bool:
        """Whether any message shows a picture: then only a model with vision may be asked."""
        return any(one.images for one in self.messages)


def of_text(text: str) -> History:
    """A history of one user message."""
    return History((Message("user", text),))


def shortened(message: Message, content: str) -> Message:
    """A message with less of its text, and none of its thinking."""
    return replace(message, content=content, thinking="")


# to and from JSON


def to_json(history: History) -> dict[str, Any]:
    """A history by the names of the format; what is empty is left out, but for role and content."""
    found: dict[str, Any] = {"messages": [_message(one) for one in history.messages]}
    if history.model:
        found["model"] = history.model
    return found | {"inputTokens": history.input_tokens, "outputTokens": history.output_tokens}


def _message(one: Message) -> dict[str, Any]:
    found: dict[str, Any] = {"role": one.role, "content": one.content}
    more = {
        "id": one.id,
        "thinking": one.thinking,
        "tool_call_id": one.tool_call_id,
        "timestamp": one.timestamp,
        "requestId": one.request_id,
        "chainRef": one.chain_ref,
        "images": [{"data": image.data, "mime_type": image.mime_type} for image in one.images],
        "callTools": [_call(call) for call in one.calls],
    }
    return found | {key: value for key, value in more.items() if value}


def _call(call: ToolCall) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }
    return found | ({"provider_meta": dict(call.provider_meta)} if call.provider_meta else {})


def from_json(value: object) -> History:
    """A history of a JSON object with ``messages``; raises ValueError, in words for a person."""
    if not isinstance(value, Mapping):
        raise ValueError("a chat history is an object with 'messages'")
    messages = value.get("messages") or []
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise ValueError("'messages' of a chat history is a list")
    return History(
        tuple(_read(one, number) for number, one in enumerate(messages)),
        _text(value, "model"),
        _count(value, "inputTokens"),
        _count(value, "outputTokens"),
    )


def _read(value: object, number: int) -> Message:
    if not isinstance(value, Mapping):
        raise ValueError(f"messages[{number}] is no object")
    role = value.get("role")
    if role not in _ROLES:
        raise ValueError(f"messages[{number}].role is not one of {', '.join(_ROLES)}")
    return Message(
        role=cast("Role", role),
        content=_text(value, "content"),
        id=_text(value, "id"),
        images=tuple(_image(one, number) for one in _list(value, "images")),
        thinking=_text(value, "thinking"),
        tool_call_id=_text(value, "tool_call_id"),
        calls=tuple(_read_call(one, number) for one in _list(value, "callTools")),
        timestamp=_text(value, "timestamp"),
        request_id=_text(value, "requestId"),
        chain_ref=_text(value, "chainRef"),
    )


def _image(value: object, number: int) -> Image:
    if not isinstance(value, Mapping):
        raise ValueError(f"messages[{number}].images holds something that is no object")
    return Image(_text(value, "data"), _text(value, "mime_type"))


def _read_call(value: object, number: int) -> ToolCall:
    function = value.get("function") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(function, Mapping):
        raise ValueError(f"messages[{number}].callTools holds something that is no call")
    meta = value.get("provider_meta")
    pairs = (
        tuple(sorted((str(key), str(one)) for key, one in meta.items())) if isinstance(meta, Mapping) else ()
    )
    return ToolCall(_text(value, "id"), _text(function, "name"), _text(function, "arguments"), pairs)


def _text(value: Mapping[Any, Any], key: str) -> str:
    found = value.get(key)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise ValueError(f"'{key}' of a chat history is text")
    return found


def _count(value: Mapping[Any, Any], key: str) -> int:
    found = value.get(key)
    return found if type(found) is int else 0


def _list(value: Mapping[Any, Any], key: str) -> Sequence[object]:
    found = value.get(key)
    return found if isinstance(found, list | tuple) else ()
