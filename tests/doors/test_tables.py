"""status, get, describe: golden screens, exit codes, and words that a terminal does not obey."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from reconciler.doors import standing, tables, usage
from reconciler.model.names import KIND_WORDS
from tests.doors import fakes
from tests.doors.conftest import World

Golden = Callable[[str, str], None]


def _in_a_minute(text: str) -> str:
    """Ages of some seconds, more where the machine is busy, as one."""
    return re.sub(r"\b[1-9][0-9]s\b", "1m", text)


_MIXED = (
    fakes.row(
        "agent/clerk",
        "False",
        "MissingRequirement",
        message="needs ocr/v1, nothing is bound",
        line=4,
        column=12,
    ),
    fakes.row("agent/reviewer"),
    fakes.row("agent/later", "False", "Suspended", message="holiday"),
    fakes.row(
        "binding/ocr-fast",
        synced="False",
        late="'descripton' is not a key of a binding",
        reason="Idle",
        message="the first call starts it",
        line=6,
        column=1,
    ),
    fakes.row(
        "binding/ocr-mistral-perso", reason="Idle", usedBy=["agent/reviewer", "agent/clerk", "agent/later"]
    ),
    fakes.row("binding/whisper-local", "Unknown", "Starting", message="loading the model (41 s)"),
    fakes.row(
        "binding/seen-never", "Unknown", "ReconcileSuccess", message="nothing runs until handlerd does"
    ),
)
_STRAY = {
    "code": "S201",
    "severity": "error",
    "file": "bindings/half.toml",
    "line": 3,
    "column": 1,
    "what": "a merge is not finished here",
    "why": "w",
    "mend": "m",
}
_INSTANCE = {
    "name": "ocr-mistral-perso@a1f3c9000000",
    "binding": "ocr-mistral-perso",
    "phase": "ready",
    "pid": 4711,
    "restarts": 1,
    "calls": 2,
    "message": "",
}


def test_one_screen_says_what_is_not_ready_why_and_where(world: World, golden: Golden) -> None:
    fakes.write_status(world.state, *_MIXED, problems=[_STRAY], instances=[_INSTANCE])
    ran = world.handler("status", "-c", "config")
    assert ran.code == 1
    golden("status-mixed", ran.out)
    golden("status-mixed-wide", world.handler("status", "-c", "config", "-o", "wide").out)
    golden("status-mixed-colour", world.handler("status", "-c", "config", "--color", "always").out)


def test_when_everything_is_ready_it_exits_0(world: World, golden: Golden) -> None:
    fakes.write_status(world.state, fakes.row("agent/reviewer"), fakes.row("binding/ocr", reason="Running"))
    ran = world.handler("status", "-c", "config")
    assert ran.code == 0
    golden("status-ready", ran.out)


def test_what_drifted_is_a_row_of_its_own_with_the_way_out_and_is_counted(world: World) -> None:
    why = (
        "HarnessEdited: ~/x/.mcp.json: it was changed · `handler render clerk --write --force` puts it right"
    )
    rows = [fakes.row(f"binding/b{number}") for number in range(60)]
    fakes.write_status(world.state, fakes.row("agent/clerk", drifted=why), *rows)
    ran = world.handler("status", "-c", "config")
    assert ran.code == 0
    assert f"! agent/clerk   Ready   {why}   agents/clerk.toml" in ran.out
    assert ran.out.count("60 bindings") == 2  # of the header, and of what is folded
    assert ran.out.endswith("All 61 objects are ready; 1 object drifted.\n")


def test_many_ready_objects_are_folded_and_the_others_are_not(world: World, golden: Golden) -> None:
    many = [fakes.row(f"binding/b{number}") for number in range(60)]
    fakes.write_status(world.state, *many, _MIXED[0])
    golden("status-folded", world.handler("status", "-c", "config").out)
    assert world.handler("status", "-c", "config", "-o", "wide").out.count("binding/b") == 60


def test_without_a_controller_the_age_of_the_files_is_said_and_it_exits_1(
    world: World, golden: Golden
) -> None:
    gone = {**fakes.me(), "startTime": 1}
    fakes.write_status(world.state, fakes.row("agent/reviewer"), controller=gone)
    ran = world.handler("status", "-c", "config")
    assert ran.code == 1
    golden("status-no-controller", ran.out)
    other_boot = {**fakes.me(), "bootId": "another"}
    fakes.write_status(world.state, fakes.row("agent/reviewer"), controller=other_boot)
    assert "no controller runs" in world.handler("status").out


def test_a_lock_of_a_living_process_says_that_the_controller_lives(world: World) -> None:
    fakes.write_status(world.state, fakes.row("agent/reviewer"), controller=None)
    assert world.handler("status").code == 1
    me = fakes.me()
    (world.state / "lock").write_text(f"{me['pid']} {me['startTime']}\n")
    assert world.handler("status").code == 0
    (world.state / "lock").write_text(f"{me['pid']} {me['startTime'] + 1}\n")
    assert world.handler("status").code == 1


def test_a_newer_tree_and_an_unreadable_source_are_told(world: World, golden: Golden) -> None:
    condition = {
        "type": "Synced",
        "status": "False",
        "reason": "SourceUnavailable",
        "message": "config: no such folder",
    }
    fakes.write_status(
        world.state,
        fakes.row("agent/reviewer"),
        lastAttemptedRevision="main@sha1:999aaabbb+dirty:123",
        conditions=[condition],
    )
    golden("status-source", world.handler("status", "-c", "config").out)


def test_a_refused_commit_moves_no_time_and_is_told_in_short_names(world: World) -> None:
    refused, applied = f"main@sha1:{'999aaab' + '0' * 33}", f"main@sha1:{'4f2c1aa' + '0' * 33}"
    at = (datetime.now(UTC) - timedelta(hours=3, seconds=5)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    condition = {"type": "Synced", "status": "False", "reason": "SourceRefused"}
    fakes.write_status(
        world.state,
        fakes.row("agent/reviewer"),
        lastAttemptedRevision=refused,
        lastAppliedRevision=applied,
        conditions=[{**condition, "message": f"{refused} is refused: it is not signed; {'c' * 40} was"}],
        history=[{"revision": applied, "at": at}],
    )
    out = world.handler("status", "-c", "config").out
    assert "main@4f2c1aa   applied 3h ago" in out
    assert "newest   main@999aaab is not applied\n" in out
    assert "source   SourceRefused: main@999aaab is refused: it is not signed; ccccccc was\n" in out


def test_what_is_to_be_said_of_a_source_that_is_applied_is_told(world: World) -> None:
    note = {
        "type": "Synced",
        "status": "True",
        "reason": "ReconcileSuccess",
        "message": "abc is no descendant",
    }
    committed = {"lastAppliedRevision": "main@sha1:999aaabbb", "dirty": True}
    fakes.write_status(world.state, fakes.row("agent/reviewer"), conditions=[note], **committed)
    out = world.handler("status", "-c", "config").out
    assert "source   abc is no descendant\n" in out
    assert "edits    the work tree differs: what is not committed is not applied\n" in out


def test_a_first_source_that_cannot_be_read_is_no_empty_configuration(world: World) -> None:
    refused = {"type": "Synced", "status": "False", "reason": "SourceUnavailable", "message": "no"}
    fakes.write_status(world.state, conditions=[refused], lastAppliedRevision="")
    done = world.handler("status", "-c", "config")
    assert done.code == 1
    assert "Nothing is in force yet." in done.out
    assert "empty" not in done.out


def test_nothing_applied_yet_exits_2_and_says_what_to_do(world: World) -> None:
    ran = world.handler("status", "-c", "config")
    assert (ran.code, ran.out) == (2, "")
    assert "nothing was ever applied" in ran.err
    assert "handlerd -c" in ran.err


def test_get_shows_a_table_of_one_kind(world: World, golden: Golden) -> None:
    fakes.write_status(world.state, *_MIXED, instances=[_INSTANCE])
    for line in (
        "get agents",
        "get b",
        "get b -o wide",
        "get binding ocr-fast",
        "get all -o name",
        "get inst",
    ):
        ran = world.handler(*line.split())
        assert ran.code == 0
        golden(line.replace(" ", "-"), _in_a_minute(ran.out))
    assert [one["name"] for one in json.loads(world.handler("get", "a", "-o", "json").out)] == [
        "clerk",
        "reviewer",
        "later",
    ]
    assert world.handler("get", "binding/ocr-fast", "-o", "name").out == "binding/ocr-fast\n"


@pytest.mark.parametrize(
    "line", ["get binding nothing", "get inst nothing", "describe agent/nobody", "get b ../x"]
)
def test_an_object_that_is_not_there_exits_1(world: World, line: str) -> None:
    fakes.write_status(world.state, *_MIXED)
    ran = world.handler(*line.split())
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("handler: ")


def test_describe_says_everything_about_one_object(world: World, golden: Golden) -> None:
    problem = {
        **_STRAY,
        "code": "A203",
        "file": "agents/clerk.toml",
        "what": "needs ocr/v1",
        "mend": "bind it",
    }
    fakes.write_status(world.state, {**_MIXED[0], "problems": [problem]})
    ran = world.handler("describe", "a/clerk")
    assert ran.code == 0
    golden("describe-agent", _in_a_minute(ran.out))
    assert json.loads(world.handler("describe", "agent/clerk", "-o", "json").out)["name"] == "clerk"


_DECLARED = {
    "description": "reads what comes in",
    "project": "site",
    "requires": ["ocr/v1"],
    "scope": [{"path": "~/inbox", "access": "create"}, {"path": "/srv/mail", "access": "read"}],
    "harness": "none",
    "connector": None,
    "settings": {},
    "implements": [],
}
_SERVICE = {
    "interface": "ocr/v1",
    "binding": "ocr-mistral-perso",
    "instance": "ocr-mistral-perso@a1f3c9000000",
    "tools": None,
    "maxCalls": None,
    "file": "projects/site.toml",
    "line": 14,
    "column": 7,
    "field": "services.ocr",
}


def test_describe_says_what_answers_an_agent_and_which_line_chose_it(world: World, golden: Golden) -> None:
    tts = {**_SERVICE, "interface": "tts/v1", "binding": "voice", "instance": None, "field": "services.tts"}
    tts |= {"file": "agents/clerk.toml", "tools": ["tts_say"], "maxCalls": 5}
    clerk = fakes.row("agent/clerk", declared=_DECLARED, services=[_SERVICE, tts])
    fakes.write_status(world.state, clerk, instances=[_INSTANCE])
    folder = world.state / "sessions"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps({"session": "a", "agents": [{"agent": "clerk"}]}))
    (folder / "b.json").write_text(json.dumps({"session": "b", "agents": [{"agent": "other"}]}))
    (folder / "c.json").write_text("{")
    golden("describe-agent-services", _in_a_minute(world.handler("describe", "agent/clerk").out))


def test_describe_shows_the_end_of_the_log_of_a_binding_that_is_not_ready(
    world: World, golden: Golden
) -> None:
    declared = {**_DECLARED, "project": None, "requires": [], "scope": [], "harness": None}
    declared |= {"connector": "own", "settings": {"model": "fast", "deep": True}}
    failed = {
        **_INSTANCE,
        "name": "own@1",
        "binding": "own",
        "phase": "failed",
        "pid": None,
        "lastExit": "exit 1",
    }
    row = fakes.row("binding/own", "False", "CrashLoop", message="it ended", declared=declared)
    fakes.write_status(world.state, row, fakes.row("binding/fine"), instances=[failed, _INSTANCE])
    log = world.state / "logs/own.log"
    log.parent.mkdir()
    log.with_name("own.log.1").write_text("".join(f"older {number}\n" for number in range(9)))
    log.write_text("Traceback:\n  KeyError: \x1b[2Jpath\n")
    golden("describe-binding-failed", _in_a_minute(world.handler("describe", "b/own").out))
    fine = world.handler("describe", "b/fine").out
    assert "logs/fine.log (nothing is written yet)" in fine
    assert "The log ends with" not in fine


@pytest.mark.parametrize(
    ("seen", "shown", "hidden"),
    [
        ({"phase": "idle", "pid": 7, "lastExit": "signal 15"}, "running", "signal"),
        ({"phase": "declared", "pid": None, "lastExit": "signal 15"}, "stopped", "signal"),
        ({"phase": "failed", "pid": None, "lastExit": "exit 1"}, "exit 1", "stopped"),
        ({"phase": "building", "pid": None, "message": "fetching"}, "building", "stopped"),
    ],
)
def test_an_instance_is_told_in_words_for_people(
    world: World, seen: dict[str, object], shown: str, hidden: str
) -> None:
    fakes.write_status(world.state, instances=[{**_INSTANCE, "calls": 0, **seen}])
    out = world.handler("get", "instances").out
    assert shown in out
    assert hidden not in out


def test_the_calls_of_instances_are_those_of_this_moment_where_a_controller_answers(world: World) -> None:
    fakes.write_status(world.state, instances=[{**_INSTANCE, "calls": 0}])
    assert json.loads(world.handler("get", "instances", "-o", "json").out)[0]["calls"] == 0
    told = {"calls": {_INSTANCE["name"]: 3}}
    me = fakes.me()
    (world.state / "lock").write_text(f"{me['pid']} {me['startTime']}\n")
    with fakes.served(world.run / "control.sock", {"hello": lambda params: told}):
        assert json.loads(world.handler("get", "instances", "-o", "json").out)[0]["calls"] == 3


def test_a_controller_that_has_not_spoken_yet_is_starting(world: World) -> None:
    me = fakes.me()
    world.state.mkdir()
    (world.state / "lock").write_text(f"{me['pid']} {me['startTime']}\n")
    ran = world.handler("status", "-c", "config")
    assert (ran.code, ran.out) == (2, "")
    assert f"(pid {me['pid']}) is starting" in ran.err
    assert "handlerd" not in ran.err


def test_a_controller_that_has_not_looked_yet_is_starting(world: World) -> None:
    starting = {"type": "Synced", "status": "Unknown", "reason": "Starting", "message": ""}
    fakes.write_status(world.state, conditions=[starting])
    ran = world.handler("status")
    assert ran.code == 1
    assert "The controller is starting" in ran.out
    fakes.write_status(world.state, conditions=[starting], controller=None)
    assert "starting" not in world.handler("status").out


def test_describe_without_a_controller_says_how_old_it_is(world: World) -> None:
    clerk = fakes.row("agent/clerk", declared=_DECLARED, services=[_SERVICE])
    fakes.write_status(world.state, clerk, instances=[_INSTANCE], controller=None)
    out = world.handler("describe", "agent/clerk").out
    assert "none runs: this is what was so" in out
    assert "(running)" not in out


def test_without_a_configuration_it_says_how_to_name_one(world: World) -> None:
    ran = world.handler("status")
    assert (ran.code, ran.out) == (2, "")
    assert "name one with -c DIR or HANDLER_CONFIG" in ran.err


def test_text_from_files_cannot_command_a_terminal(world: World) -> None:
    fakes.write_status(
        world.state, fakes.row("agent/x", "False", "SchemaInvalid", message="\x1b[2J\rgone\u202e\n")
    )
    for line in ("status", "status -o wide", "get agents -o wide", "describe agent/x"):
        out = world.handler(*line.split()).out
        assert "\x1b" not in out
        assert "\r" not in out
        assert "\u202e" not in out
        assert "\\x1b[2J" in out


def test_reading_writes_nothing(world: World) -> None:
    fakes.write_status(world.state, *_MIXED)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in world.root.rglob("*")}
    for line in ("status", "get all", "describe agent/clerk", "status -o json"):
        world.handler(*line.split())
    assert before == {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in world.root.rglob("*")}


def test_the_words_for_kinds_are_the_models() -> None:
    ours = {word: kind for word, kind in standing.KINDS.items() if kind != "instance"}
    assert ours == {word: kind.value for word, kind in KIND_WORDS.items()}


@pytest.mark.parametrize(
    ("revision", "shown"),
    [
        ("main@sha1:4f2c1aa9d0e1", "main@4f2c1aa"),
        ("main@sha1:4f2c1aa9d0e1+dirty:sha256:77", "main@4f2c1aa +edits"),
        ("none@sha256:0123456789", "no git, 0123456"),
        ("", ""),
    ],
)
def test_revisions_are_short(revision: str, shown: str) -> None:
    assert tables.revision(revision) == shown


@pytest.mark.parametrize(
    "text",
    ["1970-01-01T00:00:00Z", "2000-02-29T23:59:59Z", "2026-11-30T07:00:01.5Z", "2100-03-01T12:00:00+00:00"],
)
def test_instants_are_read_as_the_calendar_has_them(text: str) -> None:
    from datetime import datetime

    expected = datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    assert standing.instant(text) == int(expected)
    assert standing.instant("yesterday") is None


def test_a_kind_may_be_said_short_or_in_the_plural() -> None:
    assert {standing.kind_of(word) for word in ("agent", "agents", "a", "Agent")} == {"agent"}
    assert standing.kind_of("interfaces") == "interface"
    with pytest.raises(usage.Usage):
        standing.kind_of("pods")


def test_the_configuration_as_a_whole_is_described(world: World) -> None:
    refused = {
        "type": "Synced",
        "status": "False",
        "reason": "SourceRefused",
        "message": "commit 4f2c1aa is not signed",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    fakes.write_status(world.state, fakes.row("agent/clerk"), conditions=[refused])
    ran = world.handler("-c", str(world.config), "describe", "configuration")
    assert ran.code == 0
    assert "SourceRefused" in ran.out
    assert "commit 4f2c1aa is not signed" in ran.out
    assert "main@sha1:4f2c1aa9d0" in ran.out
    told = json.loads(world.handler("describe", "configuration", "-o", "json").out)
    assert told["conditions"] == [refused]
    assert world.handler("describe", "configuration", "agent/clerk").code == 2
