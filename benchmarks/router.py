"""The call path: our router beside a uvloop byte relay, a floor that obeys the law, and a direct connection.

    python benchmarks/router.py [--pin CPU] [--quick] [--against CHECKOUT]

All speak to the same echo connector (Python, uvloop) over Unix sockets. The relay moves bytes and knows
nothing: it is what any hop in Python costs, and goals are ratios to it, in interleaved rounds of one run. The
floor reads, checks, renumbers, checks again and answers in the form that agents are owed, in two straight
functions that know one tool, one session and no faults: what stands between it and the relay is the price of
the law, what stands between it and us is ours. `--pin` puts every process on one CPU, where the ratios are
steadiest. `--against` adds the router of another checkout, for a table of before and after. The router is the
real one: real doors, the law of a call, the dispatcher, records. Its supervisor alone is replaced.
"""

import argparse
import asyncio
import itertools
import os
import select
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema_rs
import orjson
import uvloop
from goals import Goals
from running import Running

from reconciler.control.dispatch import Dispatcher
from reconciler.model.contract import compiled
from reconciler.model.names import InstanceName, InterfaceRef
from reconciler.model.recipes import Recipe, SandboxPolicy
from reconciler.model.resources import Interface
from reconciler.model.routes import AgentRoutes, Route
from reconciler.router import memory
from reconciler.router.server import Door, Pinned, Router

ROOT = Path(__file__).resolve().parents[1]
SIZES = {"200 B": 200, "20 KB": 20_000, "2 MB": 2_000_000}
GOALS = {"200 B": (1.15, 1.3), "20 KB": (1.4, 1.6), "2 MB": (2.0, 2.3)}  # goal, and the floor of a release
RATE_GOAL = 0.65
CPU_GOAL = 1.9
CALLERS = 32
SESSIONS = 200
LIST_LINE = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'
CALLS = {"200 B": 1500, "20 KB": 800, "2 MB": 25}  # in one round
ROUNDS = 6

TOOLS = orjson.dumps(
    [
        {
            "name": "echo_say",
            "description": "Says it again.",
            "inputSchema": {
                "type": "object",
                "additionalProperties": False,
                "required": ["text"],
                "properties": {"text": {"type": "string"}},
            },
            "outputSchema": {
                "type": "object",
                "additionalProperties": False,
                "required": ["text"],
                "properties": {"text": {"type": "string"}},
            },
        }
    ]
)


class Echo(asyncio.Protocol):
    """The connector: answers every call with its text."""

    def __init__(self) -> None:
        self.rest = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.rest or data[-1:] != b"\n":
            if b"\n" not in data:
                self.rest += data
                return
            data = self.rest + data
            self.rest = b""
        *lines, self.rest = data.split(b"\n")
        for line in lines:
            message = orjson.loads(line)
            if message["method"] == "tools/call":
                text = message["params"]["arguments"]["text"]
                result: Any = {"structuredContent": {"text": text}, "content": []}
            elif message["method"] == "initialize":
                result = {"protocolVersion": "2025-11-25", "capabilities": {}}
            elif message["method"] == "ping":
                result = {}
            else:
                continue
            self.transport.write(
                orjson.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}, option=1024)
            )


