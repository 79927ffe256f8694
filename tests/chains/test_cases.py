"""Real chain files: what each of them does, step by step, or why it is refused."""
# ruff: noqa: E501 - tables: a row is read as one line

import json
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from reconciler.admission import chains
from reconciler.chains.retrying import ErrorClass
from reconciler.config import chaintext, jsontext
from reconciler.model.chain import Chain
from reconciler.model.problems import Severity
from tests.chains import play
from tests.chains.play import Play, call, fail, say

CASES = Path(__file__).parent / "cases"
# Why a file is refused; every other one is sound.
REFUSED = {
    "docs-embedded--runtime__use-cases_notion-mcp__5__None.json": ["H202"],
    "docs-embedded--runtime__use-cases_stateful-agents-mcp__6__None.json": ["H202"],
    "vibe--chain-contenox.json": ["H225"],
    "vibe--chain-plan-explorer.json": ["H225"],
    "vibe--chain-run.json": ["H225"],
    "vibe--chain-step-executor.json": ["H225"],
    "vibe--chain-step-summarizer.json": ["H207", "H209", "H209", "H209"],
    "vibe--qa-ollama.json": ["H205"],
    "vibe--simple-chat-with-moderation.json": ["H205", "H208", "H205"],
}


def read(name: str) -> Chain:
    values = jsontext.read((CASES / name).read_bytes())
    assert isinstance(values, dict)
    return Chain.model_validate(chaintext.read(values, name, None)[0])


@pytest.mark.parametrize("name", sorted(path.name for path in CASES.glob("*.json")))
def test_every_file_gives_its_verdict(name: str) -> None:
    found = [one for one in chains.of(read(name), name, None) if one.severity is Severity.ERROR]
    assert Counter(one.code for one in found) == Counter(REFUSED.get(name, []))


def shape(names: list[str]) -> str:
    """A path as a word: ``a (b c)x3 d`` for a loop of two tasks that was gone through three times."""
    out: list[str] = []
    at = 0
    while at < len(names):
        times = 1
        while names[at : at + 2] == names[at + 2 * times : at + 2 * times + 2]:
            times += 1
        if times > 1:
            out.append(f"({' '.join(names[at : at + 2])})x{times}")
            at += 2 * times
        else:
            out.append(names[at])
            at += 1
    return " ".join(out)


TOOLS = "(coding_chat coding_tools)x12 coding_chat (coding_recovery coding_recovery_tools)x8 coding_recovery summarise_failure"
# By file: the model's way (T text at once, X tools every time, E every call fails), the label, path, ends well.
WAYS = [
    ("runtime--chain-contenox.json", "T", "coding_change", "classify_request coding_chat", True),
    ("runtime--chain-contenox.json", "X", "coding_change", f"classify_request {TOOLS}", True),
    ("runtime--chain-contenox.json", "E", "", "classify_request contenox_chat recovery_chat summarise_failure", False),
    ("runtime--chain-acp.json", "X", "general", "classify_request (acp_chat run_tools)x10 acp_chat (recovery_chat recovery_tools)x8 recovery_chat summarise_failure", True),
    ("runtime--chain-run.json", "X", "", "(contenox_run run_tools)x10 contenox_run (recovery_run recovery_run_tools)x10 recovery_run summarise_failure", True),
    ("runtime--chain-run.json", "E", "", "contenox_run recovery_run summarise_failure", False),
    ("runtime--demo-chain.json", "T", "general", "classify_request contenox_chat", True),
    ("contenox--chain-planner-default.json", "X", "", "(plan_loop plan_tools)x16 plan_loop (plan_recovery plan_recovery_tools)x6 plan_recovery", True),
    ("contenox--chain-planner-default.json", "E", "", "plan_loop plan_recovery", False),
    ("contenox--route-demo.json", "T", "code", "classify do_code", True),
    ("contenox--route-demo.json", "T", "This is code.", "classify do_code", True),
    ("contenox--route-demo.json", "T", "neither", "classify do_answer", True),
    ("contenox--route-demo.json", "E", "", "classify", False),
    ("contenox--simple-chat-with-moderation.json", "T", "safe", "moderate simple-chat", True),
    ("contenox--simple-chat-with-moderation.json", "T", "unsafe.", "moderate reject_request", True),
    ("docs-embedded--runtime__development_chains__0__review.json", "X", "", "(review run_tools)x6 review", True),
    ("runtime--agent-apitest-noop.json", "T", "", "reply", True),
    ("runtime--qa-ollama.json", "T", "", "generate_response", True),
    ("runtime--contenox-bench-no-tools-chain.json", "E", "", "answer", False),
    ("vibe--chain-planner.json", "T", "", "contenox_planner", True),
]  # fmt: skip


@pytest.mark.parametrize(("name", "way", "label", "path", "well"), WAYS, ids=lambda one: str(one)[:60])
def test_a_file_goes_its_way(name: str, way: str, label: str, path: str, well: bool) -> None:
    def model(ask: Any) -> Any:
        if way == "E":
            return fail(ErrorClass.AUTH)
        if ask.kind == "route":
            return say(label)
        return say("", call()) if way == "X" else say("done")

    done = play.run(read(name), Play(model))
    assert shape(play.path(done)) == path
    assert isinstance(done.outcome, play.Finished) is well


def test_a_loop_without_a_budget_ends_as_step_limit_and_names_its_edges() -> None:
    """E1: no generic error after some steps, but which circle it was."""
    done = play.run(read("docs-embedded--runtime__specification_examples__0__default-chain.json"), Play(lambda ask: say("", call())))  # fmt: skip
    failed = play.failure(done)
    assert failed.code == "step_limit"
    assert "->" in failed.message
    assert len(done.units) == 200
    assert len(list(groupby(play.path(done)))) == 200


def test_a_chain_is_the_same_after_a_run() -> None:
    """E27: what is parsed once runs twice alike, and is not changed by it."""
    one = read("runtime--chain-contenox.json")
    before = json.dumps(one.model_dump(mode="json"))
    runs = [
        play.run(one, Play(lambda ask: say("general") if ask.kind == "route" else say("x"))) for _ in "ab"
    ]
    assert json.dumps(one.model_dump(mode="json")) == before
    assert runs[0].outcome == runs[1].outcome
    assert runs[0].events == runs[1].events
