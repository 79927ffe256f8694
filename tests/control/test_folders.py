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


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder that a configuration ``one`` uses, beside ``two``."""
    for name in ("one", "two", "state"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HANDLER_STATE", str(tmp_path / "state"))
    folders.claim(tmp_path / "one", tmp_path / "state")
    return tmp_path


@pytest.mark.parametrize("variable", ["HANDLER_STATE", "HANDLER_RUN"])
def test_a_folder_that_a_variable_names_serves_one_configuration_alone(
    shared: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.delenv("HANDLER_STATE")
    monkeypatch.setenv(variable, str(shared / "state"))
    assert folders.places(str(shared / "one"))[0] == str(shared / "one")
    with pytest.raises(folders.Foreign, match=f"belongs to the configuration {shared}/one, not to .*/two"):
        folders.places(str(shared / "two"))


def test_a_configuration_keeps_its_state_under_every_name_it_has(shared: Path) -> None:
    (shared / "link").symlink_to("one")
    assert folders.state(shared / "link") == shared / "state"


def test_a_name_that_is_switched_to_another_folder_keeps_its_state(shared: Path) -> None:
    current = shared / "current"
    current.symlink_to("one")
    folders.claim(current, shared / "state")
    current.unlink()
    current.symlink_to("two")
    assert folders.state(current) == folders.state(shared / "two") == shared / "state"
    with pytest.raises(folders.Foreign):
        folders.state(shared / "one")


def test_a_configuration_that_is_away_keeps_its_state(shared: Path) -> None:
    (shared / "one").rmdir()
    assert folders.state(shared / "one") == shared / "state"
    with pytest.raises(folders.Foreign, match="daemon adopt"):
        folders.state(shared / "two")


def test_where_nothing_names_a_configuration_it_is_the_one_whose_state_is_named(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shared / "two")
    assert folders.configuration() == shared / "one"
    (shared / "two/handler.toml").touch()
    assert folders.configuration() == shared / "two"