class Relay(asyncio.Protocol):
    """The floor: bytes through, both ways."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.other: Any = None
        self.early: list[bytes] = []

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.task = asyncio.get_running_loop().create_task(self.connect())

    async def connect(self) -> None:
        loop = asyncio.get_running_loop()
        self.other, _ = await loop.create_unix_connection(lambda: Back(self.transport), self.upstream)
        for data in self.early:
            self.other.write(data)

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self.early.append(data)
        else:
            self.other.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None:
            self.other.close()


class Lines(asyncio.Protocol):
    """Whole lines to a function of the floor."""

    def __init__(self, heard: Callable[[bytes, Any], None]) -> None:
        self.heard = heard
        self.parts: list[bytes] = []

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        end = data.find(b"\n")
        if end == len(data) - 1 and not self.parts:
            self.heard(data, self.transport)
            return
        start = 0
        while end >= 0:
            line = b"".join((*self.parts, data[start : end + 1]))
            self.parts.clear()
            self.heard(line, self.transport)
            start = end + 1
            end = data.find(b"\n", start)
        if start < len(data):
            self.parts.append(data[start:])


class Floor:
    """The law of a call in two functions, as short as they can be."""

    def __init__(self) -> None:
        schema = orjson.loads(TOOLS)[0]["inputSchema"]
        self.fits = jsonschema_rs.Draft202012Validator(schema, validate_formats=False).is_valid
        self.calls: dict[int, tuple[Any, int, float]] = {}
        self.records: list[tuple[float, int]] = []
        self.number = 0
        self.up: Any = None

    def ask(self, line: bytes, caller: Any) -> None:
        message = orjson.loads(line)
        if message["method"] != "tools/call" or orjson.dumps(message, None, 1024) != line:
            return
        arguments = message["params"]["arguments"]
        if self.fits(arguments):
            self.number = number = self.number + 1
            self.calls[number] = caller, message["id"], time.monotonic()
            self.up.write(FLOOR_CALL % (number, orjson.dumps(arguments)))

    def answer(self, line: bytes, _: Any) -> None:
        message = orjson.loads(line)
        if orjson.dumps(message, None, 1024) != line:
            return
        caller, ident, start = self.calls.pop(message["id"])
        structured = message["result"]["structuredContent"]
        if self.fits(structured) and not caller.is_closing():
            said = orjson.dumps(structured)
            text = orjson.dumps(said[:65536].decode())
            caller.write(FLOOR_ANSWER % (ident, text, said))
            self.records.append((time.monotonic() - start, len(said)))
            if len(self.records) > 1000:
                self.records.clear()


FLOOR_CALL = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo_say","arguments":%b}}\n'
FLOOR_ANSWER = (
    b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":%b}],"structuredContent":%b}}\n'
)


class Back(asyncio.Protocol):
    def __init__(self, front: Any) -> None:
        self.front = front

    def data_received(self, data: bytes) -> None:
        self.front.write(data)


async def serve_echo(path: str) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(Echo, path)
    await server.serve_forever()


async def serve_relay(path: str, upstream: str) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(lambda: Relay(upstream), path)
    await server.serve_forever()


async def serve_floor(path: str, upstream: str) -> None:
    loop = asyncio.get_running_loop()
    memory.keep()
    floor = Floor()
    floor.up, _ = await loop.create_unix_connection(lambda: Lines(floor.answer), upstream)
    server = await loop.create_unix_server(lambda: Lines(floor.ask), path)
    await server.serve_forever()


async def serve_router(folder: str, upstream: str) -> None:
    spec = Interface.model_validate(
        {
            "apiVersion": "handler.interface/v1",
            "name": "echo",
            "version": 1,
            "description": "Echo.",
            "limits": {"concurrentCalls": 1000},
        }
    )
    contract = compiled(spec, TOOLS)
    name = InstanceName("echo-fast", "0" * 64)
    route = Route(InterfaceRef("echo", 1), "echo-fast", name, contract)
    recipe = Recipe(
        binding="echo-fast", connector="echo", runtime="python", code="", entry="", environment="",
        settings=(), secrets=(), models=(), egress=(), sandbox=SandboxPolicy(), state="none", kit="",
        max_concurrent_calls=1000,
    )  # fmt: skip
    records = 0

    def record(_: object) -> None:
        nonlocal records
        records += 1

    Path(folder).mkdir()
    dispatcher = Dispatcher(Running(upstream, folder, folder), recipe=lambda _: recipe)
    router = Router(dispatcher, record=record, now=time.time, clock=time.monotonic)
    routes = AgentRoutes("bench", {"echo": route})
    number = itertools.count()
    pinned = lambda _: Pinned(f"s{next(number)}", routes)  # noqa: E731 - every connection is a session
    await router.open(Door("s/s1", Path(folder), pinned, ("echo",), lambda _: None))
    await asyncio.Event().wait()


def call_line(size: int) -> bytes:
    text = ("The quick brown fox jumps over the lazy dog. " * (size // 40 + 1))[:size]
    return orjson.dumps(
        {
            "jsonrpc": "2.0",
            "id": 7,
            "method": "tools/call",
            "params": {"name": "echo_say", "arguments": {"text": text}},
        },
        option=1024,
    )


_END = 0x0A
BUFFER = bytearray(1 << 18)  # one for all calls: the client's own memory is not what is measured


def exchange(connection: socket.socket, line: bytes) -> None:
    """One call on a blocking socket, up to the end of its answer."""
    connection.sendall(line)
    while BUFFER[connection.recv_into(BUFFER) - 1] != _END:
        pass


def connected(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    deadline = time.monotonic() + 10
    while True:
        try:
            connection.connect(path)
            return connection
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def heavy_call(path: str) -> None:
    with connected(path) as connection:
        connection.sendall(call_line(2_000_000))
        while connection.recv(1 << 18)[-1:] != b"\n":
            pass


def drain(connection: socket.socket) -> None:
    """Read what has come, and do not wait for more."""
    while select.select([connection], [], [], 0)[0]:
        connection.recv_into(BUFFER)


def latencies(path: str, line: bytes, calls: int) -> list[float]:
    with connected(path) as connection:
        for _ in range(max(3, calls // 20)):
            exchange(connection, line)
        times = []
        for _ in range(calls):
            start = time.perf_counter()
            exchange(connection, line)
            times.append(time.perf_counter() - start)
        return times


def times_beside(path: str, calls: int) -> list[float]:
    """The times of small calls, sorted, while another connection makes ten calls of 400 KB a second."""
    line, large, times, due = call_line(200), call_line(400_000), [], 0.0
    with connected(path) as other, connected(path) as connection:
        for _ in range(calls):
            if (now := time.perf_counter()) > due:
                due = now + 0.1
                other.sendall(large)
            start = time.perf_counter()
            exchange(connection, line)
            times.append(time.perf_counter() - start)
            drain(other)
    return sorted(times)


def rate(path: str, line: bytes, callers: int, seconds: float) -> float:
    """Calls a second, each caller on its own connection with one call out at a time."""
    chooser = selectors.DefaultSelector()
    for _ in range(callers):
        connection = connected(path)
        connection.setblocking(False)
        connection.send(line)
        chooser.register(connection, selectors.EVENT_READ)
    done = 0
    start = time.perf_counter()
    while (now := time.perf_counter()) < start + seconds:
        for key, _ in chooser.select(1):
            connection = key.fileobj  # type: ignore[assignment]
            if BUFFER[connection.recv_into(BUFFER) - 1] == _END:
                done += 1
                connection.send(line)
    for key in list(chooser.get_map().values()):
        key.fileobj.close()  # type: ignore[union-attr]
    return done / (now - start)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pss_kib(pid: int) -> int:
    """Memory of a process, shared pages counted by their share."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


