"""Copies of calls, at the lane: bounded, given back, and nobody's business but the controller's."""

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from reconciler.control.appended import Appended
from reconciler.control.shadowing import Plan, Shadows, copied_tools
from reconciler.model import contract
from reconciler.model.calls import Lane, Refusal, Reply, Result, Sink
from reconciler.model.names import InstanceName
from reconciler.model.resources import Interface
from reconciler.router import files
from tests.admission import build

OWN, OTHER = InstanceName("own", "a" * 64), InstanceName("other", "b" * 64)
TOOL = "ocr_extract"
ANSWER = {"text": "a"}


class Fake:
    """A lane whose sinks are answered by hand."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.inbox = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self.outbox = -1
        self.folder = folder
        self.sent: list[tuple[Mapping[str, Any], Sink]] = []
        self.cancelled: list[int] = []
        self.holds = 0

    def send(self, tool: str, arguments: Mapping[str, Any], sink: Sink, max_reply_bytes: int) -> int:
        self.sent.append((arguments, sink))
        return len(self.sent)

    def cancel(self, number: int) -> None:
        self.cancelled.append(number)

    def hold(self) -> None:
        self.holds += 1

    def release(self) -> None:
        self.holds -= 1


class Heard:
    """A caller."""

    wants_progress = False
    caller = session = "clerk"
    scope = ()

    def __init__(self) -> None:
        self.replies: list[Reply] = []

    def progress(self, progress: float, total: float | None) -> None:
        raise AssertionError

    def done(self, reply: Reply) -> None:
        self.replies.append(reply)


def tools(**more: Any) -> Any:
    spec = Interface.model_validate(
        {
            "apiVersion": "handler.interface/v1", "name": "ocr", "version": 1, "description": "x",
            "errors": {"too_large": "x"}, **more,
        }
    )  # fmt: skip
    definition = {
        **build.tool(TOOL),
        "outputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
    }
    definition["inputSchema"] = {
        "type": "object",
        "properties": {"path": {"type": "string", "format": "handler-file"}},
    }
    return contract.compiled(spec, orjson.dumps([definition]))


class World:
    def __init__(self, folder: Path) -> None:
        self.time = 0.0
        self.shadows = Shadows(folder / "state", lambda: 0.0, lambda: self.time)
        self.own, self.other = Fake(folder / "own"), Fake(folder / "other")
        self.shadows.instance = lambda binding: OTHER
        self.shadows.opening = lambda instance, ready: ready(self.other)
        file = folder / "state" / "shadow" / "own.jsonl"
        self.plan = Plan("own", "other", Appended(file, file.with_suffix(".1.jsonl"), 2**20))
        self.plan.tools = copied_tools([tools()])
        self.shadows.plans["own"] = self.plan

    def lane(self) -> Lane:
        return self.shadows.over(OWN, self.own)

    def call(self, **arguments: Any) -> tuple[Lane, Heard, Sink]:
        lane, heard = self.lane(), Heard()
        lane.send(TOOL, arguments, heard, 1000)
        return lane, heard, self.own.sent[-1][1]

    def file(self, name: str, data: bytes = b"scan") -> dict[str, Any]:
        (self.own.folder / name).write_bytes(data)
        return {"name": "a.pdf", "mediaType": "application/pdf", "size": len(data), "blob": name}


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not happened():
            await asyncio.sleep(0.001)


def run(tmp_path: Path, story: Any) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    made = World(tmp_path)

    async def whole() -> None:
        await story(made)
        await made.shadows.close()

    asyncio.run(whole())
    assert made.own.holds == made.other.holds == 0
    for lane in (made.own, made.other):
        os.close(lane.inbox)
    assert len(os.listdir("/proc/self/fd")) <= before, "no descriptor is left"  # noqa: PTH208


def test_the_caller_hears_first_and_the_files_outlive_the_call(tmp_path: Path) -> None:
    async def story(made: World) -> None:
        _, heard, sink = made.call(path=made.file("x.pdf"))
        assert not made.other.sent
        (made.own.folder / "x.pdf").unlink()  # the router gives back what it handed over
        sink.done(Result(ANSWER, {}))
        assert heard.replies == [Result(ANSWER, {})]
        assert not made.other.sent, "nothing is sent within the caller's turn"
        await until(lambda: bool(made.other.sent))
        arguments, copy = made.other.sent[0]
        assert (made.other.folder / arguments["path"]["blob"]).read_bytes() == b"scan"
        copy.done(Result({"text": "b"}, {}))
        await until(lambda: made.plan.counts["different"] == 1)
        assert not list(made.other.folder.iterdir())

    run(tmp_path, story)


def test_a_call_that_is_given_up_is_not_copied(tmp_path: Path) -> None:
    async def story(made: World) -> None:
        lane, _, _ = made.call(path=made.file("x.pdf"))
        lane.cancel(1)
        assert made.own.cancelled == [1]
        assert not made.plan.held

    run(tmp_path, story)


def test_more_than_a_few_are_dropped_and_calls_are_sampled(tmp_path: Path) -> None:
    async def story(made: World) -> None:
        calls = [made.call(path=made.file(f"{number}.pdf")) for number in range(7)]
        assert (made.plan.counts["dropped"], len(made.plan.held)) == (2, 5)
        for _, heard, sink in calls:
            sink.done(Refusal("unavailable"))  # there is nothing to compare with
            assert heard.replies
        assert not made.plan.held
        for _ in range(5):
            made.call()[2].done(Refusal("unavailable"))
        assert made.plan.counts["not_sampled"] == 2
        made.time += 2
        made.call()[2].done(Refusal("unavailable"))
        assert made.plan.counts["not_sampled"] == 2

    run(tmp_path, story)


@pytest.mark.parametrize(
    "large", [{"path": {"size": 2**25, "blob": "x"}}, {"words": "x" * 2**21}, {"n": [0] * 20_000}]
)
def test_what_is_too_much_is_left_out(tmp_path: Path, large: dict[str, Any]) -> None:
    async def story(made: World) -> None:
        made.call(**large)[2].done(Result(ANSWER, {}))
        assert (made.plan.counts["left_out"], len(made.plan.held)) == (1, 0)

    run(tmp_path, story)


def test_a_shadow_that_cannot_be_had_or_breaks_is_counted_and_no_more(tmp_path: Path) -> None:
    async def story(made: World) -> None:
        made.shadows.opening = lambda instance, ready: ready(Refusal("unavailable", "suspended"))
        made.call()[2].done(Result(ANSWER, {}))
        await until(lambda: made.plan.counts["unanswered"] == 1)

        def broken(instance: InstanceName, ready: object) -> None:
            raise RuntimeError

        made.shadows.opening = broken
        _, heard, sink = made.call()
        sink.done(Result(ANSWER, {}))
        assert heard.replies
        await until(lambda: made.plan.counts["failed"] == 1)

    run(tmp_path, story)


def test_a_copy_that_is_asked_when_the_controller_ends_is_given_up(tmp_path: Path) -> None:
    async def story(made: World) -> None:
        made.call(path=made.file("x.pdf"))[2].done(Result(ANSWER, {}))
        made.call(path=made.file("y.pdf"))[2].done(Result(ANSWER, {}))
        await until(lambda: bool(made.other.sent))
        await made.shadows.close()
        assert made.other.cancelled == [1]

    run(tmp_path, story)


def test_a_shadow_that_is_taken_away_closes_no_file_that_is_still_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the number of a closed descriptor is soon another file's, and the copy goes there."""
    begun, go_on, seen, hand_in = threading.Event(), threading.Event(), [], files.hand_in

    def slow(opened: files.Opened, inbox: int, *words: Any, **more: Any) -> files.Blob:
        begun.set()
        go_on.wait(30)
        seen.append((os.fstat(opened.descriptor).st_size, os.path.samestat(os.fstat(inbox), expected)))
        return hand_in(opened, inbox, *words, **more)

    monkeypatch.setattr(files, "hand_in", slow)

    async def story(made: World) -> None:
        nonlocal expected
        expected = os.fstat(made.other.inbox)
        _, _, sink = made.call(path=made.file("x.pdf"))
        sink.done(Result(ANSWER, {}))
        await until(begun.is_set)
        (task := made.plan.task).cancel()  # type: ignore[union-attr]
        await asyncio.sleep(0.01)
        assert not task.done()  # type: ignore[union-attr]
        go_on.set()
        await until(lambda: made.plan.task is None)
        assert seen == [(4, True)]
        assert not any(made.other.folder.iterdir()), "what was handed over is given back"
        assert not made.other.sent

    expected = os.stat_result(range(10))
    run(tmp_path, story)


@pytest.mark.parametrize("effect", ["local", "paid", "external"])
def test_a_tool_with_an_effect_is_never_asked_twice(effect: str) -> None:
    operations = {TOOL: {"effect": effect}}
    assert TOOL in copied_tools([tools()])
    assert not copied_tools([tools(operations=operations)])
    assert not copied_tools([tools(), tools(operations=operations)]), "nor where one version has none"
