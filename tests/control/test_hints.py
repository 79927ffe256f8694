"""Hints of a real folder: quick, never silently too few, and said where there can be none."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path

import pytest

from reconciler.control import inotify
from reconciler.control.hints import hints
from tests.control.test_source import Git, git, repository, root, save

__all__ = ["git", "repository", "root"]

ROOT = Path(__file__).resolve().parents[2]

Story = Callable[[asyncio.Queue[frozenset[str]]], Coroutine[None, None, None]]


async def _until(heard: asyncio.Queue[frozenset[str]], wanted: Callable[[frozenset[str]], bool]) -> None:
    async with asyncio.timeout(30):
        while not wanted(await heard.get()):
            pass


@pytest.fixture
def watch(root: Path) -> Iterator[Callable[[Callable[[asyncio.Queue[frozenset[str]]], object]], None]]:
    def run(
        story: Callable[[asyncio.Queue[frozenset[str]]], object],
        degraded: Callable[[str], None] | None = None,
    ) -> None:
        async def main() -> None:
            heard: asyncio.Queue[frozenset[str]] = asyncio.Queue()

            async def listen() -> None:
                async for paths in hints(root, degraded):
                    heard.put_nowait(paths)

            task = asyncio.create_task(listen())
            await _until(heard, lambda paths: paths == frozenset())
            await asyncio.sleep(
                0.1
            )  # the watch stands a moment after it was begun; until then nothing is lost
            await story(heard)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        asyncio.run(main())

    yield run


def test_a_saved_file_is_hinted_by_its_path_whatever_the_editor_does(
    root: Path, watch: Callable[..., None]
) -> None:
    async def story(heard: asyncio.Queue[frozenset[str]]) -> None:
        save(root / "bindings/a.toml", b"new")
        await _until(heard, lambda paths: "bindings/a.toml" in paths)
        (root / "bindings/z.toml").write_bytes(b"z")
        await _until(heard, lambda paths: "bindings/z.toml" in paths)
        (root / "bindings/z.toml").unlink()
        await _until(heard, lambda paths: "bindings/z.toml" in paths)
        (root / "bindings/a.toml~").write_bytes(b"backup")
        (root / "agents/clerk.toml").write_bytes(b"last")
        await _until(heard, lambda paths: paths == {"agents/clerk.toml"})

    watch(story)


def test_git_moving_on_is_a_hint_to_look_at_everything(
    repository: Path, git: Git, watch: Callable[..., None]
) -> None:
    async def story(heard: asyncio.Queue[frozenset[str]]) -> None:
        await asyncio.to_thread(git, "checkout", "-qb", "other")
        await _until(heard, lambda paths: paths == frozenset())

    watch(story)


@pytest.mark.slow
def test_a_replaced_folder_is_watched_again(root: Path, watch: Callable[..., None]) -> None:
    async def story(heard: asyncio.Queue[frozenset[str]]) -> None:
        shutil.copytree(root, root.with_name("other"))
        root.rename(root.with_name("away"))
        root.with_name("other").rename(root)
        await _until(heard, lambda paths: paths == frozenset())
        save(root / "bindings/a.toml", b"new")
        await _until(heard, lambda paths: "bindings/a.toml" in paths)

    watch(story)


def test_a_file_that_is_being_written_is_hinted_when_its_writer_is_done(
    root: Path, watch: Callable[..., None]
) -> None:
    async def story(heard: asyncio.Queue[frozenset[str]]) -> None:
        with (root / "bindings/long.toml").open("wb") as writer:
            writer.write(b"half of ")
            writer.flush()
            save(root / "agents/clerk.toml", b"meanwhile")
            assert await heard.get() == {"agents/clerk.toml"}
            writer.write(b"it")
        assert await heard.get() == {"bindings/long.toml"}

    watch(story)


def test_files_in_fresh_nested_folders_are_all_found(root: Path, watch: Callable[..., None]) -> None:
    """One hint for a folder that came, given once it is watched, makes the look go through all of it."""

    async def story(heard: asyncio.Queue[frozenset[str]]) -> None:
        for number in range(50):
            (root / f"interfaces/i{number}/v1").mkdir(parents=True)
            (root / f"interfaces/i{number}/v1/interface.toml").write_bytes(b"x")
        await _until(heard, lambda paths: paths == frozenset())  # `interfaces` itself came
        for number in range(50):
            save(root / f"interfaces/i{number}/v1/tools.json", b"[]")
        wanted = {f"interfaces/i{number}/v1/tools.json" for number in range(50)}
        async with asyncio.timeout(30):
            while wanted:
                wanted -= await heard.get()

    watch(story)


@pytest.mark.slow
def test_dropped_events_are_said_and_everything_is_looked_at(root: Path, watch: Callable[..., None]) -> None:
    said: list[str] = []

    async def story(heard: asyncio.Queue[frozenset[str]]) -> None:
        limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
        for number in range(limit + 100):  # nobody listens meanwhile
            (root / f"bindings/{'ab'[number % 2]}.toml").chmod(0o600 + number % 8)
        await _until(heard, lambda paths: paths == frozenset())
        assert said == ["changes were found by a scan: the kernel dropped events", ""]
        save(root / "bindings/a.toml", b"new")
        await _until(heard, lambda paths: "bindings/a.toml" in paths)

    (root / "bindings/b.toml").write_bytes(b"b")
    watch(story, said.append)


@pytest.mark.slow
def test_where_nothing_can_be_watched_that_is_said_and_tried_again(
    root: Path, watch: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    real = inotify.Watches

    def full(*_: object) -> object:
        raise OSError(28, "no inotify watch is left")

    def hear(why: str) -> None:
        said.append(why)
        monkeypatch.setattr(inotify, "Watches", real)

    async def story(heard: asyncio.Queue[frozenset[str]]) -> None:
        assert said == ["changes are found by the timed scan alone: no inotify watch is left", ""]

    monkeypatch.setattr(inotify, "Watches", full)
    watch(story, hear)


def test_a_name_that_is_no_text_is_hinted_like_any_other(root: Path, watch: Callable[..., None]) -> None:
    async def story(heard: asyncio.Queue[frozenset[str]]) -> None:
        odd = os.fsdecode(b"bindings/\xff.toml")
        save(root / odd, b"x")
        await _until(heard, lambda paths: odd in paths)
        save(root / "bindings/a.toml", b"new")
        await _until(heard, lambda paths: "bindings/a.toml" in paths)

    watch(story)


_LISTENER = """
import asyncio, sys
from pathlib import Path
from reconciler.control.hints import hints

