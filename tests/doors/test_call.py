"""call: MCP to the router as an agent speaks it, closed errors as JSON, and ruling which session calls."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.control import folders
from tests.doors import fakes
from tests.doors.conftest import World

_TOOL = {
    "name": "ocr_extract",
    "inputSchema": {
        "type": "object",
        "properties": {"path": {"type": "string", "format": "handler-file"}, "pages": {"type": "integer"}},
    },
    "description": "Read the text of a scan. Slow.",
}
_ERROR = {"error": "unsupported_format", "message": "the file is not a PDF or an image"}


def router(result: Mapping[str, Any], pages: int = 1) -> dict[str, fakes.Answer]:
    """A router with one tool, on the last of so many pages of its list."""

    def listed(params: Mapping[str, Any]) -> Any:
        page = int(params.get("cursor", "1"))
        if page < pages:
            return {"tools": [{"name": f"ocr_other_{page}", "inputSchema": {}}], "nextCursor": str(page + 1)}
        return {"tools": [_TOOL]}

    return {"initialize": lambda params: {}, "tools/list": listed, "tools/call": lambda params: result}


def door(world: World, agent: str = "clerk") -> Path:
    return world.run / "a" / agent / "services.sock"


def test_an_answer_is_printed_as_json(world: World) -> None:
    answer = {"structuredContent": {"pages": [{"text": "é"}]}, "content": []}
    with fakes.served(door(world), router(answer, pages=3)) as heard:
        ran = world.handler("call", "ocr_extract", "path=a.pdf", "pages=2")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out) == {"pages": [{"text": "é"}]}
    assert "é" in ran.out
    methods = [message["method"] for message in heard]
    assert methods == ["initialize", "notifications/initialized", *["tools/list"] * 3, "tools/call"]
    sent = {"path": f"{world.root}/a.pdf", "pages": 2}
    assert heard[-1]["params"] == {"name": "ocr_extract", "arguments": sent}


@pytest.mark.parametrize(
    "result",
    [
        {"isError": True, "content": [], "_meta": {"ai.handler/error": _ERROR}},
        {"isError": True, "content": [{"type": "text", "text": "It is no PDF.\n" + json.dumps(_ERROR)}]},
    ],
)
def test_a_closed_error_is_printed_as_json_and_exits_1(world: World, result: dict[str, Any]) -> None:
    with fakes.served(door(world), router(result)):
        ran = world.handler("call", "ocr_extract", "path=a.zip", "--agent", "clerk")
    assert (ran.code, json.loads(ran.out)) == (1, _ERROR)


def test_an_unknown_tool_or_input_names_the_nearest_and_nothing_is_called(world: World) -> None:
    with fakes.served(door(world), router({})) as heard:
        tool = world.handler("call", "ocr_extrct", "path=a.pdf")
        key = world.handler("call", "ocr_extract", "paht=a.pdf")
    assert (tool.code, key.code) == (2, 2)
    assert "did you mean 'ocr_extract'?" in tool.err
    assert "did you mean 'path'?" in key.err
    assert "tools/call" not in [message["method"] for message in heard]


@pytest.mark.parametrize(
    ("said", "why"),
    [("\udcff", "is no text"), ('{"path": "\\ud800"}', "is no text"), ("x" * 2**23, "longer")],
)
def test_what_is_no_text_or_too_long_is_refused_in_words(world: World, said: str, why: str) -> None:
    ran = world.handler("call", "ocr_extract", "--json", "-", stdin=said)
    assert (ran.code, why in ran.err) == (2, True), ran.err


def test_inputs_may_be_one_json_object_from_stdin(world: World) -> None:
    with fakes.served(door(world), router({"structuredContent": 1})) as heard:
        assert world.handler("call", "ocr_extract", "--json", "-", stdin='{"path": "x"}').code == 0
        assert world.handler("call", "ocr_extract", "--json=[1]").code == 2
        assert world.handler("call", "ocr_extract", "--json", "{").code == 2
    calls = [message["params"]["arguments"] for message in heard if message["method"] == "tools/call"]
    assert calls == [{"path": "x"}]


def test_inside_a_session_it_is_the_session_that_calls(world: World) -> None:
    services = world.run / "s" / "abc" / "services.sock"
    with fakes.served(services, router({"structuredContent": 1})) as heard:
        assert world.handler("call", "ocr_extract", HANDLER_SERVICES=str(services)).code == 0
        assert world.handler("call", "ocr_extract", HANDLER_SESSION="abc").code == 0
        for option in ("--agent", "--binding"):
            ran = world.handler("call", "ocr_extract", option, "x", HANDLER_SERVICES=str(services))
            assert (ran.code, ran.out) == (2, "")
    assert [message["method"] for message in heard].count("tools/call") == 2


def test_several_agents_have_to_be_told_apart(world: World) -> None:
    for agent in ("clerk", "reviewer"):
        door(world, agent).parent.mkdir(parents=True)
    ran = world.handler("call", "ocr_extract")
    assert ran.code == 2
    assert "clerk, reviewer" in ran.err


def test_a_binding_gets_a_session_of_its_own_which_is_closed(world: World) -> None:
    services = world.run / "s" / "abc" / "services.sock"
    opened = {"session": "abc", "services": str(services)}
    methods = {"session.open": lambda params: opened, "session.close": lambda params: {"session": "abc"}}
    with (
        fakes.served(world.run / "control.sock", methods) as asked,
        fakes.served(services, router({"structuredContent": 1})),
    ):
        assert world.handler("call", "ocr_extract", "--binding", "ocr-fast").code == 0
        assert world.handler("call", "ocr_missing", "--binding", "ocr-fast").code == 2
    told = [(message["method"], message["params"]) for message in asked]
    once = [
        ("session.open", {"binding": "ocr-fast", "scope": [str(world.root)], "withCaller": True}),
        ("session.close", {"session": "abc"}),
    ]
    assert told == once * 2


def test_the_operator_is_told_why_a_call_through_a_binding_failed(world: World) -> None:
    services = world.run / "s" / "abc" / "services.sock"
    opened = {"session": "abc", "services": str(services)}
    methods = {"session.open": lambda params: opened, "session.close": lambda params: {"session": "abc"}}
    failed = {"isError": True, "content": [], "_meta": {"ai.handler/error": _ERROR}}
    calls, log = world.state / "calls/abc.jsonl", world.state / "logs/own.log"
    log.parent.mkdir(parents=True)
    log.write_text("Traceback\n")
    calls.parent.mkdir()
    calls.write_text("")
    (calls.parent / "other.jsonl").write_text('{"session": "other", "diagnostic": "no"}\n')

    def close(params: Mapping[str, Any]) -> Any:  # the record comes after the answer
        record = {"session": "abc", "code": "unsupported_format", "diagnostic": "its process ended: exit 3"}
        calls.write_text(calls.read_text() + json.dumps(record) + "\n")
        return opened

    with (
        fakes.served(world.run / "control.sock", {**methods, "session.close": close}),
        fakes.served(services, router(failed)),
    ):
        ran = world.handler("call", "ocr_extract", "--binding", "own", "-c", "config")
        quiet = world.handler("call", "ocr_extract", "--binding", "own", "-c", "config", "-q")
    assert (ran.code, json.loads(ran.out)) == (1, _ERROR)
    assert "handler: its process ended: exit 3\n" in ran.err
    assert "the connector's log is ./state/logs/own.log" in ran.err
    assert (quiet.code, quiet.err) == (1, "")
    with fakes.served(door(world), router(failed)):
        assert world.handler("call", "ocr_extract", "--agent", "clerk").err == ""


def test_the_operator_is_told_what_the_connector_could_not_reach_during_the_call(world: World) -> None:
    services = world.run / "s" / "abc" / "services.sock"
    opened = {"session": "abc", "services": str(services)}
    methods = {"session.open": lambda params: opened, "session.close": lambda params: opened}
    failed = {"isError": True, "content": [], "_meta": {"ai.handler/error": _ERROR}}
    (world.state / "calls").mkdir(parents=True)
    record = {"session": "abc", "diagnostic": "URLError: 403", "at": "2026-11-30T10:00:05.000Z", "ms": 2000.0}
    (world.state / "calls/abc.jsonl").write_text(json.dumps(record) + "\n")

    def attempt(at: str, why: str, verdict: str = "refused", name: str = "own") -> str:
        return json.dumps({"at": at, "object": f"binding/{name}", "verdict": verdict, "why": why}) + "\n"

    (world.state / "egress.jsonl").write_text(
        'ot": 5}\n'
        + attempt("2026-11-30T10:00:01.000Z", "too early")
        + attempt("2026-11-30T10:00:04.000Z", "another's", name="other")
        + attempt("2026-11-30T10:00:04.000Z", "", "allowed")
        + attempt("2026-11-30T10:00:04.100Z", "a.example:443 is not on the list") * 3
        + attempt("2026-11-30T10:00:04.200Z", "b.example has no address now", "failed")
    )
    with fakes.served(world.run / "control.sock", methods), fakes.served(services, router(failed)):
        ran = world.handler("call", "ocr_extract", "--binding", "own", "-c", "config")
    start = "handler: did not get out of its sandbox: "
    assert ran.err.splitlines()[-3:] == [
        "handler: URLError: 403",
        f"{start}a.example:443 is not on the list",
        f"{start}b.example has no address now",
    ]


def test_what_is_refused_is_told_with_what_a_path_may_be(world: World) -> None:
    failed = {"isError": True, "content": [], "_meta": {"ai.handler/error": {**_ERROR, "error": "refused"}}}
    with fakes.served(door(world), router(failed)):
        ran = world.handler("call", "ocr_extract", "path=a.pdf", "--agent", "clerk")
    assert (ran.code, json.loads(ran.out)["error"]) == (1, "refused")
    assert "the agent's scope" in ran.err
    assert "a new file with a plain name" in ran.err


def test_a_record_that_does_not_come_is_not_waited_for_long(world: World) -> None:
    services = world.run / "s" / "abc" / "services.sock"
    opened = {"session": "abc", "services": str(services)}
    methods = {"session.open": lambda params: opened, "session.close": lambda params: opened}
    failed = {"isError": True, "content": [], "_meta": {"ai.handler/error": {**_ERROR, "error": "refused"}}}
    began = time.monotonic()
    with fakes.served(world.run / "control.sock", methods), fakes.served(services, router(failed)):
        ran = world.handler("call", "ocr_extract", "--binding", "own", "-c", "config")
    assert (ran.code, ran.err) == (1, "")
    assert time.monotonic() - began < 10


def test_without_a_controller_it_says_how_to_start_one(world: World) -> None:
    lines = (["call", "t"], ["call", "t", "--agent", "clerk"], ["call", "t", "--binding", "b"])
    for line in lines:
        ran = world.handler(*line)
        assert (ran.code, ran.out) == (1, "")
        assert "there is no configuration" in ran.err
        assert "name one with -c DIR or HANDLER_CONFIG" in ran.err
        assert "handlerd" not in ran.err
    for line in lines:
        ran = world.handler(*line, HANDLER_CONFIG=str(world.config))
        assert (ran.code, ran.out) == (1, "")
        assert "handlerd -c" in ran.err


def test_a_router_that_refuses_or_leaves_is_one_sentence(world: World) -> None:
    def refuse(params: Mapping[str, Any]) -> Any:
        raise fakes.FaultError("agent 'clerk' cannot start a session now")

    with fakes.served(door(world), {**router({}), "initialize": refuse}):
        ran = world.handler("call", "ocr_extract")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "handler: agent 'clerk' cannot start a session now\n"
    with fakes.served(door(world), {**router({}), "tools/call": refuse}):
        assert world.handler("call", "ocr_extract").code == 1


def test_an_answer_that_is_late_is_cancelled(world: World) -> None:
    with fakes.served(door(world), {**router({}), "tools/call": lambda params: fakes.SILENT}) as heard:
        ran = world.handler("call", "ocr_extract", "--timeout", "0.05")
    assert (ran.code, ran.out) == (1, "")
    assert "did not answer in time" in ran.err
    assert heard[-1]["method"] == "notifications/cancelled"
    assert heard[-1]["params"]["requestId"] == heard[-2]["id"]


def test_an_outcome_that_is_not_known_has_a_code_of_its_own(world: World) -> None:
    told = {"error": "outcome_unknown", "message": "it may have been done"}
    with fakes.served(door(world), router({"isError": True, "_meta": {"ai.handler/error": told}})):
        ran = world.handler("call", "ocr_extract", "path=a.pdf")
    assert (ran.code, json.loads(ran.out)) == (3, told)


@pytest.mark.parametrize(("reads", "code"), [(False, 3), (True, 1)])
@pytest.mark.parametrize("silent", [True, False])
def test_no_answer_of_a_tool_that_changes_something_may_mean_that_it_was_done(
    world: World, reads: bool, code: int, silent: bool
) -> None:
    """A script that repeats what ended with 1 would send the same mail a second time."""
    tool = {**_TOOL, "annotations": {"readOnlyHint": reads}}

    def called(params: Mapping[str, Any]) -> Any:
        if silent:
            return fakes.SILENT
        raise ConnectionError("a controller that is killed")

    answers: dict[str, fakes.Answer] = {
        **router({}),
        "tools/list": lambda params: {"tools": [tool]},
        "tools/call": called,
    }
    with fakes.served(door(world), answers):
        ran = world.handler("call", "ocr_extract", "path=a.pdf", "--timeout", "0.5")
    assert (ran.code, ran.out) == (code, "")
    assert ("did not answer in time" if silent else "was not answered") in ran.err
    assert ("look before you repeat it ('handler jobs list')" in ran.err) is not reads


def test_the_tools_that_can_be_called_are_listed(world: World) -> None:
    with fakes.served(door(world), router({}, pages=2)) as heard:
        shown = world.handler("call", "--list")
        named = world.handler("call", "--list", "-o", "name")
        whole = world.handler("call", "--list", "-o", "json")
        assert world.handler("call", "--list", "ocr_extract").code == 2
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines()[2].split("   ") == ["ocr_extract", "Read the text of a scan"]
    assert named.out == "ocr_other_1\nocr_extract\n"
    assert json.loads(whole.out)[1] == _TOOL
    assert "tools/call" not in [message["method"] for message in heard]


def test_the_help_of_a_tool_shows_its_inputs(world: World) -> None:
    with fakes.served(door(world), router({})):
        shown = world.handler("call", "ocr_extract", "--help")
        wrong = world.handler("call", "ocr_extrct", "--help")
        whole = world.handler("call", "ocr_extract", "--help", "-o", "json")
    assert (shown.code, shown.err) == (0, "")
    assert "path=FILE\n" in shown.out
    assert "pages=N\n" in shown.out
    assert "did you mean 'ocr_extract'?" in wrong.err
    assert json.loads(whole.out) == _TOOL
    alone = world.handler("call", "ocr_extract", "--help")
    assert (alone.code, alone.out) == (0, world.handler("call", "--help").out)
    assert "the inputs of ocr_extract cannot be asked for: " in alone.err


def test_an_input_that_is_no_text_is_refused_before_anything_is_called(world: World) -> None:
    with fakes.served(door(world), router({})) as heard:
        ran = world.handler("call", "ocr_extract", "path=\udcff")
        json_fault = world.handler("call", "ocr_extract", "--json", '{"pages": NaN}')
        twice = world.handler("call", "ocr_extract", "--json", '{"path": "a", "path": "b"}')
        assert (twice.code, "'path' stands twice" in twice.err) == (2, True)
    assert (ran.code, json_fault.code, heard) == (2, 2, [])
    assert "UTF-8" in ran.err
    assert "NaN is no number in JSON" in json_fault.err


def test_in_a_session_that_nobody_serves_it_says_whether_it_is_over_and_what_to_do(world: World) -> None:
    folder, written = world.run / "s" / "abc", world.state / "sessions" / "abc.json"
    written.parent.mkdir(parents=True)
    written.touch()
    world.run.mkdir()
    folders.claim(world.config, world.run)
    ask = ("call", "ocr_extract", "path=a.png")
    inside = {"HANDLER_SERVICES": str(folder / "services.sock"), "HANDLER_SESSION": "abc"}
    away = world.handler(*ask, **inside)  # as where the run folder does not outlive the controller
    folder.mkdir(parents=True)
    assert world.handler(*ask, **inside) == away
    with fakes.served(world.run / "control.sock", {}):
        late = world.handler(*ask, **inside)
        written.unlink()
        over = world.handler(*ask, **inside)
    boxed = world.handler(*ask, **inside, HANDLER_SANDBOX="1")
    assert {one.code for one in (away, late, over, boxed)} == {1}
    assert away.err == (
        "handler: cannot call ocr_extract: no controller runs for ~/config: start one with "
        "'handlerd -c ~/config'; the session goes on then\n"
    )
    assert "try again" in late.err
    assert over.err == (
        "handler: cannot call ocr_extract: session 'abc' is over: unset HANDLER_SESSION HANDLER_SERVICES "
        "HANDLER_CAPABILITIES, or open a new one with 'handler session open AGENT'\n"
    )
    assert "either no controller runs" in boxed.err


def test_a_person_is_told_more_than_an_agent(world: World) -> None:
    failed = {"isError": True, "content": [], "_meta": {"ai.handler/error": {**_ERROR, "error": "refused"}}}
    with fakes.served(door(world), router(failed)) as heard:
        gone = world.handler("call", "ocr_extract", "path=gone.pdf")
        bare = world.handler("call", "ocr_extract", "a.pdf", "b.pdf")
        held = world.handler("call", "ocr_extract", "--json", "@in.json")
        assert world.handler("call", "ocr_extract", "path=gone.pdf", "-q").err == ""
    assert json.loads(gone.out) == {**_ERROR, "error": "refused"}
    assert gone.err.startswith(f"handler: path: there is no file {world.root}/gone.pdf\n")
    assert (bare.code, bare.out) == (2, "")
    assert bare.err.startswith("handler: 'a.pdf' is no input: write ")
    assert (held.code, "--json - < in.json" in held.err) == (2, True)
    assert [one["method"] for one in heard].count("tools/call") == 2
    alone = world.handler("call", "ocr_extract", "a.pdf")
    assert (alone.code, alone.err) == (2, "handler: 'a.pdf' is no input: write KEY=VALUE\n")
