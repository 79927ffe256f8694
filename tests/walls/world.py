"""Connectors that try every way out of ``escapes``, with real targets outside, and what stopped each."""

import asyncio
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from reconciler.control.journal import Journal
from reconciler.control.leaving import Leaving
from reconciler.egress.proxy import Proxy, Streams, dialled
from reconciler.model.names import InstanceName
from reconciler.model.recipes import Pinned, SandboxPolicy
from reconciler.runtime import seccomp
from tests.kit.processes import descendants
from tests.runtime.rig import KIT, Line, Rig, pinned, rig
from tests.walls import escapes, others

SERVES = b"""
import escapes
from handler_connector import serve
serve({"run": lambda args, call: escapes.answer({"method": "tools/call", "params": {"arguments": args}})
       ["structuredContent"]})
"""
MAPPING = b'[tool.run]\nfrom = "run"\noutput = "structured"\n'
LISTED = tuple(f"{name}.example.com:443" for name in ("api", "inward", "metadata"))
ADDRESSES = {"inward": "127.0.0.1", "metadata": "169.254.169.254"}
PROGRAMS: dict[str, dict[str, Any]] = {
    "python": {},
    "command": {"command": ("python", "escapes.py"), "entry": ""},
    "mcp": {"command": ("python", "escapes.py", "stdio"), "entry": ""},
    "image": {"image": others.REFERENCE, "entry": "", "ready_timeout_s": 60},
    "remote": {"entry": "", "egress": ("api.example.com:443",)},
}
RUNTIMES = tuple(PROGRAMS)
WAYS = (escapes.OUT, escapes.AT_GATE)
INSIDE = tuple(words for words, one in escapes.ATTEMPTS.items() if one.group not in WAYS)
THROUGH = tuple(words for words, one in escapes.ATTEMPTS.items() if one.group in WAYS)


@dataclass(frozen=True)
class Row:
    """One attempt of one run: ``wall`` stopped it, and showed itself as ``seen``; ``""``: it got through."""

    words: str
    group: str
    wall: str
    seen: str
    stopped: bool


