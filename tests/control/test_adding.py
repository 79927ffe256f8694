"""A lane whose connector hands files over: the answer goes on when they lie in their places."""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.control.adding import AddingDispatcher
from reconciler.model.calls import Refusal, Result
from reconciler.router import additions
from tests.control.test_dispatch import MAX, RECIPE, Far, Heard, Instance, Play, run

FILE = [{"setting": "maildir", "name": "new/1", "blob": "x", "size": 5}]


class Kept(Heard):
    """A sink of a call that the ledger keeps."""

    attempt = "a1"


def adding(test: Callable[[Play, Path], Awaitable[None]], folder: Path, *, ours: Path | None = None) -> None:
    (folder / "new").mkdir(parents=True, exist_ok=True)

    async def played(play: Play) -> None:
        recipe = replace(RECIPE, adds=(("maildir", str(folder)),))
        play.dispatcher = AddingDispatcher(
            play.instance, recipe=lambda _: recipe, ours=(ours.resolve(),) if ours else ()
        )
        await test(play, folder)

    run(played)


async def asked(play: Play, sink: Heard, added: object = FILE) -> tuple[Any, Far, int]:
    """A call that has gone out and is about to be answered with a file."""
    lane, far = await play.open()
    number = lane.send("echo_say", {}, sink, MAX)
    call = await far.call()
    leave(play.instance)
    result = {"structuredContent": {"a": 1}, "content": [], "_meta": {"ai.handler/added": added}}
    far.send(id=call["id"], result=result)
    return lane, far, number


def leave(instance: Instance) -> None:
    number = os.open("x", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=instance.outbox)
    os.write(number, b"hello")
    os.close(number)


def test_the_answer_comes_when_the_file_lies_there(tmp_path: Path) -> None:
    async def test(play: Play, folder: Path) -> None:
        sink = Kept()
        await asked(play, sink)
        assert await sink.reply == Result({"a": 1}, {})
        assert (folder / "new" / "1").read_bytes() == b"hello"

    adding(test, tmp_path / "mail")


def test_an_answer_without_files_goes_on_at_once(tmp_path: Path) -> None:
    async def test(play: Play, folder: Path) -> None:
        lane, far = await play.open()
        sink = Heard()
        lane.send("echo_say", {}, sink, MAX)
        far.answer(await far.call(), a=1)
        assert await sink.reply == Result({"a": 1}, {})

    adding(test, tmp_path / "mail")


@pytest.mark.parametrize("case", ["gone", "linked", "ours", "taken", "no effect"])
def test_what_cannot_be_added_ends_the_call_and_proves_that_nothing_happened(
    tmp_path: Path, case: str
) -> None:
    async def test(play: Play, folder: Path) -> None:
        if case == "linked":  # after the connector was there: nobody else chooses where we write
            lane = await play.lane()
            await lane._folders  # type: ignore[attr-defined]
        if case in ("gone", "linked"):
            folder.rename(tmp_path / "moved")
        if case == "linked":
            folder.symlink_to(tmp_path / "moved")
        elif case == "taken":
            (folder / "new" / "1").write_text("theirs")
        sink = Heard() if case == "no effect" else Kept()
        if case == "no effect":
            sink.attempt = ""  # type: ignore[attr-defined]
        await asked(play, sink)
        reply = await sink.reply
        assert isinstance(reply, Refusal)
        assert (reply.code, reply.no_effect, reply.own) == ("unavailable", "said", True)
        assert not list(tmp_path.rglob("1")) or (folder / "new" / "1").read_text() == "theirs"

    adding(test, tmp_path / "mail", ours=tmp_path if case == "ours" else None)


def test_half_of_it_proves_nothing(tmp_path: Path) -> None:
    async def test(play: Play, folder: Path) -> None:
        sink = Kept()
        await asked(play, sink, [*FILE, {"setting": "maildir", "name": "new/2", "blob": "y", "size": 1}])
        reply = await sink.reply
        assert isinstance(reply, Refusal)
        assert (reply.code, reply.no_effect) == ("unavailable", "")
        assert (folder / "new" / "1").exists()

    adding(test, tmp_path / "mail")


@pytest.mark.parametrize(
    "added", [{}, [1], [{"setting": "maildir", "name": "new/1"}], [{**FILE[0], "blob": 1}], FILE * 17]
)
def test_files_that_are_not_as_agreed_are_none(tmp_path: Path, added: object) -> None:
    async def test(play: Play, folder: Path) -> None:
        sink = Kept()
        await asked(play, sink, added)
        assert await sink.reply == Refusal("unavailable", "the answer's files are not as agreed", own=True)

    adding(test, tmp_path / "mail")


def test_who_gave_the_call_up_hears_nothing_when_the_file_lies_there_after_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, put = threading.Event(), threading.Event(), additions.put

    def slow(*words: Any, **more: Any) -> None:
        begun.set()
        go_on.wait(10)
        put(*words, **more)

    monkeypatch.setattr(additions, "put", slow)

    async def test(play: Play, folder: Path) -> None:
        sink = Kept()
        lane, _, number = await asked(play, sink)
        await asyncio.to_thread(begun.wait, 10)
        assert lane.cancel(number)  # it had gone out: what came of it nobody knows
        go_on.set()
        while play.dispatcher._tasks:
            await asyncio.sleep(0.001)
        assert not sink.reply.done()
        assert not (folder / "new" / "1").exists()

    adding(test, tmp_path / "mail")


def test_a_call_that_is_ended_takes_nothing_from_under_the_thread_that_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, open_still = threading.Event(), threading.Event(), []

    def slow(outbox: int, *words: Any, **more: Any) -> None:
        begun.set()
        go_on.wait(30)
        open_still.append(Path(f"/proc/self/fd/{outbox}").exists())

    monkeypatch.setattr(additions, "put", slow)

    async def test(play: Play, folder: Path) -> None:
        await asked(play, Kept())
        await asyncio.to_thread(begun.wait, 30)
        (work,) = play.dispatcher._tasks
        work.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.wait({work}, timeout=30)
        while not open_still:
            await asyncio.sleep(0.001)
        assert open_still == [True]

    adding(test, tmp_path / "mail")
