"""fmt: files laid out in place, whole or not at all; what a digest holds is left alone; exit codes."""

from pathlib import Path

import pytest

from reconciler.doors import offline
from reconciler.model.names import Kind, ObjectRef
from tests.doors.conftest import World
from tests.doors.test_rebinding import copy_interface

_UGLY = b'apiVersion="handler.agent/v1" # v1\r\nproject  =  "paperwork"\r\n'
_NEAT = b'apiVersion = "handler.agent/v1" # v1\nproject = "paperwork"\n'


@pytest.fixture
def config(world: World) -> Path:
    assert world.handler("init", "config").code == 0
    (world.config / "agents/clerk.toml").write_bytes(_UGLY)
    return world.config


def _files(config: Path) -> dict[Path, tuple[bytes, int]]:
    found = (path for path in config.rglob("*") if path.is_file())
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


@pytest.mark.slow
def test_what_is_not_laid_out_is_and_nothing_else_is_written(world: World, config: Path) -> None:
    before = _files(config)
    (config / "agents/clerk.toml").chmod(0o640)
    checked = world.handler("fmt", "--check", "-c", "config")
    assert checked.code == 1
    assert '+project = "paperwork"' in checked.out
    assert _files(config) == before
    ran = world.handler("fmt", "-c", "config")
    assert (ran.code, ran.out) == (0, "agents/clerk.toml\n")
    assert "1 of 5 files was laid out anew." in ran.err
    after = _files(config)
    changed = [path for path, told in after.items() if before[path] != told]
    assert changed == [config / "agents/clerk.toml"]
    assert changed[0].read_bytes() == _NEAT
    assert changed[0].stat().st_mode & 0o777 == 0o640
    again = world.handler("fmt", "--check", "-c", "config")
    assert (again.code, again.out) == (0, "")
    assert _files(config) == after


@pytest.mark.slow
def test_a_path_limits_what_is_laid_out(world: World, config: Path) -> None:
    (config / "bindings/b.toml").write_bytes(b'apiVersion="handler.binding/v1"\nconnector="ocr-rapid"\n')
    assert world.handler("fmt", "config/bindings").out == "bindings/b.toml\n"
    assert (config / "agents/clerk.toml").read_bytes() == _UGLY
    assert world.handler("fmt", "config/agents/clerk.toml").out == "agents/clerk.toml\n"
    ran = world.handler("fmt", "config/tombi.toml")
    assert (ran.code, ran.out) == (2, "")
    assert "holds no TOML file of the configuration" in ran.err


@pytest.mark.slow
def test_a_published_version_is_never_touched_and_a_draft_is(world: World, config: Path) -> None:
    folder = copy_interface(config)
    file = folder / "interface.toml"
    file.write_bytes(file.read_bytes().replace(b"version = 1", b"version   =   1"))
    assert (
        world.handler(
            "lock", "add", "scan/v1", "--despite-warnings", "--reviewer", "a@example.org", "-c", "config"
        ).code
        == 0
    )
    before = _files(folder)
    ran = world.handler("fmt", "-c", "config")
    assert (ran.code, ran.out) == (0, "agents/clerk.toml\n")
    assert "scan/v1 is published" in world.handler("fmt", "config/interfaces/scan/v1/interface.toml").err
    (config / "handler.lock").write_text("not a lock")
    assert world.handler("fmt", "-c", "config").code == 0
    assert _files(folder) == before
    (config / "handler.lock").unlink()
    assert "interfaces/scan/v1/interface.toml\n" in world.handler("fmt", "-c", "config").out
    assert world.handler("validate", "config").code == 0


@pytest.mark.slow
def test_a_pinned_connector_is_not_touched(world: World, config: Path) -> None:
    folder = config / "connectors/own"
    folder.mkdir(parents=True)
    text = 'apiVersion="handler.connector/v1"\nname="own"\ndescription="d"\nimplements=["ocr/v1"]\n'
    (folder / "connector.toml").write_text(text)
    (folder / "main.py").write_text("")
    binding = config / "bindings/own.toml"
    digest = offline.look(config).admission.inventory.resources[ObjectRef(Kind.CONNECTOR, "own")].digest
    pin = f'apiVersion = "handler.binding/v1"\nconnector = "own"\nconnectorDigest = "sha256:{digest}"\n'
    binding.write_text(pin)
    assert world.handler("fmt", "-c", "config").code == 0
    assert (folder / "connector.toml").read_text() == text
    binding.unlink()
    assert world.handler("fmt", "-c", "config").out == "connectors/own/connector.toml\n"


@pytest.mark.slow
def test_what_is_no_toml_is_told_and_the_rest_is_laid_out(world: World, config: Path) -> None:
    (config / "agents/bad.toml").write_bytes(b"[services\n")
    target = config.parent / "elsewhere.toml"
    target.write_bytes(_UGLY)
    (config / "agents/link.toml").symlink_to(target)
    ran = world.handler("fmt", "-c", "config")
    assert (ran.code, ran.out) == (1, "agents/clerk.toml\n")
    assert "agents/bad.toml is left as it is: it is not TOML" in ran.err
    assert (config / "agents/bad.toml").read_bytes() == b"[services\n"
    assert target.read_bytes() == _UGLY


def test_without_a_configuration_it_could_not_run(world: World) -> None:
    ran = world.handler("fmt", "-c", "nowhere")
    assert (ran.code, ran.out) == (2, "")