@contextmanager
def targets(base: Path, *, watched: bool = True) -> Iterator[dict[str, Any]]:
    """Real things outside, each of which answers to who may reach it; what ``escapes`` calls ``given``.

    ``watched``: nobody came when this ends.
    """
    with ExitStack() as stack:
        tcp = stack.enter_context(
            socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        )
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        hidden = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract = f"\0handler-walls-{os.getpid()}"
        control = stack.enter_context(socket.socket(socket.AF_UNIX))
        hidden.bind(abstract)
        (base / "controller").mkdir(exist_ok=True)
        control.bind(str(base / "controller" / "control.sock"))
        for one in (hidden, control):
            one.listen()
        (base / "state").mkdir(exist_ok=True)
        secret = base / "secret"
        secret.write_text("canary-4711")
        secret.chmod(0o600)
        leaked = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
        stack.callback(os.close, leaked)
        os.dup2(leaked, 99, inheritable=True)
        stack.callback(os.close, 99)
        column = seccomp.architectures().index(os.uname().machine)
        tables = (seccomp._REFUSED, seccomp._UNHEARD_OF, seccomp._WEIGHED)
        yield {
            "tcp": tcp.getsockname()[1],
            "udp": udp.getsockname()[1],
            "abstract": abstract,
            "control": str(base / "controller" / "control.sock"),
            "state": str(base / "state"),
            "secret": str(secret),
            "home": str(Path.home()) if str(Path.home()) not in ("/", "/root") else "/root/.ssh",
            "leaked": 99,
            "pid": os.getpid(),
            "group": os.getpgrp(),
            "calls": {name: pair[column] for table in tables for name, pair in table.items() if pair[column]},
        }
        if not watched:
            return
        for one in (tcp, udp, hidden, control):
            one.setblocking(False)
        for what in (tcp.accept, hidden.accept, control.accept, lambda: udp.recv(1)):
            with suppress(BlockingIOError):
                raise AssertionError(f"somebody came through: {what()}")


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that answers whatever it is sent."""
    with suppress(ConnectionError):
        while await reader.read(65536):
            writer.write(b"answered")
            await writer.drain()
        writer.close()


@asynccontextmanager
async def stage(base: Path, kit: Path = KIT) -> AsyncIterator[Rig]:
    """A supervisor whose proxies lead every name to a server that answers everything."""
    server = await asyncio.start_server(_silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def resolve(host: str, number: int) -> Sequence[str]:
        return [ADDRESSES.get(host.partition(".")[0], "93.184.216.34")]

    async def dial(address: str, number: int) -> Streams:
        return await dialled("127.0.0.1", port)

    journal = Journal(base, time.time)
    leaving = Leaving(journal, partial(Proxy, resolve=resolve, dial=dial))
    try:
        async with rig(base, kit=kit, way_out=leaving.serve, gate=leaving.serve_gate) as made:
            yield made
    finally:
        await leaving.close()
        journal.close()
        server.close()


def code_of(runtime: str) -> Pinned:
    if runtime == "image":
        return others.picture()
    files = {"escapes.py": others.SOURCE}
    if runtime == "mcp":
        files["connector.toml"] = MAPPING
    return pinned(SERVES, **files)


async def declared(made: Rig, runtime: str, **changes: Any) -> InstanceName:
    """A connector that tries what it is told to."""
    small = SandboxPolicy(tmp_bytes=8 * 2**20)
    more = {"runtime": runtime, "sandbox": small, **PROGRAMS[runtime], **changes}
    return await made.declare(f"escapes-{runtime}", code_of(runtime), **more)


async def tried(line: Line, names: Sequence[str], given: dict[str, Any]) -> list[Row]:
    reply = await line.ask("tools/call", {"name": "run", "arguments": {"names": names, "given": given}})
    found = reply["result"]["structuredContent"]["answer"]
    return [judged(words, said) for words, said in found.items()]


def judged(words: str, said: dict[str, str]) -> Row:
    """Whether what was seen is what the wall that is meant to stand shows."""
    one = escapes.ATTEMPTS[words]
    seen = said.get("stopped") or next(iter(said.values()))
    stopped = said.get("stopped", "") in escapes.SEEN[one.wall]
    return Row(words, one.group, one.wall if stopped else "", seen, stopped)


# what only shows from outside


async def memory_bomb(made: Rig) -> Row:
    words = "1 GiB of memory"
    name = await made.declare("hog", sandbox=SandboxPolicy(memory_bytes=64 * 2**20))
    endpoint, line = await made.open(name)
    code = {"code": "held = [b'z' * 2**20 for _ in range(1024)]; answer = len(held)"}
    try:
        reply = await line.ask("tools/call", {"name": "run", "arguments": code})
    except ConnectionResetError:
        await endpoint.ended
        await asyncio.sleep(0)
        seen = made.phase(name).reason or ""
        return Row(words, escapes.BOUNDS, "bound on memory", seen, seen == "OutOfMemory")
    stopped = "MemoryError" in str(reply["result"])
    return Row(words, escapes.BOUNDS, "bound on memory", "MemoryError" if stopped else "got it", stopped)


BOMB = """
import os, signal, time
answer = 0
for _ in range(500):
    try:
        child = os.fork()
    except OSError:
        break
    if child == 0:
        os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(120); os._exit(0)
    answer += 1
"""


async def fork_bomb(made: Rig) -> list[Row]:
    """How many there come to be, and how many are left when their connector is ended."""
    name = await made.declare("bomb", sandbox=SandboxPolicy(pids=40))
    endpoint, line = await made.open(name)
    reply = await line.ask("tools/call", {"name": "run", "arguments": {"code": BOMB}})
    came = reply["result"]["structuredContent"]["answer"]
    inside = descendants(endpoint.pid)
    await made.supervisor.retire(name)
    left = inside & descendants()
    return [
        Row("500 processes", escapes.BOUNDS, "bound on processes", f"EAGAIN after {came}", 10 < came < 40),
        Row(
            "processes that hear no signal and outlive their connector",
            escapes.KILL,
            "own processes",
            f"{len(left)} of {len(inside)} left",
            not left and len(inside) > came,
        ),
    ]


UNTRIED = "not tried: no deno here"
UNBOUNDED = "told, not bounded"  # the condition `Uncontained` says it of such a connector
BURN = "import time\nend = time.monotonic() + 0.3\nwhile time.monotonic() < end: pass\nanswer = 1"


async def cpu_burn(made: Rig) -> Row:
    """Whether the kernel held it back, by the kernel's own count."""
    words = "a processor for itself"
    name = await made.declare("burn", sandbox=SandboxPolicy(cpu=0.3))
    _, line = await made.open(name)
    if made.phase(name).walls["cpu"] == "none":
        return Row(words, escapes.BOUNDS, UNBOUNDED, "no control group", stopped=True)
    limits = made.supervisor._limits
    (tree,) = (one for one in limits._trees if one.cpu)
    stat = tree.at / limits._label / str(name) / "cpu.stat"
    for _ in range(100):  # on a busy machine it may not get as much as it is allowed
        await line.ask("tools/call", {"name": "run", "arguments": {"code": BURN}})
        if int(dict(row.split() for row in stat.read_text().splitlines())["nr_throttled"]):
            return Row(words, escapes.BOUNDS, "bound on processors", "throttled", stopped=True)
    return Row(words, escapes.BOUNDS, "", "never held back", stopped=False)


