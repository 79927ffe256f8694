"""The router on real sockets: many agents, bad agents, files, deadlines, and the official client."""

import asyncio
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
import uvloop

from reconciler.model.calls import CallRecord, Refusal, Result
from reconciler.model.routes import AgentRoutes, ScopeFolder
from reconciler.router import connection, mcp, server
from reconciler.router.server import Door, Peer, Pinned, Router
from tests.router import stage
from tests.router.stage import FakeDispatch, FakeLane

PATIENCE_S = 20


def run(test: Callable[[], Awaitable[None]], patience_s: float = PATIENCE_S) -> None:
    """Run on uvloop, as the daemon does; nothing may be logged as lost."""

    async def watched() -> None:
        faults: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        async with asyncio.timeout(patience_s):
            await test()
        assert not faults, faults

    uvloop.run(watched())


class Agent:
    """A client that speaks lines and waits for them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def __aenter__(self) -> "Agent":
        self.reader, self.writer = await asyncio.open_unix_connection(str(self.path), limit=64 * 2**20)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    def send(self, *messages: dict[str, Any] | bytes) -> None:
        for message in messages:
            self.writer.write(message if isinstance(message, bytes) else orjson.dumps(message) + b"\n")

    def call(self, ident: Any, name: str, meta: dict[str, Any] | None = None, /, **arguments: Any) -> None:
        params = {"name": name, "arguments": arguments} | ({"_meta": meta} if meta else {})
        self.send({"jsonrpc": "2.0", "id": ident, "method": "tools/call", "params": params})

    async def line(self) -> bytes:
        return await self.reader.readline()

    async def message(self) -> dict[str, Any]:
        line = await self.line()
        assert line, "the router closed the connection"
        found: dict[str, Any] = orjson.loads(line)
        return found

    async def ask(self, ident: Any, method: str, **params: Any) -> dict[str, Any]:
        self.send({"jsonrpc": "2.0", "id": ident, "method": method, "params": params})
        return await self.message()


@dataclass
class Set:
    """A router with one door, and what came of it."""

    router: Router
    dispatch: FakeDispatch
    folder: Path
    routes: AgentRoutes
    records: list[CallRecord]
    ahead: list[float]  # seconds that the router's clock is ahead of the machine's
    joined: list[Peer] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    session: str = "s1"
    refusal: str | None = None

    def pin(self, peer: Peer) -> Pinned | str:
        if self.refusal is not None:
            return self.refusal
        self.joined.append(peer)
        return Pinned(self.session, self.routes)

    def door(self, interfaces: tuple[str, ...] | None = None) -> Door:
        return Door("s/1", self.folder, self.pin, interfaces or tuple(self.routes.routes), self.left.append)

    def agent(self, name: str = "services") -> Agent:
        return Agent(self.folder / f"{name}.sock")

    async def recorded(self, count: int = 1) -> list[CallRecord]:
        while len(self.records) < count:
            await asyncio.sleep(0.005)
        return self.records


@asynccontextmanager
async def stage_set(lane: FakeLane | Refusal | None, routes: AgentRoutes | None = None) -> AsyncIterator[Set]:
    dispatch = FakeDispatch(lane)
    with tempfile.TemporaryDirectory(prefix="hr-") as folder:
        records: list[CallRecord] = []
        ahead = [0.0]
        router = Router(
            dispatch,
            record=records.append,
            now=lambda: 1_700_000_000.0,
            clock=lambda: time.monotonic() + ahead[0],
        )
        routes = routes or stage.routes(stage.route(stage.echo()))
        made = Set(router, dispatch, Path(folder) / "s", routes, records, ahead)
        await router.open(made.door())
        try:
            yield made
        finally:
            await router.close("s/1")


def text_of(message: dict[str, Any]) -> str:
    return str(message["result"]["_meta"]["ai.handler/error"]["error"])


def test_a_call_goes_through_and_leaves_a_record_without_its_payload() -> None:
    async def test() -> None:
        async with stage_set(FakeLane(stage.echoing)) as play, play.agent("echo") as agent:
            agent.call("a", "echo_say", text="CANARY")
            message = await agent.message()
            assert message["id"] == "a"
            assert message["result"]["structuredContent"] == {"text": "CANARY"}
            (record,) = await play.recorded()
            assert (record.session, record.agent, record.interface) == ("s1", "clerk", "echo/v1")
            assert (record.tool, record.binding, record.code) == ("echo_say", "echo-vendor", "ok")
            assert record.instance == "echo-vendor@abababababab"
            assert record.out_bytes == len(b'{"text":"CANARY"}')
            assert "CANARY" not in repr(record)

    run(test)


def test_sockets_are_the_owner_s_alone() -> None:
    async def test() -> None:
        async with stage_set(None) as play:
            assert stat.S_IMODE(play.folder.stat().st_mode) == 0o700
            sockets = {path.name: path.stat().st_mode for path in play.folder.iterdir()}
            assert set(sockets) == {"echo.sock", "services.sock"}
            for mode in sockets.values():
                assert stat.S_ISSOCK(mode)
                assert stat.S_IMODE(mode) == 0o600
        assert not play.folder.exists()

    run(test)


def test_services_sock_serves_every_interface_and_the_others_one() -> None:
    async def test() -> None:
        routes = stage.routes(stage.route(stage.echo()), stage.route(stage.ocr()))
        async with stage_set(FakeLane(stage.echoing), routes) as play:
            found = {}
            for name in ("echo", "ocr", "services"):
                async with play.agent(name) as agent:
                    tools = (await agent.ask(1, "tools/list"))["result"]["tools"]
                    found[name] = [tool["name"] for tool in tools]
            assert found["services"] == found["echo"] + found["ocr"]
            async with play.agent("ocr") as agent:
                agent.call(1, "echo_say", text="x")
                assert (await agent.message())["error"]["code"] == -32602

    run(test)


def test_calls_run_at_once_and_are_answered_as_they_end() -> None:
    async def test() -> None:
        lane = FakeLane()
        async with stage_set(lane) as play, play.agent() as agent:
            for ident in (7, "7", "007", " 7 "):
                agent.call(ident, "echo_say", text="x")
            while len(lane.sent) < 4:
                await asyncio.sleep(0)
            for number in (2, 0, 3, 1):
                lane.sent[number].answer(text=str(number))
            answers = [await agent.message() for _ in range(4)]
            assert [(one["id"], one["result"]["structuredContent"]["text"]) for one in answers] == [
                ("007", "2"), (7, "0"), (" 7 ", "3"), ("7", "1"),
            ]  # fmt: skip

    run(test)


def test_a_cancel_stops_exactly_that_call_and_nothing_more_is_sent_for_it() -> None:
    async def test() -> None:
        lane = FakeLane()
        async with stage_set(lane) as play, play.agent() as agent:
            for ident in (7, "7", "007"):
                agent.call(ident, "echo_say", text="x")
            for ident in ("nobody", 8, True, 7.0, "007"):
                note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": ident}}
                agent.send(note)
            assert (await agent.ask("p", "ping"))["id"] == "p"
            assert [call.cancelled for call in lane.sent] == [False, False, True]
            lane.sent[2].answer(text="late")
            lane.sent[0].answer(text="a")
            lane.sent[1].answer(text="b")
            assert [(await agent.message())["id"] for _ in range(2)] == [7, "7"]
            assert [record.code for record in await play.recorded(3)] == ["cancelled", "ok", "ok"]

    run(test)


def test_a_hundred_cancels_all_reach_the_connector() -> None:
    async def test() -> None:
        lane = FakeLane()
        routes = stage.routes(stage.route(stage.echo(concurrentCalls=100)))
        async with stage_set(lane, routes) as play, play.agent() as agent:
            for ident in range(100):
                agent.call(ident, "echo_say", text="x")
            for ident in range(50):
                note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": ident}}
                agent.send(note)
            await agent.ask("p", "ping")
            agent.writer.close()  # the other fifty by leaving
            await play.recorded(100)
            assert all(call.cancelled for call in lane.sent)
            assert len(lane.sent) == 100
            desk = play.router.guest(Pinned("s1", routes)).desks["echo"]
            assert (desk.usage.running, desk.usage.waiting) == (0, 0)

    run(test)


def test_a_caller_that_leaves_mid_call_harms_nobody() -> None:
    async def test() -> None:
        lane = FakeLane()
        async with stage_set(lane) as play, play.agent() as stays:
            async with play.agent() as leaves:
                leaves.call(1, "echo_say", text="x")
                await leaves.ask("p", "ping")
            await play.recorded()
            lane.sent[0].answer(text="late")
            stays.call(1, "echo_say", text="x")
            await stays.ask("p", "ping")
            lane.sent[1].answer(text="fine")
            assert (await stays.message())["result"]["structuredContent"] == {"text": "fine"}
            assert len(play.left) == 1

    run(test)


def test_an_id_that_is_in_use_is_refused_and_the_first_call_goes_on() -> None:
    async def test() -> None:
        lane = FakeLane()
        async with stage_set(lane) as play, play.agent() as agent:
            agent.call(1, "echo_say", text="x")
            agent.call(1, "echo_say", text="y")
            message = await agent.message()
            assert (message["id"], message["error"]["code"]) == (None, -32600)
            lane.sent[0].answer(text="x")
            assert (await agent.message())["id"] == 1

    run(test)


def test_the_connection_survives_every_refusal() -> None:
    async def test() -> None:
        async with stage_set(FakeLane(stage.echoing)) as play, play.agent() as agent:
            for line, code in (
                (b"hello\n", -32700),
                (b"[]\n", -32600),
                (b"\xff\xfe\n", -32700),
                (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}\n', -32700),
                (b"[" * 70 + b"]" * 70 + b"\n", -32700),
                (b"x" * (5 * 2**20) + b"\n", -32700),
                (b'{"jsonrpc":"2.0","id":1,"method":"nope"}\n', -32601),
                (b'{"jsonrpc":"2.0","id":true,"method":"ping"}\n', -32600),
            ):
                agent.send(line)
                assert (await agent.message())["error"]["code"] == code
            agent.send(b'\n  \r\n{"jsonrpc":"2.0","id":5,"result":{}}\n')
            agent.call(9, "echo_say", text="before\u2028after\u2029end\u0085x")
            assert (await agent.message())["result"]["structuredContent"][
                "text"
            ] == "before\u2028after\u2029end\u0085x"

    run(test)


def test_calls_before_initialize_are_served_and_a_second_initialize_is_answered() -> None:
    async def test() -> None:
        async with stage_set(FakeLane(stage.echoing)) as play, play.agent() as agent:
            agent.call(1, "echo_say", text="x")
            assert "result" in await agent.message()
            for ident in (2, 3):
                assert "result" in await agent.ask(ident, "initialize", protocolVersion="2025-06-18")

    run(test)


def test_progress_is_told_only_to_who_asked_only_upward_and_without_the_connector_s_words() -> None:
    async def test() -> None:
        lane = FakeLane()
        async with stage_set(lane) as play, play.agent() as agent:
            agent.call(1, "echo_say", {"progressToken": "t"}, text="x")
            agent.call(2, "echo_say", text="x")
            await agent.ask("p", "ping")
            assert [call.sink.wants_progress for call in lane.sent] == [True, False]
            for number, progress in ((0, 1.0), (0, 1.0), (0, 0.5), (1, 1.0), (0, 2.0)):
                lane.sent[number].sink.progress(progress, 4.0)
            lane.sent[0].answer(text="x")
            lane.sent[0].sink.progress(3.0, 4.0)
            params = [(await agent.message())["params"] for _ in range(2)]
            assert [one["progress"] for one in params] == [1.0, 2.0]
            assert params[0] == {"progressToken": "t", "progress": 1.0, "total": 4.0}
            assert (await agent.message())["id"] == 1

    run(test)


def test_a_late_call_is_unavailable_and_the_connector_is_told_to_stop() -> None:
    async def test() -> None:
        lane = FakeLane()
        async with stage_set(lane) as play, play.agent() as agent:
            agent.call(1, "echo_say", text="x")
            await agent.ask("p", "ping")
            play.ahead[0] += 121
            message = await agent.message()
            assert text_of(message) == "unavailable"
            assert lane.sent[0].cancelled
            (record,) = await play.recorded()
            assert (record.code, record.diagnostic) == ("unavailable", "no end within 120 s")
            lane.sent[0].answer(text="late")
            assert (await agent.ask("p", "ping"))["id"] == "p"

    run(test)


def test_a_call_above_the_limit_waits_and_the_next_of_its_kind_is_not_starved() -> None:
    async def test() -> None:
        lane = FakeLane()
        routes = stage.routes(stage.route(stage.echo(concurrentCalls=1, timeoutSeconds=100)))
        async with stage_set(lane, routes) as play, play.agent() as agent:
            for ident in (1, 2, 3):
                agent.call(ident, "echo_say", text=str(ident))
            await agent.ask("p", "ping")
            assert len(lane.sent) == 1
            lane.sent[0].answer(text="one")
            assert (await agent.message())["id"] == 1
            assert len(lane.sent) == 2
            play.ahead[0] += 101
            ended = {one["id"]: text_of(one) for one in [await agent.message(), await agent.message()]}
            assert ended == {2: "unavailable", 3: "limit"}
            agent.call(4, "echo_say", text="4")
            await agent.ask("p", "ping")
            assert [call.arguments["text"] for call in lane.sent] == ["1", "2", "4"]

    run(test)


def test_a_waiting_call_can_be_cancelled() -> None:
    async def test() -> None:
        lane = FakeLane()
        routes = stage.routes(stage.route(stage.echo(concurrentCalls=1)))
        async with stage_set(lane, routes) as play, play.agent() as agent:
            for ident in (1, 2, 3):
                agent.call(ident, "echo_say", text=str(ident))
            agent.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
            await agent.ask("p", "ping")
            lane.sent[0].answer(text="one")
            assert (await agent.message())["id"] == 1
            assert [call.arguments["text"] for call in lane.sent] == ["1", "3"]

    run(test)


def test_what_a_session_used_is_counted_over_its_connections_until_it_is_forgotten() -> None:
    async def test() -> None:
        routes = stage.routes(stage.route(stage.echo(callsPerSession=2)))
        async with stage_set(FakeLane(stage.echoing), routes) as play:
            codes = []
            for turn in range(4):
                if turn == 3:
                    play.router.forget("s1")
                async with play.agent("echo" if turn % 2 else "services") as agent:
                    agent.call(1, "echo_say", text="x")
                    message = await agent.message()
                    codes.append("ok" if "structuredContent" in message["result"] else text_of(message))
            assert codes == ["ok", "ok", "limit", "ok"]

    run(test)


@pytest.mark.parametrize(
    ("arguments", "reply"),
    [
        ({"text": "x"}, Result({"text": "y"}, {})),
        ({"text": "x"}, Result({"text": 5}, {})),
        ({"text": "x"}, Result({}, {})),
        ({"text": "x"}, Refusal("unavailable", "why")),
        ({"text": "x"}, Refusal("boom", "why")),
        ({"text": 5}, Result({"text": "y"}, {})),
        ({}, Result({"text": "y"}, {})),
        ({"text": "x", "wait_for_previous": True}, Result({"text": "y"}, {})),
    ],
)
def test_a_call_sent_at_once_ends_as_the_law_says(arguments: dict[str, Any], reply: Any) -> None:
    """A call that finds its connector running goes the short way; one that starts it goes by the law."""

    async def test() -> None:
        lines, records = [], []
        for start in (True, False):
            lane = FakeLane(stage.replied(reply))
            async with stage_set(None if start else lane) as play, play.agent() as agent:
                agent.call(1, "echo_say", **arguments)
                if start:
                    while not play.dispatch.waiting and not play.records:
                        await asyncio.sleep(0.005)
                    play.dispatch.start(lane)
                lines.append(await agent.message())
                (record,) = await play.recorded()
                records.append(replace(record, at=0, ms=0))
                usage = play.router.guest(Pinned("s1", play.routes)).desks["echo"].usage
                assert (usage.running, usage.waiting) == (0, 0)
        assert lines[0] == lines[1]
        assert records[0] == records[1]

    run(test)


def test_an_argument_that_an_agent_made_up_is_named_to_it_and_not_in_the_record() -> None:
    async def test() -> None:
        async with stage_set(FakeLane()) as play, play.agent() as agent:
            agent.call(1, "echo_say", text="x", CANARY="y")
            assert "CANARY is not a field" in repr(await agent.message())
            (record,) = await play.recorded()
            assert record.code == "invalid_input"
            assert record.diagnostic
            assert "CANARY" not in repr(record)

    run(test)


def test_a_session_that_has_ended_ends_its_connections_and_no_others() -> None:
    """The next connection of the same process begins another session: each is told of its own end."""

    async def test() -> None:
        async with stage_set(FakeLane()) as play, play.agent() as first:
            first.call(1, "echo_say", text="x")
            await first.ask("p", "ping")
            play.session = "s2"
            async with play.agent() as second:
                await second.ask("p", "ping")
                play.router.forget("s1")
                assert (await first.message())["result"]["isError"]
                assert await first.reader.read() == b""
                (record,) = await play.recorded()
                assert (record.session, record.code) == ("s1", "unavailable")
                assert play.left == ["s1"]
                await second.ask("p", "ping")

    run(test)


def test_a_first_call_waits_for_the_connector_to_start() -> None:
    async def test() -> None:
        async with stage_set(None) as play, play.agent() as agent:
            agent.call(1, "echo_say", text="x")
            agent.call(2, "echo_say", text="y")
            agent.call(3, "echo_say", text="z")
            agent.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
            await agent.ask("p", "ping")
            assert len(play.dispatch.waiting) == 3
            play.dispatch.start(FakeLane(stage.echoing))
            assert [(await agent.message())["id"] for _ in range(2)] == [1, 3]

    run(test)


def test_a_connector_that_cannot_start_is_unavailable_and_the_reason_is_the_operator_s() -> None:
    async def test() -> None:
        async with stage_set(Refusal("unavailable", "SandboxUnavailable: no bwrap")) as play:
            async with play.agent() as agent:
                agent.call(1, "echo_say", text="x")
                line = await agent.line()
                assert b"bwrap" not in line
                assert text_of(orjson.loads(line)) == "unavailable"
            assert (await play.recorded())[0].diagnostic == "SandboxUnavailable: no bwrap"

    run(test)


def test_a_connector_s_words_never_reach_the_agent() -> None:
    async def test() -> None:
        boom = "boom\nTraceback (most recent call last): CANARY-7f3a"
        lane = FakeLane(stage.replied(Refusal("HTTP 500", boom)))
        async with stage_set(lane) as play, play.agent() as agent:
            agent.call(1, "echo_say", text="x")
            line = await agent.line()
            assert b"CANARY" not in line
            assert b"HTTP" not in line
            assert b"vendor" not in line

    run(test)


def test_a_connection_without_a_session_is_told_why() -> None:
    async def test() -> None:
        async with stage_set(None) as play:
            play.refusal = "agent 'clerk' cannot start: interface ocr/v1 has no binding"
            async with play.agent() as agent:
                error = (await agent.ask(1, "initialize"))["error"]
                assert (error["code"], error["message"]) == (connection.NO_SESSION, play.refusal)
                agent.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
                assert (await agent.ask(2, "tools/list"))["id"] == 2
            await asyncio.sleep(0)
            assert not play.left

    run(test)


def test_an_interface_that_the_session_lacks_is_named() -> None:
    async def test() -> None:
        async with stage_set(None) as play:
            await play.router.open(play.door(("echo", "ocr")))
            async with play.agent("ocr") as agent:
                assert "'ocr'" in (await agent.ask(1, "tools/list"))["error"]["message"]

    run(test)


def test_the_kernel_says_who_connects() -> None:
    async def test() -> None:
        async with stage_set(FakeLane(stage.echoing)) as play, play.agent() as agent:
            await agent.ask(1, "ping")
            (peer,) = play.joined
            assert (peer.pid, peer.uid, peer.parent_pid) == (os.getpid(), os.geteuid(), os.getppid())
            assert peer.parent_start > 0

    run(test)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can connect as somebody else")
def test_another_user_is_not_served() -> None:
    async def test() -> None:
        async with stage_set(FakeLane(stage.echoing)) as play:
            path = play.folder / "echo.sock"
            for opened in (path.parent.parent, path.parent, path):
                opened.chmod(0o777)
            code = (
                "import os, socket, sys\n"
                "os.setgid(12345); os.setuid(12345)\n"
                "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
                'try:\n    s.sendall(b\'{"jsonrpc":"2.0","id":1,"method":"ping"}\\n\'); got = s.recv(100)\n'
                "except OSError:\n    got = b''\n"
                "print(len(got))"
            )
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-S", "-c", code, str(path), stdout=subprocess.PIPE
            )
            out, _ = await process.communicate()
            assert out == b"0\n"
            assert not play.joined

    run(test)


@pytest.mark.slow
def test_one_connection_s_flood_does_not_stop_another() -> None:
    async def test() -> None:
        async with stage_set(FakeLane(stage.echoing)) as play, play.agent() as flood, play.agent() as calm:
            await calm.ask(0, "ping")
            ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
            flood.send(ping * 20_000, b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n')
            slowest = 0.0
            for ident in range(50):
                start = time.perf_counter()
                assert (await calm.ask(ident, "ping"))["id"] == ident
                slowest = max(slowest, time.perf_counter() - start)
            while (await flood.message())["id"] == 1:
                pass
            assert slowest < 0.5

    run(test)


def test_an_agent_that_does_not_read_is_dropped_and_the_others_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        big = {"text": "x" * 2_000_000}
        lane = FakeLane(lambda call: call.sink.done(Result(big, {})))
        routes = stage.routes(stage.route(stage.echo(concurrentCalls=100)))
        async with stage_set(lane, routes) as play, play.agent() as other:
            deaf = socket.socket(socket.AF_UNIX)
            deaf.connect(str(play.folder / "echo.sock"))
            request = {
                "jsonrpc": "2.0",
                "method": "tools/call",
                "params": {"name": "echo_say", "arguments": {"text": "x"}},
            }
            deaf.sendall(b"".join(orjson.dumps(request | {"id": ident}) + b"\n" for ident in range(10)))
            await play.recorded(1)
            play.ahead[0] += 11  # it has not read for longer than it may
            while not play.left:
                await asyncio.sleep(0.01)
            assert (await other.ask(1, "ping"))["id"] == 1
            deaf.close()

    run(test)


def test_an_agent_that_only_stopped_writing_still_gets_its_answers() -> None:
    async def test() -> None:
        lane = FakeLane()
        async with stage_set(lane) as play, play.agent() as agent:
            agent.call(1, "echo_say", text="x")
            agent.writer.write_eof()
            while not lane.sent:
                await asyncio.sleep(0)
            lane.sent[0].answer(text="y")
            assert (await agent.message())["id"] == 1
            assert await agent.line() == b""

    run(test)


def test_closing_a_door_ends_calls_answers_subscriptions_and_leaves_no_socket() -> None:
    async def test() -> None:
        lane = FakeLane()
        modern = {
            "io.modelcontextprotocol/protocolVersion": mcp.MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        routes = stage.routes(stage.route(stage.echo(concurrentCalls=2)))
        async with stage_set(lane, routes) as play, play.agent("echo") as agent:
            listening = await agent.ask("sub", "subscriptions/listen", _meta=modern, notifications={})
            assert listening["method"] == "notifications/subscriptions/acknowledged"
            for ident in range(4):
                agent.call(ident, "echo_say", text="x")  # of which two may run, and two wait
            await agent.ask("p", "ping")
            assert len(lane.sent) == 2
            await play.router.close("s/1")
            assert (await agent.message())["id"] == "sub"
            told = [await agent.message() for _ in range(4)]
            assert {one["id"] for one in told} == {0, 1, 2, 3}
            for one in told:
                assert one["result"]["_meta"]["ai.handler/error"]["error"] == "unavailable"
            assert await agent.line() == b""
            assert len(lane.sent) == 2
            assert {(one.code, one.diagnostic) for one in await play.recorded(4)} == {
                ("unavailable", "its session ended while it ran")
            }
            assert lane.sent[0].cancelled
            assert not play.folder.exists()
            with pytest.raises(OSError, match=r"No such file|refused"):
                await asyncio.open_unix_connection(str(play.folder / "echo.sock"))
            await play.router.close("s/1")

    run(test)


def test_a_door_that_is_opened_again_changes_its_sockets_and_keeps_its_connections() -> None:
    async def test() -> None:
        async with stage_set(FakeLane(stage.echoing)) as play, play.agent("echo") as agent:
            await agent.ask(1, "ping")
            await play.router.open(play.door(("ocr",)))
            assert {path.name for path in play.folder.iterdir()} == {"ocr.sock", "services.sock"}
            assert (await agent.ask(2, "ping"))["id"] == 2

    run(test)


def test_a_dead_socket_is_replaced_and_anything_else_is_left_alone() -> None:
    async def test() -> None:
        async with stage_set(None) as play:
            await play.router.close("s/1")
            play.folder.mkdir()
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(str(play.folder / "echo.sock"))
            await play.router.open(play.door())
            async with play.agent("echo") as agent:
                assert (await agent.ask(1, "ping"))["id"] == 1
            await play.router.close("s/1")
            play.folder.mkdir()
            (play.folder / "echo.sock").write_text("precious")
            with pytest.raises(FileExistsError):
                await play.router.open(play.door())
            assert (play.folder / "echo.sock").read_text() == "precious"
            (play.folder / "echo.sock").unlink()

    run(test)


def test_a_socket_path_that_is_too_long_is_refused_before_anything_listens() -> None:
    async def test() -> None:
        async with stage_set(None) as play:
            play.folder /= "x" * 100
            with pytest.raises(ValueError, match="longer than 107 bytes"):
                await play.router.open(Door("s/2", play.folder, play.pin, ("echo",), play.left.append))

    run(test)


def test_a_door_takes_only_so_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_MAX_CONNECTIONS", 2)

    async def test() -> None:
        async with stage_set(None) as play, play.agent() as one, play.agent() as two:
            await one.ask(1, "ping")
            await two.ask(1, "ping")
            async with play.agent() as three:
                assert "connections" in (await three.ask(1, "ping"))["error"]["message"]
            assert len(play.joined) == 2

    run(test)


def test_connections_beyond_all_measure_are_not_even_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs a descriptor, and the controller has only so many for everything that it does."""
    monkeypatch.setattr(server, "_MAX_CONNECTIONS", 1)
    monkeypatch.setattr(server, "_MAX_REFUSED", 1)

    async def test() -> None:
        async with stage_set(None) as play, play.agent() as one, play.agent() as told:
            await one.ask(1, "ping")
            await told.ask(1, "ping")
            async with play.agent() as unheard:
                assert await unheard.reader.read() == b""
            told.send(b"x" * 70_000)  # one that is not served has no long lines to say
            assert "bytes" in (await told.message())["error"]["message"]
            await one.ask(1, "ping")

    run(test)


