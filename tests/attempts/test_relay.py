"""The relay and the ledger's one writer, on a real ledger and a far end that does as it is told."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.attempts import relay as relaying
from reconciler.attempts.happenings import Accepted, Failed, Lost, NotSent, Refused, Seen, Stopped, Submit
from reconciler.attempts.ledger import LEASE_S, Ledger, OvertakenError
from reconciler.attempts.reconciling import (
    By,
    Expired,
    FarEnd,
    Finished,
    Found,
    NoPermissionError,
    NotFound,
    Sent,
    Unclear,
)
from reconciler.attempts.records import Ack, Attempt, Idempotency, State
from reconciler.attempts.relay import Relay
from reconciler.attempts.store import UnusableError
from reconciler.attempts.writing import Writing
from tests.attempts.wishes import NOW, new
from tests.kit import ledgers
from tests.kit.crash import Clock

pytestmark = pytest.mark.usefixtures("engine")


@dataclass
class Desk:
    """A far end. ``says`` is what lookups give, in turn; the last one for ever."""

    facts: FarEnd | None = field(default_factory=lambda: FarEnd(frozenset({"job-id"})))
    says: list[Found] = field(default_factory=lambda: [Finished(b"film")])
    sends: Sent = field(default_factory=lambda: Accepted("job-1"))
    permits: str | None = "d"
    film: Iterable[bytes] | Expired | Unclear = (b"fi", b"lm")
    asked: list[str] = field(default_factory=list)
    breaks: frozenset[str] = frozenset()  # input digests of attempts that break whoever tends them
    hangs: bool = False
    slow: bool = False  # what is sent is done, and not answered in time

    def far_end(self, one: Attempt) -> FarEnd | None:
        if one.request.input_digest in self.breaks:
            raise KeyError("a broken profile")
        return self.facts

    async def permit(self, one: Attempt) -> str:
        if self.permits is None:
            raise NoPermissionError("the policy says no")
        return ""

    async def submit(self, one: Attempt) -> Sent:
        self.asked.append("submit")
        if self.slow:
            await asyncio.Event().wait()
        return self.sends

    async def lookup(self, one: Attempt, by: By) -> Found:
        self.asked.append(by)
        if self.hangs:
            await asyncio.Event().wait()
        return self.says.pop(0) if len(self.says) > 1 else self.says[0]

    async def cancel(self, one: Attempt) -> Ack:
        self.asked.append("cancel")
        return "requested"

    async def fetch(self, one: Attempt) -> Iterable[bytes] | Expired | Unclear:
        return self.film


@dataclass
class House:
    ledger: Ledger
    writing: Writing
    clock: Clock
    desk: Desk
    relay: Relay

    async def job(self, number: int = 1, *happenings: object, **fields: object) -> Attempt:
        """A job that was sent, and to which this happened."""
        wish = new(number, kind="job", grade="wire", deadline=NOW + 3600, **fields)

        def make(one: Ledger) -> Attempt:
            made = one.prepare(wish, self.clock())
            return one.apply(made.attempt, self.clock(), Submit(), *happenings)  # type: ignore[arg-type]

        return await self.writing.run(make)

    async def look(self, times: int = 1) -> None:
        for _ in range(times):
            self.clock.now += 100
            await self.relay.look()

    async def now(self, one: Attempt) -> Attempt:
        found = await self.writing.run(lambda ledger: ledger.get(one.id))
        assert found is not None
        return found


def _in_a_house(folder: Path, story: Callable[[House], Awaitable[None]], desk: Desk | None = None) -> None:
    async def live() -> None:
        ledger, clock, far = ledgers.opened(folder), Clock(NOW), desk or Desk()
        writing = Writing(ledger, clock)
        relay = Relay(writing, far, "relay", clock=clock, chance=lambda: 0.5)
        try:
            await story(House(ledger, writing, clock, far, relay))
        finally:
            await writing.close()

    asyncio.run(live())


def test_report_11_a_job_whose_caller_left_is_finished_and_its_result_kept(tmp_path: Path) -> None:
    """turnstone#951: the client had timed out, the run finished, and the result was lost."""

    async def story(house: House) -> None:
        one = await house.job(1, Accepted("job-1"))
        house.desk.says = [Seen("queued", 0.5), Finished()]
        await house.look(2)
        done = await house.now(one)
        assert (done.state, done.ended.result_bytes) == (State.SUCCEEDED, 4)
        assert house.ledger.papers.read("results", done.ended.result_ref) == b"film"
        assert [e.what for e in house.ledger.history(one.id)][-2:] == ["Seen", "Succeeded"]

    _in_a_house(tmp_path, story)


