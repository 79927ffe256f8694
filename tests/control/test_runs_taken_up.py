"""Runs that are taken up again: by two at once, by nobody, from files that nobody can read."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from reconciler.chains import calling, flow
from reconciler.chains.asks import AskApproval
from reconciler.chains.history import ToolCall
from reconciler.chains.state import Settings
from reconciler.control import runapprovals, runwishes
from reconciler.control.approvals import Approvals
from reconciler.control.doorkeeper import Doorkeeper
from reconciler.control.loop import Controller
from reconciler.control.rpc import Caller, Refused
from reconciler.control.runface import RunFace, begun_json
from reconciler.control.runfiles import Head
from reconciler.control.runs import Rooms, Runs, Unrunnable
from reconciler.control.runwishes import input_value
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


def test_what_a_person_denied_a_run_is_not_asked_again_with_the_same_arguments(tmp_path: Path) -> None:
    book = Approvals(tmp_path, lambda: 5.0)

    async def verdict(number: int, answered: bool | None, run: str = "r", **arguments: str) -> str:
        one = AskApproval(f"{run}/{number}", "t", ToolCall("c", "fs.w"), "fs", "w", arguments)

        async def waits(question: str) -> None:
            assert answered is not None, "nobody is asked"
            book.answer(question, "ada", agreed=answered)

        whose = {"run": run, "agent": "clerk", "chain": "c"}
        return (await runapprovals.asked(book, one, whose, waits=waits, now=lambda: 5.0)).verdict

    async def all_of_it() -> list[str]:
        return [
            await verdict(1, answered=False, path="a"),
            await verdict(2, answered=None, path="a"),
            await verdict(3, answered=True, path="b"),
            await verdict(4, answered=True, path="b"),  # a yes is for one call
            await verdict(1, answered=True, run="s", path="a"),
        ]

    assert asyncio.run(all_of_it()) == ["denied", "denied", "approved", "approved", "approved"]


def test_a_no_is_for_the_same_bytes_and_as_long_as_its_question(tmp_path: Path) -> None:
    now = [5.0]
    book = Approvals(tmp_path, lambda: now[0])

    async def asked(mark: str) -> str:
        return (await book.asked(mark, {}, until=now[0] + 100, wait_s=0)).state

    book.answer(book.begun("m", {}, 105.0).id, "ada", agreed=False)
    assert [asyncio.run(asked("m")), asyncio.run(asked("n"))] == ["denied", "waiting"]
    now[0] = 106.0
    assert asyncio.run(asked("m")) == "waiting"


@pytest.mark.parametrize(
    "odd",
    [
        {"chain": 7}, {"vars": {"a": 1}}, {"vars": [["a", "b"]]}, {"allowlist": "fs"}, {"allowlist": [1]},
        {"temperature": True}, {"temperature": "1"}, {"temperature": float("inf")}, {"maxTokens": -1},
        {"maxTokens": 1.5}, {"clientTools": [{"name": ""}]},
        {"clientTools": [{"name": "x", "parameters": 5}]},
        {"think": []}, {"agent": {"a": 1}}, {"inputType": 5}, {"model": "m" * 20_000},
    ],
    ids=str,
)  # fmt: skip
def test_a_wish_of_another_kind_is_refused_by_its_name(odd: dict[str, Any]) -> None:
    with pytest.raises(Refused, match=f"'{next(iter(odd))}' is "):
        runwishes.checked({"chain": "c", **odd})
    plain = {
        "chain": "c",
        "vars": {"a": "b"},
        "temperature": 1,
        "clientTools": [{"name": "x"}],
        "think": None,
    }
    assert runwishes.checked(plain) is plain


@pytest.mark.parametrize(
    "text", ['{"a": NaN}', '{"a": 1e999}', '{"a": 1' + "0" * 30 + "}", r'{"a": "\ud800"}', "[" * 400]
)
def test_json_that_no_file_could_hold_stays_the_text_that_it_is(text: str) -> None:
    assert input_value(text, "json") == flow.Value("json", text)
    assert calling._arguments(ToolCall("c", "t", text)) is None
    assert flow.plain(float("inf")) == "+Inf"


@pytest.mark.parametrize("odd", ["x", "", "1_000", "1.0", "9" * 5000, "0x1"])
def test_a_text_that_is_no_whole_number_is_refused_in_words(odd: str) -> None:
    with pytest.raises(ValueError, match=r"^it is no whole number$"):
        input_value(odd, "int")
    assert input_value(" -12\n", "int").data == -12


def test_a_run_that_nobody_carries_on_any_more_is_not_counted_among_those_that_wait(tmp_path: Path) -> None:
    made = runs(tmp_path)
    made.files.begin(Head(_RUN, "c", "gone", 1.0, state="waiting_approval", session="closed"), begun())
    made.files.going({"running": 0, "waiting_approval": 1, "waiting_service": 0})

    async def taken_up() -> None:
        made.ready.set()
        going = asyncio.create_task(made.run())
        async with asyncio.timeout(30):
            while any(json.loads((made.files.folder / "going.json").read_bytes()).values()):
                await asyncio.sleep(0.01)
        going.cancel()

    asyncio.run(taken_up())
    head = made.files.head(_RUN)
    assert head is not None
    assert head.state == "stopped"


def test_what_a_resumed_run_waits_for_at_once_is_told_to_who_resumed_it() -> None:
    class Taken:
        head = Head(_RUN, "c", "clerk", 1.0, state="running", session="s")

        async def changed(self, seconds: float) -> None:
            self.head = replace(self.head, state="waiting_service", waits_for="a-job")

    class Taking:
        async def resume(self, run: str) -> Taken:
            return Taken()

    face = RunFace(cast(Controller, None), cast(Runs, Taking()))
    told = asyncio.run(face.resume({"run": _RUN}, cast(Caller, None)))
    assert (told["state"], told["waits_for"]) == ("waiting_service", "a-job")
