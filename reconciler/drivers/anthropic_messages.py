"""``anthropic.messages@1``: a language model behind POST /v1/messages, whole or streamed, and token counting.

Sources: Anthropic's public documentation of the API versions 2023-06-01 and 2026-10-21 and the types of its
Python package 2.14. Which version is spoken is a constant header of the profile.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import orjson

from reconciler.drivers import reading, sealing, sse, stating, streaming, turning
from reconciler.drivers.asking import Call, Unsealable
from reconciler.drivers.picking import at, count, parsed, text
from reconciler.model.dialect import Operation, Profile
from reconciler.model.outcome import CallOutcome, Rejected, Unknown, Usage
from reconciler.model.sealed import Reply, Sealed
from reconciler.model.turns import (
    Answered,
    Event,
    Finish,
    Image,
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

TURN = "create"  # the dialect's operation that answers a turn
COUNT = "count-tokens"
_USUAL_TOKENS = 4096  # what every model of the family gives
_STOPS: Mapping[str, Stop] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tools",
    "refusal": "refusal",
    "pause_turn": "pause",
}
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}
_EFFORTS = {"minimal": "low"}
_MOST_BLOCKS = 4096  # of one answer; more are no answer
# The dialect's own events. What a profile lists besides is as it says.
_KNOWN = frozenset(
    ("message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
     "message_stop", "ping", "error")
)  # fmt: skip


def facts(profile: Profile, model: str) -> ModelFacts:
    """What the profile states of the model."""
    operation = sealing.stated(profile, TURN)
    found = turning.facts(profile, operation, model, ("output_config", "json_schema"))
    thinks = stating.takes(operation, "output_config", model) or stating.takes(operation, "thinking", model)
    return replace(found, think=thinks is not None)


def seal(call: Call, profile: Profile) -> Sealed:
    """The bytes of a call."""
    return sealing.call(call, profile)


def call_of(turn: Turn, call_id: str, profile: Profile, base: str | None) -> Call:
    """The call that a turn is. ``max_tokens`` must be said: where neither the turn nor the profile says it,
    it is a usual number, and an answer that needs more ends with ``length``.
    """
    operation = sealing.stated(profile, TURN)
    stated = profile.limits.max_output_tokens
    most = turn.max_tokens if turn.max_tokens is not None else (stated or _USUAL_TOKENS)
    fields: dict[str, object] = {"model": turn.model, "max_tokens": most}
    system, fields["messages"] = _conversation(turn, profile, operation)
    if system:
        stating.asked(operation, "system", turn.model)
        fields["system"] = system
    fields |= _settings(turn, operation) | _tools(turn, operation) | _output(turn, operation)
    return Call(call_id, TURN, fields, base=base, stream=turn.stream)


def _settings(turn: Turn, operation: Operation) -> dict[str, object]:
    fields: dict[str, object] = {}
    for name, value in (("temperature", turn.temperature), ("top_p", turn.top_p)):
        if value is not None:
            stating.asked(operation, name, turn.model)
            fields[name] = value
    if turn.seed is not None:
        raise Unsealable("field.seed")
    if turn.stop:
        stating.asked(operation, "stop_sequences", turn.model)
        fields["stop_sequences"] = list(turn.stop)
    return fields


def _tools(turn: Turn, operation: Operation) -> dict[str, object]:
    if not turn.tools:
        return {}
    stating.asked(operation, "tools", turn.model)
    fields: dict[str, object] = {
        "tools": [
            {"name": one.name, "description": one.description, "input_schema": one.parameters}
            for one in turn.tools
        ]
    }
    if choice := turning.chosen(operation, turn):
        _, named, name = choice.partition("tool:")
        fields["tool_choice"] = (
            {"type": "tool", "name": name} if named else {"type": _CHOICES.get(choice, "auto")}
        )
    return fields


def _output(turn: Turn, operation: Operation) -> dict[str, object]:
    """An answer's schema and effort: both stand in ``output_config``; thinking is turned off beside it."""
    config: dict[str, object] = {}
    fields: dict[str, object] = {}
    if turn.schema is not None:
        config["format"] = {"type": "json_schema", "schema": turn.schema}
    if turn.think == "off":
        if not stating.typed(stating.asked(operation, "thinking", turn.model), "disabled"):
            raise Unsealable("field.thinking.types.disabled")
        fields["thinking"] = {"type": "disabled"}
    elif turn.think is not None:
        config["effort"] = _EFFORTS.get(turn.think, turn.think)
    if config:
        fact = stating.asked(operation, "output_config", turn.model)
        for key in config:
            if fact.keys is not None and key not in fact.keys:
                raise Unsealable(f"field.output_config.keys.{key}")
        fields["output_config"] = config
    return fields


