"""Cold start and idle memory: a connector of each runtime in its sandbox, beside the bare program.

    python benchmarks/coldstart.py [--rounds 15] [--check]

All are interleaved in one run, so that what counts, the ratios, sees the same machine. Each is timed from
before its spawn until a client has read the answer to ``initialize``:

- bare: the interpreter alone, listening on a Unix socket (of ``mcp``: on its pipes), without any sandbox;
- bwrap alone: bubblewrap with the whole file system, which runs ``true`` and ends;
- sandbox alone: a python connector in the very sandbox, spawned by hand, without a supervisor around it;
- Handler: ``Supervisor.ready`` and one question: folder, socket, control groups, limits, sandbox, kit.

Goals: a python connector takes at most 0.45 times a bare python with asyncio, the usual way to write one; the
product's own share of a cold call (Handler over the sandbox alone) is at most 5 ms where a bare python starts
in 21, so at most 0.24 times that; the controller at rest has at most 1.15 times the memory of its imports.
Memory is PSS of all processes, after the first answer.
"""

import argparse
import asyncio
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import programs
from goals import Goals

import reconciler
from reconciler.model.recipes import Pinned, Recipe, SandboxPolicy, folder_digest
from reconciler.runtime import host, sandbox, seccomp
from reconciler.runtime.objects import Objects
from reconciler.runtime.supervisor import RuntimeFolders, Supervisor

MOST_OF_ASYNCIO = 0.45
MOST_OWN = 5 / 21  # of a bare python with a blocking socket
MOST_OF_IMPORTS = 1.15
QUESTION = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}\n'
KIT = Path(reconciler.__file__).parent / "kit" / "handler_connector.py"
# What a controller cannot do without, as the goal has it.
IMPORTS = """
import asyncio, json, time, orjson, jsonschema_rs, tomli, tomlkit, uvloop, anyio
from pydantic import BaseModel
time.sleep(99)
"""
PLAIN = {"LANG": "C.UTF-8", "PATH": "/usr/bin"}
Spawn = Callable[[str], "subprocess.Popen[bytes]"]


def memory_mib(pid: int) -> float:
    """PSS of a process and of all that it started."""
    total, left = 0, [pid]
    while left:
        one = left.pop()
        try:
            text = Path(f"/proc/{one}/smaps_rollup").read_text()
            left += map(int, Path(f"/proc/{one}/task/{one}/children").read_text().split())
        except OSError:
            continue
        total += next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return total / 1024


