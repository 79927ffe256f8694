"""What goes wrong while a policy is asked: several at once, slow people, clocks, files that are damaged."""

import asyncio
import json
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.control import approvals
from reconciler.control.approvals import Approvals, Refused, stored
from reconciler.control.egressbook import Book
from reconciler.control.permitting import Permitting, Sending
from reconciler.control.policing import places
from reconciler.control.sending import NotSent
from reconciler.egress.permits import Permits
from reconciler.egress.policy import Sum
from reconciler.model.calls import Refusal, Result
from reconciler.model.entries import Policed
from reconciler.model.hosts import Target
from reconciler.model.routes import ScopeFolder
from reconciler.router.entering import LetIn
from tests.control.test_policing import ALLOW, ASK, World, recipe, told
from tests.control.test_sending import sealed_of

DAY_S = 86_400.0
BUDGET = '[[rule]]\nid = "asks"\neffect = "ask"\nask = { timeoutSeconds = 30 }\n'
BUDGET += 'cost = { perCall = "EUR 1", perDay = "EUR 1" }\n'


def test_one_yes_lets_one_of_two_equal_requests_go(tmp_path: Path) -> None:
    async def story() -> None:
        made = World(tmp_path)
        made.follow(ASK)
        entry = await made.enter(recipe())
        assert isinstance(entry, str)
        both = [asyncio.create_task(made.request(recipe(), entry)) for _ in range(2)]
        number = await made.waiting()
        await asyncio.sleep(0)
        made.policing.approvals.answer(number, "ada", agreed=True)
        assert sorted(one.go for one in await asyncio.gather(*both)) == [False, True]

    told(story)


def test_an_answer_is_taken_for_one_question_alone(tmp_path: Path) -> None:
    async def story() -> None:
        book = Approvals(tmp_path, lambda: 100.0)
        for number in ("ab01", "ab02"):
            shape = {"id": number, "mark": number, "at": 1, "until": 900, "about": {}}
            (tmp_path / "approvals").mkdir(exist_ok=True)
            (tmp_path / "approvals" / f"{number}.json").write_text(json.dumps(shape))
        book = Approvals(tmp_path, lambda: 100.0)
        with pytest.raises(Refused, match="2 approvals begin with 'ab'"):
            book.answer("ab", "ada", agreed=True)
        with pytest.raises(Refused, match="no approval ''"):
            book.answer("", "ada", agreed=True)
        assert book.answer("ab02", "ada", agreed=True).id == "ab02"

    told(story)


def test_an_agent_that_asks_on_and_on_fills_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approvals, "_MOST_KEPT", 3)

    async def story() -> None:
        now = 100.0
        book = Approvals(tmp_path, lambda: now)
        for number in range(6):
            now += 1
            asking = asyncio.create_task(book.asked(f"m{number}", {}, until=now + 50, wait_s=30))
            await asyncio.sleep(0)
            (waits,) = (one for one in book.listed() if one.state == "waiting")
            book.answer(waits.id, "ada", agreed=False)
            assert (await asking).state == "denied"
        assert [one.mark for one in book.listed()] == ["m5", "m4", "m3"]
        assert len(list((tmp_path / "approvals").iterdir())) == 3

    told(story)


def test_what_people_say_reaches_the_disk_and_the_loop_does_not_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, waited, fsync = threading.get_ident(), [], os.fsync

    def synced(number: int) -> None:
        waited.append(threading.get_ident())
        fsync(number)

    monkeypatch.setattr(os, "fsync", synced)

    async def story() -> None:
        book = Approvals(tmp_path, lambda: 100.0)
        asking = asyncio.create_task(book.asked("m", {}, until=900.0, wait_s=30))
        await asyncio.sleep(0)
        (one,) = book.listed()
        await book.kept(book.answer(one.id, "ada", agreed=True))
        assert len(waited) >= 2  # the file and its name, before the person hears of it
        assert (await asking).state == "used"
        book.answer(book.begun("n", {}, 900.0).id, "ada", agreed=True)
        before = len(waited)
        assert await book.consent("n") is not None
        assert len(waited) >= before + 2
        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", lambda number: os.close(-1))
            book.answer(book.begun("o", {}, 900.0).id, "ada", agreed=True)
            with pytest.raises(OSError, match="Bad file"):
                await book.consent("o")
        assert await book.consent("o") is None  # used up: what may have gone is never let go twice

    told(story)
    assert here not in waited


