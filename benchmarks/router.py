"""The call path: our router beside a uvloop byte relay and a direct connection, in one run.

    python benchmarks/router.py [--pin CPU] [--quick]

All three speak to the same echo connector (Python, uvloop) over Unix sockets. The relay moves bytes and knows
nothing: it is the floor for a hop in Python. What counts are the ratios to it, in interleaved rounds; goals
stand beside them. `--pin` puts every process on one CPU, where the ratios are steadiest. The router
is the real one: real doors, the law of a call, the dispatcher, records. Its supervisor alone is replaced.
"""

import argparse
import asyncio
import os
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import uvloop

from reconciler.control.dispatch import Dispatcher
from reconciler.model.contract import compiled
from reconciler.model.names import InstanceName, InterfaceRef
from reconciler.model.recipes import Recipe, SandboxPolicy
from reconciler.model.resources import Interface
from reconciler.model.routes import AgentRoutes, Route
from reconciler.router.server import Door, Pinned, Router

ROOT = Path(__file__).resolve().parents[1]
SIZES = {"200 B": 200, "20 KB": 20_000, "2 MB": 2_000_000}
GOALS = {"200 B": (1.15, 1.3), "20 KB": (1.4, 1.6), "2 MB": (2.0, 2.3)}  # goal, and the floor of a release
RATE_GOAL = 0.65
CPU_GOAL = 1.9
CALLERS = 32
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


async def serve_router(folder: str, upstream: str) -> None:
    class Running:
        """A supervisor whose one instance runs already."""

        def __init__(self) -> None:
            self.inbox = self.outbox = os.open(folder, os.O_RDONLY)
            self.ended = asyncio.get_running_loop().create_future()

        def connect(self) -> socket.socket:
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(upstream)
            connection.setblocking(False)
            return connection

        async def ready(self, name: Any) -> "Running":
            return self

        def hold(self, name: Any) -> None: ...

        def release(self, name: Any) -> None: ...

        def answered(self, name: Any) -> None: ...

        def broken(self, name: Any, reason: str, message: str) -> None:
            raise SystemExit(f"{reason}: {message}")

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
    dispatcher = Dispatcher(Running(), recipe=lambda _: recipe)
    router = Router(dispatcher, record=record, now=time.time, clock=time.monotonic)
    pinned = Pinned("s1", AgentRoutes("bench", {"echo": route}))
    await router.open(Door("s/s1", Path(folder), lambda _: pinned, ("echo",), lambda _: None))
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


@dataclass
class Contender:
    name: str
    path: str
    pid: int = 0


def ratio_of(rounds: dict[str, list[float]], name: str) -> float:
    """The median over rounds of a contender's figure to the relay's in the same round."""
    return statistics.median(mine / floor for mine, floor in zip(rounds[name], rounds["relay"], strict=True))


def measure(contenders: list[Contender], *, quick: bool) -> bool:
    rounds = 3 if quick else ROUNDS
    good = True
    print(f"{'':22}{'direct':>10}{'relay':>10}{'handler':>10}   handler/relay   goal (release)")
    for label, size in SIZES.items():
        line = call_line(size)
        calls = CALLS[label] // (3 if quick else 1)
        p50: dict[str, list[float]] = {one.name: [] for one in contenders}
        p99: dict[str, list[float]] = {one.name: [] for one in contenders}
        for _ in range(rounds):
            for one in contenders:
                times = sorted(latencies(one.path, line, calls))
                p50[one.name].append(times[len(times) // 2] * 1e6)
                p99[one.name].append(times[int(len(times) * 0.99)] * 1e6)
        ratio, (goal, floor) = ratio_of(p50, "handler"), GOALS[label]
        good &= ratio <= floor
        figures = "".join(f"{statistics.median(p50[one.name]):10.1f}" for one in contenders)
        print(f"p50 µs  {label:14}{figures}   {ratio:13.2f}   ≤ {goal} ({floor})")
        figures = "".join(f"{statistics.median(p99[one.name]):10.1f}" for one in contenders)
        print(f"p99 µs  {label:14}{figures}   {ratio_of(p99, 'handler'):13.2f}")
    line = call_line(200)
    for callers in (1, CALLERS):
        rates: dict[str, list[float]] = {one.name: [] for one in contenders}
        cpu: dict[str, list[float]] = {one.name: [] for one in contenders}
        for _ in range(rounds):
            for one in contenders:
                before = cpu_seconds(one.pid)
                rates[one.name].append(rate(one.path, line, callers, 0.3 if quick else 0.8))
                spent = cpu_seconds(one.pid) - before
                cpu[one.name].append(spent / (rates[one.name][-1] * (0.3 if quick else 0.8)) * 1e6)
        ratio = ratio_of(rates, "handler")
        wanted = f"≥ {RATE_GOAL}" if callers == CALLERS else ""
        good &= callers != CALLERS or ratio >= RATE_GOAL
        figures = "".join(f"{statistics.median(rates[one.name]):10.0f}" for one in contenders)
        print(f"calls/s {callers:2} callers    {figures}   {ratio:13.2f}   {wanted}")
        figures = "".join(f"{statistics.median(cpu[one.name]):10.1f}" for one in contenders)
        print(f"own CPU µs a call     {figures}   {ratio_of(cpu, 'handler'):13.2f}   ≤ {CPU_GOAL}")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pin", type=int, help="put every process on this CPU")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--role", choices=("echo", "relay", "router"), help=argparse.SUPPRESS)
    parser.add_argument("--paths", nargs="*", default=[], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.pin is not None:
        os.sched_setaffinity(0, {given.pin})
    if given.role:
        serve = {"echo": serve_echo, "relay": serve_relay, "router": serve_router}[given.role]
        uvloop.run(serve(*given.paths))
        return 0
    with tempfile.TemporaryDirectory(prefix="hb-") as folder:
        echo, relay, router = f"{folder}/echo.sock", f"{folder}/relay.sock", f"{folder}/r"
        started = []
        try:
            for role, paths in (("echo", [echo]), ("relay", [relay, echo]), ("router", [router, echo])):
                command = [sys.executable, __file__, "--role", role, "--paths", *paths]
                started.append(subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}))
                connected(f"{router}/echo.sock" if role == "router" else paths[0]).close()
            pids = [process.pid for process in started]
            contenders = [
                Contender("direct", echo, pids[0]),
                Contender("relay", relay, pids[1]),
                Contender("handler", f"{router}/echo.sock", pids[2]),
            ]
            good = measure(contenders, quick=given.quick)
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait()
    print("within the bounds of a release" if good else "OUTSIDE the bounds of a release")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
