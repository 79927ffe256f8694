"""diff and apply: golden words, what is asked of the controller, what happens without one, exit codes."""

import io
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.control import lock
from tests.doors import fakes
from tests.doors.conftest import World

Golden = Callable[[str, str], None]

_NONE: dict[str, Any] = {"removed": [], "added": []}


def change(verb: str, name: str, effect: str = "", **more: Any) -> dict[str, Any]:
    """A change of a report that says nothing but what is given."""
    lists = ("fields", "files", "bounds", "routes", "agents", "chains", "users", "sessions", "losses")
    sets = ("egress", "secrets", "programs", "read", "adds", "cost")
    known = {"verb": verb, "object": name, "effect": effect, "file": "", "instance": None, "held": None}
    return {**known, **{key: [] for key in lists}, **dict.fromkeys(sets, _NONE), "lastGood": False, **more}


class Terminal(io.StringIO):
    """A standard input that a person types at."""

    def isatty(self) -> bool:
        return True


_SESSIONS = [
    {
        "session": "s1",
        "agent": "reviewer",
        "revision": "main@sha1:4f2c1aa00",
        "instances": ["ocr-mistral@a1"],
    },
    {"session": "s2", "agent": "reviewer", "revision": None, "instances": ["ocr-mistral@a1"]},
]
_CHANGES = [
    change(
        "change",
        "agent/reviewer",
        "next session",
        fields=[{"key": "services.ocr", "from": '"ocr-mistral"', "to": '"ocr-tesseract"'}],
        egress={"removed": ["api.mistral.ai:443"], "added": []},
        secrets={"removed": ["api_key (keyring 1f3a9c02)"], "added": []},
        agents=["reviewer"],
        sessions=["s1", "s2"],
    ),
    change(
        "change",
        "binding/ocr-mistral",
        "new instance",
        fields=[{"key": "settings.model", "from": '"mistral-ocr-2505"', "to": '"mistral-ocr-latest"'}],
        instance={"from": "ocr-mistral@a1", "to": "ocr-mistral@b2", "making": []},
        agents=["reviewer"],
        sessions=["s1", "s2"],
    ),
    change("remove", "binding/old-ocr", "no instance"),
    change("add", "agent/new", "opens sessions", agents=["new"]),
]
_LOST = change(
    "remove",
    "binding/ocr-mistral",
    "stop",
    losses=[
        {"sort": "session", "name": "s1", "why": "its calls to binding/ocr-mistral end"},
        {"sort": "instance", "name": "ocr-mistral@a1", "why": "it stops, and nothing takes its place"},
    ],
)
_PROBLEM = {
    "code": "A203",
    "severity": "error",
    "file": "agents/clerk.toml",
    "line": 4,
    "column": 12,
    "what": "needs ocr/v1, and nothing is bound to it",
    "why": "each required interface has a binding before a session starts",
    "mend": "write ocr = 'ocr-tesseract' under [services]",
}
_WARNING = {**_PROBLEM, "severity": "warning", "code": "S216"}


def report(
    *problems: Mapping[str, Any], changes: list[Any] | None = None, ready: bool = True
) -> dict[str, Any]:
    found = _CHANGES if changes is None else changes
    return {
        "revision": "r",
        "changes": found,
        "agents": {"reached": ["new", "reviewer"], "untouched": ["auditor"]} if found else {},
        "sessions": _SESSIONS if found else [],
        "problems": list(problems),
        "ready": ready,
        "waiting": [],
    }


def control(world: World, answer: Mapping[str, Any]) -> Any:
    done = {**answer, "applied": True}
    told = {"ready": False, "waiting": {"binding/ocr": "it is being installed"}}
    answers = {"diff": lambda p: answer, "apply": lambda p: done, "ready": lambda p: told}
    return fakes.served(world.run / "control.sock", answers)


def test_a_diff_says_what_happens_to_what_and_whom_it_touches(world: World, golden: Golden) -> None:
    with control(world, report()):
        ran = world.handler("diff")
        assert (ran.code, ran.err) == (1, "")
        golden("diff", ran.out)
        golden("diff-colour", world.handler("plan", "--color", "always").out)
        assert json.loads(world.handler("diff", "-o", "json").out) == report()


