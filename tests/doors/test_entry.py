"""The entry: quick commands import little, wrong lines name the nearest, nothing ends in a traceback."""

import gc
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler import __version__
from reconciler.doors import cli, entry, usage
from tests.doors import fakes
from tests.doors.conftest import World

pytestmark = pytest.mark.slow

_HEAVY = {
    "click",
    "pydantic",
    "rich",
    "tomlkit",
    "tomli",
    "anyio",
    "orjson",
    "asyncio",
    "argparse",
    "dataclasses",
}
_HEAVY |= {
    "pathlib",
    "hashlib",
    "typing",
    "subprocess",
    "threading",
    "socket",
    "importlib.metadata",
    "logging",
    "jsonschema_rs",
}


def imported(world: World, *arguments: str) -> set[str]:
    code = (
        "import sys; from reconciler.doors.entry import main; main(); sys.stderr.write('|'.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        env=world.env(),
        cwd=world.root,
        check=True,
    )
    return set(done.stderr.rpartition("\n")[2].split("|"))


CHECKOUT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "line",
    [
        ["--help"],
        ["--version"],
        ["status"],
        ["status", "--color", "always"],
        ["get", "agents"],
        ["get", "agent", "clerk"],
        ["describe", "agent/clerk"],
        ["statsu"],
        ["--nonsense"],
        ["call"],
        ["call", "--help"],
        ["run", "--help"],
        ["call", "ocr_extract", "path=a.pdf", "--agent", "clerk"],
    ],
    ids=" ".join,
)
def test_quick_commands_import_nothing_heavy(world: World, line: list[str]) -> None:
    fakes.write_status(world.state, fakes.row("agent/clerk"))
    found = imported(world, *line)
    assert "reconciler.doors.usage" in found
    assert not found & _HEAVY
    ours = {name for name in found if name.startswith("reconciler.")}
    assert ours <= {
        "reconciler.control",
        "reconciler.control.folders",
        "reconciler.control.unwaiting",
        "reconciler.doors.goingruns",  # what waits, for the summary
        "reconciler.doors.owed",  # with the bridge
        "reconciler.doors.streams",
        "reconciler.model",
        "reconciler.model.revisions",
        "reconciler.doors",
        *(
            f"reconciler.doors.{name}"
            for name in (
                "arguments",
                "bridge",
                "call",
                "client",
                "columns",
                "entry",
                "keypaths",
                "lines",
                "running",
                "shadowed",
                "standing",
                "tables",
                "sheet",
                "truthtable",
            )
        ),
        "reconciler.doors.usage",
    }


@pytest.mark.slow
def test_a_configuration_that_is_right_is_validated_without_pydantic_and_click(world: World) -> None:
    world.handler("init", "config")
    found = imported(world, "validate", "config")
    assert "reconciler.admission.admit" in found
    assert not found & {
        "pydantic",
        "pydantic_core",
        "click",
        "jsonschema",
        "tomlkit",
        "asyncio",
        "anyio",
        "rich",
    }
    (world.root / "config/agents/odd.toml").write_text('apiVersion = "handler.agent/v1"\nscop = []\n')
    assert world.handler("validate", "config").code == 1
    assert "'scop' is not a key" in world.handler("validate", "config").out
    assert world.handler("validate", "config", "--format", "yaml").code == 2
    assert gc.isenabled()


def test_help_lists_every_command_and_every_command_has_its_own(world: World) -> None:
    shown = world.handler("--help")
    assert shown.code == 0
    assert world.handler().out == shown.out
    for name, _, line in usage.COMMANDS:
        assert name in shown.out
        assert line in shown.out
        if name != "version":
            helped = world.handler(*name.split(), "--help")
            assert (helped.code, helped.err) == (0, "")
            assert "Usage: handler " in helped.out


def test_the_table_of_commands_is_what_there_is() -> None:
    listed = {name.split()[0] for name, _, _ in usage.COMMANDS}
    assert listed == set(cli.handler.commands) - {"plan", "sessions"} | {
        "get",
        "describe",
        "call",
        "run",
        "version",
    }


