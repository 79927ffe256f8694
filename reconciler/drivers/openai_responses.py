"""``openai.responses@1``: a language model behind POST /responses, whole or streamed.

Source: OpenAI's OpenAPI file of 2026-08-21 and the types of its Python package 3.57. The subset: messages,
function calls and their outputs, reasoning summaries; other items of an answer are passed over with a
warning. Nothing is stored at the server where the profile lets us say so. Background responses are a job that
no driver speaks yet.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace

from reconciler.drivers import reading, sealing, sse, stating, streaming, turning
from reconciler.drivers.asking import Call, Unsealable
from reconciler.drivers.picking import at, count, records, text
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
    Part,
    Stop,
    Text,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolResult,
    ToolUse,
    Turn,
)

TURN = "respond"  # the dialect's operation that answers a turn
COUNT = "count-tokens"
_INCOMPLETE: Mapping[str, Stop] = {"max_output_tokens": "length", "content_filter": "filter"}
_MOST_ITEMS = 4096


def facts(profile: Profile, model: str) -> ModelFacts:
    """What the profile states of the model."""
    operation = sealing.stated(profile, TURN)
    found = turning.facts(profile, operation, model, ("text", "json_schema"))
    fact = stating.takes(operation, "text", model)
    schema = fact is not None and (fact.keys is None or "format" in fact.keys)
    thinks = stating.takes(operation, "reasoning", model) is not None
    parallel = found.tools and stating.takes(operation, "parallel_tool_calls", model) is not None
    return replace(found, json_schema=schema, think=thinks, parallel_tools=parallel)


def seal(call: Call, profile: Profile) -> Sealed:
    """The bytes of a call."""
    return sealing.call(call, profile)


def call_of(turn: Turn, call_id: str, profile: Profile, base: str | None) -> Call:
    """The call that a turn is: the whole conversation each time, nothing kept at the server."""
    operation = sealing.stated(profile, TURN)
    fields: dict[str, object] = {"model": turn.model}
    fields["input"] = [item for message in turn.messages for item in _items(message, profile, operation)]
    if stating.takes(operation, "store", turn.model) is not None:
        fields["store"] = False
    fields |= _settings(turn, operation) | _tools(turn, operation) | _text(turn, operation)
    return Call(call_id, TURN, fields, base=base, stream=turn.stream)


def _settings(turn: Turn, operation: Operation) -> dict[str, object]:
    fields: dict[str, object] = {}
    for name, value in (
        ("max_output_tokens", turn.max_tokens),
        ("temperature", turn.temperature),
        ("top_p", turn.top_p),
    ):
        if value is not None:
            stating.asked(operation, name, turn.model)
            fields[name] = value
    for name, given in (("seed", turn.seed is not None), ("stop", bool(turn.stop))):
        if given:
            raise Unsealable(f"field.{name}")
    if turn.think is not None:
        stating.asked(operation, "reasoning", turn.model)
        fields["reasoning"] = {"effort": "none" if turn.think == "off" else turn.think}
    return fields


def _tools(turn: Turn, operation: Operation) -> dict[str, object]:
    if not turn.tools:
        return {}
    stating.asked(operation, "tools", turn.model)
    fields: dict[str, object] = {
        "tools": [
            {
                "type": "function",
                "name": one.name,
                "description": one.description,
                "parameters": one.parameters,
                "strict": False,
            }
            for one in turn.tools
        ]
    }
    if choice := turning.chosen(operation, turn):
        _, named, name = choice.partition("tool:")
        fields["tool_choice"] = {"type": "function", "name": name} if named else choice
    return fields


def _text(turn: Turn, operation: Operation) -> dict[str, object]:
    if turn.schema is None:
        return {}
    fact = stating.asked(operation, "text", turn.model)
    if fact.keys is not None and "format" not in fact.keys:
        raise Unsealable("field.text.keys.format")
    form = {"type": "json_schema", "name": "answer", "schema": turn.schema, "strict": True}
    return {"text": {"format": form}}


def _items(message: Message, profile: Profile, operation: Operation) -> list[dict[str, object]]:
    """A message's words and pictures as one item, its wishes and results as items of their own, in order.
    What a model said is plain text: as parts it would need the ids that the server gave them.
    """
    items: list[dict[str, object]] = []
    content: list[dict[str, object]] = []
    for part in message.parts:
        match part:
            case ToolUse(use, name, arguments):
                items.append({"type": "function_call", "call_id": use, "name": name, "arguments": arguments})
            case ToolResult(use, words):
                items.append({"type": "function_call_output", "call_id": use, "output": words})
            case _:
                content.append(_content(part, message.role, profile, operation))
    if not content:
        return items
    said = "".join(text(one["text"]) for one in content) if message.role == "assistant" else content
    return [{"type": "message", "role": message.role, "content": said}, *items]


def _content(part: Part, role: str, profile: Profile, operation: Operation) -> dict[str, object]:
    match part:
        case Text(words):
            return {"type": "input_text", "text": words}
        case Image(media_type, data) if role == "user":
            stating.shown(profile, operation, media_type)
            address = f"data:{media_type};base64,{base64.b64encode(data).decode()}"
            return {"type": "input_image", "image_url": address, "detail": "auto"}
        case _:
            raise Unsealable(f"media.in.{role}")


def read(reply: Reply, call: Call, profile: Profile) -> CallOutcome:
    """What the answer to a call is."""
    if call.operation == COUNT:
        return turning.counted(reply, profile)
    return turning.done(_read(reply, text(call.fields.get("model")), profile))


def read_turn(reply: Reply, turn: Turn, profile: Profile) -> Answered | Rejected | Unknown:
    """What the answer to a turn is."""
    return _read(reply, turn.model, profile)


def _read(reply: Reply, model: str, profile: Profile) -> Answered | Rejected | Unknown:
    body = reading.opened(reply, profile, model)
    if isinstance(body, Rejected | Unknown):
        return body
    return _turn(body, reply, profile)


def _turn(body: Mapping[str, object], reply: Reply, profile: Profile) -> Answered | Unknown:
    seen = reading.seen(reply, profile)
    items = records(body.get("output"))
    wishes = tuple(
        ToolUse(text(one.get("call_id")), text(one.get("name")), text(one.get("arguments")))
        for one in items
        if one.get("type") == "function_call"
    )
    stop = _stop(body, wishes)
    if stop is None or not isinstance(body.get("output"), list) or len(items) > _MOST_ITEMS:
        return Unknown("the answer is no response with a known end", seen)
    if any(not one.name or not one.id for one in wishes):
        return Unknown("a tool is asked for without its name", seen)
    turn = ModelTurn(
        text=_joined(items, "message", "content", "text"),
        finish=stop,
        tools=wishes,
        thinking=_joined(items, "reasoning", "summary", "text"),
        refusal=_joined(items, "message", "content", "refusal"),
        usage=_usage(body.get("usage")),
        model=text(body.get("model")),
    )
    other = any(one.get("type") not in ("message", "function_call", "reasoning") for one in items)
    return Answered(turn, ("the answer has items that are passed over",) if other else (), seen)


def _stop(body: Mapping[str, object], wishes: tuple[ToolUse, ...]) -> Stop | None:
    if body.get("status") == "completed":
        return "tools" if wishes else "stop"
    if body.get("status") == "incomplete":
        return _INCOMPLETE.get(text(at(body, "incomplete_details.reason")))
    return None


def _joined(items: Sequence[Mapping[str, object]], kind: str, place: str, key: str) -> str:
    return "".join(
        text(part.get(key)) for one in items if one.get("type") == kind for part in records(one.get(place))
    )


def _usage(found: object) -> Usage:
    return Usage(
        input_tokens=count(at(found, "input_tokens")),
        output_tokens=count(at(found, "output_tokens")),
        cached_tokens=count(at(found, "input_tokens_details.cached_tokens")),
        reasoning_tokens=count(at(found, "output_tokens_details.reasoning_tokens")),
    )


def decoder(head: Reply, call: Call, profile: Profile) -> turning.Streamed | None:
    """What reads the streamed answer to a call; None where it is no stream."""
    return turning.streamed(Streaming, head, call, profile)


def turn_decoder(head: Reply, turn: Turn, profile: Profile) -> "Streaming | None":
    """What reads the streamed answer to a turn; None where it is no stream."""
    return turning.begun(Streaming, head, profile, model=turn.model, name=TURN)


class Streaming:
    """Events into ours and, at the end, the response that the last of them carries whole."""

    def __init__(self, head: Reply, model: str, profile: Profile, operation: Operation) -> None:
        self._head, self._asked, self._profile, self._operation = head, model, profile, operation
        self._events = streaming.events(operation, profile)
        self._number = -1
        self._end: Answered | Rejected | Unknown | None = None

    def feed(self, data: bytes) -> tuple[Event, ...]:
        """The events that these bytes complete; none after the end, or after a fault."""
        found: list[Event] = []
        for sent in self._events.feed(data):
            if self._end is None:
                found += self._event(sent)
        return tuple(found)

    def close(self) -> Answered | Rejected | Unknown:
        """The whole turn. A stream that broke off is Unknown."""
        if self._end is not None:
            return self._end
        return Unknown(self._events.fault or streaming.CUT, reading.seen(self._head, self._profile))

    def _event(self, sent: sse.Sent) -> list[Event]:
        told = streaming.told(sent, self._head, self._operation, self._profile)
        if isinstance(told, Rejected | Unknown):
            self._end = told
            return []
        number = told.body.get("sequence_number")
        if isinstance(number, int):
            if number <= self._number:
                return self._fail("the events are out of their order")
            self._number = number
        return self._meant(told)

    def _meant(self, told: streaming.Told) -> list[Event]:
        words = text(told.body.get("delta"))
        match told.word:
            case "text-delta" if told.name == "response.output_text.delta":
                return [TextDelta(words)] if words else []
            case "reasoning":
                return [ThinkingDelta(words)] if words else []
            case "part-start" | "tool-call-delta":
                return self._wish(told)
            case "finish":
                return self._finished(told.body)
            case _:
                return []

    def _wish(self, told: streaming.Told) -> list[Event]:
        index = count(told.body.get("output_index"))
        if told.word == "tool-call-delta":
            return [ToolCallDelta(index, arguments=text(told.body.get("delta")))]
        item = told.body.get("item")
        if at(item, "type") != "function_call":
            return []
        return [ToolCallDelta(index, text(at(item, "call_id")), text(at(item, "name")))]

    def _finished(self, body: Mapping[str, object]) -> list[Event]:
        response = body.get("response")
        if not isinstance(response, dict):
            return self._fail("the end has no response")
        if reading.substituted(self._profile, self._asked, response):
            self._end = reading.replaced(self._head, self._profile)
            return []
        self._end = _turn(response, self._head, self._profile)
        if isinstance(self._end, Unknown):
            return []
        return [self._end.turn.usage, Finish(self._end.turn.finish)]

    def _fail(self, cause: str) -> list[Event]:
        self._end = Unknown(cause, reading.seen(self._head, self._profile))
        return []