def test_unfinished_lines_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_MAX_HELD", 2**20)

    async def test() -> None:
        async with stage_set(None) as play, play.agent() as one, play.agent() as two:
            one.send(b'"' + b"x" * 700_000)
            await one.writer.drain()
            two.send(b'"' + b"x" * 700_000)
            assert await two.reader.read() == b""
            one.send(b'"\n')
            assert (await one.message())["error"]["code"] == -32600

    run(test)


# files, from a scope to a connector and back


@asynccontextmanager
async def with_files(
    then: Callable[[stage.Sent], None] | None, **limits: Any
) -> AsyncIterator[tuple[Set, FakeLane]]:
    with tempfile.TemporaryDirectory(prefix="hf-") as folder:
        base = Path(folder)
        for name in ("work", "in", "out"):
            (base / name).mkdir()
        boxes = [os.open(base / name, os.O_RDONLY) for name in ("in", "out")]
        lane = FakeLane(then, *boxes)
        routes = stage.routes(stage.route(stage.ocr(**limits)), scope=(ScopeFolder(str(base / "work")),))
        async with stage_set(lane, routes) as play:
            yield play, lane
        for box in boxes:
            os.close(box)


def base_of(play: Set) -> Path:
    return Path(play.routes.scope[0].path).parent


def left_in(play: Set) -> list[str]:
    return [path.name for box in ("in", "out") for path in (base_of(play) / box).iterdir()]


