"""The ways out of a sandbox beside a direct connection: what the proxy and the gate cost.

    python benchmarks/wayout.py [--check]

An origin, the proxy and the gate are processes of their own; the client is this one, with blocking sockets.
Rounds of each contender are interleaved. ``relay`` is the floor of a proxy in Python: it copies bytes
between two connections, by streams on uvloop, and decides nothing.

Goals: a tunnel takes at most 1.5 times a relay's time for a round trip, and has at least 0.6 times its
throughput, since after its greeting it does the same.
"""

import argparse
import asyncio
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop
from goals import Goals

from reconciler.egress.gate import Gate, Slots, Verdicted
from reconciler.egress.proxy import Proxy
from reconciler.model.hosts import Allow
from reconciler.runtime import sockets

MOST_OF_RELAY = 1.5
SLOWEST = 1 / 0.6
ROUNDS, TRIPS, MIB = 7, 300, 64
BLOCK = b"x" * 65536


async def origin(port: int) -> None:
    """Sends back a line; sends 64 MiB for "m"; answers an HTTP request with two bytes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            if line.startswith(b"m"):
                for _ in range(MIB * 16):
                    writer.write(BLOCK)
                    await writer.drain()
            elif line.startswith(b"GET"):
                while (await reader.readline()).strip():
                    pass
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
                break
            else:
                writer.write(line)
        writer.close()

    await (await asyncio.start_server(serve, "127.0.0.1", port)).serve_forever()


async def relay(port: int, far: int) -> None:
    """Copies between two connections, by the streams that the proxy has, too."""

    async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
        target.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, thither = await asyncio.open_connection("127.0.0.1", far)
        await asyncio.gather(pump(reader, thither), pump(there, writer))

    await (await asyncio.start_server(serve, "127.0.0.1", port)).serve_forever()


async def proxy(port: int, far: int) -> None:
    await Proxy(Allow([f"127.0.0.1:{far}"]), lambda decision: None).start(
        socket.create_server(("127.0.0.1", port))
    )
    await asyncio.Event().wait()


async def gate(folder: str, far: int) -> None:
    async def may(ask: object) -> Verdicted:
        return Verdicted(go=True)

    listener = sockets.listen(sockets.folder(Path(folder)), "gate.sock")
    listener.setblocking(False)
    allow = Allow([f"127.0.0.1:{far}"])
    trust = ssl.create_default_context()
    await Gate(allow, Slots.of([]), may, lambda passage: None, b"k" * 32, trust).start(listener)
    await asyncio.Event().wait()


def direct(port: int) -> socket.socket:
    deadline = time.monotonic() + 20
    while True:
        try:
            made = socket.create_connection(("127.0.0.1", port))
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
            continue
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made


def tunnel(port: int, far: int) -> socket.socket:
    made = direct(port)
    made.sendall(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % (far, far))
    got = b""
    while not got.endswith(b"\r\n\r\n"):
        got += made.recv(4096)
    if b" 200 " not in got:
        raise SystemExit(got.decode())
    return made


def opened_us(connect: Callable[[], socket.socket]) -> float:
    """A connection and the first round trip on it."""
    start = time.perf_counter()
    with connect() as made:
        made.sendall(b"first\n")
        made.recv(65536)
    return (time.perf_counter() - start) * 1e6


def trip_us(connect: Callable[[], socket.socket]) -> float:
    """A round trip of 200 bytes on a connection that stands."""
    line, taken = b"l" * 199 + b"\n", []
    with connect() as made:
        for _ in range(TRIPS):
            start = time.perf_counter()
            made.sendall(line)
            read = 0
            while read < len(line):
                read += len(made.recv(65536))
            taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1e6


def pull_ms(connect: Callable[[], socket.socket]) -> float:
    """64 MiB down."""
    with connect() as made:
        made.sendall(b"m\n")
        start, left = time.perf_counter(), MIB * 2**20
        while left:
            left -= len(made.recv(min(left, 2**20)))
    return (time.perf_counter() - start) * 1e3


def request_us(connect: Callable[[], socket.socket], head: bytes) -> float:
    """One HTTP request on a connection of its own, as the gate takes them."""
    start = time.perf_counter()
    with connect() as made:
        made.sendall(head)
        got = b""
        while data := made.recv(65536):
            got += data
    if b" 200 " not in got:
        raise SystemExit(got.decode())
    return (time.perf_counter() - start) * 1e6


def at_gate(folder: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.connect(f"{folder}/gate.sock")
    return made


def told(goals: Goals, ways: dict[str, Callable[[], socket.socket]]) -> None:
    for title, measure, unit, most in (
        ("a connection and its first round trip", opened_us, "µs", None),
        ("a round trip of 200 B in a tunnel that stands", trip_us, "µs", MOST_OF_RELAY),
        (f"{MIB} MiB down", pull_ms, "ms", SLOWEST),
    ):
        goals.title(title)
        found: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, connect in ways.items():
                found[name].append(measure(connect))
        medians = {name: statistics.median(times) for name, times in found.items()}
        for name, value in medians.items():
            over = value / medians["direct"]
            said = "" if name == "direct" else f"{over:.2f} times direct"
            if name == "tunnel" and most is not None:
                said += "  " + goals.goal("tunnel", value / medians["relay"], most, "times the relay")
            goals.figure(name, value, unit, said)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    parser.add_argument("--serve", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        what, *words = arguments.serve
        numbers: list[Any] = [int(one) if one.isdigit() else one for one in words]
        serving: dict[str, Any] = {"origin": origin, "relay": relay, "proxy": proxy, "gate": gate}
        uvloop.run(serving[what](*numbers))
    goals = Goals()
    with socket.socket() as one, socket.socket() as two, socket.socket() as three:
        for free in (one, two, three):
            free.bind(("127.0.0.1", 0))
        far, through, past = (free.getsockname()[1] for free in (one, two, three))
    with tempfile.TemporaryDirectory() as folder:
        served = (
            ("origin", far), ("proxy", through, far), ("relay", past, far), ("gate", folder, far),
        )  # fmt: skip
        children = [
            subprocess.Popen([sys.executable, __file__, "--serve", *map(str, words)]) for words in served
        ]
        try:
            for port in (far, through, past):
                direct(port).close()
            while not Path(folder, "gate.sock").exists():
                time.sleep(0.02)
            told(
                goals,
                {
                    "direct": lambda: direct(far),
                    "relay": lambda: direct(past),
                    "tunnel": lambda: tunnel(through, far),
                },
            )
            goals.title("one HTTP request on a connection of its own")
            head = b"GET http://127.0.0.1:%d/x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % (far, far)
            plain = [request_us(lambda: direct(far), head) for _ in range(TRIPS)]
            gated = [request_us(lambda: at_gate(folder), head) for _ in range(TRIPS)]
            goals.figure("direct", statistics.median(plain), "µs")
            over = statistics.median(gated) / statistics.median(plain)
            goals.figure("through the gate", statistics.median(gated), "µs", f"{over:.2f} times direct")
        finally:
            for child in children:
                child.terminate()
                child.wait()
    missed = goals.end()
    return missed if arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
