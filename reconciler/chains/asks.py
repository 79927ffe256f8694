"""What a run asks of whoever runs it, and what it is answered: the engine's only ways out and in.

One ask stands at a time. Its ``id`` is the same again when a run is resumed, so that whoever carries it out
can see that it did so before: an effect is recorded under that id and never repeated. A ``deadline`` is the
end of the attempt that asks; whoever does not answer by then answers ``TimedOut``. ``Cancelled`` ends a run
at once.

| ask | answers |
| --- | --- |
| AskTools | ToolsFound |
| AskModel | ModelSaid, ModelFailed |
| AskTool | ToolSaid, ToolFailed |
| AskApproval | Decided |
| AskSleep | Slept |
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from reconciler.chains.history import Message, ToolCall

Policies = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class ToolFace:
    """A tool as a model is told of it: ``provider.name``, what it does, the schema of its input."""

    provider: str
    name: str
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=dict)
    tokens: int = 0  # what naming it costs in a request, as the runner counts
    effect: str = "none"  # what a call changes: anything but none is never made twice

    @property
    def full_name(self) -> str:
        """``provider.tool``, which a run knows it by."""
        return f"{self.provider}.{self.name}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that may be asked: empty names are the runner's own choice."""

    model: str = ""
    provider: str = ""


# asks


@dataclass(frozen=True, slots=True)
class AskTools:
    """Which tools do these providers have? A provider that nobody granted is left out, not refused.

    ``wanted`` is the task's allowlist (``*``, names, ``!names``; None: every one that is granted, for a
    task that executes without a list of its own); ``policies`` may change how they are described.
    """

    id: str
    task: str
    wanted: tuple[str, ...] | None
    policies: Policies = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AskModel:
    """One call of a model: its first candidate that is there answers, each transmission decided on its own.

    ``kind`` is ``chat`` or ``route`` (whose words are no prose for a reader). ``temperature`` None sends
    none. ``needs_vision``: a picture is among the messages, so a model that cannot see is no candidate.
    """

    id: str
    task: str
    kind: Literal["chat", "route"]
    candidates: tuple[Candidate, ...]
    messages: tuple[Message, ...]
    tools: tuple[ToolFace, ...] = ()
    temperature: float | None = None
    max_tokens: int = 0  # 0: none is sent
    think: str = ""
    needs_vision: bool = False
    number: int = 1  # which try of the retry policy
    deadline: datetime | None = None


@dataclass(frozen=True, slots=True)
class AskTool:
    """One call of a tool, allowed or approved. ``call`` is the model's id of it; "" where a task calls it
    itself.

    ``arguments`` is what a person was asked about, where one was: the object that a model wrote, or what
    flows to a task with its fixed arguments over it.
    """

    id: str
    task: str
    call: str
    provider: str
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    policies: Mapping[str, str] = field(default_factory=dict)
    max_bytes: int = 0
    debug: bool = False
    deadline: datetime | None = None


@dataclass(frozen=True, slots=True)
class AskApproval:
    """May this call be made? A durable question: the run may be put away here and resumed with the answer."""

    id: str
    task: str
    call: ToolCall
    provider: str
    tool: str
    arguments: Mapping[str, Any]
    rule: int | None = None  # of the policy, by number from 0; None: its default action
    timeout_s: int = 0  # after it the answer is no; 0: the runner's own ceiling


@dataclass(frozen=True, slots=True)
class AskSleep:
    """Wait until this instant; nothing else happens meanwhile."""

    id: str
    task: str
    until: datetime
    why: str = ""


Ask = AskTools | AskModel | AskTool | AskApproval | AskSleep
