"""A controller that is killed at any moment: nothing of its connectors is left, or the next one ends it."""

import asyncio
import hashlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler.model.recipes import SandboxPolicy
from reconciler.runtime import leftovers
from reconciler.runtime.limits import Limits
from tests.runtime.rig import rig

pytestmark = pytest.mark.slow

GONE_S = 5

# A controller with one connector that has a grandchild in a session of its own; says who they are and stays.
CONTROLLER = """
import asyncio, sys
from pathlib import Path
from tests.kit.processes import descendants
from tests.runtime.rig import rig

SPAWNS = (
    "import os, time\\n"
    "if os.fork() == 0:\\n"
    "    os.setsid()\\n"
    "    if os.fork() == 0: time.sleep(600)\\n"
    "    os._exit(0)\\n"
    "answer = os.wait()[0]\\n"
)

async def main():
    async with rig(Path(sys.argv[1])) as made:
        name = await made.declare()
        print("starting", flush=True)
        await made.run(name, SPAWNS)
        print(*descendants(), flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture
def base() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="handler-death-") as folder:
        yield Path(folder)


def controller(base: Path) -> "subprocess.Popen[str]":
    root = Path(__file__).resolve().parents[2]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in (str(root), *sys.path) if path),
    }
    command = (sys.executable, "-c", CONTROLLER, str(base))
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=root)


def labelled(base: Path) -> list[int]:
    """Every process that carries this state folder's label."""
    prefix = leftovers.label(owner(base), "").encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cmdline").read_bytes().startswith(prefix):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@contextmanager
def sleeping(*command: str) -> "Iterator[subprocess.Popen[bytes]]":
    """A process that sleeps, once it carries its name: a start may return before the kernel shows that."""
    with subprocess.Popen(command, executable="/bin/sleep") as process:
        try:
            name, shown = command[0].encode(), Path(f"/proc/{process.pid}/cmdline")
            while not shown.read_bytes().startswith(name):
                time.sleep(0.001)
            yield process
        finally:
            process.kill()


def owner(base: Path) -> str:
    return hashlib.sha256(os.fsencode((base / "state").resolve())).hexdigest()[:12]


def gone(pidfds: list[int]) -> bool:
    """Whether all of these end within the time that is promised."""
    deadline = time.monotonic() + GONE_S
    for pidfd in pidfds:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        if not poll.poll(max(0, deadline - time.monotonic()) * 1000):
            return False
        os.close(pidfd)
    return True


def test_a_killed_controller_takes_everything_with_it_even_a_grandchild_of_its_own_session(
    base: Path,
) -> None:
    with controller(base) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "starting\n"
        pids = [int(word) for word in running.stdout.readline().split()]
        assert len(pids) == 4  # bubblewrap, its first process, the connector, the grandchild
        pidfds = [os.pidfd_open(pid) for pid in pids]
        running.kill()
        running.wait()
        assert gone(pidfds)


def test_a_controller_killed_while_it_starts_a_connector_leaves_nothing_to_the_next(base: Path) -> None:
    for delay_ms in (0, 1, 2, 4, 8, 16, 32):
        with controller(base) as running:
            assert running.stdout is not None
            assert running.stdout.readline() == "starting\n"
            select.select([running.stdout], [], [], delay_ms / 1000)  # a point in time, as good as any
            running.kill()
            running.wait()

    async def next_one() -> str:
        async with rig(base) as made:
            assert labelled(base) == []
            return str(await made.run(await made.declare(), "answer = 'serves'"))

    assert asyncio.run(next_one()) == "serves"


def test_a_start_ends_what_carries_our_label(base: Path) -> None:
    async def start() -> None:
        async with rig(base):
            pass

    (base / "state").mkdir()
    label = leftovers.label(owner(base), "left@0123456789ab")
    with sleeping(label, "600") as left:
        assert labelled(base) == [left.pid]
        asyncio.run(start())
        assert left.wait(GONE_S) == -signal.SIGKILL


def test_a_start_ends_what_lies_in_our_control_groups(base: Path) -> None:
    (base / "state").mkdir()
    limits = Limits(owner(base))
    if limits.shape == "rlimit":
        assert os.geteuid() != 0, "as root this machine has control groups"
        return  # nothing but the label marks what is ours here; the test above proves that one

    async def start() -> None:
        async with rig(base):
            pass

    with sleeping("sleep", "600") as left:
        limits.group("left@0123456789ab", SandboxPolicy()).admit(left.pid)
        asyncio.run(start())
        assert left.wait(GONE_S) == -signal.SIGKILL


def test_another_owners_processes_are_left_alone(base: Path) -> None:
    label = leftovers.label("000000000000", "theirs@0123456789ab")
    with sleeping(label, "600") as theirs:
        assert leftovers.sweep(owner(base)) == 0
        assert theirs.poll() is None
