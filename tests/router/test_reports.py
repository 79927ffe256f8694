"""Faults of comparable systems, as they were reported or found by a look at what may go wrong: which test
holds us to the right behaviour. What has no test elsewhere is tested here.
"""

import importlib
import json
from collections.abc import Callable

import orjson
import pytest

from reconciler.drivers import upstream
from reconciler.model.calls import Refusal, Result
from reconciler.router import answers, mcp
from reconciler.router.call import Answer, Refused, judged
from reconciler.wire.jsonrpc import Response
from tests.router import stage
from tests.router.stage import FakeLane
from tests.router.test_server import run, stage_set, text_of

SERVER = "tests.router.test_server"
BOUNDS = "tests.router.test_bounds"
ABUSE = "tests.router.test_abuse"
CALL = "tests.router.test_call"
DISPATCH = "tests.control.test_dispatch"
HOSTILE = "tests.flows.test_hostile"
BRIDGE = "tests.doors.test_bridge"
HERE = "tests.router.test_reports"
ROWS = (ABUSE, "test_a_bad_line_is_answered_as_it_should_and_nothing_else_is")

# what went wrong, or may; the module and the name of the test
HELD: tuple[tuple[str, str, str], ...] = (
    # reported of comparable systems
    ("a socket that a killed process left stops the next start", SERVER,
     "test_a_dead_socket_is_replaced_and_anything_else_is_left_alone"),
    ("the caller gave up and the work behind blocks the queue", SERVER,
     "test_a_call_above_the_limit_waits_and_the_next_of_its_kind_is_not_starved"),
    ("the caller gave up and the connector does not react", DISPATCH,
     "test_a_connector_that_is_silent_after_a_cancel_is_broken"),
    ("a cancel is never told to the server", SERVER, "test_a_hundred_cancels_all_reach_the_connector"),
    ("a late answer is taken for another call's", DISPATCH,
     "test_a_cancelled_call_is_told_to_the_connector_and_its_late_answer_dropped_and_counted"),
    ("U+2028 in an answer cuts it in two", HERE,
     "test_line_ends_of_other_alphabets_pass_from_a_connector_to_the_agent"),
    ("a string id comes back as a number", *ROWS),
    ("a cancel of 007 hits 7", SERVER,
     "test_a_cancel_stops_exactly_that_call_and_nothing_more_is_sent_for_it"),
    ("a banner on standard output", BRIDGE, "test_python_variables_change_nothing_that_the_agent_reads"),
    ("structured content of an error is held against the schema", HERE,
     "test_an_error_with_structured_content_is_the_error_that_it_names"),
    ("one tool with a sloppy schema takes the healthy ones along", HERE,
     "test_a_tool_that_breaks_its_contract_leaves_the_others_alone"),
    ("a very large answer is passed on whole", DISPATCH,
     "test_an_overlong_answer_ends_its_own_call_and_no_other"),
    # sockets and load
    ("a backlog that is full", BRIDGE, "test_when_nobody_answers_for_two_seconds_one_sentence_says_so"),
    ("a reader that is slow or stopped", BOUNDS,
     "test_an_agent_that_does_not_read_is_asked_nothing_more_and_the_others_are_served"),
    ("a reader that is slow, and catches up", BOUNDS, "test_an_agent_that_reads_again_gets_every_answer"),
    ("no descriptors left", BOUNDS,
     "test_when_descriptors_run_out_new_connections_are_shed_and_the_others_are_served"),
    ("a stale socket, a file in its place", SERVER,
     "test_what_is_no_socket_stays_and_the_door_is_tried_again"),
    ("a path above 107 bytes", SERVER,
     "test_a_socket_path_that_is_too_long_is_refused_before_anything_listens"),
    ("another user connects", SERVER, "test_another_user_is_not_served"),
    ("a thousand idle clients", SERVER, "test_a_door_takes_only_so_many_connections"),
    ("a storm of calls", BOUNDS, "test_a_storm_of_calls_is_limited_for_its_agent_alone"),
    ("many calls of one agent before one of another", DISPATCH,
     "test_one_agent_s_waiting_calls_do_not_starve_another_s"),
    ("many bytes of calls that wait", BOUNDS,
     "test_one_agent_s_waiting_calls_are_bounded_in_number_and_in_bytes"),
    ("many bytes of lines that do not end", SERVER, "test_unfinished_lines_do_not_fill_the_memory"),
    # files, as far as the protocol meets them
    ("paths that lead out", "tests.router.test_files", "test_what_is_not_a_plain_file_inside_is_refused"),
    ("links that are swapped meanwhile", "tests.router.test_files",
     "test_no_swap_of_folders_and_links_leads_out"),
    ("a hard link to a foreign file", "tests.router.test_files",
     "test_a_hard_link_to_somebody_else_s_file_is_refused"),
    ("a file that grows while it is read", "tests.router.test_files",
     "test_a_file_that_grows_meanwhile_stops_at_the_limit"),
    ("an output over a file that is there", "tests.router.test_files",
     "test_an_output_is_a_new_plain_file_in_a_folder_that_is_there"),
    ("missing and forbidden read differently", SERVER, "test_missing_and_forbidden_read_the_same"),
    # the protocol
    ("batches, answers from the agent, notes with ids, unknown and huge methods", *ROWS),
    ("all of it in one conversation, cut anywhere", ABUSE,
     "test_a_conversation_of_bad_lines_is_answered_the_same_however_it_is_cut"),
    ("whatever else one may think of", "tests.router.test_fuzz",
     "test_a_hundred_thousand_lines_are_answered_as_the_rules_say"),
    ("ids that are in use", ABUSE, "test_an_id_that_is_in_use_is_never_answered_for_another_request"),
    ("calls, cancels and answers in any order", "tests.router.test_interleaving",
     "test_each_request_has_its_own_answer_once_or_none_whatever_happens_meanwhile"),
    ("numbers, keys and nesting that readers differ on", "tests.wire.test_jsonrpc",
     "test_what_is_no_message_is_refused_by_code_and_id"),
    ("half a line at the end", ABUSE, "test_half_a_line_at_the_end_is_not_done"),
    ("a call before initialize, a second initialize", SERVER,
     "test_calls_before_initialize_are_served_and_a_second_initialize_is_answered"),
    ("a call given up at any moment", "tests.router.test_cancelling",
     "test_a_call_that_is_given_up_is_never_heard_of_again"),
    ("a call given up while its files are copied", "tests.router.test_cancelling",
     "test_a_call_may_be_given_up_while_its_files_are_handed_over"),
    ("a connector reports without end", "tests.router.test_cancelling",
     "test_progress_is_told_so_often_and_no_oftener_and_still_grows_afterwards"),
    ("a token of the agent reaches a connector", HERE, "test_nothing_but_arguments_reaches_a_connector"),
    ("schemas that fetch, loop or blow up", "tests.model.test_contract",
     "test_no_reference_is_ever_fetched_by_the_engine_or_by_admission"),
    ("patterns that take for ever", "tests.model.test_contract",
     "test_patterns_run_on_the_linear_engine_alone"),
    ("descriptions with characters nobody sees", "tests.admission.test_interfaces",
     "test_what_no_one_sees_is_found_where_it_stands"),
    ("a connector's words in an answer", SERVER, "test_a_connector_s_words_never_reach_the_agent"),
    ("all of it against a real sandbox", HOSTILE, "test_whatever_a_connector_does_holds_nobody_up"),
    ("all of it through the bridge", "tests.flows.test_protocol",
     "test_bad_lines_through_the_bridge_are_answered_as_they_should"),
)  # fmt: skip


