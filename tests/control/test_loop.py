"""The loop over a real configuration, state folder and board, with a runtime that starts nothing."""

import asyncio
import errno
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio
import orjson
import pytest

from reconciler.control import atomic, inotify
from reconciler.control.admitted import Admitted
from reconciler.control.bad import Bad
from reconciler.control.harnessdrift import HarnessDrift
from reconciler.control.journal import Journal
from reconciler.control.lock import Lock, held
from reconciler.control.looking import Look, Looker, settings_in_force
from reconciler.control.loop import Controller, Parts
from reconciler.control.place import Place
from reconciler.control.proving import Demand
from reconciler.control.retained import Retained
from reconciler.control.status import Board
from reconciler.control.withdrawn import Withdrawn
from reconciler.model.names import InstanceName
from reconciler.model.recipes import Recipe
from reconciler.model.status import InstanceSeen, Summary
from reconciler.runtime.supervisor import Altered

CONFIG = 'apiVersion = "handler.config/v1"\n[reconcile]\nscanSeconds = 0.1\n'
BINDING = 'apiVersion = "handler.binding/v1"\nconnector = "ocr-tesseract"\n'


@dataclass
class Runtime:
    """Stands for the supervisor, the dispatcher and the doorkeeper: nothing runs, and all that is asked of
    them is granted.
    """

    held: tuple[str, ...] = ()  # the bindings that open sessions use
    declared: list[InstanceName] = field(default_factory=list)

    async def declare(self, recipe: Recipe, code: object) -> InstanceName:
        self.declared.append(recipe.name)
        return recipe.name

    async def retire(self, name: InstanceName) -> None:
        self.declared.remove(name)

    def observe(self) -> tuple[InstanceSeen, ...]:
        return ()

    def observed(self) -> Mapping[str, InstanceSeen]:
        return {}

    def lively(self) -> tuple[InstanceSeen, ...]:
        return ()

    def prune(self) -> tuple[str, ...]:
        return ()

    def revoke(self, why: Mapping[InstanceName, str]) -> None: ...

    async def follow_rotation(self) -> tuple[InstanceName, ...]:
        return ()

    async def altered(self) -> Altered:
        return Altered()

    def unreachable(self) -> tuple[str, ...]:
        return ()

    def altered_sessions(self) -> tuple[str, ...]:
        return ()

    async def restore(self) -> None: ...

    async def sweep(self) -> None: ...

    async def follow(self, table: object) -> None: ...

    def take_withdrawn(self, why: object, known: object) -> None: ...

    def in_use(self) -> tuple[str, ...]:
        return self.held

    def recipes(self) -> Mapping[InstanceName, Recipe]:
        return {}


class House:
    """A configuration and its controller."""

    def __init__(self, folder: Path) -> None:
        self.place = Place(folder / "config", folder / "state", folder / "run")
        self.runtime = Runtime()
        self.board = Board(self.place.state / "status", lambda: 1e9)
        self.admitted = Admitted(self.place.state / "admitted")
        self.write("handler.toml", CONFIG)
        self.write("bindings/a.toml", BINDING)

    def write(self, path: str, text: str) -> None:
        file = self.place.config / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def summary(self) -> Any:
        path = self.place.state / "status/summary.json"
        return orjson.loads(path.read_bytes()) if path.exists() else {}

    def synced(self) -> tuple[str, str, str]:
        """The source's condition in the summary: status, reason, message."""
        one = (self.summary().get("conditions") or [{}])[0]
        return one.get("status", ""), one.get("reason", ""), one.get("message", "")

    def objects(self) -> set[str]:
        return {f"{one['kind']}/{one['name']}" for one in self.summary().get("objects", ())}

    async def until(self, holds: Callable[[], bool]) -> None:
        with anyio.fail_after(30):
            while not holds():
                await anyio.sleep(0.02)

    def live(self, story: Callable[[Controller], Awaitable[None]]) -> None:
        """Run the controller while the story is told."""

        async def listen() -> asyncio.Server:
            return await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)

        async def main(mine: Lock) -> None:
            runtime = cast("Any", self.runtime)
            journal = Journal(self.place.state, lambda: 1e9)
            looker = Looker(self.place, self.admitted)
            retained = Retained(self.place.state / "retained.json")
            demand = lambda admission, binding: Demand()  # noqa: E731
            bad = Bad(self.place.state / "bad.json", lambda: "2026-11-30T00:00:00Z")
            rooms = (looker, runtime, runtime, runtime, self.board, journal, retained, bad, mine)
            parts = Parts(*rooms, HarnessDrift(self.place.state), demand)
            frame = Summary(configuration=str(self.place.config), controller={})
            controller = Controller(parts, Withdrawn(runtime), frame, clock=asyncio.get_running_loop().time)
            stop = anyio.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(controller.run, stop, listen)
                await self.until(lambda: self.synced()[0] == "True")
                await story(controller)
                stop.set()

        with held(self.place.state) as mine:
            asyncio.run(main(mine))


