"""The format's conformance vectors by number, and public reports of other engines (A and E numbers): what a run
alone shows. ``test_by_number`` has the table of all, with the tests that stand elsewhere.
"""
# ruff: noqa: E501 - small chains are read as one line

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from reconciler.admission import chains as rules
from reconciler.chains import engine, flow, history, labels, toolnames
from reconciler.chains.approvals import Decision
from reconciler.chains.asks import AskApproval, AskTool
from reconciler.chains.flow import Value
from reconciler.chains.history import History, Image, Message
from reconciler.chains.replies import Cancelled, Decided, ModelSaid, TimedOut, ToolFailed, ToolSaid
from reconciler.chains.retrying import ErrorClass
from reconciler.chains.state import Laws, Settings, judge_by
from reconciler.model.approvals import Action, Policy, Rule
from reconciler.model.chain import Chain
from reconciler.model.contract import arguments_fault
from tests.chains import play
from tests.chains.play import Play, call, chain, fail, say

EDGE = "edge_traversed_at_least"
ELSE = {"operator": "default", "goto": "end"}


def way(goto: str, operator: str = "default", **more: str) -> dict[str, str]:
    return {"operator": operator, "goto": goto, **more}


def task(name: str, handler: str = "noop", *ways: dict[str, str], **more: Any) -> dict[str, Any]:
    failed = more.pop("on_failure", "")
    return {
        "id": name,
        "handler": handler,
        "transition": {"branches": list(ways), "on_failure": failed},
        **more,
    }


def loop(**config: Any) -> Chain:
    both = {"tools": ["*"], **config}
    return chain(
        task(
            "chat",
            "chat_completion",
            way("exec", "equals", when="tool_call"),
            way("end"),
            execute_config=both,
        ),
        task("exec", "execute_tool_calls", way("chat"), execute_config={"tools": both["tools"]}),
    )


def asked(*messages: Message) -> Value:
    return Value("chat_history", History(messages))


USER = Message("user", "q")


# transitions: C1 to C6


def test_c1_a_default_that_stands_first_shadows_nothing() -> None:
    done = play.run(chain(task("a", "noop", way("b"), way("end", "equals", when="noop")), task("b")))
    assert play.path(done) == ["a"]


def test_c2_words_are_compared_exactly_and_no_match_ends_the_run() -> None:
    failed = play.failure(
        play.run(chain(task("a", "noop", way("end", "equals", when="noop "), on_failure="b"), task("b")))
    )
    assert failed.code == "no_transition"  # E10: nothing further runs


def test_c3_a_task_without_branches_ends_the_run() -> None:
    assert play.output(play.run(chain(task("a")))) == "hello"


def test_c4_a_budget_counts_its_edge() -> None:
    done = play.run(
        chain(
            task("a", "noop", way("end", EDGE, when="3", edge="a->b"), way("b")), task("b", "noop", way("a"))
        )
    )
    assert play.path(done) == ["a", "b"] * 3 + ["a"]
    assert done.counters == {"a->b": 3, "b->a": 3}


def test_c5_a_budget_of_nothing_is_spent_at_once() -> None:
    done = play.run(chain(task("a", "noop", way("b", EDGE, when="0", edge="a->b"), way("end")), task("b")))
    assert play.path(done) == ["a", "b"]


def test_c6_an_edge_to_the_end_is_never_counted() -> None:
    one = chain(task("x", "noop", way("end", EDGE, when="1", edge="x->end"), way("y")), task("y"))
    assert play.path(play.run(one)) == ["x", "y"]


# failures: C7 to C12


def test_c7_a_failure_takes_its_edge_and_leaves_its_words() -> None:
    one = chain(
        task("f", "raise_error", on_failure="h"),
        task("h", "noop", print="{{.last_error}}|{{.f_error}}|{{.f}}"),
    )
    done = play.run(one, value="boom")
    assert play.output(done) == "boom"
    assert done.counters == {"f->h": 1}
    assert [one.more["content"] for one in done.events if one.kind == "print"] == ["boom|boom|boom"]


def test_c8_raise_error_takes_no_json() -> None:
    assert (
        play.failure(play.run(chain(task("f", "raise_error")), value=Value("json", {}))).code == "input_type"
    )


