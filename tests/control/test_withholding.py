"""Which instances are withheld, by what checks left: one by one, and for as long as evidence holds."""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reconciler.config.evidence import Evidence
from reconciler.conformance import evidence as law
from reconciler.control import proofs, withholding
from reconciler.control.proving import Demand
from reconciler.control.withdrawn import Withdrawn
from reconciler.control.withholding import Demanded, Withholding
from reconciler.model.calls import Lane, Refusal
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.plan.desired import Desired, desire
from reconciler.runtime import searched
from tests.admission import build

BINDING = ObjectRef(Kind.BINDING, "b")
DAY = datetime(2026, 12, 1, tzinfo=UTC)


class Judged:
    """A configuration with one binding that asks for evidence, and what is desired of it."""

    def __init__(self, demand: str = 'conformance = { require = "offline", maxAgeDays = 10 }\n') -> None:
        self.admission = build.judge(build.binding("b", "ocr-rapid", demand), build.catalog())
        assert not build.errors(self.admission)
        self.desired: Desired = desire(self.admission, generation=1, kit="k" * 64, home="/home/ada")

    @property
    def evidence(self) -> Evidence:
        """What a check of exactly this leaves, on the first of December."""
        made = self.desired.memory.made["b"]
        suites = {
            version: self.admission.in_force[ObjectRef(Kind.INTERFACE, version)].files
            for version in made.connector.spec.implements
        }
        about = law.subject(made.recipe, suites).model_dump(by_alias=True)
        case = {"interface": "ocr/v1", "name": "n", "tier": "conformance", "seconds": 1.0, "faults": []}
        return law.sealed(
            {
                "subject": about,
                "binding": "b",
                "mode": "offline",
                "kit": "k",
                "product": "0",
                "python": "3",
                "platform": "p",
                "walls": {},
                "started": "2026-12-01T00:00:00Z",
                "finished": "2026-12-01T00:00:00Z",
                "results": [{**case, "verdict": "passed"}],
            }
        )


def at(days: float) -> Callable[[], datetime]:
    return lambda: DAY + timedelta(days=days)


def seen(judged: Judged, follows: Withholding) -> Demanded:
    return follows.look(judged.admission, judged.desired)[BINDING]


def test_evidence_is_seen_as_soon_as_it_lies_there_and_for_as_long_as_is_asked(tmp_path: Path) -> None:
    judged, today = Judged(), [DAY]
    follows = Withholding(tmp_path, lambda: today[0])
    first = follows.look(judged.admission, judged.desired)
    assert (first[BINDING].passed, first[BINDING].reason) == (False, "Withheld")
    assert follows.look(judged.admission, judged.desired) is first  # nothing is otherwise
    proofs.keep(tmp_path, judged.evidence)
    assert seen(judged, follows).reason == "Proven"
    today[0] += timedelta(days=11)
    assert seen(judged, follows).reason == "Stale"
    assert seen(judged, Withholding(tmp_path, at(2))).passed  # after a restart, too


@pytest.mark.parametrize("what", ["programs", "read"])
def test_what_passed_here_is_stale_when_a_program_or_data_of_this_machine_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    (tmp_path / "bin").mkdir()
    engine = tmp_path / "bin" / "engine"
    engine.touch(0o755)
    monkeypatch.setattr(searched, "_SEARCHED", (str(engine.parent),))
    named = "engine" if what == "programs" else str(engine)
    now = datetime.now(UTC)

    def told(state: str, finished: datetime) -> Demanded:
        judged = Judged()
        made = judged.desired.memory.made["b"]
        sandbox = replace(made.recipe.sandbox, **{"programs": (), "read": (), what: (named,)})
        judged.desired.memory.made["b"] = replace(made, recipe=replace(made.recipe, sandbox=sandbox))  # type: ignore[index]
        passed = judged.evidence.model_dump(mode="json", by_alias=True)
        passed["finished"] = finished.isoformat(timespec="seconds").replace("+00:00", "Z")
        kept = {
            key: value for key, value in passed.items() if key not in ("fingerprint", "tiers", "apiVersion")
        }
        proofs.keep(tmp_path / state, law.sealed(kept))
        return seen(judged, Withholding(tmp_path / state, lambda: now + timedelta(days=1)))

    assert told("after", now + timedelta(minutes=1)).reason == "Proven"
    stale = told("before", now - timedelta(hours=1))
    assert (stale.reason, f"'{named}' of this machine was changed since" in stale.words) == ("Stale", True)
    engine.unlink()
    assert told("after", now + timedelta(minutes=1)).reason == "Stale"


