"""logs: the end of what a connector printed, what comes after it, and which bindings have a log."""

from pathlib import Path

import pytest

from reconciler.doors import logs, usage
from reconciler.runtime.ringlog import RING_BYTES, RingLog
from tests.doors import fakes
from tests.doors.conftest import World


@pytest.fixture
def log(world: World) -> RingLog:
    (world.state / "logs").mkdir(parents=True)
    return RingLog(world.state / "logs/own.log")


def test_the_last_lines_come_from_both_halves_of_the_ring(world: World, log: RingLog) -> None:
    log.write(b"first\n" + b"x" * (RING_BYTES // 2 - 20) + b"\nsecond\n")
    log.write("third: \u202e\ttab é\n".encode())
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
    assert world.handler("logs", "agent/clerk").code == 2


def test_following_goes_on_where_it_was_and_over_the_turn_of_the_ring(
    world: World, log: RingLog, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in world.env().items():
        monkeypatch.setenv(name, value)
    path = Path(world.state / "logs/own.log")
    log.write(b"before\n")
    looks: list[float] = []

    def pause(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 1:
            log.write("half é"[:6].encode()[:-1])
        elif len(looks) == 2:
            log.write("é\n".encode()[1:])
            path.replace(path.with_name("own.log.1"))
            path.write_bytes(b"after the turn\n")

    monkeypatch.setattr(logs.time, "sleep", pause)
    assert logs.run(usage.Settings(), "own", 5, follow=True, looks=5) == 0
    assert capsys.readouterr().out == "before\nhalf é\nafter the turn\n"


def test_a_log_that_is_not_there_yet_is_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in world.env().items():
        monkeypatch.setenv(name, value)
    fakes.write_status(world.state, fakes.row("binding/own"))
    path = world.state / "logs/own.log"
    path.parent.mkdir()
    monkeypatch.setattr(logs.time, "sleep", lambda seconds: path.write_bytes(b"hello\n"))
    assert logs.run(usage.Settings(), "own", 5, follow=True, looks=3) == 0
    assert capsys.readouterr().out == "hello\n"