def answered(path: str) -> None:
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
    """A folder, and of each contender its times in milliseconds and its memory."""

    base: Path
    times: dict[str, list[float]] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)

    def took(self, name: str, start: float) -> None:
        self.times.setdefault(name, []).append((time.perf_counter() - start) * 1000)

    def bare(self, name: str, spawn: Spawn) -> None:
        """One start of something that binds its own socket, or gets one that listens."""
        path = str(self.base / "bare.sock")
        Path(path).unlink(missing_ok=True)
        start = time.perf_counter()
        child = spawn(path)
        try:
            answered(path)
            self.took(name, start)
            self.memory[name] = memory_mib(child.pid)
        finally:
            child.kill()
            child.wait()

    def pipes(self, name: str, command: list[str]) -> None:
        """One start of a server of standard input and output."""
        start = time.perf_counter()
        with subprocess.Popen(command, env=PLAIN, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdin is not None and child.stdout is not None
            child.stdin.write(QUESTION)
            child.stdin.flush()
            child.stdout.readline()
            self.took(name, start)
            self.memory[name] = memory_mib(child.pid)
            child.stdin.close()

    def ratio(self, name: str, other: str) -> float:
        return statistics.median(self.times[name]) / statistics.median(self.times[other])


def on_a_path(*command: str) -> Spawn:
    return lambda path: subprocess.Popen([*command, path], env=PLAIN, stdin=subprocess.DEVNULL)


def sandboxed(base: Path, app: Path, kit: Path) -> Spawn:
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


async def supervised(bench: Bench, supervisor: Supervisor, kind: str, round_: int, image: str) -> None:
    """One start through the supervisor, of an instance that never ran before."""
    written, more = programs.KINDS[kind]
    files = {**written, "round": b"%d" % round_}
    code = Pinned(folder_digest(files), files)
    plain: dict[str, object] = {
        "binding": kind, "connector": kind, "runtime": kind, "code": code.digest, "entry": "main.py",
        "environment": "", "settings": (), "secrets": (), "models": (), "egress": (),
        "sandbox": SandboxPolicy(), "state": "none", "kit": "", "image": image if kind == "image" else "",
    }  # fmt: skip
    name = await supervisor.declare(Recipe(**(plain | more)), code)  # type: ignore[arg-type]
    loop = asyncio.get_running_loop()
    while (seen := supervisor.seen(name)) is not None and seen.phase == "building":
        await asyncio.sleep(0.01)  # an image is unpacked when it is declared, not at its start
    start = time.perf_counter()
    endpoint = await supervisor.ready(name)
    with endpoint.connect() as client:
        await loop.sock_sendall(client, QUESTION)
        while not (await loop.sock_recv(client, 65536)).endswith(b"\n"):
            pass
        bench.took(kind, start)
        bench.memory[kind] = memory_mib(endpoint.pid)
    supervisor.answered(name)
    await supervisor.retire(name)


def contenders(bench: Bench, kinds: Mapping[str, str]) -> list[Callable[[], None]]:
    """One start of each of those that the supervisor does not start."""
    base, machine = bench.base, host.survey()
    objects = Objects(base / "raw")
    files = {"main.py": programs.PYTHON}
    raw = sandboxed(base, objects.pin(folder_digest(files), files), objects.pin_kit(KIT))
    floor = on_a_path(machine.interpreter, "-I", "-S", "-c", programs.FLOOR)
    usual = on_a_path(machine.interpreter, "-I", "-c", programs.ASYNCIO)
    stdio = [machine.interpreter, "-I", "-S", "-c", programs.STDIO]

    def wrapped() -> None:
        start = time.perf_counter()
        subprocess.run(
            (machine.bwrap, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "/bin/true"),
            check=True, env=PLAIN,
        )  # fmt: skip
        bench.took("bwrap alone", start)

    found = [
        wrapped,
        lambda: bench.bare("bare python", floor),
        lambda: bench.bare("bare asyncio", usual),
        lambda: bench.bare("sandbox alone", raw),
        lambda: bench.pipes("bare stdio", stdio),
    ]
    if "deno" in kinds:
        script = base / "bare.ts"
        script.write_text(programs.BARE_DENO)
        deno = on_a_path(kinds["deno"], "run", "-A", "--no-lock", "--quiet", str(script))
        found.append(lambda: bench.bare("bare deno", deno))
    if "image" in kinds:
        perl = on_a_path("/usr/bin/perl", "-e", programs.PERL, "--")
        found.append(lambda: bench.bare("bare perl", perl))
    return found


def kinds_here(base: Path, goals: Goals) -> dict[str, str]:
    """The runtimes that this machine has, each with what its program or its image is."""
    kinds = {"python": "", "command": "", "mcp": ""}
    try:
        kinds["deno"] = os.path.realpath(host.deno("/usr/bin/deno").mounts[0][0])
    except host.Missing as fault:
        goals.skip("deno", str(fault))
    try:
        kinds["image"] = programs.perl_image(base)
    except (OSError, subprocess.CalledProcessError) as fault:
        goals.skip("image", f"podman does not import one here: {fault}")
    return kinds


async def measured(bench: Bench, rounds: int, kinds: Mapping[str, str]) -> None:
    others = contenders(bench, kinds)
    folders = RuntimeFolders(bench.base / "state", bench.base / "run")
    supervisor = Supervisor(folders, event=lambda seen: None, kit=KIT)
    await supervisor.walls()
    for round_ in range(rounds + 2):
        if round_ == 2:  # two to warm caches
            bench.times.clear()
        for one in others:
            one()
        for kind in kinds:
            await supervised(bench, supervisor, kind, round_, kinds.get("image", ""))
    await supervisor.close()


def at_rest(base: Path) -> tuple[float, float]:
    """Memory of a controller that has nothing to do, and of a python with its imports and no more."""
    config = base / "config"
    config.mkdir()
    (config / "handler.toml").write_text('apiVersion = "handler.config/v1"\n')
    own = {"HANDLER_STATE": str(base / "hs"), "HANDLER_RUN": str(base / "hr"), "HANDLER_CONFIG": str(config)}
    daemon = subprocess.Popen(
        [Path(sys.executable).parent / "handlerd", "-q"], env={**os.environ, **own}, stderr=subprocess.DEVNULL
    )
    imports = subprocess.Popen([sys.executable, "-c", IMPORTS])
    try:
        deadline = time.monotonic() + 30
        while not (base / "hr" / "control.sock").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(2)
        return memory_mib(daemon.pid), memory_mib(imports.pid)
    finally:
        daemon.send_signal(signal.SIGTERM)
        imports.kill()
        daemon.wait(30)
        imports.wait()


# Of each runtime, the bare program that does the same.
_BARE = {
    "python": "bare python", "command": "bare python", "mcp": "bare stdio", "deno": "bare deno",
    "image": "bare perl",
}  # fmt: skip


def told(goals: Goals, bench: Bench) -> None:
    """Print the figures, a table of times and memory first."""
    print(f"{'':16}{'median ms':>10}{'best ms':>9}{'MiB':>7}  beside")
    for name, times in bench.times.items():
        beside = _BARE.get(name)
        over = f"{bench.ratio(name, beside):5.2f} x {beside}" if beside else ""
        used = f"{bench.memory[name]:7.1f}" if name in bench.memory else f"{'-':>7}"
        print(f"{name:16}{statistics.median(times):10.1f}{min(times):9.1f}{used}  {over}".rstrip())
    goals.title("cold start of a python connector")
    ratio = bench.ratio("python", "bare asyncio")
    said = goals.goal("cold start", ratio, MOST_OF_ASYNCIO, "times bare asyncio")
    goals.figure("through the supervisor", statistics.median(bench.times["python"]), "ms", said)
    shares = map(lambda ours, raw: ours - raw, bench.times["python"], bench.times["sandbox alone"])
    own = statistics.median(shares)
    share = own / statistics.median(bench.times["bare python"])
    said = goals.goal("own share", share, MOST_OWN, "times bare python")
    goals.figure("own share of a cold call", own, "ms", said)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    arguments = parser.parse_args()
    goals = Goals()
    print(f"cold start, {arguments.rounds} interleaved rounds, python {sys.version.split()[0]}")
    base = Path(tempfile.mkdtemp(prefix="handler-cold-"))
    base.chmod(0o755)
    kinds = kinds_here(base, goals)
    try:
        bench = Bench(base)
        asyncio.run(measured(bench, arguments.rounds, kinds))
        told(goals, bench)
        used, imports = at_rest(base)
        goals.title("a controller with nothing to do")
        said = goals.goal("memory", used / imports, MOST_OF_IMPORTS, "times its bare imports")
        goals.figure("PSS", used, "MiB", said)
    finally:
        if "image" in kinds:
            programs.forget_image()
        shutil.rmtree(base, ignore_errors=True)
    missed = goals.end()
    return missed if arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
