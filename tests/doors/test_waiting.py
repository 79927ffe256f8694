"""wait: what counts as reached, what ends it for good, what is waited for; by files alone."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from reconciler.doors import usage, waiting
from reconciler.doors.waiting import Wish
from tests.doors import fakes
from tests.doors.conftest import World


def statuses(state: Path, ready: str, reason: str, synced: str = "True", **more: Any) -> None:
    """One agent's status; ``more`` goes into its own file."""
    fakes.write_status(state, fakes.row("agent/clerk", ready, reason, synced=synced), **more.pop("whole", {}))
    path = state / "status/agent/clerk.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | more))


def refused() -> dict[str, Any]:
    one = {
        "type": "Admitted",
        "status": "False",
        "reason": "UnresolvedReference",
        "message": "no such binding",
    }
    ready = {"type": "Ready", "status": "True", "reason": "ReconcileSuccess", "message": ""}
    return {"conditions": [one, ready], "generation": "sha256:01"}


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("agent/clerk", "Ready", ""), Wish("agent", "clerk", "Ready", "True")),
        (("a/clerk", "ready=false", "main@ab"), Wish("agent", "clerk", "Ready", "False", "main@ab")),
        (("if/ocr/v1", "Admitted", ""), Wish("interface", "ocr/v1", "Admitted", "True")),
        (("binding/x", "deleted", ""), Wish("binding", "x", "Deleted", "True")),
        (("binding/x", "delete", ""), Wish("binding", "x", "Deleted", "True")),
        (("configuration", "Synced", ""), Wish("configuration", "", "Synced", "True")),
        (("configuration", "", ""), Wish("configuration", "", "Synced", "True")),
        (("agent/clerk", "", ""), Wish("agent", "clerk", "Ready", "True")),
    ],
)
def test_the_words_of_a_wish(words: tuple[str, str, str], wanted: Wish) -> None:
    assert waiting.wish(*words) == wanted


@pytest.mark.parametrize(
    "words",
    [
        ("clerk", "Ready"),
        ("agent/", "Ready"),
        ("robot/x", "Ready"),
        ("agent/x", "Nice"),
        ("agent/x", "Ready=no"),
        ("agent/x", "Deleted=False"),
        ("configuration", "Ready"),
        ("configuration", "Deleted"),
    ],
)
def test_words_that_are_no_wish(words: tuple[str, str]) -> None:
    with pytest.raises(usage.Usage):
        waiting.wish(*words, "")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("wait agent/clerk", 0),
        ("wait agent/clerk --for Synced", 0),
        ("wait agent/clerk --revision main@4f2c1aa", 0),
        ("wait agent/clerk --revision 4f2c1aa9d0", 0),
        ("wait agent/clerk --revision main@sha1:4f2c1aa9d0", 0),
        ("wait agent/clerk --revision other@4f2c1aa --timeout 0.2", 3),
        ("wait agent/clerk --revision beef1234 --timeout 0.2", 3),
        ("wait agent/clerk --for Ready=False --timeout 0.2", 3),
        ("wait agent/maid --timeout 0.2", 3),
        ("wait agent/maid --for Deleted", 0),
        ("wait agent/clerk --for Deleted --timeout 0.2", 3),
        ("wait agent/clerk --for Flapping --timeout 0.2", 3),
        ("wait clerk", 2),
        ("wait agent/clerk --for Nice", 2),
    ],
)
def test_the_exit_codes_of_wait(world: World, line: str, code: int) -> None:
    statuses(world.state, "True", "ReconcileSuccess")
    assert world.handler(*line.split()).code == code


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (("False", "Starting"), 3, "is not Ready within 0.2 s"),
        (("Unknown", "Starting"), 3, "is not Ready"),
        (("False", "CrashLoop"), 3, "is not Ready"),
        (("False", "Suspended"), 1, "will not be Ready by itself: Suspended"),
        (("False", "MissingRequirement"), 1, "will not be Ready by itself"),
        (("True", "LastGoodRetained", "False"), 3, "an earlier form serves"),
    ],
)
def test_what_a_person_must_mend_ends_the_wait(
    world: World, status: tuple[str, ...], code: int, words: str
) -> None:
    statuses(world.state, *status)
    ran = world.handler("wait", "agent/clerk", "--timeout", "0.2")
    assert (ran.code, ran.out) == (code, "")
    assert words in ran.err


@pytest.mark.parametrize(("reason", "code"), [("PruneBlocked", 1), ("AwaitingApply", 1), ("Flapping", 3)])
def test_a_removal_that_waits_for_a_person_ends_the_wait(world: World, reason: str, code: int) -> None:
    statuses(world.state, "True", "ReconcileSuccess", "False")
    path = world.state / "status/agent/clerk.json"
    found = json.loads(path.read_text())
    for one in found["conditions"]:
        if one["type"] == "Synced":
            one["reason"] = reason
    path.write_text(json.dumps(found))
    ran = world.handler("wait", "agent/clerk", "--for", "Deleted", "--timeout", "0.2")
    assert ran.code == code
    assert (f"will not be Deleted by itself: {reason}" in ran.err) is (code == 1)