async def main():
    said = []
    def hear(why):
        said.append(why)
        if why:
            print(why, flush=True)
    async for paths in hints(Path(sys.argv[1]), hear):
        assert paths == frozenset() and said[-1] == "", (paths, said)
        print("watched again", flush=True)
        return

asyncio.run(main())
"""
_RAISE = """
import ctypes, fcntl, os, sys
NS_GET_PARENT = 0xB702  # man 2 ioctl_ns
inner = os.open(f"/proc/{sys.argv[1]}/ns/user", os.O_RDONLY)
if ctypes.CDLL(None, use_errno=True).setns(fcntl.ioctl(inner, NS_GET_PARENT), 0):
    raise OSError(ctypes.get_errno(), "setns")
with open(f"/proc/sys/user/{sys.argv[2]}", "w") as limit:
    limit.write("100")
"""
_NO_ROOM = """
echo "$2" > /proc/sys/user/$1 || { echo unshare: no limits >&2; exit 77; }
shift 2
exec unshare -U -r "$@"
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "few", "words"),
    [
        ("max_inotify_instances", 0, "raise fs.inotify.max_user_instances"),
        ("max_inotify_watches", 2, "raise fs.inotify.max_user_watches"),
    ],
)
def test_a_limit_of_the_machine_is_named_and_once_it_is_raised_the_watch_stands(
    root: Path, limit: str, few: int, words: str
) -> None:
    """The limits are those of a user namespace around the listener, so that the machine keeps its own."""
    command = ["unshare", "-U", "-r", "bash", "-c", _NO_ROOM, "-", limit, str(few)]
    listener = subprocess.Popen(
        [*command, sys.executable, "-c", _LISTENER, str(root)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert listener.stdout is not None
        assert listener.stderr is not None
        first = listener.stdout.readline()
        if not first and listener.wait(30) in (1, 77) and "unshare" in (why := listener.stderr.read()):
            pytest.skip(f"no user namespace with limits of its own here: {why}")
        assert words in first, listener.stderr.read()
        subprocess.run([sys.executable, "-c", _RAISE, str(listener.pid), limit], check=True)
        assert listener.stdout.readline() == "watched again\n"
        assert listener.wait(30) == 0
    finally:
        listener.kill()
        listener.communicate()
