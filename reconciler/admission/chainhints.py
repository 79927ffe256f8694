"""What a chain may mean and probably does not: L11 to L20 and three more, told as warnings.

The engine is safe in each of these cases by another law (a ceiling of steps, the strictest of two policies,
whole words), so nothing is refused; the warning says what will happen instead of what may have been meant.
Durations and templates that cannot be read (L18) are refused, wherever they stand.
"""

from collections.abc import Callable, Iterator

from reconciler.admission import chaintypes
from reconciler.admission.findings import Finding, warning
from reconciler.model.chain import BUDGET, Chain, Task, edges, labels, task_by_id
from reconciler.model.problems import Path, listed, quoted

TemplateFault = Callable[[str], str | None]
"""A template to what is wrong with it, or None."""

_TEMPLATES = ("prompt_template", "output_template", "print")


def findings(chain: Chain, template_fault: TemplateFault) -> Iterator[Finding]:
    """Every hint for a chain whose structure is sound."""
    yield from _loops_end(chain)
    yield from _policies_are_repeated(chain)
    yield from _labels_are_apart(chain)
    yield from _results_have_room(chain)
    reach = chaintypes.reached(chain)
    for number, task in enumerate(chain.tasks):
        path: Path = ("tasks", number)
        if task.id not in reach.into:
            what = f"nothing leads to {quoted(task.id)}"
            yield warning(
                "H235", (*path, "id"), what, "no run ever enters it", "name it in a goto, or remove it"
            )
        yield from _templates_can_be_read(task, path, template_fault)
        yield from _budgets_are_spent(chain, task, path)
        yield from _branches_mean_something(chain, task, path)
    yield from _first_task(chain)


def _loops_end(chain: Chain) -> Iterator[Finding]:
    """L11: a cycle that no budget leaves."""
    ways: dict[str, set[str]] = {}
    for source, target, _ in edges(chain):
        ways.setdefault(source, set()).add(target)
    by_id = task_by_id(chain)
    told: set[frozenset[str]] = set()
    for number, task in enumerate(chain.tasks):
        circle = _circle(task.id, ways)
        if not circle or circle in told:
            continue
        told.add(circle)
        leaves = any(
            branch.operator == BUDGET and branch.goto not in circle
            for name in circle
            if name in by_id
            for branch in by_id[name].transition.branches
        )
        if not leaves:
            yield warning(
                "H231",
                ("tasks", number, "transition"),
                f"the loop of {listed(sorted(circle))} has no budget",
                f"a model that never stops calling tools is ended after {chain.max_steps} tasks (step_limit)",
                f'add a branch that leaves it: "operator": "{BUDGET}", "when": "10", "edge": "a->b"',
            )


def _circle(start: str, ways: dict[str, set[str]]) -> frozenset[str]:
    """The tasks that can reach ``start`` and be reached from it; none where it is in no loop."""
    after = _reachable(start, ways)
    if start not in after:
        return frozenset()
    return frozenset({start, *(one for one in after if start in _reachable(one, ways))})


