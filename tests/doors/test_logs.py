"""logs: the end of what a connector printed, what comes after it, and which bindings have a log."""

import json
import re
from pathlib import Path

import pytest

from reconciler.doors import logs, usage
from reconciler.model import loglines
from reconciler.runtime.ringlog import RING_BYTES, RingLog, Speaker
from tests.doors import fakes
from tests.doors.conftest import World

ONE, OTHER = "1" * 12, "2" * 12
_TIME = re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def _separator(digest: str, what: str = "a process begins") -> str:
    return f"── own@{digest} {what}, TIME\n"


def _timeless(text: str) -> str:
    return _TIME.sub("TIME", text)


@pytest.fixture
def ring(world: World) -> RingLog:
    (world.state / "logs").mkdir(parents=True)
    return RingLog(world.state / "logs/own.log")


@pytest.fixture
def log(ring: RingLog) -> Speaker:
    return ring.speaker(ONE)


def test_the_last_lines_come_from_both_halves_of_the_ring(world: World, log: Speaker) -> None:
    log.say(b"first\n" + b"x" * (RING_BYTES // 2 - 20) + b"\nsecond\n")
    log.say("third: \u202e\ttab é\n".encode())
    ran = world.handler("logs", "own", "-n", "2")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "second\nthird: \\u202e        tab é\n"
    assert world.handler("logs", "b/own", "-n", "1").out == ran.out.partition("\n")[2]
    assert world.handler("logs", "own", "-n", "0").out == ""


def test_what_has_no_log_is_said(world: World) -> None:
    fakes.write_status(world.state, fakes.row("binding/quiet"))
    ran = world.handler("logs", "quiet")
    assert (ran.code, ran.out) == (0, "")
    assert "Nothing is written yet to ./state/logs/quiet.log" in ran.err
    for name in ("nobody", "..", "binding/"):
        ran = world.handler("logs", name)
        assert (ran.code, ran.out) == (1, "")
        assert "nothing is known of binding/" in ran.err
    near = "handler: nothing is known of binding/quite: did you mean 'quiet'?\n"
    assert world.handler("logs", "quite").err == near
    assert world.handler("describe", "binding/quite").err == near
    assert world.handler("logs", "agent/clerk").code == 2


def test_following_goes_on_where_it_was_and_over_the_turn_of_the_ring(
    world: World, log: Speaker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in world.env().items():
        monkeypatch.setenv(name, value)
    path = Path(world.state / "logs/own.log")
    log.say(b"before\n")
    looks: list[float] = []

    def pause(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 1:
            log.say("half é"[:6].encode()[:-1])
        elif len(looks) == 2:
            log.say("é\n".encode()[1:])
            path.replace(path.with_name("own.log.1"))
            path.write_bytes(b"after the turn\n")

    monkeypatch.setattr(logs.time, "sleep", pause)
    assert logs.run(usage.Settings(), "own", logs.Wanted(5), follow=True, looks=5) == 0
    assert _timeless(capsys.readouterr().out) == f"{_separator(ONE)}before\nhalf é\nafter the turn\n"


def test_a_log_that_is_not_there_yet_is_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in world.env().items():
        monkeypatch.setenv(name, value)
    fakes.write_status(world.state, fakes.row("binding/own"))
    path = world.state / "logs/own.log"
    path.parent.mkdir()
    monkeypatch.setattr(logs.time, "sleep", lambda seconds: path.write_bytes(b"hello\n"))
    assert logs.run(usage.Settings(), "own", logs.Wanted(5), follow=True, looks=3) == 0
    assert capsys.readouterr().out == "hello\n"


def test_processes_are_told_apart_and_a_log_of_before_stays_readable(world: World, ring: RingLog) -> None:
    (world.state / "logs/own.log").write_text("an old line\n")
    one, other = ring.speaker(ONE), ring.speaker(OTHER)
    one.say(b"a\nb\n")
    other.say(b"c\n")
    one.say(b"d\n")
    ring.speaker(ONE).say(b"e")
    told = [
        "an old line\n", _separator(ONE), "a\nb\n", _separator(OTHER), "c\n",
        _separator(ONE, "goes on"), "d\n", _separator(ONE), "e\n",
    ]  # fmt: skip
    assert _timeless(world.handler("logs", "own").out) == "".join(told)
    assert world.handler("logs", "own", "-q").out == "an old line\na\nb\nc\nd\ne\n"
    assert world.handler("logs", "own", "-n", "1", "--instance", f"own@{OTHER}", "-q").out == "c\n"
    assert world.handler("logs", "own", "--instance", "1", "-q").out == "a\nb\nd\ne\n"
    timed = world.handler("logs", "own", "-t", "-q").out
    assert _timeless(timed) == f"{'-':24} an old line\n" + "".join(f"TIME {one}\n" for one in "abcde")
    values = json.loads(world.handler("logs", "own", "-n", "2", "-o", "json").out)
    assert [{**one, "at": len(one["at"])} for one in values] == [
        {"at": 24, "instance": f"own@{ONE}", "begins": False, "text": "d"},
        {"at": 24, "instance": f"own@{ONE}", "begins": True, "text": "e"},
    ]


def test_lines_since_an_instant_are_all_of_them(world: World, ring: RingLog) -> None:
    def line(at: str, text: str) -> str:
        return f"{loglines.head(at, ONE, begins=False)}{text}\n"

    old = "".join(line("2026-01-01T00:00:00.000Z", str(number)) for number in range(60))
    path = world.state / "logs/own.log"
    path.write_text(f"undated\n{old}{line('2026-01-01T10:42:30.000Z', 'later')}")
    ring.speaker(OTHER).say(b"now\n")

    def shown(since: str, *more: str) -> list[str]:
        return world.handler("logs", "own", "-q", "--since", since, *more).out.split()

    assert shown("10m") == shown("1h30m") == ["now"]
    assert shown("2026-01-01T10:42") == shown("2026-01-01T11:42+01:00") == ["later", "now"]
    assert len(shown("2026-01-01")) == 62
    assert len(shown("999999999d")) == 62
    assert shown("2026-01-01", "-n", "1") == ["now"]
    for words in (["--since", "x"], ["--since", "10"], ["--instance", "own"], ["--instance", "own@"]):
        ran = world.handler("logs", "own", *words)
        assert (ran.code, ran.out) == (2, "")
        assert f"{words[0]} wants" in ran.err