def test_c9_and_e7_a_task_is_tried_again_with_the_same_input_until_it_succeeds() -> None:
    one = chain(task("c", "chat_completion", ELSE, retry_on_failure=2, on_failure="h"), task("h"))
    stage = Play([fail(), fail(), say("ok")])
    done = play.run(one, stage)
    assert play.output(done) == "ok"
    assert [event.retry for event in done.events if event.kind == "step_started"] == [0, 1, 2]
    assert len({one.messages[-1].content for one in stage.models}) == 1
    assert done.counters == {}


def test_c10_an_attempt_that_is_late_is_tried_again_with_a_fresh_timeout() -> None:
    one = chain(task("t", "tools", tools={"name": "ocr"}, timeout="10ms", retry_on_failure=1))
    answers = iter([TimedOut(), ToolSaid(flow.text("ok"))])
    stage = Play(tool=lambda ask: next(answers))
    done = play.run(one, stage)
    assert play.output(done) == "ok"
    assert [(unit.timed_out, unit.code) for unit in done.units] == [(True, "timeout"), (False, "")]
    first, second = (one.deadline for one in stage.tools)
    assert first is not None and second is not None and second > first


def test_c12_a_variable_that_nothing_set_ends_the_run() -> None:
    one = chain(task("a", input_var="b", on_failure="b"), task("b"))
    assert play.failure(play.run(one)).code == "missing_variable"


def test_the_last_words_of_a_failed_recovery_begin_with_the_root() -> None:
    one = chain(task("f", "raise_error", on_failure="g"), task("g", "raise_error", input_var="last_error"))
    failed = play.failure(play.run(one, value="boom"))
    assert failed.task == "g"
    assert failed.message.count("boom") == 2


def test_e15_the_cause_is_told_with_its_class() -> None:
    failed = play.failure(
        play.run(chain(task("c", "chat_completion")), Play([fail(ErrorClass.AUTH, message="no key")]))
    )
    assert (failed.code, failed.message) == ("auth", "c failed: no key")


# texts: C13 to C15, C38 to C46


def test_c13_a_prompt_template_replaces_the_conversation() -> None:
    stage = Play([say("x")])
    play.run(
        chain(task("c", "chat_completion", prompt_template="P {{len .input.Messages}}")),
        stage,
        asked(USER, USER),
    )
    assert [one.content for one in stage.models[0].messages] == ["P 2"]


def test_c14_and_c15_what_is_not_set_prints_as_no_value() -> None:
    done = play.run(chain(task("a", print="{{.a}} {{.previous_output}}")))
    assert [one.more["content"] for one in done.events if one.kind == "print"] == ["<no value> <no value>"]


def test_c38_a_missing_variable_is_told_before_anything_happens() -> None:
    done = play.run(chain(task("c", "chat_completion", system_instruction="{{var:nope}}")))
    assert (play.failure(done).code, done.events) == ("missing_variable", ())
    assert play.output(play.run(chain(task("a", prompt_template="[{{var:nope|}}]")))) == "[]"


def test_c39_and_c40_names_have_twins_and_unknown_macros_stay() -> None:
    one = chain(task("c", "chat_completion", system_instruction="{{var:a-b}} {{nope:x}}"))
    stage = Play([say("x")])
    play.run(one, stage, variables={"a_b": "v"})
    assert stage.models[0].messages[0].content == "v {{nope:x}}"


def test_c41_e3_and_a10_counters_are_those_of_the_step_and_stand_once() -> None:
    chat = task("chat", "chat_completion", way("end", EDGE, when="3", edge="chat->exec"), way("exec", "equals", when="tool_call"), way("end"),
                system_instruction="used {{edge_count:chat->exec}} of 3", execute_config={"tools": ["*"]})  # fmt: skip
    stage = Play(lambda ask: say("", call()))
    play.run(chain(chat, task("exec", "execute_tool_calls", way("chat"))), stage)
    told = [[one.content for one in ask.messages if one.role == "system"] for ask in stage.models]
    assert told == [[f"used {count} of 3"] for count in range(4)]


def test_c42_a_bound_of_tokens_is_a_count_or_a_macro_for_one() -> None:
    def most(written: Any, **variables: str) -> Any:
        stage = Play([say("x")])
        done = play.run(
            chain(task("c", "chat_completion", execute_config={"max_tokens": written})),
            stage,
            variables=variables,
        )
        return stage.models[0].max_tokens if stage.models else play.failure(done).code

    assert most("{{var:max_tokens|16384}}") == 16384
    assert most("{{var:n}}", n="abc") == "bad_max_tokens"
    assert most("{{var:n}}", n="-1") == "bad_max_tokens"
    assert most("") == 0
    with pytest.raises(ValueError, match="max_tokens"):
        chain(task("c", "chat_completion", execute_config={"max_tokens": "-1"}))


