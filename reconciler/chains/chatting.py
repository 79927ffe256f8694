"""The two handlers that ask a model: ``chat_completion``, which answers, and ``route``, which chooses a way.

What a task tells its model first stands in a place of its own, is new at each visit, and never becomes part
of the history. Tools are offered in the order of their names, so that a provider can keep what it has read. A
picture is never dropped in silence: it is asked about, or the task fails.
"""

from collections.abc import Generator, Sequence
from dataclasses import replace

from reconciler.chains import allowlists, asking, calling, flow, labels, window
from reconciler.chains.asking import Question
from reconciler.chains.asks import Ask, ToolFace
from reconciler.chains.calling import Done
from reconciler.chains.flow import Value
from reconciler.chains.history import History, Image, Message, ToolCall
from reconciler.chains.replies import ModelSaid, Reply
from reconciler.chains.state import Failure, State
from reconciler.chains.texts import Prepared
from reconciler.chains.window import OverflowsError, Window
from reconciler.model import chain as written
from reconciler.model.chain import ExecuteConfig, Task

_NO_CONFIG = ExecuteConfig()
_NO_TOOLS = "No tools are available for this request. Answer without calling any."
_STUB = '{"error":"the call was not carried out"}'


def chat_completion(
    state: State, task: Task, prepared: Prepared, value: Value
) -> Generator[Ask, Reply, Done]:
    """Ask a model, with the tools that the task offers. The word is ``tool_call`` or ``executed``."""
    history = _conversation(state, value)
    if calling.unanswered(history):
        history, _ = yield from calling.answered(state, task, history)
    history = replace(history, messages=paired(state, history.messages))
    tools = offered(state, task)
    messages = _told(task, prepared, history, tools)
    messages = _fitting(state, (task, prepared), messages, tools)
    config = task.execute_config or _NO_CONFIG
    temperature = config.temperature if state.settings.temperature is None else state.settings.temperature
    question = Question(task, prepared, "chat", messages, tools, temperature)
    said = yield from asking.answer(state, question)
    return _answered(state, task, history, said)


def route(state: State, task: Task, prepared: Prepared, value: Value) -> Generator[Ask, Reply, Done]:
    """Let a model choose a label. The word is the label, or what was said where it means none.

    The output is the prompt; whoever calls it lets the task's own input go on instead.
    """
    options = written.labels(task)
    if not options:
        raise Failure("no_labels", "the task has no 'equals' branch with a label to choose")
    prompt, images = _prompt(state, task, prepared, value)
    if not prompt.strip():
        raise Failure("empty_prompt", "there is nothing to route by")
    system = Message("system", labels.instruction(prepared.system, options))
    messages = (system, Message("user", prompt, images=images))
    limit = window.limit_tokens(state.chain.token_limit, state.settings.context_length)
    if limit is not None and sum(_tokens(state, one) for one in messages) > limit:
        raise Failure("capacity", "what is to be routed is longer than the context window")
    config = task.execute_config or _NO_CONFIG
    temperature = 0.0 if config.temperature is None else config.temperature
    said = yield from asking.answer(state, Question(task, prepared, "route", messages, (), temperature))
    answer = said.message.content.strip()
    label = labels.chosen(answer, options)
    return Done(value, answer if label is None else label)


# what goes in


def _conversation(state: State, value: Value) -> History:
    if isinstance(value.data, History):
        return value.data
    if value.type == "string":
        at = state.now.isoformat()
        return History((Message("user", value.data, id=state.message_id(), timestamp=at),))
    raise _unfit("chat_completion takes text or a conversation", value)


def _unfit(takes: str, value: Value) -> Failure:
    return Failure(
        "input_type",
        f"{takes}, not {value.type}: a prompt_template here, or an output_template before, makes it a text",
    )


