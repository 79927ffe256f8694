"""What a chain of sound structure still gets wrong: L1 to L10 of the format, each refused, since it never
works.

A branch that no word of its handler can take is the worst of them: a chain that is written for an older
spelling runs, and silently never calls a tool.
"""

import re
from collections.abc import Iterator

from reconciler.admission import chaintypes
from reconciler.admission.findings import Finding
from reconciler.admission.view import nearest
from reconciler.model.chain import END, ENVELOPE, Chain, Task, labels
from reconciler.model.problems import Path, listed, quoted

_WORDS = {
    "chat_completion": ("tool_call", "executed"),
    "execute_tool_calls": ("noop", "no_calls_found", "tools_executed"),
    "noop": ("noop",),
}
_MACRO = re.compile(r"\{\{([A-Za-z0-9_]+)(?::([^}]*))?\}\}")
_FIELD = re.compile(r"\{\{-?\s*\.([A-Za-z_][A-Za-z0-9_]*)")
EXPANDED = ("system_instruction", "prompt_template", "output_template", "print")


def findings(chain: Chain) -> Iterator[Finding]:
    """Every defect of a chain whose structure is sound."""
    for number, task in enumerate(chain.tasks):
        path: Path = ("tasks", number)
        yield from _a_route_has_labels(task, path)
        yield from _macros_are_whole(chain, task, path)
        yield from _templates_read_what_there_is(chain, task, path)
        yield from _branches_can_fire(task, path)
        if task.prompt_template and "string" not in chaintypes.takes(task) | _any(task):
            yield Finding(
                "H228",
                (*path, "prompt_template"),
                f"{task.handler} takes no text, and prompt_template makes one",
                "prompt_template replaces the input by a text",
                "leave prompt_template out",
            )
    yield from _types_fit(chain)


def _any(task: Task) -> frozenset[str]:
    return frozenset({"string"}) if chaintypes.ANY in chaintypes.takes(task) else frozenset()


def _a_route_has_labels(task: Task, path: Path) -> Iterator[Finding]:
    if task.handler == "route" and not labels(task):
        yield Finding(
            "H221",
            (*path, "transition", "branches"),
            f"{quoted(task.id)} has no label to choose",
            "route lets a model choose among the words of its 'equals' branches",
            'add a branch like {"operator": "equals", "when": "question", "goto": "answer"}',
        )


def _macros_are_whole(chain: Chain, task: Task, path: Path) -> Iterator[Finding]:
    ids = [one.id for one in chain.tasks]
    for key in EXPANDED:
        for found in _MACRO.finditer(getattr(task, key)):
            space, payload = found[1], (found[2] or "").strip()
            if space == "var" and not payload.partition("|")[0].strip():
                why = "{{var:name}} is replaced by the variable of that name"
                yield Finding("H223", (*path, key), "{{var:}} names no variable", why, "write its name")
            if space == "edge_count":
                yield from _an_edge_is_counted(payload, (*path, key), ids)


def _an_edge_is_counted(payload: str, path: Path, ids: list[str]) -> Iterator[Finding]:
    why = "{{edge_count:from->to}} is how often the edge was taken"
    source, arrow, target = (part.strip() for part in payload.partition("->"))
    if not (source and arrow and target):
        yield Finding("H222", path, f"{quoted(payload)} is no edge", why, "write two tasks as from->to")
    elif target == END:
        yield Finding("H222", path, "an edge to the end is never counted", why, "name another edge")
    else:
        for name in (source, target):
            if name not in ids:
                near = nearest(name, ids)
                mend = f"write {quoted(near)}" if near else f"write {listed(ids)}"
                yield Finding("H222", path, f"there is no task {quoted(name)}", why, mend)


def _templates_read_what_there_is(chain: Chain, task: Task, path: Path) -> Iterator[Finding]:
    ids = [one.id for one in chain.tasks]
    known = {*ENVELOPE, *ids, *(f"{one}_error" for one in ids)}
    for key in ("prompt_template", "print"):
        for name in dict.fromkeys(_FIELD.findall(getattr(task, key))):
            if name not in known:
                near = nearest(name, known)
                yield Finding(
                    "H224",
                    (*path, key),
                    f"nothing sets the variable {quoted(name)}",
                    "templates read input, previous_output, last_error, the output of a task by its id, and "
                    "its error by the id and _error",
                    f"write .{near}" if near else "leave it out",
                )


def _branches_can_fire(task: Task, path: Path) -> Iterator[Finding]:
    words = _WORDS.get(task.handler)
    if words is None:
        return
    for at, branch in enumerate(task.transition.branches):
        if branch.operator not in ("equals", "contains", "starts_with", "ends_with"):
            continue
        if any(map(branch.fits, words)):
            continue
        failed = branch.when.strip() == "failed"
        near = branch.when.replace("-", "_")
        near = near if near in words else nearest(branch.when, words) or ""
        mend = (
            "leave it out, and name the task in on_failure" if failed else f"write {quoted(near or words[0])}"
        )
        yield Finding(
            "H236" if failed else "H225",
            (*path, "transition", "branches", at, "when"),
            f"{branch.operator} {quoted(branch.when)} can never fire",
            "a failure goes to on_failure before any branch is looked at"
            if failed
            else f"the words of {task.handler} are {listed(words)}",
            mend,
            candidates=(near,) if near else (),
        )


def _types_fit(chain: Chain) -> Iterator[Finding]:
    found = chaintypes.reached(chain)
    for number, task in enumerate(chain.tasks):
        if task.id not in found.into:
            continue
        path: Path = ("tasks", number)
        if task.input_var and task.input_var not in found.variables:
            near = nearest(task.input_var, found.variables)
            yield Finding(
                "H226",
                (*path, "input_var"),
                f"nothing sets the variable {quoted(task.input_var)} before {quoted(task.id)}",
                "a variable is input, previous_output, last_error, or the id of a task that ran before",
                f"write {quoted(near)}" if near else "write 'input'",
            )
        elif task.input_var and not task.prompt_template:
            types = found.variables[task.input_var]
            if not chaintypes.accepted(task, types):
                yield _never_fits("H227", (*path, "input_var"), task, (task.input_var, types))
    yield from _edges_fit(chain, found)


def _edges_fit(chain: Chain, found: chaintypes.Reach) -> Iterator[Finding]:
    by_id = {task.id: number for number, task in enumerate(chain.tasks)}
    for (source, target), types in found.edges.items():
        task = chain.tasks[by_id[target]]
        if task.prompt_template or task.input_var or not types:
            continue
        if not chaintypes.accepted(task, types):
            yield _never_fits("H230", ("tasks", by_id[source], "transition"), task, (source, types))


def _never_fits(code: str, path: Path, task: Task, given: tuple[str, frozenset[str]]) -> Finding:
    source, types = given
    return Finding(
        code,
        path,
        f"{quoted(source)} gives {listed(sorted(types))}, which {quoted(task.id)} can never take",
        f"{task.handler} takes {listed(sorted(chaintypes.takes(task)))}",
        "put a task between them, or a prompt_template that makes a text",
    )
