"""The control client and the commands that ask a controller: answers, refusals, and none running."""

import os
from collections.abc import Mapping
from typing import Any

import pytest

from reconciler.control import lock
from reconciler.doors import lines
from tests.doors import fakes
from tests.doors.conftest import World


def refuse(params: Mapping[str, Any]) -> Any:
    raise fakes.FaultError("agent 'clerk' cannot start a session: agents/clerk.toml:4:12: needs ocr/v1")


def test_a_refusal_is_told_in_the_controllers_words(world: World) -> None:
    with fakes.served(world.run / "control.sock", {"session.open": refuse}):
        ran = world.handler("session", "open", "clerk")
    assert (ran.code, ran.out) == (1, "")
    assert "agents/clerk.toml:4:12: needs ocr/v1" in ran.err


@pytest.mark.parametrize(
    "line", ["session open clerk", "session list", "session close x", "daemon status", "daemon stop"]
)
def test_without_a_controller_each_says_how_to_start_one(world: World, line: str) -> None:
    ran = world.handler(*line.split(), "-c", "config")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "handler: no controller runs for ./config: start one with 'handlerd -c ./config'\n"


def test_daemon_status_and_stop_talk_to_the_controller(world: World) -> None:
    told = {"version": "0.1.0", "pid": 7, "revision": "main@sha1:4f2c1aa9", "generation": 5}
    methods: dict[str, fakes.Answer] = {"hello": lambda params: told, "stop": lambda params: {"pid": 7}}
    with fakes.served(world.run / "control.sock", methods):
        shown = world.handler("daemon", "status")
        assert shown.code == 0
        assert "main@4f2c1aa, generation 5" in shown.out
        assert world.handler("daemon", "stop").code == 0
        me = fakes.me()
        world.state.mkdir()
        (world.state / "lock").write_text(f"{me['pid']} {me['startTime']}\n")
        ran = world.handler("daemon", "stop", "--timeout", "0.1")
    assert ran.code == 1
    assert "still there" in ran.err


@pytest.mark.parametrize("answer", [[], {"changes": "x"}, 7, None, "text"])
def test_an_answer_of_another_shape_ends_in_a_sentence(world: World, answer: object) -> None:
    methods: dict[str, fakes.Answer] = {
        "diff": lambda params: answer,
        "session.list": lambda params: answer,
        "hello": lambda params: answer,
    }
    with fakes.served(world.run / "control.sock", methods):
        for line in ("diff", "session list", "daemon status"):
            assert "fault of its own" not in world.handler(*line.split()).err


def test_a_line_is_matched_to_its_question_and_notifications_are_heard(world: World) -> None:
    seen: list[object] = []

    class Ear(lines.Listener):
        def progress(self, params: lines.Json) -> None:
            seen.append(params)

    def answer(params: Mapping[str, Any]) -> Any:
        return params

    with fakes.served(world.run / "x.sock", {"echo": answer}):
        line = lines.Line(str(world.run / "x.sock"))
        first, second = line.post("echo", {"n": 1}), line.post("echo", {"n": 2})
        assert line.answer(second, 5, Ear()) == {"n": 2}
        assert first == 1
        assert line.ask("echo", {"n": 3}, 5) == {"n": 3}
        with pytest.raises(lines.Late):
            line.answer(99, 0.01)
        line.close()
    assert seen == []


def test_a_controller_whose_socket_is_gone_is_not_said_to_be_none(world: World) -> None:
    with lock.held(world.state):
        ran = world.handler("-c", str(world.config), "daemon", "status")
    assert ran.code == 1
    assert f"(pid {os.getpid()}) does not answer at {world.run}/control.sock" in ran.err
    assert "makes anew within reconcile.resyncSeconds" in ran.err
