"""Which test proves which of the format's vectors (C1 to C55), and which public report of other engines (A, E).

A row names a file and how the name of a test begins; the tests that stood nowhere else follow. A test that is
renamed or taken away makes its row fail, and so does a number without a row.
"""
# ruff: noqa: E501 - tables: a row is read as one line

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from reconciler.admission import chains as rules
from reconciler.chains import engine, retrying
from reconciler.chains.approvals import Decision
from reconciler.chains.asks import AskApproval
from reconciler.chains.replies import Decided, ModelFailed
from reconciler.chains.retrying import ErrorClass
from reconciler.chains.state import Laws
from reconciler.control import runapprovals
from reconciler.control.approvals import Approvals, Refused
from reconciler.model.approvals import Action
from reconciler.model.chain import Chain
from tests.chains import play
from tests.chains.play import Play, call, chain, fail, say
from tests.chains.test_vectors import ELSE, asked, loop, task, way

TESTS = Path(__file__).parents[1]
OWN, HERE = "chains/test_by_number.py", "chains/test_vectors.py"  # there and here a name holds its numbers
ALLOW, RETRY, POLICY, WINDOW = (
    f"chains/test_{name}.py" for name in ("allowlists", "retrying", "approvals", "window")
)
FILES, RULES, RUNS, DOOR = (
    "chains/test_cases.py",
    "admission/test_chains.py",
    "flows/test_chain_runs.py",
    "doors/test_openai_shapes.py",
)
ELSEWHERE = {
    "C25": f"{ALLOW}::test_an_allowlist_names_takes_away_and_forgets_the_unknown",
    "C26": f"{ALLOW}::test_a_caller_narrows_and_never_widens",
    "C30": f"{WINDOW}::test_what_is_slid_fits_keeps_pairs_whole_and_never_loses_the_question",
    "C37": f"{RETRY}::test_jitter_lengthens_a_wait_by_at_most_its_part",
    "C47": f"{DOOR}::test_c47_pictures_come_inline_or_not_at_all",
    "C49": f"{POLICY}::test_patterns_stand_for_paths",
    "C50": f"{POLICY}::test_an_address_is_on_a_host_or_below_it_and_a_strange_one_is_denied",
    "C52": f"{RUNS}::test_an_effect_waits_for_a_person_and_the_wait_outlives_the_controller",
    "C55": f"{POLICY}::test_a_policy_without_a_word_asks",
    "A4": f"{RULES}::test_a_chain_that_cannot_work_is_refused",  # its row H225
    "A8": f"{HERE}::test_c16_to_c18_a_label_is_a_whole_word",
    "A13": f"{POLICY}::test_a_program_is_found_however_it_is_called",  # a blank command: the test below it
    "E1": f"{FILES}::test_a_loop_without_a_budget_ends_as_step_limit_and_names_its_edges",
    "E10": f"{HERE}::test_c2_words_are_compared_exactly_and_no_match_ends_the_run",
    "E13": f"{HERE}::test_c33_and_c34_the_fallback_comes_after_so_many_failures",
    "E16": f"{HERE}::test_c43_and_a16_a_variable_is_data_in_a_template",
    "E19": "config/test_chaintext.py::test_a_misspelt_key_is_refused_and_a_foreign_one_is_told",
    "E27": f"{FILES}::test_a_chain_is_the_same_after_a_run",
    "E31": f"{DOOR}::test_e31_stop_is_a_text_or_a_list_of_texts",
}
REPORTS = [
    *(f"A{number}" for number in (1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19)),
    *(f"E{number}" for number in (1, 3, 4, 6, 7, 9, 10, 12, 13, 15, 16, 18, 19, 21, 22, 24, 25, 27, 28, 30, 31, 33)),
]  # fmt: skip


def named(file: str) -> list[str]:
    """The tests of a file."""
    return re.findall(r"^def (test_\w+)", (TESTS / file).read_text(), re.MULTILINE)


def held(name: str) -> set[str]:
    """The numbers in a test's name: ``test_c16_to_c18_a_label`` has C16, C17 and C18."""
    found = {one.upper() for one in re.findall(r"(?:^test|_)_?([ace][0-9]+)(?=_)", name)}
    for low, high in re.findall(r"c([0-9]+)_to_c([0-9]+)", name):
        found |= {f"C{number}" for number in range(int(low), int(high))}
    return found


def test_every_vector_and_every_report_has_its_test() -> None:
    by_name = {number for file in (OWN, HERE) for name in named(file) for number in held(name)}
    for number, row in ELSEWHERE.items():
        file, _, begin = row.partition("::")
        assert any(name.startswith(begin) for name in named(file)), (number, row)
    wanted = {f"C{number}" for number in range(1, 56)} | set(REPORTS)
    assert sorted(wanted - by_name - ELSEWHERE.keys()) == []


# vectors


def test_c11_a_timeout_that_is_none_is_refused_when_the_file_is_read_wherever_it_stands() -> None:
    for written in ("1d", "30", "1 s", "soon"):
        with pytest.raises(ValueError, match="timeout"):
            chain(task("a"), task("never", timeout=written))


def test_c51_a_question_whose_second_is_over_is_denied_once_and_answered_by_nobody(tmp_path: Path) -> None:
    clock = [1000.0]
    book = Approvals(tmp_path, lambda: clock[0])
    one = AskApproval("r/1", "t", call("ocr.ocr_extract"), "ocr", "ocr_extract", {}, timeout_s=1, rule=0)

    async def waits(number: str) -> None:
        clock[0] += 2.0

    async def verdict() -> Decided:
        return await runapprovals.asked(book, one, {}, waits=waits, now=lambda: clock[0])

    assert asyncio.run(verdict()) == asyncio.run(verdict()) == Decided("expired")
    (kept,) = book.listed()
    assert kept.state == "expired"
    with pytest.raises(Refused, match="its time is over"):
        book.answer(kept.id, "ada", agreed=True)
    stage = Play([say("", call("ocr.ocr_extract")), say("done")], approve=lambda ask: Decided("expired"))
    play.run(loop(), stage, judge=lambda *what: Decision(Action.APPROVE, timeout_s=1))
    assert stage.tools == []
    assert "nobody approved it in time" in stage.models[1].messages[-1].content


