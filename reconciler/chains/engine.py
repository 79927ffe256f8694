"""One run of a chain, from its input to its output, as a value that asks and is answered.

``begin`` gives a run that stands at its first ask; each ``advance`` answers the one that stands and leads
to the next, until ``outcome`` is there. The engine does nothing itself: no model, tool, clock or chance is
in here. So a run is its chain, its input, its settings and the answers so far: that is what ``to_json``
holds, and ``resumed`` gives the answers again, which leads to the same ask with the same id. Whoever runs
it keeps each answer before going on, and may be killed anywhere.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from reconciler.chains import (
    calling,
    chatting,
    flow,
    history,
    replies,
    stepping,
    texts,
    toolnames,
    window,
)  # fmt: skip
from reconciler.chains.asks import Ask, AskTools
from reconciler.chains.calling import Done
from reconciler.chains.events import Event, Unit
from reconciler.chains.flow import Value
from reconciler.chains.history import History, Message
from reconciler.chains.replies import Reply, ToolsFound
from reconciler.chains.state import Failure, Fatal, Laws, Settings, State, Steps
from reconciler.chains.texts import Prepared
from reconciler.model import durations
from reconciler.model.chain import Chain, Task, task_by_id

VERSION = 1  # of the way from answers to asks; a checkpoint of another one cannot be resumed


@dataclass(frozen=True, slots=True)
class Finished:
    """The run's output."""

    value: Value
    task: str  # the last one


@dataclass(frozen=True, slots=True)
class Failed:
    """Why there is none: a closed code, words for an operator, and the task where one is to blame."""

    code: str
    message: str
    task: str = ""


class Run:
    """A run that stands at ``ask``, or has its ``outcome``: always one of the two."""

    def __init__(self, chain: Chain, value: Value, settings: Settings, laws: Laws) -> None:
        self.chain, self.input, self.settings = chain, value, settings
        self.ask: Ask | None = None
        self.outcome: Finished | Failed | None = None
        self.answers: list[dict[str, Any]] = []
        self._state = State(toolnames.modern(chain), settings, laws)
        self._going = _going(self._state, value)
        self._go(None)

    @property
    def events(self) -> tuple[Event, ...]:
        """All that was told so far, in order; a resumed run tells the same again."""
        return tuple(self._state.events)

    @property
    def units(self) -> tuple[Unit, ...]:
        """Each attempt so far."""
        return tuple(self._state.units)

    @property
    def counters(self) -> Mapping[str, int]:
        """How often each edge was taken."""
        return dict(self._state.counters)

    def advance(self, reply: Reply, now: datetime) -> dict[str, Any]:
        """Answer the ask that stands. Gives the line that a journal keeps of it: keep it before the next
        ask is carried out. Raises ValueError where nothing is asked.
        """
        if self.ask is None:
            raise ValueError("the run asks nothing")
        line = {"ask": self.ask.id, "at": now.isoformat(), **replies.to_json(reply)}
        self._take(line, reply, now)
        return line

    def _take(self, line: dict[str, Any], reply: Reply, now: datetime) -> None:
        self.answers.append(line)
        self._state.now = max(now, self._state.now)  # a clock that was set back does not turn a run back
        self._go(reply)

    def _go(self, reply: Reply | None) -> None:
        try:
            self.ask = next(self._going) if reply is None else self._going.send(reply)
        except StopIteration as end:
            self.ask, self.outcome = None, end.value

    def to_json(self) -> dict[str, Any]:
        """The whole run, as ``resumed`` reads it."""
        return {
            "version": VERSION,
            "chain": self.chain.model_dump(mode="json", by_alias=True, exclude_none=True),
            "input": flow.to_json(self.input),
            "settings": _settings_json(self.settings),
            "answers": list(self.answers),
        }


def begin(chain: Chain, value: Value, settings: Settings, laws: Laws) -> Run:
    """A run of an admitted chain, at its first ask or its end."""
    return Run(chain, value, settings, laws)


def resumed(stored: Mapping[str, Any], laws: Laws) -> Run:
    """The run that ``to_json`` told of, at the same ask. Raises ValueError where it is of another version of
    the engine, or the answers do not lead where they led before.
    """
    if stored.get("version") != VERSION:
        raise ValueError("the run was begun by another version of the engine")
    chain = Chain.model_validate(stored["chain"])
    run = Run(chain, flow.from_json(stored["input"]), _settings(stored["settings"]), laws)
    for line in stored["answers"]:
        if run.ask is None or run.ask.id != line["ask"]:
            raise ValueError("the answers of the run do not fit its chain")
        run._take(line, replies.from_json(line), datetime.fromisoformat(line["at"]))  # noqa: SLF001 - its own
    return run


