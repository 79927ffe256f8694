"""explain, doctor, status --watch: words for codes and keys, a look at the machine, a live screen."""

import hashlib
import json
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from reconciler.control import outcomes
from reconciler.doors import doctor, explaining, reasons, tables, usage, watching
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.resources import Agent
from reconciler.model.status import REASONS, ConditionType
from reconciler.runtime import environments
from reconciler.runtime.instance import Phase
from tests.doors import fakes
from tests.doors.conftest import World

Golden = Callable[[str, str], None]
_PACKAGE = Path(explaining.__file__).parents[1]


@pytest.mark.slow
def test_every_code_in_the_rules_has_a_meaning() -> None:
    rooms = [path for room in ("config", "admission") for path in (_PACKAGE / room).glob("*.py")]
    written = {code for path in rooms for code in re.findall(r'"([ICBAPHRDS][0-9]{3})"', path.read_text())}
    known = explaining.meanings()
    assert written <= known.keys()
    assert all(meaning.rule for meaning in known.values())
    assert all(known[code].words or code in explaining.examples() for code in known)


def test_a_code_is_explained_by_its_rule(world: World) -> None:
    ran = world.handler("explain", "b201")
    assert ran.code == 0
    assert ran.out.startswith("B201  ")
    for word in ("what", "why", "mend"):
        assert f"  {word}  " in ran.out
    assert json.loads(world.handler("explain", "B101", "-o", "json").out)["code"] == "B101"


@pytest.mark.slow
def test_words_that_only_a_case_has_are_an_example(world: World) -> None:
    out = world.handler("explain", "A203").out
    assert "For example:" in out
    assert "needs ocr/v1, and nothing is bound to 'ocr'" in out
    assert "handler rebind" in out
    assert "…" not in out
    assert "For example" not in world.handler("explain", "A101").out
    assert "what   a merge conflict stands here\n" in world.handler("explain", "S201").out
    known = explaining.meanings()
    for code, words in explaining.examples().items():
        assert code in known
        assert list(words) == ["what", "why", "mend"]
        assert all(words.values())


def test_a_key_is_explained_by_the_schema(world: World) -> None:
    ran = world.handler("explain", "binding.instance.idleStopSeconds")
    assert ran.code == 0
    assert "number" in ran.out
    assert "300" in ran.out
    whole = world.handler("explain", "agents").out
    assert "services" in whole
    assert "apiVersion *" in whole
    assert world.handler("explain", "connector.secretSlots.api_key.env").code == 0
    assert json.loads(world.handler("explain", "agent.scope", "-o", "json").out)["type"] == "array"


@pytest.mark.slow
def test_an_explanation_holds_nothing_of_how_the_rules_are_built(world: World) -> None:
    for code, meaning in explaining.meanings().items():
        words = dict(meaning.words) | explaining.examples().get(code, {})
        assert {"what", "why", "mend"} <= words.keys(), code
        assert not re.search(r"ruling|\([GS][0-9]", meaning.text), code
        assert meaning.rule.startswith("a problem of "), code
    assert "candidates" not in world.handler("explain", "A203").out
    syntax = world.handler("explain", "S211").out
    assert "the text is not TOML" in syntax
    assert "nested" not in syntax


@pytest.mark.parametrize(
    "word", ["Progressing", "NotReady", "Unknown", "Held", "Waiting", "draining", "stopped"]
)
def test_every_word_of_the_screen_is_explained(world: World, word: str) -> None:
    ran = world.handler("explain", word)
    assert ran.code == 0
    assert any(line.startswith(f"{word}  a") for line in ran.out.splitlines())
    assert "  mend   " in ran.out


