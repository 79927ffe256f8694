"""suspend, resume: one file edited, comments kept, judged first; what it does to open sessions is said."""

import json
from pathlib import Path

import pytest

from reconciler.doors import editing, offline
from tests.doors.conftest import World

pytestmark = pytest.mark.slow  # commands as people start them: a process each

_AGENT = """\
# who reads
apiVersion = "handler.agent/v1"
requires = ["ocr/v1"]

[services]
ocr = "ocr-tesseract"  # the engine
"""


@pytest.fixture
def config(world: World) -> Path:
    assert world.handler("init", "config").code == 0
    (world.config / "agents/clerk.toml").write_text(_AGENT)
    return world.config


def _files(config: Path) -> dict[Path, tuple[bytes, int]]:
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in config.rglob("*.toml")}


@pytest.mark.parametrize("ref", ["binding/ocr-tesseract", "agent/clerk", "b/ocr-tesseract", "agents/clerk"])
def test_a_suspension_and_its_end_leave_the_file_as_it_was(world: World, config: Path, ref: str) -> None:
    before = {path: data for path, (data, _) in _files(config).items()}
    ran = world.handler("suspend", ref, "--reason", 'the "bill" of May', "-c", "config")
    assert ran.code == 0, ran.err
    added = [line for line in ran.out.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert added == ["+suspend = true", '+suspendReason = "the \\"bill\\" of May"'] or added == [
        "+suspend = true",
        "+suspendReason = 'the \"bill\" of May'",
    ]
    changed = [path for path, (data, _) in _files(config).items() if before[path] != data]
    assert len(changed) == 1
    assert world.handler("validate", "config").code == 0
    again = world.handler("suspend", ref, "-c", "config")
    assert (again.code, again.out) == (0, "")
    assert "suspended already" in again.err
    assert world.handler("resume", ref, "-c", "config").code == 0
    assert {path: data for path, (data, _) in _files(config).items()} == before
    assert "is not suspended" in world.handler("resume", ref, "-c", "config").err


def test_a_comment_beside_the_key_stays_when_the_suspension_ends(world: World, config: Path) -> None:
    file = config / "agents/clerk.toml"
    file.write_text(_AGENT.replace("[services]", "suspend = true  # ask Ada first\n\n[services]"))
    assert world.handler("resume", "agent/clerk", "-c", "config").code == 0
    assert "suspend = false  # ask Ada first" in file.read_text()


def test_a_new_reason_is_an_edit_of_its_own(world: World, config: Path) -> None:
    assert world.handler("suspend", "agent/clerk", "-c", "config").code == 0
    ran = world.handler("suspend", "agent/clerk", "--reason", "on leave", "-c", "config")
    assert (ran.code, [line for line in ran.out.splitlines() if line.startswith("+s")]) == (
        0,
        ['+suspendReason = "on leave"'],
    )


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        ("agent/clrk", "did you mean 'clerk'?"),
        ("project/paperwork", "a project cannot be suspended: bindings and agents can"),
        ("clerk", "write KIND/NAME"),
        ("nonsense/clerk", "is not a kind of object"),
        ("agent/../handler", "there is no agent"),
    ],
)
def test_what_cannot_be_suspended_is_said_and_nothing_is_written(
    world: World, config: Path, ref: str, said: str
) -> None:
    before = _files(config)
    ran = world.handler("suspend", ref, "-c", "config")
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert _files(config) == before


def test_a_result_that_is_not_admitted_leaves_the_file_as_it_was(world: World, config: Path) -> None:
    file = config / "agents/clerk.toml"
    file.write_text(_AGENT.replace('"ocr-tesseract"', '"nothing"'))
    before = _files(config)
    ran = world.handler("suspend", "agent/clerk", "-c", "config")
    assert ran.code == 1
    assert "  mend  " in ran.out
    assert "left as it was" in ran.err
    assert _files(config) == before


def test_what_it_does_to_open_sessions_is_said(world: World, config: Path) -> None:
    folder = world.state / "sessions"
    folder.mkdir(parents=True)
    route = {"interface": "ocr/v1", "binding": "ocr-tesseract"}
    for name in ("one", "two"):
        told = {"session": name, "agents": [{"agent": "clerk", "routes": [route]}]}
        (folder / f"{name}.json").write_text(json.dumps(told))
    (folder / "half.json").write_text('{"session"')
    said = world.handler("suspend", "binding/ocr-tesseract", "-c", "config").err
    assert "New calls to ocr-tesseract end unavailable, in 2 open sessions too" in said
    said = world.handler("suspend", "agent/clerk", "-c", "config").err
    assert "New sessions of clerk are refused; its 2 open sessions go on." in said
    assert (
        "New sessions of reader are refused; none is open."
        in world.handler("suspend", "agent/reader", "-c", "config").err
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ('[source]\nmode = "commit"\n', "in force once it is committed"),
        ('[reconcile]\nmode = "manual"\n', "in force after 'handler apply'"),
    ],
)
def test_when_the_edit_is_in_force_is_said(config: Path, settings: str, said: str) -> None:
    (config / "handler.toml").write_text(settings)
    assert said in editing.when(offline.look(config))


def test_a_link_is_not_edited_and_that_is_said(world: World) -> None:
    assert world.handler("init", "config").code == 0
    file = next((world.config / "agents").glob("*.toml"))
    file.rename(world.root / "real.toml")
    file.symlink_to(world.root / "real.toml")
    ran = world.handler("suspend", f"agent/{file.stem}", "-c", "config")
    assert ran.code == 1
    assert f"agents/{file.name} is not read, so it cannot be edited: it is a link" in ran.err
    laid = world.handler("fmt", str(file), "-c", "config")
    assert laid.code == 0
    assert "is left as it is: it is a link" in laid.err