@pytest.mark.parametrize(("module", "test"), [row[1:] for row in HELD], ids=[row[0] for row in HELD])
def test_each_fault_has_its_test(module: str, test: str) -> None:
    found: Callable[..., None] = getattr(importlib.import_module(module), test)
    assert callable(found)


def test_line_ends_of_other_alphabets_pass_from_a_connector_to_the_agent() -> None:
    text = "before\u2028after\u2029end\u0085x\x0b\x0c\x1c"
    result = {"structuredContent": {"text": text}, "content": []}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}, ensure_ascii=False).encode() + b"\n"
    assert "\u2028".encode() in line  # raw, not escaped
    heard = upstream.read(line)
    assert isinstance(heard, Response)
    made = stage.echo()
    outcome = judged(made, made.tools["echo_say"], upstream.reply(heard))
    assert isinstance(outcome, Answer)
    face = mcp.Face("echo", "1", [stage.route(made)])
    told = answers.success(mcp.Call(1, face.offers["echo_say"], {}, modern=False), outcome.structured)
    assert told.count(b"\n") == 1
    assert orjson.loads(told)["result"]["structuredContent"] == {"text": text}


def test_an_error_with_structured_content_is_the_error_that_it_names() -> None:
    body = {"error": "too_large", "message": "the vendor says: 413"}
    text = {"type": "text", "text": orjson.dumps(body).decode()}
    made = stage.ocr()
    for code, seen in (("too_large", "too_large"), ("HTTP_413", "unavailable")):
        text["text"] = orjson.dumps(body | {"error": code}).decode()
        result = {"isError": True, "structuredContent": body, "content": [text]}
        outcome = judged(made, made.tools["ocr_extract"], upstream.reply(Response(1, result)))
        assert isinstance(outcome, Refused)
        assert outcome.code == seen


def test_a_tool_that_breaks_its_contract_leaves_the_others_alone() -> None:
    def sloppy(call: stage.Sent) -> None:
        good = dict(call.arguments)
        call.sink.done(Result(good | {"vendor": 1} if call.tool == "echo_say" else good, {}))

    async def test() -> None:
        async with stage_set(FakeLane(sloppy)) as play, play.agent() as agent:
            for ident in range(50):
                agent.call(ident, "echo_say", text="x")
                assert text_of(await agent.message()) == "unavailable"
                agent.call(ident, "echo_add", n=ident)
                assert (await agent.message())["result"]["structuredContent"] == {"n": ident}
            codes = [(one.tool, one.code) for one in await play.recorded(100)]
            assert set(codes) == {("echo_say", "unavailable"), ("echo_add", "ok")}

    run(test)


def test_nothing_but_arguments_reaches_a_connector() -> None:
    async def test() -> None:
        lane = FakeLane(stage.echoing)
        async with stage_set(lane) as play, play.agent() as agent:
            meta = {"progressToken": "CANARY-1", "evil.example/token": "CANARY-2"}
            params = {"name": "echo_say", "arguments": {"text": "x"}, "_meta": meta, "token": "CANARY-3"}
            agent.send({"jsonrpc": "2.0", "id": "CANARY-4", "method": "tools/call", "params": params})
            assert (await agent.message())["id"] == "CANARY-4"
            (sent,) = lane.sent
            line = upstream.call(sent.number, sent.tool, sent.arguments, progress=sent.sink.wants_progress)
            assert b"CANARY" not in line
            assert b"CANARY" not in orjson.dumps(upstream.call(1, "t", {}, progress=True).decode())

    run(test)


def test_a_refusal_names_no_word_of_a_connector() -> None:
    made = stage.echo()
    outcome = judged(made, made.tools["echo_say"], Refusal("CANARY", "CANARY"))
    diagnostic = "answered the error 'CANARY', which echo/v1 does not list: CANARY"  # the operator's alone
    assert outcome == Refused("unavailable", diagnostic=diagnostic)
