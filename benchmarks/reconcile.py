"""How long a reconcile takes: from files on disk to a new desired state, beside its floors in the same run.

python benchmarks/reconcile.py [--objects 10 1000 10000] [--rounds 7] [--served 1000] [--kept 10000]

Each figure that has a goal shows the ratio that the goal is about, with ✓ or ✗; the last line counts them,
and with --strict a missed goal ends with 1. Absolute times are the machine's; the ratios count.

Floor: `stat` of every file. Peers: `stat + read + tomllib` of every file, and `read + tomllib` of one: what a
reader with the standard library pays, which a compiled parser can beat. Ours: a cold pass (scan twice, load,
admit, desire, diff: nothing remembered), a no-op pass (nothing changed), and one known file that changed
(hint, load, admit, desire, diff). A checkout is half of the files changed at once: one generation, beside a
cold pass of ours. Medians of CPU time, which others on the machine disturb least.

End to end: a controller of its own serves a configuration; from the rename of one file to the new status file
of its object, beside the rename as raw inotify hears of it, of the same edits, and beside watchfiles as it
comes; and what the controller uses while nothing happens (the goal is chosen: no peer does the same).

Memory: the proportional set size of a process that holds the desired state of so many objects, less that of
one which holds ten; and what two thousand edits add. Checking: `handler validate` beside `taplo lint` with
the same schemas, where taplo is installed (PyPI has it; $TAPLO names it elsewhere).
"""

import argparse
import asyncio
import contextlib
import ctypes
import gc
import json
import os
import resource
import select
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import goals  # beside this file
import watchfiles

from reconciler.admission import frozen
from reconciler.admission.admit import Admission, admit
from reconciler.config import load, lock
from reconciler.control.source import Source
from reconciler.model.inventory import Layer, Lock, Tree
from reconciler.model.names import Kind
from reconciler.plan import diff, serving
from reconciler.plan.desired import Desired, desire

_KIT, _HOME = "0" * 64, "/home/nobody"
_EMPTY = Tree("none", {})
_STAT, _READ, _ONE = "floor: stat all", "peer: stat+read+tomllib", "peer: read+tomllib of one"
_BESIDE = {"cold": _READ, "no-op": _STAT, "one file": _ONE, "checkout of half": "cold"}
_GOALS = {"cold": 0.7, "no-op": 1.2, "one file": 3.0, "checkout of half": 1.5}  # times what is beside it
_AT_REST = 1.0  # % of a core, at the objects that are served

_ENOUGH_MS = 2_000
_IDLE_S = 5.0
_EDITS = 2_000
_WARM = 3  # edits that are not counted: a controller that just started may not watch yet


@dataclass
class World:
    """All that a controller remembers between two looks."""

    source: Source
    admission: Admission | None = None
    desired: Desired | None = None

    def look(self, hint: str | None = None) -> None:
        """One pass, as the loop does it."""
        tree = self.source.hint([hint]) if hint else self.source.scan()
        assert isinstance(tree, Tree), tree
        before = self.admission
        if before is not None and tree is before.inventory.trees[Layer.CONFIG]:
            return
        found = load.inventory(
            {Layer.CATALOG: _EMPTY, Layer.CONFIG: tree}, before.inventory if before else None
        )
        self.admission = admit(found, before.in_force if before else {}, before)
        old = self.desired
        generation = old.table.generation + 1 if old else 1
        self.desired = desire(self.admission, generation=generation, kit=_KIT, home=_HOME, previous=old)
        table = old.table if old else serving.NOTHING
        diff.steps(self.desired.table, diff.Standing(table.recipes, table))


