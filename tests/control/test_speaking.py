"""What is new is said of objects at once, and a summary never says more than the objects that it sums up."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest

from reconciler.control import say
from reconciler.control.facts import Facts
from reconciler.control.speaking import Sayings, Speaker
from reconciler.control.status import Board, Drawn
from reconciler.model.status import Summary
from reconciler.plan.desired import desire
from tests.plan.build import HOME, KIT, SMALL, admitted, binding


def facts_of(files: dict[str, str]) -> Facts:
    admission = admitted(files)
    table = desire(admission, generation=1, kit=KIT, home=HOME).table
    return Facts(admission, table, table, {})


BEFORE = facts_of(SMALL)
AFTER = facts_of(SMALL | binding("new", "ocr-good"))


class Stage:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts = BEFORE
        self.board = Board(folder, lambda: 1e9)
        sayings = Sayings(lambda: self.facts, lambda: Summary("here"), say.summary)
        self.speaker = Speaker(self.board, sayings)

    def told(self, name: str) -> bool:
        return (self.folder / f"binding/{name}.json").exists()

    def summary(self) -> set[str]:
        path = self.folder / "summary.json"
        found: Any = orjson.loads(path.read_bytes()) if path.exists() else {"objects": ()}
        return {row["name"] for row in found["objects"] if row["kind"] == "binding"}

    async def until(self, holds: Callable[[], bool]) -> None:
        with anyio.fail_after(60):
            while not holds():
                await anyio.sleep(0.005)

    def play(self, story: Callable[[], Awaitable[None]]) -> None:
        async def main() -> None:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.speaker.run)
                await story()
                tasks.cancel_scope.cancel()

        asyncio.run(main())


def test_what_is_new_after_something_was_asked_for_is_said_too(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    async def story() -> None:
        stage.speaker.soon()
        await stage.until(lambda: stage.summary() == {"fast", "good"})
        await stage.speaker.speak()
        stage.facts = AFTER
        stage.speaker.soon()
        await stage.until(lambda: stage.told("new") and "new" in stage.summary())

    stage.play(story)


def test_objects_are_told_while_a_summary_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path)
    begun, reached, write = threading.Event(), threading.Event(), stage.board.sum_up

    def slow(drawn: Drawn) -> bool:
        begun.set()
        assert reached.wait(60)
        return write(drawn)

    monkeypatch.setattr(stage.board, "sum_up", slow)

    async def story() -> None:
        stage.speaker.soon()
        await stage.until(begun.is_set)
        stage.facts = AFTER
        stage.speaker.soon()
        await stage.until(lambda: stage.told("new"))
        reached.set()
        await stage.until(lambda: "new" in stage.summary())

    stage.play(story)


def test_a_summary_is_drawn_of_objects_that_are_told(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    async def story() -> None:
        await stage.speaker.speak()
        stage.facts = AFTER  # nobody said that there is something new
        await stage.speaker.speak()
        assert stage.told("new")
        assert "new" in stage.summary()

    stage.play(story)
