"""The rules of chains: the smallest chain that breaks each, and what is said of it."""
# ruff: noqa: E501 - tables: a row is read as one line

from typing import Any

import pytest
import tomlkit

from reconciler.admission import chains
from reconciler.admission.admit import admit
from reconciler.model.chain import Chain
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.problems import Severity
from tests.admission import build
from tests.admission.table import Bad

FILE = "chains/a.toml"
Table = dict[str, Any]


def branch(goto: str, operator: str = "default", **more: str) -> Table:
    return {"operator": operator, "goto": goto, **more}


def task(name: str, handler: str = "noop", *branches: Table, **more: Any) -> Table:
    on_failure = more.pop("on_failure", None)
    transition: Table = {"branches": list(branches)} | ({"on_failure": on_failure} if on_failure else {})
    return {"id": name, "handler": handler, "transition": transition, **more}


def bad(code: str, path: str, what: str, *tasks: Table, **top: Any) -> Bad:
    warning = top.pop("warning", False)
    text = tomlkit.dumps({"id": "a", "tasks": list(tasks), **top})
    return Bad(code, {FILE: text}, FILE, path, what, "", warning=warning)


LOOP = (
    task("c", "chat_completion", branch("x", "equals", when="tool_call"), branch("end")),
    task("x", "execute_tool_calls", branch("c")),
)
EDGE = "edge_traversed_at_least"
TOOLS = {"tools": ["fs"]}
CASES = [
    bad("H201", "tasks", "the chain has no tasks"),
    bad("H202", "tasks[0].id", "a task has no id", task("")),
    bad("H203", "tasks[0].id", "'end' is no id of a task", task("end")),
    bad("H204", "tasks[1].id", "two tasks are called 'a'", task("a"), task("a")),
    bad("H205", "tasks[0].handler", "'prompt_to_int' is no handler", task("a", "prompt_to_int")),
    bad("H206", "tasks[0].tools", "'a' names no provider of tools", task("a", "tools")),
    bad("H207", "tasks[0].transition.on_failure", "on_failure cannot be 'end'", task("a", on_failure="end")),
    bad("H208", "tasks[0].transition.branches[0].operator", "'>' is no operator", task("a", "noop", branch("end", ">"))),
    bad("H209", "tasks[0].transition.branches[0].goto", "there is no task 'bb'", task("a", "noop", branch("bb")), task("b")),
    bad("H210", "tasks[0].transition.branches[0].edge", "a budget names no edge", task("a", "noop", branch("", EDGE, when="1"))),
    bad("H211", "tasks[0].transition.branches[0].edge", "'a-b' is no edge", task("a", "noop", branch("", EDGE, when="1", edge="a-b"))),
    bad("H212", "tasks[0].transition.branches[0].edge", "there is no task 'z'", task("a", "noop", branch("", EDGE, when="1", edge="z->a"))),
    bad("H213", "tasks[0].transition.branches[0].edge", "there is no task 'z'", task("a", "noop", branch("", EDGE, when="1", edge="a->z"))),
    bad("H214", "tasks[0].transition.branches[0].when", "'ten' is no count", task("a", "noop", branch("", EDGE, when="ten", edge="a->a"))),
    bad("H221", "tasks[0].transition.branches", "'a' has no label to choose", task("a", "route", branch("end"))),
    bad("H222", "tasks[0].system_instruction", "there is no task 'z'", task("a", "chat_completion", system_instruction="{{edge_count:a->z}}")),
    bad("H223", "tasks[0].system_instruction", "{{var:}} names no variable", task("a", "chat_completion", system_instruction="{{var:}}")),
    bad("H224", "tasks[0].prompt_template", "nothing sets the variable 'inptu'", task("a", prompt_template="{{.inptu}}")),
    bad("H225", "tasks[0].transition.branches[0].when", "equals 'tool-call' can never fire", task("c", "chat_completion", branch("end", "equals", when="tool-call"), branch("end"))),
    bad("H226", "tasks[0].input_var", "nothing sets the variable 'hsitory' before 'a'", task("a", input_var="hsitory")),
    bad("H227", "tasks[1].input_var", "'b' gives string, which 'x' can never take", task("b", "noop", branch("x"), prompt_template="t"), task("x", "execute_tool_calls", input_var="b")),
    bad("H228", "tasks[0].prompt_template", "execute_tool_calls takes no text, and prompt_template makes one", task("x", "execute_tool_calls", prompt_template="t")),
    bad("H230", "tasks[0].transition", "'b' gives string, which 'x' can never take", task("b", "noop", branch("x"), prompt_template="t"), task("x", "execute_tool_calls")),
    bad("H236", "tasks[0].transition.branches[0].when", "equals 'failed' can never fire", task("x", "execute_tool_calls", branch("end", "equals", when="failed"), branch("end"))),
    bad("H238", "tasks[0].print", "print cannot be read: line 1: there is no function 'nosuch'", task("a", print="{{nosuch 1}}")),
]  # fmt: skip
HINTS = [
    bad("H231", "tasks[0].transition", "the loop of c or x has no budget", *LOOP),
    bad("H232", "tasks[1]", "'x' does not repeat tools of 'c'", LOOP[0] | {"execute_config": TOOLS}, LOOP[1], token_limit=9),
    bad("H233", "tasks[0].transition.branches", "the label 'safe' stands inside 'unsafe'", task("r", "route", branch("end", "equals", when="safe"), branch("end", "equals", when="unsafe"), branch("end"))),
    bad("H234", "token_limit", "the chain uses tools and sets no token_limit", task("c", "chat_completion", execute_config=TOOLS)),
    bad("H235", "tasks[1].id", "nothing leads to 'b'", task("a"), task("b")),
    bad("H239", "tasks[0].transition.branches[0].edge", "no branch ever takes the edge 'b->a'", task("a", "noop", branch("end", EDGE, when="3", edge="b->a"), branch("b")), task("b")),
    bad("H240", "tasks[0].print", "the first task reads previous_output", task("a", print="{{.previous_output}}")),
    bad("H241", "tasks[0].transition.branches[0]", "once the budget is spent, a finished answer goes this way, too", task("c", "chat_completion", branch("end", EDGE, when="3", edge="c->x"), branch("x", "equals", when="tool_call"), branch("end")), LOOP[1]),
    bad("H242", "tasks[0].transition.branches[0].when", "contains '' always fires", task("a", "noop", branch("end", "contains"))),
    bad("H243", "tasks[0].prompt_template", "prompt_template at the head of a loop throws the results of tools away", LOOP[0] | {"prompt_template": "go"}, LOOP[1]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_chain_that_cannot_work_is_refused(case: Bad) -> None:
    admission = admit(build.inventory(case.config), {}, None, build.WHERE)
    problem = build.only(admission, case.code)
    assert (problem.field_path, problem.what) == (case.path, case.what)
    assert problem.severity is Severity.ERROR
    assert problem.why and problem.mend
    assert ObjectRef(Kind.CHAIN, "a") in admission.refused


@pytest.mark.parametrize("case", HINTS, ids=str)
def test_a_chain_that_may_mean_something_else_is_admitted_with_a_word(case: Bad) -> None:
    admission = admit(build.inventory(case.config), {}, None, build.WHERE)
    problem = next(one for one in admission.problems if one.code == case.code)
    assert (problem.field_path, problem.what) == (case.path, case.what)
    assert problem.severity is Severity.WARNING
    assert problem.why and problem.mend
    assert ObjectRef(Kind.CHAIN, "a") in admission.in_force


def test_a_sound_chain_is_in_force_without_a_word() -> None:
    admission = build.judge({FILE: tomlkit.dumps({"id": "a", "tasks": [task("a")]})})
    assert not admission.problems
    assert ObjectRef(Kind.CHAIN, "a") in admission.in_force


def test_all_defects_are_told_at_once() -> None:
    chain = Chain.model_validate({"tasks": [task("end", "nope", branch("x", "no"))]})
    assert [one.code for one in chains.of(chain, FILE, None)] == ["H203", "H205", "H208", "H209"]