# reports


def test_a5_a_planner_whose_failures_lead_to_the_end_is_refused_with_the_way_out() -> None:
    (found,) = rules.of(chain(task("plan", on_failure="end")), "f", None)
    assert (found.code, found.mend) == ("H207", "leave on_failure out")


def test_a17_a_digit_in_a_text_is_no_status_and_a_status_needs_no_text() -> None:
    once = chain(task("c", "chat_completion", execute_config={"retry_policy": {"max_attempts": 3}}))
    digits = Play([fail(ErrorClass.PERMANENT, message="request had 1500 tokens, invalid tool schema")])
    assert play.failure(play.run(once, digits)).code == "permanent"
    typed = Play([ModelFailed(retrying.classified(503, "")), say("ok")])
    assert play.output(play.run(once, typed)) == "ok"


def test_e4_of_two_ways_one_is_gone_and_where_they_meet_is_entered_once() -> None:
    one = chain(
        task("a", "route", way("b", "equals", when="left"), way("c"), print="a"),
        task("b", "noop", way("d"), prompt_template="b"), task("c", "noop", way("d"), prompt_template="c"),
        task("d", "noop"),
    )  # fmt: skip
    for said, path in (("left", ["a", "b", "d"]), ("right", ["a", "c", "d"])):
        done = play.run(one, Play([say(said)]))
        assert play.path(done) == path
        assert sum(done.counters.values()) == 2
        assert play.output(done) == path[1]


def test_e12_an_answer_that_breaks_its_schema_is_not_asked_for_again_but_its_task_is() -> None:
    config = {"retry_policy": {"max_attempts": 5}}
    one = chain(task("c", "chat_completion", ELSE, execute_config=config, retry_on_failure=1))
    stage = Play([fail(ErrorClass.PERMANENT, code="bad_output"), say("ok")])
    done = play.run(one, stage)
    assert (play.output(done), stage.sleeps) == ("ok", [])
    assert [(unit.retry, unit.code) for unit in done.units] == [(0, "bad_output"), (1, "")]


def test_e18_a_variable_and_a_text_that_flows_reach_a_tool_as_data() -> None:
    evil = '"; touch /tmp/p; "'
    one = chain(
        task("a", "noop", way("t"), prompt_template="{{var:name}}"),
        task("t", "tools", tools={"name": "ocr", "args": {"args": "{{var:name}} {{.input}}"}}),
    )
    stage = Play()
    play.run(one, stage, variables={"name": evil})
    assert [ask.arguments for ask in stage.tools] == [{"input": evil, "args": "{{var:name}} {{.input}}"}]


def test_e22_a_window_that_slides_begins_with_no_result_and_keeps_the_question() -> None:
    one = chain(task("c", "chat_completion", execute_config={"shift": True, "max_tokens": 1}), token_limit=30)
    calls = [play.Message("assistant", "x" * 60, calls=(call(ident=f"c{at}"),)) for at in (1, 2)]
    results = [play.Message("tool", "r" * 20, tool_call_id=f"c{at}") for at in (1, 2)]
    told = [
        play.Message("system", "s"),
        play.Message("user", "q"),
        calls[0],
        results[0],
        calls[1],
        results[1],
    ]
    stage = Play([say("ok")])
    assert play.output(play.run(one, stage, asked(*told))) == "ok"
    assert [(m.role, m.tool_call_id) for m in stage.models[0].messages] == [
        ("system", ""), ("user", ""), ("assistant", ""), ("tool", "c2")
    ]  # fmt: skip
    tight = Play()
    small = one.model_copy(update={"token_limit": 10})
    assert play.failure(play.run(small, tight, asked(*told))).code == "capacity"
    assert tight.models == []


def test_e28_a_prompt_at_the_head_of_a_loop_is_told_and_reads_the_task_anew_each_time() -> None:
    whole = loop().model_dump(exclude_defaults=True)
    whole["tasks"][0]["prompt_template"] = "go"
    one = Chain.model_validate(whole)
    assert "H243" in [found.code for found in rules.of(one, "f", None)]
    stage = Play([say("", call()), say("done")])
    play.run(one, stage)
    assert [[m.content for m in ask.messages] for ask in stage.models] == [["go"], ["go"]]


def test_e33_only_a_call_that_needs_it_is_asked_about_and_a_resumed_run_asks_by_the_same_name() -> None:
    def judge(provider: str, tool: str, arguments: Any) -> Decision:
        return Decision(Action.APPROVE if tool == "fs_write_file" else Action.ALLOW)

    turns = [say("thinking", call()), say("", call("fs.fs_write_file", ident="w")), say("done")]
    stage = Play(turns)
    one = play.begin(loop(), judge=judge)
    questions: list[tuple[str, str]] = []
    while one.ask is not None:
        if isinstance(one.ask, AskApproval):
            again = engine.resumed(play.stored(one), Laws(lambda text: len(text) // 4, judge))
            assert again.ask == one.ask
            questions.append((one.ask.id, one.ask.tool))
            one = again
        one.advance(stage.reply(one.ask), stage.now)
    assert [tool for _, tool in questions] == ["fs_write_file"]
    assert questions[0][0].startswith("r/")  # the run's own name, before and after
