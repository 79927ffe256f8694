"""What the OpenAI-compatible door answers: whole answers, chunks of a stream, lists of models, errors.

Values in, JSON objects out; ids and instants are handed in. Source: OpenAI's OpenAPI file of 2026-08-21.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from reconciler.model.outcome import Usage
from reconciler.model.turns import Event, Stop, TextDelta, ToolCallDelta, ToolUse

DONE = b"data: [DONE]\n\n"
WAITING = b": waiting\n\n"  # a comment: nobody reads it, and no clock on the way runs out

_FINISHES: Mapping[Stop, str] = {
    "stop": "stop", "length": "length", "tools": "tool_calls", "filter": "content_filter",
    "refusal": "stop", "pause": "stop",
}  # fmt: skip
# a closed word of ours: the status, and the type that clients of the protocol know it by
_KINDS: Mapping[str, tuple[int, str]] = {
    "invalid_input": (400, "invalid_request_error"),
    "unsupported_value": (400, "invalid_request_error"),
    "invalid_image_url": (400, "invalid_request_error"),
    "capacity": (400, "invalid_request_error"),
    "no_vision_model": (400, "invalid_request_error"),
    "invalid_api_key": (401, "auth_error"),
    "refused": (403, "permission_error"),
    "approval_denied": (403, "permission_error"),
    "model_not_found": (404, "invalid_request_error"),
    "no_models": (404, "invalid_request_error"),
    "chain_not_found": (404, "invalid_request_error"),
    "session_not_found": (404, "invalid_request_error"),
    "not_found": (404, "invalid_request_error"),
    "method_not_allowed": (405, "invalid_request_error"),
    "too_slow": (408, "invalid_request_error"),
    "session_busy": (409, "invalid_request_error"),
    "too_large": (413, "invalid_request_error"),
    "limit": (429, "rate_limit_error"),
    "rate_limit": (429, "rate_limit_error"),
    "auth": (502, "server_error"),
    "substituted": (502, "server_error"),
    "unavailable": (503, "server_error"),
    "timeout": (504, "server_error"),
}
_AGAIN = ("limit", "rate_limit")  # nothing was done, and asking later is right
# What a client reads of a code where nothing more is to be said: no vendor, no binding, nothing of a policy.
_TEXTS: Mapping[str, str] = {
    "invalid_input": "the model does not take this request",
    "capacity": "the conversation is longer than the model takes",
    "no_vision_model": "there are pictures in the conversation, and the model sees none",
    "refused": "this may not be asked: a rule or the model's own description is against it",
    "approval_denied": "a person was asked, and did not allow it",
    "model_not_found": "there is no such model: GET /v1/models lists them",
    "no_models": "no model is there to be asked",
    "chain_not_found": "there is no such chain: GET /v1/models lists them",
    "cannot_begin": "the run of the chain cannot begin: the door's log says why",
    "limit": "too much is asked at once",
    "rate_limit": "the model is asked too often now",
    "auth": "the model's server does not take our credential",
    "substituted": "another model than the one that was asked answered",
    "unavailable": "the model cannot be reached, or not be understood",
    "timeout": "no answer came in time",
    "outcome_unknown": "a tool was called and what became of it is not known: do not ask again blindly",
}


@dataclass(frozen=True, slots=True)
class Head:
    """What every piece of one answer bears. ``created`` is in seconds since 1970; ``mark`` is "" or tells
    that no model answered (``scripted``).
    """

    id: str
    created: int
    model: str
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """A whole answer."""

    text: str = ""
    finish: Stop = "stop"
    tools: tuple[ToolUse, ...] = ()
    refusal: str = ""
    usage: Usage = field(default_factory=Usage)
    model: str = ""  # that answered; "" where the one that was asked did
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Faulted:
    """No answer, or none any more: a closed code. ``detail`` is for the door's own log alone."""

    code: str
    detail: str = ""
    message: str = ""  # instead of the code's usual sentence
    param: str = ""
    retry_after_s: float | None = None
    ran: bool = False  # a run began, and may have had effects

    @property
    def status(self) -> int:
        """The HTTP status; 500 for a code that has none of its own."""
        return _KINDS.get(self.code, (500, ""))[0]

    @property
    def headers(self) -> dict[str, str]:
        """What tells clients whether to ask again: a run may have had effects, so only where none began."""
        again = {"x-should-retry": "true" if self.code in _AGAIN and not self.ran else "false"}
        if self.retry_after_s is not None:
            again["retry-after"] = str(max(1, round(self.retry_after_s)))
        return again

    def body(self) -> dict[str, Any]:
        """The error as JSON, also within a stream."""
        _, kind = _KINDS.get(self.code, (500, "server_error"))
        message = self.message or _TEXTS.get(self.code, f"the run ended with {self.code}")
        return {"error": {"message": message, "type": kind, "param": self.param or None, "code": self.code}}


