"""How long a reconcile takes: from files on disk to a new desired state, beside its floors in the same run.

python benchmarks/reconcile.py [--objects 10 1000 10000] [--rounds 7]

Floors: `stat every file`, and `stat + read + tomllib` of every file (what any reader of such a folder
pays), and `read + parse` of one file. Ours: a cold pass (scan twice, load, admit, desire, diff: nothing
remembered), a no-op pass (nothing changed), and one known file that changed (hint, load, admit, desire,
diff). Medians; the ratios count.

End to end: a controller of its own serves a configuration; from the rename of one file to the new status file
of its object, beside the rename as raw inotify hears of it, of the same edits.
"""

import argparse
import contextlib
import ctypes
import gc
import json
import os
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

from reconciler.admission import frozen
from reconciler.admission.admit import Admission, admit
from reconciler.config import load, lock
from reconciler.control.source import Source
from reconciler.model.inventory import Layer, Lock, Tree
from reconciler.model.names import Kind
from reconciler.plan import diff
from reconciler.plan.desired import Desired, desire

_KIT, _HOME = "0" * 64, "/home/nobody"
_EMPTY = Tree("none", {})
_FLOORS = {
    "cold": "floor: stat+read+tomllib",
    "no-op": "floor: stat all",
    "one file": "floor: read+parse one",
}
_GOALS = {"cold": 0.7, "no-op": 1.2, "one file": 3.0}  # times their floor

_ENOUGH_MS = 2_000
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
        diff.steps(self.desired, old.recipes if old else (), old.table if old else None)


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
    """Floor: stat, read and parse every TOML file."""
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
        start = time.perf_counter()
        act()
        taken.append((time.perf_counter() - start) * 1e3)
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
        "floor: stat all": timed(rounds, lambda: stat_scan(root)),
        "floor: stat+read+tomllib": timed(few, lambda: read_all(root)),
        "cold": timed(few, lambda: World(Source(root, Layer.CONFIG)).look(), lambda number: gc.collect()),
    }
    world.look()
    assert world.admission is not None
    assert not world.admission.refused, world.admission.problems[:3]
    time.sleep(0.1)  # files written just now are read again once: let them be old
    world.look()
    figures["no-op"] = timed(rounds, world.look)
    figures["floor: read+parse one"] = timed(
        rounds * 3, lambda: tomllib.loads(edited.read_bytes().decode()), edit
    )
    figures["one file"] = timed(rounds * 3, lambda: world.look("bindings/ocr-0.toml"), edit)
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
def controller(config: Path, beside: Path, bindings: int) -> Iterator[Path]:
    """A controller of this configuration in a process of its own, once it told of so many bindings; the
    folder of its status files.
    """
    state = beside / "state"
    environment = {**os.environ, "HANDLER_STATE": str(state), "HANDLER_RUN": str(beside / "run")}
    command = [sys.executable, "-c", "from reconciler.doors.entry import handlerd; handlerd()"]
    command += ["--config", str(config)]
    with (beside / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        until = time.monotonic() + 60
        while len(list((state / "status/binding").glob("*.json"))) < bindings:
            if process.poll() is not None or time.monotonic() > until:
                raise OSError(f"the controller does not serve: {(beside / 'log').read_text()[-2000:]}")
            time.sleep(0.05)
        yield state / "status"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def end_to_end(objects: int, edits: int) -> tuple[list[float], list[float]]:
    """Rename to inotify, and rename to status file, in milliseconds."""
    folder = Path(tempfile.mkdtemp(prefix="handler-e2e-"))
    config = folder / "config"
    for number in range(objects // 2):
        _put(config / f"bindings/b-{number}.toml", _used(number))
        text = f'apiVersion = "handler.agent/v1"\nservices = {{ ocr = "b-{number}" }}\n'
        _put(config / f"agents/a-{number}.toml", text)
    floor, ours = [], []
    try:
        with controller(config, folder, objects // 2) as status:
            time.sleep(1.0)
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
    return floor[_WARM:], ours[_WARM:]


def _used(number: int) -> str:
    return f'apiVersion = "handler.binding/v1"\ndescription = "No. {number}."\nconnector = "ocr-tesseract"\n'


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--objects", type=int, nargs="+", default=[10, 1_000, 10_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--served", type=int, default=1_000, help="objects of the end-to-end run; 0: none")
    arguments = parser.parse_args()
    one_file: dict[int, float] = {}
    for objects in arguments.objects:
        folder = Path(tempfile.mkdtemp(prefix="handler-bench-"))
        try:
            write(folder, objects)
            figures = measure(folder, arguments.rounds)
        finally:
            shutil.rmtree(folder)
        one_file[objects] = figures["one file"]
        _print(objects, figures)
    if len(one_file) > 1:
        small, large = min(one_file), max(one_file)
        times = one_file[large] / one_file[small]
        print(f"\none file at {large} objects: {times:.2f} times the time at {small} (goal 2)")
    if arguments.served:
        heard, told = (statistics.median(some) for some in end_to_end(arguments.served, 20))
        print(f"\nend to end at {arguments.served} objects, 20 edits")
        print(f"  {'floor: rename, inotify':26} {heard:9.3f} ms")
        print(f"  {'rename, status file':26} {told:9.3f} ms {told / heard:8.2f} times its floor (goal 5)")


def _print(objects: int, figures: Mapping[str, float]) -> None:
    print(f"\n{objects} objects", flush=True)
    for name, ms in figures.items():
        floor = _FLOORS.get(name)
        ratio = f"{ms / figures[floor]:8.2f} times its floor (goal {_GOALS[name]})" if floor else ""
        print(f"  {name:26} {ms:9.3f} ms {ratio}", flush=True)


if __name__ == "__main__":
    main()
