"""The door's way to the controller, over a real control socket: models by the port, runs as they are told."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from reconciler.control import rpc
from reconciler.control.loop import Controller
from reconciler.control.talking import Talking
from reconciler.doors.openai_asked import Asked
from reconciler.doors.openai_far import Far, Known, Piece
from reconciler.doors.openai_said import Faulted, Said
from reconciler.model.calls import CallRecord
from reconciler.model.chain import Chain
from reconciler.model.modelport import Caller, Candidate, TurnFailed
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.outcome import Usage
from reconciler.model.routes import AgentRoutes
from reconciler.model.turns import (
    Answered,
    Event,
    Image,
    Message,
    ModelFacts,
    ModelTurn,
    Text,
    TextDelta,
    ToolCallDelta,
    ToolUse,
    Turn,
)

_SEES = ModelFacts(vision=True, stream=True)
_HI = Turn("", (Message("user", (Text("hi"),)),), stream=True)


@dataclass
class Played:
    """Models that say what a test says."""

    events: tuple[Event, ...] = ()
    ends: list[Answered | TurnFailed] = field(default_factory=lambda: [Answered(ModelTurn("hello", "stop"))])
    asked: list[tuple[Caller, Candidate, Turn]] = field(default_factory=list)
    records: list[CallRecord] = field(default_factory=list)
    held: bool = False
    left: asyncio.Event = field(default_factory=asyncio.Event)

    def candidates(self, caller: Caller) -> tuple[Candidate, ...]:
        return (Candidate("tiny", "llm-a", "local"), Candidate("large", "llm-b", "remote", _SEES))

    async def turn(
        self,
        caller: Caller,
        candidate: Candidate,
        turn: Turn,
        *,
        timeout_s: float,
        on_event: Callable[[Event], None] | None = None,
    ) -> Answered | TurnFailed:
        self.asked.append((caller, candidate, turn))
        try:
            for event in self.events if on_event else ():
                assert on_event is not None
                on_event(event)
                await asyncio.sleep(0)
            if self.held:
                await asyncio.Event().wait()
            return self.ends.pop(0)
        finally:
            self.left.set()


def _controller(*agents: str) -> Controller:
    tasks = [
        {"id": "plan", "handler": "chat_completion",
         "transition": {"branches": [{"operator": "default", "goto": "answer"}]}},
        {"id": "answer", "handler": "chat_completion"},
    ]  # fmt: skip
    form = SimpleNamespace(spec=Chain.model_validate({"id": "triage", "tasks": tasks}))
    routes = {name: AgentRoutes(name, {}) for name in agents}
    admission = SimpleNamespace(in_force={ObjectRef(Kind.CHAIN, "triage"): form})
    found = SimpleNamespace(table=SimpleNamespace(agents=routes), look=SimpleNamespace(admission=admission))
    return cast("Controller", found)


async def _pieces(coming: AsyncGenerator[Piece, None]) -> list[Piece]:
    async with aclosing(coming):
        return [piece async for piece in coming]


def _with(
    tmp_path: Path, methods: Mapping[str, rpc.Method], doing: Callable[[Far], Any], agent: str = "clerk"
) -> Any:
    async def go() -> Any:
        server = await rpc.listen(tmp_path / "c.sock", methods)
        try:
            async with asyncio.timeout(60):
                return await doing(Far(str(tmp_path / "c.sock"), agent, 30))
        finally:
            server.close()

    return asyncio.run(go())


def _talking(models: Played, *agents: str) -> Mapping[str, rpc.Method]:
    return Talking(_controller(*(agents or ("clerk",))), lambda: models, models.records.append).table()


def test_models_and_chains_are_known_with_the_tasks_that_may_be_last(tmp_path: Path) -> None:
    known = _with(tmp_path, _talking(Played()), lambda far: far.known())
    assert known == Known(("tiny", "large"), {"triage": frozenset({"answer"})}, frozenset({"large"}))
    assert [one.id for one in known.listed()] == ["tiny", "large", "chain:triage"]


def test_a_turn_comes_in_pieces_and_whole_in_the_end(tmp_path: Path) -> None:
    uses = (ToolUse("c1", "look", "{}"),)
    turn = ModelTurn("hello", "tools", uses, usage=Usage(3, 2), model="tiny-2026")
    models = Played(
        (TextDelta("hel"), TextDelta("lo"), ToolCallDelta(0, "c1", "look", "{}")), [Answered(turn)]
    )
    found = _with(tmp_path, _talking(models), lambda far: _pieces(far.turn(_HI)))
    words = "".join(one.text for one in found if isinstance(one, TextDelta))
    assert words == "hello" and found[-2] == ToolCallDelta(0, "c1", "look", "{}")
    assert found[-1] == Said("hello", "tools", uses, usage=Usage(3, 2), model="tiny")
    caller, candidate, asked = models.asked[0]
    assert (caller.agent, candidate.model, asked) == ("clerk", "tiny", _HI)
    record = models.records[0]
    assert (record.session, record.binding, record.code) == (caller.session, "llm-a", "ok")
    assert (record.in_bytes, record.out_bytes) == (2, 5)


def test_pictures_go_to_the_model_that_sees_and_nowhere_else(tmp_path: Path) -> None:
    shown = replace(_HI, messages=(Message("user", (Image("image/png", b"abc"),)),))
    models = Played()
    found = _with(tmp_path, _talking(models), lambda far: _pieces(far.turn(shown)))
    assert isinstance(found[-1], Said) and models.asked[0][1].model == "large"
    blind = _with(tmp_path, _talking(models), lambda far: _pieces(far.turn(replace(shown, model="tiny"))))
    assert blind == [Faulted("no_vision_model")]
    assert len(models.asked) == 1


def test_what_the_profile_does_not_state_is_named_and_stops_are_left_to_the_door(tmp_path: Path) -> None:
    said = Answered(ModelTurn("one END", "stop"))
    models = Played(ends=[TurnFailed("refused", "the profile does not state field.stop", "none"), said])
    stops = replace(_HI, stop=("END",))
    found = _with(tmp_path, _talking(models), lambda far: _pieces(far.turn(stops)))
    assert isinstance(found[-1], Said) and [one[2].stop for one in models.asked] == [("END",), ()]
    models = Played(ends=[TurnFailed("refused", "the profile does not state field.temperature.max", "none")])
    found = _with(tmp_path, _talking(models), lambda far: _pieces(far.turn(_HI)))
    assert isinstance(found[-1], Faulted)
    assert (found[-1].code, found[-1].param) == ("invalid_input", "temperature")
    models = Played(ends=[TurnFailed("rate_limit", "429", retry_after_s=4.0)])
    found = _with(tmp_path, _talking(models), lambda far: _pieces(far.turn(_HI)))
    assert found == [Faulted("rate_limit", "429", retry_after_s=4.0)]


def test_who_stops_listening_ends_the_model_s_turn(tmp_path: Path) -> None:
    models = Played((TextDelta("hel"),), held=True)

    async def leave(far: Far) -> None:
        async with aclosing(far.turn(_HI)) as coming:
            assert await anext(coming) == TextDelta("hel")
            assert not models.left.is_set()
        await asyncio.wait_for(models.left.wait(), 30)
        while not models.records:
            await asyncio.sleep(0.01)

    _with(tmp_path, _talking(models), leave)
    assert [one.code for one in models.records] == ["cancelled"]


def test_an_agent_that_is_not_there_is_not_asked_for(tmp_path: Path) -> None:
    for agents, agent in ((("a", "b"), ""), (("a",), "x")):
        methods = _talking(Played(), *agents)
        found = _with(tmp_path, methods, lambda far: _pieces(far.turn(_HI)), agent)
        assert isinstance(found[-1], Faulted) and found[-1].code == "unavailable"
    nobody = asyncio.run(_pieces(Far(str(tmp_path / "none.sock"), "", 5).turn(_HI)))
    assert nobody == [Faulted("unavailable", message="no controller answers now")]


# runs


class Runs:
    """A controller's face for runs that tells what a test says."""

    def __init__(
        self, told: list[dict[str, Any]], run: Mapping[str, Any], output: Mapping[str, Any] | None
    ) -> None:
        self.told, self.head, self.output = told, {"id": "r1", "state": "completed", **run}, output
        self.begun: dict[str, Any] = {}
        self.cancelled = asyncio.Event()
        self.held = False

    def table(self) -> Mapping[str, rpc.Method]:
        return {"chain.run": self.run, "run.stream": rpc.Attended(self.stream), "run.cancel": self.cancel}

    async def run(self, params: Mapping[str, Any], caller: rpc.Caller) -> Any:
        self.begun = dict(params)
        return {"id": "r1", "state": "running"}

    async def stream(self, params: Mapping[str, Any], caller: rpc.Caller) -> Any:
        for one in self.told:
            await caller.tell({"told": [one], "after": ""})
        if self.held:
            await asyncio.Event().wait()
        return {"run": self.head, "told": [], "after": "", "output": self.output}

    async def cancel(self, params: Mapping[str, Any], caller: rpc.Caller) -> Any:
        assert params["run"] == "r1"
        self.cancelled.set()
        return {}


