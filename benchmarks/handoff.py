"""Files of 20 MB, in and out: our hand-off beside its floor and beside base64 in a line of JSON, in one run.

    python benchmarks/handoff.py [--quick]

The router is the real one (doors, the law of a call, the dispatcher, records) in a process of its own; the
connector is the real kit in another, reading and writing its boxes by name; the supervisor alone is replaced.
Floor in: one process opens the path, reads and hashes. Floor out: one process writes the file, another reads
and hashes it. Neither crosses a wall. Peer: the same bytes as base64 in one line over a like socket, one hop,
decoded on the other side. Each round has every contender once, in turn, and what is judged is the median of
the rounds' own ratios: whatever else the machine does meets all of them. The processor time of all processes
is what a busy machine changes least: ours holds the hashing of an input, too, which nobody waits for and
which is over before the next contender begins. The loop is blocked when it does not come round; the time that
the machine let it wait for a processor is not counted (``schedstat``), that of waiting for the interpreter's
lock is.
"""

import argparse
import asyncio
import base64
import hashlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import goals
import orjson
import uvloop
from running import Running

from reconciler.control.dispatch import Dispatcher
from reconciler.model.contract import compiled
from reconciler.model.names import InstanceName, InterfaceRef
from reconciler.model.recipes import Recipe, SandboxPolicy
from reconciler.model.resources import Interface
from reconciler.model.routes import AgentRoutes, Route, ScopeFolder
from reconciler.router.server import Door, Pinned, Router

ROOT = Path(__file__).resolve().parents[1]
SIZE = 20_000_000
CHUNK = 256 * 1024
WAIT_S = 60
RATIO, OF_PEER, GROWTH_MIB, BLOCKED_MS = 1.5, 0.1, 1.0, 2.0
_TICK_S = 0.001

IN = {"type": "string", "format": "handler-file", "description": "a file in the work folder"}
OUT = {"type": "string", "format": "handler-output-file", "description": "a file in the work folder"}
NUMBER = {"type": "integer"}


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [*properties],
        "properties": properties,
    }


def tool(name: str, **inputs: Any) -> dict[str, Any]:
    return {
        "name": name,
        "description": name,
        "inputSchema": closed(**inputs),
        "outputSchema": closed(size=NUMBER),
    }


TOOLS = orjson.dumps([tool("file_take", path=IN), tool("file_give", size=NUMBER, to=OUT)])

CONNECTOR = """
import sys
sys.path.insert(0, sys.argv[1])
import handler_connector as kit
kit.INBOX, kit.OUTBOX = sys.argv[2:4]
chunk = 256 * 1024
piece = memoryview(bytearray(b"x") * chunk)

def file_take(args, call):
    size, buffer = 0, bytearray(chunk)
    with open(args["path"].path, "rb", buffering=0) as source:
        while count := source.readinto(buffer):
            size += count
    return {"size": size}

def file_give(args, call):
    left = args["size"]
    with open(args["to"].path, "wb", buffering=0) as target:
        while left:
            left -= target.write(piece[:left])
    return {"size": args["size"]}

kit.serve({"file_take": file_take, "file_give": file_give})
"""

PEER = """
import base64, os, socket, sys
import orjson
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
connection, _ = listener.accept()
while True:
    pieces = [connection.recv(1 << 20)]
    while pieces[-1] and pieces[-1][-1:] != b"\\n":
        pieces.append(connection.recv(1 << 20))
    if not pieces[-1]:
        break
    given = orjson.loads(b"".join(pieces))["params"]["arguments"]
    if "data" in given:
        answer = {"size": len(base64.b64decode(given["data"]))}
    else:
        answer = {"data": base64.b64encode(b"x" * given["size"]).decode()}
    connection.sendall(orjson.dumps({"id": 1, "result": {"structuredContent": answer}}) + b"\\n")
"""


async def serve_router(folder: str, upstream: str, work: str, inbox: str, outbox: str) -> None:
    """The router, and a socket that tells how long its loop stood still and how much it has grown."""

    spec = Interface.model_validate(
        {"apiVersion": "handler.interface/v1", "name": "file", "version": 1, "description": "Files."}
    )
    name = InstanceName("file-fast", "0" * 64)
    route = Route(InterfaceRef("file", 1), "file-fast", name, compiled(spec, TOOLS))
    recipe = Recipe(
        binding="file-fast", connector="file", runtime="python", code="", entry="", environment="",
        settings=(), secrets=(), models=(), egress=(), sandbox=SandboxPolicy(), state="none", kit="",
    )  # fmt: skip
    Path(folder).mkdir()
    watch = Watch()
    router = Router(
        Dispatcher(Running(upstream, inbox, outbox), recipe=lambda _: recipe),
        record=watch.record,
        now=time.time,
        clock=time.monotonic,
    )
    pinned = Pinned("s1", AgentRoutes("bench", {"file": route}, (ScopeFolder(work, "write"),)))
    await router.open(Door("s/s1", Path(folder), lambda _: pinned, ("file",), lambda _: None))
    await asyncio.start_unix_server(watch.tell, f"{folder}/watch.sock")
    await watch.run()