def test_c43_and_a16_a_variable_is_data_in_a_template() -> None:
    one = chain(task("a", prompt_template="Say {{var:name}} {{.input}}"))
    done = play.run(
        one, value='{{ upper "y" }} {{var:model}} {{edge_count:a->b}}', variables={"name": '{{ upper "x" }}'}
    )
    assert (
        play.output(done) == 'Say {{ upper "x" }} {{ upper "y" }} {{var:model}} {{edge_count:a->b}}'
    )  # E16, too


def test_c44_and_c45_the_text_of_a_result_is_the_word() -> None:
    def result(template: str, value: Value) -> Any:
        one = task(
            "t",
            "tools",
            way("b", "equals", when="7"),
            way("end"),
            tools={"name": "ocr"},
            output_template=template,
            on_failure="f",
        )
        return play.path(play.run(chain(one, task("b"), task("f")), Play(tool=lambda ask: ToolSaid(value))))

    assert result("{{.exit_code}}", Value("json", {"exit_code": 7})) == ["t", "b"]
    assert result("{{.exit_code}}", Value("json", {"exit_code": 8})) == ["t"]
    assert result("{{.exit_code}}", flow.text("7")) == ["t", "f"]


def test_c46_and_b11_pictures_need_a_model_that_sees() -> None:
    picture = asked(Message("user", "what", images=(Image("aGk=", "image/png"),)))
    for handler, ways in (("chat_completion", [ELSE]), ("route", [way("end", "equals", when="a"), ELSE])):
        stage = Play([fail(code="no_vision_model")])
        failed = play.failure(play.run(chain(task("c", handler, *ways)), stage, picture))
        assert (failed.code, stage.models[0].needs_vision) == ("no_vision_model", True)


# route: C16 to C18


@pytest.mark.parametrize(
    ("answer", "options", "label"),
    [
        ("CODE_TASK ", ["code_task", "question"], "code_task"),  # C16
        ("none of these", ["code_task"], None),  # C17
        ("unsafe.", ["safe", "unsafe"], "unsafe"),  # C18, A8 and the following
        ("unsafe", ["safe", "unsafe"], "unsafe"),
        ("SAFE", ["safe", "unsafe"], "safe"),
        ("not safe", ["safe", "unsafe"], None),
        ("it isn't really safe", ["safe", "unsafe"], None),
        ("safe or unsafe?", ["safe", "unsafe"], None),
        ("I would say: code review!", ["code", "code review"], "code review"),
        ("'safe'", ["safe", "unsafe"], "safe"),
        ("", ["a"], None),
    ],
)
def test_c16_to_c18_a_label_is_a_whole_word(answer: str, options: list[str], label: str | None) -> None:
    assert labels.chosen(answer, options) == label


def test_a14_a_route_changes_nothing() -> None:
    told = [Message("user", f"m{number}") for number in range(12)]
    one = chain(
        task("r", "route", way("b", "equals", when="a"), way("b"), execute_config={"shift": True}, prompt_template=""),
        task("b"), token_limit=60,
    )  # fmt: skip
    done = play.run(one, Play([say("a")]), asked(*told))
    assert isinstance(done.outcome, play.Finished)
    assert len(done.outcome.value.data.messages) == 12
    kept = play.run(
        chain(task("r", "route", way("end", "equals", when="a"), way("end"), prompt_template="pick")),
        Play([say("a")]),
    )
    assert play.output(kept) == "hello"


def test_e6_a_route_whose_model_fails_takes_its_edge_with_the_input() -> None:
    one = chain(task("r", "route", way("end", "equals", when="a"), on_failure="g"), task("g"))
    assert play.output(play.run(one, Play([fail(ErrorClass.PERMANENT)]))) == "hello"


# chat and tools: C19 to C31


def test_c19_and_c20_the_word_says_whether_tools_are_asked_for() -> None:
    words = [
        play.run(chain(task("c", "chat_completion")), Play([one])).units[0].transition
        for one in (say(""), say("text", call()))
    ]
    assert words == ["executed", "tool_call"]