def test_a_refused_newest_form_ends_the_wait_although_the_last_good_one_serves(world: World) -> None:
    statuses(world.state, "True", "ReconcileSuccess", **refused())
    ran = world.handler("wait", "agent/clerk")
    assert ran.code == 1
    assert "its newest form is refused: no such binding" in ran.err
    ran = world.handler("wait", "agent/clerk", "--revision", "beef1234", "--timeout", "0.2")
    assert ran.code == 3, "it may be mended by the revision that is waited for"


def test_without_a_controller_nothing_is_ready_but_what_files_say_counts(world: World) -> None:
    statuses(world.state, "True", "ReconcileSuccess", whole={"controller": None})
    ran = world.handler("wait", "agent/clerk", "--timeout", "0.2")
    assert ran.code == 3
    assert "no controller runs" in ran.err
    assert world.handler("wait", "agent/maid", "--for", "Deleted").code == 0


def test_where_there_is_no_configuration_the_wait_is_an_error(world: World) -> None:
    ran = world.handler("wait", "agent/clerk", "-c", str(world.root / "nowhere"))
    assert ran.code == 2
    assert "there is no configuration" in ran.err


def test_the_whole_configuration_is_waited_for_by_its_own_conditions(world: World) -> None:
    synced = {"type": "Synced", "status": "True", "reason": "ReconcileSuccess", "message": ""}
    statuses(world.state, "False", "CrashLoop", whole={"conditions": [synced]})
    assert world.handler("wait", "configuration", "--for", "Synced").code == 0
    synced |= {"status": "False", "reason": "RolledBack"}
    statuses(world.state, "False", "CrashLoop", whole={"conditions": [synced]})
    assert world.handler("wait", "configuration", "--for", "Synced").code == 1


@pytest.mark.parametrize("subject", ["configuration", "agent/clerk"])
@pytest.mark.parametrize(
    ("reason", "revision", "code"),
    [
        ("SourceRefused", "beef1234", 1),
        ("SourceRefused", "main@sha1:beef1234aa", 1),
        ("SourceRefused", "cafe1234", 3),  # a later commit may come
        ("RolledBack", "beef1234", 1),
        ("SourceBusy", "beef1234", 3),  # it passes
    ],
)
def test_a_revision_that_the_source_holds_and_nobody_serves_ends_the_wait_for_it(
    world: World, subject: str, reason: str, revision: str, code: int
) -> None:
    refused = {"type": "Synced", "status": "False", "reason": reason, "message": "not signed; sign it"}
    whole = {"conditions": [refused], "lastAttemptedRevision": "main@sha1:beef1234aa"}
    statuses(world.state, "True", "ReconcileSuccess", whole=whole)
    line = ("wait", subject, "--for", "Synced", "--revision", revision, "--timeout", "0.2")
    ran = world.handler(*line)
    assert ran.code == code
    assert f"{reason}: not signed; sign it" in ran.err, "said in either case"
    assert ("will not be Synced" in ran.err) is (code == 1)


def test_a_change_that_comes_later_is_seen(world: World) -> None:
    statuses(world.state, "Unknown", "Starting")
    asked = waiting.wish("agent/clerk", "Ready", "")

    def later() -> None:
        time.sleep(0.2)
        statuses(world.state, "True", "ReconcileSuccess")

    thread = threading.Thread(target=later)
    thread.start()
    ran = world.handler("wait", "agent/clerk", "--timeout", "60", "-o", "json")
    thread.join()
    assert ran.code == 0
    assert json.loads(ran.out)["condition"] == asked.condition


def test_a_file_that_cannot_be_read_now_is_waited_for(world: World) -> None:
    statuses(world.state, "True", "ReconcileSuccess")
    (world.state / "status/agent/clerk.json").write_text("{")
    ran = world.handler("wait", "agent/clerk", "--timeout", "0.2")
    assert ran.code == 3
    assert "it is not JSON" in ran.err


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("wait agent/maid", 2, "there is no agent/maid in the configuration"),
        ("wait agent/maid --revision main@4f2c1aa --timeout 0.4", 3, "there is no agent/maid"),
        ("wait agent/clerk --for Flapping --timeout 0.4", 3, "nothing was observed yet"),
    ],
)
def test_a_wait_for_what_there_is_not_does_not_last(
    world: World, monkeypatch: pytest.MonkeyPatch, line: str, code: int, words: str
) -> None:
    monkeypatch.setattr(waiting, "_HOPE_S", 0.05)
    statuses(world.state, "True", "ReconcileSuccess")
    ran = world.handler(*line.split())
    assert ran.code == code, ran
    assert words in ran.err


@pytest.mark.slow
def test_a_wait_that_no_controller_can_end_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_HOPE_S", 0.05)
    ran = world.handler("-c", str(world.config), "wait", "agent/clerk")
    assert ran.code == 2
    assert "nothing was ever applied" in ran.err
    statuses(world.state, "True", "ReconcileSuccess", whole={"controller": None})
    ran = world.handler("wait", "agent/clerk")
    assert ran.code == 2
    assert "no controller runs ('handlerd' starts one)" in ran.err
