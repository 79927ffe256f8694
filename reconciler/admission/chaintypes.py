"""What may flow along each edge of a chain: an interpretation over types, until nothing more is found.

A value is text, a whole number, JSON, a conversation, nothing, or unknown (``any``, which fits everywhere). A
handler takes some types and makes others; a failure carries what came in, or what came out by then. So a task
that can never be given what it takes is found without a run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.model.chain import END, Chain, Task, task_by_id

ANY = "any"
Types = frozenset[str]

_TEXT = frozenset({"string"})
_HISTORY = frozenset({"chat_history"})
_ANY = frozenset({ANY})
_TAKES: Mapping[str, Types] = {
    "chat_completion": frozenset({"string", "chat_history"}),
    "execute_tool_calls": _HISTORY,
    "route": frozenset({"string", "int", "chat_history"}),
    "raise_error": frozenset({"string", "int", "chat_history"}),
}


@dataclass(slots=True)
class Reach:
    """What was found: the types that come into each task, who sets which variable, which edges carry what."""

    into: dict[str, Types] = field(default_factory=dict)
    variables: dict[str, Types] = field(default_factory=dict)
    edges: dict[tuple[str, str], Types] = field(default_factory=dict)


def takes(task: Task) -> Types:
    """The types that a task can work on; ``any`` where it takes all."""
    return _TAKES.get(task.handler, _ANY)


def accepted(task: Task, types: Types) -> Types:
    """Those of the types that a task can work on."""
    wanted = takes(task)
    return types if ANY in wanted else frozenset(one for one in types if one == ANY or one in wanted)


def reached(chain: Chain, entry: Types = _ANY) -> Reach:
    """What flows where, from the first task on; a task that nothing leads to is in none of it."""
    tasks, found = task_by_id(chain), Reach(variables={"input": entry})
    waiting: list[str] = [chain.tasks[0].id]
    found.into[chain.tasks[0].id] = entry
    while waiting:
        task = tasks[waiting.pop()]
        given = _given(task, found)
        out = _made(task, given)
        ways = [(branch.goto, out) for branch in task.transition.branches if out]
        if task.transition.on_failure:
            failed = given | out
            ways.append((task.transition.on_failure, failed))
            _set(found, f"{task.id}_error", _TEXT)
            _set(found, "last_error", _TEXT)
            _set(found, task.id, failed)
            _set(found, "previous_output", failed)
        if out:
            _set(found, task.id, out)
            _set(found, "previous_output", out)
        for target, types in ways:
            if target not in ("", END) and _carry(found, task.id, target, types):
                waiting.append(target)
    return _settled(chain, found)


def _settled(chain: Chain, found: Reach) -> Reach:
    """Once more over all, since a variable may have been set after its reader was looked at."""
    tasks = task_by_id(chain)
    for _ in range(len(chain.tasks) * 6):
        before = (dict(found.variables), dict(found.edges))
        for name in list(found.into):
            task = tasks[name]
            given = _given(task, found)
            out = _made(task, given)
            if out:
                _set(found, name, out)
                _set(found, "previous_output", out)
            for branch in task.transition.branches:
                if out and branch.goto not in ("", END):
                    _carry(found, name, branch.goto, out)
            if task.transition.on_failure:
                _carry(found, name, task.transition.on_failure, given | out)
        if before == (found.variables, found.edges):
            break
    return found


def _given(task: Task, found: Reach) -> Types:
    """What the handler is given: the flow, or a variable, or the text of its template."""
    if task.prompt_template:
        return _TEXT
    if task.input_var:
        return found.variables.get(task.input_var, _ANY)
    return found.into.get(task.id, _ANY)


def _made(task: Task, given: Types) -> Types:
    """What the handler makes of it; nothing where it can only fail."""
    fitting = accepted(task, given)
    match task.handler:
        case "raise_error":
            return frozenset()
        case "chat_completion" | "execute_tool_calls":
            return _HISTORY if fitting else frozenset()
        case "tools":
            return _TEXT if task.output_template else _ANY
        case _:
            return fitting


def _carry(found: Reach, source: str, target: str, types: Types) -> bool:
    """Note what an edge carries; whether that is more than was known."""
    known = found.edges.get((source, target), frozenset())
    found.edges[source, target] = known | types
    into = found.into.get(target, frozenset())
    found.into[target] = into | types
    return not types <= into or not types <= known


def _set(found: Reach, name: str, types: Types) -> None:
    found.variables[name] = found.variables.get(name, frozenset()) | types
