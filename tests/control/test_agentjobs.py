"""What an agent answered, as whoever called it reads it; what is kept for a command that works."""

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reconciler.attempts import parcels
from reconciler.control.agentjobs import AgentRunner, _answer, _Work
from reconciler.runtime.worker import Worker
from tests.attempts.wishes import new

MOST = 4_000_000  # bytes of an answer that the router passes on


@pytest.mark.parametrize("printed", [b"\0", b"\xff", b'"\n', "é".encode(), b"a"])
@pytest.mark.parametrize("output", [False, True])
def test_whatever_was_printed_makes_an_answer_that_is_passed_on(
    tmp_path: Path, printed: bytes, output: bool
) -> None:
    whole = printed * (900_001 // len(printed))
    path = tmp_path / "result"
    path.write_bytes(b"".join(_answer({"agent": "b", "output": output}, whole, "c")))
    said = parcels.opened(path).said
    assert len(path.read_bytes()) - (len(whole) if output else 0) < MOST
    assert len(said["text"]) <= 1_000_000
    assert said["bytes"] == len(whole)
    assert not said["isWhole"] or said["text"].encode() == whole or b"\xff" in whole
    assert said["text"]


def test_a_sign_that_is_cut_in_two_goes_and_one_that_is_broken_stays_seen(tmp_path: Path) -> None:
    path = tmp_path / "result"
    path.write_bytes(b"".join(_answer({"agent": "b", "output": True}, b"\xff" + "é".encode() * 3000, "")))
    said = parcels.opened(path).said
    assert said["text"] == "\ufffd" + "é" * 1999
    assert said["isWhole"] is False


class _Worker:
    """Ends when it is told to."""

    def __init__(self) -> None:
        self.is_over = asyncio.Event()

    async def end(self) -> None:
        self.is_over.set()


def test_a_command_that_has_answered_cannot_be_stopped_any_more() -> None:
    async def asked(*, has_answered: bool) -> str:
        made, one = AgentRunner(*cast(Any, (None, None, None, None))), new()
        work = made._works[one.id] = _Work("s", cast(Worker, _Worker()))
        if has_answered:
            work.ended.set()
        asking = asyncio.ensure_future(made.cancel(one))
        if not has_answered:
            await cast(Any, work.worker).is_over.wait()
            work.ended.set()
        return await asking

    assert asyncio.run(asked(has_answered=True)) == "refused"
    assert asyncio.run(asked(has_answered=False)) == "proved"


def test_nothing_is_kept_of_a_command_whose_end_a_person_said_while_it_worked() -> None:
    async def settled() -> None:
        made, one = AgentRunner(*cast(Any, (None, None, None, None))), new()
        worker = _Worker()
        made._works[one.id] = _Work("s", cast(Worker, worker))
        made.over(one)
        await asyncio.wait_for(worker.is_over.wait(), 30)
        assert not made._works

    asyncio.run(settled())


class _Chains:
    """One run, in a state that a cancel changes only where it is not over."""

    def __init__(self, state: str) -> None:
        self.run: dict[str, Any] | None = {"state": state, "session": "theirs", "text": "hi", "code": ""}

    async def cancel(self, run: str) -> None:
        if self.run is not None and self.run["state"] == "running":
            self.run["state"] = "cancelled"

    def seen(self, run: str) -> dict[str, Any] | None:
        return self.run


@pytest.mark.parametrize(
    ("state", "ack"), [("running", "proved"), ("completed", "refused"), ("failed", "refused")]
)
def test_a_chain_that_is_over_is_not_said_to_have_been_stopped(state: str, ack: str) -> None:
    made = AgentRunner(*cast(Any, (None, None, None, None)))
    made.chains = cast(Any, _Chains(state))
    assert asyncio.run(made.cancel(replace(new(), operation="chain"))) == ack


def test_an_answer_has_its_class_when_its_run_is_kept_no_more(tmp_path: Path) -> None:
    marked, chains, classes = [], _Chains("completed"), {"theirs": "secret"}
    sealed, result = tmp_path / "sealed", tmp_path / "results"
    sealed.write_bytes(b"".join(parcels.packed({"agent": "b", "output": True}, {})))

    class Jobs:
        async def writing(self) -> Any:
            return SimpleNamespace(papers=SimpleNamespace(path=lambda kind, name: tmp_path / kind))

    class Callees:
        def class_of(self, session: str, agent: str) -> str:
            return classes.get(session, "")

        def mark(self, session: str, class_name: str) -> None:
            marked.append((session, class_name))

    async def collected() -> None:
        made = AgentRunner(*cast(Any, (Jobs(), Callees(), None, None)))
        made.chains = cast(Any, chains)
        one = replace(new(), operation="chain")
        result.write_bytes(b"".join(cast(Any, await made.fetch(one))))
        chains.run = None
        classes.clear()
        await made.collected(one, "ours")

    asyncio.run(collected())
    assert marked == [
        ("ours", "secret"),
        ("ours", ""),
    ]  # and what its agent is held to now, where that is more
