"""What a run is answered, as values that a journal holds line by line, exactly."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, cast

from reconciler.chains import flow, history
from reconciler.chains.asks import ToolFace
from reconciler.chains.flow import Value
from reconciler.chains.history import History, Message
from reconciler.chains.retrying import ErrorClass


@dataclass(frozen=True, slots=True)
class ToolsFound:
    """The tools that there are, and providers that are granted and cannot be asked now."""

    tools: tuple[ToolFace, ...]
    unreachable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelSaid:
    """A whole answer; who gave it, and what was counted (0: not told). ``finish`` is the provider's word."""

    message: Message
    model: str = ""
    provider: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    finish: str = ""
    streamed: int = 0  # how many pieces a reader saw before the whole


@dataclass(frozen=True, slots=True)
class ModelFailed:
    """No answer. ``code`` is a closed word like ``no_models``; ``message`` is for operators alone.

    ``cannot_take_tools``: the provider refused the tools themselves, so that the question may be put without.
    ``midstream``: a part was shown already; the attempt is over, whatever the class says.
    """

    error: ErrorClass
    code: str = ""
    message: str = ""
    cannot_take_tools: bool = False
    midstream: bool = False
    model: str = ""


@dataclass(frozen=True, slots=True)
class ToolSaid:
    """A tool's result, and the difference it made to a file, for whoever watches."""

    value: Value
    diff: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolFailed:
    """A tool that did not do it: a closed code (``refused``, ``outcome_unknown``, …) and its sentence."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Decided:
    """A person's verdict: ``approved``, ``denied`` or ``expired``."""

    verdict: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class Slept:
    """The instant that was waited for is here."""


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The deadline of an ask passed without an answer."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Whoever started the run wants no more of it."""


Reply = ToolsFound | ModelSaid | ModelFailed | ToolSaid | ToolFailed | Decided | Slept | TimedOut | Cancelled

_WORDS: Mapping[type, str] = {
    ToolsFound: "tools", ModelSaid: "model", ModelFailed: "model_failed", ToolSaid: "tool",
    ToolFailed: "tool_failed", Decided: "decided", Slept: "slept", TimedOut: "timed_out",
    Cancelled: "cancelled",
}  # fmt: skip


def to_json(reply: Reply) -> dict[str, Any]:
    """A reply as a line of a journal has it."""
    found: dict[str, Any] = {"reply": _WORDS[type(reply)]}
    for one in fields(reply):
        found[one.name] = _SHOWN.get(one.name, _as_it_is)(getattr(reply, one.name))
    return found


def from_json(stored: Mapping[str, Any]) -> Reply:
    """The reply that a line holds; raises ValueError, KeyError or TypeError for any other line."""
    kind = next((kind for kind, word in _WORDS.items() if word == stored["reply"]), None)
    if kind is None:
        raise ValueError("it is no reply")
    values = {one.name: _READ.get(one.name, _as_it_is)(stored[one.name]) for one in fields(kind)}
    return cast("Reply", kind(**values))


def _as_it_is(value: Any) -> Any:
    return value


def _faces(tools: tuple[ToolFace, ...]) -> list[dict[str, Any]]:
    return [{one.name: getattr(face, one.name) for one in fields(ToolFace)} for face in tools]


def _message(message: "Message | str") -> Any:
    """``message`` is a model's message in one reply, and a sentence in two."""
    return message if isinstance(message, str) else history.to_json(History((message,)))["messages"][0]


def _read_message(stored: Any) -> "Message | str":
    return stored if isinstance(stored, str) else history.from_json({"messages": [stored]}).messages[0]


_SHOWN: Mapping[str, Callable[[Any], Any]] = {
    "tools": _faces,
    "message": _message,
    "error": lambda error: error.value,
    "value": flow.to_json,
    "diff": dict,
    "unreachable": list,
}
_READ: Mapping[str, Callable[[Any], Any]] = {
    "tools": lambda stored: tuple(ToolFace(**one) for one in stored),
    "message": _read_message,
    "error": ErrorClass,
    "value": flow.from_json,
    "unreachable": tuple,
}
