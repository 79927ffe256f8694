"""The router's way to the ledger: what is kept, what is known already, and what happens on a bad disk."""

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from reconciler.attempts.ledger import Ledger
from reconciler.attempts.records import Attempt, State
from reconciler.control import effects
from reconciler.control.effects import LedgerEffects
from reconciler.model.calls import Refusal
from reconciler.model.contract import Contract, compiled
from reconciler.model.effects import Begun, Ending, Intent, Known
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.resources import Interface
from reconciler.model.settings import Config
from tests.router import stage

DONE = Ending("happened", structured=b'{"text":"ok"}')
LOST = Ending("unknown", "outcome_unknown", "it died")
NOTHING = Ending("none", "unavailable", "no way", was_sent=False)


def mail(effect: str) -> Contract:
    said = {
        "apiVersion": "handler.interface/v1", "name": "mail", "version": 1, "description": "Sends.",
        "operations": {"mail_send": {"effect": effect}}, "errors": {"outcome_unknown": "who knows"},
    }  # fmt: skip
    inputs = stage.closed(text=stage.TEXT, _request_key=stage.TEXT)
    tool = stage.tool("mail_send", inputs, stage.closed(text=stage.TEXT))
    return compiled(Interface.model_validate(said), orjson.dumps([tool]))


class Desk:
    def __init__(self, root: Path, effect: str = "external") -> None:
        self.effects = LedgerEffects(root, lambda: 1_800_000_000.0)
        self.route = stage.route(mail(effect))

    async def begin(self, session: str = "s1", **arguments: Any) -> Begun | Known | Refusal:
        heard: asyncio.Future[Begun | Known | Refusal] = asyncio.get_running_loop().create_future()
        tool = self.route.contract.tools["mail_send"]
        self.effects.begin(Intent("clerk", session, self.route, tool, arguments, (), 60.0), heard.set_result)
        return await asyncio.wait_for(heard, 30)

    async def settle(self, begun: Begun | Known | Refusal, ending: Ending) -> None:
        assert isinstance(begun, Begun)
        heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.effects.settle(begun.attempt, ending, lambda: heard.set_result(None))
        await asyncio.wait_for(heard, 30)


def played(root: Path, play: Callable[[Desk], Any], effect: str = "external") -> None:
    async def run() -> None:
        desk = Desk(root, effect)
        await desk.effects.start()
        try:
            await play(desk)
        finally:
            desk.effects._open.clear()
            desk.effects._quiet.set()
            await desk.effects.close()

    asyncio.run(run())


def rows(root: Path) -> list[Attempt]:
    ledger = Ledger.at(root)
    try:
        return ledger.listing()
    finally:
        ledger.close()


@pytest.mark.parametrize(
    ("ending", "state", "effect"),
    [
        (DONE, State.SUCCEEDED, "happened"),
        (LOST, State.INDETERMINATE, "unknown"),
        (NOTHING, State.FAILED, "none"),
        (Ending("none", "too_large", "it is"), State.FAILED, "none"),
        (Ending("happened", "outcome_unknown", "no place"), State.FAILED, "happened"),
    ],
)
def test_how_it_ended_is_how_the_ledger_has_it(
    tmp_path: Path, ending: Ending, state: State, effect: str
) -> None:
    async def play(desk: Desk) -> None:
        await desk.settle(await desk.begin(text="a secret word"), ending)

    played(tmp_path, play)
    (one,) = rows(tmp_path)
    assert (one.state, one.ended.effect, one.transmissions, one.kind) == (state, effect, 1, "call")
    assert (one.owner.agent, one.execution.binding, one.parked) == ("clerk", "mail-vendor", ending is LOST)
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"a secret word" not in path.read_bytes()


