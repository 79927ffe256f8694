"""Cold start: from the wish for a connector to its first answer, in its sandbox, beside bare interpreters.

    python benchmarks/coldstart.py [--rounds 25] [--check]

Contenders are interleaved in one run, so that what counts, the ratios, sees the same machine. Each is timed
from before its spawn until a client has read the answer to ``initialize`` from a Unix socket:

- floor: ``python -I -S`` with a blocking socket and nothing else;
- asyncio: ``python -I`` with an asyncio server, the usual way to write one;
- sandbox alone: the connector in the very sandbox, spawned by hand, without a supervisor around it;
- Handler: ``Supervisor.ready`` and one question: folder, socket, control groups, limits, sandbox, kit.

Goals (docs: performance): Handler at most 0.45 times asyncio; Handler over the sandbox alone, which is the
product's own share of a cold call, at most 5 ms.
"""

import argparse
import asyncio
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import reconciler
from reconciler.model.recipes import Pinned, Recipe, SandboxPolicy, folder_digest
from reconciler.runtime import host, sandbox, seccomp
from reconciler.runtime.objects import Objects
from reconciler.runtime.supervisor import RuntimeFolders, Supervisor

MOST_OF_ASYNCIO = 0.45
MOST_OWN_MS = 5.0
QUESTION = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}\n'
KIT = Path(reconciler.__file__).parent / "kit" / "handler_connector.py"

CONNECTOR = b"""
from handler_connector import serve

serve({"echo_say": lambda args, call: {"text": args["text"]}})
"""
FLOOR = """
import json, socket, sys
listener = socket.socket(socket.AF_UNIX); listener.bind(sys.argv[1]); listener.listen(8)
while True:
    connection, _ = listener.accept()
    file = connection.makefile("rwb")
    for line in file:
        answer = {"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": {}}
        file.write(json.dumps(answer).encode() + b"\\n"); file.flush()
"""
ASYNCIO = """
import asyncio, json, sys
async def serve(reader, writer):
    while line := await reader.readline():
        answer = {"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": {}}
        writer.write(json.dumps(answer).encode() + b"\\n")
async def main():
    server = await asyncio.start_unix_server(serve, sys.argv[1])
    await server.serve_forever()
asyncio.run(main())
"""


def asked(path: str) -> None:
    """Connect as soon as the socket is there and read one answer."""
    deadline = time.perf_counter() + 20
    while True:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(path)
            except OSError:
                if time.perf_counter() > deadline:
                    raise
                time.sleep(0.0003)
                continue
            client.sendall(QUESTION)
            read = b""
            while not read.endswith(b"\n"):
                read += client.recv(65536)
            return


@dataclass
class Bench:
    """A folder, what is measured in it, and the times so far in milliseconds."""

    base: Path
    times: dict[str, list[float]]

    def timed(self, name: str, spawn: Callable[[str], "subprocess.Popen[bytes]"]) -> None:
        """One start of something that binds its own socket or gets one that listens."""
        path = str(self.base / "bare.sock")
        Path(path).unlink(missing_ok=True)
        start = time.perf_counter()
        child = spawn(path)
        try:
            asked(path)
            self.times.setdefault(name, []).append((time.perf_counter() - start) * 1000)
        finally:
            child.kill()
            child.wait()


def bare(program: str, *flags: str) -> Callable[[str], "subprocess.Popen[bytes]"]:
    interpreter = host.survey().interpreter
    environment = {"LANG": "C.UTF-8", "PATH": "/usr/bin"}
    command = [interpreter, *flags, "-c", program]
    return lambda path: subprocess.Popen([*command, path], env=environment, stdin=subprocess.DEVNULL)