def _prompt(state: State, task: Task, prepared: Prepared, value: Value) -> tuple[str, tuple[Image, ...]]:
    """What is routed as one text, and its pictures; a conversation is cut to fit where the task may shift."""
    if value.type in ("string", "int"):
        return flow.plain(value.data), ()
    if not isinstance(value.data, History):
        raise _unfit("route takes text, a whole number or a conversation", value)
    messages = value.data.messages
    if (task.execute_config or _NO_CONFIG).shift:
        system = Message("system", labels.instruction(prepared.system, written.labels(task)))
        messages = _fitting(state, (task, prepared), (system, *messages), ())[1:]
    lines = [f"{one.role}: {one.content}" for one in messages]
    return "\n".join(lines), tuple(image for one in messages for image in one.images)


def paired(state: State, messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages with one result for each call; what is owed gets a result that says so."""

    def stub(message: Message, call: str) -> Message:
        return state.result_of(ToolCall(call, ""), _STUB)

    return window.paired(messages, stub)


def offered(state: State, task: Task) -> tuple[ToolFace, ...]:
    """The tools that a task offers its model, by name, without what it hides."""
    config = task.execute_config or _NO_CONFIG
    faces = [face for face in state.faces.get(task.id, ()) if config.tools]
    if config.pass_clients_tools:
        faces += state.settings.client_tools
    shown = [one for one in faces if not allowlists.hidden(one.full_name, config.hide_tools)]
    return tuple(sorted(shown, key=lambda one: one.full_name))


def _told(task: Task, prepared: Prepared, history: History, tools: Sequence[ToolFace]) -> tuple[Message, ...]:
    """The messages of the request: what the task tells first, unless the history says the same already."""
    first: list[Message] = []
    config = task.execute_config or _NO_CONFIG
    if config.tools and not tools:
        first.append(Message("system", _NO_TOOLS))
    said = {one.content for one in history.messages if one.role == "system"}
    if prepared.system and prepared.system not in said:
        first.append(Message("system", prepared.system))
    return (*first, *history.messages)


def _fitting(
    state: State, asking: tuple[Task, Prepared], messages: tuple[Message, ...], tools: Sequence[ToolFace]
) -> tuple[Message, ...]:
    """The messages within the window: all of them, or with ``shift`` the newest. Raises ``Failure``."""
    task, prepared = asking
    limit = window.limit_tokens(state.chain.token_limit, state.settings.context_length)
    schemas = sum(face.tokens for face in tools)
    used = sum(_tokens(state, one) for one in messages) + schemas
    state.tell("token_usage", task, token_used=used, token_size=limit or 0)
    if limit is None:
        return messages
    room = Window(limit, schemas, prepared.max_tokens)
    shift = (task.execute_config or _NO_CONFIG).shift
    if window.fits(messages, room, lambda one: _tokens(state, one)):
        return messages
    if not shift:
        raise Failure("capacity", f"the request has {used} tokens, more than {limit}")
    try:
        return window.slid(messages, room, lambda one: _tokens(state, one))
    except OverflowsError as fault:
        raise Failure("capacity", str(fault)) from fault


def _tokens(state: State, message: Message) -> int:
    return state.laws.tokens(message.content)


# what comes out


def _answered(state: State, task: Task, history: History, said: ModelSaid) -> Done:
    """The history with the answer; each call under an id of its own, and known by who asked for it."""
    known = {call.id for one in history.messages for call in one.calls}
    calls: list[ToolCall] = []
    for number, call in enumerate(said.message.calls):
        wanted = call.id or "call"
        fresh = wanted if call.id and wanted not in known else f"{wanted}-{state.message_id()}-{number}"
        known.add(fresh)
        calls.append(replace(call, id=fresh))
        state.asked_by[fresh] = task.execute_config
    message = replace(
        said.message,
        role="assistant",
        id=state.message_id(),
        calls=tuple(calls),
        timestamp=state.now.isoformat(),
    )
    tokens = state.laws.tokens(message.content)
    model = said.model or history.model
    grown = replace(history.plus(message), model=model, output_tokens=tokens, input_tokens=said.input_tokens)
    return Done(Value("chat_history", grown), "tool_call" if calls else "executed")
