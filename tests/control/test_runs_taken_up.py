"""Runs that are taken up again: by two at once, by nobody, from files that nobody can read."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from reconciler.chains import flow
from reconciler.chains.state import Settings
from reconciler.control.approvals import Approvals
from reconciler.control.doorkeeper import Doorkeeper
from reconciler.control.runface import begun_json, input_value
from reconciler.control.runfiles import Head
from reconciler.control.runs import Rooms, Runs, Unrunnable
from reconciler.model.chain import Chain
from reconciler.model.routes import RouteTable
from reconciler.router.server import Router

_RUN = "0123456789ab"


class _Keeper:
    """One session that is always open."""

    def sessions(self) -> list[Any]:
        return [type("S", (), {"id": "s"})()]

    def keep(self, session: str) -> None: ...

    async def close(self, session: str) -> None: ...


def runs(tmp_path: Path) -> Runs:
    keeper = cast(Doorkeeper, _Keeper())
    book = Approvals(tmp_path, lambda: 5.0)
    return Runs(
        tmp_path, Rooms(cast(Router, None), keeper, lambda: RouteTable(0, {}, {}), lambda: book), lambda: 5.0
    )


def begun() -> dict[str, Any]:
    chain = Chain.model_validate({"id": "c", "tasks": [{"id": "a", "handler": "chat_completion"}]})
    usual = {"model": "scripted", "provider": "scripted"}
    told = begun_json(chain, flow.text("x"), Settings(_RUN, datetime.now(UTC), usual))
    return {**told, "policy": None, "script": [{"text": "once", "delaySeconds": 0.2}, {"text": "twice"}]}


def stopped(made: Runs, **more: Any) -> None:
    made.files.begin(Head(_RUN, "c", "clerk", 1.0, state="stopped", session="s", **more), begun())


async def ended(made: Runs, run: str = _RUN) -> Head:
    while (live := made.live.get(run)) is not None and live.task is not None:
        await asyncio.wait([live.task])
    head = made.files.head(run)
    assert head is not None
    return head


def test_a_run_that_many_resume_at_once_goes_on_once(tmp_path: Path) -> None:
    made = runs(tmp_path)
    stopped(made)

    async def all_at_once() -> Head:
        found = await asyncio.gather(*(made.resume(_RUN[:5]) for _ in range(8)))
        assert len({id(one) for one in found}) == 1
        return await ended(made)

    head = asyncio.run(all_at_once())
    assert head.state == "completed"
    words = [line["reply"] for line in made.files.answers(_RUN)]
    assert words.count("model") == 1, words
    assert (made.files.output(_RUN) or {})["text"] == "once"


def test_a_run_that_is_cancelled_while_it_is_resumed_is_not_both(tmp_path: Path) -> None:
    made = runs(tmp_path)
    stopped(made)

    async def both() -> None:
        await asyncio.gather(made.resume(_RUN), made.cancel(_RUN), return_exceptions=True)
        assert (await ended(made)).state == "cancelled"

    asyncio.run(both())


def test_a_question_of_a_run_that_stands_still_ends_with_it(tmp_path: Path) -> None:
    made = runs(tmp_path)
    book = made.rooms.approvals()
    question = book.begun("run:x", {}, 100.0)
    stopped(made, waits_for=question.id)
    head = asyncio.run(made.cancel(_RUN))
    assert (head.state, head.waits_for) == ("cancelled", "")
    assert [one.state for one in book.listed()] == ["denied"]


@pytest.mark.parametrize(
    "odd",
    [
        "[]", "{", "7", "", "[" * 100_000, {"settings": []}, {"settings": {}}, {"chain": 7}, {"input": None},
        {"input": []}, {"policy": {"x": 1}}, {"version": 0}, None,
    ],
)  # fmt: skip
def test_a_run_whose_files_cannot_be_read_has_failed_and_holds_up_no_other(tmp_path: Path, odd: Any) -> None:
    made = runs(tmp_path)
    other = "bbbbbbbbbbbb"
    made.files.begin(
        Head(other, "c", "clerk", 0.5, session="s"), begun()
    )  # older: it comes after the broken one
    made.files.begin(Head(_RUN, "c", "clerk", 1.0, session="s"), begun())
    path = made.files.path(_RUN) / "begun.json"
    if odd is None:
        path.unlink()
    else:
        path.write_text(odd if isinstance(odd, str) else json.dumps({**begun(), **odd}))

    async def taken_up() -> None:
        made.ready.set()
        task = asyncio.create_task(made.run())
        async with asyncio.timeout(30):
            while not (await asyncio.to_thread(made.files.head, other) or Head("", "", "", 0)).is_over:
                assert not task.done(), task.exception()
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(taken_up())
    head, fine = made.files.head(_RUN), made.files.head(other)
    assert head is not None
    assert fine is not None
    assert (head.state, head.code, fine.state) == ("failed", "not_resumable", "completed")
    assert head.message


def test_a_run_whose_agent_is_gone_stands_still_and_says_so(tmp_path: Path) -> None:
    made = runs(tmp_path)
    made.files.begin(Head(_RUN, "c", "clerk", 1.0, session="gone"), begun())

    async def taken_up() -> None:
        made.ready.set()
        task = asyncio.create_task(made.run())
        async with asyncio.timeout(30):
            while (await asyncio.to_thread(made.files.head, _RUN) or Head("", "", "", 0)).state == "running":
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        with pytest.raises(Unrunnable):
            await made.resume(_RUN)

    asyncio.run(taken_up())
    head = made.files.head(_RUN)
    assert head is not None
    assert (head.state, "clerk" in head.message) == ("stopped", True)


@pytest.mark.parametrize("odd", ["x", "", "1_000", "1.0", "9" * 5000, "0x1"])
def test_a_text_that_is_no_whole_number_is_refused_in_words(odd: str) -> None:
    with pytest.raises(ValueError, match=r"^it is no whole number$"):
        input_value(odd, "int")
    assert input_value(" -12\n", "int").data == -12
