"""The lane to what is part of the product: the whole suite of ``fs/v1`` by it, and how its calls end."""

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tomli

from reconciler.builtin import lane as lanes
from reconciler.builtin.asking import Asked, Ended
from reconciler.builtin.lane import BuiltinLane
from reconciler.conformance import cases
from reconciler.conformance.cases import Case, Outcome
from reconciler.control.dispatch import Dispatcher
from reconciler.model.calls import Lane, Refusal, Reply, Result
from reconciler.model.names import InstanceName
from reconciler.model.routes import ScopeFolder
from tests.builtin.desk import VERSION, contract
from tests.kit import values

NAME = InstanceName("files", "ab" * 32)
RECIPE = replace(values.recipe(), runtime="builtin")


class Heard:
    """A sink: what a call came to."""

    wants_progress = False
    caller = "clerk"
    session = "s1"

    def __init__(self, *scope: ScopeFolder) -> None:
        self.scope = scope
        self.reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    def done(self, reply: Reply) -> None:
        assert not self.reply.done(), "told twice"
        self.reply.set_result(reply)


class Holds:
    """The supervisor, as far as a builtin lane knows it."""

    def __init__(self) -> None:
        self.count = 0
        self.asked = 0

    def hold(self, name: InstanceName) -> None:
        assert name == NAME
        self.count += 1
        self.asked += 1

    def release(self, name: InstanceName) -> None:
        self.count -= 1


def suite() -> tuple[Case, ...]:
    found, problems = cases.read(tomli.loads((VERSION / "conformance/cases.toml").read_text()), "cases.toml")
    assert not problems
    return found


def lay(folder: Path) -> ScopeFolder:
    for path in (VERSION / "conformance").rglob("*"):
        if path.is_file():
            target = folder / path.relative_to(VERSION / "conformance")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return ScopeFolder(str(folder), "write")


def test_every_case_of_the_suite_passes_those_that_write_included(tmp_path: Path) -> None:
    scope = lay(tmp_path)

    async def ask(case: Case, lane: BuiltinLane) -> Outcome:
        if contract().tools[case.tool].input_fault(case.input) is not None:
            return Outcome(None, "invalid_input", 0.0)
        heard = Heard(scope)
        lane.send(case.tool, case.input, heard, 0)
        reply = await asyncio.wait_for(heard.reply, 30)
        if isinstance(reply, Refusal):
            return Outcome(None, reply.code, 0.0)
        assert contract().tools[case.tool].output_fault(reply.structured) is None
        return Outcome(reply.structured, None, 0.0)

    async def run() -> dict[str, tuple[str, ...]]:
        holds = Holds()
        lane = BuiltinLane(NAME, holds)
        faults = {case.name: cases.judge(case, await ask(case, lane)) for case in suite()}
        assert (holds.count, holds.asked > 0) == (0, True)
        return faults

    assert {name: found for name, found in asyncio.run(run()).items() if found} == {}


