"""What removed bindings leave: kept for a while, then gone; what is used stays however old it is."""

import os
from pathlib import Path

import pytest

from reconciler.runtime import outdated

NOW_S = 2e9
OLD_S, NEW_S = NOW_S - outdated.KEPT_S - 60, NOW_S - outdated.KEPT_S + 60


def folder(path: Path, at_s: float) -> None:
    (path / "inside").mkdir(parents=True)
    (path / "inside" / "file.py").write_text("")
    os.utime(path, (at_s, at_s))


def test_an_old_environment_that_nobody_uses_is_put_aside_at_once_and_erased_later(tmp_path: Path) -> None:
    for name, at_s in {"old": OLD_S, "used": OLD_S, "new": NEW_S, ".making-1-x": OLD_S}.items():
        folder(tmp_path / name, at_s)
    aside = outdated.environments(tmp_path, {"used"}, NOW_S)
    assert not (tmp_path / "old").exists()
    assert [path.name for path in aside] == [f"{outdated.GOING}old"]
    outdated.erase(aside)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".making-1-x", "new", "used"]
    assert outdated.environments(tmp_path, {"used"}, NOW_S) == []


@pytest.mark.parametrize("name", ["gone.log", "gone.log.1"])
def test_an_old_log_of_a_binding_that_is_gone_is_removed(tmp_path: Path, name: str) -> None:
    for file, at_s in {name: OLD_S, "here.log": OLD_S, "fresh.log": NEW_S, "note.txt": OLD_S}.items():
        (tmp_path / file).write_text("words\n")
        os.utime(tmp_path / file, (at_s, at_s))
    assert outdated.logs(tmp_path, {"here"}, NOW_S) == ["gone"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fresh.log", "here.log", "note.txt"]