def sandboxed(base: Path, app: Path, kit: Path) -> Callable[[str], "subprocess.Popen[bytes]"]:
    """The sandbox of the product, spawned as a shell script would, behind a socket that listens already."""
    machine = host.survey()
    (base / "in").mkdir(exist_ok=True)
    place = sandbox.Place(
        app=str(app), entry="main.py", kit=str(kit), environment="", inbox=str(base / "in"), uid=899_999,
        variables=(("HANDLER_CONNECTOR_FD", "3"), ("LANG", "C.UTF-8"), ("PATH", "/usr/bin")),
    )  # fmt: skip
    options = sandbox.options(machine, SandboxPolicy(), place)
    filters = seccomp.program(os.uname().machine)

    def spawn(path: str) -> "subprocess.Popen[bytes]":
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(8)
        number, nobody = os.memfd_create("seccomp", os.MFD_CLOEXEC), os.open("/dev/null", os.O_WRONLY)
        os.write(number, filters)
        os.lseek(number, 0, os.SEEK_SET)
        command = sandbox.command(machine, place, listener.fileno(), nobody)
        child = subprocess.Popen(
            [machine.bwrap, *options, "--seccomp", str(number), "--", *command],
            pass_fds=(number, listener.fileno(), nobody), env={}, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        for one in (number, nobody):
            os.close(one)
        listener.close()
        return child

    return spawn


async def supervised(bench: Bench, supervisor: Supervisor, round_: int) -> None:
    """One start through the supervisor, of an instance that never ran before."""
    files = {"main.py": CONNECTOR + b"# %d\n" % round_}
    code = Pinned(folder_digest(files), files)
    recipe = Recipe(
        binding="echo", connector="echo", runtime="python", code=code.digest, entry="main.py", environment="",
        settings=(), secrets=(), models=(), egress=(), sandbox=SandboxPolicy(), state="none", kit="",
    )  # fmt: skip
    name = await supervisor.declare(recipe, code)
    loop = asyncio.get_running_loop()
    start = time.perf_counter()
    endpoint = await supervisor.ready(name)
    with endpoint.connect() as client:
        await loop.sock_sendall(client, QUESTION)
        while not (await loop.sock_recv(client, 65536)).endswith(b"\n"):
            pass
        bench.times.setdefault("Handler", []).append((time.perf_counter() - start) * 1000)
    supervisor.answered(name)
    await supervisor.retire(name)


async def measured(rounds: int) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory(prefix="handler-cold-") as folder:
        base = Path(folder)
        base.chmod(0o755)
        objects = Objects(base / "raw")
        files = {"main.py": CONNECTOR}
        raw = sandboxed(base, objects.pin(folder_digest(files), files), objects.pin_kit(KIT))
        floor, usual = bare(FLOOR, "-I", "-S"), bare(ASYNCIO, "-I")
        bench = Bench(base, {})
        folders = RuntimeFolders(base / "state", base / "run")
        supervisor = Supervisor(folders, event=lambda seen: None, kit=KIT)
        await supervisor.walls()
        for round_ in range(rounds + 2):
            if round_ == 2:  # two to warm caches
                bench.times.clear()
            bench.timed("floor", floor)
            bench.timed("asyncio", usual)
            bench.timed("sandbox alone", raw)
            await supervised(bench, supervisor, round_)
        await supervisor.close()
        return bench.times


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    arguments = parser.parse_args()
    times = asyncio.run(measured(arguments.rounds))
    usual = statistics.median(times["asyncio"])
    print(f"cold start, {arguments.rounds} interleaved rounds, python {sys.version.split()[0]}")
    print(f"{'':16}{'median ms':>10}{'best ms':>10}{'x asyncio':>11}")
    for name, found in times.items():
        median = statistics.median(found)
        print(f"{name:16}{median:>10.1f}{min(found):>10.1f}{median / usual:>11.2f}")
    ratio = statistics.median(times["Handler"]) / usual
    own = statistics.median(map(lambda ours, raw: ours - raw, times["Handler"], times["sandbox alone"]))
    goals = (
        (f"Handler {ratio:.2f} times bare asyncio", ratio <= MOST_OF_ASYNCIO, f"{MOST_OF_ASYNCIO}"),
        (f"the product's own share {own:.1f} ms", own <= MOST_OWN_MS, f"{MOST_OWN_MS:.0f} ms"),
    )
    for words, met, most in goals:
        print(f"{words} (goal: at most {most}): {'met' if met else 'missed'}")
    return 0 if all(met for _, met, _ in goals) or not arguments.check else 1


if __name__ == "__main__":
    sys.exit(main())