async def until_clean(play: Set) -> None:
    while left_in(play):
        await asyncio.sleep(0.005)


def test_a_connector_meets_the_file_s_bytes_and_name_and_never_its_path() -> None:
    async def test() -> None:
        met: list[Any] = []

        def read(call: stage.Sent) -> None:
            value = call.arguments["path"]
            met.append((value, (base_of(play) / "in" / value["blob"]).read_bytes()))
            call.answer(pages=[{"text": "read"}])

        async with with_files(read) as (play, lane), play.agent() as agent:
            (base_of(play) / "work" / "invoice.pdf").write_bytes(b"%PDF")
            agent.call(1, "ocr_extract", path=f"{base_of(play)}/work/invoice.pdf")
            assert (await agent.message())["result"]["structuredContent"] == {"pages": [{"text": "read"}]}
            ((value, data),) = met
            assert data == b"%PDF"
            assert value == {
                "name": "invoice.pdf",
                "mediaType": "application/pdf",
                "size": 4,
                "blob": value["blob"],
            }
            (record,) = await play.recorded()
            assert record.files[0][:2] == ("path", 4)
            assert len(record.files[0][2]) == 64
            await until_clean(play)
            assert lane.holds == 0

    run(test)


def test_missing_and_forbidden_read_the_same() -> None:
    async def test() -> None:
        async with with_files(None) as (play, lane), play.agent() as agent:
            (base_of(play) / "secret").write_text("x")
            (base_of(play) / "work" / "link").symlink_to(base_of(play) / "secret")
            (base_of(play) / "work" / "d").symlink_to("/etc")
            answers = set()
            for path in (
                "missing",
                "../secret",
                "link",
                "d/hostname",
                "/etc/hostname",
                "/nowhere",
                "a\0b",
                ".",
            ):
                agent.call(1, "ocr_extract", path=path)
                answers.add(await agent.line())
            (answer,) = answers
            assert text_of(orjson.loads(answer)) == "refused"
            assert not lane.sent

    run(test)


