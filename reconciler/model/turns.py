"""A turn of a conversation with a language model, without any vendor's shape.

Chains, ``llm/v1`` and the drivers speak these: a ``Turn`` goes in, a ``ModelTurn`` comes out, whole or in
events. A model asks for tools; nothing here runs one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from reconciler.model.outcome import Seen, Usage

Role = Literal["system", "developer", "user", "assistant", "tool"]
Stop = Literal["stop", "length", "tools", "filter", "refusal", "pause"]
Think = Literal["off", "minimal", "low", "medium", "high", "xhigh"]


@dataclass(frozen=True, slots=True)
class Text:
    """Words."""

    text: str


@dataclass(frozen=True, slots=True)
class Image:
    """A picture; only a model whose facts say ``vision`` may be shown one."""

    media_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Sound:
    """A recording; only a model whose facts say ``audio_in`` may be played one."""

    media_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A model's wish that a tool be called. ``arguments`` is JSON text as the model wrote it, and may be
    broken.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answered to the wish of that id."""

    id: str
    text: str
    failed: bool = False


Part = Text | Image | Sound | ToolUse | ToolResult


@dataclass(frozen=True, slots=True)
class Message:
    """One message. Tool results stand in messages of role ``tool``."""

    role: Role
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool that the model may ask for: a name, what it does, the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Turn:
    """What is asked of a model. None and the empty mean that nothing is said of it on the wire."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: str = ""  # "", "auto", "none", "required", or a tool's name after "tool:"
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    think: Think | None = None
    schema: Mapping[str, object] | None = None  # the answer's JSON Schema
    stream: bool = False


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """What a model answered. ``thinking`` is for the history of a run and is never sent back."""

    text: str
    finish: Stop
    tools: tuple[ToolUse, ...] = ()
    thinking: str = ""
    refusal: str = ""
    usage: Usage = field(default_factory=Usage)
    model: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    """A model's turn came back, whole."""

    turn: ModelTurn
    warnings: tuple[str, ...] = ()
    seen: Seen = field(default_factory=Seen)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a profile states of one model; what it does not state is not there."""

    vision: bool = False
    audio_in: bool = False
    tools: bool = False
    parallel_tools: bool = False
    json_schema: bool = False
    stream: bool = False
    think: bool = False
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the answer's words."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """The next piece of the model's own thinking, where it is shown."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """The next piece of the wish at ``index``; id and name come with its first one."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Preview:
    """A picture on the way, or a piece of sound: ``index`` counts up."""

    index: int
    media_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Finish:
    """The stream's own end, with its reason."""

    reason: Stop


Event = TextDelta | ThinkingDelta | ToolCallDelta | Preview | Usage | Finish