def test_nothing_is_made_before_there_is_an_effect(tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        assert not desk.effects.exists()

    played(tmp_path, play)
    assert list(tmp_path.iterdir()) == []


def test_what_is_unknown_is_not_begun_again_in_its_session(tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        await desk.settle(await desk.begin(text="x"), LOST)
        again = await desk.begin(text="x")
        assert isinstance(again, Refusal)
        assert again.code == "outcome_unknown"
        assert isinstance(await desk.begin(text="y"), Begun)
        assert isinstance(await desk.begin("s2", text="x"), Begun)

    played(tmp_path, play)


def test_what_is_unknown_on_this_machine_may_be_done_anew(tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        await desk.settle(await desk.begin(text="x"), LOST)
        assert isinstance(await desk.begin(text="x"), Begun)

    played(tmp_path, play, "local")


def test_a_request_key_is_one_wish_for_good(tmp_path: Path) -> None:
    async def first(desk: Desk) -> None:
        await desk.settle(await desk.begin(text="x", request_key="k"), NOTHING)
        begun = await desk.begin(text="x", request_key="k")  # nothing happened: it may be tried again
        await desk.settle(begun, DONE)
        other = await desk.begin(text="y", request_key="k")
        assert isinstance(other, Refusal)
        assert (other.code, other.diagnostic[:20]) == ("refused", "idempotency_conflict")

    async def later(desk: Desk) -> None:
        known = await desk.begin("s7", text="x", request_key="k")
        assert isinstance(known, Known)
        assert (known.code, known.structured) == ("ok", b'{"text":"ok"}')

    played(tmp_path, first)
    played(tmp_path, later)
    assert len(rows(tmp_path)) == 2


@pytest.mark.parametrize("ending", [DONE, LOST, NOTHING])
def test_the_same_key_of_another_session_waits_for_the_end_of_the_first(
    tmp_path: Path, ending: Ending
) -> None:
    async def play(desk: Desk) -> None:
        first = await desk.begin(text="x", request_key="k")
        others = [asyncio.create_task(desk.begin(f"s{n}", text="x", request_key="k")) for n in (2, 3)]
        await asyncio.sleep(0.2)
        assert not any(one.done() for one in others)
        await desk.settle(first, ending)
        if ending is NOTHING:  # so one of them does it, and the other waits for that
            done, (last,) = await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
            await desk.settle(done.pop().result(), DONE)
            others = [last]
        told = await asyncio.gather(*others)
        assert [one.code for one in told] == ["ok" if ending is not LOST else "outcome_unknown"] * len(others)

    played(tmp_path, play)
    assert sum(one.state is State.SUCCEEDED for one in rows(tmp_path)) == (ending is not LOST)


def test_who_waits_for_the_same_key_too_long_reads_that_it_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effects, "_PATIENT", 0.001)

    async def play(desk: Desk) -> None:
        await desk.begin(text="x", request_key="k")
        told = await desk.begin("s2", text="x", request_key="k")
        assert isinstance(told, Refusal)
        assert (told.code, "under way" in told.diagnostic) == ("outcome_unknown", True)
        assert not desk.effects._waiting  # nothing is left of who gave up

    played(tmp_path, play)


def test_what_a_dead_controller_left_is_unknown_at_once(tmp_path: Path) -> None:
    async def die(desk: Desk) -> None:
        await desk.begin(text="x")

    seen: list[dict[ObjectRef, tuple[int, int]]] = []

    async def start(desk: Desk) -> None:
        (one,) = rows(tmp_path)
        assert (one.state, one.parked) == (State.INDETERMINATE, True)
        changed = asyncio.Event()
        desk.effects.changed = changed.set
        await asyncio.wait_for(changed.wait(), 30)
        seen.append({ref: (one.open, one.indeterminate) for ref, one in desk.effects.jobs().items()})
        assert [family.name for family in desk.effects.families()] == ["handler_attempts"]

    played(tmp_path, die)
    assert rows(tmp_path)[0].state is State.SUBMITTING
    played(tmp_path, start)
    assert seen == [{ObjectRef(Kind.BINDING, "mail-vendor"): (1, 1)}]


def test_what_somebody_else_has_under_way_is_left_to_them(tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        begun = await desk.begin(text="x")
        guest = Desk(tmp_path)
        guest.effects = LedgerEffects(tmp_path, lambda: 1_800_000_000.0, owns=False)
        await guest.settle(await guest.begin("s2", text="y"), DONE)
        await guest.effects.close()
        await desk.settle(begun, DONE)

    played(tmp_path, play)
    assert [one.state for one in rows(tmp_path)] == [State.SUCCEEDED, State.SUCCEEDED]


def test_another_ledger_is_wanted_only_where_the_settings_say_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(desk: Desk) -> None:
        await desk.settle(await desk.begin(text="x"), DONE)
        desk.effects.ledgers.used = "postgresql://h@db/x"  # as remembered
        desk.effects.follow(Config())  # handler.toml is gone, which says nothing
        assert "names another one" not in caplog.text
        desk.effects.ledgers.settings = lambda: Config().ledger
        desk.effects._told = "postgresql://h@db/x"
        desk.effects.follow(Config())
        assert "names another one" in caplog.text

    played(tmp_path, play)


def test_a_ledger_that_cannot_be_used_sends_nothing(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(b"this is no ledger" * 100)

    async def play(desk: Desk) -> None:
        refused = await desk.begin(text="x")
        assert isinstance(refused, Refusal)
        assert refused.code == "unavailable"
        assert "nothing was sent" in refused.diagnostic

    played(tmp_path, play)


def test_an_end_that_cannot_be_written_is_told_and_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.control.effects._PATIENCE_S", 0.05)
    monkeypatch.setattr("reconciler.control.effects._AGAIN_S", 0.05)

    async def play(desk: Desk) -> None:
        begun = await desk.begin(text="x")
        lock = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        await desk.settle(begun, DONE)  # the agent does not wait for the lock
        assert rows_beside(lock) == "submitting"
        lock.execute("ROLLBACK")
        async with asyncio.timeout(60):
            while rows_beside(lock) != "succeeded":
                await asyncio.sleep(0.05)
        lock.close()

    played(tmp_path, play)


def rows_beside(base: sqlite3.Connection) -> str:
    found: str = base.execute("SELECT state FROM attempt").fetchone()[0]
    return found