def _settings_json(settings: Settings) -> dict[str, Any]:
    clients = replies.to_json(ToolsFound(settings.client_tools))["tools"]
    allowed = None if settings.allowlist is None else list(settings.allowlist)
    return {
        "run": settings.run,
        "started": settings.started.isoformat(),
        "variables": dict(settings.variables),
        "allowlist": allowed,
        "context_length": settings.context_length,
        "temperature": settings.temperature,
        "client_tools": clients,
        "utc_offset_s": settings.utc_offset_s,
        "host": [settings.host_os, settings.host_arch],
    }


def _settings(stored: Mapping[str, Any]) -> Settings:
    found = replies.from_json({"reply": "tools", "tools": stored["client_tools"], "unreachable": []})
    allowed = stored["allowlist"]
    return Settings(
        stored["run"],
        datetime.fromisoformat(stored["started"]),
        stored["variables"],
        None if allowed is None else tuple(allowed),
        stored["context_length"],
        stored["temperature"],
        found.tools if isinstance(found, ToolsFound) else (),
        stored["utc_offset_s"],
        *stored["host"],
    )


# the way through a chain


def _going(state: State, value: Value) -> Generator[Ask, Reply, Finished | Failed]:
    told = False
    try:
        texts.check(state)  # before anything is told: a missing variable is no run
        state.tell("chain_started", chain_id=state.chain.id)
        told = True
        state.variables["input"] = value
        yield from _preload(state)
        texts.prepare(state)
        finished: Finished = yield from _walk(state, value)
    except Fatal as end:
        if told:
            state.tell("chain_failed", chain_id=state.chain.id, error=end.message, code=end.code)
        return Failed(end.code, end.message, end.task)
    state.tell("chain_completed", chain_id=state.chain.id, output_type=finished.value.type)
    return finished


def _preload(state: State) -> Steps:
    """The tools of each task: asked for once where tasks want the same by the same policies."""
    known: dict[object, ToolsFound] = {}
    for task in state.chain.tasks:
        wanted = _wanted(task)
        if wanted == ():
            continue
        policies = task.execute_config.tools_policies if task.execute_config else {}
        key = (wanted, repr(sorted(policies.items())))
        if key not in known:
            reply = yield from state.ask(AskTools(state.ask_id(), task.id, wanted, policies))
            if not isinstance(reply, ToolsFound):
                raise TypeError(f"{type(reply).__name__} answers no question for tools")
            known[key] = reply
        found = known[key]
        offered = [one for one in found.tools if task.execute_config and task.execute_config.tools]
        state.faces[task.id] = state.within(task, offered)
        for face in found.tools:
            state.everything.setdefault(face.full_name, face)


def _wanted(task: Task) -> tuple[str, ...] | None:
    """The providers whose tools a task needs to know; () for none."""
    if task.handler == "tools":
        return (task.tools.name,) if task.tools else ()
    config = task.execute_config
    return (config.tools or ()) if config else ()


def _walk(state: State, value: Value) -> Generator[Ask, Reply, Finished]:
    tasks, steps = task_by_id(state.chain), 0
    task = state.chain.tasks[0]
    root: Failure | None = None
    while True:
        steps += 1
        if steps > state.chain.max_steps:
            raise Fatal("step_limit", _too_long(state), task.id)
        given = value if not task.input_var else _variable(state, task)
        try:
            done = yield from _attempts(state, task, given)
        except Failure as failure:
            joined = _joined(root, failure)
            if not task.transition.on_failure:
                raise Fatal(failure.code, _last_words(task, joined), task.id) from failure
            root = root or failure
            value = _failed_value(state, task, given, failure)
            target = task.transition.on_failure
        else:
            root = None
            target, value = _onward(state, task, done), done.value
            if stepping.ends(target):
                return Finished(flow.narrowed(value), task.id)
        edge = stepping.edge(task.id, target)
        state.counters[edge] = state.counters.get(edge, 0) + 1
        task = tasks[target]


def _variable(state: State, task: Task) -> Value:
    if task.input_var not in state.variables:
        raise Fatal("missing_variable", f"{task.id} reads {task.input_var!r}, which nothing has set", task.id)
    return state.variables[task.input_var]


def _onward(state: State, task: Task, done: Done) -> str:
    """Print, choose the branch, then keep the output: so ``print`` sees the variables of before."""
    shown = texts.printed(state, task)
    if shown:
        state.tell("print", content=shown)
    target = ""
    if task.transition.branches:
        branch = stepping.chosen(task, done.word, state.counters)
        if branch is None:
            words = f"no branch of {task.id} fits {done.word!r}, and it has no default"
            raise Fatal("no_transition", words, task.id)
        target = branch.goto
    state.variables[task.id] = state.variables["previous_output"] = done.value
    return target


def _failed_value(state: State, task: Task, given: Value, failure: Failure) -> Value:
    """What goes on along ``on_failure``: what the task had made, else its input; and the variables that
    tell.
    """
    made = failure.value
    value = flow.narrowed(made if made is not None and made.type not in ("nil", "any") else given)
    state.variables[task.id] = state.variables["previous_output"] = value
    state.variables["last_error"] = state.variables[f"{task.id}_error"] = flow.text(failure.message)
    return _reportable(state, value, task, failure)


