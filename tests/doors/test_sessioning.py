"""Sessions as a person sees them: opened for a launcher, listed, shown with their calls, also when over."""

import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.doors import fakes
from tests.doors.conftest import World

OPEN: dict[str, Any] = {
    "session": "abc",
    "agent": "clerk",
    "openedAt": 0,
    "generation": 3,
    "revision": "main@sha1:4f2c1aa9d0",
    "standing": False,
    "draining": True,
    "opener": {"pid": 4711},
    "folder": "/run/s/abc",
    "services": "/run/s/abc/services.sock",
    "capabilities": "/run/s/abc/capabilities.json",
    "stands": {"ocr": {"interface": "ocr/v1", "state": "degraded", "since": "2026-01-01T00:00:00Z"}},
    "routes": {"ocr": "ocr-fast@a1f3c9000000"},
}


def answers(*sessions: dict[str, Any]) -> dict[str, fakes.Answer]:
    return {
        "session.open": lambda params: OPEN,
        "session.list": lambda params: list(sessions),
        "session.close": lambda params: {"session": "abc"},
    }


def call(number: int, code: str = "ok", **more: Any) -> dict[str, Any]:
    usual = {
        "at": f"2026-11-30T13:00:{number:02}.000Z", "call": f"1-{number}", "session": "abc", "agent": "clerk",
        "interface": "ocr/v1", "tool": "ocr_extract", "binding": "ocr-fast", "code": code, "ms": 12.3,
        "inBytes": 40, "outBytes": 900, "files": [], "diagnostic": "",
    }  # fmt: skip
    return {**usual, **more}


def write_calls(world: World, *calls: dict[str, Any], session: str = "abc") -> None:
    folder = world.state / "calls"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{session}.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in calls))


def test_a_launcher_gets_variables(world: World) -> None:
    with fakes.served(world.run / "control.sock", answers()) as asked:
        opened = world.handler("session", "open", "clerk")
        assert world.handler("session", "open", "clerk", "-o", "name").out == "abc\n"
        assert json.loads(world.handler("session", "open", "clerk", "-o", "json").out) == OPEN
        assert world.handler("session", "close", "abc").code == 0
    assert opened.out == (
        "export HANDLER_SESSION=abc\nexport HANDLER_SERVICES=/run/s/abc/services.sock\n"
        "export HANDLER_CAPABILITIES=/run/s/abc/capabilities.json\n"
    )
    assert "handler session close abc" in opened.err
    assert asked[0]["params"] == {"agent": "clerk"}


def test_a_shell_takes_what_is_printed_as_variables_of_what_it_starts(world: World) -> None:
    opened = {**OPEN, "services": "/run/it's mine/services.sock"}
    with fakes.served(world.run / "control.sock", {"session.open": lambda params: opened}):
        told = world.handler("session", "open", "clerk").out
    seen = subprocess.run(
        ["/bin/sh", "-c", 'eval "$1"; env', "sh", told], env={}, capture_output=True, text=True, check=True
    ).stdout
    assert "HANDLER_SESSION=abc\n" in seen
    assert "HANDLER_SERVICES=/run/it's mine/services.sock\n" in seen


@pytest.mark.parametrize("command", [["session", "list"], ["sessions"]], ids=" ".join)
def test_open_sessions_are_listed_with_their_calls(world: World, command: list[str]) -> None:
    write_calls(world, call(1), call(2, "refused"))
    with fakes.served(world.run / "control.sock", answers({**OPEN, "openedAt": time.time() - 200})):
        shown = world.handler(*command).out.splitlines()
        assert json.loads(world.handler(*command, "-o", "json").out)[0]["session"] == "abc"
        assert world.handler(*command, "-o", "name").out == "abc\n"
    assert shown[0].split() == ["SESSION", "AGENT", "AGE", "STATE", "CALLS", "ROUTES"]
    assert shown[1].split()[:5] == ["abc", "clerk", "3m", "draining", "2"]
    assert "ocr → ocr-fast@a1f3c9000000" in shown[1]


def test_of_sessions_that_are_over_it_is_said_how_to_see_them(world: World) -> None:
    with fakes.served(world.run / "control.sock", answers()):
        assert world.handler("sessions").err == "No session is open.\n"
        assert (
            world.handler("sessions", "--all").err == "No session is open, and of none is a call recorded.\n"
        )
        write_calls(world, call(1), {"dropped": 1}, session="old")
        write_calls(world, {"dropped": 3}, session="torn")
        (world.state / "calls" / "\x1b[31m.jsonl").write_text("{}\n")
        told = world.handler("sessions")
        assert (told.out, told.err.splitlines()[1:]) == (
            "", ["'handler session list --all' shows 2 sessions that are over."]
        )  # fmt: skip
        assert world.handler("sessions", "-q").err == ""
        assert "session list --all" in world.handler("session", "show", "xyz").err