@dataclass
class Contender:
    name: str
    path: str
    pid: int = 0


Rounds = dict[str, list[float]]


def ratio_of(rounds: Rounds, name: str, to: str = "relay") -> float:
    """The median over rounds of a contender's figure to another's in the same round."""
    return statistics.median(mine / floor for mine, floor in zip(rounds[name], rounds[to], strict=True))


class Bench:
    """All contenders, measured in turn, round by round."""

    def __init__(self, contenders: list[Contender], *, quick: bool) -> None:
        self.contenders = contenders
        self.rounds = 3 if quick else ROUNDS
        self.part = 3 if quick else 1
        self.goals = Goals()
        self.released = True  # within the bounds of a release

    def row(self, name: str, rounds: Rounds, goals: str = "") -> None:
        figures = "".join(f"{statistics.median(rounds[one.name]):10.1f}" for one in self.contenders)
        ratios = "".join(f"{ratio_of(rounds, one.name):7.2f}" for one in self.contenders[2:])
        print(f"  {name:24}{figures}  {ratios}   {goals}".rstrip(), flush=True)

    def heading(self, about: str) -> None:
        self.goals.title(about)
        names = [one.name for one in self.contenders]
        print(f"  {'':24}{''.join(f'{n:>10}' for n in names)}  {''.join(f'{n[:6]:>7}' for n in names[2:])}")

    def turns(self, measure: Callable[[Contender], tuple[float, ...]]) -> list[Rounds]:
        """What ``measure`` gives, by figure, contender and round."""
        found: list[Rounds] = []
        for number in range(self.rounds):
            for one in self.contenders if number % 2 else self.contenders[::-1]:
                for figure, value in enumerate(measure(one)):
                    if figure == len(found):
                        found.append({other.name: [] for other in self.contenders})
                    found[figure][one.name].append(value)
        return found

    def times(self, size: str, most_p99: float | None) -> None:
        line, calls = call_line(SIZES[size]), CALLS[size] // self.part

        def measure(one: Contender) -> tuple[float, float]:
            times = sorted(latencies(one.path, line, calls))
            return times[len(times) // 2] * 1e6, times[int(len(times) * 0.99)] * 1e6

        p50, p99 = self.turns(measure)
        ratio, (goal, floor) = ratio_of(p50, "handler"), GOALS[size]
        self.released &= ratio <= floor
        self.row(f"p50 µs {size}", p50, self.goals.goal(f"p50 {size}", ratio, goal, "times the relay"))
        told = ""
        if most_p99 is not None:
            # Others on the machine only add to a tail: the quietest round says what is ours.
            spread = min(late / usual for late, usual in zip(p99["handler"], p50["handler"], strict=True))
            told = self.goals.goal(f"p99 {size}", spread, most_p99, "times its p50")
        self.row(f"p99 µs {size}", p99, told)

    def rates(self, callers: int) -> None:
        line, seconds = call_line(200), 0.8 / self.part

        def measure(one: Contender) -> tuple[float, float]:
            before = cpu_seconds(one.pid)
            calls = rate(one.path, line, callers, seconds)
            return calls, (cpu_seconds(one.pid) - before) / (calls * seconds) * 1e6

        calls, cpu = self.turns(measure)
        told = ""
        if callers == CALLERS:
            slower = 1 / ratio_of(calls, "handler")
            self.released &= slower <= 1 / RATE_GOAL
            told = self.goals.goal(
                f"calls/s {callers} callers", slower, 1 / RATE_GOAL, "times fewer than the relay"
            )
        self.row(f"calls/s {callers}", calls, told)
        spent = ratio_of(cpu, "handler")
        told = self.goals.goal(f"own CPU {callers} callers", spent, CPU_GOAL, "times the relay's")
        self.row("own CPU µs a call", cpu, told)

    def beside_a_large_answer(self) -> None:
        """The tail of small calls while another caller's answers of 400 KB are checked, ten a second."""
        (mine,) = [one for one in self.contenders if one.name == "handler"]
        found = [times_beside(mine.path, 2000 // self.part) for _ in range(self.rounds)]
        spread, times = min(
            (times[int(len(times) * 0.99)] / times[len(times) // 2], times) for times in found
        )
        self.goals.figure("p99 beside 400 KB", times[int(len(times) * 0.99)] * 1e6, "µs",
                          self.goals.goal("p99 beside 400 KB", spread, 2.0, "times its p50"))  # fmt: skip

    def memory(self) -> None:
        (mine,) = [one for one in self.contenders if one.name == "handler"]
        idle = pss_kib(mine.pid)
        held = [connected(mine.path) for _ in range(SESSIONS)]
        for connection in held:
            exchange(connection, LIST_LINE)
        each = (pss_kib(mine.pid) - idle) / SESSIONS
        for connection in held:
            connection.close()
        self.goals.figure("an idle session", each, "KiB", self.goals.goal("an idle session", each, 20, "KiB"))
        with ThreadPoolExecutor(CALLERS) as callers:
            list(callers.map(lambda _: heavy_call(mine.path), range(2 * CALLERS)))
        more = (pss_kib(mine.pid) - idle) / 1024
        told = self.goals.goal("memory after 32 calls of 2 MB", more, 100, "MiB more than idle")
        self.goals.figure("after 32 calls of 2 MB", more, "MiB", told)

    def run(self) -> int:
        self.heading("one caller")
        for size in SIZES:
            self.times(size, None if size == "2 MB" else 2.0)
        self.heading("calls a second, 200 B")
        for callers in (1, CALLERS):
            self.rates(callers)
        self.goals.title("beside others, and memory")
        self.beside_a_large_answer()
        self.memory()
        self.goals.skip("p99 while 10,000 objects reload", "needs a whole controller")
        self.goals.skip("beside public gateways", "make bench-router PEERS=1 compares with those")
        self.goals.end()
        print("within the bounds of a release" if self.released else "OUTSIDE the bounds of a release")
        return 0 if self.released else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pin", type=int, help="put every process on this CPU")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--against", help="another checkout, whose router is measured too")
    parser.add_argument("--role", choices=sorted(ROLES), help=argparse.SUPPRESS)
    parser.add_argument("--paths", nargs="*", default=[], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.pin is not None:
        os.sched_setaffinity(0, {given.pin})
    if given.role:
        uvloop.run(ROLES[given.role](*given.paths))
        return 0
    with tempfile.TemporaryDirectory(prefix="hb-") as folder, ExitStack() as started:
        echo = f"{folder}/echo.sock"
        contenders = [
            start(started, "direct", "echo", ROOT, echo),
            start(started, "relay", "relay", ROOT, f"{folder}/relay.sock", echo),
            start(started, "floor", "floor", ROOT, f"{folder}/floor.sock", echo),
            start(started, "handler", "router", ROOT, f"{folder}/r", echo),
        ]
        if given.against:
            root = Path(given.against).resolve()
            contenders.append(start(started, "before", "router", root, f"{folder}/b", echo))
        return Bench(contenders, quick=given.quick).run()


def start(started: ExitStack, name: str, role: str, root: Path, *paths: str) -> Contender:
    """Start one contender, of the checkout at ``root``, and wait until it listens."""
    command = [sys.executable, __file__, "--role", role, "--paths", *paths]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(root)})
    started.callback(process.wait)
    started.callback(process.terminate)
    path = f"{paths[0]}/echo.sock" if role == "router" else paths[0]
    connected(path).close()
    return Contender(name, path, process.pid)


ROLES = {"echo": serve_echo, "relay": serve_relay, "floor": serve_floor, "router": serve_router}

if __name__ == "__main__":
    raise SystemExit(main())