def answering(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    monkeypatch.setattr(lanes, "_TOOLS", {"t": answer})


def test_a_cancelled_call_says_nothing_and_its_thread_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    began, cancelled, saw = threading.Event(), threading.Event(), threading.Event()

    def slow(arguments: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
        began.set()
        assert cancelled.wait(30)
        try:
            asked.go_on()
        except Ended:
            saw.set()
            raise
        return {}

    answering(monkeypatch, slow)

    async def run() -> None:
        holds, heard = Holds(), Heard()
        lane = BuiltinLane(NAME, holds)
        number = lane.send("t", {}, heard, 0)
        await asyncio.to_thread(began.wait, 30)
        assert (holds.count, lane.serves(number) is not None) == (1, True)
        lane.cancel(number)
        cancelled.set()
        await asyncio.to_thread(saw.wait, 30)
        while holds.count:
            await asyncio.sleep(0.005)
        assert not heard.reply.done()
        assert saw.is_set()

    asyncio.run(run())


def test_the_loop_goes_on_while_all_threads_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    free = threading.Event()

    def stuck(arguments: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
        free.wait(30)
        return {"ok": True}

    answering(monkeypatch, stuck)

    async def run() -> None:
        lane = BuiltinLane(NAME, Holds())
        many = [Heard() for _ in range(20)]
        for heard in many:
            lane.send("t", {}, heard, 0)
        for _ in range(100):
            await asyncio.sleep(0)
        free.set()
        replies = await asyncio.wait_for(asyncio.gather(*(heard.reply for heard in many)), 30)
        assert all(isinstance(reply, Result) for reply in replies)

    asyncio.run(run())


def test_a_folder_that_hangs_holds_up_the_calls_of_its_own_agent_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = threading.Event()

    def answer(arguments: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
        if arguments:
            free.wait(60)
        return {"ok": True}

    answering(monkeypatch, answer)

    async def run() -> None:
        lane = BuiltinLane(NAME, Holds())
        held = [Heard() for _ in range(10)]
        numbers = [lane.send("t", {"path": "hangs"}, heard, 0) for heard in held]
        other = Heard()
        other.caller = "maid"
        lane.send("t", {}, other, 0)
        assert isinstance(await asyncio.wait_for(other.reply, 30), Result)
        lane.cancel(numbers.pop())
        free.set()
        await asyncio.wait_for(asyncio.gather(*(one.reply for one in held[:-1])), 30)
        assert (lane._whose, lane._running, len(lane._waiting)) == ({}, {}, 0)

    asyncio.run(run())


def test_no_more_run_at_once_than_the_binding_says_and_one_given_up_while_waiting_never_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_once, most, began = 0, 0, []
    lock = threading.Lock()

    def counting(arguments: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
        nonlocal at_once, most
        with lock:
            began.append(arguments["n"])
            at_once += 1
            most = max(most, at_once)
        threading.Event().wait(0.01)
        with lock:
            at_once -= 1
        return {}

    answering(monkeypatch, counting)

    async def run() -> None:
        holds = Holds()
        lane = BuiltinLane(NAME, holds, 2)
        many = [Heard() for _ in range(10)]
        numbers = [lane.send("t", {"n": number}, heard, 0) for number, heard in enumerate(many)]
        lane.cancel(numbers[5])
        rest = [heard.reply for number, heard in enumerate(many) if number != 5]
        await asyncio.wait_for(asyncio.gather(*rest), 30)
        assert (holds.count, holds.asked) == (0, 10)

    asyncio.run(run())
    assert most <= 2
    assert sorted(began) == [0, 1, 2, 3, 4, 6, 7, 8, 9]


def failing(error: Exception) -> Any:
    def fail(arguments: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (Ended("not_text", "it holds NUL"), "not_text", "it holds NUL"),
        (OSError(5, "Input/output error", "/home/ada/secret"), "unavailable", "the machine refused it: EIO"),
        (RuntimeError("/home/ada/secret"), "unavailable", "a fault of the product's own"),
    ],
)
def test_whatever_a_tool_meets_ends_in_a_code_and_names_no_path(
    monkeypatch: pytest.MonkeyPatch, error: Exception, code: str, words: str
) -> None:
    answering(monkeypatch, failing(error))

    async def run() -> Reply:
        heard = Heard()
        BuiltinLane(NAME, Holds()).send("t", {}, heard, 0)
        return await asyncio.wait_for(heard.reply, 30)

    reply = asyncio.run(run())
    assert isinstance(reply, Refusal)
    assert reply.code == code
    assert words in reply.diagnostic
    assert "ada" not in reply.diagnostic


def test_a_builtin_instance_has_a_lane_at_once_and_never_asks_for_a_process() -> None:
    async def run() -> None:
        there: dict[InstanceName, Any] = {NAME: RECIPE}
        dispatcher = Dispatcher(Holds(), recipe=there.get)  # type: ignore[arg-type] - it has no `ready`
        came: list[Lane | Refusal] = []
        dispatcher.open_lane(NAME, came.append)
        (lane,) = came
        assert dispatcher.lane(NAME) is lane
        proofs: list[Refusal | None] = []
        dispatcher.prove(NAME, proofs.append)
        assert proofs == [None]
        dispatcher.leave(NAME)  # it has no process to leave
        assert dispatcher.lane(NAME) is lane
        other = InstanceName("others", "cd" * 32)
        del there[NAME]
        there[other] = RECIPE
        dispatcher.open_lane(other, came.append)
        assert dispatcher.lane(NAME) is None  # forgotten with its recipe
        heard = Heard()
        BuiltinLane(NAME, Holds()).send("no_such_tool", {}, heard, 0)
        reply = await asyncio.wait_for(heard.reply, 30)
        assert isinstance(reply, Refusal)
        assert reply.code == "unavailable"

    asyncio.run(run())