def test_the_page_of_the_screen_has_every_word_that_is_shown() -> None:
    known = {(one.word, one.kind) for one in reasons.meanings()}
    phases = set(get_args(Phase)) - {"ready", "retired"}  # shown as running, and not at all
    assert {(word, "phase") for word in phases | {"running", "stopped"}} <= known
    shown = set(
        re.findall(r'"(Ready|NotReady|Suspended|Progressing|Unknown)"', Path(tables.__file__).read_text())
    )
    assert {(word, "state") for word in shown} <= known
    given = set(re.findall(r'(?:return|else|=) "([A-Z][a-z]+)"', Path(outcomes.__file__).read_text()))
    given -= {"True", "False", "Unknown"}
    assert {(word, "outcome") for word in given | {"Held"}} == {one for one in known if one[1] == "outcome"}


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        ("prune.maxFraction", ["config.prune.maxFraction"]),
        ("reconcile.resyncSeconds", ["config.reconcile.resyncSeconds"]),
        ("instance.idleStopSeconds", ["binding.instance.idleStopSeconds"]),
        ("drift", ["agent.drift", "binding.drift"]),
    ],
)
def test_a_key_is_found_without_its_kind_of_file(world: World, subject: str, said: list[str]) -> None:
    ran = world.handler("explain", subject)
    assert ran.code == 0
    heads = [line.split("  ")[0] for line in ran.out.splitlines() if line.split("  ")[0].endswith(subject)]
    assert sorted(heads) == said
    told = json.loads(world.handler("explain", subject, "-o", "json").out)
    assert set(said) <= told.keys() or "type" in told or "anyOf" in told or "description" in told


def test_the_keys_of_a_table_of_names_are_told(world: World) -> None:
    ran = world.handler("explain", "agent.services")
    assert ran.code == 0
    for key in ("NAME.binding *", "NAME.tools", "NAME.maxCalls", "NAME.version"):
        assert key in ran.out


@pytest.mark.slow
def test_every_reason_and_condition_is_explained_from_the_page(world: World) -> None:
    known = {(one.word, one.kind): one for one in reasons.meanings()}
    assert {word for word, kind in known if kind == "reason"} == REASONS
    assert {word for word, kind in known if kind == "condition"} == set(get_args(ConditionType))
    assert all(one.text for one in known.values())
    for word in REASONS | set(get_args(ConditionType)):
        ran = world.handler("explain", word)
        assert ran.code == 0
        assert ran.out.startswith(f"{word}  a ")
        assert "`" not in ran.out or word in ran.out


def test_a_word_that_is_a_reason_and_a_condition_is_told_as_both(world: World) -> None:
    out = world.handler("explain", "admitted").out
    assert [line for line in out.splitlines() if line.startswith("Admitted")] == [
        "Admitted  a condition",
        "Admitted  a reason",
        "Admitted  an outcome of a form",
    ]
    told = json.loads(world.handler("explain", "lastgoodretained", "-o", "json").out)
    assert (told[0]["word"], told[0]["kind"]) == ("LastGoodRetained", "reason")
    assert "handler apply" in told[0]["mend"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("subject", "code", "said"),
    [
        ("LastGoodRetaind", 1, "did you mean 'LastGoodRetained'?"),
        ("Xyz", 1, "is no reason, no condition and no state: there are Ready"),
        ("B999", 1, "no rule yields B999"),
        ("agent.servces", 1, "did you mean 'services'?"),
        ("inst", 1, "has no file of its own"),
        ("nonsense", 2, "is no code, reason, state or key, and is not a kind of object"),
        ("servces", 2, "did you mean 'services'?"),
    ],
)
def test_what_there_is_not_is_said(world: World, subject: str, code: int, said: str) -> None:
    ran = world.handler("explain", subject)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


@pytest.mark.slow
def test_doctor_looks_at_everything_and_changes_nothing(world: World) -> None:
    assert world.handler("init", "config").code == 0
    before = {path: path.stat().st_mtime_ns for path in world.config.rglob("*")}
    ran = world.handler("doctor", "-c", "config", "-o", "json")
    findings = {one["thing"]: one for one in json.loads(ran.out)}
    assert findings["python"]["state"] == "stands"
    assert findings["configuration"]["state"] == "stands"
    assert "connector/ocr-tesseract" in findings
    assert ran.code == int(any(one["state"] == "missing" for one in findings.values()))
    assert all(one["mend"] for one in findings.values() if one["state"] == "missing")
    assert before == {path: path.stat().st_mtime_ns for path in world.config.rglob("*")}
    assert not world.state.exists()
    scope = findings["agent/reader"]
    assert (scope["state"], scope["mend"]) == ("missing", "mkdir -p ~/documents")
    (world.root / "documents").mkdir()
    shown = world.handler("doctor", "-c", "config").out
    assert "✓ python" in shown
    assert "agent/reader" not in shown
    assert "No controller runs." in shown.splitlines()[-1]
    assert "Nothing is missing" not in shown