def write(root: Path, objects: int) -> None:
    """A configuration of so many objects: one interface, one connector, half bindings, half agents."""
    texts: dict[str, str] = {}
    shape = {"type": "object", "additionalProperties": False, "required": ["word"]}
    shape["properties"] = {"word": {"type": "string", "maxLength": 100}}
    tool = {
        "name": "ocr_say",
        "title": "Say",
        "description": "Say it.",
        "inputSchema": shape,
        "outputSchema": shape,
    }
    folder = "interfaces/ocr/v1"
    texts[f"{folder}/interface.toml"] = (
        'apiVersion = "handler.interface/v1"\nname = "ocr"\nversion = 1\ndescription = "Words."\n'
        '[errors]\nbroken = "the word cannot be said"\n'
    )
    texts[f"{folder}/tools.json"] = json.dumps([tool])
    texts[f"{folder}/skills/ocr/SKILL.md"] = "---\nname: ocr\ndescription: Words.\n---\n`broken`: stop.\n"
    texts[f"{folder}/conformance/cases.toml"] = (
        '[[case]]\nname = "a word"\ntool = "ocr_say"\ninput = { word = "x" }\nexpect.contains = "x"\n'
    )
    texts["connectors/ocr-x/main.py"] = "print()\n"
    texts["connectors/ocr-x/connector.toml"] = (
        'apiVersion = "handler.connector/v1"\nname = "ocr-x"\ndescription = "Speaks."\n'
        'implements = ["ocr/v1"]\n'
        '[settings.language]\nenv = "OCR_LANGUAGE"\ndescription = "Which."\ndefault = "eng"\n'
    )
    for number in range(max(1, (objects - 2) // 2)):  # an interface, a connector, and pairs
        texts[f"bindings/ocr-{number}.toml"] = _binding(number, "eng")
        texts[f"agents/clerk-{number}.toml"] = (
            f'apiVersion = "handler.agent/v1"\ndescription = "Clerk number {number}."\n'
            f'requires = ["ocr/v1"]\nscope = ["/data/{number}"]\n\n[services]\nocr = "ocr-{number}"\n'
        )
    for path, text in texts.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    _publish(root)


def _binding(number: int, language: str) -> str:
    return (
        f'apiVersion = "handler.binding/v1"\ndescription = "Engine number {number}."\nconnector = "ocr-x"\n\n'
        f'[settings]\nlanguage = "{language}"\n\n[instance]\nidleStopSeconds = 120\n'
    )


def _publish(root: Path) -> None:
    tree = Source(root, Layer.CONFIG).scan()
    assert isinstance(tree, Tree)
    found = load.inventory({Layer.CATALOG: _EMPTY, Layer.CONFIG: tree})
    entries = {
        ref.name: frozen.entry(one, "bench", "2026-11-01")  # type: ignore[arg-type]
        for ref, one in found.resources.items()
        if ref.kind is Kind.INTERFACE
    }
    (root / "handler.lock").write_text(lock.render(Lock(entries)))


def _folders(root: Path) -> list[Path]:
    return [root, *(path for path in root.rglob("*") if path.is_dir())]


def read_all(root: Path) -> None:
    """Peer: stat, read and parse every TOML file with the standard library."""
    for folder in _folders(root):
        for path in folder.iterdir():
            if path.suffix == ".toml" and path.stat().st_size:
                tomllib.loads(path.read_bytes().decode())


def stat_scan(root: Path) -> None:
    """Floor: the quickest look at every file that Python has."""
    waiting = [str(root)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    entry.stat(follow_symlinks=False)


def timed(
    rounds: int, act: Callable[[], object], prepare: Callable[[int], object] = lambda number: None
) -> float:
    """The median of the rounds, in milliseconds; no further round once they took seconds."""
    taken = []
    for number in range(rounds):
        prepare(number)
        start = time.process_time()
        act()
        taken.append((time.process_time() - start) * 1e3)
        if sum(taken) > _ENOUGH_MS:
            break
    return statistics.median(taken)


def measure(root: Path, rounds: int) -> Mapping[str, float]:
    """Every figure for one folder, in milliseconds."""
    edited = root / "bindings/ocr-0.toml"

    def edit(number: int) -> None:
        beside = root / ".beside"
        beside.write_text(_binding(0, f"l{number}"))
        beside.rename(edited)

    few = max(2, rounds // 2)  # of what takes seconds
    world = World(Source(root, Layer.CONFIG))
    figures = {
        _STAT: timed(rounds, lambda: stat_scan(root)),
        _READ: timed(few, lambda: read_all(root)),
        "cold": timed(few, lambda: World(Source(root, Layer.CONFIG)).look(), lambda number: gc.collect()),
    }
    world.look()
    assert world.admission is not None
    assert not world.admission.refused, world.admission.problems[:3]
    time.sleep(0.1)  # files written just now are read again once: let them be old
    world.look()
    figures["no-op"] = timed(rounds, world.look)
    figures[_ONE] = timed(rounds * 3, lambda: tomllib.loads(edited.read_bytes().decode()), edit)
    figures["one file"] = timed(rounds * 3, lambda: world.look("bindings/ocr-0.toml"), edit)
    files = sorted((root / "bindings").glob("*.toml"))

    def checkout(turn: int) -> None:
        for number, path in enumerate(files):
            (root / ".beside").write_text(_binding(number, f"c{turn}"))
            (root / ".beside").rename(path)

    assert world.desired is not None
    generation = world.desired.table.generation
    figures["checkout of half"] = timed(few, world.look, checkout)
    assert world.desired.table.generation <= generation + few, "a checkout is one generation"
    return figures


class Inotify:
    """The kernel's own word of what was renamed into a folder, with nothing in between."""

    _MOVED_TO = 0x80

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_CLOEXEC)
        if self._fd < 0 or libc.inotify_add_watch(self._fd, os.fsencode(folder), self._MOVED_TO) < 0:
            raise OSError(ctypes.get_errno(), f"{folder} cannot be watched")

    def wait(self, name: str, timeout_s: float = 30.0) -> float:
        """The instant at which this name was heard of; TimeoutError when it was not."""
        end = time.perf_counter() + timeout_s
        while select.select([self._fd], [], [], max(0.0, end - time.perf_counter()))[0]:
            heard = time.perf_counter()
            if name in self._names(os.read(self._fd, 65536)):
                return heard
        raise TimeoutError(f"nothing was heard of {name} within {timeout_s} s")

    @staticmethod
    def _names(data: bytes) -> Iterator[str]:
        place = 0
        while place < len(data):
            (size,) = struct.unpack_from("I", data, place + 12)
            yield data[place + 16 : place + 16 + size].rstrip(b"\0").decode()
            place += 16 + size


@contextlib.contextmanager
def controller(config: Path, beside: Path, bindings: int) -> Iterator[tuple[Path, int]]:
    """A controller of this configuration in a process of its own, once it told of so many bindings; the
    folder of its status files, and its number.
    """
    state = beside / "state"
    environment = {**os.environ, "HANDLER_STATE": str(state), "HANDLER_RUN": str(beside / "run")}
    command = [sys.executable, "-c", "from reconciler.doors.entry import handlerd; handlerd()"]
    command += ["--config", str(config)]
    with (beside / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        until = time.monotonic() + 300
        while len(list((state / "status/binding").glob("*.json"))) < bindings:
            if process.poll() is not None or time.monotonic() > until:
                raise OSError(f"the controller does not serve: {(beside / 'log').read_text()[-2000:]}")
            time.sleep(0.05)
        yield state / "status", process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def end_to_end(objects: int, edits: int) -> tuple[list[float], list[float], float]:
    """Rename to inotify, and rename to status file, in milliseconds; and the share of a core that the
    controller uses while nothing happens.
    """
    folder = Path(tempfile.mkdtemp(prefix="handler-e2e-"))
    config = folder / "config"
    _write_users(config, objects)
    floor, ours = [], []
    try:
        with controller(config, folder, objects // 2) as (status, pid):
            time.sleep(3.0)  # it has come to rest
            idle = -_cpu_s(pid)
            time.sleep(_IDLE_S)
            idle = (idle + _cpu_s(pid)) / _IDLE_S
            edited, said = Inotify(config / "bindings"), Inotify(status / "binding")
            for number in range(edits + _WARM):
                _put(folder / "beside", _used(number + 10**6))
                start = time.perf_counter()
                one = f"b-{number % (objects // 2)}"  # not one alone: what changes too often is slowed down
                (folder / "beside").rename(config / f"bindings/{one}.toml")
                floor.append((edited.wait(f"{one}.toml") - start) * 1e3)
                ours.append((said.wait(f"{one}.json") - start) * 1e3)
                time.sleep(0.15)
    finally:
        shutil.rmtree(folder)
    return floor[_WARM:], ours[_WARM:], idle


def _cpu_s(pid: int) -> float:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


async def _by_watchfiles(folder: Path, edits: int) -> list[float]:
    """Rename to what watchfiles tells as it comes, in milliseconds."""
    took: list[float] = []
    changes = watchfiles.awatch(folder, yield_on_timeout=True, rust_timeout=500)
    await anext(changes)  # it stands
    for number in range(edits):
        _put(folder.parent / "beside", str(number))
        start = time.perf_counter()
        (folder.parent / "beside").rename(folder / "a.toml")
        while not await anext(changes):
            pass
        took.append((time.perf_counter() - start) * 1e3)
    return took


def kept(objects: int) -> tuple[float, float]:
    """PSS in KB of this process with so many objects decided, and what edits add to it."""
    folder = Path(tempfile.mkdtemp(prefix="handler-kept-"))
    try:
        write(folder, objects)
        world = World(Source(folder, Layer.CONFIG))
        world.look()
        gc.collect()
        before = _pss_kb()
        for number in range(_EDITS):
            (folder / ".beside").write_text(_binding(0, f"l{number}"))
            (folder / ".beside").rename(folder / "bindings/ocr-0.toml")
            world.look("bindings/ocr-0.toml")
        gc.collect()
        return before, _pss_kb() - before
    finally:
        shutil.rmtree(folder)


def _pss_kb() -> float:
    text = Path("/proc/self/smaps_rollup").read_text()
    return float(text.split("\nPss:")[1].split()[0])


def _kept_elsewhere(objects: int) -> tuple[float, float]:
    command = [sys.executable, __file__, "--measure-kept", str(objects)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(told[0]), float(told[1])


def checking(objects: int, rounds: int) -> dict[str, float]:
    """`handler validate`, and `taplo lint` with our schemas, in milliseconds of CPU of the whole process."""
    folder = Path(tempfile.mkdtemp(prefix="handler-check-"))
    try:
        _write_users(folder, objects)
        schemas = Path(__file__).resolve().parents[1] / "schemas"
        rules = [
            f'[[rule]]\ninclude = ["**/{kind}s/*.toml"]\n[rule.schema]\npath = "file://{schemas}/{kind}.schema.json"\n'
            for kind in ("binding", "agent")
        ]
        (folder / ".taplo.toml").write_text("".join(rules))
        command = "from reconciler.doors.entry import main; main()"
        ours = [sys.executable, "-c", command, "validate", "--config", str(folder)]
        commands = {"handler validate": ours}
        if taplo := shutil.which("taplo") or os.environ.get("TAPLO"):
            commands["taplo lint"] = [
                taplo,
                "lint",
                "--config",
                str(folder / ".taplo.toml"),
                f"{folder}/**/*.toml",
            ]
        return {name: _cpu_of(command, rounds, folder) for name, command in commands.items()}
    finally:
        shutil.rmtree(folder)


def _cpu_of(command: list[str], rounds: int, cwd: Path) -> float:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = f"{cwd}/.compiled"  # as installed: compiled once
    taken: list[float] = []
    for _ in range(rounds + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-500:] + done.stderr[-500:]
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3)
    return statistics.median(taken[1:])


def _write_users(root: Path, objects: int) -> None:
    """A configuration of bindings and agents, half and half, of what the catalogue ships."""
    for number in range(objects // 2):
        _put(root / f"bindings/b-{number}.toml", _used(number))
        choice = f'{{ binding = "b-{number}", version = 2 }}'
        text = f'apiVersion = "handler.agent/v1"\nservices = {{ ocr = {choice} }}\n'
        _put(root / f"agents/a-{number}.toml", text)


def _used(number: int) -> str:
    return f'apiVersion = "handler.binding/v1"\ndescription = "No. {number}."\nconnector = "ocr-tesseract"\n'


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def main() -> int:
    """Measure and print; the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--objects", type=int, nargs="+", default=[10, 1_000, 10_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--served", type=int, default=1_000, help="objects of the end-to-end run; 0: none")
    parser.add_argument("--kept", type=int, default=10_000, help="objects of the memory run; 0: none")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a goal is missed")
    parser.add_argument("--measure-kept", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure_kept:
        print(*kept(arguments.measure_kept))
        return 0
    told = goals.Goals()
    _passes(arguments.objects, arguments.rounds, told)
    if arguments.kept:
        base, (whole, growth) = _kept_elsewhere(10), _kept_elsewhere(arguments.kept)
        each = (whole - base[0]) / (arguments.kept - 10)
        told.title(f"memory at {arguments.kept} objects")
        told.figure("each object", each, "KB", told.goal("each object", each, 3, "KB an object"))
        told.figure(f"{_EDITS} edits add", growth, "KB", f"at 10 objects {base[1]:.0f} KB")
    if arguments.served:
        _served(arguments.served, told)
    _checked(arguments.rounds, told)
    missed = told.end()
    return missed if arguments.strict else 0


def _passes(many: list[int], rounds: int, told: goals.Goals) -> None:
    one_file: dict[int, float] = {}
    for objects in many:
        folder = Path(tempfile.mkdtemp(prefix="handler-bench-"))
        try:
            write(folder, objects)
            figures = measure(folder, rounds)
        finally:
            shutil.rmtree(folder)
        one_file[objects] = figures["one file"]
        _print(objects, figures, told)
    if len(one_file) > 1:
        small, large = min(one_file), max(one_file)
        told.title(f"growth from {small} to {large} objects")
        grown = told.goal("one file", one_file[large] / one_file[small], 2, f"times the time at {small}")
        told.figure("one file", one_file[large], "ms", grown)


def _served(objects: int, told: goals.Goals) -> None:
    floors, ours, idle = end_to_end(objects, 20)
    heard, shown = statistics.median(floors), statistics.median(ours)
    folder = Path(tempfile.mkdtemp(prefix="handler-watch-"))
    try:
        (folder / "watched").mkdir()
        peer = statistics.median(asyncio.run(_by_watchfiles(folder / "watched", 10)))
    finally:
        shutil.rmtree(folder)
    told.title(f"end to end at {objects} objects, 20 edits")
    told.figure("floor: rename, inotify", heard, "ms")
    told.figure("peer: rename, watchfiles", peer, "ms")
    name = "rename, status file"
    told.figure(name, shown, "ms", told.goal(name, shown / heard, 5, "times the floor"))
    told.figure(name, shown, "ms", told.goal(name, shown / peer, 1 / 40, "times watchfiles"))
    told.figure("at rest", idle * 100, "%", told.goal("at rest", idle * 100, _AT_REST, "% of a core"))


def _checked(rounds: int, told: goals.Goals) -> None:
    figures = checking(1_000, rounds)
    told.title("checking 1000 objects, the whole process")
    peer = figures.get("taplo lint")
    for name, ms in figures.items():
        compared = peer and name != "taplo lint"
        told.figure(name, ms, "ms", told.goal(name, ms / peer, 1, "times taplo lint") if compared else "")
    if peer is None:
        told.skip("handler validate", "taplo is not installed (PyPI has it; $TAPLO names it elsewhere)")


def _print(objects: int, figures: Mapping[str, float], told: goals.Goals) -> None:
    told.title(f"{objects} objects")
    for name, ms in figures.items():
        beside = _BESIDE.get(name)
        if beside is None:
            told.figure(name, ms, "ms")
            continue
        unit = f"times {beside}"
        told.figure(name, ms, "ms", told.goal(name, ms / figures[beside], _GOALS[name], unit))


if __name__ == "__main__":
    sys.exit(main())