def test_a_binding_that_asks_for_nothing_is_not_looked_at(tmp_path: Path) -> None:
    judged = Judged("")
    assert Withholding(tmp_path).look(judged.admission, judged.desired) == {}


@pytest.mark.parametrize("text", [b"", b"{}", b"\xff", b'{"apiVersion": "handler.evidence/v1"}'])
def test_a_file_that_is_no_evidence_proves_nothing(tmp_path: Path, text: bytes) -> None:
    judged = Judged()
    folder = tmp_path / "evidence" / "ocr-rapid"
    folder.mkdir(parents=True)
    (folder / "x.json").write_bytes(text)
    assert not seen(judged, Withholding(tmp_path, at(1))).passed


def test_what_is_no_file_among_the_evidence_is_passed_over_and_not_waited_for(tmp_path: Path) -> None:
    judged = Judged()
    proofs.keep(tmp_path, judged.evidence)
    folder = tmp_path / "evidence" / "ocr-rapid"
    os.mkfifo(folder / "a.json")
    (folder / "b.json").symlink_to("/dev/zero")
    (folder / "c.json").mkdir()
    assert seen(judged, Withholding(tmp_path, at(1))).passed


def test_only_the_last_checks_of_a_connector_are_kept(tmp_path: Path) -> None:
    evidence = Judged().evidence
    folder = tmp_path / "evidence" / "ocr-rapid"
    folder.mkdir(parents=True)
    for number in range(30):
        (folder / f"20251201T0000{number:02}Z-0.json").write_text("{}")
    kept = proofs.keep(tmp_path, evidence)
    assert kept.exists()
    assert len(list(folder.iterdir())) == 20


def test_a_binding_that_is_called_default_takes_nobodys_place(tmp_path: Path) -> None:
    bare = Judged().evidence.model_copy(update={"binding": None})
    names = [proofs.record(tmp_path, bare).name]
    for binding in ("default", "mine"):
        names.append(proofs.record(tmp_path, bare.model_copy(update={"binding": binding})).name)
    assert names == [f"{name}-{bare.mode}.json" for name in ("default", "default.binding", "mine")]


class Below:
    """A dispatch that has every lane."""

    def lane(self, instance: InstanceName) -> Lane | None:
        return "a lane"  # type: ignore[return-value]

    def open_lane(self, instance: InstanceName, ready: Callable[[Lane | Refusal], None]) -> None:
        ready("a lane")  # type: ignore[arg-type]


def test_what_is_withheld_is_one_instance_and_another_of_the_binding_serves_on(tmp_path: Path) -> None:
    judged = Judged()
    demands = Withholding(tmp_path, at(1)).look(judged.admission, judged.desired)
    door = Withdrawn(Below())
    door.follow(judged.admission, (), demands)
    new, earlier = demands[BINDING].instance, InstanceName("b", "e" * 64)
    heard: list[object] = []
    for instance in (new, earlier):
        door.open_lane(instance, heard.append)
    assert heard == [Refusal("unavailable", demands[BINDING].words), "a lane"]
    assert (door.lane(new), door.lane(earlier)) == (None, "a lane")
    assert list(door.told) == [str(new)]
    own = InstanceName("b", "a" * 64)  # of a session alone, and made like what is withheld
    door.shared = {own: new}.get  # type: ignore[assignment]
    assert (door.lane(own), door.barred(own)) == (None, demands[BINDING].words)
    proofs.keep(tmp_path, judged.evidence)
    door.follow(judged.admission, (), Withholding(tmp_path, at(1)).look(judged.admission, judged.desired))
    assert door.lane(new) == "a lane"


def test_a_new_instance_shows_evidence_before_the_usual_is_asked_of_it(tmp_path: Path) -> None:
    judged, usual = Judged(), Demand("smoke")
    lacking = Withholding(tmp_path, at(1)).look(judged.admission, judged.desired)
    asked = withholding.demand(usual, lacking, "b")
    assert asked.lacks == lacking[BINDING].words
    assert asked.digest != usual.digest
    assert withholding.demand(usual, lacking, "another") is usual
    proofs.keep(tmp_path, judged.evidence)
    proven = Withholding(tmp_path, at(1)).look(judged.admission, judged.desired)
    assert withholding.demand(usual, proven, "b") is usual
