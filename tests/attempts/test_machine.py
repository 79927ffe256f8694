"""The law of attempts, as a table and under chance."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.attempts import course, happenings, machine
from reconciler.attempts.happenings import (
    Absent,
    Accepted,
    CancelAnswered,
    CancelAsked,
    CancelSent,
    Checked,
    Collected,
    Failed,
    Ground,
    Happening,
    Late,
    Lost,
    NotSent,
    Refused,
    Seen,
    Settled,
    Stopped,
    Submit,
    Succeeded,
    Withdrawn,
)
from reconciler.attempts.reconciling import FarEnd, Finished, Found, NotFound, Sent, Unclear
from reconciler.attempts.records import Attempt, Idempotency, State
from tests.attempts.wishes import NOW, new
from tests.kit.effort import times
from tests.kit.farend import FACTS

# The transitions of the design, each written as (from, what, to), and no other one.
MOVES = {
    ("prepared", "Submit", "submitting"),
    ("prepared", "CancelAsked", "cancelled"),
    ("prepared", "Withdrawn", "failed"),
    ("submitting", "Submit", "submitting"),
    ("submitting", "Accepted", "accepted"),
    ("submitting", "NotSent", "failed"),
    ("submitting", "Refused", "failed"),
    ("submitting", "Absent", "failed"),
    ("submitting", "Lost", "indeterminate"),
    ("submitting", "Stopped", "cancelled"),
    *(
        (state, what, to)
        for state in ("accepted", "running")
        for what, to in (
            ("Seen", "running"), ("Succeeded", "succeeded"), ("Failed", "failed"),
            ("Stopped", "cancelled"), ("Lost", "indeterminate"),
        )
    ),
    ("indeterminate", "Submit", "submitting"),
    ("indeterminate", "Accepted", "accepted"),
    ("indeterminate", "Seen", "running"),
    ("indeterminate", "Succeeded", "succeeded"),
    ("indeterminate", "Failed", "failed"),
    ("indeterminate", "Absent", "failed"),
    ("indeterminate", "Stopped", "cancelled"),
    ("indeterminate", "Lost", "indeterminate"),
    ("indeterminate", "Settled", "succeeded"),
    *((state, what, state) for state in ("submitting", "accepted", "running", "indeterminate")
      for what in ("CancelAsked", "CancelSent", "CancelAnswered", "Checked")),
    *((state, what, state) for state in ("succeeded", "failed", "cancelled")
      for what in ("Late", "Collected")),
}  # fmt: skip
EVERY: tuple[Happening, ...] = (
    Submit(), NotSent("x"), Refused("x"), Absent(), Lost("x"), Accepted("j"), Seen("x"), Succeeded(),
    Failed("x"), Stopped("x"), Withdrawn("x", "y"), CancelAsked("x"), CancelSent(), CancelAnswered("proved"),
    Checked(1.0), Settled(State.SUCCEEDED, "max", "seen"), Collected(), Late("x"),
)  # fmt: skip


def test_the_table_is_the_designs_and_nothing_else_is_possible() -> None:
    assert {type(one) for one in EVERY} == set(happenings.Happening.__args__)
    found = {
        (state.value, type(one).__name__, dst.value)
        for state in State
        for one in EVERY
        if (dst := machine.may(state, one)) is not None
    }
    assert found == MOVES


def _at(state: State, **fields: object) -> Attempt:
    return replace(machine.prepared(new(), NOW), state=state, **fields)


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED, State.CANCELLED])
def test_what_is_over_stays_so_and_a_late_word_is_kept_beside(state: State) -> None:
    one = machine.after(_at(state), Late("it was done after all"), NOW)
    assert one.state is state
    assert one.ended.late_result == "it was done after all"


@pytest.mark.parametrize("to", [State.PREPARED, State.SUBMITTING, State.INDETERMINATE])
def test_a_person_settles_what_is_unknown_as_something_that_is_known(to: State) -> None:
    with pytest.raises(machine.ForbiddenError):
        machine.after(_at(State.INDETERMINATE), Settled(to, "max", "saw it"), NOW)


@pytest.mark.parametrize(
    ("state", "ground", "fields", "words"),
    [
        (State.PREPARED, Ground.FIRST, {}, ""),
        (State.PREPARED, Ground.FIRST, {"deadline": NOW - 1}, "its deadline has passed"),
        (State.SUBMITTING, Ground.FIRST, {}, "a first transmission comes from PREPARED"),
        (State.PREPARED, Ground.CLIENT_KEY, {}, "a first transmission comes from PREPARED"),
        (State.SUBMITTING, Ground.CLIENT_KEY, {}, "does not tell repetitions by a key"),
        (State.SUBMITTING, Ground.NATURAL, {}, "may run a second one"),
        (State.SUBMITTING, Ground.NATURAL, {"idempotency": Idempotency("k", "natural")}, ""),
        (State.SUBMITTING, Ground.CLIENT_KEY, {"idempotency": Idempotency("k", "client-key")}, ""),
        (
            State.INDETERMINATE,
            Ground.CLIENT_KEY,
            {"idempotency": Idempotency("k", "client-key", NOW - 1)},
            "has forgotten the key",
        ),
        (State.INDETERMINATE, Ground.NOT_SENT, {}, "was neither kept back nor answered"),
    ],
)
def test_a_transmission_goes_out_by_a_right_or_not_at_all(
    state: State, ground: Ground, fields: dict[str, object], words: str
) -> None:
    fault = machine.submit_fault(_at(state, **fields), ground, NOW)
    assert bool(fault) is bool(words)
    assert words in fault


def test_a_wish_to_cancel_ends_what_was_not_sent_and_blocks_every_repetition() -> None:
    assert machine.after(_at(State.PREPARED), CancelAsked("max"), NOW).state is State.CANCELLED
    keyed = _at(State.SUBMITTING, idempotency=Idempotency("k", "client-key"))
    asked = machine.after(keyed, CancelAsked("max"), NOW)
    with pytest.raises(machine.ForbiddenError, match="cancel was asked"):
        machine.after(asked, Submit(Ground.CLIENT_KEY), NOW)


def test_a_repetition_that_never_left_proves_nothing_of_the_transmission_before() -> None:
    one = _at(State.PREPARED, idempotency=Idempotency("k", "client-key"))
    again = machine.after(machine.after(one, Submit(), NOW), Submit(Ground.CLIENT_KEY), NOW)
    for happening in (NotSent("no connection"), Refused("limit")):
        with pytest.raises(machine.ForbiddenError, match="nothing of the transmission before"):
            machine.after(again, happening, NOW)


def test_the_pause_between_two_looks_grows_and_ends_at_a_minute() -> None:
    pauses = [course.pause_s(checks, 0.5) for checks in range(400)]
    assert pauses[0] == 1.0
    assert pauses == sorted(pauses)
    assert pauses[-1] == 60.0


class World:
    """A far end whose lines break: what it truly did, and what of that reaches us."""

    def __init__(self, kind: str, chance: random.Random) -> None:
        self.kind, self.chance = kind, chance
        self.effects = 0
        self.under_way = 0  # sent by us, and not there yet
        self.stopped = self.done = False

    def _one_of(self, *choices: str) -> str:
        return self.chance.choice(choices)

    def arrive(self) -> None:
        """What was under way is there, or never will be."""
        for _ in range(self.under_way):
            if self._one_of("arrives", "is lost") == "arrives" and not (
                self.kind == "keyed" and self.effects
            ):
                self.effects += 1
        self.under_way = 0

    def send(self) -> Sent:
        match self._one_of("answered", "answer lost", "late", "not sent", "refused"):
            case "answered":
                self.effects += not (self.kind == "keyed" and self.effects)
                return Accepted("job")
            case "answer lost":
                self.effects += not (self.kind == "keyed" and self.effects)
                return Lost("no answer")
            case "late":
                self.under_way += 1
                return Lost("no answer")
            case "not sent":
                return NotSent("refused the connection")
            case _:
                return Refused("limit")

    def look(self, way: str) -> Found:
        if self._one_of("there", "away") == "away":
            return Unclear("no answer")
        if not self.effects:
            return NotFound()
        if way != "job-id":
            return Accepted("job")
        if self.stopped:
            return Stopped("its status")
        self.done = self.done or self._one_of("done", "runs") == "done"
        return Finished() if self.done else Seen("running")


@pytest.mark.slow
@settings(max_examples=times(50), deadline=None)
@given(seed=st.integers(0, 2**32), kind=st.sampled_from(sorted(FACTS)))
def test_whatever_breaks_no_effect_happens_twice_and_no_row_claims_what_is_not_so(
    seed: int, kind: str
) -> None:
    chance = random.Random(seed)
    for _ in range(30):  # a whole life costs less than an example does
        _a_life(World(kind, chance), FACTS[kind])


def _a_life(world: World, far: FarEnd) -> None:
    kind, now = world.kind, NOW
    mode = "client-key" if kind == "keyed" else "none"
    one = machine.prepared(
        new(kind="job", grade="wire", idempotency=Idempotency("k", mode), deadline=NOW + 600), now
    )
    for _ in range(60):
        if one.is_over or one.parked:
            break
        now = max(now, one.next_check_at)
        if now >= one.provider.sent_at + far.visibility_delay_s > 0 and far.visibility_delay_s:
            world.arrive()  # that is what a stated delay promises
        if world.chance.random() < 0.1 and not one.cancel.asked_at:
            one = machine.after(one, CancelAsked("max"), now)
            continue
        one = _turn(one, far, world, now)
    world.arrive()
    assert world.effects <= 1
    assert kind == "keyed" or one.transmissions <= 1
    if one.state is State.SUCCEEDED:
        assert world.effects == 1
    if one.state is State.FAILED and one.ended.effect == "none":
        assert world.effects == 0
    if one.state is State.CANCELLED:
        assert world.stopped or not one.transmissions


def _turn(one: Attempt, far: FarEnd, world: World, now: float) -> Attempt:
    """What the relay does, with this world for a far end; it may die after any transmission."""
    then: course.Move = course.first(one, far, now)
    if isinstance(then, course.Look):
        if then.cancel:
            world.stopped = world.effects > 0 and not world.done
            one = machine.after(machine.after(one, CancelSent(), now), CancelAnswered("requested"), now)
        found: Found = NotFound()
        for way in then.ways:
            found = world.look(way)
            if not isinstance(found, NotFound) or way == "job-id":
                break
        then = course.heard(one, found, far, course.At(now))
    if isinstance(then, course.Send):
        one = machine.after(one, Submit(then.ground), now)
        sent = world.send()
        if world._one_of("lives", "lives", "dies") == "dies":
            return one
        then = course.answered(one, sent, 0.5)
    if isinstance(then, course.Fetch):
        then = course.Tell((*course.taken(one), Succeeded(one.id)))
    assert isinstance(then, course.Tell)
    for happening in then.happenings:
        one = machine.after(one, happening, now)
    return one