def _reportable(state: State, value: Value, task: Task, failure: Failure) -> Value:
    """Where the next task would have nothing to speak of, a message that says what failed."""
    words = f"The task {task.id} failed: {failure.message}"
    if value.type == "string" and not value.data:
        return flow.text(words)
    if not isinstance(value.data, History):
        return value
    if any(one.role != "system" and one.content.strip() for one in value.data.messages):
        return value
    message = Message("user", words, id=state.message_id(), timestamp=state.now.isoformat())
    return Value("chat_history", value.data.plus(message))


def _joined(root: Failure | None, failure: Failure) -> str:
    return failure.message if root is None else f"{root.message}; then: {failure.message}"


def _last_words(task: Task, message: str) -> str:
    tries = f" after {task.retry_on_failure} retries" if task.retry_on_failure > 0 else ""
    return f"{task.id} failed{tries}: {message}"


def _too_long(state: State) -> str:
    most = sorted(state.counters.items(), key=lambda one: -one[1])[:4]
    edges = ", ".join(f"{edge} {count}x" for edge, count in most)
    return f"the run entered more than {state.chain.max_steps} tasks: {edges}"


# one task


def _attempts(state: State, task: Task, given: Value) -> Generator[Ask, Reply, Done]:
    """The task, again at once where it failed and may be tried again: always with the same input."""
    value = _prompted(state, task, given)
    value = _bounded(state, task, value)
    tries = 1 + max(0, task.retry_on_failure)
    for state.retry in range(tries):
        try:
            return (yield from _attempt(state, task, value, given))
        except Failure as failure:
            if failure.final or state.retry == tries - 1:
                raise
    raise AssertionError


def _prompted(state: State, task: Task, given: Value) -> Value:
    rendered = texts.prompt(state, task)
    return given if rendered is None else flow.text(rendered)


def _bounded(state: State, task: Task, value: Value) -> Value:
    most = task.input_max_bytes
    if most <= 0:
        return value
    if value.type == "string":
        return flow.text(window.cut_text(value.data, most))
    if isinstance(value.data, History):
        kept = window.cut_history(value.data.messages, most, history.shortened)
        if kept != value.data.messages:
            return Value("chat_history", History(kept, value.data.model))
    return value


def _attempt(state: State, task: Task, value: Value, given: Value) -> Generator[Ask, Reply, Done]:
    state.began, state.answered_by, state.used = state.now, ("", ""), []
    seconds = durations.seconds(task.timeout) if task.timeout else 0
    state.deadline = state.now + timedelta(seconds=seconds) if seconds > 0 else None
    state.tell("step_started", task)
    try:
        done: Done = yield from _handled(state, task, value, given)
    except (Failure, Fatal) as end:
        _note(state, task, value, end)
        state.tell("step_failed", task, error=end.message, code=end.code)
        raise
    finally:
        state.deadline = None
    _note(state, task, value, done)
    model, provider = state.answered_by
    state.tell("step_completed", task, output_type=done.value.type, transition=done.word, model_name=model,
               provider_type=provider)  # fmt: skip
    return done


def _note(state: State, task: Task, value: Value, end: Done | Failure | Fatal) -> None:
    """Keep what became of an attempt."""
    unit = Unit(task.id, task.handler, state.retry, value.type, input_var=task.input_var)
    if isinstance(end, Done):
        unit = replace(unit, output_type=end.value.type, transition=end.word)
    else:
        late, cancelled = end.code == "timeout", end.code == "cancelled"
        unit = replace(unit, error=end.message, code=end.code, timed_out=late, cancelled=cancelled)
    model, provider = state.answered_by
    seconds = (state.now - state.began).total_seconds()
    state.units.append(
        replace(unit, seconds=seconds, model=model, provider=provider, tools=tuple(state.used))
    )


def _handled(state: State, task: Task, value: Value, given: Value) -> Steps:
    """What the task's handler makes of its input."""
    prepared: Prepared = texts.prepared(state, task)
    match task.handler:
        case "noop":
            return Done(value, "noop")
        case "raise_error":
            raise _raised(value)
        case "chat_completion":
            return (yield from chatting.chat_completion(state, task, prepared, value))
        case "route":
            chosen: Done = yield from chatting.route(state, task, prepared, value)
            return Done(given, chosen.word)
        case "execute_tool_calls":
            return (yield from calling.execute_tool_calls(state, task, value))
        case "tools":
            return (yield from calling.tools(state, task, prepared, value))
        case _:
            raise Fatal("bad_chain", f"{task.handler!r} is no handler", task.id)


def _raised(value: Value) -> Failure:
    if isinstance(value.data, History):
        last = value.data.last
        return Failure("raised", last.content if last else "")
    if value.type in ("string", "int"):
        return Failure("raised", flow.plain(value.data))
    return Failure("input_type", f"raise_error cannot take {value.type}")
