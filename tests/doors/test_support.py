"""daemon install and support-bundle: what is written, whose it stays, and what is never in it."""

import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from reconciler.doors import bundling, installing
from tests.doors.conftest import World


@pytest.fixture
def config(world: World) -> Path:
    assert world.handler("init", "config").code == 0
    return world.config


def test_a_unit_is_written_once_for_its_configuration_and_removed(world: World, config: Path) -> None:
    ran = world.handler("daemon", "install", "-c", "config")
    unit = world.root / ".config/systemd/user/handler-config.service"
    assert (ran.code, ran.out) == (0, f"{unit}\n"), ran.err
    assert "systemctl --user enable --now handler-config.service" in ran.err
    text = unit.read_text()
    assert f'-c "{config}"\n' in text
    assert 'Environment="HANDLER_STATE=' in text and "Type=notify\n" in text
    assert world.handler("daemon", "install", "--dry-run", "-c", "config").out == text
    assert world.handler("daemon", "install", "-c", "config").code == 0
    unit.write_text("# mine\n" + text)
    for more in ([], ["--remove"]):
        ran = world.handler("daemon", "install", *more, "-c", "config")
        assert (ran.code, ran.out) == (1, "")
        assert "is of somebody else: it is left as it is" in ran.err
    assert unit.read_text().startswith("# mine")
    unit.write_text(text)
    assert world.handler("daemon", "install", "--remove", "-c", "config").code == 0
    assert list(unit.parent.iterdir()) == []
    assert world.handler("daemon", "install", "--remove", "-c", "config").code == 1
    assert world.handler("daemon", "install", "--name", "../x", "-c", "config").code == 2
    unit.symlink_to("/nowhere")
    assert world.handler("daemon", "install", "-c", "config").code == 1


@pytest.mark.parametrize("folder", ["plain", 'a b "c" %h $HOME ä\\x'])
def test_a_unit_names_any_folder_so_that_systemd_reads_it(tmp_path: Path, folder: str) -> None:
    text = installing.unit(str(tmp_path / folder), "/state", "/run/h", system=True)
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("there is no systemd-analyze to ask")
    path = tmp_path / "handler-x.service"
    path.write_text(text)
    told = subprocess.run([verify, "verify", "--man=no", path], check=False, capture_output=True, text=True)
    assert not [line for line in told.stderr.splitlines() if "handler-x" in line], told.stderr


@pytest.mark.slow
def test_a_bundle_says_how_things_stand_and_nothing_of_what_was_said(
    world: World, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundling.doctor, "findings_of", lambda config: iter(()))  # it takes seconds
    state = world.state
    (state / "calls").mkdir(parents=True)
    call = {
        "at": "2026",
        "tool": "ocr_extract",
        "code": "ok",
    }
    more = {"diagnostic": "PAYLOAD", "arguments": "PAYLOAD"}
    (state / "calls/s.jsonl").write_text(json.dumps({**call, **more}) + "\nno json PAYLOAD\n")
    run = state / "runs/0123456789ab"
    run.mkdir(parents=True)
    head = {"id": "0123456789ab", "state": "failed"}
    (run / "head.json").write_text(json.dumps({**head, "message": "PAYLOAD"}))
    (run / "begun.json").write_text('"PAYLOAD"')
    (state / "logs").mkdir()
    (state / "logs/ocr.log").write_text("PAYLOAD")
    token = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
    (state / "events.jsonl").write_text(f'{{"message": "fine"}}\n{{"message": "{token}"}}\n')
    (config / "bindings/broken.toml").write_text('connector = "PAYLOAD-like"\n')
    (state / "status/binding").mkdir(parents=True)
    declared = {"connector": "email", "description": "PAYLOAD", "settings": {"sender": "PAYLOAD"}}
    told = {"declared": declared, "conditions": [{"message": "the value 'PAYLOAD' does not match 'x'"}]}
    (state / "status/binding/mail.json").write_text(json.dumps(told))
    ran = world.handler("support-bundle", "--out", "b.tar.gz", "-c", "config")
    assert (ran.code, ran.out) == (0, f"{world.root / 'b.tar.gz'}\n"), ran.err
    archive = world.root / "b.tar.gz"
    assert archive.stat().st_mode & 0o777 == 0o600
    with tarfile.open(archive) as opened:
        texts = {one.name.partition("/")[2]: opened.extractfile(one).read().decode() for one in opened}  # type: ignore[union-attr]
    told = json.loads(texts["about.json"])
    assert told["handler"] and told["python"]
    assert json.loads(texts["calls.jsonl"]) == call
    assert json.loads(texts["runs.json"]) == [head]
    assert json.loads(texts["logs.json"]) == {"ocr.log": 7}
    assert "fine" in texts["events.jsonl"]
    assert {"doctor.json", "problems.json", "files.json"} <= texts.keys()
    whole = "".join(texts.values())
    assert token not in whole
    assert 'PAYLOAD"' not in whole and "value 'PAYLOAD" not in whole and "json PAYLOAD" not in whole
    ran = world.handler("support-bundle", "--out", "b.tar.gz", "-c", "config")
    assert (ran.code, "is there already" in ran.err) == (1, True)
    ran = world.handler("support-bundle", "--out", "nowhere/b.tar.gz", "-c", "config")
    assert (ran.code, "--out names another place" in ran.err) == (1, True)
    ran = world.handler("support-bundle", "--out", str(state), "-c", "config")
    assert [one.stat().st_mode & 0o777 for one in state.glob("handler-support-*.tar.gz")] == [0o600]


def test_a_bundle_that_does_not_fit_on_the_disk_leaves_nothing(
    world: World, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bundling, "_parts", lambda config, state: iter([("about.json", "x")]))
    monkeypatch.setattr(bundling, "_add", full)
    ran = world.handler("support-bundle", "--out", "b.tar.gz", "-c", "config")
    assert (ran.code, (world.root / "b.tar.gz").exists()) == (1, False)


def test_the_home_folder_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert (
        bundling.cleaned('a "/home/ada/x"\npassword = "hunter2hunter2"') == f'a "~/x"\n{bundling._LEFT_OUT}'
    )