def test_doctor_says_what_is_missing_and_the_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDLER_RUN", str(tmp_path / ("x" * 120)))
    monkeypatch.setenv("HANDLER_STATE", str(tmp_path / "state"))
    (tmp_path / "state").mkdir(mode=0o755)
    found = {one.thing: one for one in doctor._folders(tmp_path)}
    assert found["configuration"].mend == f"handler init {tmp_path}"
    assert found["run folder"].state == "missing"
    assert "HANDLER_RUN" in found["run folder"].mend
    assert found["state folder"].mend == f"chmod 700 {tmp_path / 'state'}"
    elsewhere = {one.thing: one for one in doctor._folders(tmp_path, named=False)}["configuration"]
    assert (elsewhere.state, "-c DIR" in elsewhere.mend) == ("unneeded", True)
    monkeypatch.setenv("HANDLER_RUN", "/proc/run")  # where nobody can make anything
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "HANDLER_RUN" in {one.thing: one for one in doctor._folders(tmp_path)}["run folder"].mend
    monkeypatch.setenv("PATH", "")
    assert doctor._git().state == "narrow"


def test_doctor_ends_with_what_is_weaker() -> None:
    stands, wall = doctor.Finding("python", "stands", ""), doctor.Finding("wall: pids", "narrow", "")
    idle, gone = doctor.Finding("controller", "narrow", ""), doctor.Finding("git", "missing", "")
    assert doctor._verdict([stands]) == "Nothing is missing."
    assert doctor._verdict([stands, wall]) == "Weaker than it could be, marked !: wall: pids."
    assert doctor._verdict([idle, wall, gone]) == (
        "Missing: git. No controller runs. Weaker than it could be, marked !: wall: pids."
    )


def test_doctor_says_where_packages_come_from_and_whether_they_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANDLER_STATE", str(tmp_path / "state"))
    found = doctor._packages("ocr-rapid", b"lock", tmp_path)
    assert found.state == "narrow"
    assert "the index that your pip is set up for" in found.told
    place = environments.place_of(tmp_path / "state/envs", hashlib.sha256(b"lock").hexdigest())
    assert not place.exists()
    place.mkdir(parents=True)
    assert doctor._packages("ocr-rapid", b"lock", tmp_path).state == "stands"


def test_doctor_names_the_folders_of_a_scope_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "a file").touch()
    scope = (str(tmp_path), str(tmp_path / "a file"), str(tmp_path / "it's new"))
    agent = Agent(apiVersion="handler.agent/v1", scope=scope)
    first, second = doctor._scope(ObjectRef(Kind.AGENT, "a"), agent)
    assert "is no folder" in first.told
    assert shlex.split(second.mend) == ["mkdir", "-p", str(tmp_path / "it's new")]


def test_what_is_not_ready_stays_on_a_short_screen(world: World) -> None:
    fine = [fakes.row(f"agent/a{number:02}") for number in range(30)]
    fakes.write_status(world.state, *fine, fakes.row("binding/z", "False", "CrashLoop", message="it ended"))
    lines = watching._fitted(world.handler("status").out, 8).splitlines()
    assert len(lines) == 8
    assert "✗ binding/z" in lines[1]
    assert lines[-1].startswith("1 of 31 objects is not ready.")


def test_watching_off_a_terminal_prints_the_status_when_it_changes(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in world.env().items():
        monkeypatch.setenv(name, value)
    looks = []

    def pause(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            fakes.write_status(world.state, fakes.row("agent/reviewer", "False", "CrashLoop"))

    monkeypatch.setattr(watching.time, "sleep", pause)
    fakes.write_status(world.state, fakes.row("agent/reviewer"))
    assert watching.run(usage.Settings(), times=3) == 1
    out = capsys.readouterr().out
    assert out.count("agent/reviewer") >= 2
    assert "✗ agent/reviewer" in out


def test_a_screen_too_small_keeps_its_first_and_last_lines() -> None:
    text = "".join(f"line {number}\n" for number in range(30))
    lines = watching._fitted(text, 10).splitlines()
    assert (lines[0], lines[-1], len(lines)) == ("line 0", "line 29", 10)
    assert watching._fitted("a\nb\n", 10) == "a\nb\n"


def test_what_waits_for_an_apply_names_the_one_that_needs_nobody_to_ask(world: World) -> None:
    assert "`handler apply -y`" in world.handler("explain", "AwaitingApply").out