_KNOWN = Known(("tiny",), {"triage": frozenset({"answer"})})


def _chunk(text: str, task: str = "answer") -> dict[str, Any]:
    return {"kind": "step_chunk", "task_id": task, "content": text}


def _went(tmp_path: Path, runs: Runs, turn: Turn = _HI) -> list[Piece]:
    asked = Asked(turn, "triage")
    found: list[Piece] = _with(
        tmp_path, runs.table(), lambda far: _pieces(far.chain("triage", asked, _KNOWN))
    )
    return found


def _history(*messages: dict[str, Any]) -> dict[str, Any]:
    said = [one["content"] for one in messages if one["role"] == "assistant" and one["content"]]
    return {"type": "chat_history", "data": {"messages": list(messages)}, "text": said[-1] if said else ""}


def test_a_run_s_words_come_as_they_are_said_by_tasks_that_may_be_last(tmp_path: Path) -> None:
    counted = {"prompt_tokens": 3, "completion_tokens": 2}
    told = [
        {"kind": "step_started", "task_id": "plan"}, _chunk("secret plan", "plan"),
        {"kind": "model_call", "task_id": "plan", "model_name": "tiny", "usage": counted},
        {"kind": "step_started", "task_id": "answer"}, _chunk("hel"), _chunk("lo"),
        {"kind": "model_call", "task_id": "answer", "model_name": "tiny", "usage": counted,
         "finish_reason": "length"},
    ]  # fmt: skip
    runs = Runs(
        told, {}, _history({"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"})
    )
    turn = replace(_HI, model="tiny", temperature=0.2, max_tokens=9)
    assert _went(tmp_path, runs, turn) == [
        TextDelta("hel"), TextDelta("lo"), Said("hello", "length", usage=Usage(6, 4)),
    ]  # fmt: skip
    assert runs.begun["vars"] == {"model": "tiny", "max_tokens": "9"}
    assert runs.begun["temperature"] == 0.2 and runs.begun["inputType"] == "chat_history"
    assert runs.begun["input"]["messages"] == [{"role": "user", "content": "hi"}]


