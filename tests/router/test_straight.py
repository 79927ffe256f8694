"""The straight way of a call ends as the law says, for every line, and takes nothing that is not for it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.calls import CallRecord, Refusal, Reply, Result
from reconciler.model.routes import AgentRoutes
from reconciler.router import mcp, straight
from reconciler.router.flight import Exchange, Flight
from reconciler.router.guest import Guest
from reconciler.router.parties import Flying
from reconciler.wire import jsonrpc
from reconciler.wire.jsonrpc import Id
from tests.kit.effort import times
from tests.router import stage
from tests.router.stage import FakeDispatch, FakeLane

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
MODERN = {VERSION: mcp.MODERN, CAPABILITIES: {}}


@dataclass
class Caller:
    """A connection that keeps what it would send."""

    ways: Mapping[str, straight.Way]
    flights: dict[Id, Flying] = field(default_factory=dict)
    listens: dict[Id, mcp.Listen] = field(default_factory=dict)
    lines: list[bytes] = field(default_factory=list)

    def answered(self, ident: Id, line: bytes | None) -> None:
        self.flights.pop(ident, None)
        if line is not None:
            self.lines.append(line)

    def send(self, line: bytes) -> None:
        self.lines.append(line)

    def report(self, line: bytes) -> None:
        self.lines.append(line)


class Scene:
    """A session of one agent, whose connector runs."""

    def __init__(self, routes: AgentRoutes | None = None, *, runs: bool = True) -> None:
        self.clock = 100.0
        self.lane = FakeLane()
        dispatch = FakeDispatch(self.lane if runs else None)
        self.exchange = Exchange(dispatch, lambda: 1_700_000_000.0, lambda: self.clock)
        self.guest = Guest("s1", routes or stage.routes(stage.route(stage.echo())), self.exchange)
        served = self.guest.at("services")
        assert served is not None
        self.face = served.face
        self.caller = Caller(served.ways)
        self.usage = self.guest.desks["echo"].usage

    def straight(self, line: bytes) -> bool:
        return straight.begin(self.caller, line)

    def by_law(self, line: bytes) -> bool:
        """The other way, as a connection takes it: True when the line is a call."""
        action = mcp.answer(self.face, jsonrpc.decode(line))
        if not isinstance(action, mcp.Call):
            return False
        desk = self.guest.desks[action.offer.route.interface.name]
        self.caller.flights[action.id] = flight = Flight(desk, self.caller, action, len(line))
        flight.begin()
        return True

    def ended(self) -> tuple[list[bytes], list[CallRecord], tuple[int, int, int]]:
        """What was sent to the agent, what was recorded, and what the session has used."""
        assert not self.caller.flights
        records = [replace(record, call="") for record in self.exchange.records()]
        return self.caller.lines, records, (self.usage.made, self.usage.running, self.exchange.running)


TRACE = f"00-{'a' * 32}-{'b' * 16}-01"
ODD = st.sampled_from([None, True, 1.0, 0, "", "x" * 300, [], {}, {"a": 1}, "2.0", "tools/call", "echo_add"])


def mostly(*usual: Any) -> st.SearchStrategy[Any]:
    return st.one_of(*[st.just(one) for one in usual], st.just(usual[0]), ODD)


META = st.one_of(
    st.just({}),
    st.just(MODERN),
    st.just(MODERN | {"progressToken": "t"}),
    st.just({"progressToken": 5}),
    st.just({"traceparent": TRACE}),
    st.fixed_dictionaries(
        {}, optional={VERSION: ODD, CAPABILITIES: ODD, "progressToken": ODD, "traceparent": ODD}
    ),
    ODD,
)
ARGUMENTS = mostly({"text": "a"}, {"n": 1.5}, {"text": "a", "wait_for_previous": True}, {"text": 5}, {})
PARAMS = st.fixed_dictionaries(
    {"name": mostly("echo_say", "echo_add"), "arguments": ARGUMENTS}, optional={"_meta": META, "task": ODD}
)
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": mostly("2.0"), "method": mostly("tools/call"), "params": st.one_of(PARAMS, PARAMS, ODD)},
    optional={"id": st.one_of(st.integers(-9, 9), st.text(max_size=70), ODD), "result": ODD},
)
WRITTEN = st.sampled_from([(",", ":"), (", ", ": ")])
REPLIES = st.sampled_from(
    [
        Result({"text": "a"}, {}),
        Result({"text": 'x"\\\n' * 40_000}, {}),
        Result({"text": "x" * 5_000_000}, {}),
        Result({"n": 2}, {}),
        Result({}, {}),
        Refusal("unavailable", "why"),
        Refusal("boom", "why"),
    ]
)


@pytest.mark.slow
@settings(max_examples=times(120))
@given(st.one_of(MESSAGES, MESSAGES, ODD), WRITTEN, REPLIES)
def test_what_goes_straight_ends_as_the_law_says(
    message: Any, separators: tuple[str, str], reply: Reply
) -> None:
    line = json.dumps(message, separators=separators).encode() + b"\n"
    scene, other = Scene(), Scene()
    went = scene.straight(line)
    if not went:
        assert not scene.lane.sent
        assert scene.ended() == ([], [], (0, 0, 0))
        return
    assert other.by_law(line)
    for one in (scene, other):
        one.clock += 2
        one.lane.sent[0].sink.progress(1, 2)
        one.lane.sent[0].sink.progress(1, 2)
        one.lane.sent[0].sink.done(reply)
        one.lane.sent[0].sink.done(reply)  # a second answer is nobody's
    (mine,), (theirs,) = scene.lane.sent, other.lane.sent
    assert (mine.tool, mine.arguments) == (theirs.tool, theirs.arguments)
    assert (mine.sink.wants_progress, mine.sink.caller) == (theirs.sink.wants_progress, theirs.sink.caller)
    assert scene.ended() == other.ended()


@pytest.mark.parametrize("meta", [None, {}, {"progressToken": "t"}, MODERN, MODERN | {"progressToken": 7}])
@pytest.mark.parametrize("ident", [7, "a"])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_every_well_formed_call_goes_straight(meta: Any, ident: Any, separators: tuple[str, str]) -> None:
    params = {"name": "echo_say", "arguments": {"text": "é"}} | ({} if meta is None else {"_meta": meta})
    message = {"method": "tools/call", "params": params, "jsonrpc": "2.0", "id": ident}
    assert Scene().straight(json.dumps(message, separators=separators).encode() + b"\n")


def call(text: str = "hi", ident: Id = 7, **more: Any) -> bytes:
    params = {"name": "echo_say", "arguments": {"text": text}} | more
    return orjson.dumps({"jsonrpc": "2.0", "id": ident, "method": "tools/call", "params": params}) + b"\n"


@pytest.mark.parametrize(
    "line",
    [
        call()[:-2] + b',"id":8}\n',
        call().replace(b'"hi"', b'"hi","text":"ho"'),
        call(_meta={"deep": [[[]]]}).replace(b"[[[]]]", b"[" * 70 + b"]" * 70),
        call().replace(b'"hi"', b"[" * 300 + b"]" * 300),
        call().replace(b'"id":7', b'"id":12345678901234567890123'),
        call(ident="x" * 300),
    ],
)
def test_what_the_rules_of_a_line_refuse_never_goes_straight(line: bytes) -> None:
    assert not Scene().straight(line)


@pytest.mark.parametrize("way", ["straight", "by_law"])
@pytest.mark.parametrize("act", ["expire", "cancel", "abandon"])
def test_a_call_that_is_late_or_given_up_stops_the_connector_and_gives_its_place_back(
    way: str, act: str
) -> None:
    scene = Scene()
    assert getattr(scene, way)(call())
    (flight,) = scene.caller.flights.values()
    scene.clock += scene.usage.timeout_s - 1
    assert not flight.is_late()
    scene.clock += 1
    assert flight.is_late()
    getattr(flight, act)(*(["its session is over"] if act == "abandon" else []))
    assert flight.over
    assert scene.lane.sent[0].cancelled
    scene.lane.sent[0].answer(text="late")
    lines, (record,), used = scene.ended()
    assert used == (1, 0, 0)
    assert record.code == ("cancelled" if act == "cancel" else "unavailable")
    assert len(lines) == (0 if act == "cancel" else 1)


def test_nothing_goes_straight_that_has_to_wait_or_has_no_more_calls() -> None:
    made = stage.echo(concurrentCalls=1, callsPerSession=2)
    scene = Scene(stage.routes(stage.route(made)))
    assert scene.straight(call())
    assert not scene.straight(call(ident=8))
    scene.lane.sent[0].answer(text="x")
    assert scene.straight(call(ident=8))
    scene.lane.sent[1].answer(text="x")
    assert not scene.straight(call(ident=9))


def test_nothing_goes_straight_while_its_connector_does_not_run_or_its_id_is_in_use() -> None:
    assert not Scene(runs=False).straight(call())
    scene = Scene()
    scene.caller.listens[7] = mcp.Listen(7)
    assert not scene.straight(call())
    assert scene.straight(call(ident=8))
    assert not scene.straight(call(ident=8))


def test_a_waiting_call_begins_when_a_straight_one_ends() -> None:
    scene = Scene(stage.routes(stage.route(stage.echo(concurrentCalls=1))))
    assert scene.straight(call())
    assert scene.by_law(call("next", ident=8))
    assert len(scene.lane.sent) == 1
    scene.lane.sent[0].answer(text="x")
    assert scene.lane.sent[1].arguments == {"text": "next"}


def test_only_tools_that_bound_their_depth_take_no_files_and_are_not_suspended_have_a_straight_way() -> None:
    wide = stage.tool("wide_say", {"type": "object"}, stage.closed(text=stage.TEXT))
    vague = stage.tool("wide_tell", stage.closed(text=stage.TEXT), {"type": "object"})
    routes = stage.routes(
        stage.route(stage.contract("echo", stage.ECHO_TOOLS)),
        stage.route(stage.contract("wide", [wide, vague])),
        stage.route(stage.ocr()),
    )
    assert set(Scene(routes).caller.ways) == {"echo_say", "echo_add"}
    choosing = stage.contract(
        "echo", [stage.tool("echo_say", stage.closed(_model=stage.TEXT), stage.closed())]
    )
    assert set(Scene(stage.routes(stage.route(choosing))).caller.ways) == {"echo_say"}
    assert not Scene(stage.routes(stage.route(choosing, models=("small",)))).caller.ways
    suspended = stage.routes(stage.route(stage.echo(), suspended="by hand"))
    assert not Scene(suspended).caller.ways


def test_an_answer_nested_too_deep_is_outside_the_contract_of_a_tool_that_does_not_say_how_deep() -> None:
    vague = stage.tool("echo_say", stage.closed(text=stage.TEXT), {"type": "object"})
    scene = Scene(stage.routes(stage.route(stage.contract("echo", [vague]))))
    for ident, depth in enumerate((62, 63)):
        nested: Any = {}
        for _ in range(depth - 1):
            nested = {"a": nested}
        assert scene.by_law(call(ident=ident))
        scene.lane.sent[ident].sink.done(Result(nested, {}))
    _, records, _ = scene.ended()
    assert [record.code for record in records] == ["ok", "unavailable"]
    assert "nested" in records[1].diagnostic


@pytest.mark.parametrize("way", [Scene.straight, Scene.by_law])
@pytest.mark.parametrize("era", [{}, MODERN])
@pytest.mark.parametrize(
    ("told", "trace"), [(TRACE, TRACE), (TRACE[:-1], ""), (TRACE[:-1] + "é", ""), (7, ""), (None, "")]
)
def test_a_call_is_recorded_with_the_trace_that_it_names(way: Any, era: Any, told: Any, trace: str) -> None:
    scene = Scene()
    params = {"name": "echo_say", "arguments": {"text": "a"}, "_meta": {**era, "traceparent": told}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    assert way(scene, json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")
    scene.lane.sent[0].answer(text="a")
    _, (record,), _ = scene.ended()
    assert (record.code, record.trace) == ("ok", trace)