def test_report_6_what_may_have_been_sent_is_not_dispatched_again(tmp_path: Path) -> None:
    """tracecat#3266, dust#29171: a lost heartbeat led to a second dispatch."""

    async def story(house: House) -> None:
        one = await house.job()
        house.desk.facts = FarEnd()
        await house.look(5)
        lost = await house.now(one)
        assert (lost.state, lost.parked, lost.transmissions) == (State.INDETERMINATE, True, 1)
        assert lost.ended.code == "outcome_unknown"
        assert house.desk.asked == []

    _in_a_house(tmp_path, story)


@pytest.mark.parametrize(
    ("said", "state"),
    [
        (Expired("its status"), State.INDETERMINATE),
        (Unclear("its status 'NOT_START' is not known"), State.RUNNING),
        (Failed("unavailable", "its status", "happened"), State.FAILED),
        (Failed("unavailable", "who ran it is gone", "unknown"), State.INDETERMINATE),
    ],
)
def test_report_10_a_status_that_nobody_knows_is_neither_done_nor_asked_for_ever(
    tmp_path: Path, said: Found, state: State
) -> None:
    """ArcReel#651: `expired` was unknown to the poll loop, which spun to its timeout."""

    async def story(house: House) -> None:
        one = await house.job(1, Accepted("job-1"), Seen("running"))
        house.desk.says = [said]
        await house.look(3)
        assert (await house.now(one)).state is state
        house.clock.now += 86_401
        await house.look()
        assert (await house.now(one)).parked is (state is not State.FAILED)
        asked = len(house.desk.asked)
        await house.look(20)
        assert len(house.desk.asked) - asked <= 1  # once a day from here

    _in_a_house(tmp_path, story)


def test_report_13_a_far_end_that_cannot_stop_this_very_job_is_not_asked_to(tmp_path: Path) -> None:
    """ComfyUI#2566: /interrupt stopped whatever ran."""

    async def story(house: House) -> None:
        one = await house.job(1, Accepted("job-1"))
        await house.writing.run(lambda ledger: ledger.ask_cancel(one.id, "max", house.clock()))
        house.desk.says = [Seen("running")]
        await house.look(2)
        asked = await house.now(one)
        assert (asked.state, asked.cancel.by) == (State.RUNNING, "max")
        assert "cancel" not in house.desk.asked
        house.desk.facts = FarEnd(frozenset({"job-id"}), can_cancel=True)
        house.desk.says = [Stopped("its status says so")]
        await house.look()
        assert (await house.now(one)).state is State.CANCELLED
        assert house.desk.asked.count("cancel") == 1

    _in_a_house(tmp_path, story)


def test_what_was_done_before_the_wish_to_cancel_arrived_is_done(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        one = await house.job(1, Accepted("job-1"))
        await house.writing.run(lambda ledger: ledger.ask_cancel(one.id, "max", house.clock()))
        house.desk.facts = FarEnd(frozenset({"job-id"}), can_cancel=True)
        await house.look()
        assert (await house.now(one)).state is State.SUCCEEDED

    _in_a_house(tmp_path, story)


def test_one_bad_row_and_one_that_hangs_stop_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relaying, "ASK_S", 0.05)

    async def story(house: House) -> None:
        heard: list[str] = []
        house.relay.trouble = lambda _one, error: heard.append(type(error).__name__)
        bad = await house.job(1, Accepted("job-1"))
        good = await house.job(2, Accepted("job-2"))
        house.desk.breaks = frozenset({bad.request.input_digest})
        await house.look()
        assert (await house.now(good)).state is State.SUCCEEDED
        assert (await house.now(bad)).state is State.ACCEPTED
        assert (await house.now(bad)).checks == 1
        assert heard == ["KeyError"]
        house.desk.breaks, house.desk.hangs = frozenset(), True
        await house.look()
        assert (await house.now(bad)).checks == 2

    _in_a_house(tmp_path, story)