def test_c21_nothing_to_call_is_told_apart() -> None:
    one = chain(task("x", "execute_tool_calls"))
    assert play.run(one, value=asked()).units[0].transition == "noop"
    assert play.run(one, value=asked(Message("assistant", "hi"))).units[0].transition == "no_calls_found"
    done = play.run(one, value=asked(Message("assistant", calls=(call("nope.x"),))))
    assert done.units[0].transition == "no_calls_found"
    assert "there is no tool" in play.output(done)


def test_c22_c23_and_e21_bad_arguments_are_answered_and_stored_as_an_object() -> None:
    calls = (call(arguments="{bad", ident="c1"), call(arguments="", ident="c2"))
    stage = Play([say("", *calls), say("done")])
    done = play.run(loop(), stage)
    assert [one.arguments for one in stage.tools] == [{}]
    messages = stage.models[1].messages
    assert [one.tool_call_id for one in messages if one.role == "tool"] == ["c1", "c2"]
    assert [one.arguments for one in messages[1].calls] == ["{}", ""]
    assert play.output(done) == "done"


def test_c24_no_list_restricts_nothing_and_an_empty_one_everything() -> None:
    def ran(config: dict[str, Any] | None) -> list[AskTool]:
        other = task("o", "chat_completion", execute_config={"tools": ["fs"]})
        stage = Play()
        play.run(
            chain(task("x", "execute_tool_calls", execute_config=config), other),
            stage,
            asked(Message("assistant", calls=(call(),))),
        )
        return stage.tools

    assert len(ran(None)) == 1
    assert ran({"tools": []}) == []


def test_c27_and_a1_a_call_that_dangles_is_answered_once_and_the_model_asked_once() -> None:
    def recover(**config: Any) -> Play:
        stage = Play([say("ok")])
        one = chain(
            task("r", "chat_completion", system_instruction="wrap up", execute_config=config),
            task("o", "chat_completion", execute_config={"tools": ["fs"]}),
        )
        play.run(one, stage, asked(USER, Message("assistant", calls=(call(),))))
        return stage

    refused, allowed = recover(tools=[]), recover(tools=["fs"])
    assert (len(refused.tools), len(allowed.tools)) == (0, 1)
    for stage in (refused, allowed):
        assert [one.role for one in stage.models[0].messages] == ["system", "user", "assistant", "tool"]
        assert stage.models[0].messages[0].content == "wrap up"
        assert len(stage.models) == 1
    assert "not allowed" in refused.models[0].messages[-1].content


def test_c28_the_same_system_text_stands_once() -> None:
    stage = Play([say("x")])
    play.run(
        chain(task("c", "chat_completion", system_instruction="S")),
        stage,
        asked(Message("system", "S"), USER),
    )
    assert [one.content for one in stage.models[0].messages] == ["S", "q"]


def test_c29_and_a2_pairs_are_mended_before_a_model_reads_them() -> None:
    broken = asked(USER, Message("assistant", calls=(call(ident="c1"), call(ident="c2"))), Message("tool", "r", tool_call_id="c1"),
                   Message("tool", "again", tool_call_id="c1"), Message("tool", "?", tool_call_id="c9"), Message("user", "go on"))  # fmt: skip
    stage = Play([say("x")])
    play.run(chain(task("c", "chat_completion")), stage, broken)
    assert [(one.role, one.tool_call_id) for one in stage.models[0].messages] == [
        ("user", ""), ("assistant", ""), ("tool", "c1"), ("tool", "c2"), ("user", "")
    ]  # fmt: skip


def test_c31_a_request_that_does_not_fit_is_no_request() -> None:
    stage = Play([])
    failed = play.failure(play.run(chain(task("c", "chat_completion"), token_limit=3), stage, "x" * 400))
    assert (failed.code, stage.models) == ("capacity", [])


def test_a7_the_strictest_of_two_policies_holds() -> None:
    one = chain(
        task("chat", "chat_completion", way("exec", "equals", when="tool_call"), way("end"),
             execute_config={"tools": ["local_fs"], "tools_policies": {"local_fs": {"_max_read_bytes": "10"}}}),
        task("exec", "execute_tool_calls", way("chat"), execute_config={"tools_policies": {"fs": {"_max_read_bytes": "99"}}}),
    )  # fmt: skip
    stage = Play([say("", call("local_fs.read_file")), say("done")])
    play.run(one, stage)
    assert [(one.provider, one.tool, one.policies) for one in stage.tools] == [
        ("fs", "fs_read_file", {"_max_read_bytes": "10"})
    ]


