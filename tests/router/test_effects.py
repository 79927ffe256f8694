"""A call with an effect: kept before it is sent, settled before it is answered, and sent once."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from reconciler.model.calls import CallRecord, Refusal, Result
from reconciler.model.contract import Contract, compiled
from reconciler.model.effects import Begun, Ending, Heard, Intent, Known
from reconciler.model.jobs import AskJob, JobSeen
from reconciler.model.resources import Interface
from reconciler.router import mcp
from reconciler.router.call import QUEUE, Usage, serve
from reconciler.router.flight import Exchange, Flight
from reconciler.router.guest import Guest
from reconciler.router.parties import Flying
from reconciler.router.steps import Answer, Begin, Join, Place, Refused, Send, Settle
from reconciler.wire import jsonrpc
from reconciler.wire.jsonrpc import Id
from tests.router import stage
from tests.router.stage import FakeDispatch, FakeLane

TOOL = "mail_send"
HI = {"text": "hi"}
LONGEST = int(4_000_000 * 2.5) + 65536


def mail(effect: str = "external", tools: list[stage.Json] | None = None, **limits: Any) -> Contract:
    said = {
        "apiVersion": "handler.interface/v1", "name": "mail", "version": 1, "description": "Sends.",
        "limits": limits, "operations": {TOOL: {"effect": effect}},
        "errors": {
            "too_large": "it is too large", "unavailable": "nothing was sent",
            "outcome_unknown": "it may have been sent",
        },
    }  # fmt: skip
    tool = stage.tool(TOOL, stage.closed(text=stage.TEXT), stage.closed(text=stage.TEXT))
    return compiled(Interface.model_validate(said), orjson.dumps(tools or [tool]))


def sent(made: Contract, reply: object, begun: object = Begun("a1")) -> tuple[Any, Any]:
    """How the law ends a call that was begun and answered so, and what it has kept of it."""
    route = stage.route(made)
    law = serve(route, made.tools[TOOL], HI, Usage(route))
    assert law.send(None) == Join(HI)
    assert law.send(None) == Begin(HI)
    try:
        step = law.send(begun)
        assert step == Send(TOOL, HI, LONGEST)
        step = law.send(reply)
        assert isinstance(step, Settle)
        law.send(None)
    except StopIteration as end:
        return end.value, None if step == Begin(HI) else step.ending
    raise AssertionError("it goes on")


@pytest.mark.parametrize(
    ("reply", "code", "ending"),
    [
        (Result(HI, {}), "ok", Ending("happened", structured=b'{"text":"hi"}')),
        (Result({"other": 1}, {}), "outcome_unknown", "unknown"),
        (Refusal("too_large", "why"), "too_large", Ending("none", "too_large", "why")),
        (Refusal("unavailable", "it died"), "outcome_unknown", "unknown"),
        (Refusal("outcome_unknown", "why"), "outcome_unknown", "unknown"),
        (Refusal("vendors_word", "why"), "outcome_unknown", "unknown"),
        (Refusal("refused", "not of this list"), "outcome_unknown", "unknown"),
        (
            Refusal("refused", "not a recipient", no_effect="said"),
            "refused",
            Ending("none", "refused", "not a recipient"),
        ),
        (Refusal("limit", "not a word of a connector", no_effect="said"), "unavailable", "none"),
        (
            Refusal("unavailable", "why", no_effect="said"),
            "unavailable",
            Ending("none", "unavailable", "why"),
        ),
        (
            Refusal("unavailable", "why", no_effect="unsent"),
            "unavailable",
            Ending("none", "unavailable", "why", was_sent=False),
        ),
        (
            Refusal("idempotency_conflict", "why"),
            "refused",
            Ending("none", "refused", "idempotency_conflict"),
        ),
    ],
)
def test_only_a_proof_says_that_nothing_happened(reply: object, code: str, ending: Ending | str) -> None:
    outcome, kept = sent(mail(), reply)
    assert (outcome.code if isinstance(outcome, Refused) else "ok") == code
    assert (kept.effect if isinstance(ending, str) else kept) == ending
    assert kept.code == code


def test_what_cannot_be_kept_is_not_sent_and_what_is_known_already_is_only_told() -> None:
    route = stage.route(mail())
    for reply, outcome in (
        (Refusal("unavailable", "a full disk"), Refused("unavailable", diagnostic="a full disk")),
        (Known("a0", "ok", b'{"text":"ho"}'), Answer(b'{"text":"ho"}')),
        (Known("a0", "too_large"), Refused("too_large")),
    ):
        law = serve(route, route.contract.tools[TOOL], HI, Usage(route))
        assert (law.send(None), law.send(None)) == (Join(HI), Begin(HI))
        with pytest.raises(StopIteration) as end:
            law.send(reply)
        assert end.value.value == outcome


def test_what_was_made_and_could_not_be_put_in_place_has_happened() -> None:
    draw = stage.tool(TOOL, stage.closed(text=stage.FILE_OUT), stage.closed(text=stage.TEXT))
    route = stage.route(mail("paid", [draw]))
    law = serve(route, route.contract.tools[TOOL], {"text": "a.png"}, Usage(route))
    for reply in (None, None, None, {"text": {"name": "a.png", "blob": "b"}}, Begun("a1")):
        law.send(reply)
    assert law.send(Result(HI, {"text": "b"})) == Place({"text": "b"})
    step = law.send(Refusal("refused", "something is there already"))
    assert isinstance(step, Settle)
    assert (step.ending.effect, step.ending.code) == ("happened", "outcome_unknown")
    with pytest.raises(StopIteration) as end:
        law.send(None)
    assert end.value.value.code == "outcome_unknown"
    assert end.value.value.detail == "it happened, and what it made could not be put in place"


class Books:
    """A ledger that answers when the test lets it."""

    def __init__(self, *, waits: bool = False) -> None:
        self.begun: list[Intent] = []
        self.settled: dict[str, Ending] = {}
        self.waits = waits
        self.waiting: list[Callable[[], None]] = []

    def begin(self, intent: Intent, heard: Heard) -> None:
        self.begun.append(intent)
        name = f"a{len(self.begun)}"
        self._answer(lambda: heard(Begun(name)))

    def settle(self, attempt: str, ending: Ending, heard: Callable[[], None]) -> None:
        self.settled[attempt] = ending
        self._answer(heard)

    def _answer(self, told: Callable[[], None]) -> None:
        if self.waits:
            self.waiting.append(told)
        else:
            told()

    def catch_up(self) -> None:
        waiting, self.waiting = self.waiting, []
        for told in waiting:
            told()


class Client:
    def __init__(self) -> None:
        self.flights: dict[Id, Flying] = {}
        self.codes: dict[Id, str] = {}

    def answered(self, ident: Id, line: bytes | None) -> None:
        self.flights.pop(ident, None)
        if line is not None:
            result = orjson.loads(line)["result"]
            self.codes[ident] = result["_meta"]["ai.handler/error"]["error"] if "_meta" in result else "ok"

    def send(self, line: bytes) -> None: ...

    def report(self, line: bytes) -> None: ...


class Scene:
    def __init__(self, books: Books | None = None, *, effect: str = "external", **limits: Any) -> None:
        self.clock = 100.0
        self.lane = FakeLane()
        self.dispatch = FakeDispatch(self.lane)
        self.exchange = Exchange(self.dispatch, lambda: 1_700_000_000.0, lambda: self.clock)
        self.books = self.exchange.effects = books or Books()
        self.routes = stage.routes(stage.route(mail(effect, **limits)))
        self.client = Client()
        self.guests: dict[str, Guest] = {}

    def call(self, ident: Id, text: str = "hi", session: str = "s1") -> Flight:
        guest = self.guests.setdefault(session, Guest(session, self.routes, self.exchange))
        served = guest.at("services")
        assert served is not None
        assert not served.ways  # nothing with an effect goes straight
        params = {"name": TOOL, "arguments": {"text": text}}
        line = orjson.dumps({"jsonrpc": "2.0", "id": ident, "method": "tools/call", "params": params})
        ask = mcp.answer(served.face, jsonrpc.decode(line))
        assert isinstance(ask, mcp.Call)
        self.client.flights[ident] = flight = Flight(guest.desks["mail"], self.client, ask, len(line))
        flight.begin()
        return flight

    def records(self) -> list[CallRecord]:
        return self.exchange.records()


def test_nothing_is_sent_before_it_is_kept_nor_answered_before_its_end_is() -> None:
    scene = Scene(Books(waits=True))
    scene.call(1)
    assert [one.arguments for one in scene.books.begun] == [HI]
    assert scene.lane.sent == []
    assert scene.lane.holds == 1  # it does not stop for being idle meanwhile
    scene.books.catch_up()
    scene.lane.sent[0].answer(text="ho")
    assert scene.client.codes == {}
    assert scene.books.settled["a1"].effect == "happened"
    scene.books.catch_up()
    assert scene.client.codes == {1: "ok"}
    assert scene.lane.holds == 0
    assert [(one.code, one.attempt) for one in scene.records()] == [("ok", "a1")]


def test_the_same_call_waits_for_the_first_ones_outcome() -> None:
    scene = Scene(concurrentCalls=1)
    scene.call(1)
    scene.call(2)
    scene.call(3, "other")
    assert [one.arguments for one in scene.lane.sent] == [HI]
    scene.lane.sent[0].answer(text="ho")
    assert scene.client.codes == {1: "ok", 2: "ok"}
    assert [one.arguments["text"] for one in scene.lane.sent] == ["hi", "other"]
    scene.call(4)  # the same again, later: a wish of its own
    assert len(scene.books.begun) == 2
    scene.lane.sent[1].answer(text="ho")
    assert len(scene.books.begun) == 3


def test_who_waits_goes_itself_where_the_first_one_is_given_up_before_it_was_sent() -> None:
    scene = Scene(Books(waits=True))
    first = scene.call(1)
    scene.call(2)
    first.cancel()
    assert scene.client.codes == {}
    scene.books.catch_up()
    assert scene.books.settled["a1"] == Ending(
        "none", "unavailable", "its time was up before it was sent", was_sent=False
    )
    assert len(scene.lane.sent) == 1
    scene.lane.sent[0].answer(text="ho")
    scene.books.catch_up()
    assert scene.client.codes == {2: "ok"}


@pytest.mark.parametrize("way", ["cancel", "abandon"])
def test_a_call_whose_agent_leaves_goes_on_and_the_agent_gets_its_outcome_later(way: str) -> None:
    scene = Scene()
    flight = scene.call(1)
    flight.cancel() if way == "cancel" else flight.abandon("its session ended")
    assert not scene.lane.sent[0].cancelled
    assert scene.client.codes == ({} if way == "cancel" else {1: "outcome_unknown"})
    assert not scene.client.flights
    scene.call(2, session="s2")  # it asks again while the first goes on…
    scene.lane.sent[0].answer(text="ho")
    assert scene.client.codes[2] == "ok"
    assert (len(scene.lane.sent), scene.books.settled["a1"].effect) == (1, "happened")
    assert not scene.exchange.adrift
    third = scene.call(3)
    third.cancel()
    scene.lane.sent[1].answer(text="ho")
    scene.call(4, session="s3")  # …or after it
    assert (scene.client.codes[4], len(scene.lane.sent)) == ("ok", 2)
    scene.call(5, session="s3")  # once
    assert len(scene.lane.sent) == 3
    assert scene.exchange.running == 1


def test_what_a_local_effect_did_is_not_told_twice() -> None:
    scene = Scene(effect="local")
    scene.call(1).cancel()
    scene.lane.sent[0].answer(text="ho")
    scene.call(2)
    assert len(scene.lane.sent) == 2


def test_a_late_call_is_unknown_and_a_late_begin_never_sent() -> None:
    scene = Scene(timeoutSeconds=5)
    flight = scene.call(1)
    scene.clock += 5
    assert flight.is_late()
    flight.expire()
    assert scene.lane.sent[0].cancelled
    assert scene.client.codes == {1: "outcome_unknown"}
    assert scene.books.settled["a1"].effect == "unknown"
    slow = Scene(Books(waits=True), timeoutSeconds=5)
    slow.call(1).expire()
    assert slow.client.codes == {1: "unavailable"}
    slow.books.catch_up()
    assert slow.lane.sent == []
    assert not slow.books.settled["a1"].was_sent


def test_a_late_call_that_never_went_out_did_nothing() -> None:
    scene = Scene(timeoutSeconds=5)
    flight = scene.call(1)
    scene.lane.cancel = lambda number: False  # type: ignore[method-assign]
    flight.expire()
    assert scene.client.codes == {1: "unavailable"}
    assert not scene.books.settled["a1"].was_sent


def test_a_connector_that_does_not_start_leaves_no_attempt() -> None:
    scene = Scene()
    scene.dispatch.given = Refusal("unavailable", "it does not start")
    scene.call(1)
    assert scene.client.codes == {1: "unavailable"}
    assert scene.books.begun == []


def test_without_a_ledger_nothing_is_sent() -> None:
    scene = Scene()
    scene.exchange.effects = Exchange(scene.dispatch, lambda: 0.0, lambda: 0.0).effects
    scene.call(1)
    assert (scene.client.codes, scene.lane.sent) == ({1: "unavailable"}, [])


def test_an_agent_with_such_tools_reads_what_unknown_means() -> None:
    plain = stage.route(stage.echo())
    assert "outcome_unknown" not in mcp.instructions([plain])
    told = mcp.instructions([plain, stage.route(mail())])
    assert "- error outcome_unknown: it may have happened: do not repeat it" in told


def film() -> Contract:
    handle = {"type": "string"}
    said = {
        "apiVersion": "handler.interface/v1", "name": "film", "version": 1, "description": "Films.",
        "operations": {"film_make_submit": {"kind": "job", "effect": "paid"}},
        "errors": {
            "not_ready": "not yet", "cancelled": "it was cancelled", "blocked": "it was blocked",
            "outcome_unknown": "it may have been made",
        },
    }  # fmt: skip
    seen = stage.closed(job=handle, state=stage.TEXT, _progress=stage.NUMBER, _error=stage.TEXT)
    return compiled(
        Interface.model_validate(said),
        orjson.dumps(
            [
                stage.tool("film_make_submit", stage.closed(text=stage.TEXT), seen),
                stage.tool("film_make_status", stage.closed(job=handle), seen),
                stage.tool("film_make_result", stage.closed(job=handle), stage.closed(url=stage.TEXT)),
                stage.tool("film_make_cancel", stage.closed(job=handle), seen),
            ]
        ),
    )


def asked(tool: str, seen: JobSeen | Refusal, **more: Any) -> Any:
    route = stage.route(film(), **more)
    arguments = {"text": "a cat"} if tool == "submit" else {"job": "h"}
    law = serve(route, route.contract.tools[f"film_make_{tool}"], arguments, Usage(route))
    assert law.send(None) == AskJob("job" if tool == "submit" else tool, arguments)  # type: ignore[arg-type]
    with pytest.raises(StopIteration) as end:
        law.send(seen)
    outcome = end.value.value
    return outcome.code if isinstance(outcome, Refused) else orjson.loads(outcome.structured)


@pytest.mark.parametrize(
    ("state", "error", "told"),
    [
        ("working", "", "not_ready"),
        ("cancelled", "", "cancelled"),
        ("unknown", "outcome_unknown", "outcome_unknown"),
        ("failed", "blocked", "blocked"),
        ("failed", "a_vendors_word", "unavailable"),
        ("succeeded", "", {"url": "film"}),
    ],
)
def test_a_result_is_an_answer_of_the_interface_or_one_of_its_errors(
    state: Any, error: str, told: object
) -> None:
    seen = JobSeen("a1", "h", state, error=error, structured=b'{"url":"film"}')
    assert asked("result", seen) == told
    status = {"job": "h", "state": state} | ({"error": told} if error else {})
    assert asked("status", seen) == asked("cancel", seen) == status


def test_a_submitted_job_is_its_handle_and_goes_on_being_asked_about_when_its_binding_is_closed() -> None:
    working = JobSeen("a1", "h", "working", 0.25)
    assert asked("submit", working) == {"job": "h", "state": "working"}
    assert asked("status", working, suspended="it is suspended")["progress"] == 0.25
    assert asked("status", Refusal("refused", "not yours")) == "refused"
    route = stage.route(film(), suspended="it is suspended")
    law = serve(route, route.contract.tools["film_make_submit"], {"text": "x"}, Usage(route))
    with pytest.raises(StopIteration) as end:
        law.send(None)
    assert end.value.value.code == "unavailable"


def test_more_calls_about_jobs_at_once_than_a_session_may_make_are_refused() -> None:
    route = stage.route(film())
    usage, tool = Usage(route), route.contract.tools["film_make_status"]

    def begun() -> Any:
        law = serve(route, tool, {"job": "h"}, usage)
        try:
            return law.send(None), law
        except StopIteration as end:
            return end.value, law

    laws = [begun()[1] for _ in range(QUEUE)]
    assert begun()[0].code == "limit"
    laws[0].close()
    assert isinstance(begun()[0], AskJob)


def test_a_result_outside_the_contract_is_not_told() -> None:
    assert asked("result", JobSeen("a1", "h", "succeeded", structured=b'{"vendor":1}')) == "unavailable"
    assert asked("result", JobSeen("a1", "h", "succeeded", structured=b"\x00")) == "unavailable"
