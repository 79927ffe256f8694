"""events: the journal as people and programs read it."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from reconciler.control.journal import Journal
from reconciler.doors import events, following, usage
from tests.doors.conftest import World


class Clock:
    now = 1e9

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def journal(world: World) -> Journal:
    made = Journal(world.state, Clock())
    made.event("binding/ocr", "Warning", "CrashLoop", "it ended\x1b[31m")
    made.event("configuration", "Normal", "ReconcileSuccess", "main@1 is in force")
    return made


def told(world: World, *words: str) -> list[dict[str, Any]]:
    found = json.loads(world.handler("events", *words, "-o", "json").out)
    assert isinstance(found, list)
    return found


def test_events_are_a_table_with_nothing_that_a_terminal_obeys(world: World, journal: Journal) -> None:
    ran = world.handler("events")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0].split() == ["WHEN", "OBJECT", "REASON", "MESSAGE"]
    assert "binding/ocr" in lines[1]
    assert "it ended\\x1b[31m" in lines[1]
    assert "main@1 is in force" in lines[2]


def test_an_object_has_its_own_by_short_names_too(world: World, journal: Journal) -> None:
    assert [one["object"] for one in told(world, "b/ocr")] == ["binding/ocr"]
    assert [one["object"] for one in told(world, "configuration")] == ["configuration"]
    assert told(world, "binding/other") == []
    assert world.handler("events", "ocr").code == 2


def test_repeats_are_one_event_that_counts(world: World, journal: Journal) -> None:
    clock = journal._now
    assert isinstance(clock, Clock)
    for _ in range(3):
        clock.now += 40
        journal.event("binding/ocr", "Warning", "CrashLoop", "it ended\x1b[31m")
    assert [(one["object"], one["count"]) for one in told(world)] == [
        ("configuration", 1),
        ("binding/ocr", 4),
    ]
    assert "(4 times)" in world.handler("events").out
    assert told(world, "-n", "1")[0]["object"] == "binding/ocr"
    assert told(world, "-n", "0") == []


def test_the_older_file_is_read_and_what_is_cut_is_passed_over(world: World, journal: Journal) -> None:
    (world.state / "events.jsonl").rename(world.state / "events.jsonl.1")
    (world.state / "events.jsonl").write_text('{"object": "cut')
    assert len(told(world)) == 2


def test_without_any_event_that_is_said(world: World) -> None:
    assert world.handler("events").code == 1, "there is no configuration"
    world.state.mkdir()
    ran = world.handler("events")
    assert (ran.code, ran.out, ran.err) == (0, "", "Nothing is told of that.\n")
    assert told(world) == []


def test_what_comes_is_followed_over_the_change_of_files(
    world: World, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.state / "events.jsonl"
    acts = iter(
        [
            lambda: journal.event("binding/ocr", "Normal", "Running", "one"),
            lambda: path.rename(path.with_name("events.jsonl.1")),
            lambda: path.write_text('{"object": "binding/ocr", "message": "two"}\n{"object": "binding/o'),
            lambda: path.write_text(path.read_text() + 'cr", "message": "three"}\n'),
        ]
    )
    monkeypatch.setattr(events.time, "sleep", lambda seconds: next(acts, lambda: None)())
    with ExitStack() as files:
        held = files.enter_context(path.open("rb"))
        held.read()
        pieces = following.appended(path, held, files, 8)
        found = [one["message"] for some in events._coming(pieces) for one in some]
    assert found == ["one", "two", "three"]


def test_watching_prints_a_line_an_event(world: World, journal: Journal, capsys: Any) -> None:
    settings = usage.Settings()
    settings.config, settings.output = str(world.config), "json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HANDLER_STATE", str(world.state))
        patch.setattr(events.time, "sleep", lambda seconds: None)
        assert events.run(settings, "", 50, watch=True, looks=1) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["reason"] for line in lines] == ["CrashLoop", "ReconcileSuccess"]


def test_a_table_shortens_digests_and_a_stream_keeps_its_columns_and_its_direction(
    world: World, journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    digests = ("4f2c1aa" + "0" * 33, "9d3b2cc" + "1" * 57)
    journal.event("agent/a", "Normal", "Idle", f"main@sha1:{digests[0]} is not {digests[1]}")
    assert "main@sha1:4f2c1aa is not 9d3b2cc" in world.handler("events").out
    assert digests[0] in told(world)[-1]["message"]
    first = {"object": "agent/a", "reason": "Idle", "message": "x", "timestamp": "2026-01-01T00:00:05Z"}
    late = {**first, "count": 7, "message": "late", "timestamp": "2026-01-01T00:00:01Z"}
    long = {**first, "object": "connector/ocr-tesseract", "reason": "ReconcileSuccess"}
    assert events._forward([first, late, long]) == [first, long]
    settings = usage.Settings()
    for one in (first, long):
        events._print(settings, [one], whole=False)
    lines = capsys.readouterr().out.splitlines()
    assert len({line.rindex("x") for line in lines}) == 1


def test_nothing_is_read_beyond_a_bound(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100)
    assert events._tail(tmp_path / "file", 10) == b"x" * 10
    assert events._tail(tmp_path / "none", 10) == b""
