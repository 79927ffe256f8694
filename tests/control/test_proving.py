"""Proofs without processes: what is at fault itself is given up in time, what the machine lacks is not."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reconciler.control.bad import TRIES, Bad
from reconciler.control.proving import Demand, Prover
from reconciler.control.queue import Done, Failed, Outcome, Stuck, Wait
from reconciler.model.calls import Refusal
from reconciler.model.names import InstanceName
from reconciler.model.status import InstanceSeen

NEW, OTHER = InstanceName("ocr", "a" * 64), InstanceName("ocr", "b" * 64)
DIED = Refusal("unavailable", "the connector closed its connection")
NO_WALLS = Refusal("unavailable", "bwrap is missing", "SandboxUnavailable")


@dataclass
class Runtime:
    """Starts whatever it is asked to, and says how that ended; ``meanwhile`` happens before it does."""

    answer: Refusal | None = None
    seen_as: InstanceSeen | None = None
    meanwhile: Callable[[], object] = lambda: None
    starts: int = 0
    forgiven: list[InstanceName] = field(default_factory=list)

    def prove(self, instance: InstanceName, heard: Callable[[Refusal | None], None]) -> None:
        self.starts += 1

        def later() -> None:
            self.meanwhile()
            heard(self.answer)

        asyncio.get_running_loop().call_soon(later)

    def seen(self, name: InstanceName) -> InstanceSeen | None:
        return self.seen_as

    def forgive(self, name: InstanceName) -> None:
        self.forgiven.append(name)


class Stage:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runtime = Runtime()
        self.told: list[str] = []
        self.restart()

    def restart(self) -> None:
        bad = Bad(self.folder / "bad.json", lambda: "2026-11-30T09:00:00Z")
        self.prover = Prover(self.runtime, self.runtime, bad, lambda name, why: self.told.append(why))

    def prove(self, name: InstanceName = NEW) -> Outcome:
        return asyncio.run(self.prover.prove(name))


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_what_answers_has_proven_itself_for_this_switch(stage: Stage) -> None:
    assert stage.prover.want({NEW: Demand()}) == (NEW,)
    assert stage.prove() == Done()
    assert (stage.prover.proven, stage.prover.unproven) == ({NEW}, {})
    stage.prover.lapse([])
    assert stage.prover.proven == set()


def test_what_lacks_something_of_a_person_is_not_started_and_has_not_failed(stage: Stage) -> None:
    stage.prover.want({NEW: Demand("lacking", lacks="no evidence")})
    assert [stage.prove(), stage.prove()] == [Stuck(), Done()]
    assert stage.prover.unproven[NEW].why == "no evidence"
    assert (stage.runtime.starts, stage.told) == (0, [])
    assert stage.prover.want({NEW: Demand()}) == (NEW,)  # it was given
    assert stage.prove() == Done()
    assert stage.prover.proven == {NEW}


def test_what_fails_is_tried_later_and_later_and_then_no_more(stage: Stage) -> None:
    stage.runtime.answer = DIED
    stage.prover.want({NEW: Demand()})
    outcomes = [stage.prove() for _ in range(TRIES)]
    assert outcomes == [Wait(0.5), Wait(1), Wait(2), Wait(4), Stuck()]
    assert stage.prover.is_stuck()
    words = stage.prover.unproven[NEW].why
    assert "it failed 5 times since 2026-11-30T09:00:00Z" in words
    assert "`handler logs ocr`" in words
    assert "`handler apply`" in words
    assert stage.prove() == Done()
    assert stage.runtime.starts == TRIES


def test_a_restart_does_not_begin_anew(stage: Stage) -> None:
    stage.runtime.answer = DIED
    stage.prover.want({NEW: Demand()})
    stage.prove()
    stage.restart()
    assert stage.prover.want({NEW: Demand()}) == (NEW,)
    assert "it failed once since" in stage.prover.unproven[NEW].why
    for _ in range(TRIES - 1):
        stage.prove()
    stage.restart()
    assert stage.prover.want({NEW: Demand()}) == ()
    assert stage.prover.is_stuck()
    assert stage.runtime.starts == TRIES


def test_another_digest_is_tried_at_once_and_the_bad_one_stays_known(stage: Stage) -> None:
    stage.runtime.answer = DIED
    stage.prover.want({NEW: Demand()})
    for _ in range(TRIES):
        stage.prove()
    assert stage.prover.want({OTHER: Demand()}) == (OTHER,)
    assert stage.prover.want({NEW: Demand()}) == ()


def test_a_person_has_it_tried_once_more(stage: Stage) -> None:
    stage.runtime.answer = DIED
    stage.prover.want({NEW: Demand()})
    for _ in range(TRIES):
        stage.prove()
    assert stage.prover.pardon() == (NEW,)
    assert stage.runtime.forgiven == [NEW]
    assert stage.prove() == Stuck()
    assert "6 times" in stage.prover.unproven[NEW].why
    stage.prover.pardon()
    stage.runtime.answer = None
    assert stage.prove() == Done()
    assert not (stage.folder / "bad.json").exists()


def test_what_the_machine_lacks_is_tried_for_ever_and_told_once(stage: Stage) -> None:
    stage.runtime.answer = NO_WALLS
    stage.prover.want({NEW: Demand()})
    assert {type(stage.prove()) for _ in range(3 * TRIES)} == {Failed}
    assert stage.prover.unproven[NEW].why == "bwrap is missing"
    assert stage.told == ["bwrap is missing"]
    assert not (stage.folder / "bad.json").exists()


def test_a_look_in_between_neither_hastens_nor_repeats_a_proof(stage: Stage) -> None:
    stage.runtime.answer = DIED
    assert stage.prover.want({NEW: Demand()}) == (NEW,)
    assert stage.prover.want({NEW: Demand()}) == ()
    stage.prove()
    words = stage.prover.unproven[NEW]
    assert stage.prover.want({NEW: Demand(), OTHER: Demand()}) == (OTHER,)
    assert stage.prover.unproven[NEW] == words


@pytest.mark.parametrize("answer", [None, DIED])
def test_what_nobody_wants_any_more_comes_to_nothing(stage: Stage, answer: Refusal | None) -> None:
    stage.runtime.answer = answer
    stage.prover.want({NEW: Demand()})
    stage.runtime.meanwhile = lambda: stage.prover.want({OTHER: Demand()})
    assert stage.prove() == Done()
    assert list(stage.prover.unproven) == [OTHER]
    assert stage.prover.proven == set()
    assert stage.told == []


def test_how_its_process_ended_says_more_than_how_its_connection_did(stage: Stage) -> None:
    stage.runtime.answer = DIED
    stage.runtime.seen_as = InstanceSeen("ocr@a", "failed", message="its process ended with exit 3")
    stage.prover.want({NEW: Demand()})
    stage.prove()
    assert "its process ended with exit 3" in stage.told[0]


def test_smoke_cases_are_asked_once_it_answers_and_their_faults_count(stage: Stage) -> None:
    asked: list[InstanceName] = []

    async def ask(name: InstanceName) -> tuple[str, ...]:
        asked.append(name)
        return ("case 'a': no", "case 'b': no") if len(asked) == 1 else ()

    stage.runtime.answer = DIED
    stage.prover.want({NEW: Demand("smoke", ask)})
    stage.prove()
    assert asked == []
    stage.runtime.answer = None
    assert isinstance(stage.prove(), Wait)
    assert "case 'a': no; case 'b': no" in stage.told[-1]
    assert stage.prove() == Done()
    assert stage.prover.proven == {NEW}
    assert asked == [NEW, NEW]


def test_other_smoke_cases_are_another_claim(stage: Stage) -> None:
    async def ask(name: InstanceName) -> tuple[str, ...]:
        return ("no",)

    stage.prover.want({NEW: Demand("one", ask)})
    for _ in range(TRIES):
        stage.prove()
    assert stage.prover.is_stuck()
    assert stage.prover.want({NEW: Demand("two", ask)}) == (NEW,)
    assert stage.prover.want({NEW: Demand()}) == (NEW,)
    assert stage.prove() == Done()
    assert stage.prover.proven == {NEW}


def test_what_somebody_killed_is_no_failure_of_what_was_declared(stage: Stage) -> None:
    stage.prover.want({NEW: Demand()})
    stage.runtime.answer = DIED
    stage.runtime.seen_as = InstanceSeen(
        str(NEW), "failed", last_exit="signal 9", message="killed", killed=True
    )
    for _ in range(TRIES + 1):
        assert stage.prove() == Failed()
    assert not (stage.folder / "bad.json").exists()
    assert stage.prover.unproven[NEW].why == "killed"
    assert stage.told == ["killed"]
    stage.runtime.seen_as = InstanceSeen(str(NEW), "failed", last_exit="exit 3", message="its own fault")
    assert isinstance(stage.prove(), Wait)