@pytest.mark.parametrize(
    ("sends", "permits", "state", "code"),
    [
        (Accepted("job-1"), "d", State.ACCEPTED, ""),
        (Finished(b"at once"), "d", State.SUCCEEDED, ""),
        (NotSent("refused"), "d", State.FAILED, "unavailable"),
        (Refused("limit"), "d", State.FAILED, "limit"),
        (Failed("limit", "x", "happened"), "d", State.FAILED, "limit"),
        (Lost("no answer"), "d", State.INDETERMINATE, "outcome_unknown"),
        (Accepted("job-1"), None, State.FAILED, "refused"),
    ],
)
def test_what_was_prepared_and_never_sent_is_sent_once_if_it_may_be(
    tmp_path: Path, sends: Sent, permits: str | None, state: State, code: str
) -> None:
    async def story(house: House) -> None:
        house.desk.sends, house.desk.permits = sends, permits
        wish = new(1, kind="job", grade="wire")
        one = (await house.writing.run(lambda ledger: ledger.prepare(wish, NOW))).attempt
        await house.look()
        moved = await house.now(one)
        assert (moved.state, moved.ended.code) == (state, code)
        assert house.desk.asked == (["submit"] if permits else [])

    _in_a_house(tmp_path, story)


@pytest.mark.parametrize("knows", [True, False])
def test_reports_1_to_3_a_far_end_that_is_slow_or_busy_is_sent_to_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, knows: bool
) -> None:
    """litellm#850, changedetection.io#4384, aspire#4631: a layer below, or a policy, sent it again."""
    monkeypatch.setattr(relaying, "_SEND_S", 0.05)

    async def story(house: House) -> None:
        house.desk.facts = FarEnd(frozenset({"job-id", "tag"})) if knows else FarEnd()
        house.desk.says, house.desk.slow = [Accepted("ticket-1"), Finished(b"ok")], True
        wish = new(1, kind="job", grade="wire")
        one = (await house.writing.run(lambda ledger: ledger.prepare(wish, NOW))).attempt
        await house.look(4)
        ended = await house.now(one)
        assert ended.state is (State.SUCCEEDED if knows else State.INDETERMINATE)
        assert (ended.transmissions, house.desk.asked.count("submit")) == (1, 1)
        house.desk.slow, house.desk.sends = False, Refused("limit", "429: too many")
        busy = new(2, kind="job", grade="wire")
        other = (await house.writing.run(lambda ledger: ledger.prepare(busy, house.clock()))).attempt
        await house.look(4)
        assert (await house.now(other)).transmissions == 1
        assert house.desk.asked.count("submit") == 2

    _in_a_house(tmp_path, story)


