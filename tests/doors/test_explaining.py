"""explain, doctor, status --watch: words for codes and keys, a look at the machine, a live screen."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.doors import doctor, explaining, usage, watching
from tests.doors import fakes
from tests.doors.conftest import World

Golden = Callable[[str, str], None]
_PACKAGE = Path(explaining.__file__).parents[1]


def test_every_code_in_the_rules_has_a_meaning() -> None:
    rooms = [path for room in ("config", "admission") for path in (_PACKAGE / room).glob("*.py")]
    written = {code for path in rooms for code in re.findall(r'"([ICBAPHRDS][0-9]{3})"', path.read_text())}
    known = explaining.meanings()
    assert written <= known.keys()
    assert all(meaning.rule and (meaning.text or meaning.words) for meaning in known.values())


def test_a_code_is_explained_by_its_rule(world: World) -> None:
    ran = world.handler("explain", "b201")
    assert ran.code == 0
    assert ran.out.startswith("B201  ")
    for word in ("what", "why", "mend"):
        assert f"  {word}  " in ran.out
    assert json.loads(world.handler("explain", "B101", "-o", "json").out)["code"] == "B101"


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


@pytest.mark.parametrize(
    ("subject", "code", "said"),
    [
        ("B999", 1, "no rule yields B999"),
        ("agent.servces", 1, "did you mean 'services'?"),
        ("instance", 1, "has no file of its own"),
        ("nonsense", 2, "is not a kind of object"),
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
    shown = world.handler("doctor", "-c", "config").out
    assert "✓ python" in shown


def test_doctor_says_what_is_missing_and_the_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDLER_RUN", str(tmp_path / ("x" * 120)))
    monkeypatch.setenv("HANDLER_STATE", str(tmp_path / "state"))
    (tmp_path / "state").mkdir(mode=0o755)
    found = {one.thing: one for one in doctor._folders(tmp_path)}
    assert found["configuration"].mend == f"handler init {tmp_path}"
    assert found["run folder"].state == "missing"
    assert "HANDLER_RUN" in found["run folder"].mend
    assert found["state folder"].mend == f"chmod 700 {tmp_path / 'state'}"
    monkeypatch.setenv("PATH", "")
    assert doctor._git().state == "narrow"


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