def test_a11_a_spent_budget_diverts_a_finished_answer() -> None:
    one = chain(
        task("chat", "chat_completion", way("sum", EDGE, when="2", edge="chat->exec"), way("exec", "equals", when="tool_call"), way("end"), execute_config={"tools": ["*"]}),
        task("exec", "execute_tool_calls", way("chat")), task("sum"),
    )  # fmt: skip
    assert play.path(play.run(one, Play([say("", call()), say("", call()), say("done")])))[-1] == "sum"
    assert "H241" in [one.code for one in rules.of(one, "f", None)]


def test_b1_without_a_limit_a_result_still_has_room() -> None:
    stage = Play([say("", call()), say("done")], tool=lambda ask: ToolSaid(flow.text("x" * 300_000)))
    play.run(loop(), stage)
    content = stage.models[1].messages[-1].content
    assert "tool_result_too_large" in content
    assert '"original_bytes":300000' in content
    assert stage.tools[0].max_bytes == 262_144


def test_tools_are_offered_in_the_order_of_their_names_without_hidden_ones() -> None:
    stage = Play([say("x")], faces=tuple(reversed(play.FACES)))
    play.run(loop(hide_tools=["fs_write_file"]), stage)
    assert [one.full_name for one in stage.models[0].tools] == ["fs.fs_read_file", "ocr.ocr_extract"]


def test_c53_a_model_without_its_tools_is_told_so() -> None:
    stage = Play([say("x")], faces=(), unreachable=("ocr",))
    assert play.output(play.run(loop(), stage)) == "x"
    assert stage.models[0].messages[0].content.startswith("No tools are available")


# approvals: C48, A-series


def test_c48_a_denied_call_is_not_made_and_its_model_reads_why() -> None:
    stage = Play([say("", call()), say("done")])
    play.run(loop(), stage, judge=lambda *what: Decision(Action.DENY, 0))
    assert stage.tools == []
    assert "denied by policy" in stage.models[1].messages[-1].content


def test_e24_and_e25_verdicts_belong_to_their_calls() -> None:
    calls = (call(ident="c1"), call("ocr.ocr_extract", ident="c2"))
    stage = Play(
        [say("", *calls), say("done")],
        approve=lambda ask: Decided("denied" if ask.call.id == "c2" else "approved"),
    )
    play.run(loop(), stage, judge=lambda *what: Decision(Action.APPROVE))
    results = {one.tool_call_id: one.content for one in stage.models[1].messages if one.role == "tool"}
    assert results["c1"] == "data"
    assert "a person denied it" in results["c2"]
    assert [one.call for one in stage.tools] == ["c1"]


def test_b13_and_e9_a_denial_or_an_error_of_a_task_s_own_call_fails_it() -> None:
    one = chain(task("t", "tools", way("no"), tools={"name": "ocr"}, on_failure="f"), task("no"), task("f"))
    denied = play.run(one, judge=lambda *what: Decision(Action.DENY))
    broken = play.run(one, Play(tool=lambda ask: ToolFailed("too_large", "the file is too large")))
    for done, code in ((denied, "approval_denied"), (broken, "too_large")):
        assert (play.path(done), done.units[0].code) == (["t", "f"], code)


def test_arguments_that_flowed_in_and_do_not_fit_are_said_to_have_flowed_in() -> None:
    one = chain(task("t", "tools", tools={"name": "ocr"}))
    refuses = Play(tool=lambda ask: ToolFailed("invalid_input", "status is not a field of this tool"))
    for value, told in ((Value("json", {"status": 200}), True), (flow.text("x"), False)):
        run = refuses.through(play.begin(one, value))
        assert isinstance(run.outcome, play.Failed)
        assert ("a prompt_template makes a text of it" in run.outcome.message) is told