@dataclass(frozen=True, slots=True)
class Listed:
    """A model, or a chain under its name as one."""

    id: str


def models(listed: Iterable[Listed]) -> dict[str, Any]:
    """The list of them."""
    return {"object": "list", "data": [model(one) for one in listed]}


def model(listed: Listed) -> dict[str, Any]:
    """One of them. Whose it is stays ours."""
    return {"id": listed.id, "object": "model", "created": 0, "owned_by": "handler"}


def whole(head: Head, said: Said) -> dict[str, Any]:
    """An answer in one piece."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": said.text if said.text or not said.tools else None,
    }
    message["refusal"] = said.refusal or None
    if said.tools:
        message["tool_calls"] = [_call(one) for one in said.tools]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(said)}
    return {**_head(head, "chat.completion"), "choices": [choice], "usage": usage(said.usage)}


def _finish(said: Said) -> str:
    """Why it ended, in the protocol's word."""
    return "tool_calls" if said.tools and said.finish == "stop" else _FINISHES[said.finish]


def usage(counted: Usage) -> dict[str, Any]:
    """What was counted; 0 where nobody counted."""
    return {
        "prompt_tokens": counted.input_tokens,
        "completion_tokens": counted.output_tokens,
        "total_tokens": counted.input_tokens + counted.output_tokens,
        "prompt_tokens_details": {"cached_tokens": counted.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": counted.reasoning_tokens},
    }


def frame(message: Mapping[str, Any]) -> bytes:
    """One event of a stream."""
    return b"data: " + orjson.dumps(message) + b"\n\n"


@dataclass(frozen=True, slots=True)
class Stream:
    """The chunks of one answer."""

    head: Head
    with_usage: bool = False

    def begin(self) -> bytes:
        """Who speaks."""
        return self._chunk({"role": "assistant", "content": ""})

    def piece(self, event: Event) -> bytes:
        """The next piece; b"" for what is not shown (thinking, counts, an end)."""
        match event:
            case TextDelta(text) if text:
                return self._chunk({"content": text})
            case ToolCallDelta():
                return self._chunk({"tool_calls": [_call_piece(event)]})
            case _:
                return b""

    def refusal(self, text: str) -> bytes:
        """Words of refusal."""
        return self._chunk({"refusal": text})

    def end(self, said: Said) -> bytes:
        """The end, with its reason; and what was counted, where that was asked for."""
        last = self._chunk({}, _finish(said))
        if self.with_usage:
            counted = {**_head(self.head, "chat.completion.chunk"), "choices": [], "usage": usage(said.usage)}
            last += frame(counted)
        return last + DONE

    def _chunk(self, delta: Mapping[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        more = {"usage": None} if self.with_usage else {}
        return frame({**_head(self.head, "chat.completion.chunk"), "choices": [choice], **more})


def _head(head: Head, kind: str) -> dict[str, Any]:
    found = {"id": head.id, "object": kind, "created": head.created, "model": head.model}
    return {**found, "system_fingerprint": head.mark} if head.mark else found


def _call(one: ToolUse) -> dict[str, Any]:
    return {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": one.arguments}}


def _call_piece(delta: ToolCallDelta) -> dict[str, Any]:
    function: dict[str, Any] = {"arguments": delta.arguments}
    if delta.name:
        function["name"] = delta.name
    piece: dict[str, Any] = {"index": delta.index, "function": function}
    return {**piece, "id": delta.id, "type": "function"} if delta.id else piece