@pytest.mark.parametrize(
    ("answer", "code", "detailed"),
    [
        (report(changes=[]), 0, 0),
        (report(_WARNING, changes=[]), 0, 0),
        (report(), 1, 2),
        (report(_PROBLEM), 2, 1),
        (report(_PROBLEM, changes=[]), 2, 1),
    ],
)
def test_the_exit_codes_of_diff(world: World, answer: dict[str, Any], code: int, detailed: int) -> None:
    with control(world, answer):
        assert world.handler("diff").code == code
        assert world.handler("diff", "--detailed-exitcode").code == detailed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "line", "code"),
    [
        (report(), "apply", 0),
        (report(ready=False), "apply", 0),
        (report(), "apply --wait", 0),
        (report(ready=False), "apply --wait --timeout 1", 3),
        (report(_PROBLEM), "apply", 1),
        (report(_PROBLEM, ready=False), "apply --wait", 1),
        (report(_WARNING), "apply", 0),
        (report(), "apply --dry-run", 0),
        (report(_PROBLEM), "apply --dry-run", 1),
        (report(), "apply --atomic", 0),
        (report(_PROBLEM), "apply --atomic", 1),
    ],
)
def test_the_exit_codes_of_apply(world: World, answer: dict[str, Any], line: str, code: int) -> None:
    fakes.write_status(world.state, fakes.row("binding/ocr", "Unknown", "Starting"))
    with control(world, answer) as asked:
        ran = world.handler(*line.split())
    assert ran.code == code
    methods = [message["method"] for message in asked]
    if "--dry-run" in line or (code == 1 and "--atomic" in line):
        assert methods == ["diff"]
    else:
        assert methods[:2] == ["diff", "apply"]
        assert ("ready" in methods) is (code == 3)
    if code == 3:
        assert "not ready within 1 s: binding/ocr" in ran.err
        assert ran.err.count("waiting for binding/ocr: it is being installed") == 1


def test_what_answered_while_it_was_waited_for_is_not_told_to_be_late(world: World) -> None:
    late = {"lastGood": [{"object": "binding/rapid", "why": "it is being started"}]}
    answer = {**report(changes=[], ready=False), **late, "applied": True}
    answers = {"diff": lambda p: answer, "apply": lambda p: answer, "ready": lambda p: {"ready": True}}
    with fakes.served(world.run / "control.sock", answers):
        told = world.handler("diff")
        assert "! binding/rapid: not in use yet, what served before still does" in told.out
        assert "admitted already" in told.err
        ran = world.handler("apply", "--wait")
        quiet = world.handler("-q", "apply", "--wait")
    assert (ran.code, ran.out) == (0, "What was saved before serves now.\n")
    assert "In force and serving" in ran.err
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


_HELD = [
    {"object": f"binding/{name}", "reason": "PruneBlocked", "message": "all 8 bindings would go at once: do"}
    for name in "abcdefgh"
]
_WAITING = [
    {"object": "binding/x", "reason": "AwaitingApply", "message": "its file is gone: `handler apply`"}
]


@pytest.mark.parametrize(
    ("held", "line", "code"),
    [
        (_HELD, "apply", 1),
        (_HELD, "apply --wait", 1),
        (_HELD, "apply --atomic", 1),
        (_HELD, "apply --dry-run", 1),
        (_HELD, "diff", 2),
        (_HELD, "diff --detailed-exitcode", 1),
        (_WAITING, "apply", 0),
        (_WAITING, "apply --dry-run", 0),
    ],
)
def test_a_removal_that_is_blocked_counts_as_refused(
    world: World, held: list[Any], line: str, code: int
) -> None:
    with control(world, {**report(changes=[]), "held": held}) as asked:
        assert world.handler(*line.split()).code == code
    assert ("apply" in {message["method"] for message in asked}) is (line in ("apply", "apply --wait"))


def test_what_stays_in_force_is_shown_with_one_reason_for_many(world: World, golden: Golden) -> None:
    with control(world, {**report(changes=[]), "held": _HELD + _WAITING}):
        golden("apply-blocked", world.handler("apply").out)


def test_everything_is_removed_only_by_the_flag(world: World) -> None:
    with control(world, report(changes=[])) as asked:
        for line in ("apply", "apply --dry-run", "apply --prune=all", "apply --prune all --dry-run"):
            assert world.handler(*line.split()).code == 0
        assert world.handler("apply", "--prune=some").code == 2
    assert [message["params"].get("prune") for message in asked] == [None] * 3 + ["all"] * 3