def _conversation(turn: Turn, profile: Profile, operation: Operation) -> tuple[str, list[dict[str, object]]]:
    """The system's words, which stand apart, and the messages: neighbours of one role are one message, so
    that a tool's results follow its call.
    """
    system: list[str] = []
    messages: list[dict[str, object]] = []
    for message in turn.messages:
        if message.role in ("system", "developer"):
            system += [part.text for part in message.parts if isinstance(part, Text) and part.text]
            continue
        role = "assistant" if message.role == "assistant" else "user"
        blocks = [block for part in message.parts for block in _blocks(part, role, profile, operation)]
        last = messages[-1] if messages else {}
        if last.get("role") == role and isinstance(known := last.get("content"), list):
            known += blocks
        elif blocks:
            messages.append({"role": role, "content": blocks})
    return "\n\n".join(system), messages


def _blocks(part: Part, role: str, profile: Profile, operation: Operation) -> list[dict[str, object]]:
    """A part as blocks; words that are empty are none, since the server refuses them."""
    match part:
        case Text(words):
            return [{"type": "text", "text": words}] if words else []
        case Image(media_type, data) if role == "user":
            stating.shown(profile, operation, media_type)
            source = {"type": "base64", "media_type": media_type, "data": base64.b64encode(data).decode()}
            return [{"type": "image", "source": source}]
        case ToolUse(use, name, arguments):
            return [{"type": "tool_use", "id": use, "name": name, "input": _object(arguments)}]
        case ToolResult(use, words, failed):
            block: dict[str, object] = {"type": "tool_result", "tool_use_id": use, "content": words}
            return [{**block, "is_error": True} if failed else block]
        case _:
            raise Unsealable(f"media.in.{role}")


def _object(arguments: str) -> dict[str, object]:
    """A call's arguments as the object that this dialect wants; text that is none is kept as text in one."""
    found = parsed(arguments) if arguments else {}
    return found if found is not None else {"arguments": arguments}


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
    seen = reading.seen(reply, profile)
    stop = _STOPS.get(text(body.get("stop_reason")))
    blocks = body.get("content")
    if body.get("type") != "message" or stop is None or not isinstance(blocks, list):
        return Unknown("the answer is no message with a known end", seen)
    kept = []
    for block in blocks[:_MOST_BLOCKS]:
        found = _block(block)
        if found is None:
            return Unknown("a block of the answer cannot be read", seen)
        kept.append(found)
    return Answered(_turn(kept, stop, _usage(body.get("usage")), text(body.get("model"))), (), seen)


@dataclass(slots=True)
class _Block:
    kind: str  # text, thinking, tool_use, or one that is passed over
    id: str = ""
    name: str = ""
    words: list[str] = field(default_factory=list)


def _block(block: object) -> _Block | None:
    kind = text(at(block, "type"))
    if kind in ("text", "thinking"):
        words = at(block, kind)
        return _Block(kind, words=[words]) if isinstance(words, str) else None
    if kind == "tool_use":
        name, arguments = text(at(block, "name")), at(block, "input")
        if not name or not isinstance(arguments, dict):
            return None
        return _Block(kind, text(at(block, "id")), name, [orjson.dumps(arguments).decode()])
    return _Block(kind) if kind else None  # redacted thinking, and what the server's own tools said


def _turn(blocks: list[_Block], stop: Stop, usage: Usage, model: str) -> ModelTurn:
    words = {kind: "".join("".join(one.words) for one in blocks if one.kind == kind) for kind in _SPOKEN}
    wishes = tuple(
        ToolUse(one.id, one.name, _arguments("".join(one.words))) for one in blocks if one.kind == "tool_use"
    )
    return ModelTurn(words["text"], stop, wishes, words["thinking"], usage=usage, model=model)


_SPOKEN = ("text", "thinking")


def _arguments(words: str) -> str:
    """An object's JSON in one form, whole or from pieces; what is none stays as it came."""
    found = parsed(words) if words else {}
    return words if found is None else orjson.dumps(found).decode()


def _usage(found: object) -> Usage:
    """Tokens read from a cache and written to it are input too; here they stand apart, and are added."""
    cached = count(at(found, "cache_read_input_tokens"))
    written = count(at(found, "cache_creation_input_tokens"))
    return Usage(
        input_tokens=count(at(found, "input_tokens")) + cached + written,
        output_tokens=count(at(found, "output_tokens")),
        cached_tokens=cached,
        reasoning_tokens=count(at(found, "output_tokens_details.thinking_tokens")),
    )


def decoder(head: Reply, call: Call, profile: Profile) -> turning.Streamed | None:
    """What reads the streamed answer to a call; None where it is no stream."""
    return turning.streamed(Streaming, head, call, profile)


