"""``shell/v1`` by the product: what a program may see and change; nothing of it outlives its call."""

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.builtin import shell
from reconciler.model.calls import Refusal, Reply, Result
from reconciler.model.names import InstanceName
from reconciler.model.recipes import Recipe, SandboxPolicy
from reconciler.model.routes import ScopeFolder
from reconciler.runtime.limits import Limits

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
WAIT_S = 60


class Waits:
    """Somebody who waits for an answer."""

    wants_progress = False
    caller = session = "s"
    entry = attempt = ""

    def __init__(self, scope: tuple[ScopeFolder, ...]) -> None:
        self.scope = scope
        self.reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    def progress(self, progress: float, total: float | None) -> None: ...

    def done(self, reply: Reply) -> None:
        self.reply.set_result(reply)


class Held:
    """Counts who holds the instance."""

    count = 0

    def hold(self, name: InstanceName) -> None:
        self.count += 1

    def release(self, name: InstanceName) -> None:
        self.count -= 1


def recipe(commands: str = "*") -> Recipe:
    sandbox = SandboxPolicy(memory_bytes=2**28, pids=64)
    settings = (("SHELL_COMMANDS", commands),)
    digest, what = "0" * 64, ("programs", "shell-scope", "builtin")
    return Recipe(*what, digest, shell.IMPLEMENTS, "", settings, (), (), (), sandbox, "none", digest)


@pytest.fixture
def limits() -> Any:
    made = Limits(f"test-{os.getpid()}")
    yield made
    made.sweep()
    made.close()


@pytest.fixture
def ask(tmp_path: Path, limits: Limits) -> Callable[..., Reply]:
    """Ask for one program and wait for what comes of it."""
    (tmp_path / "ours").mkdir()
    grounds = shell.Grounds(limits, (str((tmp_path / "ours").resolve()),))

    def asked(arguments: dict[str, Any], *scope: ScopeFolder, commands: str = "*") -> Reply:
        async def run() -> Reply:
            held = Held()
            lane = shell.ShellLane(InstanceName("programs", "0" * 64), held, recipe(commands), grounds)
            waits = Waits(scope)
            lane.send("shell_run", arguments, waits, 10**6)
            reply = await asyncio.wait_for(waits.reply, WAIT_S)
            assert held.count == 0
            return reply

        return asyncio.run(run())

    return asked


def folder(path: Path, access: str = "write") -> ScopeFolder:
    path.mkdir(exist_ok=True)
    return ScopeFolder(str(path), access)


def test_only_a_folder_that_may_be_overwritten_can_be_changed(
    ask: Callable[..., Reply], tmp_path: Path
) -> None:
    scope = [folder(tmp_path / access, access) for access in ("write", "create", "read")]
    line = f"for one in write create read; do touch {tmp_path}/$one/made; done"
    reply = ask({"command": "sh", "args": ["-c", line]}, *scope)
    assert isinstance(reply, Result)
    assert [path.name for path in tmp_path.glob("*/made")] == ["made"]
    assert (tmp_path / "write" / "made").exists()


def test_a_sandbox_that_cannot_be_built_leaves_no_control_group(
    ask: Callable[..., Reply], tmp_path: Path, limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell.agentbox, "options", lambda _box: ("--no-such-option",))
    reply = ask({"command": "true"}, folder(tmp_path / "write"))
    assert isinstance(reply, Refusal)
    assert reply.code == "unavailable"
    assert not [left for tree in limits._trees for left in (tree.at / limits._label).glob("shell-*")]


def test_what_is_ours_is_empty_inside(ask: Callable[..., Reply], tmp_path: Path) -> None:
    (tmp_path / "ours" / "ledger.db").write_text("x")
    reply = ask({"command": "ls", "args": ["-A", f"{tmp_path}/ours"]}, folder(tmp_path, "read"))
    assert isinstance(reply, Result)
    assert (reply.structured["exit_code"], reply.structured["stdout"]) == (0, "")


def test_a_binding_that_lists_programs_runs_no_other(ask: Callable[..., Reply], tmp_path: Path) -> None:
    here = folder(tmp_path / "a")
    assert isinstance(ask({"command": "cat /dev/null"}, here, commands="git cat"), Result)
    script = tmp_path / "a" / "cat"
    script.write_text("#!/bin/sh\necho other\n")
    script.chmod(0o755)
    for line in ("sh -c id", "./cat", f"{script}", "/usr/../bin/cat x", "CAT x"):
        reply = ask({"command": line}, here, commands="git cat")
        assert isinstance(reply, Refusal)
        assert (reply.code, reply.no_effect) == ("refused", "said")
    assert ask({"command": "cat"}, here).structured["stdout"] == ""  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"command": "ls", "cwd": "/etc"}, "refused"),
        ({"command": "ls", "cwd": "out"}, "refused"),
        ({"command": "ls 'a"}, "bad_command"),
        ({"command": "ls", "args": ["a\0b"]}, "bad_command"),
        ({"command": "ls", "args": ["\ud800"]}, "bad_command"),
        ({"command": "cat", "stdin": "\ud800"}, "bad_command"),
        ({"command": "ls \0"}, "bad_command"),
        ({"command": "ls", "args": ["\U0001f600" * 32768]}, "bad_command"),
        ({"command": "ls", "args": ["x" * 32768] * 64}, "bad_command"),
        ({"command": "n" * 300}, "no_such_program"),
        ({"command": "./nowhere"}, "no_such_program"),
        ({"command": "notes.txt"}, "no_such_program"),
    ],
)
def test_what_never_runs_had_no_effect(
    ask: Callable[..., Reply], tmp_path: Path, arguments: dict[str, Any], code: str
) -> None:
    here = folder(tmp_path / "a")
    (tmp_path / "a" / "out").symlink_to("/etc")
    (tmp_path / "a" / "notes.txt").write_text("x")
    reply = ask(arguments, here)
    assert isinstance(reply, Refusal)
    assert (reply.code, reply.no_effect) == (code, "said")