FLOOD = """
import fcntl, os
fcntl.fcntl(1, fcntl.F_SETFL, os.O_NONBLOCK)
answer = 0
try:
    while answer < 2**26: answer += os.write(1, b"x" * 4095 + b"\\n")
except BlockingIOError:
    pass
"""


async def log_flood(made: Rig) -> Row:
    name = await made.declare("flood")
    _, line = await made.open(name)
    reply = await line.ask("tools/call", {"name": "run", "arguments": {"code": FLOOD}})
    wrote = reply["result"]["structuredContent"]["answer"]
    kept = sum(path.stat().st_size for path in (made.base / "state" / "logs").glob("flood*"))
    bounded = wrote < 2**26 and kept <= 2**20 + 65536
    return Row("64 MiB in its log", escapes.BOUNDS, "bound on the log", "EAGAIN", bounded)


async def everything(base: Path, runtimes: Sequence[str]) -> dict[str, list[Row]]:
    """Every attempt: by each runtime from inside, through a proxy, and those that show from outside."""
    found: dict[str, list[Row]] = {}
    with targets(base) as given:
        async with stage(base) as made:
            sleeper = await made.declare("other")
            endpoint, _ = await made.open(sleeper)
            given["other"] = str(base / "run" / "i" / str(sleeper) / "connector.sock")
            given["objects"] = str(base / "state" / "objects")
            assert Path(given["other"]).is_socket()
            assert endpoint.pid
            for runtime in (one for one in runtimes if one not in APART):
                _, line = await made.open(await declared(made, runtime))
                found[runtime] = await tried(line, INSIDE, given)
            _, line = await made.open(await declared(made, "python", egress=LISTED))
            found[escapes.OUT] = await tried(line, THROUGH, given)
            bounds = [await memory_bomb(made), *await fork_bomb(made), await log_flood(made)]
            found[escapes.BOUNDS] = [*bounds, await cpu_burn(made)]
            for runtime in (one for one in runtimes if one in APART):
                found[runtime] = await APART[runtime](made, given)
    return found


async def by_image(made: Rig, given: dict[str, Any]) -> list[Row]:
    with others.kept(made.base):
        _, line = await made.open(await declared(made, "image"))
        return await tried(line, INSIDE, given)


async def by_remote(made: Rig, given: dict[str, Any]) -> list[Row]:
    """In the place of our wrapper, with the way out that it has."""
    base = made.base / "remote"
    async with stage(base, others.wrapper(made.base, SERVES)) as apart:
        _, line = await apart.open(await declared(apart, "remote"))
        return await tried(line, INSIDE, given)


async def by_script(made: Rig, given: dict[str, Any]) -> list[Row]:
    if not others.deno():
        return [Row("every one", others.GROUP, UNTRIED, "pip install deno", stopped=True)]
    code = pinned(b"", **{"main.ts": others.SCRIPT.read_bytes()})
    small = SandboxPolicy(tmp_bytes=8 * 2**20)
    name = await made.declare("script", code, runtime="deno", entry="main.ts", sandbox=small)
    _, line = await made.open(name)
    reply = await line.ask("tools/call", {"name": "run", "arguments": {"given": given}})
    rows, said = [], reply["result"]["structuredContent"]["answer"]
    for words, wall in others.script().items():
        seen, stopped = others.stopped(words, said[words])
        rows.append(Row(words, others.GROUP, wall if stopped else "", seen, stopped))
    return rows


APART = {"image": by_image, "remote": by_remote, "deno": by_script}


def run(runtimes: Sequence[str] = (*RUNTIMES, "deno")) -> dict[str, list[Row]]:
    """``everything``, in a folder of its own that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="handler-walls-") as folder:
        return asyncio.run(everything(Path(folder), runtimes))


if __name__ == "__main__":
    json.dump({key: [asdict(row) for row in rows] for key, rows in run().items()}, sys.stdout)
