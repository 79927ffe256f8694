"""Attempts as a person sees them: listed beside a controller, stopped, settled, let go."""

import json
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from reconciler.attempts.happenings import Lost, Submit
from reconciler.attempts.ledger import Ledger
from reconciler.attempts.records import Attempt
from reconciler.control import jobbook, lock
from reconciler.doors import client
from tests.attempts.wishes import new
from tests.doors import fakes
from tests.doors.conftest import World

PAST = 1_780_000_000.0
SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "jobs.schema.json").read_text())


def _kept(
    world: World, *, ids: tuple[str, ...] = ("01a22e11-a33b-786f-b3a0-81994925e2e2",), at: float = PAST
) -> list[Attempt]:
    """One attempt that nobody knows the outcome of, and as many that wait as there are more ids."""
    world.state.mkdir(mode=0o700, exist_ok=True)
    ledger = Ledger.at(world.state)
    made = [ledger.prepare(new(number, id=one), at).attempt for number, one in enumerate(ids)]
    lost = ledger.apply(made[0], at + 1, Submit())
    lost = ledger.apply(lost, at + 6, Lost("its connector ended before it answered", parked=True))
    ledger.close()
    return [lost, *made[1:]]


def _json(text: str) -> list[dict[str, object]]:
    told = json.loads(text)
    jsonschema.validate(told, SCHEMA)
    jobs = told["jobs"]
    assert isinstance(jobs, list)
    return jobs


def test_where_no_effect_was_ever_tried_there_is_nothing_to_list(world: World) -> None:
    told = world.handler("jobs", "list", "-c", "config")
    assert (told.code, told.out) == (0, "")
    assert "No job is open" in told.err
    assert _json(world.handler("jobs", "list", "-c", "config", "-o", "json").out) == []
    assert world.handler("jobs", "cancel", "01a22e11", "-c", "config").code == 1
    assert not world.state.exists()


def test_a_job_is_listed_with_its_state_and_age(world: World, golden: Callable[[str, str], None]) -> None:
    _kept(world, at=time.time() - 310)
    golden("jobs-list", world.handler("jobs", "list").out)
    golden("jobs-list-wide", world.handler("jobs", "list", "-o", "wide").out)


def test_a_job_is_shown_with_its_history_and_what_there_is_to_do(
    world: World, golden: Callable[[str, str], None]
) -> None:
    _kept(world)
    golden("jobs-get", world.handler("jobs", "get", "01a22e11").out)


def test_programs_read_what_the_schema_says_and_no_handle(world: World) -> None:
    (lost,) = _kept(world)
    (listed,) = _json(world.handler("jobs", "list", "-o", "json").out)
    shown = world.handler("jobs", "get", lost.id, "-o", "json").out
    (got,) = _json(shown)
    assert (listed["state"], listed["parked"], listed["history"]) == ("indeterminate", True, None)
    assert [one["what"] for one in got["history"]] == ["Prepared", "Submit", "Lost"]  # type: ignore[attr-defined]
    assert lost.handle not in shown
    assert world.handler("jobs", "list", "-o", "name").out == f"{lost.id}\n"


def test_a_person_settles_what_is_unknown_and_only_that(world: World) -> None:
    _kept(world)
    empty = world.handler("jobs", "settle", "01a22e11", "--as", "succeeded", "--evidence", " ")
    assert (empty.code, "--evidence" in empty.err) == (1, True)
    told = world.handler(
        "jobs", "settle", "01a22e11", "--as", "succeeded", "--evidence", "it is in Sent", "-o", "json"
    )
    (settled,) = _json(told.out)
    assert settled["state"] == "succeeded"
    assert str(settled["cause"]).endswith(": it is in Sent")
    again = world.handler("jobs", "settle", "01a22e11", "--as", "failed", "--evidence", "no")
    assert (again.code, "only what is indeterminate" in again.err) == (1, True)
    assert world.handler("jobs", "list").out == ""
    assert "succeeded" in world.handler("jobs", "list", "--all").out


def test_a_row_that_cannot_be_read_is_named_and_an_agents_handle_is_shown(world: World) -> None:
    lost, waiting = _kept(world, ids=("01a22e11-a33b-786f-b3a0-81994925e2e2", "01a22e12-0000-786f-b3a0-8199"))
    ledger = Ledger.at(world.state)
    job = ledger.prepare(new(7, id="01a22e13-0000-786f-b3a0-8199", kind="job", grade="wire"), PAST).attempt
    ledger.store.change("UPDATE attempt SET provider = '?' WHERE id = :id", {"id": waiting.id})
    ledger.close()
    told = world.handler("jobs", "list", "-o", "wide")
    assert f"1 row of the ledger cannot be read: {waiting.id}" in told.err
    assert job.handle in told.out
    assert f"Handle  {job.handle}" in world.handler("jobs", "get", job.handle[:9]).out.replace("   ", " ")
    assert lost.handle not in told.out
    said = json.loads(world.handler("jobs", "list", "-o", "json").out)
    assert said["unreadable"] == [waiting.id]
    got = world.handler("jobs", "get", waiting.id)
    assert (got.code, "cannot be read" in got.err) == (1, True)


def test_a_ledger_that_is_no_file_is_said_and_nothing_hangs(world: World) -> None:
    world.state.mkdir(mode=0o700, exist_ok=True)
    os.mkfifo(world.state / "ledger.db")
    for words in (("list",), ("get", "ab"), ("cancel", "ab"), ("prune",)):
        told = world.handler("jobs", *words)
        assert (told.code, "is no file of its own" in told.err) == (1, True), words


