"""What a run tells whoever watches: one value for each thing that happened, in order, numbered from 0.

A chain's start and end enclose everything; each attempt of a task is enclosed by its start and its end; a
call of a tool is pending before it is there; ``print`` comes after the end of its step. Telling changes
nothing: a run that nobody watches goes the same way. Pieces of a streamed answer (``step_chunk``) are told
by the runner.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal[
    "chain_started", "step_started", "step_completed", "step_failed", "tool_call_pending", "tool_call",
    "approval_requested", "approval_answered", "hitl_decision", "print", "token_usage", "model_call",
    "chain_completed", "chain_failed",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. ``at`` is an ISO instant; ``more`` holds the fields of its kind, by their
    names.
    """

    number: int
    kind: Kind
    at: str
    task: str = ""
    handler: str = ""
    retry: int = 0
    more: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The event by the names of the format."""
        found: dict[str, Any] = {"number": self.number, "kind": self.kind, "timestamp": self.at}
        if self.task:
            found |= {"task_id": self.task, "task_handler": self.handler, "retry": self.retry}
        return found | dict(self.more)


@dataclass(frozen=True, slots=True)
class Unit:
    """One attempt of a task, as a trace shows it: no payload, but for the error."""

    task: str
    handler: str
    retry: int
    input_type: str
    output_type: str = ""
    input_var: str = ""
    transition: str = ""  # the word that the branch was chosen by
    error: str = ""
    code: str = ""
    seconds: float = 0.0
    timed_out: bool = False
    cancelled: bool = False
    model: str = ""
    provider: str = ""
    tools: tuple[str, ...] = ()
