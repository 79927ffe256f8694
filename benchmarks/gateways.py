"""The call path as a harness meets it: our bridge and router beside public MCP gateways, in one run.

    python benchmarks/gateways.py [--quick]

Every contender is a command that speaks MCP on its stdio, as a harness starts it, in front of the same echo
tool; the same client times them in turn, on all CPUs. What counts is what each adds to the echo server that
is started without anything in between. The gateways are installed on the first run below `.peers/` (Python
and npm, each in an environment of its own); one that cannot be had is named and left out.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import router as call_path  # beside this file
import uvloop
from goals import Goals

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / ".peers"
PYTHON_PEERS = {"fastmcp": "fastmcp==4.2.3", "mcp-proxy": "mcp-proxy==0.13.0"}
NODE_PEERS = {"supergateway": "supergateway@4.0.0"}
CALLERS = 32
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def answer(raw: bytes) -> bytes | None:
    """The echo server, whatever it is spoken to over."""
    message = orjson.loads(raw)
    method, ident = message.get("method"), message.get("id")
    if ident is None or method is None:
        return None
    if method == "tools/call":
        text = message["params"]["arguments"]["text"]
        result: Any = {"content": [], "structuredContent": {"text": text}}
    elif method == "initialize":
        info = {"name": "echo", "version": "1"}
        version = message["params"]["protocolVersion"]
        version = version if version <= "2025-11-25" else "2025-11-25"
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        result = {"tools": orjson.loads(call_path.TOOLS)}
    elif method == "ping":
        result = {}
    else:
        error = {"code": -32601, "message": "no such method"}
        return orjson.dumps({"jsonrpc": "2.0", "id": ident, "error": error})
    return orjson.dumps({"jsonrpc": "2.0", "id": ident, "result": result})


def serve_stdio() -> None:
    while line := sys.stdin.buffer.readline():
        if (said := answer(line)) is not None:
            sys.stdout.buffer.write(said + b"\n")
            sys.stdout.buffer.flush()


async def serve_http(port: int) -> None:
    """Streamable HTTP in its simplest form: one JSON answer to each POST."""

    async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            lines = head.lower().split(b"\r\n")
            sizes = [int(line[15:]) for line in lines if line.startswith(b"content-length:")]
            body = await reader.readexactly(sizes[0]) if sizes else b""
            if lines[0].startswith(b"post"):
                said = answer(body)
                status = b"202 Accepted" if said is None else b"200 OK"
            else:
                said, status = b"", b"405 Method Not Allowed"
            kind = b"content-type: application/json\r\n" if said else b""
            size = b"content-length: %d\r\n\r\n" % len(said or b"")
            writer.write(b"HTTP/1.1 " + status + b"\r\n" + kind + size + (said or b""))

    async def quietly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await met(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(quietly, "127.0.0.1", port)
    await server.serve_forever()


class Client:
    """A harness: starts a command and speaks lines with it."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        )
        assert self.process.stdin and self.process.stdout
        self.into, self.out = self.process.stdin.fileno(), self.process.stdout.fileno()
        self.rest = b""
        self.number = 0
        self.write(orjson.dumps(INITIALIZE))
        self.heard()
        self.write(orjson.dumps(INITIALIZED))
        self.calls(3)

    def write(self, line: bytes) -> None:
        os.write(self.into, line + b"\n")

    def ask(self) -> None:
        self.number += 1
        arguments = {"name": "echo_say", "arguments": {"text": "x" * 200}}
        self.write(
            orjson.dumps({"jsonrpc": "2.0", "id": self.number, "method": "tools/call", "params": arguments})
        )

    def heard(self) -> int:
        """Read until something was answered; how many answers there were."""
        while True:
            data = os.read(self.out, 1 << 16)
            if not data:
                raise EOFError(f"{self.name} ended")
            *lines, self.rest = (self.rest + data).split(b"\n")
            count = 0
            for line in lines:
                if b'"id":' in line and b'"method":' not in line:
                    if b'"error":' in line or b'"isError":true' in line:
                        raise ValueError(f"{self.name} answered {line[:300]!r}")
                    count += 1
            if count:
                return count

    def calls(self, count: int) -> list[float]:
        """The times of calls made one after the other, in µs."""
        times = []
        for _ in range(count):
            start = time.perf_counter()
            self.ask()
            self.heard()
            times.append((time.perf_counter() - start) * 1e6)
        return times

    def rate(self, seconds: float) -> float:
        """Calls a second with many on their way at a time."""
        for _ in range(CALLERS):
            self.ask()
        done, start = 0, time.perf_counter()
        while time.perf_counter() < start + seconds:
            count = self.heard()
            done += count
            for _ in range(count):
                self.ask()
        seconds = time.perf_counter() - start
        left = CALLERS
        while left:
            left -= self.heard()
        return done / seconds

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