@pytest.mark.parametrize("damage", [{"until": "soon"}, {"at": None}, {"by": 7}, {"about": []}, {"at": True}])
def test_a_damaged_question_is_passed_over(tmp_path: Path, damage: dict[str, object]) -> None:
    shape = {"id": "ab01", "mark": "m", "at": 1, "until": 900, "about": {}} | damage
    (tmp_path / "approvals").mkdir()
    (tmp_path / "approvals" / "ab01.json").write_text(json.dumps(shape))
    assert stored(tmp_path) == []
    assert Approvals(tmp_path, lambda: 100.0).listed() == []


def test_who_does_not_say_for_which_call_is_bound_by_every_call_at_hand(tmp_path: Path) -> None:
    async def story() -> None:
        made = World(tmp_path)
        far = recipe(egress=("api.example.com:443", "other.example.com:443"))
        other = ALLOW.replace("goes", "more").replace("api.", "other.")
        denied = '[[rule]]\nid = "not-clerk"\neffect = "deny"\nagents = ["clerk"]\n'
        denied += 'origins = ["https://api.example.com:443"]\n'
        made.follow(ALLOW + other + denied)
        assert (await made.request(far)).go  # no call is at hand
        entry = await made.enter(far)
        assert isinstance(entry, str)
        assert not (await made.request(far, entry)).go
        assert not (await made.request(far)).go
        made.policing.left(entry)
        assert (await made.request(far)).go

    told(story)


def test_a_yes_under_a_policy_that_was_replaced_gives_no_permit_and_lets_no_call_in(tmp_path: Path) -> None:
    async def story() -> None:
        made = World(tmp_path)
        giving = Permitting(made.policing, Permits(), lambda: made.now)
        sending = Sending("ocr/v1", "ocr", "clerk", "s1", wait_s=20)
        for asks in (
            lambda: giving.permit(recipe(), sealed_of("https://api.example.com:443"), sending),
            lambda: made.enter(recipe(gate=False)),
        ):
            made.follow(ASK)
            asking = asyncio.create_task(asks())
            number = await made.waiting()
            made.follow("")  # denies whatever goes to another machine
            made.policing.approvals.answer(number, "ada", agreed=True)
            try:
                assert not isinstance(await asking, str)
            except NotSent as fault:
                assert "is not given" in str(fault)

    told(story)


def test_two_that_a_person_agrees_to_do_not_spend_more_than_the_day_has(tmp_path: Path) -> None:
    async def story() -> None:
        made = World(tmp_path)
        made.follow(BUDGET)
        entries = [await made.enter(recipe(), session=name) for name in ("s1", "s2")]
        asking = [asyncio.create_task(made.request(recipe(), str(entry))) for entry in entries]
        async with asyncio.timeout(30):
            while len(made.policing.approvals.listed()) < len(asking):
                await asyncio.sleep(0)
        for one in made.policing.approvals.listed():
            made.policing.approvals.answer(one.id, "ada", agreed=True)
        assert sorted(one.go for one in await asyncio.gather(*asking)) == [False, True]

    told(story)