@pytest.mark.parametrize("way", ["straight", "link", "folder", "ours"])
def test_a_program_that_is_not_shown_is_as_one_that_is_not_there(
    ask: Callable[..., Reply], tmp_path: Path, way: str
) -> None:
    here = folder(tmp_path / "a")
    hidden = (tmp_path if way == "ours" else tmp_path / "b") / "ours" / "tool"
    hidden.parent.mkdir(parents=True, exist_ok=True)
    hidden.write_text("#!/bin/sh\n")
    hidden.chmod(0o755)
    (tmp_path / "a" / "link").symlink_to(hidden)
    (tmp_path / "a" / "folder").symlink_to(hidden.parent)
    words = {"straight": str(hidden), "link": "./link", "folder": "folder/tool", "ours": str(hidden)}
    reply = ask({"command": words[way]}, folder(tmp_path) if way == "ours" else here)
    assert isinstance(reply, Refusal)
    assert (reply.code, reply.no_effect) == ("no_such_program", "said")


def test_a_link_of_the_scope_to_a_program_of_the_system_is_run(
    ask: Callable[..., Reply], tmp_path: Path
) -> None:
    here = folder(tmp_path / "a")
    (tmp_path / "a" / "echo").symlink_to("/bin/echo")
    reply = ask({"command": "./echo well"}, here)
    assert isinstance(reply, Result)
    assert reply.structured["stdout"] == "well\n"


def test_a_fault_of_our_own_is_an_answer_too(
    ask: Callable[..., Reply], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell.shellrun, "run", lambda *given: 1 / 0)
    reply = ask({"command": "id"}, folder(tmp_path / "a"))
    assert isinstance(reply, Refusal)
    assert (reply.code, reply.no_effect) == ("unavailable", "")


def test_without_a_scope_nothing_runs(ask: Callable[..., Reply]) -> None:
    reply = ask({"command": "id"})
    assert isinstance(reply, Refusal)
    assert reply.code == "refused"


def test_a_call_that_nobody_waits_for_ends_with_everything_it_started(tmp_path: Path, limits: Limits) -> None:
    async def run() -> None:
        held = Held()
        grounds = shell.Grounds(limits, ())
        lane = shell.ShellLane(InstanceName("programs", "0" * 64), held, recipe(), grounds)
        line = f"setsid sh -c 'while true; do date > {tmp_path}/a/beat; sleep 0.05; done' & sleep 600"
        number = lane.send(
            "shell_run", {"command": "sh", "args": ["-c", line]}, Waits((folder(tmp_path / "a"),)), 10**6
        )
        beat = tmp_path / "a" / "beat"
        async with asyncio.timeout(WAIT_S):
            while not beat.exists():
                await asyncio.sleep(0.02)
        assert lane.cancel(number)
        async with asyncio.timeout(WAIT_S):
            while held.count:
                await asyncio.sleep(0.01)
        beat.unlink()
        await asyncio.sleep(0.3)
        assert not beat.exists()

    asyncio.run(run())


def test_a_folder_that_hangs_stops_nobody_else(
    tmp_path: Path, limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, go_on, beside = threading.Event(), threading.Event(), []

    def hangs(scope: tuple[ScopeFolder, ...]) -> Any:
        looks.set()
        beside.append(go_on.wait(5))
        raise shell.Ended("refused", "it hung")

    monkeypatch.setattr(shell, "_shown", hangs)

    async def run() -> Reply:
        lane = shell.ShellLane(
            InstanceName("programs", "0" * 64), Held(), recipe(), shell.Grounds(limits, ())
        )
        waits = Waits((ScopeFolder(str(tmp_path), "read"),))
        lane.send("shell_run", {"command": "true"}, waits, 10**6)
        assert await asyncio.to_thread(looks.wait, WAIT_S)
        go_on.set()
        return await asyncio.wait_for(waits.reply, WAIT_S)

    reply = asyncio.run(run())
    assert isinstance(reply, Refusal)
    assert beside == [True]