def test_version_says_the_version(world: World) -> None:
    assert world.handler("--version").out == f"handler {__version__}\n" == world.handler("version").out


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["statsu"], "did you mean 'status'?"),
        (["aply"], "did you mean 'apply'?"),
        (["zzzzzz"], "'handler --help' lists the commands"),
        (["--nonsense"], "'--nonsense' is not an option"),
        (["status", "--wathc"], "'--wathc' is not an option of 'handler status'"),
        (["validate", "--fromat", "json"], "--format"),
        (["validate", "--format", "xml"], "'xml' is not one of"),
        (["rebind", "clerk"], "INTERFACE"),
        (["-o", "yaml", "status"], "-o knows table, wide, json, name, not 'yaml'"),
        (["status", "-c"], "-c needs a value"),
        (["status", "--timeout", "soon"], "--timeout wants seconds, not 'soon'"),
        (["status", "--timeout", "nan"], "--timeout wants"),
        (["get"], "wants a kind"),
        (["get", "agnets"], "is not a kind of object: did you mean 'agents'?"),
        (["version", "x"], "only prints the version: it takes no 'x'"),
        (["describe", "clerk"], "wants one object"),
        (["call"], "wants a tool"),
        (["call", "t", "x=1", "--json", "{}"], "either as KEY=VALUE or with --json"),
        (["call", "t", "--agent", "a", "--binding", "b"], "either --agent or --binding"),
        (["call", "t", "--agent", ""], "--agent needs a value"),
        (["call", "t", "--json="], "--json needs a value"),
        (["status", "--config", ""], "--config needs a value: was a variable not set?"),
        (["validate", "--config="], "--config needs a value"),
        (["lock", "check", "--since", ""], "--since needs a value"),
        (["connector", "check", "x", "--binding="], "--binding needs a value"),
        (["reconcile", ""], "one word of the command is empty"),
        (["call", "t", "--binding"], "--binding needs a value"),
        (["session"], "'handler session' wants one of close, list, open, show"),
        (["daemon"], "wants one of adopt, install, run, status, stop"),
        (["lock"], "wants one of add"),
        (["lock", "add", "ocr"], "cannot read 'ocr' as an interface version"),
        (["session", "oepn", "x"], "oepn"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_command_line_exits_2_with_one_sentence(world: World, line: list[str], said: str) -> None:
    ran = world.handler(*line)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert ran.err.startswith("handler: ")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("words", "code"), [("--help", 0), ("aply", 2), ("call t --agent a", 1)])
def test_streams_that_are_closed_are_no_fault(world: World, words: str, code: int, closed: str) -> None:
    start = "import sys; from reconciler.doors import entry; sys.exit(entry.main())"
    ran = subprocess.run(
        ["sh", "-c", f'"$0" -c "{start}" {words} {closed}', sys.executable],
        env=world.env(), cwd=world.root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, "Traceback" in ran.stderr) == (code, False), ran.stderr
    assert bool(ran.stdout) == (words == "--help" and ">&-" not in closed.replace("2>&-", ""))