def test_a_file_above_the_limit_is_too_large() -> None:
    async def test() -> None:
        async with with_files(None, maxFileBytes=10) as (play, lane), play.agent() as agent:
            (base_of(play) / "work" / "big").write_bytes(b"x" * 11)
            agent.call(1, "ocr_extract", path="big")
            assert text_of(await agent.message()) == "too_large"
            assert not lane.sent

    run(test)


def merge(call: stage.Sent, base: Path, data: bytes = b"merged") -> None:
    texts = [(base / "in" / one["blob"]).read_bytes() for one in call.arguments["paths"]]
    blob = call.arguments["to"]["blob"]
    (base / "out" / blob).write_bytes(data)
    call.answer({"to": blob}, pages=len(texts))


def test_many_files_go_in_and_one_comes_out() -> None:
    async def test() -> None:
        async with with_files(lambda call: merge(call, base_of(play))) as (play, _), play.agent() as agent:
            for name in ("a", "b"):
                (base_of(play) / "work" / name).write_text(name)
            agent.call(1, "ocr_merge", paths=["a", "b"], to="c.txt")
            assert (await agent.message())["result"]["structuredContent"] == {"pages": 2}
            assert (base_of(play) / "work" / "c.txt").read_bytes() == b"merged"
            assert [one[:2] for one in (await play.recorded())[0].files] == [
                ("paths", 1),
                ("paths", 1),
                ("to", 6),
            ]
            agent.call(2, "ocr_merge", paths=["a"], to="c.txt")
            assert text_of(await agent.message()) == "refused"
            await until_clean(play)
            assert {path.name for path in (base_of(play) / "work").iterdir()} == {"a", "b", "c.txt"}

    run(test)


