"""What the control socket answers about attempts, on a real ledger with its own writer."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from reconciler.attempts.happenings import Accepted, Lost, Submit, Succeeded
from reconciler.attempts.ledger import Ledger
from reconciler.attempts.machine import DAY_S
from reconciler.attempts.writing import Writing
from reconciler.control import jobbook
from reconciler.control.jobbook import JobBook
from reconciler.control.rpc import Refused
from tests.attempts.wishes import NOW, new

_ANYBODY: Any = None  # no answer depends on who asks


def _asked(state: Path, *questions: tuple[str, dict[str, Any]]) -> tuple[list[Any], int]:
    """The answers of one controller, refusals as their text; and how often it was told of a change."""

    async def live() -> tuple[list[Any], int]:
        opened: list[Writing] = []
        told: list[None] = []

        async def writing() -> Writing:
            if not opened:
                opened.append(Writing(Ledger.at(state), lambda: NOW))
            return opened[0]

        methods = JobBook((state / "ledger.db").exists, writing, lambda: told.append(None)).table()
        answers: list[Any] = []
        for name, params in questions:
            try:
                answers.append(await methods[name](params, _ANYBODY))
            except Refused as fault:
                answers.append(str(fault))
        for one in opened:
            await one.close()
        return answers, len(told)

    return asyncio.run(live())


def test_without_a_ledger_there_is_no_job_and_none_is_made(tmp_path: Path) -> None:
    (told,), _ = _asked(tmp_path, ("jobs.cancel", {"job": "01a2"}))
    assert "no effect was ever tried" in told
    assert list(tmp_path.iterdir()) == []


def test_a_person_settles_through_the_controller_which_counts_again(tmp_path: Path) -> None:
    ledger = Ledger.at(tmp_path)
    one = ledger.apply(ledger.prepare(new(), NOW).attempt, NOW, Submit())
    ledger.apply(one, NOW, Lost("no answer", parked=True))
    ledger.close()
    said = {"job": one.id, "as": "succeeded", "by": "eva", "evidence": "it is in Sent"}
    answers, told = _asked(
        tmp_path,
        ("jobs.settle", {**said, "as": "running"}),
        ("jobs.settle", said),
        ("jobs.settle", said),
        ("jobs.cancel", said),
        ("jobs.cancel", {"job": "ffff"}),
    )
    refused, settled, again, over, unknown = answers
    assert "not as 'running'" in refused
    assert (settled["jobs"][0]["state"], settled["jobs"][0]["cause"]) == (
        "succeeded", "settled by eva: it is in Sent",
    )  # fmt: skip
    assert "only what is indeterminate" in again
    assert "it is over: succeeded" in over
    assert "there is no job 'ffff'" in unknown
    assert told == 4


def test_what_is_past_its_time_goes_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobbook, "PRUNE_FIRST_S", 0.01)
    monkeypatch.setattr(jobbook, "PRUNE_EVERY_S", 0.01)
    ledger = Ledger.at(tmp_path)
    long_ago = 1_000_000_000.0
    one = ledger.apply(ledger.prepare(new(), long_ago).attempt, long_ago, Submit())
    ledger.apply(one, long_ago + DAY_S, Accepted(), Succeeded())

    async def live() -> None:
        writing = Writing(ledger, lambda: NOW)

        async def given() -> Writing:
            return writing

        keeping = asyncio.create_task(
            JobBook((tmp_path / "ledger.db").exists, given, lambda: None).keep_house()
        )
        async with asyncio.timeout(30):
            while await writing.run(lambda one: one.listing()):
                await asyncio.sleep(0.01)
        keeping.cancel()
        await writing.close()

    asyncio.run(live())