def test_a_label_that_was_cut_off_is_no_answer_that_was_cut_off(tmp_path: Path) -> None:
    routed = {"kind": "model_call", "task_id": "plan", "task_handler": "route", "finish_reason": "length"}
    found = _went(
        tmp_path, Runs([routed], {}, {"type": "string", "data": "hi", "text": "hi", "task": "plan"})
    )
    assert isinstance(found[-1], Said)
    assert found[-1].finish == "stop"


def test_b19_what_was_not_streamed_comes_in_the_end_json_included(tmp_path: Path) -> None:
    runs = Runs([_chunk("thinking about it")], {}, {"type": "json", "data": {"a": 1}, "text": '{"a":1}'})
    assert _went(tmp_path, runs) == [
        TextDelta("thinking about it"), TextDelta('\n\n{"a":1}'), Said('{"a":1}'),
    ]  # fmt: skip
    cut_off = Runs([_chunk("hel")], {}, {"type": "string", "data": "hello", "text": "hello"})
    assert _went(tmp_path, cut_off) == [TextDelta("hel"), TextDelta("lo"), Said("hello")]


def test_the_client_s_own_tools_come_back_to_the_client(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "client.look", "arguments": "{}"}}
    last = {"role": "assistant", "content": "", "callTools": [call]}
    found = _went(tmp_path, Runs([], {}, _history({"role": "user", "content": "hi"}, last)))
    uses = (ToolUse("c1", "look", "{}"),)
    assert found == [ToolCallDelta(0, "c1", "look", "{}"), Said("", "tools", uses)]
    call["function"] = {"name": "fs.read", "arguments": "{}"}
    assert _went(tmp_path, Runs([], {}, _history(last))) == [Said()]