def test_a_connector_cannot_name_another_s_file() -> None:
    async def test() -> None:
        def steal(call: stage.Sent) -> None:
            (base_of(play) / "out" / "theirs").write_text("theirs")
            call.answer({"to": "theirs"}, pages=0)

        async with with_files(steal) as (play, _), play.agent() as agent:
            agent.call(1, "ocr_merge", paths=[], to="c.txt")
            assert text_of(await agent.message()) == "unavailable"
            assert not list((base_of(play) / "work").iterdir())

    run(test)


def test_a_call_that_is_cancelled_while_its_files_are_copied_leaves_nothing() -> None:
    async def test() -> None:
        async with with_files(None, maxFileBytes=10**9) as (play, lane), play.agent() as agent:
            with (base_of(play) / "work" / "big").open("wb") as big:
                big.truncate(500_000_000)
            agent.call(1, "ocr_extract", path="big")
            while not left_in(play):
                await asyncio.sleep(0.001)
            agent.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
            (record,) = await play.recorded()
            assert record.code == "cancelled"
            await until_clean(play)
            assert not lane.sent
            assert lane.holds == 0

    run(test)


def test_files_without_a_scope_are_refused() -> None:
    async def test() -> None:
        async with (
            stage_set(FakeLane(), stage.routes(stage.route(stage.ocr()))) as play,
            play.agent() as agent,
        ):
            agent.call(1, "ocr_extract", path="a.pdf")
            assert text_of(await agent.message()) == "refused"

    run(test)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