def installed(goals: Goals) -> dict[str, str]:
    """The programs of the gateways that are there, by name; installed where they are missing."""
    found = {}
    for name, wanted in PYTHON_PEERS.items():
        program = PEERS / name / "bin" / name
        if not program.exists():
            quiet(sys.executable, "-m", "venv", str(PEERS / name))
            quiet(str(PEERS / name / "bin" / "python"), "-m", "pip", "install", "-q", wanted)
        found[name] = program
    for name, wanted in NODE_PEERS.items():
        program = PEERS / "node" / "node_modules" / ".bin" / name
        if not program.exists():
            quiet("npm", "install", "--silent", "--no-fund", "--prefix", str(PEERS / "node"), wanted)
        found[name] = program
    for name, program in found.items():
        if not program.exists():
            goals.skip(f"beside {name}", "it cannot be installed here")
    return {name: str(program) for name, program in found.items() if program.exists()}


def quiet(*command: str) -> None:
    try:
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except OSError:
        return  # such a program is not here: what it would have made is missing, and is said so


def commands(folder: str, peers: dict[str, str], started: ExitStack) -> dict[str, list[str]]:
    """What each contender is started by."""
    me = [sys.executable, __file__, "--role"]
    echo, port = f"{folder}/echo.sock", 18700 + os.getpid() % 1000
    for role, path in (("echo", echo), ("router", f"{folder}/r")):
        call_path.start(started, role, role, ROOT, *([path] if role == "echo" else [path, echo]))
    bridge = [sys.executable, "-I", "-S", str(ROOT / "reconciler/doors/bridge.py"), "echo"]
    found = {"direct": [*me, "stdio"], "handler": [*bridge, "--socket", f"{folder}/r/echo.sock"]}
    if "fastmcp" in peers:
        servers = {"mcpServers": {"echo": {"command": sys.executable, "args": [__file__, "--role", "stdio"]}}}
        Path(folder, "fastmcp.json").write_text(json.dumps(servers))
        quietly = ["--no-banner", "--log-level", "ERROR"]
        found["fastmcp"] = [peers["fastmcp"], "run", f"{folder}/fastmcp.json", *quietly]
    if peers.keys() & {"mcp-proxy", "supergateway"}:
        process = subprocess.Popen([*me, "http", "--port", str(port)])
        started.callback(process.wait)
        started.callback(process.terminate)
        time.sleep(1)
    url = f"http://127.0.0.1:{port}/mcp"
    if "mcp-proxy" in peers:
        found["mcp-proxy"] = [
            peers["mcp-proxy"],
            "--transport",
            "streamablehttp",
            "--log-level",
            "ERROR",
            url,
        ]
    if "supergateway" in peers:
        found["supergateway"] = [peers["supergateway"], "--streamableHttp", url, "--logLevel", "none"]
    return found


def measure(clients: list[Client], goals: Goals, *, quick: bool) -> None:
    rounds, calls, seconds = (2, 150, 0.3) if quick else (5, 400, 0.8)
    added: dict[str, list[float]] = {one.name: [] for one in clients}
    rates: dict[str, list[float]] = {one.name: [] for one in clients}
    for _ in range(rounds):
        direct = 0.0
        for one in clients:
            p50 = statistics.median(one.calls(calls))
            direct = direct or p50  # the first is the one that the others are compared with
            added[one.name].append(p50 - direct)
            rates[one.name].append(one.rate(seconds))
    goals.title("through stdio, 200 B")
    for one in clients:
        told = f"{statistics.median(rates[one.name]):9.0f} calls/s with {CALLERS} on their way"
        goals.figure(f"{one.name} adds", statistics.median(added[one.name]), "µs", told)
    gateways = [one.name for one in clients[2:]]
    if gateways:
        mine = statistics.median(added["handler"])
        best = min(gateways, key=lambda name: statistics.median(added[name]))
        ratio = mine / statistics.median(added[best])
        told = goals.goal("added by the bridge", ratio, 1 / 10, f"times what {best} adds, the best gateway")
        goals.figure("beside the best", ratio, "", told)
    if "fastmcp" in gateways:
        ratio = mine / statistics.median(added["fastmcp"])
        told = goals.goal("added by the bridge", ratio, 1 / 30, "times what FastMCP's proxy adds")
        goals.figure("beside FastMCP", ratio, "", told)
        ratio = statistics.median(rates["fastmcp"]) / statistics.median(rates["handler"])
        told = goals.goal("calls/s", ratio, 1 / 50, "FastMCP's calls a second to ours")
        goals.figure("calls/s of FastMCP", ratio, "", told)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--role", choices=("stdio", "http"), help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.role == "stdio":
        serve_stdio()
        return 0
    if given.role == "http":
        uvloop.run(serve_http(given.port))
        return 0
    goals = Goals()
    peers = installed(goals)
    with tempfile.TemporaryDirectory(prefix="hg-") as folder, ExitStack() as started:
        clients = []
        for name, command in commands(folder, peers, started).items():
            clients.append(Client(name, command))
            started.callback(clients[-1].end)
        measure(clients, goals, quick=given.quick)
    return goals.end()


if __name__ == "__main__":
    raise SystemExit(main())
