"""Attackers who swap folders, links and files of a scope as fast as they can, while the router is at work.

    python -m tests.kit.race [SECONDS]

Each attacker is a process of its own. Every way in and out of the scope is tried all the while: what is read
must be the scope's own words, and nothing may ever appear outside. Prints tries, how they ended, and escapes.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from reconciler.model.routes import ScopeFolder
from reconciler.router import files
from reconciler.router.files import Denied

MINE, SECRET = b"mine", b"SECRET"
FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None  # in memory: ten times the tries
WAYS_IN = ("dir/f", "nest/deep/f", "f", "kind", "outer/inner/f")
WAYS_OUT = ("dir/new", "nest/deep/new", "plain", "outer/inner/new")

_EXCHANGE = """
import ctypes, os, sys
one, other, libc = *map(os.fsencode, sys.argv[1:]), ctypes.CDLL(None)
while True:
    libc.renameat2(-100, one, -100, other, 2)
"""
# A name that is in turn a plain file, a link out, a FIFO, a hard link to a foreign file, a folder, nothing.
_TURNS = """
import os, sys
name, secret, mine = sys.argv[1:]
def clear():
    try:
        os.rmdir(name) if os.path.isdir(name) and not os.path.islink(name) else os.unlink(name)
    except OSError:
        pass
def plain():
    with open(name, "xb") as made:
        made.write(b"mine")
while True:
    for make in (plain, lambda: os.symlink(secret, name), lambda: os.mkfifo(name), plain,
                 lambda: os.mkdir(name), lambda: os.symlink("/proc/self/fd/0", name)):
        clear()
        try:
            make()
        except OSError:
            pass
"""


@contextmanager
def attacked(base: Path) -> Iterator[tuple[ScopeFolder, ...]]:
    """A scope in which everything moves, beside an outside that must never be seen or touched."""
    work, outside = base / "work", base / "outside"
    (work / "dir").mkdir(parents=True)
    (work / "nest" / "deep").mkdir(parents=True)
    (work / "outer" / "inner").mkdir(parents=True)
    (outside / "deep").mkdir(parents=True)
    for folder in (work, work / "dir", work / "nest" / "deep", work / "outer" / "inner"):
        (folder / "f").write_bytes(MINE)
    for folder in (outside, outside / "deep"):
        (folder / "f").write_bytes(SECRET)
    (work / "plain").write_bytes(MINE)
    for trap, target in (("trap", outside), ("trap2", outside / "deep"), ("trap3", outside / "f")):
        (work / trap).symlink_to(target)
    (work / "outer" / "trap").symlink_to(outside)
    pairs = [
        (work / "dir", work / "trap"),
        (work / "nest" / "deep", work / "trap2"),
        (work / "f", work / "trap3"),
        (work / "outer" / "inner", work / "outer" / "trap"),
    ]
    commands = [(_EXCHANGE, *map(str, pair)) for pair in pairs]
    commands.append((_TURNS, str(work / "kind"), str(outside / "f"), str(work / "plain")))
    attackers = [subprocess.Popen([sys.executable, "-I", "-S", "-c", *command]) for command in commands]
    try:
        yield (ScopeFolder(str(work), "write"), ScopeFolder(str(work / "outer" / "inner"), "write"))
    finally:
        for attacker in attackers:
            attacker.kill()
        for attacker in attackers:
            attacker.wait()


def race(base: Path, seconds: float, most_s: float = 60) -> Counter[str]:
    """Run the race for some seconds after the attackers were first seen at work. ``escapes`` must be 0."""
    outcomes: Counter[str] = Counter(escapes=0)
    box = base / "box"
    box.mkdir()
    (box / "o").write_bytes(MINE)
    descriptor = os.open(box, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with attacked(base) as scope:
            last, end = time.monotonic() + most_s, None
            while time.monotonic() < (end or last):
                _round(scope, base / "work", descriptor, outcomes)
                if end is None and outcomes["read refused"] and outcomes["read"]:
                    end = min(last, time.monotonic() + seconds)
    finally:
        os.close(descriptor)
    outcomes["escapes"] += _outside_changed(base / "outside")  # what got out would still lie there
    return outcomes


def _round(scope: tuple[ScopeFolder, ...], work: Path, box: int, outcomes: Counter[str]) -> None:
    for way in WAYS_IN:
        for text in (way, f"{work}/{way}"):
            _counted(outcomes, "read", lambda text=text: _read(scope, text))
    for way in WAYS_OUT:
        for text in (way, f"{work}/{way}"):
            _counted(outcomes, "write", lambda text=text: _write(scope, text, box))


def _counted(outcomes: Counter[str], what: str, act: Callable[[], bool]) -> None:
    outcomes["tries"] += 1
    try:
        escaped = act()
    except Denied as denied:
        outcomes[f"{what} {denied.denial.name.lower()}"] += 1
    else:
        outcomes["escapes" if escaped else what] += 1


def _read(scope: tuple[ScopeFolder, ...], text: str) -> bool:
    opened = files.read(scope, text, 100)
    try:
        return os.read(opened.descriptor, 100) not in (MINE, b"")  # empty: it was made a moment ago
    finally:
        os.close(opened.descriptor)


def _write(scope: tuple[ScopeFolder, ...], text: str, box: int) -> bool:
    place = files.spot(scope, text)
    try:
        files.hand_out(box, "o", place, max_bytes=100, wanted=lambda: True)
        return False
    finally:
        os.close(place.folder)


def _outside_changed(outside: Path) -> bool:
    """Whether the outside holds anything but what it held."""
    found = {entry.name for folder in (outside, outside / "deep") for entry in folder.iterdir()}
    return found != {"f", "deep"} or (outside / "f").read_bytes() != SECRET


def main() -> int:
    """``make race``."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10
    with tempfile.TemporaryDirectory(prefix="handler-race-", dir=FAST) as base:
        outcomes = race(Path(base), seconds, seconds + 60)
    print(", ".join(f"{count} {what}" for what, count in sorted(outcomes.items())))
    return 1 if outcomes["escapes"] or not outcomes["read"] or not outcomes["read refused"] else 0


if __name__ == "__main__":
    sys.exit(main())
