"""A folder's look changes with everything in it, is the same otherwise, and costs one lstat an entry."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.runtime import fingerprint
from reconciler.runtime.objects import Objects
from tests.runtime.rig import KIT
from tests.runtime.test_objects import DIGEST, FILES, RUNS


def _grown(root: Path) -> Path:
    for number in range(5):
        folder = root / f"f{number}"
        folder.mkdir(parents=True)
        for name in "abc":
            (folder / name).write_text(name)
    return root


def _same_size_and_time(root: Path) -> None:
    file = root / "f1/a"
    seen = file.stat()
    file.write_text("x")
    os.utime(file, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def _exchanged(root: Path) -> None:
    (root / "new").write_text("n")
    (root / "new").rename(root / "f1/a")


HARMS: list[Callable[[Path], object]] = [
    lambda root: (root / "f1/a").write_text("longer"),
    lambda root: (root / "f1/a").unlink(),
    lambda root: (root / "f1/new").write_text(""),
    lambda root: (root / "f1/a").chmod(0o600),
    lambda root: (root / "f1/a").rename(root / "f1/z"),
    shutil.rmtree,
    lambda root: root.rename(root.with_name("away")).exists() and root.symlink_to(root.with_name("away")),
    _exchanged,
]


@pytest.mark.parametrize("look", [fingerprint.near, fingerprint.lasting])
@pytest.mark.parametrize("harm", HARMS)
def test_every_change_is_seen(
    tmp_path: Path, harm: Callable[[Path], object], look: Callable[[Path], str]
) -> None:
    root = _grown(tmp_path / "root")
    before = look(root)
    assert before == look(root)
    harm(root)
    assert look(root) != before


def test_a_near_look_sees_what_hides_its_time_and_a_lasting_one_survives_a_copy(tmp_path: Path) -> None:
    root = _grown(tmp_path / "root")
    shutil.copytree(root, tmp_path / "copy")
    assert fingerprint.lasting(tmp_path / "copy") != "", "a copy of a folder has the times of its own"
    before = fingerprint.near(root), fingerprint.lasting(root)
    _same_size_and_time(root)
    assert fingerprint.near(root) != before[0]
    assert fingerprint.lasting(root) == before[1]


def test_an_entry_may_be_left_out(tmp_path: Path) -> None:
    root = _grown(tmp_path / "root")
    (root / "seal").touch()
    before = fingerprint.lasting(root, but="seal")
    (root / "seal").write_text("words")
    assert fingerprint.lasting(root, but="seal") == before


def test_intact_code_costs_one_look_an_entry_and_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = Objects(tmp_path)
    place = objects.pin(DIGEST, FILES, RUNS)
    kit = objects.pin_kit(KIT)
    looks: list[str] = []
    monkeypatch.setattr(fingerprint, "lstat", lambda path: looks.append(path) or os.lstat(path))
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} is read"))
    assert objects.intact(DIGEST)
    assert objects.kit_intact(kit)
    entries = [place, *place.rglob("*"), kit, *kit.rglob("*")]
    assert sorted(looks) == sorted(map(str, entries))


def test_harmed_code_is_not_intact_and_touched_code_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = Objects(tmp_path)
    place = objects.pin(DIGEST, FILES, RUNS)
    os.utime(place / "main.py", (1, 1))
    assert objects.intact(DIGEST)
    with monkeypatch.context() as only:
        only.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} is read"))
        assert objects.intact(DIGEST)
    (place / "main.py").chmod(0o644)
    (place / "main.py").write_bytes(b"print(2)")
    assert not objects.intact(DIGEST)
    objects.pin(DIGEST, FILES, RUNS)
    assert objects.intact(DIGEST)
    assert [path.name for path in tmp_path.iterdir()] == [DIGEST]
    objects.remove(DIGEST)
    assert not objects.intact(DIGEST)


@pytest.mark.parametrize("instead", ["file", "link"])
def test_what_lies_in_the_place_of_code_makes_way(tmp_path: Path, instead: str) -> None:
    objects = Objects(tmp_path / "objects")
    place = objects.pin(DIGEST, FILES, RUNS)
    away = place.rename(tmp_path / "away")
    place.write_text("x") if instead == "file" else place.symlink_to(away)
    assert not objects.intact(DIGEST)
    objects.pin(DIGEST, FILES, RUNS)
    assert objects.intact(DIGEST)
    assert (away / "main.py").read_bytes() == FILES["main.py"], "nothing is removed through a link"


def test_a_harmed_kit_is_made_anew(tmp_path: Path) -> None:
    objects = Objects(tmp_path)
    kit = objects.pin_kit(KIT)
    compiled = next(kit.glob("__pycache__/handler_connector.*.pyc"))
    compiled.chmod(0o644)
    compiled.write_bytes(b"evil")
    assert not objects.kit_intact(kit)
    objects.pin_kit(KIT)
    assert objects.kit_intact(kit)
    assert next(kit.rglob("*.pyc")).read_bytes() != b"evil"