@pytest.mark.slow
@pytest.mark.parametrize("words", ["status", "validate", "get agents", "run a -- true"])
def test_a_shell_in_a_folder_that_was_removed_is_told_so(world: World, words: str) -> None:
    (world.root / "gone").mkdir()
    program = "import sys; from reconciler.doors import entry; sys.exit(entry.main())"
    ran = subprocess.run(
        ["sh", "-c", f'cd gone && rmdir ../gone && exec "$0" -P -c "{program}" {words}', sys.executable],
        env=world.env(PYTHONPATH=str(CHECKOUT)), cwd=world.root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode in (1, 2), ran.stderr
    assert ran.stderr.count("\n") == 1, ran.stderr
    assert "the folder that you are in was removed" in ran.stderr


def test_shared_options_stand_before_or_after_the_command() -> None:
    first, words = usage.settings(["-c", "x", "-o", "json", "status", "--timeout=3"])
    then, same = usage.settings(["status", "-c", "x", "--timeout", "3", "--output=json"])
    assert words == same == ["status"]
    assert (
        (first.config, first.output, first.timeout_s)
        == (then.config, then.output, then.timeout_s)
        == ("x", "json", 3)
    )
    _, left = usage.settings(["call", "t", "--", "-q"])
    assert left == ["call", "t", "--", "-q"]
    quiet, _ = usage.settings(["-q", "-v", "--no-input", "x"])
    assert (quiet.quiet, quiet.verbose, quiet.ask) == (True, True, False)


def test_a_fault_of_ours_is_one_sentence_and_a_private_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(entry, "_run", lambda settings, words: 1 / 0)
    assert entry.guarded(usage.Settings(), ["validate"]) == 2
    assert entry.guarded(usage.Settings(), ["init"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert "Traceback" not in said[0]
    kept = Path(said[0].rpartition(" ")[2])
    assert "ZeroDivisionError" in kept.read_text()
    assert kept.stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_fault(world: World) -> None:
    fakes.write_status(world.state, *(fakes.row(f"agent/a{number}") for number in range(5000)))
    line = "import sys; from reconciler.doors.entry import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", line, "status", "-o", "wide"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=world.env(),
        cwd=world.root,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 141
    process.stderr.close()


def test_broken_status_files_are_told_and_end_in_no_traceback(world: World) -> None:
    folder = world.state / "status"
    folder.mkdir(parents=True)
    for content in (
        "",
        "{",
        "[]",
        '{"apiVersion": "handler.status/v9"}',
        '{"objects": [1, {"kind": 5}], "at": 7}',
    ):
        (folder / "summary.json").write_text(content)
        ran = world.handler("status")
        assert ran.code in (1, 2)
        assert "Traceback" not in ran.err
        assert "fault of its own" not in ran.err
    (folder / "summary.json").unlink()
    (folder / "summary.json").mkdir()
    assert world.handler("status").code == 2


def test_handlerd_is_daemon_run(world: World) -> None:
    helped = world.handler("--help", program=entry.handlerd)
    assert (helped.code, helped.err) == (0, "")
    assert "this is handlerd" in helped.out
    assert world.handler("--version", program=entry.handlerd).out == f"handler {__version__}\n"
    ran = world.handler("-c", "nowhere", program=entry.handlerd)
    assert (ran.code, ran.out) == (2, "")
    assert "there is no configuration at" in ran.err
    assert re.findall(r"-[a-z], --[a-z]+", helped.out) == [
        "-c, --config",
        "-q, --quiet",
        "-v, --verbose",
        "-h, --help",
    ]


def test_a_configuration_that_was_served_before_may_be_away_when_the_controller_starts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.control.daemon.run", lambda config, outside: 0)
    if world.config.exists():
        shutil.rmtree(world.config)
    assert world.handler(program=entry.handlerd).code == 2
    (world.state / "admitted").mkdir(parents=True)
    assert world.handler(program=entry.handlerd).code == 0


def test_a_folder_that_holds_nothing_of_a_configuration_is_not_served(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.control.daemon.run", lambda config, outside: 0)
    (world.root / "papers").mkdir()
    (world.root / "papers" / "letter.txt").write_text("Dear")
    ran = world.handler("daemon", "run", "-c", "papers")
    assert (ran.code, ran.out) == (2, "")
    assert "there is no handler.toml in ./papers, nor anything else of a configuration" in ran.err
    (world.root / "papers" / "agents").mkdir()  # a handler.toml says nothing that must be said
    assert world.handler("daemon", "run", "-c", "papers").code == 0


def test_json_is_data_and_talk_is_not_in_it(world: World) -> None:
    fakes.write_status(world.state, fakes.row("agent/clerk"))
    told = json.loads(world.handler("status", "-o", "json").out)
    assert told["controllerLives"] is True
    assert [one["name"] for one in told["objects"]] == ["clerk"]


@pytest.mark.parametrize(
    "words", [["status"], ["sessions"], ["apply"], ["run", "clerk"], ["daemon", "run"]], ids=" ".join
)
def test_inside_a_sandbox_it_is_said_which_commands_work(world: World, words: list[str]) -> None:
    ran = world.handler(*words, HANDLER_SANDBOX="1")
    assert (ran.code in (1, 2), ran.out) == (True, "")
    assert "'handler call' and 'handler-service' work here" in ran.err
    assert world.handler(*words[:1], "--help", HANDLER_SANDBOX="1").code == 0
    wrong = world.handler("statsu", HANDLER_SANDBOX="1")
    assert (wrong.code, "did you mean 'status'?" in wrong.err) == (2, True)


def test_inside_a_sandbox_files_are_judged_and_what_is_not_there_is_explained(world: World) -> None:
    assert world.handler("init", "config", HANDLER_SANDBOX="1").code == 0
    assert world.handler("validate", "config", HANDLER_SANDBOX="1").code == 0
    ran = world.handler("validate", "nowhere", HANDLER_SANDBOX="1")
    assert (ran.code, "this is inside an agent's sandbox" in ran.err) == (2, True)
