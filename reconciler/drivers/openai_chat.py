"""``openai.chat-completions@1``: a language model behind POST /chat/completions, whole or streamed.

Sources: OpenAI's OpenAPI file of 2026-08-21 and the public types of its Python package 3.57. What a server
answers in its own ways besides (a ``reasoning_content``, tool calls that end with ``stop``) is read as every
client reads it; what a profile does not state is not sent.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from reconciler.drivers import reading, sealing, sse, stating, streaming, turning
from reconciler.drivers.asking import Call, Unsealable
from reconciler.drivers.picking import at, count, parsed, records, text
from reconciler.model.dialect import Operation, Profile
from reconciler.model.outcome import CallOutcome, Rejected, Unknown, Usage
from reconciler.model.sealed import Reply, Sealed
from reconciler.model.turns import (
    Answered,
    Event,
    Finish,
    Image,
    Message,
    ModelFacts,
    ModelTurn,
    Sound,
    Stop,
    Text,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolResult,
    ToolUse,
    Turn,
)

TURN = "complete"  # the dialect's operation that answers a turn
_STOPS: Mapping[str, Stop] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tools",
    "function_call": "tools",
    "content_filter": "filter",
}
_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_THINKS = {"off": "none"}
_MOST_TOOLS = 1024  # wishes of one answer; more are no answer


def facts(profile: Profile, model: str) -> ModelFacts:
    """What the profile states of the model."""
    operation = sealing.stated(profile, TURN)
    found = turning.facts(profile, operation, model, ("response_format", "json_schema"))
    thinks = stating.takes(operation, "reasoning_effort", model) is not None
    parallel = found.tools and stating.takes(operation, "parallel_tool_calls", model) is not None
    return replace(found, parallel_tools=parallel, think=thinks)


def seal(call: Call, profile: Profile) -> Sealed:
    """The bytes of a call."""
    return sealing.call(call, profile)


def call_of(turn: Turn, call_id: str, profile: Profile, base: str | None) -> Call:
    """The call that a turn is."""
    operation = sealing.stated(profile, TURN)
    fields: dict[str, object] = {"model": turn.model}
    fields["messages"] = [
        one
        for role, message in turning.roles(operation, turn)
        for one in _sent(role, message, profile, operation)
    ]
    fields |= _settings(turn, operation) | _tools(turn, operation) | _format(turn, operation)
    return Call(call_id, TURN, fields, base=base, stream=turn.stream)


def _settings(turn: Turn, operation: Operation) -> dict[str, object]:
    fields: dict[str, object] = {}
    if turn.max_tokens is not None:
        names = ("max_completion_tokens", "max_tokens")
        fields[stating.one_of(operation, names, turn.model)] = turn.max_tokens
    for name, value in (("temperature", turn.temperature), ("top_p", turn.top_p), ("seed", turn.seed)):
        if value is not None:
            stating.asked(operation, name, turn.model)
            fields[name] = value
    if turn.stop:
        stating.asked(operation, "stop", turn.model)
        fields["stop"] = list(turn.stop)
    if turn.think is not None:
        effort = _THINKS.get(turn.think, turn.think)
        if not stating.valued(stating.asked(operation, "reasoning_effort", turn.model), effort):
            raise Unsealable(f"field.reasoning_effort.{effort}")
        fields["reasoning_effort"] = effort
    return fields


def _tools(turn: Turn, operation: Operation) -> dict[str, object]:
    if not turn.tools:
        return {}
    stating.asked(operation, "tools", turn.model)
    fields: dict[str, object] = {
        "tools": [
            {
                "type": "function",
                "function": {"name": one.name, "description": one.description, "parameters": one.parameters},
            }
            for one in turn.tools
        ]
    }
    if choice := turning.chosen(operation, turn):
        _, named, name = choice.partition("tool:")
        fields["tool_choice"] = {"type": "function", "function": {"name": name}} if named else choice
    return fields


def _format(turn: Turn, operation: Operation) -> dict[str, object]:
    if turn.schema is None:
        return {}
    if not stating.typed(stating.asked(operation, "response_format", turn.model), "json_schema"):
        raise Unsealable("field.response_format.types.json_schema")
    schema = {"name": "answer", "schema": turn.schema, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def _sent(role: str, message: Message, profile: Profile, operation: Operation) -> list[dict[str, object]]:
    if role == "tool":
        return [
            {"role": role, "tool_call_id": part.id, "content": part.text}
            for part in message.parts
            if isinstance(part, ToolResult)
        ]
    wishes = [part for part in message.parts if isinstance(part, ToolUse)]
    shown = [part for part in message.parts if isinstance(part, Text | Image | Sound)]
    sent: dict[str, object] = {"role": role}
    if all(isinstance(part, Text) for part in shown):
        sent["content"] = "".join(part.text for part in shown if isinstance(part, Text))
    elif role != "user":
        raise Unsealable(f"media.in.{role}")
    else:
        sent["content"] = [_part(part, profile, operation) for part in shown]
    if wishes:
        sent["tool_calls"] = [
            {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": one.arguments}}
            for one in wishes
        ]
    return [sent]


def _part(part: Text | Image | Sound, profile: Profile, operation: Operation) -> dict[str, object]:
    match part:
        case Text(words):
            return {"type": "text", "text": words}
        case Image(media_type, data):
            stating.shown(profile, operation, media_type)
            url = f"data:{media_type};base64,{base64.b64encode(data).decode()}"
            return {"type": "image_url", "image_url": {"url": url}}
        case Sound(media_type, data):
            stating.shown(profile, operation, media_type)
            if media_type not in _SOUNDS:
                raise Unsealable(f"media.in:{media_type}")
            sound = {"data": base64.b64encode(data).decode(), "format": _SOUNDS[media_type]}
            return {"type": "input_audio", "input_audio": sound}


def read(reply: Reply, call: Call, profile: Profile) -> CallOutcome:
    """What the answer to a call is; its result is that of ``as_result``."""
    return turning.done(_read(reply, text(call.fields.get("model")), profile))


def read_turn(reply: Reply, turn: Turn, profile: Profile) -> Answered | Rejected | Unknown:
    """What the answer to a turn is."""
    return _read(reply, turn.model, profile)


def _read(reply: Reply, model: str, profile: Profile) -> Answered | Rejected | Unknown:
    body = reading.opened(reply, profile, model)
    if isinstance(body, Rejected | Unknown):
        return body
    seen = reading.seen(reply, profile)
    choice = at(body, "choices.0")
    message = at(choice, "message")
    stop = _STOPS.get(text(at(choice, "finish_reason")))
    if not isinstance(message, dict) or stop is None:
        return Unknown("the answer has no message with a known end", seen)
    wishes = _wishes(message)
    content = message.get("content")
    if wishes is None or not isinstance(content, str | None):
        return Unknown("the message cannot be read", seen)
    turn = ModelTurn(
        text=content or "",
        finish="tools" if wishes and stop == "stop" else stop,
        tools=wishes,
        thinking=text(message.get("reasoning_content")),
        refusal=text(message.get("refusal")),
        usage=_usage(body.get("usage")),
        model=text(body.get("model")),
    )
    return Answered(turn, (), seen)


def _wishes(message: Mapping[str, object]) -> tuple[ToolUse, ...] | None:
    """The tools that are asked for; None where what stands there is none of the dialect's."""
    found = message.get("tool_calls")
    if not found:
        return ()
    wishes = []
    for one in records(found)[:_MOST_TOOLS]:
        place = "custom" if one.get("type") == "custom" else "function"
        name = text(at(one, f"{place}.name"))
        arguments = at(one, "custom.input" if place == "custom" else "function.arguments")
        if not name or not isinstance(arguments, str):
            return None
        wishes.append(ToolUse(text(one.get("id")), name, arguments))
    return tuple(wishes) or None


