"""Where things lie, as every program of the product agrees."""

import os
from pathlib import Path

import pytest

from reconciler.control import folders


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HANDLER_CONFIG", "HANDLER_STATE", "HANDLER_RUN", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_two_configurations_share_neither_state_nor_run_folder(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    assert folders.state(one) != folders.state(two)
    assert folders.run(one) != folders.run(two)


def test_a_link_to_a_configuration_is_that_configuration(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert folders.state(tmp_path / "link") == folders.state(tmp_path / "real")


def test_the_nearest_folder_upward_is_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "handler.toml").touch()
    monkeypatch.chdir(tmp_path / "a" / "b")
    assert folders.configuration() == tmp_path


def test_the_runtime_directory_is_used_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert folders.run(tmp_path).parent == tmp_path / "handler-ai"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "gone"))
    usual = Path(f"/run/user/{os.getuid()}")
    expected = usual / "handler-ai" if usual.is_dir() else Path(f"/tmp/handler-ai-{os.getuid()}")
    assert folders.run(tmp_path).parent == expected


def test_what_ships_is_found() -> None:
    assert (folders.catalog() / "interfaces" / "ocr" / "v1" / "tools.json").is_file()
    assert (folders.schemas() / "agent.schema.json").is_file()