def test_a_permit_names_the_decision_that_is_kept_and_none_is_given_for_a_call_that_is_over(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        made = World(tmp_path)
        made.follow(ASK)
        giving = Permitting(made.policing, Permits(), lambda: made.now)
        sending = Sending("ocr/v1", "ocr", "clerk", "s1", wait_s=20)
        sealed = sealed_of("https://api.example.com:443")
        asking = asyncio.create_task(giving.permit(recipe(), sealed, sending))
        made.policing.approvals.answer(await made.waiting(), "ada", agreed=True)
        assert (await asking).decision == made.kept[-1].id
        made.follow(ALLOW)
        with pytest.raises(NotSent, match="does not run"):
            await giving.permit(recipe(), sealed, replace(sending, entry="gone"))

    told(story)


def test_a_call_that_nobody_decided_on_gets_a_permit_as_of_the_highest_class(tmp_path: Path) -> None:
    async def story() -> None:
        made = World(tmp_path)
        made.follow(ALLOW)
        giving = Permitting(made.policing, Permits(), lambda: made.now)
        sending = Sending("", "", "clerk", "s1", is_call=True)
        sealed = sealed_of("https://api.example.com:443")
        with pytest.raises(NotSent, match="private never leaves"):  # a shadow's copy: of what, nobody knows
            await giving.permit(recipe(), sealed, sending)
        entry = await made.enter(recipe())
        assert isinstance(entry, str)
        await giving.permit(recipe(), sealed, replace(sending, entry=entry))
        await giving.permit(recipe(), sealed, replace(sending, is_call=False))

    told(story)


def test_a_file_is_of_its_class_however_its_path_is_written_and_granted(tmp_path: Path) -> None:
    scope = (ScopeFolder("/work"), ScopeFolder("/work/clients"))
    assert [one.within for one in places(scope, "/work/clients/a.pdf")] == ["clients/a.pdf", "a.pdf"]
    assert [one.absolute for one in places((ScopeFolder("/"),), "/a")] == ["/a"]

    async def story() -> None:
        made = World(tmp_path)
        made.scope = scope
        made.follow(ALLOW)
        for path in ("clients/a.pdf", "/work/clients/a.pdf"):
            said = await made.enter(recipe(), path)
            assert not isinstance(said, str), path

    told(story)


def test_arguments_count_by_their_bytes(tmp_path: Path) -> None:
    async def story() -> None:
        made = World(tmp_path)
        made.follow(ALLOW.replace("effect", "maxBytes = 300\neffect"))
        assert isinstance(await made.enter(recipe(gate=False), arguments={"a": "x" * 200}), str)
        said = await made.enter(recipe(gate=False), arguments={"a": "\N{GRINNING FACE}" * 200})
        assert not isinstance(said, str)

    told(story)


def test_a_clock_that_jumped_ahead_does_not_use_up_the_days_until_then(tmp_path: Path) -> None:
    now = 1_000_000.0
    book = Book(tmp_path, lambda: now)
    now += 10_000 * DAY_S
    book.spend("goes", Sum("EUR", 5))
    now -= 10_000 * DAY_S
    assert Book(tmp_path, lambda: now).spent == {"goes": {"EUR": 5}}  # it was spent
    now += DAY_S
    assert Book(tmp_path, lambda: now).spent == {}
    book = Book(tmp_path, lambda: now)
    book.spend("goes", Sum("EUR", 7))
    now -= DAY_S / 2
    assert book.spent == {"goes": {"EUR": 7}}  # set back by less than a day: the same day


@pytest.mark.parametrize("text", ['{"day": "soon"}', '{"rules": 5}', '{"rules": {"a": 5}}', "[]", "{"])
def test_a_damaged_book_of_sums_says_so_and_nothing_leaves(tmp_path: Path, text: str) -> None:
    (tmp_path / "egress-spent.json").write_text(text)
    with pytest.raises(ValueError, match=r"damaged|JSON|unexpected"):
        Book(tmp_path, lambda: 0.0)

    async def story() -> None:
        made = World(tmp_path)
        made.follow(ALLOW)
        assert not isinstance(await made.enter(recipe()), str)

    told(story)


def test_what_a_session_read_by_a_builtin_connector_makes_its_later_text_of_that_class(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        made = World(tmp_path)
        made.follow(ALLOW)
        reading = await made.enter(recipe("files", gate=False, egress=()))
        assert isinstance(reading, str)
        assert made.policing.read(reading, ("plain.txt", "../odd")) is None
        assert isinstance(await made.enter(recipe()), str)
        assert made.policing.read(reading, ("clients/a.txt",)) is None
        said = await made.enter(recipe())
        assert not isinstance(said, str)
        assert "private never leaves" in said.diagnostic
        assert isinstance(await made.enter(recipe(), session="s2"), str)
        made.begin()
        made.follow(ALLOW)
        assert not isinstance(await made.enter(recipe()), str)  # over a restart, too

    told(story)


def test_what_cannot_be_kept_of_a_reading_is_not_read(tmp_path: Path) -> None:
    async def story() -> None:
        made = World(tmp_path)
        made.follow(ALLOW)
        reading = await made.enter(recipe("files", gate=False, egress=()))
        assert isinstance(reading, str)
        (tmp_path / "egress-classes.json").mkdir()  # nothing can be put in its place
        answer = Result({}, {}, ("clients/a.txt",))
        policed = Policed()
        policed.entries, policed.on = made.policing, True
        call = LetIn(policed, lambda _: None)
        call.entry = reading
        said = call.told(answer)
        assert isinstance(said, Refusal)
        assert said.code == "refused"
        plain = Result({}, {}, ("plain.txt",))
        assert call.told(plain) is plain

    told(story)


def test_tunnels_that_were_opened_for_less_are_looked_at_before_a_call_enters(tmp_path: Path) -> None:
    async def story() -> None:
        made = World(tmp_path)
        far = recipe(gate=False, egress=("127.0.0.1:8080", "api.example.com:443"))
        target = Target.parse("api.example.com:443")
        looked: list[str] = []
        made.policing.entered = lambda name: looked.append(made.policing.judged(far, target))
        made.follow(ALLOW)
        assert await made.policing.tunnel(far, target) == ""
        assert isinstance(await made.enter(far, "clients/a.pdf"), str)  # it may be read here
        assert looked[:1] == [""]
        assert "private never leaves" in looked[-1]
        made.follow("")
        assert len(looked) == 3

    told(story)