def _usage(found: object) -> Usage:
    return Usage(
        input_tokens=count(at(found, "prompt_tokens")),
        output_tokens=count(at(found, "completion_tokens")),
        cached_tokens=count(at(found, "prompt_tokens_details.cached_tokens")),
        reasoning_tokens=count(at(found, "completion_tokens_details.reasoning_tokens")),
    )


def decoder(head: Reply, call: Call, profile: Profile) -> turning.Streamed | None:
    """What reads the streamed answer to a call; None where it is no stream."""
    return turning.streamed(Streaming, head, call, profile)


def turn_decoder(head: Reply, turn: Turn, profile: Profile) -> "Streaming | None":
    """What reads the streamed answer to a turn; None where it is no stream."""
    return turning.begun(Streaming, head, profile, model=turn.model, name=TURN)


@dataclass(slots=True)
class _Wish:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class Streaming:
    """Chunks into events and, at the end, the turn that the same answer would be without streaming."""

    def __init__(self, head: Reply, model: str, profile: Profile, operation: Operation) -> None:
        self._head, self._asked, self._profile = head, model, profile
        self._operation, self._end = operation, operation.stream.end
        self._events = streaming.events(operation, profile)
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._refusal: list[str] = []
        self._wishes: dict[int, _Wish] = {}
        self._usage = Usage()
        self._stop: Stop | None = None
        self._model = ""
        self._ended = False
        self._failed: Rejected | Unknown | None = None

    def feed(self, data: bytes) -> tuple[Event, ...]:
        """The events that these bytes complete; none after the end, or after a fault."""
        found: list[Event] = []
        for sent in self._events.feed(data):
            if self._ended or self._failed:
                break
            if self._end is not None and sent.data == self._end:
                self._ended = True
            else:
                found += self._chunk(sent)
        return tuple(found)

    def close(self) -> Answered | Rejected | Unknown:
        """The whole turn. A stream that broke off, or has no known end, is Unknown."""
        seen = reading.seen(self._head, self._profile)
        if self._failed is not None:
            return self._failed
        if self._events.fault is not None:
            return Unknown(self._events.fault, seen)
        if self._stop is None or (self._end is not None and not self._ended):
            return Unknown(streaming.CUT, seen)
        wishes = tuple(
            ToolUse(one.id, one.name, "".join(one.arguments)) for _, one in sorted(self._wishes.items())
        )
        if any(not one.name for one in wishes):
            return Unknown("a tool is asked for without its name", seen)
        turn = ModelTurn(
            text="".join(self._text),
            finish="tools" if wishes and self._stop == "stop" else self._stop,
            tools=wishes,
            thinking="".join(self._thinking),
            refusal="".join(self._refusal),
            usage=self._usage,
            model=self._model,
        )
        return Answered(turn, (), seen)

    def _chunk(self, sent: sse.Sent) -> list[Event]:
        word = streaming.word(self._operation, sent.name) if sent.name else "chunk"
        if word is None:
            return self._fail("an event that the profile does not list")
        return [] if word == "ignore" else self._body(parsed(sent.data))

    def _body(self, body: Mapping[str, object] | None) -> list[Event]:
        if body is None:
            return self._fail("a chunk is no JSON object")
        if isinstance(body.get("error"), dict | str):
            self._failed = reading.refusal(self._head, self._profile, body)
            return []
        if "model" in body and reading.substituted(self._profile, self._asked, body):
            self._failed = reading.replaced(self._head, self._profile)
            return []
        self._model = text(body.get("model")) or self._model
        found: list[Event] = []
        if isinstance(body.get("usage"), dict):
            self._usage = _usage(body["usage"])
            found.append(self._usage)
        if not isinstance(body.get("choices"), list):
            return self._fail("a chunk has no choices")
        for choice in records(body["choices"]):
            if count(choice.get("index")) == 0:
                found += self._choice(choice)
        return found

    def _choice(self, choice: Mapping[str, object]) -> list[Event]:
        delta, found = choice.get("delta"), list[Event]()
        for name, kept, event in (
            ("content", self._text, TextDelta),
            ("reasoning_content", self._thinking, ThinkingDelta),
            ("refusal", self._refusal, None),
        ):
            words = text(at(delta, name))
            if words:
                kept.append(words)
                found += [event(words)] if event else []
        for one in records(at(delta, "tool_calls") or []):
            found += self._wish(one)
        reason = choice.get("finish_reason")
        if reason is None:
            return found
        stop = _STOPS.get(text(reason))
        if stop is None or self._stop is not None:
            return self._fail("an end that is not known, or a second one")
        self._stop = stop
        return [*found, Finish(stop)]

    def _wish(self, one: Mapping[str, object]) -> list[Event]:
        index = count(one.get("index"))
        if index >= _MOST_TOOLS:
            return self._fail("more tools are asked for than are read")
        wish = self._wishes.setdefault(index, _Wish())
        new_id, name = text(one.get("id")), text(at(one, "function.name"))
        arguments = text(at(one, "function.arguments"))
        wish.id, wish.name = wish.id or new_id, wish.name or name
        wish.arguments.append(arguments)
        return [ToolCallDelta(index, new_id, name, arguments)]

    def _fail(self, cause: str) -> list[Event]:
        self._failed = Unknown(cause, reading.seen(self._head, self._profile))
        return []
