"""The two handlers that call tools: ``execute_tool_calls``, which a model asked for, and ``tools``, a
task's own.

A call whose outcome is known is never made again in the same run, whichever task or attempt meets it. One
whose outcome is not known, of a tool with an effect, is answered ``outcome_unknown``. Whatever goes wrong
with a call that a model asked for becomes a text that it reads; of a task's own call, it fails the task.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from reconciler.chains import allowlists, bounds, flow, merging, results, strictjson, texts, toolnames
from reconciler.chains.approvals import Decision
from reconciler.chains.asks import Ask, AskApproval, AskTool, ToolFace
from reconciler.chains.flow import Value
from reconciler.chains.history import History, Message, ToolCall
from reconciler.chains.replies import Decided, Reply, ToolFailed, ToolSaid
from reconciler.chains.state import Failure, State, Steps
from reconciler.chains.texts import Prepared
from reconciler.model.approvals import Action
from reconciler.model.chain import Task

_UNKNOWN = "outcome_unknown"
_DENIED = "approval_denied"


@dataclass(frozen=True, slots=True)
class Done:
    """What a task made, and the word that its branches are matched with."""

    value: Value
    word: str


def execute_tool_calls(state: State, task: Task, value: Value) -> Generator[Ask, Reply, Done]:
    """Make the calls of the last message that are not answered yet, in its order.

    The word is ``tools_executed`` where one reached a provider, ``no_calls_found`` where none was there or
    none could be made, ``noop`` of an empty conversation.
    """
    if not isinstance(value.data, History):
        raise Failure("input_type", f"execute_tool_calls takes a conversation, not {value.type}")
    if not value.data.messages:
        return Done(value, "noop")
    if not unanswered(value.data):
        return Done(value, "no_calls_found")
    history, reached = yield from answered(state, task, value.data)
    return Done(Value("chat_history", history), "tools_executed" if reached else "no_calls_found")


def unanswered(history: History) -> tuple[ToolCall, ...]:
    """The calls of the newest message of a model, looking back over results, that have no result."""
    done: set[str] = set()
    for message in reversed(history.messages):
        if message.role != "tool":
            calls = message.calls if message.role == "assistant" else ()
            return tuple(call for call in calls if call.id not in done)
        done.add(message.tool_call_id)
    return ()


def answered(state: State, task: Task, history: History) -> Generator[Ask, Reply, tuple[History, bool]]:
    """The history with a result for each call that was owed one, and whether any reached a provider."""
    reached = False
    for call in unanswered(history):
        if _arguments(call) is None:
            history = _with_readable_arguments(history, call.id)
        known = state.results.get(call.id)
        if known is not None:
            history, reached = history.plus(known), True
            continue
        content, got_there = yield from _called(state, task, call, history)
        message = state.result_of(call, content)
        if got_there:
            state.results[call.id] = message
        history, reached = history.plus(message), reached or got_there
    return history, reached


def _called(
    state: State, task: Task, call: ToolCall, history: History
) -> Generator[Ask, Reply, tuple[str, bool]]:
    """One call: what its model reads of it, and whether it reached its provider."""
    face = toolnames.resolved(call.name, state.everything)
    wrong = _not_to_be_made(state, task, call, face)
    arguments = _arguments(call)
    if wrong or face is None or arguments is None:
        return results.error(wrong or "the arguments are no JSON object; the tool was not called"), False
    if call.id in state.begun and face.effect != "none":
        return results.error(f"{_UNKNOWN}: the call may have taken effect and is not made again"), True
    if (refusal := (yield from _refused(state, task, call, (face, arguments)))) is not None:
        return results.error(refusal[1]), True
    most = results.budget(state, history)
    ask = AskTool(
        state.ask_id(),
        task.id,
        call.id,
        face.provider,
        face.name,
        arguments,
        policies=state.policies(task, face.provider, call.id),
        max_bytes=most,
        debug=state.chain.debug,
        deadline=state.deadline,
    )
    reply = yield from _made(state, task, ask, _repeats(history, call))
    if isinstance(reply, ToolFailed):
        return results.error(f"{face.full_name} failed: {reply.code}: {reply.message}"), True
    return results.capped(flow.serialised(reply.value), face.full_name, most), True


def _not_to_be_made(state: State, task: Task, call: ToolCall, face: ToolFace | None) -> str:
    """Why a call is not made at all, as its model reads it; "" where it may be."""
    if face is None:
        return f"there is no tool {call.name!r}"
    config = task.execute_config
    hides = config is not None and allowlists.hidden(face.full_name, config.hide_tools)
    if hides or face.provider not in state.scope(task):
        return f"the tool {call.name!r} is not allowed here"
    return ""


def _refused(
    state: State, task: Task, call: ToolCall, what: tuple[ToolFace, Mapping[str, Any]]
) -> Generator[Ask, Reply, tuple[str, str] | None]:
    """Why a call may not be made (a code, a clause): by the policy, by its arguments where a person would be
    asked about them, or by that person; None: it may.
    """
    face, arguments = what
    judged = state.laws.judge(face.provider, face.name, bounds.judged(face.provider, arguments))
    if state.laws.spares and judged.rule is None and not judged.unclear and face.effect == "none":
        judged = Decision(Action.ALLOW)
    named = {"hook_name": face.provider, "tool_name": face.name}
    state.tell("hitl_decision", task, hitl_action=judged.action.value, hitl_matched_rule=judged.rule,
               hitl_policy_name=state.laws.policy, **named)  # fmt: skip
    if judged.action is Action.ALLOW or state.verdicts.get(call.id) == "approved":
        return None
    if judged.action is not Action.APPROVE:
        return _DENIED, "denied by policy; the tool was not called"
    if fault := state.laws.fault(face.input_schema, arguments):
        return "invalid_input", f"invalid_input: {fault}; nobody was asked, and the tool was not called"
    ask = AskApproval(
        state.ask_id(), task.id, call, face.provider, face.name, arguments, judged.rule, judged.timeout_s
    )
    state.tell("approval_requested", task, approval_id=ask.id, **named)
    reply = yield from state.ask(ask)
    if not isinstance(reply, Decided):
        raise TypeError(f"{type(reply).__name__} answers no approval")
    if call.id:
        state.verdicts[call.id] = reply.verdict
    state.tell("approval_answered", task, approval_id=ask.id, verdict=reply.verdict, by=reply.by, **named)
    if reply.verdict == "approved":
        return None
    how = "nobody approved it in time" if reply.verdict == "expired" else "a person denied it"
    return _DENIED, f"{how}; the tool was not called"


def _made(
    state: State, task: Task, ask: AskTool, repeat: int
) -> Generator[Ask, Reply, ToolSaid | ToolFailed]:
    """Hand a call out. Until its outcome is here, it counts as begun."""
    key = ask.call or task.id
    name = f"{ask.provider}.{ask.tool}"
    state.tell("tool_call_pending", task, hook_name=ask.provider, tool_name=ask.tool, call=ask.call,
               repeat=repeat)  # fmt: skip
    state.begun.add(key)
    reply = yield from state.ask(ask)
    state.used.append(name)
    if not isinstance(reply, ToolSaid | ToolFailed):
        raise TypeError(f"{type(reply).__name__} answers no call of a tool")
    if isinstance(reply, ToolSaid) or reply.code != _UNKNOWN:
        state.begun.discard(key)
    diff = reply.diff if isinstance(reply, ToolSaid) else {}
    error = reply.code if isinstance(reply, ToolFailed) else ""
    state.tell("tool_call", task, hook_name=ask.provider, tool_name=ask.tool, call=ask.call, error=error,
               **{f"tool_diff_{key}": one for key, one in diff.items()})  # fmt: skip
    return reply


def _arguments(call: ToolCall) -> Mapping[str, Any] | None:
    """The arguments as an object; nothing and null are an empty one, None is none at all."""
    try:
        found = strictjson.read(call.arguments) if call.arguments.strip() else {}
    except ValueError:
        return None
    if found is None:
        return {}
    return found if isinstance(found, dict) else None


def _with_readable_arguments(history: History, call: str) -> History:
    """The history with ``{}`` for arguments that are no object: a provider refuses to read such a message."""

    def mended(message: Message) -> Message:
        calls = tuple(replace(one, arguments="{}") if one.id == call else one for one in message.calls)
        return replace(message, calls=calls) if calls != message.calls else message

    return replace(history, messages=tuple(map(mended, history.messages)))


def _repeats(history: History, call: ToolCall) -> int:
    """Which time it is that a model asks for the same: for whoever watches."""
    same = [one for message in history.messages for one in message.calls if one.name == call.name]
    return sum(one.arguments == call.arguments for one in same)


# a task's own call


def tools(state: State, task: Task, prepared: Prepared, value: Value) -> Steps:
    """Call the task's own tool with what flows and its fixed arguments. Its result is the output.

    With an ``output_template``, its text is the output, and the word; else the word is ``tools_executed``.
    """
    static = task.tools
    if static is None or not static.name:
        raise Failure("bad_task", "the task names no tool")
    face = toolnames.of_provider(static.name, static.tool_name, state.everything)
    if face is None:
        raise Failure("tool_not_found", f"{static.name!r} has no tool {static.tool_name!r} to be called")
    if task.id in state.begun and face.effect != "none":
        raise Failure(_UNKNOWN, "an earlier attempt may have taken effect; it is not repeated", final=True)
    merged = bounds.modern(face.provider, merging.arguments(face.input_schema, value, static.args))
    call = ToolCall("", face.full_name)
    if (refusal := (yield from _refused(state, task, call, (face, merged)))) is not None:
        raise Failure(refusal[0], _with_its_source(*refusal, value), final=refusal[0] == _DENIED)
    ask = AskTool(
        state.ask_id(),
        task.id,
        "",
        face.provider,
        face.name,
        merged,
        policies=state.policies(task, face.provider),
        max_bytes=results.budget(state, History()),
        debug=state.chain.debug,
        deadline=state.deadline,
    )
    reply = yield from _made(state, task, ask, 0)
    if isinstance(reply, ToolFailed):
        message = _with_its_source(reply.code, reply.message, value)
        raise Failure(reply.code, message, final=reply.code == _UNKNOWN)
    made = flow.narrowed(reply.value)
    if not task.output_template:
        return Done(made, "tools_executed")
    text = texts.of_result(prepared.output, made, state)
    return Done(flow.text(text), text)


def _with_its_source(code: str, message: str, value: Value) -> str:
    """The message; of arguments that do not fit, also where they came from, where an object flowed in."""
    if code != "invalid_input" or not isinstance(value.data, Mapping):
        return message
    return f"{message}; what flows into this task is its arguments: a prompt_template makes a text of it"