def test_a_large_file_takes_little_memory_and_never_blocks_the_loop() -> None:
    async def test() -> None:
        async with with_files(lambda call: call.answer(pages=[]), maxFileBytes=10**8) as (play, _):
            (base_of(play) / "work" / "big").write_bytes(os.urandom(2**20) * 50)
            async with play.agent() as agent, play.agent() as other:
                agent.call(0, "ocr_extract", path="big")  # threads and buffers exist from now on
                await agent.message()
                before, most, slowest = resident_bytes(), 0, 0.0
                agent.call(1, "ocr_extract", path="big")
                answer = asyncio.ensure_future(agent.message())
                while not answer.done():
                    start = (
                        time.thread_time()
                    )  # what the loop itself spends; a busy machine adds nothing to it
                    await other.ask(1, "ping")
                    slowest = max(slowest, time.thread_time() - start)
                    most = max(most, resident_bytes())
                assert "structuredContent" in answer.result()["result"]
            assert most - before < 4 * 2**20
            assert slowest < 0.1

    run(test)


def test_freed_memory_goes_back_once_nobody_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    given_back: list[float] = []
    monkeypatch.setattr(server, "_REST_S", 0.05)
    monkeypatch.setattr(server.memory, "give_back", lambda: given_back.append(time.monotonic()))

    async def test() -> None:
        async with stage_set(FakeLane(stage.echoing)) as play, play.agent() as agent:
            for ident in range(3):
                agent.call(ident, "echo_say", text="x")
                await agent.message()
                assert not given_back
            last = time.monotonic()
            while not given_back:
                await asyncio.sleep(0.005)
            assert given_back[0] > last

    run(test)


