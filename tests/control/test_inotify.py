"""Watches that follow folders as they come, go and move, and say when they hear no more."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.control.inotify import Lost, Watches


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root/a/b").mkdir(parents=True)
    (tmp_path / "root/unwanted").mkdir()
    return tmp_path / "root"


@pytest.fixture
def watches(root: Path) -> Iterator[Watches]:
    with Watches(root, lambda path: not path.startswith("unwanted")) as made:
        yield made


def test_what_changed_is_named_once_from_the_root_on(root: Path, watches: Watches) -> None:
    assert watches.read() == set()
    for _ in range(3):
        (root / "a/b/x").write_bytes(b"1")
    (root / "a/b/x").chmod(0o700)
    (root / "top").symlink_to("a")
    os.link(root / "a/b/x", root / "a/linked")
    assert watches.read() == {"a/b/x", "top", "a/linked"}
    (root / "a/b/x").rename(root / "a/y")
    (root / "top").unlink()
    assert watches.read() == {"a/b/x", "a/y", "top"}
    assert watches.read() == set()


def test_what_is_not_wanted_is_not_watched(root: Path, watches: Watches) -> None:
    assert len(watches) == 3
    (root / "unwanted/x").write_bytes(b"")
    assert watches.read() == set()


def test_a_folder_that_came_is_watched_with_all_below_it(root: Path, watches: Watches) -> None:
    (root / "a/new/deep/er").mkdir(parents=True)
    assert "a/new" in watches.read()
    (root / "a/new/deep/er/x").write_bytes(b"")
    assert watches.read() == {"a/new/deep/er/x"}


def test_a_folder_that_went_or_moved_is_heard_under_no_old_name(root: Path, watches: Watches) -> None:
    (root / "a/b").rename(root / "a/c")
    assert watches.read() == {"a/b", "a/c"}
    (root / "a/c/x").write_bytes(b"")
    assert watches.read() == {"a/c/x"}
    (root / "a").rename(root.with_name("outside"))
    assert watches.read() == {"a"}
    (root.with_name("outside") / "c/x").write_bytes(b"again")
    assert watches.read() == set()
    assert len(watches) == 1
    shutil.copytree(root.with_name("outside"), root / "a")
    assert "a" in watches.read()
    shutil.rmtree(root / "a")
    assert "a" in watches.read()
    assert len(watches) == 1


def test_a_link_to_a_folder_is_not_followed(root: Path, tmp_path: Path, watches: Watches) -> None:
    (tmp_path / "other").mkdir()
    (root / "a/link").symlink_to(tmp_path / "other")
    assert watches.read() == {"a/link"}
    (tmp_path / "other/x").write_bytes(b"")
    assert watches.read() == set()


@pytest.mark.parametrize("end", ["moved", "deleted"])
def test_a_root_that_is_not_where_it_was_ends_the_watch(root: Path, watches: Watches, end: str) -> None:
    if end == "moved":
        root.rename(root.with_name("away"))
    else:
        shutil.rmtree(root)
    with pytest.raises(Lost, match="not where it was"):
        watches.read()


def test_a_missing_root_is_an_error_and_leaves_no_descriptor(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(FileNotFoundError):
        Watches(tmp_path / "none", lambda path: True)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