class Watch:
    """The longest time that the loop did not come round, and the most memory, since it was last asked."""

    def __init__(self) -> None:
        self.longest_s = self.plain_s = 0.0
        self._recorded = asyncio.Event()  # the call's files are hashed

    def record(self, _: object) -> None:
        self._recorded.set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        scheduled = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)
        last, waited = loop.time(), _waited_s(scheduled)
        while True:
            await asyncio.sleep(_TICK_S)
            now, had = loop.time(), _waited_s(scheduled)
            late = now - last - _TICK_S
            self.plain_s = max(self.plain_s, late)
            self.longest_s = max(self.longest_s, late - (had - waited))
            last, waited = now, had

    async def tell(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer each line; one that says ``called`` after the record of the call."""
        while line := await reader.readline():
            if line.strip() == b"called":
                await self._recorded.wait()
            self._recorded.clear()
            status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
            told = {
                "blockedMs": self.longest_s * 1000,
                "plainMs": self.plain_s * 1000,
                "nowKib": int(status["VmRSS"].split()[0]),
                "mostKib": int(status["VmHWM"].split()[0]),
            }
            Path("/proc/self/clear_refs").write_text("5")  # the most, from here on
            self.longest_s = self.plain_s = 0.0
            writer.write(json.dumps(told).encode() + b"\n")
        writer.close()


def _waited_s(schedstat: int) -> float:
    """How long a thread was ready to run and had no processor, in all."""
    return int(os.pread(schedstat, 200, 0).split()[1]) / 1e9


class Line:
    """A blocking connection that says one line and hears one."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(WAIT_S)
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                self.socket.connect(path)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def ask(self, line: bytes) -> bytes:
        self.socket.sendall(line)
        pieces = [self.socket.recv(1 << 20)]
        while pieces[-1][-1:] != b"\n":
            pieces.append(self.socket.recv(1 << 20))
        return b"".join(pieces)

    def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        params = {"name": name, "arguments": arguments}
        answer = orjson.loads(
            self.ask(
                orjson.dumps(
                    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, option=1024
                )
            )
        )
        found: dict[str, Any] = answer["result"]["structuredContent"]
        return found


def read_and_hash(path: Path) -> str:
    digest, buffer = hashlib.sha256(), bytearray(CHUNK)
    with path.open("rb", buffering=0) as source:
        while count := source.readinto(buffer):
            digest.update(memoryview(buffer)[:count])
    return digest.hexdigest()


class Bench:
    """The contenders, each as one act; ``least`` keeps the best of the rounds."""

    def __init__(self, base: Path) -> None:
        self.work, self.base = base / "work", base
        self.source = self.work / "in.bin"
        for name in ("work", "in", "out"):
            (base / name).mkdir()
        self.source.write_bytes(os.urandom(SIZE))
        self.spent: dict[str, list[float]] = {}
        self.blocked: list[float] = []
        self.idle: list[float] = []
        self.plain: list[float] = []
        self.growth: list[float] = []
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        environment = {**os.environ, "HANDLER_CONNECTOR_SOCKET": f"{self.base}/c.sock"}
        environment |= {"PYTHONPATH": str(ROOT)}
        kit = str(ROOT / "reconciler" / "kit")
        boxes = (f"{self.base}/in", f"{self.base}/out")
        for command in (
            [sys.executable, "-c", CONNECTOR, kit, *boxes],
            [sys.executable, "-c", PEER, f"{self.base}/p.sock"],
            [
                sys.executable,
                __file__,
                "--serve",
                f"{self.base}/r",
                f"{self.base}/c.sock",
                str(self.work),
                *boxes,
            ],
        ):
            self.started.append(subprocess.Popen(command, env=environment))
        self.peer = Line(f"{self.base}/p.sock")
        self.agent = Line(f"{self.base}/r/file.sock")
        self.watch = Line(f"{self.base}/r/watch.sock")

    def stop(self) -> None:
        for process in self.started:
            process.terminate()
        for process in self.started:
            process.wait()

    def timed(self, name: str, act: Callable[[], object], after: Callable[[], object] | None = None) -> None:
        """Time an act; what comes ``after`` it counts for the processor time alone."""
        cpu, began = self.cpu_ms(), time.perf_counter()
        act()
        self.spent.setdefault(name, []).append((time.perf_counter() - began) * 1000)
        if after is not None:
            after()
        self.spent.setdefault(f"{name} CPU", []).append(self.cpu_ms() - cpu)

    def forget(self) -> None:
        """Begin anew: what was measured so far made threads, buffers and caches."""
        for kept in (self.spent, self.blocked, self.idle, self.plain, self.growth):
            kept.clear()

    def cpu_ms(self) -> float:
        """Processor time of all the processes, threads that ended and all, to the nanosecond."""
        spent = time.process_time_ns()
        for process in self.started:  # the clock that clock_getcpuclockid(3) names
            spent += time.clock_gettime_ns((~process.pid << 3) | 2)
        return spent / 1e6

    def round(self) -> None:
        self.look()
        self.timed("floor in", lambda: read_and_hash(self.source))  # the router rests meanwhile
        self.idle.append(self.look()["blockedMs"])
        self.timed("handler in", lambda: self.agent.call("file_take", path="in.bin"), self.ended)
        self.timed("base64 in", self.base64_in)
        target = self.work / "floor.bin"
        self.timed("floor out", lambda: self.floor_out(target))
        target.unlink()
        self.look()
        self.timed("handler out", lambda: self.agent.call("file_give", size=SIZE, to="out.bin"), self.ended)
        (self.work / "out.bin").unlink()
        self.timed("base64 out", self.base64_out)

    def ended(self) -> None:
        """Wait until a call is over, its record written, and keep how the router did meanwhile."""
        before = self.resident
        told = self.look(b"called\n")
        self.blocked.append(told["blockedMs"])
        self.plain.append(told["plainMs"])
        self.growth.append((told["mostKib"] - before) / 1024)

    def look(self, line: bytes = b"\n") -> dict[str, float]:
        """How long the loop stood still since the last look, in ms, and how much memory there is, in KiB."""
        told: dict[str, float] = json.loads(self.watch.ask(line))
        self.resident = told["nowKib"]
        return told

    def floor_out(self, target: Path) -> None:
        piece = memoryview(bytearray(b"x") * CHUNK)
        left = SIZE
        with target.open("wb", buffering=0) as made:
            while left:
                left -= made.write(piece[:left])
        read_and_hash(target)

    def base64_in(self) -> None:
        data = self.source.read_bytes()
        hashlib.sha256(data)
        self.peer.call("inline", data=base64.b64encode(data).decode())

    def base64_out(self) -> None:
        data = base64.b64decode(self.peer.call("inline_out", size=SIZE)["data"])
        hashlib.sha256(data)
        with (self.work / "b.bin").open("wb") as made:
            made.write(data)
        (self.work / "b.bin").unlink()


def judge(bench: Bench) -> int:
    said = goals.Goals()
    for way in ("in", "out"):
        said.title(f"20 MB {way}")
        ours, floor, peer = (bench.spent[f"{who} {way}"] for who in ("handler", "floor", "base64"))
        said.figure("floor", statistics.median(floor), "ms", f"{_median_ratio(floor, peer):.3f} times base64")
        said.figure("base64", statistics.median(peer), "ms")
        words = said.goal("hand-off", _median_ratio(ours, floor), RATIO, "times the floor")
        of_peer = said.goal("hand-off", _median_ratio(ours, peer), OF_PEER, "times base64")
        said.figure("handler", statistics.median(ours), "ms", f"{words}; {of_peer}")
        best = f"{min(ours) / min(floor):.2f} times the floor's, {min(ours) / min(peer):.3f} times base64's"
        said.figure("handler, least", min(ours), "ms", best)
        cpu, least, much = (
            statistics.median(bench.spent[f"{who} {way} CPU"]) for who in ("handler", "floor", "base64")
        )
        words = f"{cpu / least:.2f} times the floor's {least:.1f} ms, {cpu / much:.3f} times base64's"
        said.figure("handler CPU, median", cpu, "ms", words)
    said.title("the router meanwhile")
    growth, blocked = min(bench.growth), statistics.median(bench.blocked)
    said.figure("growth", growth, "MiB", said.goal("growth", growth, GROWTH_MIB, "MiB"))
    said.figure(
        "loop of an idle router", statistics.median(bench.idle), "ms", "median of the rounds' longest"
    )
    said.figure("loop blocked", blocked, "ms", said.goal("loop blocked", blocked, BLOCKED_MS, "ms"))
    said.figure("loop late", statistics.median(bench.plain), "ms", "with its waiting for a processor")
    return said.end()


def _median_ratio(ours: list[float], theirs: list[float]) -> float:
    return statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--serve", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        uvloop.run(serve_router(*given.serve))
        return 0
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # the run folder is in memory, too
    with tempfile.TemporaryDirectory(prefix="hh-", dir=memory) as folder:
        bench = Bench(Path(folder))
        try:
            bench.start()
            bench.round()  # threads, buffers and caches are made by the first
            bench.forget()
            for _ in range(5 if given.quick else 20):
                bench.round()
        finally:
            bench.stop()
    return judge(bench)


if __name__ == "__main__":
    raise SystemExit(main())