def test_those_that_are_over_are_listed_after_the_open_ones_and_need_no_controller(world: World) -> None:
    write_calls(world, call(1), session="abc")
    write_calls(
        world, call(1, interface="llm/v1", instance="big@1"), call(2, instance="ocr-fast@2"), session="old"
    )
    (world.state / "calls" / "old.1.jsonl").write_text(f"{json.dumps(call(0))}\n")
    with fakes.served(world.run / "control.sock", answers(OPEN)):
        rows = [line.split() for line in world.handler("session", "list", "-a").out.splitlines()]
        told = json.loads(world.handler("sessions", "--all", "-o", "json").out)
        assert "open" not in json.loads(world.handler("sessions", "-o", "json").out)[0]
        assert world.handler("sessions", "--all", "-o", "name").out == "abc\nold\n"
    assert [(row[0], row[3], row[4]) for row in rows[1:]] == [("abc", "draining", "1"), ("old", "over", "3")]
    assert [(one["session"], one["open"]) for one in told] == [("abc", True), ("old", False)]
    assert told[1]["routes"] == {"llm": "big@1", "ocr": "ocr-fast@2"}
    alone = world.handler("session", "list", "--all", "-c", "config")
    assert (alone.code, {line.split()[0] for line in alone.out.splitlines()}) == (
        0,
        {"SESSION", "abc", "old"},
    )
    assert "no controller runs" in alone.err
    assert world.handler("session", "list", "-c", "config").code != 0


def test_one_is_shown_with_its_services_and_its_last_calls(
    world: World, golden: Callable[[str, str], None]
) -> None:
    write_calls(world, *(call(number) for number in range(30)), call(30, "unavailable", diagnostic="exit 1"))
    one = {**OPEN, "openedAt": time.time() - 12}
    with fakes.served(world.run / "control.sock", answers(one)):
        shown = world.handler("session", "show", "abc", "-n", "3")
        golden("session-show", shown.out)
        golden("session-show-wide", world.handler("session", "show", "abc", "-n", "2", "-o", "wide").out)
        told = json.loads(world.handler("session", "show", "abc", "-n", "2", "-o", "json").out)
        assert "ocr_extract" not in world.handler("session", "show", "abc", "-n", "0").out
    assert (told["open"], [one["call"] for one in told["calls"]]) == (True, ["1-29", "1-30"])


def test_one_that_is_over_is_shown_from_its_records_without_a_controller(world: World) -> None:
    write_calls(world, {"dropped": 3}, call(1))
    (world.state / "calls" / "abc.1.jsonl").write_text(f"{json.dumps(call(0))}\n")
    shown = world.handler("session", "show", "abc")
    assert shown.code == 0
    assert "over" in shown.out
    assert "3 records were lost: the disk was full" in shown.out
    assert shown.out.index("13:00:00") < shown.out.index("13:00:01")
    told = json.loads(world.handler("session", "show", "abc", "-o", "json").out)
    assert (told["session"], told["agent"], told["open"]) == ("abc", "clerk", False)


def test_what_nobody_knows_is_said(world: World) -> None:
    write_calls(world, call(1))
    with fakes.served(world.run / "control.sock", answers()):
        for name in ("xyz", "../abc", "\x1b[31m"):
            ran = world.handler("session", "show", name)
            assert (ran.code, ran.out) == (1, "")
            assert "nothing is known of session" in ran.err
            assert "\x1b" not in ran.err
    ran = world.handler("session", "show", "xyz", "-c", "config")
    assert "no controller runs" in ran.err


def test_records_that_are_torn_or_strange_are_passed_over(world: World) -> None:
    write_calls(world, call(1))
    path = world.state / "calls" / "abc.jsonl"
    path.write_bytes(b'{"half\n[1]\n\xff\n' + path.read_bytes())
    with fakes.served(world.run / "control.sock", answers()):
        assert "ocr_extract" in world.handler("session", "show", "abc").out


def test_an_answer_of_an_older_controller_is_shown_as_far_as_it_goes(world: World) -> None:
    with fakes.served(world.run / "control.sock", answers({"session": "abc"})):
        assert world.handler("session", "list").code == 0
        assert world.handler("session", "show", "abc").code == 0
