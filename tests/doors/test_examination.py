"""connector check: every case through a real router and sandbox, what is told, what is kept, exit codes."""

import fcntl
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from reconciler.attempts.ledger import Ledger
from reconciler.attempts.records import State
from reconciler.config.evidence import Evidence
from reconciler.conformance import evidence as law
from reconciler.control import examining
from reconciler.control.certifying import ENDS, ends
from tests.doors.conftest import Ran, World
from tests.kit import promised
from tests.kit.effort import EFFORT

TROUBLES = [trouble.value for trouble in ENDS]
CASES = ["a short text", "words into a file", "a text that is too long", "no file at all"]
CHECK = ("-c", "config", "connector", "check")
pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One configuration for all: its connector keeps its promise, and its binding makes it break it."""
    made = World(tmp_path_factory.mktemp("world"))
    made.config.mkdir()
    promised.lay(made.config, settings="settings.wrong = true\n")
    yield made
    assert list(made.root.glob("handler-check-*")) == []  # nothing stays of what was made for a check


def check(place: World, *words: str) -> Ran:
    return place.handler(*CHECK, "counter", *words)


def kept(place: World) -> list[Evidence]:
    folder = place.state / "evidence" / "counter"
    return [Evidence.model_validate_json(path.read_bytes()) for path in sorted(folder.glob("*.json"))]


@pytest.mark.flow
def test_a_connector_that_keeps_its_promise_passes_every_case_and_comes_back_from_every_trouble(
    place: World,
) -> None:
    ran = check(place, "--certify", "--record", "--junit", "junit.xml")
    assert ran.code == 0, ran.out + ran.err
    told = [line[4:].rpartition("  ")[0] for line in ran.out.splitlines() if line.startswith("  ✓ ")]
    assert told == CASES + TROUBLES
    assert ran.out.splitlines()[-1].startswith("counter: 12 of 12 cases passed")
    evidence = kept(place)[-1]
    assert law.is_whole(evidence)
    assert (evidence.tiers.conformance, evidence.tiers.certification) == ("passed", "passed")
    assert evidence.walls["network"] == "empty network namespace"
    assert evidence.binding is None
    beside = place.config / "connectors/counter/evidence/default-offline.json"
    assert Evidence.model_validate_json(beside.read_bytes()) == evidence
    suites = ElementTree.parse(place.root / "junit.xml").getroot()
    assert (suites.get("tests"), suites.get("failures")) == ("12", "0")
    assert [one.get("name") for one in suites.iter("testcase")] == CASES + TROUBLES
    again = place.handler("validate", "config")
    assert again.code == 0, again.out  # evidence beside a connector is no part of it


@pytest.mark.flow
def test_a_case_that_fails_is_told_with_what_came_back_and_nothing_of_that_is_kept(place: World) -> None:
    ran = check(place, "--binding", "mine", "-o", "json", "--junit", "junit.xml")
    assert ran.code == 1
    told = json.loads(ran.out)
    failed = [one for one in told["results"] if one["verdict"] == "failed"]
    assert [one["name"] for one in failed] == ["a short text"]
    assert failed[0]["faults"] == ["words is not 3"]
    assert '"words": 4' in failed[0]["came"]
    assert told["tiers"] == {"conformance": "failed", "certification": "never"}
    assert "counted" in ran.err  # the last lines of its log
    evidence = kept(place)[-1]
    assert (evidence.binding, evidence.tiers.conformance) == ("mine", "failed")
    assert "one two" not in evidence.model_dump_json()
    assert "4" not in json.dumps([one.faults for one in evidence.results])
    (failure,) = ElementTree.parse(place.root / "junit.xml").getroot().iter("failure")
    assert failure.get("message") == "words is not 3"
    assert '"words": 4' in (failure.text or "")


@pytest.mark.flow
def test_a_part_of_a_check_leaves_no_evidence(place: World) -> None:
    before = kept(place)
    ran = check(place, "--case", "a short text", "-o", "json", "--set", "wrong=true")
    told = json.loads(ran.out)
    assert ran.code == 1
    assert [(one["name"], one["faults"]) for one in told["results"]] == [("a short text", ["words is not 3"])]
    assert "fingerprint" not in told
    assert kept(place) == before


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("exit 1: no model; `handler logs b` says more; again in 60 s", "exit 1: no model; again in 60 s"),
        ("ended with exit 1: `handler logs handler-check` says more", "ended with exit 1"),
        ("the connector closed its connection", "the connector closed its connection"),
    ],
)  # fmt: skip
def test_what_a_check_tells_names_no_log_that_a_check_does_not_leave(why: str, told: str) -> None:
    assert examining._here(why) == told


@pytest.mark.flow
def test_a_connector_that_dies_at_once_fails_its_cases_and_its_log_says_why(world: World) -> None:
    promised.lay(world.config, main='print("there is no model")\nraise SystemExit(3)\n')
    ran = world.handler(*CHECK, "counter", "--case", "a short text")
    assert ran.code == 1
    assert "expected an answer, and the call ended with 'unavailable'" in ran.out
    assert "the call's record says: " in ran.out
    assert "there is no model" in ran.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("countr",), 2, "did you mean 'counter'?"),
        (("counter", "--binding", "yours"), 2, "there is no binding 'yours'"),
        (("ocr-rapid", "--binding", "mine"), 2, "binding 'mine' is not one of connector 'ocr-rapid'"),
        (("counter", "--case", "a short txt"), 2, "did you mean 'a short text'?"),
        (("counter", "--case", "a short text", "--record"), 2, "--record keeps evidence of a whole check"),
        (("counter", "--junit", "/tmp"), 2, "--junit names a folder, not a file: /tmp"),
    ],
)
def test_what_cannot_be_examined_is_said(place: World, words: tuple[str, ...], code: int, said: str) -> None:
    ran = place.handler(*CHECK, *words)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--set", "wrong"), "--set wants KEY=VALUE, not 'wrong'"),
        (("--set", "a.b=1"), "--set wants KEY=VALUE, not 'a.b=1'"),
        (
            ("--set", "wrong=1", "--binding", "mine"),
            "--set and --model are for a connector without a binding",
        ),
        (("--set", "rwong=true"), "'rwong' is not a setting of connector/counter"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(place: World, words: tuple[str, ...], said: str) -> None:
    ran = check(place, *words)
    assert ran.code == 2
    assert said in ran.err


def test_results_that_cannot_be_written_are_said_before_anything_is_examined(place: World) -> None:
    ran = check(place, "--junit", "no/such/junit.xml")
    assert (ran.code, ran.out) == (2, "")
    assert "folder that is not there: mkdir -p" in ran.err


def edit(world: World, path: str, old: str, new: str) -> None:
    file: Path = world.config / path
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


@pytest.mark.slow
def test_one_that_reaches_out_is_skipped_without_live(world: World) -> None:
    promised.lay(world.config)
    edit(world, "connectors/counter/connector.toml", "[settings", 'egress = ["example.com:443"]\n[settings')
    junit = world.root / "counter.xml"
    ran = world.handler(*CHECK, "counter", "--junit", str(junit))
    assert ran.code == 77
    counts = ElementTree.parse(junit).getroot().attrib
    assert (counts["tests"], counts["failures"], counts["skipped"]) == ("1", "0", "1")
    assert "with --live the fixtures" in junit.read_text()
    assert ran.err == (
        "handler: skipped: it reaches example.com:443: with --live the fixtures of its cases are sent there\n"
    )
    assert not (world.state / "evidence").exists()


@pytest.mark.slow
def test_one_that_needs_settings_is_examined_as_its_only_binding_has_it_or_as_one_is_named(
    world: World,
) -> None:
    promised.lay(world.config, settings="settings.wrong = true\n")
    edit(world, "connectors/counter/connector.toml", "default = false", "required = true")
    (world.config / "bindings/other.toml").write_text((world.config / "bindings/mine.toml").read_text())
    ran = world.handler(*CHECK, "counter")
    assert ran.code == 2
    assert "the setting 'wrong' is missing; name one with --binding: mine, other" in ran.err


@pytest.mark.flow
def test_a_secret_that_is_not_found_is_no_fault_of_the_connector(world: World) -> None:
    promised.lay(world.config, settings='secrets.key = { env = "NOT_SET_ANYWHERE" }\n')
    edit(
        world,
        "connectors/counter/connector.toml",
        "[settings",
        '[secretSlots.key]\nenv = "KEY"\nrequired = true\n[settings',
    )
    ran = world.handler(*CHECK, "counter")
    assert ran.code == 77, ran.err
    assert "skipped: the secret of slot 'key' (env) does not resolve" in ran.err
    assert not (world.state / "evidence").exists()


@pytest.mark.flow
def test_what_has_an_effect_is_not_asked_and_so_has_not_passed(world: World) -> None:
    promised.lay(world.config)
    edit(
        world,
        "interfaces/count/v1/interface.toml",
        "[errors]",
        '[operations.count_words]\neffect = "external"\n[errors]\noutcome_unknown = "Nobody knows."',
    )
    edit(world, "interfaces/count/v1/tools.json", '"readOnlyHint": true', '"readOnlyHint": false')
    edit(
        world,
        "interfaces/count/v1/skills/count/SKILL.md",
        "`too_large`",
        "`outcome_unknown`: ask. `too_large`",
    )
    ran = world.handler(*CHECK, "counter", "-o", "json")
    assert ran.code == 1, ran.err
    told = json.loads(ran.out)
    assert {one["verdict"] for one in told["results"]} == {"skipped"}
    assert told["tiers"] == {"conformance": "failed", "certification": "never"}
    (evidence,) = kept(world)
    assert "has the effect 'external': --allow-effects" in evidence.results[0].faults[0]
    trouble = ("--certify",) if EFFORT > 1 else ()  # five seconds
    ran = world.handler(*CHECK, "counter", "--allow-effects", "-o", "json", *trouble)
    assert ran.code == 0, ran.err
    assert "of count_words with the effect 'external', for real" in ran.err
    ledger = Ledger.at(world.state)
    kept_ = [(one.request.purpose, one.state) for one in ledger.listing()]
    ledger.close()
    # What was refused by a code of the interface did nothing; a file that is not there was never sent.
    many = {State.FAILED: 1, State.SUCCEEDED: 2}
    if trouble:  # each was hit once, and asked once more
        many = {State.FAILED: 1, State.SUCCEEDED: 2 + 3 + 8, State.INDETERMINATE: 5}
    assert Counter(kept_) == {("conformance", state): count for state, count in many.items()}


def test_an_effect_whose_answer_is_lost_is_unknown_and_never_unavailable() -> None:
    for trouble, usual in ENDS.items():
        assert ends(trouble, "none") == usual
        assert ends(trouble, "paid") == (("outcome_unknown",) if usual else ())


def test_what_a_killed_examination_left_is_taken_away_by_the_next(tmp_path: Path) -> None:
    killed, runs, other = (tmp_path / f"handler-check-{name}" for name in ("killed", "runs", "other"))
    for folder in (killed, runs, other):
        folder.mkdir()
    (killed / "held").touch()
    (tmp_path / "handler-check-link").symlink_to(killed)
    with (runs / "held").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        examining.sweep(tmp_path)
    assert [folder.exists() for folder in (killed, runs, other)] == [False, True, True]
