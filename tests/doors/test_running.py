"""``handler run``: a session around a command, whose process this one becomes."""

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.doors import running, usage
from tests.doors import fakes
from tests.doors.conftest import Ran, World

_SESSION: dict[str, Any] = {
    "session": "abc",
    "services": "/run/s/abc/services.sock",
    "agent": "clerk",
    "scope": [],
    "harness": "none",
    "sockets": {"ocr": "/run/s/abc/ocr.sock"},
    "interfaces": {"ocr": {"interface": "ocr/v1", "timeoutSeconds": 60}},
}


class Became:
    """Takes note of what the process would have become."""

    def __init__(self) -> None:
        self.program, self.command, self.environment = "", [""], {"": ""}

    def __call__(self, program: str, command: list[str], environment: dict[str, str]) -> None:
        self.program, self.command, self.environment = program, command, environment
        assert signal.getsignal(signal.SIGPIPE) is signal.SIG_DFL


def refuse(params: Mapping[str, Any]) -> Any:
    raise fakes.FaultError("agent 'clerk' cannot start a session: agents/clerk.toml:4:12: needs ocr/v1")


def ran(world: World, *words: str, become: running.Become | None = None, **env: str) -> tuple[Ran, Became]:
    became = Became()

    def program() -> int:
        settings, left = usage.settings(list(words))
        return running.run(settings, left, become or became)

    before = signal.getsignal(signal.SIGPIPE), signal.getsignal(signal.SIGXFSZ)
    try:
        return world.handler(program=program, **env), became
    finally:
        signal.signal(signal.SIGPIPE, before[0])
        signal.signal(signal.SIGXFSZ, before[1])


def test_it_becomes_the_command_with_the_session_in_its_environment(world: World) -> None:
    with fakes.served(world.run / "control.sock", {"session.open": lambda params: _SESSION}) as asked:
        done, became = ran(world, "clerk", "--", "env", "-c", "--", "x", MINE="1")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert asked[0]["params"] == {"agent": "clerk", "withCaller": True}
    assert became.command == ["env", "-c", "--", "x"]
    assert os.access(became.program, os.X_OK)
    assert became.environment["HANDLER_SESSION"] == "abc"
    assert became.environment["HANDLER_SERVICES"] == "/run/s/abc/services.sock"
    assert became.environment["MINE"] == "1"


def test_whoever_works_elsewhere_than_the_scope_is_told_where_paths_start(world: World) -> None:
    scope = {**_SESSION, "scope": [{"path": str(world.config), "access": "create"}]}
    with fakes.served(world.run / "control.sock", {"session.open": lambda params: scope}):
        done, _ = ran(world, "clerk", "--", "true")
        assert "relative to ~/config" in done.err
        done, _ = ran(world, "-q", "clerk", "--", "true")
        assert done.err == ""


def test_a_refusal_comes_before_anything_is_started(world: World) -> None:
    with fakes.served(world.run / "control.sock", {"session.open": refuse}):
        done = world.handler("run", "clerk", "--", "touch", "started")
    assert (done.code, done.out) == (1, "")
    assert "agents/clerk.toml:4:12: needs ocr/v1" in done.err
    assert not (world.root / "started").exists()