def test_nobody_is_asked_about_a_call_that_could_not_be_made() -> None:
    schema = {"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}}}
    face = replace(play.FACES[1], input_schema=schema)
    calls = (call("fs.fs_write_file", "{}", "c1"), call("fs.fs_write_file", '{"path": "x"}', "c2"))
    stage = Play([say("", *calls), say("done")], faces=(face,))
    laws = Laws(len, lambda *what: Decision(Action.APPROVE), fault=arguments_fault)
    done = stage.through(engine.begin(loop(), flow.text("x"), Settings("r", play.NOW, play.VARS), laws))
    assert [one.call.id for one in stage.asked if isinstance(one, AskApproval)] == ["c2"]
    assert "invalid_input: path is missing" in stage.models[1].messages[-2].content
    assert [one.more["verdict"] for one in done.events if one.kind == "approval_answered"] == ["approved"]


def test_b12_static_arguments_are_judged() -> None:
    seen: list[Any] = []
    one = chain(task("t", "tools", tools={"name": "ocr", "args": {"path": "x"}}))
    play.run(one, judge=lambda *what: seen.append(what) or Decision(Action.ALLOW))
    assert seen == [("ocr", "ocr_extract", {"input": "hello", "path": "x"})]


# effects


def test_a19_an_effect_whose_outcome_is_not_known_is_never_repeated() -> None:
    one = chain(
        task("x", "execute_tool_calls", retry_on_failure=3),
        task("o", "chat_completion", execute_config={"tools": ["fs"]}),
    )
    calls = (call("fs.fs_read_file", ident="c1"), call("fs.fs_write_file", ident="c2"))
    seen: list[str] = []

    def tool(ask: AskTool) -> Any:
        seen.append(ask.call)
        return TimedOut() if ask.call == "c2" else ToolSaid(flow.text("ok"))

    done = play.run(one, Play(tool=tool), asked(Message("assistant", calls=calls)))
    assert seen == ["c1", "c2"]
    assert "outcome_unknown" in play.output(done)


def test_an_unknown_outcome_of_a_task_s_own_call_is_no_reason_to_try_again() -> None:
    one = chain(task("t", "tools", tools={"name": "fs", "tool_name": "write_file"}, retry_on_failure=3))
    stage = Play(tool=lambda ask: ToolFailed("outcome_unknown", "it may have happened"))
    assert play.failure(play.run(one, stage)).code == "outcome_unknown"
    assert len(stage.tools) == 1


# models: C32 to C36


def policy(**more: Any) -> Chain:
    return chain(task("c", "chat_completion", execute_config={"model": "p", "retry_policy": more}))


def test_c32_a_rate_limit_is_waited_for() -> None:
    stage = Play([fail(ErrorClass.RATE_LIMIT), say("ok")])
    begun = play.run(policy(max_attempts=2, rate_limit_min_wait="30s"), stage)
    assert play.output(begun) == "ok"
    assert stage.sleeps[0].until - play.NOW >= timedelta(seconds=30)


@pytest.mark.parametrize(
    ("most", "after", "models"),
    [(3, 2, ["p", "p", "f"]), (2, 2, ["p", "p"]), (3, 1, ["p", "f", "f"])],  # C33, C34, E13
)
def test_c33_and_c34_the_fallback_comes_after_so_many_failures(
    most: int, after: int, models: list[str]
) -> None:
    stage = Play(lambda ask: fail(ErrorClass.RATE_LIMIT))
    play.run(policy(max_attempts=most, fallback_model_id="f", fallback_after=after), stage)
    assert [one.candidates[0].model for one in stage.models] == models
    assert len(stage.sleeps) == most - 1


@pytest.mark.parametrize("error", [ErrorClass.AUTH, ErrorClass.CAPACITY, ErrorClass.PERMANENT])
def test_c35_and_c36_what_no_wait_mends_is_asked_once(error: ErrorClass) -> None:
    stage = Play([fail(error)])
    assert (
        play.failure(play.run(policy(max_attempts=5, fallback_model_id="f", fallback_after=1), stage)).code
        == error.value
    )
    assert len(stage.models) == 1


def test_a_provider_that_refuses_tools_is_asked_once_more_without() -> None:
    stage = Play([fail(cannot_take_tools=True), say("ok")])
    assert play.output(play.run(loop(), stage)) == "ok"
    assert [len(one.tools) for one in stage.models] == [3, 0]


def test_b26_models_are_tried_in_their_order_and_pair_with_as_many_providers() -> None:
    def pairs(**config: Any) -> list[tuple[str, str]]:
        stage = Play([say("x")])
        play.run(chain(task("c", "chat_completion", execute_config=config)), stage)
        return [(one.model, one.provider) for one in stage.models[0].candidates]

    assert pairs(models=["a", "b"], providers=["x", "y"]) == [("a", "x"), ("b", "y")]
    assert pairs(model="a", models=["b"], provider="x") == [("a", "x"), ("b", "x")]
    assert pairs() == [("", "")]


# events and resuming: C54, C52 as far as the engine goes


def test_c54_what_is_told_comes_in_order() -> None:
    one = chain(task("c", "chat_completion", ELSE, retry_on_failure=1, print="p"))
    done = play.run(one, Play([fail(), say("x")]))
    kinds = [event.kind for event in done.events if event.kind not in ("token_usage", "model_call")]
    assert kinds == [
        "chain_started",
        "step_started",
        "step_failed",
        "step_started",
        "step_completed",
        "print",
        "chain_completed",
    ]
    assert [event.number for event in done.events] == list(range(len(done.events)))


def test_a_run_that_is_put_away_at_any_ask_goes_on_as_it_would_have() -> None:
    def model(ask: Any) -> ModelSaid:
        used = sum(one.role == "tool" for one in ask.messages)
        return (
            say("", call(ident=f"c{used}"), call("fs.fs_write_file", ident=f"w{used}"))
            if used < 6
            else say("done")
        )

    def judge(provider: str, tool: str, arguments: Any) -> Decision:
        return Decision(Action.APPROVE if tool == "fs_write_file" else Action.ALLOW)

    whole = play.run(loop(), Play(model), judge=judge)
    stage = Play(model)
    one = play.begin(loop(), judge=judge)
    while one.ask is not None:
        again = engine.resumed(play.stored(one), Laws(lambda text: len(text) // 4, judge))
        assert again.ask == one.ask
        one = again
        one.advance(stage.reply(one.ask), stage.now)
    assert (one.outcome, one.events, one.counters) == (whole.outcome, whole.events, whole.counters)
    assert [ask.call for ask in stage.tools] == ["c0", "w0", "c2", "w2", "c4", "w4"]  # each once


def test_a_run_of_another_engine_or_chain_is_not_resumed() -> None:
    done = play.stored(play.run(loop(), Play([say("x")])))
    laws = Laws(len)
    with pytest.raises(ValueError, match="another version"):
        engine.resumed({**done, "version": 0}, laws)
    with pytest.raises(ValueError, match="do not fit"):
        engine.resumed({**done, "answers": [{**done["answers"][0], "ask": "r/9"}]}, laws)


def test_a_cancelled_run_ends_at_once() -> None:
    one = play.begin(chain(task("c", "chat_completion", on_failure="h"), task("h")))
    one.advance(Cancelled(), play.NOW)
    assert play.failure(one).code == "cancelled"
    assert one.units[0].cancelled


# names


def test_e30_names_for_providers_without_dots_are_apart() -> None:
    found = toolnames.aliases(["a.b_c", "a_b.c", "x" * 70, "x" * 71])
    assert len(set(found.values())) == 4
    assert all(len(one) <= 64 and "." not in one for one in found.values())


def test_values_and_histories_are_stored_exactly() -> None:
    told = History(
        (Message("assistant", "a", images=(Image("aGk=", "image/png"),), calls=(call(),), thinking="t"),),
        "m",
        3,
        4,
    )
    assert history.from_json(history.to_json(told)) == told
    for value in (
        Value("chat_history", told),
        Value("json", {"a": [1, 2.5, None]}),
        flow.text("x"),
        Value("int", 3),
        flow.NIL,
    ):
        assert flow.from_json(flow.to_json(value)) == value


@pytest.mark.parametrize(
    ("provider", "tool"),
    [
        ("local_fs", "write_file"),
        ("fs", "fs_write_file"),
        ("fs", "write_file"),
        ("local_fs", ""),
        ("", "fs_write_file"),
        ("", "write_file"),
    ],
)
def test_a_policy_that_knows_a_tool_by_another_name_holds_of_it(provider: str, tool: str) -> None:
    judge = judge_by(Policy((Rule("ocr", "", Action.ALLOW), Rule(provider, tool, Action.DENY)), Action.ALLOW))
    assert judge("fs", "fs_write_file", {}) == Decision(Action.DENY, 1)
    assert judge("ocr", "ocr_extract", {}).action is Action.ALLOW
    stage = Play([say("", call("local_fs.write_file"), call("fs.fs_write_file", ident="d")), say("done")])
    play.run(loop(), stage, judge=judge)
    assert stage.tools == []
