"""What a chain's structure must be: V1 to V14 of the format, each a rule, all told at once.

A chain that breaks one of them cannot run. The names of the rules say what holds. What a sound chain may
still do wrong is ``chainlint``'s to say.
"""

import re
from collections.abc import Iterator

from reconciler.admission.findings import Finding
from reconciler.admission.view import nearest
from reconciler.model.chain import BUDGET, END, HANDLERS, OPERATORS, Branch, Chain
from reconciler.model.problems import Path, listed, quoted

_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,18}\s*")
_OLD_HANDLERS = {
    "prompt_to_string": "chat_completion",
    "prompt_to_int": "route",
    "prompt_to_condition": "route",
    "hook": "tools",
    "tool-call": "execute_tool_calls",
    "parse_number": "route",
}
_OLD_OPERATORS = {
    ">": "equals",
    "<": "equals",
    "in_range": "equals",
    "==": "equals",
    "startswith": "starts_with",
}


def findings(chain: Chain) -> Iterator[Finding]:
    """Every rule that the chain breaks, in the order of the format."""
    yield from it_has_tasks(chain)
    yield from every_task_has_a_name_of_its_own(chain)
    yield from every_handler_is_known_and_has_what_it_needs(chain)
    yield from every_failure_goes_to_a_task(chain)
    yield from every_branch_can_be_judged(chain)


def it_has_tasks(chain: Chain) -> Iterator[Finding]:
    """V1."""
    if not chain.tasks:
        yield Finding(
            "H201", ("tasks",), "the chain has no tasks", "a run enters at the first task", "add a task"
        )


def every_task_has_a_name_of_its_own(chain: Chain) -> Iterator[Finding]:
    """V2, V3 and V4."""
    first: dict[str, int] = {}
    for number, task in enumerate(chain.tasks):
        path: Path = ("tasks", number, "id")
        why = "branches and variables find a task by its id"
        if not task.id:
            yield Finding("H202", path, "a task has no id", why, 'give it one, like "id": "answer"')
        elif task.id == END:
            yield Finding(
                "H203", path, "'end' is no id of a task", "it means the end of the run", "rename it"
            )
        elif task.id in first:
            what = f"two tasks are called {quoted(task.id)}"
            yield Finding("H204", path, what, why, f"rename it, or tasks[{first[task.id]}]")
        first.setdefault(task.id, number)


def every_handler_is_known_and_has_what_it_needs(chain: Chain) -> Iterator[Finding]:
    """V5 and V6."""
    for number, task in enumerate(chain.tasks):
        if task.handler not in HANDLERS:
            near = _OLD_HANDLERS.get(task.handler) or nearest(task.handler, HANDLERS)
            what = (
                f"{quoted(task.handler)} is no handler"
                if task.handler
                else f"{quoted(task.id)} has no handler"
            )
            yield Finding(
                "H205",
                ("tasks", number, "handler"),
                what,
                f"a task's handler is {listed(HANDLERS)}",
                f"write {quoted(near)}" if near else f"write {listed(HANDLERS)}",
                candidates=(near,) if near else (),
            )
        elif task.handler == "tools" and not (task.tools and task.tools.name):
            yield Finding(
                "H206",
                ("tasks", number, "tools"),
                f"{quoted(task.id)} names no provider of tools",
                "a task of handler 'tools' calls the tool that its 'tools.name' and 'tools.tool_name' say",
                'add "tools": {"name": "ocr", "tool_name": "ocr_extract"}',
            )


def every_failure_goes_to_a_task(chain: Chain) -> Iterator[Finding]:
    """V7: here ``end`` is no goto, so that no failure passes for a result."""
    ids = [task.id for task in chain.tasks]
    for number, task in enumerate(chain.tasks):
        target = task.transition.on_failure
        if not target or target in ids:
            continue
        path = ("tasks", number, "transition", "on_failure")
        if target == END:
            why = "a run whose task failed ends as failed when nothing takes over"
            yield Finding("H207", path, "on_failure cannot be 'end'", why, "leave on_failure out")
        else:
            yield _unknown("H207", path, target, ids)


def every_branch_can_be_judged(chain: Chain) -> Iterator[Finding]:
    """V8 to V14."""
    ids = [task.id for task in chain.tasks]
    for number, task in enumerate(chain.tasks):
        for at, branch in enumerate(task.transition.branches):
            path: Path = ("tasks", number, "transition", "branches", at)
            yield from _operator(branch, path)
            if branch.goto not in ("", END, *ids):
                yield _unknown("H209", (*path, "goto"), branch.goto, ids)
            if branch.operator == BUDGET:
                yield from _budget(branch, path, ids)


def _operator(branch: Branch, path: Path) -> Iterator[Finding]:
    if branch.operator in OPERATORS:
        return
    near = _OLD_OPERATORS.get(branch.operator) or nearest(branch.operator, OPERATORS)
    yield Finding(
        "H208",
        (*path, "operator"),
        f"{quoted(branch.operator)} is no operator" if branch.operator else "a branch has no operator",
        f"a branch's operator is {listed(OPERATORS)}",
        f"write {quoted(near or 'default')}",
        candidates=(near,) if near else (),
    )


def _budget(branch: Branch, path: Path, ids: list[str]) -> Iterator[Finding]:
    why = "a budget counts how often one edge was taken"
    source, arrow, target = (part.strip() for part in branch.edge.partition("->"))
    if not branch.edge:
        yield Finding("H210", (*path, "edge"), "a budget names no edge", why, 'add "edge": "from->to"')
    elif not (source and arrow and target):
        what = f"{quoted(branch.edge)} is no edge"
        yield Finding("H211", (*path, "edge"), what, why, "write two tasks as from->to")
    else:
        if source not in ids:
            yield _unknown("H212", (*path, "edge"), source, ids)
        if target not in (END, *ids):
            yield _unknown("H213", (*path, "edge"), target, ids)
    if not _WHOLE.fullmatch(branch.when):
        what = f"{quoted(branch.when)} is no count"
        yield Finding("H214", (*path, "when"), what, why, 'write a whole number, like "when": "10"')


def _unknown(code: str, path: Path, name: str, ids: list[str]) -> Finding:
    near = nearest(name, ids)
    return Finding(
        code,
        path,
        f"there is no task {quoted(name)}",
        "a run can only go to a task of its own chain",
        f"write {quoted(near)}" if near else f"write {listed(ids)}" if ids else "add it",
        candidates=(near,) if near else (),
    )
