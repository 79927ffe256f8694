"""What became of an object's last forms: one entry a digest, at most five, counted and timed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.control import outcomes
from reconciler.control.outcomes import Attempt
from reconciler.control.status import iso
from reconciler.model.status import Condition, ObjectStatus

APPLIED = (Condition("Admitted", "True", "Admitted"), Condition("Synced", "True", "ReconcileSuccess"))
REFUSED = (Condition("Admitted", "False", "UnknownField"), Condition("Synced", "False", "LastGoodRetained"))
WAITING = (Condition("Admitted", "True", "Admitted"), Condition("Synced", "False", "LastGoodRetained"))
HELD = (Condition("Admitted", "True", "Admitted"), Condition("Synced", "False", "PruneBlocked"))
ALONE = (Condition("Admitted", "True", "Admitted"), Condition("Synced", "Unknown", "ReconcileSuccess"))


def status(digest: str, conditions: tuple[Condition, ...]) -> ObjectStatus:
    return ObjectStatus(
        "binding", "a", "bindings/a.toml", digest, digest, suspended=False, conditions=conditions
    )


@pytest.mark.parametrize(
    ("conditions", "word"),
    [(APPLIED, "Applied"), (REFUSED, "Refused"), (WAITING, "Waiting"), (HELD, "Held"), (ALONE, "Admitted"),
     ((), "Admitted")],
)  # fmt: skip
def test_the_outcome_is_read_from_the_conditions(conditions: tuple[Condition, ...], word: str) -> None:
    assert outcomes.outcome(conditions) == word


def test_the_same_again_is_no_attempt() -> None:
    history = outcomes.attempted((), status("1", APPLIED), 100.0, 99.5)
    assert history == (Attempt("1", "Applied", 100.0, 1, 0.5),)
    assert outcomes.attempted(history, status("1", APPLIED), 200.0, 199.0) is history
    assert outcomes.attempted(history, status("", APPLIED), 200.0, 199.0) is history


def test_what_waits_and_then_serves_is_one_attempt_with_its_whole_time() -> None:
    history = outcomes.attempted((), status("1", WAITING), 100.0, 99.5)
    assert outcomes.attempted(history, status("1", APPLIED), 103.0, 102.9) == (
        Attempt("1", "Applied", 103.0, 1, 3.5),
    )


def test_what_comes_back_is_counted_and_comes_to_the_front() -> None:
    history: tuple[Attempt, ...] = ()
    for at, digest in enumerate(("1", "2", "1")):
        history = outcomes.attempted(history, status(digest, APPLIED), float(at), float(at))
    assert history == (Attempt("1", "Applied", 2.0, 2), Attempt("2", "Applied", 1.0))


def test_another_outcome_of_the_same_form_is_another_attempt() -> None:
    history = outcomes.attempted((), status("1", APPLIED), 1.0, 1.0)
    assert outcomes.attempted(history, status("1", REFUSED), 2.0, 2.0) == (Attempt("1", "Refused", 2.0, 2),)


_STEPS = st.lists(st.tuples(st.sampled_from("1234567"), st.sampled_from([APPLIED, REFUSED, WAITING])))


@given(_STEPS)
def test_at_most_five_one_a_digest_the_newest_first_and_read_back_the_same(
    steps: list[tuple[str, tuple[Condition, ...]]],
) -> None:
    history: tuple[Attempt, ...] = ()
    for at, (digest, conditions) in enumerate(steps):
        history = outcomes.attempted(history, status(digest, conditions), 1e9 + at, 1e9 + at - 0.25)
        assert history[0].digest == digest
        assert history[0].status == outcomes.outcome(conditions)
    assert len({one.digest for one in history}) == len(history) <= 5
    assert outcomes.from_json({"history": outcomes.as_json(history, iso)}) == history


@pytest.mark.parametrize(
    "document", [{}, {"history": [{}]}, {"history": 1}, {"history": [{"digest": 1, "at": "x"}]}]
)
def test_what_cannot_be_read_is_no_history(document: dict[str, object]) -> None:
    assert outcomes.from_json(document) == ()
