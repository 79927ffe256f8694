"""history, rollback and reconcile: golden words, what is asked of the controller, exit codes."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from reconciler.control import lock
from tests.doors import fakes
from tests.doors.conftest import Ran, World

Golden = Callable[[str, str], None]
BINDING = 'apiVersion = "handler.binding/v1"\nconnector = "ocr-tesseract"\n'


def entry(revision: str, **more: Any) -> dict[str, Any]:
    usual = {
        "digest": "sha256:" + "ab" * 32,
        "status": "Applied",
        "refused": 0,
        "count": 1,
        "seconds": 0.0214,
    }
    return {"revision": revision, **usual, "at": "", "also": [], **more}


HISTORY = [
    entry("main@sha1:4f2c1aa9d0"),
    entry("main@sha1:beef1234aa", status="AppliedInPart", refused=2, count=3, also=["main@sha1:77aa77aa77"]),
    entry("main@sha1:beef1234aa+dirty:00", digest="sha256:" + "cd" * 32),
]
ROLLBACK = {
    "revision": "main@sha1:4f2c1aa9d0",
    "digest": "sha256:" + "ab" * 32,
    "insteadOf": "main@sha1:beef1234aa",
    "insteadOfDigest": "sha256:" + "cd" * 32,
    "at": "",
}


def test_the_revisions_are_listed_with_what_became_of_them(world: World, golden: Golden) -> None:
    row = fakes.row("binding/ocr")
    fakes.write_status(world.state, row, history=[*HISTORY, HISTORY[0]])
    golden("history", world.handler("history").out)
    assert json.loads(world.handler("history", "-o", "json").out) == [*HISTORY, HISTORY[0]]
    assert world.handler("history", "-o", "name").out.splitlines()[0] == "main@sha1:4f2c1aa9d0"


def test_a_rollback_is_said_by_history_and_status(world: World, golden: Golden) -> None:
    one = {"type": "Synced", "status": "False", "reason": "RolledBack", "message": "a is served instead of b"}
    said = {"rollback": ROLLBACK, "lastAttemptedRevision": "main@sha1:beef1234aa", "conditions": [one]}
    fakes.write_status(world.state, fakes.row("binding/ocr"), history=HISTORY, **said)
    assert "Rolled back: main@4f2c1aa is served instead of main@beef123" in world.handler("history").out
    text = world.handler("status").out
    assert "source   RolledBack: a is served instead of b" in text
    assert "is not applied whole" not in text


@pytest.mark.parametrize(
    ("instead", "shown"),
    [
        ("main@sha1:4f2c1aa9d0", "main@4f2c1aa"),
        ("main@sha1:4f2c1aa9d0+dirty:beef", "main@4f2c1aa +edits"),
    ],
)
def test_revisions_that_read_the_same_are_told_by_their_contents(
    world: World, instead: str, shown: str
) -> None:
    told = {**ROLLBACK, "revision": instead[:20] + "+dirty:00" * ("+" in instead), "insteadOf": instead}
    fakes.write_status(world.state, fakes.row("binding/ocr"), history=[HISTORY[0], HISTORY[0]], rollback=told)
    ran = world.handler("history")
    assert (
        f"Rolled back: {shown} (content abababababab) is served instead of {shown} (content cdcdcdcdcdcd)"
        in ran.out
    )
    assert "'handler rollback CONTENT' names one" in ran.err
    with fakes.served(world.run / "control.sock", {"rollback": lambda params: report(rollback=told)}):
        assert "(content cdcdcdcdcdcd). It stays" in world.handler("rollback").err


def test_the_forms_of_an_object_are_listed(world: World) -> None:
    fakes.write_status(world.state, fakes.row("binding/ocr"))
    path = world.state / "status/binding/ocr.json"
    forms = [
        {
            "digest": "sha256:01",
            "status": "Refused",
            "at": "2001-09-09T01:46:40.000Z",
            "count": 1,
            "seconds": 0.0,
        },
        {
            "digest": "sha256:00",
            "status": "Applied",
            "at": "2001-09-09T01:46:40.000Z",
            "count": 2,
            "seconds": 1.5,
        },
    ]
    path.write_text(json.dumps(json.loads(path.read_text()) | {"history": forms}))
    lines = world.handler("history", "b/ocr").out.splitlines()
    assert lines[1].split()[:2] == ["01", "Refused"]
    assert lines[2].split()[:3] == ["*", "00", "Applied"]
    waiting = [{**forms[0], "digest": "sha256:00", "status": "Waiting", "seconds": 0.0024}]
    waiting.append({**forms[1], "digest": "sha256:02"})
    path.write_text(json.dumps(json.loads(path.read_text()) | {"history": waiting}))
    lines = world.handler("history", "b/ocr").out.splitlines()
    assert lines[1].split()[:2] == ["00", "Waiting"]
    assert "< 0.1 s" in lines[1]
    assert lines[2].split()[:3] == ["*", "02", "Applied"], "which serves until the other answers"
    assert world.handler("history", "binding/other").code == 1
    assert world.handler("history", "ocr").code == 2


def report(**more: Any) -> dict[str, Any]:
    change = {
        "verb": "change",
        "object": "binding/ocr",
        "lines": ["new instance"],
        "agents": [],
        "sessions": 0,
    }
    return {"revision": "r", "changes": [change], "refused": [], "rollback": ROLLBACK, **more}


@pytest.mark.parametrize(
    ("line", "to"),
    [("rollback", ""), ("rollback 4f2c", "4f2c"), ("rollback --to 4f2c", "4f2c"), ("rollback x --to x", "x")],
)
def test_the_controller_is_asked_to_roll_back(world: World, line: str, to: str) -> None:
    with fakes.served(world.run / "control.sock", {"rollback": lambda params: report()}) as asked:
        ran = world.handler(*line.split())
    assert ran.code == 0
    assert [one["params"] for one in asked] == [{"to": to}]
    assert "binding/ocr" in ran.out
    assert "Rolled back: main@4f2c1aa is served instead of main@beef123." in ran.err


def test_two_revisions_are_one_too_many(world: World) -> None:
    assert world.handler("rollback", "a", "--to", "b").code == 2


def test_what_is_not_kept_is_said_in_the_controllers_words(world: World) -> None:
    def refuse(params: Any) -> Any:
        raise fakes.FaultError("'x' is not kept; kept are: main@1")

    with fakes.served(world.run / "control.sock", {"rollback": refuse}):
        ran = world.handler("rollback", "x")
    assert (ran.code, ran.err) == (1, "handler: 'x' is not kept; kept are: main@1\n")


def test_a_rollback_in_which_something_is_refused_by_now_says_so_by_its_code(world: World) -> None:
    with fakes.served(world.run / "control.sock", {"rollback": lambda params: report(refused=["agent/a"])}):
        assert world.handler("rollback", "-o", "json").code == 1


@pytest.mark.slow
def test_without_a_controller_a_rollback_is_written_down(world: World) -> None:
    def handler(*words: str) -> Ran:
        return world.handler(*words, HANDLER_CONFIG=str(world.config))

    path = world.config / "bindings" / "ocr.toml"
    path.parent.mkdir()
    path.write_text(BINDING)
    assert handler("rollback").code == 1, "nothing was ever admitted"
    assert handler("apply").code == 0
    assert "no earlier revision" in handler("rollback").err
    path.write_text(BINDING + 'description = "Newer."\n')
    assert handler("apply").code == 0
    names = handler("history", "-o", "name").out.split()
    ran = handler("rollback")
    assert ran.code == 0
    assert "nothing runs until 'handlerd' does" in ran.err
    assert "Rolled back" in ran.err
    assert handler("history", "-o", "name").out.split() == names[::-1]
    assert "source   RolledBack" in handler("status").out
    assert json.loads((world.state / "rollback.json").read_text())["revision"] == names[1]
    assert handler("apply").code == 0
    assert not (world.state / "rollback.json").exists()
    assert "RolledBack" not in handler("status").out


def test_a_rollback_waits_for_no_lock(world: World) -> None:
    with lock.held(world.state):
        ran = world.handler("rollback")
    assert ran.code == 1
    assert "cannot roll back" in ran.err


def test_reconcile_asks_the_controller_and_tells_what_it_did(world: World) -> None:
    told = {"revision": "main@sha1:4f2c1aa9d0", "retried": ["ocr@12"], "waiting": ["binding/old"]}
    with fakes.served(world.run / "control.sock", {"reconcile": lambda params: told}) as asked:
        ran = world.handler("reconcile", "binding/ocr")
        assert json.loads(world.handler("reconcile", "-o", "json").out) == told
    assert [one["params"] for one in asked] == [{"object": "binding/ocr"}, {"object": ""}]
    assert ran.err == (
        "Looked: main@4f2c1aa is in force.\nTried again now: ocr@12.\n"
        "Held back until 'handler apply': binding/old.\n"
    )
    assert (ran.code, ran.out) == (0, "")
    assert world.handler("reconcile").code == 2, "it could not run, as apply and diff"
