"""The dispatcher: one connection an instance, whatever the connector at its other end does."""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
import uvloop

import reconciler
from reconciler.control import dispatch
from reconciler.control.dispatch import Connector, Dispatcher
from reconciler.model.calls import Lane, Refusal, Reply, Result
from reconciler.model.names import InstanceName
from reconciler.model.status import Reason
from reconciler.runtime.supervisor import Unready
from tests.kit import values

NAME = InstanceName("echo-a", "ab" * 32)
RECIPE = replace(values.recipe(), max_concurrent_calls=2, ready_timeout_s=10)
KIT = Path(reconciler.__file__).parent / "kit"
MAX = 100_000


class Heard:
    """A sink: what a call came to."""

    def __init__(self, *, wants_progress: bool = False, caller: str = "clerk") -> None:
        self.caller = caller
        self.wants_progress = wants_progress
        self.reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.steps: list[tuple[float, float | None]] = []

    def progress(self, progress: float, total: float | None) -> None:
        self.steps.append((progress, total))

    def done(self, reply: Reply) -> None:
        assert not self.reply.done(), "told twice"
        self.reply.set_result(reply)


class Far:
    """The connector's end, played by the test."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    async def open(self) -> "Far":
        self.reader, self.writer = await asyncio.open_unix_connection(sock=self.connection, limit=2**24)
        return self

    async def message(self) -> dict[str, Any]:
        line = await self.reader.readline()
        assert line, "the dispatcher closed the connection"
        found: dict[str, Any] = orjson.loads(line)
        return found

    def send(self, **message: Any) -> None:
        self.write(orjson.dumps({"jsonrpc": "2.0"} | message) + b"\n")

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    async def initialize(self) -> None:
        asked = await self.message()
        assert asked["method"] == "initialize"
        self.send(id=asked["id"], result={"protocolVersion": "2025-11-25"})

    def answer(self, call: dict[str, Any], **structured: Any) -> None:
        self.send(id=call["id"], result={"structuredContent": structured, "content": []})

    async def call(self) -> dict[str, Any]:
        while (found := await self.message())["method"] != "tools/call":
            pass
        return found


class Instance:
    """A supervisor of one instance, whose connector the test plays. It is its own endpoint."""

    def __init__(self, folder: Path) -> None:
        (folder / "in").mkdir()
        (folder / "out").mkdir()
        self.inbox = os.open(folder / "in", os.O_RDONLY)
        self.outbox = os.open(folder / "out", os.O_RDONLY)
        self.fars: asyncio.Queue[socket.socket] = asyncio.Queue()
        self.started = 0
        self.holds = 0
        self.is_ready = False
        self.unready: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.reports: asyncio.Queue[tuple[Reason | None, str]] = asyncio.Queue()
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.echoes: Callable[[bytes], bool] | None = None

    def connect(self) -> socket.socket:
        if self.ended.done():
            raise ConnectionRefusedError(111, "refused")
        near, far = socket.socketpair(socket.AF_UNIX)
        near.setblocking(False)
        far.setblocking(False)
        self.fars.put_nowait(far)
        return near

    async def ready(self, name: InstanceName) -> "Instance":
        assert name == NAME
        self.started += 1
        await self.gate.wait()
        if self.unready is not None:
            raise self.unready
        return self

    def hold(self, name: InstanceName) -> None:
        self.holds += 1

    def release(self, name: InstanceName) -> None:
        self.holds -= 1
        assert self.holds >= 0

    def answered(self, name: InstanceName) -> None:
        self.is_ready = True

    def broken(self, name: InstanceName, reason: Reason | None, message: str) -> None:
        self.reports.put_nowait((reason, message))


class Play:
    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.dispatcher = Dispatcher(instance, recipe=lambda _: RECIPE)
        self.fars: list[Far] = []

    async def close(self) -> None:
        """Hang up at every end and see that the dispatcher has let go."""
        if not self.instance.ended.done():
            self.instance.ended.set_result("exit 0")
        while not self.instance.fars.empty():
            self.instance.fars.get_nowait().close()
        for far in self.fars:
            far.writer.transport.abort()
        lane = self.dispatcher.lane(NAME)
        while lane is not None and lane.inbox >= 0:
            await asyncio.sleep(0.001)
        os.close(self.instance.inbox)
        os.close(self.instance.outbox)

    async def lane(self) -> Lane | Refusal:
        came: asyncio.Future[Lane | Refusal] = asyncio.get_running_loop().create_future()
        self.dispatcher.open_lane(NAME, came.set_result)
        return await came

    async def open(self, *, initialized: bool = True) -> tuple[Connector, Far]:
        lane = await self.lane()
        assert isinstance(lane, Connector)
        far = await Far(await self.instance.fars.get()).open()
        self.fars.append(far)
        if initialized:
            await far.initialize()
            assert (await far.message())["method"] == "notifications/initialized"
        return lane, far

    async def drained(self) -> None:
        """Until the process may stop: a moment after its last call."""
        while self.instance.holds:
            await asyncio.sleep(0.001)


def run(test: Callable[[Play], Awaitable[None]]) -> None:
    async def watched() -> None:
        faults: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        async with asyncio.timeout(20):
            with tempfile.TemporaryDirectory(prefix="hd-") as folder:
                instance = Instance(Path(folder))
                play = Play(instance)
                try:
                    await test(play)
                finally:
                    await play.close()
        assert not faults, faults

    uvloop.run(watched())


def test_the_first_call_follows_initialize_without_waiting_for_its_answer() -> None:
    async def test(play: Play) -> None:
        assert play.dispatcher.lane(NAME) is None
        lane, far = await play.open(initialized=False)
        sink = Heard()
        lane.send("echo_say", {"text": "x"}, sink, MAX)
        assert play.dispatcher.lane(NAME) is lane
        asked = await far.message()
        call = await far.message()
        assert (asked["method"], call["method"]) == ("initialize", "tools/call")
        assert call["params"] == {"name": "echo_say", "arguments": {"text": "x"}}
        assert not play.instance.is_ready
        far.send(id=asked["id"], result={"protocolVersion": "2025-11-25"})
        far.answer(call, text="y")
        assert await sink.reply == Result({"text": "y"}, {})
        assert play.instance.is_ready

    run(test)


def test_only_an_answer_to_initialize_proves_an_instance() -> None:
    async def test(play: Play) -> None:
        proved: asyncio.Future[Refusal | None] = asyncio.get_running_loop().create_future()
        play.dispatcher.prove(NAME, proved.set_result)
        _, far = await play.open(initialized=False)
        await asyncio.sleep(0)
        assert not proved.done()
        await far.initialize()
        assert await proved is None
        again: list[Refusal | None] = []
        play.dispatcher.prove(NAME, again.append)
        assert again == [None]

    run(test)


def test_a_connector_that_ends_without_an_answer_proves_nothing() -> None:
    async def test(play: Play) -> None:
        proved: asyncio.Future[Refusal | None] = asyncio.get_running_loop().create_future()
        play.dispatcher.prove(NAME, proved.set_result)
        _, far = await play.open(initialized=False)
        play.instance.ended.set_result("exit 3")
        far.writer.close()
        assert await proved == Refusal("unavailable", "the connector ended: exit 3")
        play.instance.unready = Unready("CrashLoop", "five exits in a minute")
        refused: asyncio.Future[Refusal | None] = asyncio.get_running_loop().create_future()
        play.dispatcher.prove(NAME, refused.set_result)
        assert await refused == Refusal("unavailable", "five exits in a minute", "CrashLoop")

    run(test)


def test_the_start_is_one_however_many_ask() -> None:
    async def test(play: Play) -> None:
        play.instance.gate.clear()
        lanes: list[Lane | Refusal] = []
        for _ in range(200):
            play.dispatcher.open_lane(NAME, lanes.append)
        await asyncio.sleep(0)
        play.instance.gate.set()
        while len(lanes) < 200:
            await asyncio.sleep(0)
        assert play.instance.started == 1
        assert len(set(map(id, lanes))) == 1

    run(test)


@pytest.mark.parametrize(
    "fault", [Unready("SandboxUnavailable", "no bwrap"), ConnectionRefusedError(111, "refused")]
)
def test_an_instance_that_does_not_start_refuses_and_the_next_call_tries_again(fault: Exception) -> None:
    async def test(play: Play) -> None:
        play.instance.unready = fault
        lane = await play.lane()
        assert isinstance(lane, Refusal)
        assert lane.code == "unavailable"
        assert "refused" in lane.diagnostic or "no bwrap" in lane.diagnostic
        play.instance.unready = None
        assert isinstance(await play.lane(), Connector)

    run(test)


def test_answers_find_their_calls_in_any_order_and_the_process_is_held_meanwhile() -> None:
    async def test(play: Play) -> None:
        lane, far = await play.open()
        assert play.instance.holds == 0
        sinks = [Heard(), Heard()]
        for number, sink in enumerate(sinks):
            lane.send("echo_say", {"text": str(number)}, sink, MAX)
        assert play.instance.holds == 1
        calls = [await far.call(), await far.call()]
        for call in reversed(calls):
            far.answer(call, text=call["params"]["arguments"]["text"])
        assert [await sink.reply for sink in sinks] == [Result({"text": "0"}, {}), Result({"text": "1"}, {})]
        await play.drained()

    run(test)


def test_calls_above_the_binding_s_bound_wait_in_their_order() -> None:
    async def test(play: Play) -> None:
        lane, far = await play.open()
        sinks = [Heard() for _ in range(5)]
        numbers = [lane.send("echo_say", {"text": str(n)}, sink, MAX) for n, sink in enumerate(sinks)]
        calls = [await far.call(), await far.call()]
        far.send(method="notifications/message")
        lane.cancel(numbers[2])  # it has not gone out: the connector hears nothing of it
        far.answer(calls[0], text="0")
        third = await far.message()
        assert third["params"]["arguments"] == {"text": "3"}
        far.answer(calls[1], text="1")
        fourth = await far.message()
        assert fourth["params"]["arguments"] == {"text": "4"}
        far.answer(third, text="3")
        far.answer(fourth, text="4")
        await sinks[4].reply
        assert not sinks[2].reply.done()
        await play.drained()

    run(test)


def test_one_agent_s_waiting_calls_do_not_starve_another_s() -> None:
    async def test(play: Play) -> None:
        lane, far = await play.open()
        for number in range(64):
            lane.send("echo_say", {"text": f"greedy {number}"}, Heard(caller="greedy"), MAX)
        out = [await far.call(), await far.call()]  # as many as the recipe takes at once
        sinks = [Heard(caller="modest") for _ in range(2)]
        for number, sink in enumerate(sinks):
            lane.send("echo_say", {"text": f"modest {number}"}, sink, MAX)
        heard = []
        for _ in range(4):
            far.answer(out.pop(0), text="x")
            out.append(await far.call())
            heard.append(out[-1]["params"]["arguments"]["text"])
        assert heard == ["greedy 2", "modest 0", "greedy 3", "modest 1"]

    run(test)


def test_a_cancelled_call_is_told_to_the_connector_and_its_late_answer_dropped_and_counted() -> None:
    async def test(play: Play) -> None:
        lane, far = await play.open()
        sink, other = Heard(), Heard()
        number = lane.send("echo_say", {"text": "x"}, sink, MAX)
        call = await far.call()
        lane.cancel(number)
        note, ping = await far.message(), await far.message()
        assert (note["method"], note["params"]) == ("notifications/cancelled", {"requestId": call["id"]})
        assert ping["method"] == "ping"
        far.send(id=ping["id"], result={})
        far.answer(call, text="late")
        lane.send("echo_say", {"text": "y"}, other, MAX)
        far.answer(await far.call(), text="y")
        await other.reply
        assert not sink.reply.done()
        assert (lane.late, lane.garbage) == (1, 0)
        assert play.instance.reports.empty()

    run(test)


def test_a_connector_that_is_silent_after_a_cancel_is_broken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatch, "_PING_S", 0.05)

    async def test(play: Play) -> None:
        lane, far = await play.open()
        stuck, other = Heard(), Heard()
        number = lane.send("echo_say", {"text": "x"}, stuck, MAX)
        lane.send("echo_say", {"text": "y"}, other, MAX)
        await far.call()
        lane.cancel(number)
        _, message = await play.instance.reports.get()
        assert "ping" in message
        assert await other.reply == Refusal("unavailable", message)
        await play.drained()
        assert play.dispatcher.lane(NAME) is None

    run(test)


def test_a_connector_that_never_answers_initialize_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "RECIPE", replace(RECIPE, ready_timeout_s=0.05))

    async def test(play: Play) -> None:
        lane, _ = await play.open(initialized=False)
        sink = Heard()
        lane.send("echo_say", {"text": "x"}, sink, MAX)
        reason, message = await play.instance.reports.get()
        assert reason == "StartTimeout"
        assert await sink.reply == Refusal("unavailable", message)

    run(test)


@pytest.mark.parametrize(
    "answer", [{"error": {"code": -32603, "message": "no"}}, {"result": {}}, {"result": []}]
)
def test_a_connector_that_refuses_initialize_is_broken(answer: dict[str, Any]) -> None:
    async def test(play: Play) -> None:
        _, far = await play.open(initialized=False)
        far.send(id=(await far.message())["id"], **answer)
        assert (await play.instance.reports.get())[0] == "StartTimeout"

    run(test)


def test_a_connector_that_dies_mid_call_is_unavailable_and_the_next_call_meets_a_new_one() -> None:
    async def test(play: Play) -> None:
        lane, far = await play.open()
        sinks = [Heard() for _ in range(4)]
        for sink in sinks:
            lane.send("echo_say", {"text": "x"}, sink, MAX)
        await far.call()
        play.instance.ended.set_result("signal 9")
        far.writer.close()
        why = "the connector ended: signal 9"
        outcomes = [await sink.reply for sink in sinks]
        # Of those that went out nobody knows; those that waited for their turn were never sent.
        assert outcomes[:2] == [Refusal("unavailable", why)] * 2
        assert outcomes[2:] == [Refusal("unavailable", why, no_effect="unsent")] * 2
        assert play.instance.holds == 0
        assert play.dispatcher.lane(NAME) is None
        assert (lane.inbox, lane.outbox) == (-1, -1)
        late = Heard()
        lane.send("echo_say", {"text": "x"}, late, MAX)
        assert isinstance(await late.reply, Refusal)
        assert play.instance.reports.empty()  # the supervisor knows by itself that a process has ended
        play.instance.ended = asyncio.get_running_loop().create_future()
        again, _ = await play.open()
        assert again is not lane

    run(test)


def test_a_call_right_after_a_loss_waits_for_the_end_of_the_process_and_meets_a_new_one() -> None:
    async def test(play: Play) -> None:
        lane, far = await play.open()
        sink = Heard()
        lane.send("echo_say", {"text": "x"}, sink, MAX)
        await far.call()
        far.writer.close()
        assert isinstance(await sink.reply, Refusal)
        coming = asyncio.ensure_future(play.lane())
        await asyncio.sleep(0.05)
        assert play.instance.started == 1  # nothing is asked of a process that is about to end
        ended, play.instance.ended = play.instance.ended, asyncio.get_running_loop().create_future()
        ended.set_result("exit 3")
        assert isinstance(await coming, Connector)
        assert play.instance.started == 2

    run(test)


def test_a_connector_that_hangs_up_and_lives_on_is_broken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatch, "_LEAVE_S", 0.02)

    async def test(play: Play) -> None:
        _, far = await play.open()
        far.writer.close()
        assert (await play.instance.reports.get())[1] == "the connector closed its connection"

    run(test)


@pytest.mark.parametrize("way", ["answer", "error", "progress", "request", "nothing"])
def test_a_line_that_holds_a_secret_goes_nowhere_and_ends_the_connector(way: str) -> None:
    async def test(play: Play) -> None:
        play.instance.echoes = lambda line: b"CANARY" in line
        lane, far = await play.open()
        sink, other = Heard(), Heard()
        lane.send("echo_say", {"text": "x"}, sink, MAX)
        far.answer(await far.call(), text="fine")
        assert await sink.reply == Result({"text": "fine"}, {})
        lane.send("echo_say", {"text": "CANARY of an agent is no secret"}, other, MAX)
        call = await far.call()
        match way:
            case "answer":
                far.answer(call, text="a CANARY")
            case "error":
                text = {"type": "text", "text": '{"error": "unavailable", "message": "a CANARY"}'}
                far.send(id=call["id"], result={"isError": True, "content": [text]})
            case "progress":
                params = {"progressToken": call["id"], "progress": 1, "message": "a CANARY"}
                far.send(method="notifications/progress", params=params)
            case "request":
                far.send(id=1, method="sampling/createMessage", params={"a": "CANARY"})
            case _:
                far.write(b"CANARY\n")
        reason, message = await play.instance.reports.get()
        assert (reason, "CANARY" in message) == ("SecretEcho", False)
        answered = await other.reply
        assert isinstance(answered, Refusal)
        assert (answered.code, answered.diagnostic) == ("unavailable", message)

    run(test)


def test_garbage_is_counted_and_survived_up_to_a_bound() -> None:
    async def test(play: Play) -> None:
        lane, far = await play.open()
        sink = Heard()
        lane.send("echo_say", {"text": "x"}, sink, MAX)
        call = await far.call()
        far.write(b"\xff\xfe\nnonsense\n")
        far.send(id=999, result={})
        far.answer(call, text="y")
        assert await sink.reply == Result({"text": "y"}, {})
        assert lane.garbage == 3
        far.answer(call, text="again")
        far.write(b"nonsense\n" * (dispatch.MAX_GARBAGE - 3))
        _, message = await play.instance.reports.get()
        assert message.startswith("20 lines without meaning")
        assert lane.late == 1

    run(test)


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":0,"result":{}}\n',
        b'{"jsonrpc":"2.0","id":"q","method":"roots/list"}\n',
        b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}\n',
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}\n',
    ],
    ids=["late answers", "asks", "notes", "progress"],
)
def test_a_flood_of_lines_that_answer_nothing_is_broken(line: bytes) -> None:
    async def test(play: Play) -> None:
        lane, far = await play.open()
        sink = Heard()
        lane.send("echo_say", {"text": "x"}, sink, MAX)
        await far.call()
        for _ in range(dispatch.MAX_UNASKED // 1000 * 3):
            far.write(line * 1000)
        _, message = await play.instance.reports.get()
        assert "answer nothing" in message
        assert await sink.reply == Refusal("unavailable", message)

    run(test)


def test_the_first_valid_answer_wins() -> None:
    async def test(play: Play) -> None:
        lane, far = await play.open()
        sink = Heard()
        lane.send("echo_say", {"text": "x"}, sink, MAX)
        call = await far.call()
        far.answer(call, text="first")
        far.answer(call, text="second")
        assert await sink.reply == Result({"text": "first"}, {})
        ended = Heard()
        lane.send("echo_say", {"text": "x"}, ended, MAX)
        far.answer(await far.call(), text="z")
        await ended.reply
        assert lane.late == 1

    run(test)


def test_an_overlong_answer_ends_its_own_call_and_no_other() -> None:
    async def test(play: Play) -> None:
        lane, far = await play.open()
        big, small = Heard(), Heard()
        lane.send("echo_say", {"text": "x"}, big, MAX)
        lane.send("echo_say", {"text": "y"}, small, MAX)
        calls = [await far.call(), await far.call()]
        far.answer(calls[0], text="x" * 20 * 2**20)
        far.answer(calls[1], text="y")
        assert isinstance(await big.reply, Refusal)
        assert await small.reply == Result({"text": "y"}, {})
        assert play.instance.reports.empty()

    run(test)


def test_an_answer_above_its_own_call_s_bound_is_refused() -> None:
    async def test(play: Play) -> None:
        lane, far = await play.open()
        sink = Heard()
        lane.send("echo_say", {"text": "x"}, sink, 100)
        far.answer(await far.call(), text="x" * 200)
        reply = await sink.reply
        assert isinstance(reply, Refusal)
        assert reply.diagnostic.endswith("more than 100")

    run(test)


def test_a_line_that_does_not_end_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "_MAX_SKIPPED", 4 * 2**20)

    async def test(play: Play) -> None:
        _, far = await play.open()
        far.write(b"x" * 6 * 2**20)
        assert (await play.instance.reports.get())[1] == "a line of the connector does not end"

    run(test)


def test_a_connector_that_does_not_read_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "_MAX_UNSENT", 2**20)

    async def test(play: Play) -> None:
        lane, far = await play.open()
        far.writer.transport.pause_reading()
        sink = Heard()
        lane.send("echo_say", {"text": "x" * 4 * 2**20}, sink, MAX)
        assert "does not read" in (await play.instance.reports.get())[1]
        assert isinstance(await sink.reply, Refusal)

    run(test)


def test_progress_comes_only_where_it_was_asked_for() -> None:
    async def test(play: Play) -> None:
        lane, far = await play.open()
        asked, deaf = Heard(wants_progress=True), Heard()
        lane.send("echo_say", {"text": "x"}, asked, MAX)
        lane.send("echo_say", {"text": "x"}, deaf, MAX)
        first, second = await far.call(), await far.call()
        assert first["params"]["_meta"] == {"progressToken": first["id"]}
        assert "_meta" not in second["params"]
        token = first["id"]
        far.send(method="notifications/progress", params={"progressToken": token, "progress": 1, "total": 2})
        far.send(method="notifications/progress", params={"progressToken": 77, "progress": 1})
        far.answer(first, text="x")
        await asked.reply
        assert asked.steps == [(1, 2)]

    run(test)


def test_what_a_connector_asks_of_us_is_refused() -> None:
    async def test(play: Play) -> None:
        _, far = await play.open()
        far.send(id="q", method="sampling/createMessage", params={})
        answer = await far.message()
        assert (answer["id"], answer["error"]["code"]) == ("q", -32601)

    run(test)


def test_a_lane_has_descriptors_of_its_own() -> None:
    async def test(play: Play) -> None:
        lane, _ = await play.open()
        assert lane.inbox != play.instance.inbox
        assert os.fstat(lane.inbox).st_ino == os.fstat(play.instance.inbox).st_ino

    run(test)


# the real kit, in a process of its own

KIT_CONNECTOR = """
import sys
sys.path.insert(0, sys.argv[1])
from handler_connector import Failure, serve

