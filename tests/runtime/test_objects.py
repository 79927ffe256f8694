"""Pinned code: whole, read-only, digested again before it is trusted."""

import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.model.recipes import folder_digest
from reconciler.runtime.objects import Objects
from tests.runtime.rig import KIT

FILES = {"main.py": b"print(1)", "bin/tool": b"#!/bin/sh\n"}
RUNS = frozenset({"bin/tool"})
DIGEST = folder_digest(FILES, RUNS)


def test_files_are_kept_read_only_under_their_digest(tmp_path: Path) -> None:
    objects = Objects(tmp_path / "objects")
    assert objects.path(DIGEST) is None
    place = objects.pin(DIGEST, FILES, RUNS)
    assert place == tmp_path / "objects" / DIGEST == objects.path(DIGEST)
    modes = {path.name: path.stat().st_mode & 0o777 for path in place.rglob("*")}
    assert modes == {"main.py": 0o444, "bin": 0o555, "tool": 0o555}
    assert (place / "bin" / "tool").read_bytes() == FILES["bin/tool"]


def test_pinning_again_changes_nothing(tmp_path: Path) -> None:
    objects = Objects(tmp_path)
    before = objects.pin(DIGEST, FILES, RUNS).stat()
    assert objects.pin(DIGEST, FILES, RUNS).stat().st_ino == before.st_ino


@pytest.mark.parametrize("harm", ["edit", "add", "link", "mode", "remove"])
def test_what_was_harmed_is_mended(tmp_path: Path, harm: str) -> None:
    objects = Objects(tmp_path)
    place = objects.pin(DIGEST, FILES, RUNS)
    place.chmod(0o755)
    main = place / "main.py"
    main.chmod(0o644)
    if harm == "edit":
        main.write_bytes(b"print(2)")
    elif harm == "add":
        (place / "more.py").write_bytes(b"")
    elif harm == "link":
        main.unlink()
        main.symlink_to("/etc/hostname")
    elif harm == "mode":
        main.chmod(0o755)
    else:
        main.unlink()
    assert objects.pin(DIGEST, FILES, RUNS) == place
    assert {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()} == set(FILES)
    assert not main.is_symlink()
    assert main.read_bytes() == FILES["main.py"]


def test_files_that_are_not_those_of_the_digest_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="digest"):
        Objects(tmp_path).pin(DIGEST, {**FILES, "main.py": b"other"}, RUNS)


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a/../../b"])
def test_a_path_that_leaves_the_folder_is_refused(tmp_path: Path, path: str) -> None:
    files = {path: b""}
    with pytest.raises(ValueError, match="outside"):
        Objects(tmp_path).pin(folder_digest(files), files)
    assert list(tmp_path.iterdir()) == []


def test_half_made_folders_of_a_killed_controller_go_at_the_next_start(tmp_path: Path) -> None:
    (tmp_path / ".making-1-abc").mkdir()
    Objects(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_pruning_keeps_what_is_named_and_the_kit(tmp_path: Path) -> None:
    objects = Objects(tmp_path)
    kit = objects.pin_kit(KIT)
    objects.pin(DIGEST, FILES, RUNS)
    other = {"main.py": b""}
    objects.pin(folder_digest(other), other)
    assert objects.prune({DIGEST}) == (folder_digest(other),)
    assert objects.path(DIGEST) is not None
    assert kit.is_dir()
    objects.remove(DIGEST)
    objects.remove(DIGEST)
    assert objects.path(DIGEST) is None


def test_the_kit_is_never_compiled_again(tmp_path: Path) -> None:
    objects = Objects(tmp_path)
    place = objects.pin_kit(KIT)
    assert objects.pin_kit(KIT) == place
    program = (
        f"import sys; sys.path.append({str(place)!r}); import handler_connector as kit; print(kit.__cached__)"
    )
    command = (sys.executable, "-I", "-S", "-v", "-c", program)
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.strip().startswith(f"{place}/__pycache__/handler_connector.")
    assert f"code object from '{place}/handler_connector.py'" not in ran.stderr  # what a compilation says
    assert f"code object from '{place}/__pycache__/" in ran.stderr