def test_many_answers_before_a_half_closed_end_all_arrive() -> None:
    async def test() -> None:
        routes = stage.routes(stage.route(stage.echo(concurrentCalls=100)))
        async with stage_set(FakeLane(stage.echoing), routes) as play, play.agent() as agent:
            for ident in range(100):
                agent.call(ident, "echo_say", text="x")
            agent.writer.write_eof()
            lines = [await agent.line() for _ in range(100)]
            assert [orjson.loads(line)["id"] for line in lines] == list(range(100))
            assert await agent.line() == b""

    run(test)


def test_answers_of_calls_that_end_together_all_arrive() -> None:
    async def test() -> None:
        lane = FakeLane()
        routes = stage.routes(stage.route(stage.echo(concurrentCalls=100)))
        async with stage_set(lane, routes) as play, play.agent() as one, play.agent() as two:
            for ident in range(10):
                for agent in (one, two):
                    agent.call(ident, "echo_say", text="x")
            await one.ask("p", "ping")
            await two.ask("p", "ping")
            for sent in lane.sent:
                sent.answer(text="y")
            for agent in (one, two):
                assert [(await agent.message())["id"] for _ in range(10)] == list(range(10))

    run(test)


@pytest.mark.parametrize("harm", ["unlink", "exchange", "folder"])
def test_a_socket_that_was_taken_away_is_there_again_and_its_connections_stay(harm: str) -> None:
    async def test() -> None:
        async with stage_set(FakeLane(stage.echoing)) as play, play.agent("echo") as agent:
            assert play.router.unreachable() == {}
            path = play.folder / "echo.sock"
            if harm == "folder":
                shutil.rmtree(play.folder)
            else:
                path.unlink()
            if harm == "exchange":
                with socket.socket(socket.AF_UNIX) as other:
                    other.bind(str(path))
            lost = ("echo", "services") if harm == "folder" else ("echo",)
            assert play.router.unreachable() == {"s/1": lost}
            await play.router.listen_again("s/1", lost)
            assert play.router.unreachable() == {}
            agent.call("a", "echo_say", text="old")
            assert (await agent.message())["result"]["structuredContent"] == {"text": "old"}
            for name in ("echo", "services"):
                async with play.agent(name) as newcomer:
                    newcomer.call("b", "echo_say", text="new")
                    assert (await newcomer.message())["result"]["structuredContent"] == {"text": "new"}
            assert stat.S_IMODE(path.stat().st_mode) == 0o600

    run(test)


def test_what_is_no_socket_stays_and_the_door_is_tried_again() -> None:
    async def test() -> None:
        async with stage_set(FakeLane(stage.echoing)) as play:
            path = play.folder / "echo.sock"
            path.unlink()
            path.write_text("mine")
            with pytest.raises(FileExistsError, match="is not a socket"):
                await play.router.listen_again("s/1", ("echo",))
            assert path.read_text() == "mine"
            assert play.router.unreachable() == {"s/1": ("echo",)}
            path.unlink()
            await play.router.listen_again("s/1", ("echo",))
            assert play.router.unreachable() == {}

    run(test)
