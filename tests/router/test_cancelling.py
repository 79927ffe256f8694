"""A call may be given up at any moment of its life: nothing more is sent for it, and nothing is kept."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from reconciler.model.calls import Result
from reconciler.router import mcp, telling
from reconciler.router.handoff import HandOff
from reconciler.router.peers import Pinned
from tests.router import stage
from tests.router.stage import FakeLane
from tests.router.test_server import Agent, Set, base_of, run, stage_set, until_clean, with_files

MODERN = {
    "io.modelcontextprotocol/protocolVersion": mcp.MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def cancel(ident: Any) -> bytes:
    params = {"requestId": ident, "reason": "the user said so"}
    return orjson.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}) + b"\n"


async def nothing_but_a_ping(agent: Agent) -> None:
    """What was sent so far has no answer."""
    assert (await agent.ask("ping", "ping"))["id"] == "ping"


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.002)


class Gate:
    """Holds one step of the hand-off of files in its thread until it is opened."""

    def __init__(self, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()
        real = getattr(HandOff, step)

        def held(handoff: HandOff, *args: Any) -> Any:
            self.entered.set()
            assert self.opened.wait(30)
            return real(handoff, *args)

        monkeypatch.setattr(HandOff, step, held)


def writing_a_page(base: Any) -> Callable[[stage.Sent], None]:
    """A connector that leaves its output file as agreed."""

    def then(call: stage.Sent) -> None:
        blob = call.arguments["to"]["blob"]
        (base / "out" / blob).write_bytes(b"page")
        call.sink.done(Result({"pages": 1}, {"to": blob}))

    return then


@pytest.mark.parametrize("step", ["look", "fill", "place"])
def test_a_call_may_be_given_up_while_its_files_are_handed_over(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with with_files(None) as (play, lane), play.agent() as agent:
            base = base_of(play)
            (base / "work" / "a.pdf").write_bytes(b"%PDF")
            lane.then = writing_a_page(base)
            with monkeypatch.context() as patch:
                gate = Gate(step, patch)
                agent.call(1, "ocr_merge", paths=["a.pdf"], to="page.txt")
                await until(gate.entered.is_set)
                agent.send(cancel(1), cancel(1))
                await nothing_but_a_ping(agent)
                gate.opened.set()
            await until_clean(play)
            assert len(lane.sent) == (step == "place")  # before it was sent, nothing was sent
            if step != "place":  # what was being put in its place may still have got there
                assert not (base / "work" / "page.txt").exists()
            agent.call(1, "ocr_merge", paths=["a.pdf"], to="other.txt")
            message = await agent.message()
            assert (message["id"], message["result"]["structuredContent"]) == (1, {"pages": 1})
            assert (base / "work" / "other.txt").read_bytes() == b"page"
            assert [one.code for one in await play.recorded(2)] == ["cancelled", "ok"]
            await until_clean(play)
            assert lane.holds == 0

    run(test)


async def it_runs(play: Set, agent: Agent, lane: FakeLane) -> None:
    play.dispatch.start(lane)
    agent.call(1, "echo_say", text="x")
    await until(lambda: len(lane.sent) == 1)


async def its_connector_starts(play: Set, agent: Agent, _: FakeLane) -> None:
    agent.call(1, "echo_say", text="x")
    await until(lambda: bool(play.dispatch.waiting))


async def it_waits_for_a_turn(play: Set, agent: Agent, lane: FakeLane) -> None:
    play.dispatch.start(lane)
    agent.call("before", "echo_say", text="x")
    agent.call(1, "echo_say", text="x")
    await nothing_but_a_ping(agent)
    assert len(lane.sent) == 1


async def it_was_asked_to_report(play: Set, agent: Agent, lane: FakeLane) -> None:
    play.dispatch.start(lane)
    agent.call(1, "echo_say", {"progressToken": "t"} | MODERN, text="x")
    await until(lambda: len(lane.sent) == 1)


Moment = Callable[[Set, Agent, FakeLane], Awaitable[None]]
MOMENTS: tuple[Moment, ...] = (
    it_runs, its_connector_starts, it_waits_for_a_turn, it_was_asked_to_report,
)  # fmt: skip


@asynccontextmanager
async def one_at_a_time() -> AsyncIterator[tuple[Set, FakeLane]]:
    async with stage_set(None, stage.routes(stage.route(stage.echo(concurrentCalls=1)))) as play:
        yield play, FakeLane()


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.__name__)
def test_a_call_that_is_given_up_is_never_heard_of_again(moment: Moment) -> None:
    async def test() -> None:
        async with one_at_a_time() as (play, lane), play.agent() as agent, play.agent() as other:
            await moment(play, agent, lane)
            other.send(cancel(1))  # of another connection: it has no such call
            await nothing_but_a_ping(other)
            assert not any(one.cancelled for one in lane.sent)
            agent.send(cancel(1), cancel(1), cancel("1"), cancel(2))
            await nothing_but_a_ping(agent)
            if not lane.sent:
                play.dispatch.start(lane)
                await nothing_but_a_ping(agent)
                assert not lane.sent  # it was given up before there was a connector
            for one in lane.sent:  # whatever its connector says of it now
                assert one.cancelled == (len(lane.sent) == 1 and moment is not it_waits_for_a_turn)
                one.sink.progress(1.0, 2.0)
                one.answer(text="late")
            if moment is it_waits_for_a_turn:
                assert (await agent.message())["id"] == "before"
            await nothing_but_a_ping(agent)
            agent.call(1, "echo_say", text="again")  # the id is free at once
            await until(lambda: bool(lane.sent) and lane.sent[-1].arguments["text"] == "again")
            lane.sent[-1].answer(text="again")
            message = await agent.message()
            assert (message["id"], message["result"]["structuredContent"]) == (1, {"text": "again"})
            codes = sorted(one.code for one in await play.recorded(2 + (moment is it_waits_for_a_turn)))
            assert codes[0] == "cancelled"
            assert set(codes[1:]) == {"ok"}
            usage = play.router.guest(Pinned("s1", play.routes)).desks["echo"].usage
            assert (usage.running, usage.waiting) == (0, 0)

    run(test)


def test_a_subscription_that_is_given_up_is_not_answered_at_the_end() -> None:
    async def test() -> None:
        async with stage_set(FakeLane()) as play, play.agent() as agent:
            for ident in ("stays", "goes"):
                acknowledged = await agent.ask(ident, "subscriptions/listen", _meta=MODERN, notifications={})
                tag = {"io.modelcontextprotocol/subscriptionId": ident}
                assert acknowledged["params"] == {"notifications": {}, "_meta": tag}
            agent.send(cancel("goes"), cancel("goes"))
            await nothing_but_a_ping(agent)
            assert (await agent.ask("goes", "ping"))["result"] == {}  # the id is free
            await play.router.close("s/1")
            last = await agent.message()
            assert (last["id"], last["result"]["_meta"]) == (
                "stays", {"io.modelcontextprotocol/subscriptionId": "stays"},
            )  # fmt: skip
            assert await agent.line() == b""

    run(test)


def test_subscriptions_of_one_connection_are_bounded() -> None:
    async def test() -> None:
        async with stage_set(FakeLane()) as play, play.agent() as agent:
            for ident in range(16):
                await agent.ask(ident, "subscriptions/listen", _meta=MODERN)
            assert (await agent.ask(16, "subscriptions/listen", _meta=MODERN))["error"]["code"] == -32603
            agent.send(cancel(3))
            assert "params" in await agent.ask(16, "subscriptions/listen", _meta=MODERN)

    run(test)


def test_progress_is_told_so_often_and_no_oftener_and_still_grows_afterwards() -> None:
    async def test() -> None:
        lane = FakeLane()
        async with stage_set(lane) as play, play.agent() as agent:
            agent.call(1, "echo_say", {"progressToken": 7}, text="x")
            await until(lambda: bool(lane.sent))
            sink = lane.sent[0].sink
            for done in range(1_000):
                sink.progress(float(done), None)
            play.ahead[0] += 1.5
            sink.progress(500.5, None)
            sink.progress(2_000.0, 2_000.0)
            lane.sent[0].answer(text="y")
            told = []
            while "id" not in (message := await agent.message()):
                assert set(message["params"]) <= {"progressToken", "progress", "total"}
                assert message["params"]["progressToken"] == 7
                told.append(message["params"]["progress"])
            assert told[-1] == 2_000.0
            assert told == sorted(set(told))
            assert len(told) <= 3 * telling._MAX_TOLD

    run(test)