def _reachable(start: str, ways: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for target in ways.get(waiting.pop(), ()):
            if target not in found:
                found.add(target)
                waiting.append(target)
    return found


def _policies_are_repeated(chain: Chain) -> Iterator[Finding]:
    """L12: bounds on the task that asks, and not on the one that calls."""
    by_id = task_by_id(chain)
    for task in chain.tasks:
        config = task.execute_config
        if task.handler != "chat_completion" or config is None:
            continue
        for target in {branch.goto for branch in task.transition.branches}:
            other = by_id.get(target)
            if other is None or other.handler != "execute_tool_calls":
                continue
            for key in ("tools_policies", "hide_tools", "tools"):
                mine, own = getattr(config, key), getattr(other.execute_config, key, None)
                if mine and not own:
                    what = f"{quoted(other.id)} does not repeat {key} of {quoted(task.id)}"
                    number = next(at for at, one in enumerate(chain.tasks) if one.id == other.id)
                    why = _WITHOUT[key]
                    yield warning("H232", ("tasks", number), what, why, f"repeat {key} in its execute_config")


_WITHOUT = {
    "tools_policies": "the bounds of the asking task hold here all the same; other engines forget them",
    "hide_tools": "a tool that is hidden from the model may still be called by name",
    "tools": "without a list of its own it may call every tool that the chain has",
}


def _labels_are_apart(chain: Chain) -> Iterator[Finding]:
    """L13: one label inside another."""
    for number, task in enumerate(chain.tasks):
        words = labels(task) if task.handler == "route" else ()
        for one in words:
            for other in words:
                if one is not other and one.strip().casefold() in other.strip().casefold():
                    yield warning(
                        "H233",
                        ("tasks", number, "transition", "branches"),
                        f"the label {quoted(one)} stands inside {quoted(other)}",
                        "only whole words count here; other engines may take the wrong one",
                        "choose labels that do not contain each other",
                    )


def _results_have_room(chain: Chain) -> Iterator[Finding]:
    """L14."""
    if chain.token_limit <= 0 and any(one.execute_config and one.execute_config.tools for one in chain.tasks):
        yield warning(
            "H234",
            ("token_limit",),
            "the chain uses tools and sets no token_limit",
            "a tool's result is then cut at 256 KiB, and a conversation is never checked before it is sent",
            "set token_limit to the window of the smallest model that it asks",
        )


def _templates_can_be_read(task: Task, path: Path, template_fault: TemplateFault) -> Iterator[Finding]:
    """L18; durations are part of the shape."""
    for key in _TEMPLATES:
        text = getattr(task, key)
        if text and (fault := template_fault(text)):
            why = "it would fail every run that reaches it"
            yield Finding("H238", (*path, key), f"{key} cannot be read: {fault}", why, "mend the template")


def _budgets_are_spent(chain: Chain, task: Task, path: Path) -> Iterator[Finding]:
    """L19, and a budget that stands before the tool calls (the finished answer goes its way, too)."""
    taken = {f"{source}->{target}" for source, target, _ in edges(chain)}
    for at, branch in enumerate(task.transition.branches):
        here = (*path, "transition", "branches", at)
        if branch.operator != BUDGET:
            continue
        source, _, target = (part.strip() for part in branch.edge.partition("->"))
        if f"{source}->{target}" not in taken or target == "end":
            what = f"no branch ever takes the edge {quoted(branch.edge)}"
            why = "the count of an edge that is not there, or leads to the end, stays 0"
            yield warning("H239", (*here, "edge"), what, why, "name an edge of the loop")
        later = task.transition.branches[at + 1 :]
        if any(one.operator == "equals" and one.when == "tool_call" for one in later):
            yield warning(
                "H241",
                here,
                "once the budget is spent, a finished answer goes this way, too",
                "a budget looks at the count alone, and it stands before the branch for tool_call",
                "keep it so where the next task can tell them apart; else let the answer end the run first",
            )


def _branches_mean_something(chain: Chain, task: Task, path: Path) -> Iterator[Finding]:
    """Empty words and words of default (B28); a constant prompt at the head of a loop (E28)."""
    for at, branch in enumerate(task.transition.branches):
        here = (*path, "transition", "branches", at, "when")
        if branch.operator in ("contains", "starts_with", "ends_with") and not branch.when:
            why = f"every text {branch.operator.replace('_', ' ')} nothing"
            yield warning("H242", here, f"{branch.operator} '' always fires", why, "write default")
        if branch.operator == "default" and branch.when:
            why = "default fires where no other branch does"
            yield warning("H242", here, "'when' says nothing to default", why, "leave it out")
    loops = task.handler == "chat_completion" and any(
        target == task.id and task_by_id(chain)[source].handler == "execute_tool_calls"
        for source, target, _ in edges(chain)
    )
    if loops and task.prompt_template:
        yield warning(
            "H243",
            (*path, "prompt_template"),
            "prompt_template at the head of a loop throws the results of tools away",
            "it replaces the conversation at every visit: the model never sees what it asked for",
            "put it into system_instruction, or into a task before the loop",
        )


def _first_task(chain: Chain) -> Iterator[Finding]:
    """L20."""
    first = chain.tasks[0]
    for key in ("prompt_template", "print"):
        if "previous_output" in getattr(first, key) or first.input_var == "previous_output":
            where = key if "previous_output" in getattr(first, key) else "input_var"
            what = "the first task reads previous_output"
            why = "nothing came before it: a template shows '<no value>'"
            yield warning("H240", ("tasks", 0, where), what, why, "read input")
            return