def test_what_was_not_sent_is_cancelled_at_once(world: World) -> None:
    lost, waiting = _kept(world, ids=("01a22e11-a33b-786f-b3a0-81994925e2e2", "01a22e12-0000-786f-b3a0-8199"))
    told = world.handler("jobs", "cancel", waiting.id)
    assert (told.code, "nothing was sent" in told.err) == (0, True)
    assert world.handler("jobs", "cancel", waiting.id).code == 1
    refused = world.handler("jobs", "cancel", lost.id)
    assert (refused.code, "handler jobs settle" in refused.err) == (1, True)
    ledger = Ledger.at(world.state)
    job = ledger.prepare(new(7, id="01a22e13-0000-786f-b3a0-8199", kind="job", grade="wire"), PAST).attempt
    call = ledger.prepare(new(8, id="01a22e14-0000-786f-b3a0-8199"), PAST).attempt
    for one in (job, call):
        ledger.apply(one, PAST, Submit())
    ledger.close()
    kept = world.handler("jobs", "cancel", job.id)
    assert (kept.code, "the wish is kept" in kept.err) == (0, True)
    running = world.handler("jobs", "cancel", call.id)
    assert (running.code, "it is a call, no job" in running.err) == (1, True)


def test_an_id_that_begins_several_is_not_guessed_at(world: World) -> None:
    _kept(world, ids=("01a22e11-a33b-786f-b3a0-81994925e2e2", "01a22e11-a33b-786f-b3a0-81994925e2e3"))
    told = world.handler("jobs", "get", "01a22e11")
    assert (told.code, "several jobs begin with" in told.err) == (1, True)
    assert world.handler("jobs", "get", "%").code == 1


def test_pruning_says_what_would_go_and_leaves_what_is_unknown(world: World) -> None:
    _kept(world)
    dry = json.loads(world.handler("jobs", "prune", "--dry-run", "-o", "json").out)
    assert dry == {"dryRun": True, "jobs": [], "files": [], "decisions": 0}
    assert "stays until it is settled" in world.handler("jobs", "prune").err


def test_where_a_controller_runs_it_is_asked_and_the_files_are_left_alone(world: World) -> None:
    (lost,) = _kept(world)
    seen = jobbook.as_json(lost)
    answers = {"jobs.settle": lambda params: {"jobs": [{**seen, "state": params["as"]}]}}
    with lock.held(world.state), fakes.served(world.run / "control.sock", answers) as asked:
        told = world.handler("jobs", "settle", lost.id, "--as", "failed", "--evidence", "no such mail")
    assert told.code == 0
    assert asked[-1]["params"]["evidence"] == "no such mail"
    assert "indeterminate" in world.handler("jobs", "list").out


def test_a_controller_that_does_not_answer_yet_keeps_others_out(world: World) -> None:
    (lost,) = _kept(world)
    with lock.held(world.state):
        told = world.handler("jobs", "settle", lost.id, "--as", "failed", "--evidence", "no such mail")
    assert (told.code, "try again" in told.err) == (1, True)


@pytest.mark.parametrize("words", [("list",), ("cancel", "0")])
def test_where_the_controller_waits_for_its_database_that_is_what_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr(client.Client.ask, "__defaults__", (0.2,))
    world.state.mkdir(exist_ok=True)
    memo = {
        "url": "postgresql://handler@db.test/jobs",
        "home": "m-1/",
        "install": "i",
        "form": "",
        "words": [],
    }
    (world.state / "ledger.json").write_text(json.dumps(memo))
    silent = {f"jobs.{words[0]}": lambda message: fakes.SILENT}
    with fakes.served(world.run / "control.sock", silent):
        ran = world.handler("jobs", *words)
    assert ran.code == 1
    assert "did not answer" in ran.err and "its ledger, postgresql://handler@db.test/jobs" in ran.err


def test_a_ledger_that_was_never_begun_has_no_jobs(world: World) -> None:
    world.state.mkdir(mode=0o700)
    (world.state / "ledger.db").touch()  # a kill, just before it had tables
    told = world.handler("jobs", "list")
    assert (told.code, "No job is open" in told.err) == (0, True)
    assert world.handler("jobs", "get", "01a22e11").code == 1


def test_a_damaged_ledger_is_told_in_a_sentence_and_a_damaged_row_hides_no_other(world: World) -> None:
    ids = ("01a22e11-a33b-786f-b3a0-81994925e2e2", "01a22e11-a33b-786f-b3a0-81994925e2e3")
    _kept(world, ids=ids)
    base = sqlite3.connect(world.state / "ledger.db")
    base.execute("UPDATE attempt SET entered = '{}' WHERE id = ?", ids[:1])
    base.execute("UPDATE event SET evidence = '?'")
    base.commit()
    assert [one["job"] for one in _json(world.handler("jobs", "list", "-o", "json").out)] == [ids[1]]
    assert world.handler("jobs", "get", ids[1]).code == 0
    base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    base.close()
    whole = (world.state / "ledger.db").read_bytes()
    (world.state / "ledger.db").write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    for words in (("jobs", "list"), ("jobs", "get", ids[1])):
        told = world.handler(*words)
        assert (told.code, "the ledger" in told.err) == (1, True), told.err


@pytest.mark.parametrize("words", [("jobs",), ("jobs", "settle", "x"), ("jobs", "get")])
def test_a_line_that_says_too_little_is_told_so(world: World, words: tuple[str, ...]) -> None:
    assert world.handler(*words).code == 2