def test_a_run_without_a_result_says_its_code_and_keeps_its_words(tmp_path: Path) -> None:
    failed = Runs([_chunk("hel")], {"state": "failed", "code": "step_limit", "message": "a payload"}, None)
    words, end = _went(tmp_path, failed)
    assert (words, isinstance(end, Faulted) and end.code) == (TextDelta("hel"), "step_limit")
    assert "a payload" not in str(end) and "handler runs show r1" in str(end)
    told = {"state": "failed", "code": "raised", "message": "no such bill"}
    raised = _went(tmp_path, Runs([], told, None))[-1]
    assert isinstance(raised, Faulted) and raised.body()["error"]["message"] == "no such bill"
    assert "no such bill" not in raised.detail
    stopped = _went(tmp_path, Runs([], {"state": "stopped", "code": ""}, None))[-1]
    assert isinstance(stopped, Faulted) and (stopped.code, stopped.status) == ("unavailable", 503)
    limited = _went(tmp_path, Runs([], {"state": "failed", "code": "rate_limit"}, None))[-1]
    assert isinstance(limited, Faulted) and limited.headers == {"x-should-retry": "false"}
    scripted = Runs([], {"scripted": True}, {"type": "string", "data": "x", "text": "x"})
    assert _went(tmp_path, scripted)[-1] == Said("x", mark="scripted")


def test_who_stops_listening_cancels_the_run(tmp_path: Path) -> None:
    runs = Runs([_chunk("hel")], {}, None)
    runs.held = True

    async def leave(far: Far) -> None:
        async with aclosing(far.chain("triage", Asked(_HI, "triage"), _KNOWN)) as coming:
            assert await anext(coming) == TextDelta("hel")
        await asyncio.wait_for(runs.cancelled.wait(), 30)

    _with(tmp_path, runs.table(), leave)


def test_a_controller_that_dies_midway_ends_the_answer_with_its_own_word(tmp_path: Path) -> None:
    lines = [b'{"method":"notifications/progress","params":{"id":1,"event":{"kind":"text","text":"hel"}}}\n']

    async def die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(lines[0])
        await writer.drain()
        writer.close()

    async def go() -> None:
        server = await asyncio.start_unix_server(die, tmp_path / "c.sock")
        try:
            found = await _pieces(Far(str(tmp_path / "c.sock"), "", 30).turn(_HI))
            assert found == [TextDelta("hel"), Faulted("unavailable", message="no controller answers now")]
            lines[0] = b"garbage\n"
            found = await _pieces(Far(str(tmp_path / "c.sock"), "", 30).turn(_HI))
            assert found == [Faulted("unavailable", message="no controller answers now")]
        finally:
            server.close()

    asyncio.run(go())
