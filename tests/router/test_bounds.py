"""What one agent may take of the router: one that does not read, asks too much or comes too often harms
itself, and the others notice nothing.
"""

import asyncio
import itertools
import resource
import socket
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from reconciler.model.calls import Result
from reconciler.router import connection, flight
from tests.router import stage
from tests.router.stage import FakeLane
from tests.router.test_server import Agent, Set, run, stage_set, text_of

BIG = 2_000_000


def call(ident: int, text: str = "x") -> bytes:
    params = {"name": "echo_say", "arguments": {"text": text}}
    return orjson.dumps({"jsonrpc": "2.0", "id": ident, "method": "tools/call", "params": params}) + b"\n"


def big(sent: stage.Sent) -> None:
    """Long answers to "big", short ones to anything else."""
    text = "x" * BIG if sent.arguments["text"] == "big" else sent.arguments["text"]
    sent.sink.done(Result({"text": text}, {}))


def deaf(play: Set, *lines: bytes) -> socket.socket:
    """An agent that writes and never reads."""
    made = socket.socket(socket.AF_UNIX)
    made.connect(str(play.folder / "echo.sock"))
    made.settimeout(5)
    made.sendall(b"".join(lines))
    return made


async def stalled(play: Set) -> connection.Connection:
    while True:
        for one in play.router._doors["s/1"].connections:
            if one._stalled_at is not None:
                return one
        await asyncio.sleep(0.005)


def test_an_agent_that_does_not_read_is_asked_nothing_more_and_the_others_are_served() -> None:
    async def test() -> None:
        lane = FakeLane(big)
        routes = stage.routes(stage.route(stage.echo(concurrentCalls=100)))
        async with stage_set(lane, routes) as play, play.agent() as other:
            with deaf(play, *(call(ident, "big") for ident in range(1_000))):
                made = await stalled(play)
                for ident in range(100):
                    other.send(call(ident, "short"))
                    assert (await other.message())["id"] == ident
                heard = [one for one in lane.sent if one.arguments["text"] == "big"]
                assert len(heard) <= 4 * connection._TURN  # the rest of its calls is not even begun
                assert made._transport.get_write_buffer_size() <= (len(heard) + 4) * BIG
            while len(play.router._doors["s/1"].connections) > 1:
                await asyncio.sleep(0.005)

    run(test)


def test_an_agent_that_reads_again_gets_every_answer() -> None:
    async def test() -> None:
        lane = FakeLane(big)
        routes = stage.routes(stage.route(stage.echo(concurrentCalls=100)))
        async with stage_set(lane, routes) as play:
            with deaf(
                play, *(call(ident, "big" if ident % 20 == 0 else "x") for ident in range(400))
            ) as late:
                await stalled(play)
                late.setblocking(False)
                reader, writer = await asyncio.open_unix_connection(sock=late, limit=2**26)
                ids = [orjson.loads(await reader.readline())["id"] for _ in range(400)]
                assert sorted(ids) == list(range(400))
                writer.close()

    run(test)


def test_an_agent_that_leaves_too_much_unread_is_dropped_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_MOST_UNREAD", 10 * BIG)

    async def test() -> None:
        lane = FakeLane(big)
        routes = stage.routes(stage.route(stage.echo(concurrentCalls=100)))
        async with stage_set(lane, routes) as play, play.agent() as other:
            with deaf(play, *(call(ident, "big") for ident in range(30))):
                while not play.left:
                    await asyncio.sleep(0.005)
            other.send(call(1, "short"))
            assert (await other.message())["id"] == 1
            assert len(await play.recorded(31)) == 31

    run(test)


