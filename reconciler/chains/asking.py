"""One question to a model, with everything that may follow a failure: the retry policy, then no tools, then
none.

Each try is an ask of its own, so that each transmission is decided on and charged. A try that times out
with the attempt ends it. The order: tries by the policy (and its fallback model); where the provider could
not take the tools, the same once more without any; then the task fails, and its own retries and
``on_failure`` have their say.
"""

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Literal

from reconciler.chains import retrying
from reconciler.chains.asks import Ask, AskModel, AskSleep, Candidate, ToolFace
from reconciler.chains.history import Message
from reconciler.chains.replies import ModelFailed, ModelSaid, Reply
from reconciler.chains.retrying import ErrorClass
from reconciler.chains.state import Failure, State
from reconciler.chains.texts import Prepared
from reconciler.model.chain import ExecuteConfig, Task


@dataclass(frozen=True, slots=True)
class Question:
    """What a model is asked, whichever it is."""

    task: Task
    prepared: Prepared
    kind: Literal["chat", "route"]
    messages: tuple[Message, ...]
    tools: tuple[ToolFace, ...] = ()
    temperature: float | None = None


def candidates(prepared: Prepared, config: ExecuteConfig | None) -> tuple[Candidate, ...]:
    """The models to try, in order: ``models`` and ``providers`` pair by place where they are as many, else
    each model goes with each provider. Without any, the runner's own choice.
    """
    more_models = config.models if config else ()
    more_providers = config.providers if config else ()
    models = [one for one in (prepared.model, *more_models) if one] or [""]
    providers = [one for one in (prepared.provider, *more_providers) if one] or [""]
    if len(models) == len(providers):
        pairs = list(zip(models, providers, strict=True))
    else:
        pairs = [(model, provider) for model in models for provider in providers]
    return tuple(Candidate(*pair) for pair in dict.fromkeys(pairs))


def answer(state: State, question: Question) -> Generator[Ask, Reply, ModelSaid]:
    """What a model says. Raises ``Failure`` with the class of the last error, or a closed code like
    ``no_models``.
    """
    said = yield from _tried(state, question)
    if isinstance(said, ModelFailed) and said.cannot_take_tools and question.tools:
        state.tell("model_call", question.task, error="tools_refused", without_tools=True)
        bare = tuple(_without_calls(one) for one in question.messages if one.role != "tool")
        said = yield from _tried(state, replace(question, tools=(), messages=bare))
    if isinstance(said, ModelFailed):
        code = said.code or said.error.value
        raise Failure(code, said.message or f"no model answered: {code}")
    state.answered_by = (said.model, said.provider)
    return said


def _without_calls(message: Message) -> Message:
    return replace(message, calls=()) if message.calls else message


def _tried(state: State, question: Question) -> Generator[Ask, Reply, ModelSaid | ModelFailed]:
    """Tries by the task's policy, until one answers or none may follow."""
    config = question.task.execute_config
    policy = question.prepared.retry
    tried = retrying.first("")
    while True:
        models = candidates(question.prepared, config)
        if tried.fallen:
            models = tuple(dict.fromkeys(Candidate(tried.model, one.provider) for one in models))
        ask = _ask(state, question, models, tried.number)
        reply = yield from state.ask(ask)
        if isinstance(reply, ModelSaid):
            counted = {"prompt_tokens": reply.input_tokens, "completion_tokens": reply.output_tokens}
            state.tell("model_call", question.task, attempt=tried.number, model_name=reply.model,
                       provider_type=reply.provider, finish_reason=reply.finish,
                       usage=counted if any(counted.values()) else {})  # fmt: skip
            return reply
        if not isinstance(reply, ModelFailed):
            raise TypeError(f"{type(reply).__name__} answers no model's ask")
        again = retrying.after(policy, tried, reply.error, state.draw(ask.id))
        wait_s = again.wait_ns / 1e9 if again else 0.0
        state.tell("model_call", question.task, attempt=tried.number, error=reply.code or reply.error.value,
                   model_name=reply.model or models[0].model, wait_seconds=wait_s)  # fmt: skip
        if again is None or reply.midstream or reply.cannot_take_tools:
            return reply
        yield from _wait(state, question.task, wait_s, reply.error)
        tried = again.next


def _ask(state: State, question: Question, models: tuple[Candidate, ...], number: int) -> AskModel:
    prepared = question.prepared
    return AskModel(
        state.ask_id(),
        question.task.id,
        question.kind,
        models,
        question.messages,
        question.tools,
        temperature=question.temperature,
        max_tokens=prepared.max_tokens,
        think=prepared.think,
        needs_vision=any(one.images for one in question.messages),
        number=number,
        deadline=state.deadline,
    )


def _wait(state: State, task: Task, seconds: float, error: ErrorClass) -> Generator[Ask, Reply, None]:
    """Wait, but not beyond the end of the attempt: then it has failed."""
    yield from state.ask(AskSleep(state.ask_id(), task.id, state.in_time(seconds), error.value))
    if state.is_late:
        raise Failure("timeout", "the attempt took longer than its timeout")