def turn_decoder(head: Reply, turn: Turn, profile: Profile) -> "Streaming | None":
    """What reads the streamed answer to a turn; None where it is no stream."""
    return turning.begun(Streaming, head, profile, model=turn.model, name=TURN)


class Streaming:
    """Events of the dialect into ours and, at the end, the turn that the same answer would be whole."""

    def __init__(self, head: Reply, model: str, profile: Profile, operation: Operation) -> None:
        self._head, self._asked, self._profile = head, model, profile
        self._operation = operation
        self._events = streaming.events(operation, profile)
        self._blocks: dict[int, _Block] = {}
        self._usage: dict[str, object] = {}
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
            found += self._event(sent)
        return tuple(found)

    def close(self) -> Answered | Rejected | Unknown:
        """The whole turn. A stream that broke off, or has no known end, is Unknown."""
        seen = reading.seen(self._head, self._profile)
        if self._failed is not None:
            return self._failed
        if self._events.fault is not None:
            return Unknown(self._events.fault, seen)
        if self._stop is None or not self._ended:
            return Unknown(streaming.CUT, seen)
        blocks = [block for _, block in sorted(self._blocks.items())]
        return Answered(_turn(blocks, self._stop, _usage(self._usage), self._model), (), seen)

    def _event(self, sent: sse.Sent) -> list[Event]:
        body = parsed(sent.data)
        name = sent.name or text(at(body, "type"))
        word = "" if name in _KNOWN else streaming.word(self._operation, name)
        if word is None or body is None:
            return self._fail("an event that the profile does not list, or that cannot be read")
        match "ignore" if word else name:
            case "error":
                self._failed = reading.refusal(self._head, self._profile, body)
            case "message_start":
                return self._start(body)
            case "content_block_start":
                return self._begin(body)
            case "content_block_delta":
                return self._delta(body)
            case "message_delta":
                return self._end(body)
            case "message_stop":
                self._ended = True
            case _:
                pass  # a ping, the end of a block, or what the profile passes over
        return []

    def _start(self, body: Mapping[str, object]) -> list[Event]:
        message = body.get("message")
        if not isinstance(message, dict):
            return self._fail("a start without a message")
        if reading.substituted(self._profile, self._asked, message):
            self._failed = reading.replaced(self._head, self._profile)
            return []
        self._model = text(message.get("model"))
        return self._counted(message.get("usage"))

    def _counted(self, found: object) -> list[Event]:
        """Usage comes twice, the second time in full of what has changed."""
        if isinstance(found, dict):
            self._usage |= {key: value for key, value in found.items() if value is not None}
            return [_usage(self._usage)]
        return []

    def _begin(self, body: Mapping[str, object]) -> list[Event]:
        index, kind = count(body.get("index")), text(at(body, "content_block.type"))
        if not kind or index in self._blocks or index >= _MOST_BLOCKS:
            return self._fail("a block that cannot be begun")
        block = _Block(kind)
        self._blocks[index] = block
        if kind == "tool_use":
            block.id, block.name = text(at(body, "content_block.id")), text(at(body, "content_block.name"))
            return (
                [ToolCallDelta(index, block.id, block.name)] if block.name else self._fail("a nameless tool")
            )
        first = text(at(body, f"content_block.{kind}"))
        block.words.append(first)
        return self._spoken(kind, first)

    def _delta(self, body: Mapping[str, object]) -> list[Event]:
        index, kind = count(body.get("index")), text(at(body, "delta.type"))
        block = self._blocks.get(index)
        if block is None:
            return self._fail("a piece of a block that was not begun")
        key = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}.get(
            kind
        )
        if key is None:
            return []  # citations and signatures: nothing of the answer's words
        words = text(at(body, f"delta.{key}"))
        block.words.append(words)
        if key == "partial_json":
            return [ToolCallDelta(index, arguments=words)] if block.kind == "tool_use" else []
        return self._spoken(key, words)

    def _spoken(self, kind: str, words: str) -> list[Event]:
        if not words:
            return []
        return [ThinkingDelta(words)] if kind == "thinking" else [TextDelta(words)]

    def _end(self, body: Mapping[str, object]) -> list[Event]:
        counted = self._counted(body.get("usage"))
        reason = at(body, "delta.stop_reason")
        if reason is None:
            return counted
        stop = _STOPS.get(text(reason))
        if stop is None or self._stop is not None:
            return self._fail("an end that is not known, or a second one")
        self._stop = stop
        return [*counted, Finish(stop)]

    def _fail(self, cause: str) -> list[Event]:
        self._failed = Unknown(cause, reading.seen(self._head, self._profile))
        return []