def test_what_a_connector_was_to_do_is_never_sent_by_the_relay(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        house.desk.facts = None
        unsent = (await house.writing.run(lambda one: one.prepare(new(1), NOW))).attempt
        sent = await house.job(2)
        sent = await house.writing.run(lambda one: one.apply(sent, NOW, Lost("x")))
        call = (await house.writing.run(lambda one: one.prepare(new(3), NOW))).attempt
        await house.writing.run(lambda one: one.apply(call, NOW, Submit()))
        await house.relay.look(orphans=True)
        assert (await house.now(unsent)).ended.effect == "none"
        assert (await house.now(unsent)).state is State.FAILED
        assert (await house.now(call)).parked
        assert house.desk.asked == []

    _in_a_house(tmp_path, story)


def test_a_key_is_shown_again_only_with_evidence_and_in_its_time(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        keyed = FarEnd(frozenset({"key"}), same_key_same_job=True, other_body_is_error=True)
        house.desk.says = [NotFound()]
        key = Idempotency("k", "client-key", NOW + 150)
        house.desk.facts = replace(keyed, other_body_is_error=False)
        first = await house.job(1, idempotency=key)
        await house.look()
        assert (await house.now(first)).transmissions == 1
        house.desk.facts = keyed
        second = await house.job(2, idempotency=key)
        await house.look()  # at +200: the far end has forgotten the key
        assert (await house.now(second)).transmissions == 1
        assert (await house.now(second)).state is State.INDETERMINATE
        third = await house.job(3, idempotency=replace(key, expires_at=0.0))
        await house.look()
        assert (await house.now(third)).transmissions == 2
        assert (await house.now(third)).provider.job_id == "job-1"

    _in_a_house(tmp_path, story)


@pytest.mark.parametrize("film", [Unclear("the line broke"), Expired(), (b"x" * 9,)])
def test_a_result_that_cannot_be_had_is_said_as_what_it_is(
    tmp_path: Path, film: Iterable[bytes] | Expired | Unclear
) -> None:
    async def story(house: House) -> None:
        house.desk.facts = FarEnd(frozenset({"job-id"}), max_result_bytes=8)
        house.desk.says, house.desk.film = [Finished()], film
        one = await house.job(1, Accepted("job-1"))
        await house.look()
        now = await house.now(one)
        match film:
            case Unclear():
                assert (now.state, now.checks) == (State.ACCEPTED, 1)
            case Expired():
                assert (now.state, now.parked) == (State.INDETERMINATE, True)
            case _:
                assert (now.state, now.ended.effect) == (State.FAILED, "happened")
        assert list(house.ledger.papers.listing("results")) == []

    _in_a_house(tmp_path, story)


def test_pieces_of_work_share_a_commit_and_one_that_fails_takes_nothing_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(house: House) -> None:
        commits, store = 0, house.ledger.store
        execute = type(store).transaction

        def counted(self: Any) -> AbstractContextManager[None]:
            nonlocal commits
            commits += not self._depth
            return execute(self)

        monkeypatch.setattr(type(store), "transaction", counted)
        gate = asyncio.Event()
        first = asyncio.create_task(house.writing.run(lambda one: one.prepare(new(0), NOW)))
        many = [house.writing.run(lambda one, n=n: one.prepare(new(n), NOW)) for n in range(1, 30)]
        stale = new(99)
        many.append(house.writing.run(lambda one: one.apply(stale, NOW, Submit())))
        gate.set()
        found = await asyncio.gather(first, *many, return_exceptions=True)
        assert isinstance(found[-1], OvertakenError)
        assert len(await house.writing.run(lambda one: one.listing())) == 30
        assert commits < 15

    _in_a_house(tmp_path, story)


def test_a_holder_whose_lease_was_taken_hears_of_it(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        one, lost = await house.job(1, lease_until=NOW + 1), asyncio.Event()
        house.writing.hold(one, lost.set)
        await house.writing.renew()
        assert not lost.is_set()
        assert (await house.now(one)).lease_until == NOW + LEASE_S
        await house.writing.run(lambda ledger: ledger.claim("other", NOW + LEASE_S + 1))
        await house.writing.renew()
        assert lost.is_set()

    _in_a_house(tmp_path, story)


def test_a_machine_that_slept_goes_on_with_what_was_under_way(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        one = await house.job(1, lease_until=NOW + LEASE_S)
        house.writing.hold(one, lambda: None)
        house.clock.now += 3600
        assert await house.relay.look() == 0
        done = await house.writing.run(lambda led: led.apply(one, house.clock(), Accepted("job-1")))
        assert (done.state, done.fence) == (State.ACCEPTED, 1)

    _in_a_house(tmp_path, story)


def test_two_relays_on_one_ledger_send_each_job_once(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        for number in range(20):
            wish = new(number, kind="job", grade="wire")
            await house.writing.run(lambda led, wish=wish: led.prepare(wish, NOW))
        other = Writing(ledgers.opened(tmp_path), house.clock)
        second = Relay(other, house.desk, "second", clock=house.clock, chance=lambda: 0.5)
        house.clock.now += 100
        taken = await asyncio.gather(house.relay.look(), second.look(), house.relay.look())
        assert sum(taken) == 20
        assert house.desk.asked.count("submit") == 20
        await other.close()

    _in_a_house(tmp_path, story)


def test_a_ledger_that_cannot_be_written_stops_no_relay(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        heard: list[Exception] = []
        house.relay.trouble = lambda _one, error: heard.append(error)
        one = await house.job(1, Accepted("job-1"))
        whole = house.ledger.apply

        def full(*_: object, **__: object) -> Attempt:
            raise UnusableError("cannot write to the ledger: database or disk is full")

        house.ledger.apply = full  # type: ignore[method-assign]
        await house.look()
        assert [type(error) for error in heard] == [UnusableError]
        house.ledger.apply = whole  # type: ignore[method-assign]
        await house.look()
        assert (await house.now(one)).state is State.SUCCEEDED

    _in_a_house(tmp_path, story)
