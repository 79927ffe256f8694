"""Runs on the disk: what a killed writer leaves, what is no run, what a full disk does, what is kept."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reconciler.chains import engine, flow
from reconciler.chains.state import Laws, Settings
from reconciler.control import runfiles
from reconciler.control.runfiles import Head, RunFiles
from reconciler.control.runlive import Live, place
from reconciler.model.chain import Chain


def files(tmp_path: Path) -> RunFiles:
    made = RunFiles(tmp_path)
    made.begin(Head("0123456789ab", "c", "clerk", 1.0), {"chain": {}})
    return made


def test_a_run_is_there_whole_and_for_its_owner_alone(tmp_path: Path) -> None:
    made = files(tmp_path)
    made.answer("0123456789ab", {"reply": "slept"})
    made.tell("0123456789ab", [{"number": 0}])
    head = made.head("0123")
    assert head is not None
    assert (head.chain, made.begun(head.id), made.answers(head.id)) == (
        "c",
        {"chain": {}},
        [{"reply": "slept"}],
    )
    for path in made.path(head.id).iterdir():
        assert path.stat().st_mode & 0o077 == 0, path
    assert made.path(head.id).stat().st_mode & 0o077 == 0


def test_a_line_that_was_left_half_is_cut_off(tmp_path: Path) -> None:
    made = files(tmp_path)
    made.answer("0123456789ab", {"reply": "slept"})
    path = made.path("0123456789ab") / "answers.jsonl"
    with path.open("ab") as file:
        file.write(b'{"reply": "sl')
    assert made.answers("0123456789ab") == [{"reply": "slept"}]
    made.answer("0123456789ab", {"reply": "cancelled"})
    assert [one["reply"] for one in made.answers("0123456789ab")] == ["slept", "cancelled"]


def test_a_full_disk_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = files(tmp_path)
    real = os.write

    def half(fd: int, data: Any) -> int:
        if len(data) < 10:
            raise OSError(28, "No space left on device")
        return real(fd, bytes(data)[:5])

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OSError, match="No space"):
        made.answer("0123456789ab", {"reply": "slept"})
    monkeypatch.undo()
    assert (made.path("0123456789ab") / "answers.jsonl").read_bytes() == b""


@pytest.mark.parametrize("name", ["../../x", "", ".", "0123456789ab/..", "0123456789AB"])
def test_what_is_no_runs_name_leads_nowhere(tmp_path: Path, name: str) -> None:
    made = files(tmp_path)
    assert made.head(name) is None or name == ""
    with pytest.raises(ValueError, match="is no run"):
        made.path(name)


def test_the_oldest_that_are_over_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runfiles, "_MOST_KEPT", 2)
    made = files(tmp_path)  # it goes on, and stays
    for number in range(4):
        head = Head(f"aaaaaaaaaaa{number}", "c", "clerk", 2.0 + number, state="completed")
        made.begin(head, {})
        made.finish(head, {"text": "x"})
    assert [one.id[-1] for one in made.heads()] == ["3", "2", "b"]


def test_a_position_of_another_controller_has_seen_its_events_and_no_pieces() -> None:
    assert place("ab.3.7", "ab") == (3, 7)
    assert place("cd.3.7", "ab") == (3, 0)
    for odd in ("", "x", "1.2", "a.b.c", "a.-1.2"):
        assert place(odd, "a") == (0, 0)


def test_a_follower_hears_each_thing_once_and_in_order() -> None:
    chain = Chain.model_validate({"id": "c", "tasks": [{"id": "a", "handler": "noop"}]})
    run = engine.begin(chain, flow.text("x"), Settings("r", datetime.now(UTC)), Laws(len))
    live = Live(Head("0123456789ab", "c", "clerk", 1.0), run, "e")
    events = len(run.events)
    heard, after = live.since("")
    assert [one["number"] for one in heard] == list(range(events))
    for number in range(25_000):
        live.piece({"kind": "step_chunk", "content": str(number)})
        if number % 5000 == 4999:
            found, after = live.since(after)
            heard += found
    said = [int(one["content"]) for one in heard if "content" in one and "number" not in one]
    assert said == sorted(set(said))
    while (found := live.since(after))[0]:
        said += [int(one["content"]) for one in found[0]]
        after = found[1]
    assert said == list(range(25_000))
    late, _ = live.since("")
    assert int(late[0]["content"]) == 5000  # what is too old is held no more
    assert live.since(f"other.{events}.99")[0][0]["content"] == "5000"


@pytest.mark.parametrize(
    "odd",
    [
        {"at": "soon"}, {"at": -1}, {"at": 1e18}, {"ended": None}, {"agent": ["x"]}, {"chain": 5},
        {"steps": "1"}, {"message": {}}, {"scripted": 1}, {"state": ["running"]}, {"waits_for": None},
    ],
)  # fmt: skip
def test_a_head_of_other_values_is_passed_over_and_hides_no_other_run(
    tmp_path: Path, odd: dict[str, Any]
) -> None:
    made = files(tmp_path)
    made.begin(Head("bbbbbbbbbbbb", "c", "clerk", 2.0), {})
    path = made.path("bbbbbbbbbbbb") / "head.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **odd}))
    assert [one.id for one in made.heads()] == ["0123456789ab"]


def test_a_run_that_has_just_ended_is_kept_however_long_ago_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runfiles, "_MOST_KEPT", 2)
    made = files(tmp_path)
    for number in range(3):
        made.finish(ran(made, f"aaaaaaaaaaa{number}", 2.0 + number, ended=10.0 + number), None)
    last = Head("0123456789ab", "c", "clerk", 1.0, state="completed", ended=99.0)
    made.finish(last, {"text": "after a week"})
    assert made.output("0123456789ab") == {"text": "after a week"}
    assert {one.id[-1] for one in made.heads()} == {"b", "2"}


def ran(made: RunFiles, run: str, at: float, ended: float) -> Head:
    made.begin(Head(run, "c", "clerk", at), {})
    return Head(run, "c", "clerk", at, state="completed", ended=ended)


def test_a_line_of_what_was_told_that_is_no_object_is_passed_over(tmp_path: Path) -> None:
    made = files(tmp_path)
    made.tell("0123456789ab", [{"number": 0}])
    with (made.path("0123456789ab") / "events.jsonl").open("ab") as file:
        file.write(b"[1]\n7\n")
    assert made.events("0123456789ab") == [{"number": 0}]
