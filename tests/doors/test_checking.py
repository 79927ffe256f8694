"""check: one exit code for each way that an agent stands, and a verdict on every reason there is."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from reconciler.control import lock
from reconciler.doors import verdicts
from reconciler.model.status import REASONS
from tests.doors import fakes
from tests.doors.conftest import World

_OWN = frozenset({"InternalError"})


def statuses(state: Path, ready: str, reason: str, **whole: Any) -> None:
    binding = fakes.row("binding/ocr", ready, reason, message="words")
    fakes.write_status(state, fakes.row("agent/clerk", ready, reason, message="words"), binding, **whole)
    path = state / "status/agent/clerk.json"
    service = {"interface": "ocr/v1", "binding": "ocr"}
    more = {"services": [service], "declared": {"requires": ["ocr/v1", "web/v2"]}}
    path.write_text(json.dumps(json.loads(path.read_text()) | more))


def test_every_reason_has_one_verdict() -> None:
    told = [verdicts.PASSING, verdicts.LASTING, verdicts.ASIDE, _OWN]
    assert set().union(*told) == REASONS, "place the new reason in doors/verdicts.py"
    assert sum(map(len, told)) == len(REASONS)


def test_the_docs_list_the_reasons_behind_each_code() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "scripting.md").read_text()
    for code, reasons in ((verdicts.LATER, verdicts.PASSING), (verdicts.PERSON, verdicts.LASTING)):
        (text,) = re.findall(rf"^{code} stands for (.*?)\.$", page, re.DOTALL | re.MULTILINE)
        assert set(re.findall("`([A-Za-z]+)`", text)) == reasons


@pytest.mark.parametrize(
    ("ready", "reason", "code"),
    [
        ("True", "ReconcileSuccess", 0),
        ("True", "LastGoodRetained", 0),
        ("Unknown", "Starting", 10),
        ("False", "CrashLoop", 10),
        ("False", "CapacityWait", 10),
        ("False", "Suspended", 11),
        ("False", "MissingRequirement", 11),
        ("False", "SandboxUnavailable", 11),
        ("False", "InternalError", 1),
    ],
)
def test_the_exit_code_says_who_can_mend_it(world: World, ready: str, reason: str, code: int) -> None:
    statuses(world.state, ready, reason)
    for name in ("agent/clerk", "a/clerk", "clerk"):
        assert world.handler("check", name).code == code
    told = json.loads(world.handler("check", "clerk", "-o", "json").out)
    assert (told["code"], told["ready"], told["reason"]) == (code, code == 0, reason)
    assert told["requires"][1] == {
        "interface": "web/v2",
        "binding": "nothing",
        "ready": "False",
        "reason": "MissingRequirement",
        "message": "it is not bound",
    }


def test_what_is_not_ready_is_said_with_what_it_rests_on(world: World) -> None:
    statuses(world.state, "False", "CrashLoop")
    ran = world.handler("check", "agent/clerk")
    assert ran.out == ""
    assert ran.err == (
        "handler: agent/clerk is not ready (try again later): CrashLoop: words\n"
        "  ocr/v1: ocr CrashLoop words\n"
        "  web/v2: nothing MissingRequirement it is not bound\n"
    )


def test_without_a_controller_a_person_must_act(world: World) -> None:
    statuses(world.state, "True", "ReconcileSuccess", controller=None)
    ran = world.handler("check", "agent/clerk")
    assert ran.code == 11
    assert "handlerd -c" in ran.err


def test_a_controller_that_is_starting_is_asked_again_later(world: World) -> None:
    one = {"type": "Synced", "status": "Unknown", "reason": "Starting", "message": ""}
    statuses(world.state, "True", "ReconcileSuccess", conditions=[one])
    assert world.handler("check", "agent/clerk").code == 10
    assert world.handler("check", "agent/maid").code == 10


def test_an_unknown_agent_is_twelve_and_the_known_ones_are_listed(world: World) -> None:
    statuses(world.state, "True", "ReconcileSuccess")
    ran = world.handler("check", "agent/maid")
    assert ran.code == 12
    assert "agents: clerk" in ran.err


@pytest.mark.parametrize(
    "words", [[], ["binding/ocr"], ["robot/x"], ["agent/clerk", "more"], [""], ["agent/"]]
)
def test_a_wrong_command_line_is_two(world: World, words: list[str]) -> None:
    statuses(world.state, "True", "ReconcileSuccess")
    assert world.handler("check", *words).code == 2


def test_a_status_that_cannot_be_read_is_a_fault_of_its_own(world: World) -> None:
    statuses(world.state, "True", "ReconcileSuccess")
    (world.state / "status/summary.json").write_text("{")
    assert world.handler("check", "agent/clerk").code == 1


def test_where_nothing_was_ever_applied_a_person_must_act(world: World) -> None:
    ran = world.handler("check", "agent/clerk")
    assert (ran.code, ran.out) == (11, "")
    assert "nothing was ever applied" in ran.err or "there is no configuration" in ran.err


def test_a_controller_that_has_said_nothing_yet_is_asked_again_later(world: World) -> None:
    world.state.mkdir(parents=True, exist_ok=True)
    world.config.mkdir(exist_ok=True)
    with lock.held(world.state):
        ran = world.handler("check", "agent/clerk", "-c", "config")
    assert ran.code == 10
    assert "is starting" in ran.err