def test_without_a_controller_it_says_how_to_start_one(world: World) -> None:
    done = world.handler("run", "clerk", "-c", "config", "--", "touch", "started")
    assert done.code == 1
    assert done.err == "handler: no controller runs for ./config: start one with 'handlerd -c ./config'\n"
    assert not (world.root / "started").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "wants an agent"),
        (["clerk", "make", "report"], "write the command after --: handler run clerk -- make report"),
        (["clerk", "--sanbox", "--", "true"], "'--sanbox' is not an option of 'handler run'"),
    ],
)
def test_a_wrong_line_says_what_to_write(world: World, words: list[str], said: str) -> None:
    done = world.handler("run", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_a_program_that_is_not_there_ends_as_in_a_shell_and_opens_nothing(world: World) -> None:
    with fakes.served(world.run / "control.sock", {"session.open": lambda params: _SESSION}) as asked:
        for word in ("no-such-program", "./no-such-program"):
            done = world.handler("run", "clerk", "--", word)
            assert (done.code, done.err) == (127, f"handler: cannot run '{word}': there is no such program\n")
    assert asked == []


def test_a_program_that_cannot_be_executed_ends_as_in_a_shell(world: World) -> None:
    text = Path(world.root / "notes.txt")
    text.write_text("no program")
    with fakes.served(world.run / "control.sock", {"session.open": lambda params: _SESSION}):
        done, _ = ran(world, "clerk", "--", "./notes.txt", become=os.execve)
    assert done.code == 126
    assert "cannot run './notes.txt': Permission denied" in done.err


def opened(world: World, harness: str) -> dict[str, fakes.Answer]:
    answer = {**_SESSION, "harness": harness, "folder": str(world.root / "s" / "abc")}
    return {"session.open": lambda params: answer}


def program(world: World, name: str) -> str:
    path = world.root / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_a_harness_is_told_by_files_of_the_sessions_own_folder(world: World) -> None:
    """By its program's name, whatever the agent's file says; nothing of the person's is edited."""
    claude = program(world, "claude")
    with fakes.served(world.run / "control.sock", opened(world, "none")):
        done, became = ran(world, "clerk", "--", claude, "--resume")
    assert (done.code, done.err) == (0, "")
    assert became.command[0] == claude
    assert became.command[-1] == "--resume"
    (config,) = (world.root / "s" / "abc" / "harness").glob("*.json")
    assert str(config) in became.command
    assert config.stat().st_mode & 0o077 == 0
    server = json.loads(config.read_text())["mcpServers"]["ocr"]
    assert server["command"].endswith("/handler-service")
    assert server["args"] == ["ocr", "--socket", "/run/s/abc/ocr.sock"]


def test_without_a_command_the_agents_own_harness_starts(world: World) -> None:
    claude = program(world, "claude")
    with fakes.served(world.run / "control.sock", opened(world, "claude-code")):
        done, became = ran(world, "clerk", PATH=f"{world.root}:{os.environ['PATH']}")
    assert done.code == 0
    assert (became.program, became.command[0]) == (claude, "claude")


def test_a_harness_that_only_its_projects_file_can_tell_is_told_of_it(world: World) -> None:
    gemini = program(world, "gemini")
    with fakes.served(world.run / "control.sock", opened(world, "none")):
        done, became = ran(world, "clerk", "--", gemini)
        assert became.command == [gemini]
        assert "`handler render clerk --harness gemini --write` writes it" in done.err
        (world.root / ".gemini").mkdir()
        (world.root / ".gemini/settings.json").write_text("{}")
        assert ran(world, "clerk", "--", gemini)[0].err == ""


def test_without_a_command_and_a_harness_it_says_what_to_write(world: World) -> None:
    with fakes.served(world.run / "control.sock", opened(world, "none")):
        done = world.handler("run", "clerk")
    assert done.code == 2
    assert "agent 'clerk' names no harness: write a command after --: handler run clerk -- CMD" in done.err


def test_a_harness_that_is_not_installed_is_named(world: World) -> None:
    with fakes.served(world.run / "control.sock", opened(world, "claude-code")):
        done = world.handler("run", "clerk", PATH=str(world.root))
    assert (done.code, done.err) == (127, "handler: cannot run 'claude': there is no such program\n")


def test_a_wrapper_gets_the_variables_and_is_told_which_arguments_to_pass_on(world: World) -> None:
    wrapper = program(world, "wrapper")
    Path(wrapper).write_text('#!/bin/sh\nexec claude "$@"\n')
    with fakes.served(world.run / "control.sock", opened(world, "claude-code")):
        done, became = ran(world, "clerk", "--", wrapper, "x")
    assert f"handler: If '{wrapper}' starts claude, give claude: --mcp-config " in done.err
    assert became.command[1:] == ["x"]
    assert became.environment["HANDLER_SESSION"] == "abc"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["sh"], True),
        (["sh", "-c", "cd x && claude"], True),
        (["env", "claude", "--resume"], True),
        (["sh", "./starts.sh"], True),
        (["sh", "-c", "make report"], False),
        (["git", "status"], False),
        (["true", "claude-notes.md"], False),
        (["env", "python3", "no-claude.py"], False),
    ],
)
def test_only_what_may_start_the_harness_is_told_what_to_pass_on(
    world: World, words: list[str], told: bool
) -> None:
    Path(program(world, "starts.sh")).write_text("#!/bin/sh\nexec claude\n")
    with fakes.served(world.run / "control.sock", opened(world, "claude-code")):
        done, _ = ran(world, "clerk", "--", *words)
    assert (done.code, "starts claude, give claude: --mcp-config" in done.err) == (0, told)
