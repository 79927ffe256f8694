"""What is known of what serves: heard from calls and probes, told with its age, and heeded before a call."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from reconciler.control import told, truths
from reconciler.control.attentive import Attentive
from reconciler.control.truths import Truths
from reconciler.model.calls import CallRecord, Lane, Refusal, Reply
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.model.recipes import Recipe, SandboxPolicy
from reconciler.model.status import Condition

RECIPE = Recipe("ocr", "c", "python", "0", "", "", (), (), (), (), SandboxPolicy(), "none", "0")
NAME, REF = RECIPE.name, ObjectRef(Kind.BINDING, "ocr")


class World:
    def __init__(self, recipe: Recipe = RECIPE) -> None:
        self.now = 1_000_000.0
        self.recipes = {NAME: recipe}
        self.events: list[tuple[str, ...]] = []
        self.truths = Truths(lambda: self.now, self.recipes.get)
        self.truths.event = lambda *words: self.events.append(words)
        self.truths.meet(NAME)

    def readiness(self) -> list[tuple[str, str, str]]:
        seen = self.truths.observations().get(REF)
        found = seen.observations if seen else ()
        return [(one.subject.operation, one.value, one.reason) for one in found if one.kind == "readiness"]

    def fails(self, times: int = 1, tool: str = "ocr_extract") -> None:
        for _ in range(times):
            self.now += 0.1
            self.truths.unanswered(NAME, tool, Refusal("unavailable", own=True))

    def answers(self, code: str = "ok", tool: str = "ocr_extract") -> None:
        self.now += 0.1
        self.truths.called(
            CallRecord(self.now, "1", "s", "clerk", "ocr/v1", tool, "ocr", str(NAME), code, 1.0, 1, 1)
        )


class Inner:
    """A dispatch whose one lane keeps what it was sent."""

    inbox = outbox = -1

    def __init__(self) -> None:
        self.sent: list[str] = []

    def lane(self, instance: InstanceName) -> Lane | None:
        return self

    def open_lane(self, instance: InstanceName, ready: Callable[[Lane | Refusal], None]) -> None:
        ready(self)

    def send(self, tool: str, arguments: Mapping[str, Any], sink: Any, max_reply_bytes: int) -> int:
        self.sent.append(tool)
        return len(self.sent)

    def cancel(self, number: int) -> bool:
        return True

    def hold(self) -> None: ...

    def release(self) -> None: ...


class Sink:
    def __init__(self) -> None:
        self.heard: list[Reply] = []

    def done(self, reply: Reply) -> None:
        self.heard.append(reply)


def test_a_tool_that_does_not_answer_is_left_alone_and_its_neighbour_is_not() -> None:
    world = World()
    world.answers(tool="ocr_pages")
    world.fails(3)
    assert world.readiness() == [
        ("ocr_extract", "not-ready", "NotAnswering"), ("ocr_pages", "ready", "Answering"),
    ]  # fmt: skip
    refusal = world.truths.let_in(NAME, "ocr_extract")
    assert refusal is not None
    assert (refusal.code, refusal.no_effect) == ("unavailable", "unsent")
    assert world.truths.let_in(NAME, "ocr_pages") is None
    world.now += 5
    assert world.truths.let_in(NAME, "ocr_extract") is None  # the one that tries
    assert world.truths.let_in(NAME, "ocr_extract") is not None
    world.answers()
    assert world.truths.let_in(NAME, "ocr_extract") is None
    assert [words[2] for words in world.events] == ["NotAnswering", "Answering"]
    assert not world.truths.poor


@pytest.mark.parametrize("code", ["invalid_input", "refused", "limit", "cancelled", "unavailable"])
def test_what_the_router_itself_refused_says_nothing_of_the_service(code: str) -> None:
    world = World()
    world.fails(2)
    world.answers(code)
    world.fails()
    assert world.readiness() == [("ocr_extract", "not-ready", "NotAnswering")]


def test_an_error_of_the_interface_is_an_answer() -> None:
    world = World()
    world.fails(2)
    world.answers("not_a_document")
    world.fails(2)
    assert world.readiness() == [("ocr_extract", "ready", "Answering")]


def test_calls_of_what_had_its_lane_before_any_are_heard_of() -> None:
    """An instance that was proven is open already, and nobody opens a lane to it."""
    world = World()
    world.truths = Truths(lambda: world.now, world.recipes.get)
    world.answers()
    assert world.readiness() == []
    Attentive(Inner(), world.truths, world.recipes.get).lane(NAME)
    world.answers()
    assert world.readiness() == [("ocr_extract", "ready", "Answering")]


def test_nothing_is_sent_while_a_tool_is_not_ready() -> None:
    """Report 16: a backend that listed its models and failed every call kept its place for 85 minutes."""

    async def played() -> None:
        world, inner, sink = World(), Inner(), Sink()
        attentive = Attentive(inner, world.truths, world.recipes.get)
        assert attentive.lane(NAME) is inner  # of what is well nothing is asked
        world.fails(3)
        world.truths.heard_of_models(NAME, frozenset({"m"}), ["ocr_extract"], declared=("m",))
        lane = attentive.lane(NAME)
        assert lane is not None
        number = lane.send("ocr_extract", {}, sink, 100)  # type: ignore[arg-type]
        assert (sink.heard, inner.sent) == ([], [])  # not before its sender knows the number
        await asyncio.sleep(0)
        (reply,) = sink.heard
        assert isinstance(reply, Refusal)
        assert reply.code == "unavailable"
        assert lane.cancel(number) is False
        world.now += 5
        lane.send("ocr_extract", {}, sink, 100)  # type: ignore[arg-type]
        assert inner.sent == ["ocr_extract"]
        world.answers()
        assert attentive.lane(NAME) is inner

    asyncio.run(played())


def test_a_link_that_is_down_closes_every_tool_and_one_that_is_up_opens_none() -> None:
    world = World()
    world.truths.heard_of_link(NAME, up=False, why="nothing is there")
    assert world.truths.let_in(NAME, "anything") is not None
    world.truths.heard_of_link(NAME, up=True)
    assert world.truths.let_in(NAME, "anything") is None
    world.fails(3)
    world.truths.heard_of_link(NAME, up=True)
    assert world.readiness() == [("ocr_extract", "not-ready", "NotAnswering")]
    assert world.truths.let_in(NAME, "ocr_extract") is not None
    seen = world.truths.observations()[REF]
    (linked, ready) = sorted(told.conditions(seen, []), key=lambda one: one.type)
    assert (linked.type, linked.status, linked.reason) == ("Linked", "True", "Reachable")
    assert (ready.type, ready.status, ready.reason) == ("ProfileReady", "False", "NotAnswering")
    shown = told.ready(seen, Condition("Ready", "True", "Running"))
    assert (shown.status, shown.reason) == ("False", "NotAnswering")


def test_a_word_of_the_link_that_is_too_old_closes_nothing() -> None:
    world = World()
    world.truths.heard_of_link(NAME, up=False)
    world.now += 10 * truths.LINK_LOCAL_S
    assert world.truths.let_in(NAME, "anything") is None


def test_a_list_of_models_takes_away_and_never_gives() -> None:
    world = World()
    listed = frozenset({".git", "Dockerfile", "LICENSE", "small"})
    world.truths.heard_of_models(NAME, listed, ["llm_complete"], declared=("small",))
    assert world.readiness() == []
    seen = world.truths.observations()[REF]
    assert (seen.missing, seen.undeclared) == ((), 3)
    world.truths.heard_of_models(NAME, listed, ["llm_complete"], declared=("small", "large"))
    assert world.readiness() == []  # the other one serves
    assert world.truths.observations()[REF].missing == ("large",)
    assert world.events == [("binding/ocr", "Warning", "ModelMissing", "'large' is not listed")]
    world.truths.heard_of_models(NAME, listed, ["llm_complete"], declared=("large",))
    assert world.readiness() == [("llm_complete", "not-ready", "ModelMissing")]
    world.truths.heard_of_models(NAME, listed | {"large"}, ["llm_complete"], declared=("large",))
    assert world.readiness() == [("llm_complete", "not-ready", "ModelMissing")]  # a real call gives it back


def test_of_two_instances_the_list_last_heard_is_told_and_that_of_one_that_is_gone_is_not() -> None:
    world, after = World(), InstanceName("ocr", "1" * 64)
    world.recipes[after] = RECIPE
    world.truths.heard_of_models(NAME, frozenset({"small"}), [], declared=("small", "large"))
    world.now += 1
    world.truths.heard_of_models(after, frozenset({"small", "other"}), [], declared=("small",))
    seen = world.truths.observations()[REF]
    assert (seen.missing, seen.undeclared) == ((), 1)  # though the one before still ends its calls
    world.recipes.clear()
    world.truths.sweep()
    assert world.truths.observations() == {}


def test_a_call_without_a_byte_is_noticed_while_it_is_out() -> None:
    """Report 15: health answers while the engine behind it is dead."""

    async def played() -> None:
        world = World()
        silent = world.truths.watch(NAME, "llm_complete", 0.01)
        await asyncio.sleep(0.1)
        silent.end()
        assert world.readiness() == [("llm_complete", "not-ready", "NotAnswering")]
        world.truths.heard_of_link(NAME, up=True, why="health answers")
        assert world.truths.let_in(NAME, "llm_complete") is not None

    asyncio.run(played())


def test_the_same_words_are_told_anew_only_when_they_are_about_to_lose_their_worth() -> None:
    world = World()
    stirs: list[None] = []
    world.truths.changed = lambda: stirs.append(None)
    for _ in range(100):
        world.answers()
    assert len(stirs) == 1
    world.now += truths.LOCAL_S
    world.answers()
    assert len(stirs) == 2


def test_nothing_is_known_of_what_is_gone_and_a_person_may_have_it_forgotten() -> None:
    world = World()
    world.fails(3)
    world.answers(tool="ocr_layout")
    world.truths.forget("ocr")
    assert world.truths.let_in(NAME, "ocr_extract") is None
    assert world.readiness() == [("ocr_layout", "ready", "Answering")]
    world.fails(3)
    world.recipes.clear()
    world.truths.sweep()
    assert world.truths.observations() == {}
    assert not world.truths.poor


def test_whoever_reaches_another_machine_is_remote() -> None:
    assert not truths.is_remote(RECIPE)
    assert not truths.is_remote(replace(RECIPE, egress=("127.0.0.1:8080", "[::1]:80")))
    assert truths.is_remote(replace(RECIPE, egress=("127.0.0.1:8080", "api.example.com:443")))