@pytest.fixture
def made(tmp_path: Path) -> Iterator[House]:
    yield House(tmp_path)


@pytest.mark.slow
def test_a_status_that_cannot_be_drawn_is_logged_and_ends_nothing(
    made: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(controller: Controller) -> None:
        whole = made.board.update

        def broken(changed: object, gone: object) -> int:
            monkeypatch.setattr(made.board, "update", whole)
            raise TypeError("a fault of ours")

        monkeypatch.setattr(made.board, "update", broken)
        made.write("bindings/b.toml", BINDING)
        await made.until(lambda: "binding/b" in made.objects())

    with caplog.at_level(logging.ERROR):
        made.live(story)
    assert "a fault of ours" in caplog.text


@pytest.mark.slow
def test_a_status_that_could_not_be_written_is_written_by_a_later_look_though_nothing_changed(
    made: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = atomic.write

    def full(path: Path, data: bytes, *, durable: bool = True) -> bool:
        if "status" in path.parts:
            raise OSError(errno.ENOSPC, "No space left on device")
        return whole(path, data, durable=durable)

    async def story(controller: Controller) -> None:
        monkeypatch.setattr(atomic, "write", full)
        made.write("bindings/b.toml", BINDING)
        await made.until(lambda: "No space left" in made.board.fault)
        looks = controller.looks
        await made.until(lambda: controller.looks > looks + 3)  # whatever followed was said by now
        monkeypatch.setattr(atomic, "write", whole)
        await made.until(lambda: "binding/b" in made.objects())
        assert made.board.fault == ""

    made.live(story)


@pytest.mark.slow
def test_a_folder_that_is_empty_after_a_restart_ends_nothing(made: House) -> None:
    async def served(controller: Controller) -> None:
        whole = {"binding/a", "config/handler", "connector/ocr-tesseract"}
        await made.until(lambda: made.objects() == whole)  # the condition may be told before they are

    made.live(served)
    made.place.config.rename(made.place.config.with_name("away"))
    made.place.config.mkdir()

    async def empty(controller: Controller) -> None:
        await made.until(lambda: made.synced()[1] == "SourceUnavailable")
        assert "binding/a" in made.objects()
        made.write("handler.toml", CONFIG)
        await made.until(lambda: made.synced()[1] == "PruneBlocked")
        assert "binding/a" in made.objects()
        await controller.now(explicit=True, prune_all=True)
        await made.until(lambda: made.objects() == {"config/handler"})

    made.live(empty)


def test_refused_settings_leave_the_last_good_ones_in_force(made: House) -> None:
    made.write("handler.toml", CONFIG + 'mode = "manual"\n')
    admitted = Looker(made.place, made.admitted)
    admitted.first()
    admitted.look(None)
    made.write("handler.toml", "[reconcile\n")
    made.write("bindings/b.toml", BINDING)
    refused = admitted.look(None)
    assert isinstance(refused, Look)
    assert settings_in_force(refused.admission).reconcile.scan_seconds == 0.1
    made.write("bindings/c.toml", BINDING)
    waits = admitted.look(())
    assert isinstance(waits, Look)
    assert waits.waits


def test_a_folder_that_cannot_be_watched_is_said_and_scanned(
    made: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> object:
        raise OSError(errno.ENOSPC, "no inotify watch is left")

    async def story(controller: Controller) -> None:
        await made.until(lambda: made.synced()[:2] == ("True", "WatchDegraded"))
        assert "no inotify watch is left" in made.synced()[2]
        made.write("bindings/b.toml", BINDING)
        await made.until(lambda: "binding/b" in made.objects())

    monkeypatch.setattr(inotify, "Watches", full)
    made.live(story)


@pytest.mark.slow
def test_a_lock_that_a_dead_git_left_is_passed_and_said(made: House) -> None:
    (made.place.config / ".git").mkdir()
    made.write(".git/HEAD", "ref: refs/heads/main\n")
    made.write(".git/index.lock", "")
    os.utime(made.place.config / ".git/index.lock", (1, 1))

    async def story(controller: Controller) -> None:
        await made.until(lambda: "delete it" in made.synced()[2])

    made.live(story)


@pytest.mark.slow
def test_what_is_refused_and_what_is_so_no_more_are_events(made: House) -> None:
    def heard() -> list[tuple[str, str]]:
        lines = (made.place.state / "events.jsonl").read_bytes().splitlines()
        return [(one["object"], one["reason"]) for one in map(orjson.loads, lines)]

    async def story(controller: Controller) -> None:
        made.write("bindings/a.toml", "conector = 1")
        await made.until(lambda: ("binding/a", "UnknownField") in heard())
        made.write("bindings/a.toml", BINDING)
        await made.until(lambda: ("binding/a", "Admitted") in heard())
        assert ("configuration", "ReconcileSuccess") in heard()

    made.live(story)


@pytest.mark.slow
def test_what_flapped_is_settled_when_its_wait_is_over_without_another_word(made: House) -> None:
    """The next scan would come in an hour: the end of the wait is an occasion of its own."""
    made.write("handler.toml", CONFIG.replace("0.1", "3600"))

    def condition(kind: str) -> dict[str, str]:
        status = orjson.loads((made.place.state / "status/binding/a.json").read_bytes())
        return next((one for one in status["conditions"] if one["type"] == kind), {})

    def described() -> str:
        status = orjson.loads((made.place.state / "status/binding/a.json").read_bytes())
        return str(status["declared"]["description"])

    async def story(controller: Controller) -> None:
        turns = 0

        def fight() -> bool:
            nonlocal turns
            turns += 1
            made.write("bindings/a.toml", f'{BINDING}description = "{"left" if turns % 2 else "right"}"\n')
            return condition("Flapping").get("status") == "True"

        await made.until(fight)
        made.write("bindings/a.toml", BINDING + 'description = "the end"\n')
        await made.until(lambda: condition("Synced").get("reason") == "Flapping")
        assert described() != "the end"
        await made.until(lambda: described() == "the end")
        assert condition("Synced")["status"] == "True"
        events = (made.place.state / "events.jsonl").read_text()
        assert '"object":"binding/a","severity":"Warning","reason":"Flapping"' in events

    made.live(story)


@pytest.mark.slow
def test_while_a_removal_is_blocked_the_timed_scans_write_nothing(made: House) -> None:
    made.write("bindings/b.toml", BINDING)

    def written() -> dict[str, int]:
        files = [path for path in made.place.state.rglob("*") if path.is_file()]
        return {str(path): path.stat().st_mtime_ns for path in files}

    async def story(controller: Controller) -> None:
        await made.until(lambda: "binding/b" in made.objects())
        for name in "ab":
            made.place.config.joinpath(f"bindings/{name}.toml").unlink()
        await made.until(lambda: made.synced()[1] == "PruneBlocked")
        decided = controller.look
        assert decided is not None
        await made.until(lambda: '"PruneBlocked"' in (made.place.state / "events.jsonl").read_text())
        await controller.speak()
        controller.parts.journal.flush()
        before, looks = written(), 0
        while looks < 5:
            found = await controller.now()
            assert isinstance(found, Look)
            assert not found.changed
            looks += 1
        await controller.speak()
        assert written() == before
        assert controller.look is not None
        assert controller.look.admission is decided.admission

    made.live(story)
