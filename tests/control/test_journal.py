"""The journal: whole lines, counted repeats, bounded files, and never a payload."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from reconciler.control import journal as module
from reconciler.control.journal import Journal
from reconciler.model.calls import CallRecord
from reconciler.model.status import InstanceSeen


class Clock:
    def __init__(self) -> None:
        self.now = 1_790_000_000.0

    def __call__(self) -> float:
        return self.now


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def record(at: float, call: str = "1", **more: Any) -> CallRecord:
    fields: dict[str, Any] = {
        "session": "s", "agent": "clerk", "interface": "ocr/v1", "tool": "ocr_extract", "binding": "b",
        "instance": "b@1", "code": "ok", "ms": 12.3456789, "in_bytes": 10, "out_bytes": 20,
    }  # fmt: skip
    return CallRecord(at=at, call=call, **{**fields, **more})


def test_an_event_is_one_line_at_once(tmp_path: Path) -> None:
    clock = Clock()
    Journal(tmp_path, clock).event(
        "binding/a", "Warning", "CrashLoop", "it ended", metadata={"revision": "r"}
    )
    (found,) = lines(tmp_path / "events.jsonl")
    assert found == {
        "timestamp": "2026-09-21T14:13:20.000Z",
        "firstTimestamp": "2026-09-21T14:13:20.000Z",
        "object": "binding/a",
        "severity": "Warning",
        "reason": "CrashLoop",
        "message": "it ended",
        "metadata": {"revision": "r"},
        "count": 1,
    }
    assert (tmp_path / "events.jsonl").stat().st_mode & 0o777 == 0o600


def test_the_second_time_is_said_at_once_and_more_are_counted_and_said_at_most_every_half_minute(
    tmp_path: Path,
) -> None:
    clock = Clock()
    journal = Journal(tmp_path, clock)
    for _ in range(100):
        journal.event("binding/a", "Warning", "CrashLoop", "it ended")
        clock.now += 1
    journal.close()
    counts = [line["count"] for line in lines(tmp_path / "events.jsonl")]
    assert counts[:2] == [1, 2]
    assert counts[-1] == 100
    assert len(counts) <= 6
    assert {line["firstTimestamp"] for line in lines(tmp_path / "events.jsonl")} == {
        "2026-09-21T14:13:20.000Z"
    }


def test_a_repeat_that_is_written_later_says_when_it_was_heard(tmp_path: Path) -> None:
    clock = Clock()
    journal = Journal(tmp_path, clock)
    for _ in range(3):
        journal.event("binding/a", "Warning", "CrashLoop", "it ended")
        clock.now += 1
    clock.now += 29
    journal.flush()
    told = [line["timestamp"][11:19] for line in lines(tmp_path / "events.jsonl")]
    assert told == ["14:13:20", "14:13:21", "14:13:22"]


def test_other_words_are_another_event_and_old_words_are_news_after_an_hour(tmp_path: Path) -> None:
    clock = Clock()
    journal = Journal(tmp_path, clock)
    journal.event("binding/a", "Normal", "Starting", "one")
    journal.event("binding/a", "Normal", "Starting", "two")
    journal.event("binding/b", "Normal", "Starting", "one")
    clock.now += 3601
    journal.flush()
    journal.event("binding/a", "Normal", "Starting", "one")
    assert [line["count"] for line in lines(tmp_path / "events.jsonl")] == [1, 1, 1, 1]


def test_what_is_remembered_of_events_is_bounded(tmp_path: Path) -> None:
    journal = Journal(tmp_path, Clock())
    for number in range(module._REMEMBERED + 10):
        journal.event("binding/a", "Normal", "Starting", f"words {number}")
    assert len(journal._heard) == module._REMEMBERED


def test_instances_become_events_of_their_binding(tmp_path: Path) -> None:
    journal = Journal(tmp_path, Clock())
    journal.instance(InstanceSeen("ocr-a@0123456789ab", "ready", pid=7))
    journal.instance(
        InstanceSeen("ocr-a@0123456789ab", "failed", reason="CrashLoop", message="exit 1", restarts=3)
    )
    ready, failed = lines(tmp_path / "events.jsonl")
    assert (ready["object"], ready["severity"], ready["reason"]) == ("binding/ocr-a", "Normal", "Running")
    assert ready["message"] == "ocr-a@0123456789ab is ready"
    assert (failed["severity"], failed["reason"]) == ("Warning", "CrashLoop")
    assert failed["message"] == "ocr-a@0123456789ab is failed (exit 1)"
    assert failed["metadata"]["restarts"] == 3


def test_events_are_bounded_by_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_EVENTS_BYTES", 2000)
    journal = Journal(tmp_path, Clock())
    for number in range(100):
        journal.event("binding/a", "Normal", "Starting", f"words {number}")
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(sizes) == {"events.jsonl", "events.jsonl.1"}
    assert all(size <= 2000 for size in sizes.values())
    assert lines(tmp_path / "events.jsonl")[-1]["message"] == "words 99"


def test_a_line_that_a_killed_writer_left_half_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"a": 1}\n{"half')
    Journal(tmp_path, Clock()).event("binding/a", "Normal", "Starting", "whole")
    assert [line.get("message", line.get("a")) for line in lines(path)] == [1, "whole"]


def test_calls_are_written_by_the_batch_and_at_every_flush(tmp_path: Path) -> None:
    journal = Journal(tmp_path, Clock())
    journal.call(record(1_790_000_000.0, "1"))
    assert not (tmp_path / "calls").exists()
    journal.flush()
    journal.call(record(1_790_000_000.0, "2"))
    journal.close()
    assert [one["call"] for one in lines(tmp_path / "calls/s.jsonl")] == ["1", "2"]


def test_a_full_disk_is_said_once_and_what_waited_is_written_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    journal = Journal(tmp_path, Clock())
    monkeypatch.setattr(os, "write", full)
    for number in range(400):
        journal.call(record(1_790_000_000.0, str(number)))
    journal.event("binding/a", "Normal", "Starting", "lost or late")
    assert "No space left" in journal.fault
    assert len(caplog.records) == 1
    monkeypatch.undo()
    journal.close()
    assert journal.fault == ""
    assert len(lines(tmp_path / "calls/s.jsonl")) == 400
    assert lines(tmp_path / "events.jsonl")[0]["message"] == "lost or late"


def test_a_short_write_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path, Clock())
    journal.event("binding/a", "Normal", "Starting", "one")
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:5]))
    journal.event("binding/a", "Normal", "Starting", "two")
    monkeypatch.undo()
    journal.close()
    assert [line["message"] for line in lines(tmp_path / "events.jsonl")] == ["one", "two"]


@pytest.mark.parametrize(
    ("seen", "severity", "reason", "words"),
    [
        ({"phase": "declared"}, "Normal", "Idle", "can be started: its first call does"),
        (
            {"phase": "declared", "last_exit": "signal 15"},
            "Normal", "Idle", "was stopped: the next call starts it",
        ),
        (
            {"phase": "failed", "vanished": True, "last_exit": "signal 9", "message": "its process ended"},
            "Warning", "ProcessVanished", "is failed (its process ended)",
        ),
        (
            {"phase": "failed", "vanished": True, "reason": "CrashLoop", "message": "5 times"},
            "Warning", "CrashLoop", "is failed (5 times)",
        ),
    ],
)  # fmt: skip
def test_a_stop_and_a_vanished_process_are_no_starts(
    tmp_path: Path, seen: dict[str, Any], severity: str, reason: str, words: str
) -> None:
    Journal(tmp_path, Clock()).instance(InstanceSeen("ocr@0123456789ab", **seen))
    (told,) = lines(tmp_path / "events.jsonl")
    assert (told["severity"], told["reason"]) == (severity, reason)
    assert told["message"] == f"ocr@0123456789ab {words}"


@pytest.mark.parametrize(
    ("phase", "reason", "told"),
    [
        ("failed", None, "ReconcileError"),
        ("failed", "CrashLoop", "CrashLoop"),
        ("ready", None, "Running"),
        ("building", None, "Starting"),
    ],
)
def test_what_became_of_an_instance_has_the_reason_that_its_status_has(
    tmp_path: Path, phase: Any, reason: Any, told: str
) -> None:
    Journal(tmp_path, Clock()).instance(InstanceSeen("ocr@0123456789ab", phase, reason=reason))
    assert [one["reason"] for one in lines(tmp_path / "events.jsonl")] == [told]


def test_what_is_said_of_a_process_that_runs_is_said_and_not_that_it_is_ready(tmp_path: Path) -> None:
    seen = InstanceSeen("ocr@0123456789ab", "ready", pid=7, reason="SecretEcho", message="it printed one")
    Journal(tmp_path, Clock()).instance(seen)
    (told,) = lines(tmp_path / "events.jsonl")
    assert (told["reason"], told["message"]) == ("SecretEcho", "ocr@0123456789ab: it printed one")
