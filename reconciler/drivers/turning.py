"""What drivers of language models share, as functions: facts, roles, and a turn as the outcome of a call."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from reconciler.drivers import reading, stating, streaming
from reconciler.drivers.asking import Call, TurnDecoder, Unsealable
from reconciler.drivers.picking import count, text
from reconciler.model.dialect import Operation, Profile
from reconciler.model.outcome import CallOutcome, Done, Rejected, Unknown, Usage
from reconciler.model.sealed import Reply
from reconciler.model.turns import Answered, Event, Message, ModelFacts, Turn

D = TypeVar("D", bound=TurnDecoder)
Reader = Callable[[Reply, str, Profile, Operation], D]


def facts(profile: Profile, operation: Operation, model: str, schema_in: tuple[str, str]) -> ModelFacts:
    """What is stated of a language model. ``schema_in`` is the field and type of an answer's schema."""
    field, word = schema_in
    return ModelFacts(
        vision=any(stating.media_in(profile, operation, "image")),
        audio_in=any(stating.media_in(profile, operation, "audio")),
        tools=stating.takes(operation, "tools", model) is not None,
        parallel_tools=stating.takes(operation, "tools", model) is not None,
        json_schema=stating.typed(stating.takes(operation, field, model), word),
        stream=operation.stream.meaning == "token-deltas",
        max_input_tokens=profile.limits.max_input_tokens,
        max_output_tokens=profile.limits.max_output_tokens,
    )


def chosen(operation: Operation, turn: Turn) -> str:
    """Which tools may be asked for; "" where nothing is said of it. ``auto`` is what a server does anyway."""
    if turn.tool_choice == "auto" and stating.takes(operation, "tool_choice", turn.model) is None:
        return ""
    if turn.tool_choice:
        stating.asked(operation, "tool_choice", turn.model)
    return turn.tool_choice


def roles(operation: Operation, turn: Turn) -> Iterator[tuple[str, Message]]:
    """The messages, each with the role that it is sent under: a developer's words are the system's where the
    server knows no developers.
    """
    fact = stating.asked(operation, "messages", turn.model)
    for message in turn.messages:
        role: str = message.role
        if fact.roles is not None and role not in fact.roles:
            if role != "developer" or "system" not in fact.roles:
                raise Unsealable(f"field.messages.roles.{role}")
            role = "system"
        yield role, message


def done(outcome: Answered | Rejected | Unknown) -> CallOutcome:
    """A turn as a call's result: ``{"text", "finish", "toolCalls", "refusal"?}``."""
    if not isinstance(outcome, Answered):
        return outcome
    turn = outcome.turn
    wishes = [{"id": one.id, "name": one.name, "arguments": one.arguments} for one in turn.tools]
    result: dict[str, object] = {"text": turn.text, "finish": turn.finish, "toolCalls": wishes}
    if turn.refusal:
        result["refusal"] = turn.refusal
    return Done(result, (), turn.usage, turn.model, outcome.warnings, outcome.seen)


class Streamed:
    """A streamed turn whose end is a call's outcome."""

    def __init__(self, inner: TurnDecoder) -> None:
        self._inner = inner

    def feed(self, data: bytes) -> tuple[Event, ...]:
        """The events that these bytes complete."""
        return self._inner.feed(data)

    def close(self) -> CallOutcome:
        """What the whole stream was."""
        return done(self._inner.close())


def begun(made: Reader[D], head: Reply, profile: Profile, *, model: str, name: str) -> D | None:
    """What reads a streamed turn of an operation, by its maker; None where the answer is no stream."""
    operation = profile.operation(name)
    if operation is None or not streaming.streams(head, operation):
        return None
    return made(head, model, profile, operation)


def streamed(made: Reader[D], head: Reply, call: Call, profile: Profile) -> Streamed | None:
    """The same for a call, whose fields name the model."""
    inner = begun(made, head, profile, model=text(call.fields.get("model")), name=call.operation)
    return None if inner is None else Streamed(inner)


def counted(reply: Reply, profile: Profile) -> CallOutcome:
    """What the answer to a count of tokens is."""
    body = reading.opened(reply, profile, "")
    if isinstance(body, Rejected | Unknown):
        return body
    seen = reading.seen(reply, profile)
    if not isinstance(body.get("input_tokens"), int):
        return Unknown("the answer has no count", seen)
    tokens = count(body["input_tokens"])
    return Done({"inputTokens": tokens}, usage=Usage(input_tokens=tokens), seen=seen)