@pytest.mark.slow
def test_without_a_controller_a_folder_that_was_emptied_is_refused_too(world: World) -> None:
    assert world.handler("init", "config").code == 0
    assert world.handler("apply", "-c", "config").code == 0
    for folder in ("bindings", "agents", "projects"):
        shutil.rmtree(world.config / folder)
    refused = world.handler("apply", "-c", "config")
    assert refused.code == 1
    assert "`handler apply --prune=all`" in refused.out
    assert world.handler("diff", "-c", "config").code == 2
    kept = world.handler("get", "bindings", "-c", "config")
    assert world.handler("apply", "--prune=all", "-c", "config").code == 0
    assert world.handler("diff", "-c", "config").code == 0
    assert world.handler("get", "bindings", "-c", "config").out != kept.out


@pytest.mark.parametrize("line", ["apply", "apply --no-input", "apply --wait", "apply --atomic"])
def test_what_stops_serving_somebody_is_not_done_where_nobody_can_be_asked(
    world: World, golden: Golden, line: str
) -> None:
    with control(world, report(changes=[_LOST])) as asked:
        ran = world.handler(*line.split())
    assert (ran.code, ran.out) == (2, "")
    assert [message["method"] for message in asked] == ["diff"]
    golden("apply-loses", ran.err)


def test_with_yes_it_is_done_unasked(world: World) -> None:
    with control(world, report(changes=[_LOST])) as asked:
        assert world.handler("apply", "-y", "--no-input").code == 0
    assert [message["method"] for message in asked] == ["apply"]


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("yes", 0), ("n", 1), ("", 1)])
def test_at_a_terminal_a_person_is_asked_who_loses_what(
    world: World, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    monkeypatch.setattr(io, "StringIO", Terminal)
    with control(world, report(changes=[_LOST])) as asked:
        ran = world.handler("apply", stdin=f"{answer}\n")
    assert ran.code == code
    assert "This stops serving 2 users:\n  session s1 of reviewer: its calls" in ran.err
    assert ("apply" in [message["method"] for message in asked]) is (code == 0)
    assert ("nothing was applied" in ran.err) is (code == 1)


def test_a_removal_that_nobody_feels_is_not_asked_about(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(io, "StringIO", Terminal)
    with control(world, report()):
        ran = world.handler("apply")
    assert (ran.code, ran.err) == (0, "")


def test_problems_come_with_their_mend(world: World, golden: Golden) -> None:
    with control(world, report(_PROBLEM)):
        golden("apply-refused", world.handler("apply").out)


@pytest.mark.slow
def test_without_a_controller_the_same_is_decided_here_and_nothing_runs(world: World, golden: Golden) -> None:
    assert world.handler("init", "config").code == 0
    planned = world.handler("diff", "-c", "config")
    assert planned.code == 1
    assert not world.state.exists()
    golden("diff-first", planned.out)
    applied = world.handler("apply", "-c", "config")
    assert applied.code == 0
    assert "nothing runs until 'handlerd' does" in applied.err
    assert world.handler("diff", "-c", "config").code == 0
    status = world.handler("status", "-c", "config")
    assert status.code == 1
    assert "nothing runs until handlerd does" in status.out
    assert world.handler("apply", "--wait", "--timeout", "1", "-c", "config").code == 3


@pytest.mark.slow
def test_a_controller_that_does_not_answer_yet_is_told(world: World) -> None:
    assert world.handler("init", "config").code == 0
    with lock.held(world.state):
        ran = world.handler("apply", "-c", "config")
    assert (ran.code, ran.out) == (2, "")
    assert f"held by process {os.getpid()}" in ran.err


@pytest.mark.slow
def test_a_configuration_that_is_not_there_exits_2(world: World) -> None:
    for line in ("diff", "apply", "validate"):
        ran = world.handler(line, "-c", "nowhere")
        assert (ran.code, ran.out) == (2, "")
        assert "nowhere" in ran.err
        assert "fault of its own" not in ran.err


@pytest.mark.slow
def test_a_broken_file_stops_nothing_else(world: World, config_with_a_break: Path) -> None:
    ran = world.handler("apply", "-c", "config")
    assert ran.code == 1
    assert "bindings/half.toml" in ran.out
    told = json.loads(world.handler("status", "-c", "config", "-o", "json").out)
    assert "reader" in {one["name"] for one in told["objects"]}
    for line in ("status", "diff", "get all", "validate", "session list", "doctor"):
        assert "Traceback" not in world.handler(*line.split(), "-c", "config").err


@pytest.fixture
def config_with_a_break(world: World) -> Path:
    assert world.handler("init", "config").code == 0
    (world.config / "bindings/half.toml").write_text("connector = [\n")
    return world.config