def say(args, call):
    if args["text"] == "wait":
        call.cancelled.wait(20)
        raise Failure("unavailable", "cancelled")
    if args["text"] == "fail":
        raise Failure("unsupported_format", "not this one")
    call.progress(1, 2)
    return {"text": args["text"].upper()}

serve({"echo_say": say})
"""


@asynccontextmanager
async def kit(folder: Path) -> AsyncIterator[str]:
    path = str(folder / "c.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        os.set_inheritable(listener.fileno(), True)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", KIT_CONNECTOR, str(KIT)],
            env={"HANDLER_CONNECTOR_FD": str(listener.fileno())}, pass_fds=[listener.fileno()],
        )  # fmt: skip
    try:
        yield path
    finally:
        process.kill()
        process.wait()


def test_a_connector_made_with_the_kit_is_understood() -> None:
    async def test(play: Play) -> None:
        with tempfile.TemporaryDirectory(prefix="hk-") as folder:
            async with kit(Path(folder)) as path:

                def connect() -> socket.socket:
                    connection = socket.socket(socket.AF_UNIX)
                    connection.connect(path)
                    connection.setblocking(False)
                    return connection

                play.instance.connect = connect  # type: ignore[method-assign]
                lane = await play.lane()
                assert isinstance(lane, Connector)
                sinks = [Heard(wants_progress=True), Heard(), Heard()]
                lane.send("echo_say", {"text": "hi \u2028 é"}, sinks[0], MAX)
                lane.send("echo_say", {"text": "fail"}, sinks[1], MAX)
                assert await sinks[0].reply == Result({"text": "HI \u2028 É"}, {})
                assert sinks[0].steps == [(1, 2)]
                assert await sinks[1].reply == Refusal("unsupported_format", "not this one")
                lane.cancel(lane.send("echo_say", {"text": "wait"}, Heard(), MAX))
                lane.send("echo_say", {"text": "after"}, sinks[2], MAX)
                assert await sinks[2].reply == Result({"text": "AFTER"}, {})
                assert play.instance.is_ready
                assert lane.garbage == 0
                await play.drained()

    run(test)