def test_one_agent_s_waiting_calls_are_bounded_in_number_and_in_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flight, "_MAX_QUEUED", 3_000_000)

    async def test() -> None:
        lane = FakeLane()
        routes = stage.routes(stage.route(stage.echo(concurrentCalls=1)))
        async with stage_set(lane, routes) as play, play.agent() as agent:
            large = "x" * 1_000_000
            for ident in range(5):  # one runs, two wait, two are too much
                agent.send(call(ident, large))
            refused = [await agent.message(), await agent.message()]
            assert [(one["id"], text_of(one)) for one in refused] == [(3, "limit"), (4, "limit")]
            for ident in range(5, 70):  # small ones still wait, up to 64 calls in all
                agent.send(call(ident))
            refused = [await agent.message() for _ in range(3)]
            assert [(one["id"], text_of(one)) for one in refused] == [
                (67, "limit"),
                (68, "limit"),
                (69, "limit"),
            ]
            ended = []
            for number in range(65):
                while len(lane.sent) <= number:
                    await asyncio.sleep(0)
                lane.sent[number].answer(text="y")
                ended.append((await agent.message())["id"])
            assert ended == [*range(3), *range(5, 67)]
            assert len(await play.recorded(70)) == 70

    run(test)


def test_what_one_session_may_not_do_is_no_limit_of_another() -> None:
    async def test() -> None:
        lane = FakeLane()
        routes = stage.routes(stage.route(stage.echo(concurrentCalls=1, callsPerSession=3)))
        async with stage_set(lane, routes) as play, play.agent() as greedy:
            greedy.send(*map(call, range(5)))
            assert {text_of(await greedy.message()) for _ in range(2)} == {"limit"}
            play.session = "s2"
            async with play.agent() as modest:
                modest.send(call(1, "modest"))
                while len(lane.sent) < 2:
                    await asyncio.sleep(0)
                lane.sent[1].answer(text="y")
                assert (await modest.message())["id"] == 1

    run(test)


CROWD = """
import socket, sys
sys.stdin.readline()
made = []
for _ in range(int(sys.argv[2])):
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(20)
    one.connect(sys.argv[1])
    made.append(one)
shed = served = 0
for one in made:
    try:
        one.sendall(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\\n')
        heard = one.recv(100)
    except OSError:
        heard = b""
    served, shed = served + bool(heard), shed + (not heard)
print(served, shed, flush=True)
sys.stdin.read()
"""


def test_when_descriptors_run_out_new_connections_are_shed_and_the_others_are_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        async with stage_set(FakeLane(stage.echoing)) as play, play.agent() as before:
            await before.ask(1, "ping")
            crowd = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-S", "-c", CROWD, str(play.folder / "echo.sock"), "60",
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
            assert crowd.stdin is not None
            assert crowd.stdout is not None
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            taken = {int(one.name) for one in Path("/proc/self/fd").iterdir()}
            free = (number for number in itertools.count() if number not in taken)
            resource.setrlimit(resource.RLIMIT_NOFILE, (next(itertools.islice(free, 50, None)), hard))
            try:
                crowd.stdin.write(b"\n")
                served, shed = map(int, (await crowd.stdout.readline()).split())
                assert served + shed == 60
                assert served > 0
                assert shed >= 60 - 50
                assert (await before.ask(2, "ping"))["id"] == 2
                socket.socket().close()  # some are left for whatever else is to be done
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                crowd.stdin.close()
                await crowd.wait()
            assert [one.message for one in caplog.records if "turned away" in one.message] == [
                "connections are turned away: few descriptors are left; raise the limit (ulimit -n)"
            ]  # said once, however many there were
            async with play.agent() as after:
                assert (await after.ask(3, "ping"))["id"] == 3

    run(test, 60)


def test_a_storm_of_calls_is_limited_for_its_agent_alone() -> None:
    """Two thousand at once: some run, some wait, the rest are told so; another session's go through."""

    async def test() -> None:
        lane = FakeLane()
        routes = stage.routes(stage.route(stage.echo()))
        async with stage_set(lane, routes) as play, play.agent() as storm:
            storm.send(b"".join(map(call, range(2_000))))
            limited = 0
            while limited < 2_000 - 68:  # four run and sixty-four wait
                limited += text_of(await storm.message()) == "limit"
            play.session = "s2"
            async with Agent(play.folder / "echo.sock") as calm:
                calm.send(call(1, "calm"))
                while not any(one.arguments["text"] == "calm" for one in lane.sent):
                    await asyncio.sleep(0)
                next(one for one in lane.sent if one.arguments["text"] == "calm").answer(text="y")
                assert (await calm.message())["id"] == 1
            assert len(lane.sent) == 5

    run(test)
