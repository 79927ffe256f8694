"""Whole files only, at every point at which a writer may die."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.control import atomic

ROOT = Path(__file__).resolve().parents[2]
STRACE = shutil.which("strace")


def test_the_bytes_are_there_and_the_second_writing_does_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    assert atomic.write(path, b"one")
    before = path.stat()
    assert not atomic.write(path, b"one")
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert path.stat().st_ino == before.st_ino
    assert atomic.write(path, b"two")
    assert path.read_bytes() == b"two"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_new_files_are_the_owners_alone_and_old_ones_keep_their_mode(tmp_path: Path) -> None:
    path = tmp_path / "a"
    atomic.write(path, b"1")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o664)
    atomic.write(path, b"2")
    assert path.stat().st_mode & 0o777 == 0o664


def test_a_symlink_is_replaced_and_its_target_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"mine")
    link = tmp_path / "link"
    link.symlink_to(target)
    atomic.write(link, b"new")
    assert target.read_bytes() == b"mine"
    assert not link.is_symlink()
    assert link.read_bytes() == b"new"


def test_a_fifo_in_the_way_does_not_hang(tmp_path: Path) -> None:
    path = tmp_path / "a"
    os.mkfifo(path)
    atomic.write(path, b"x")
    assert path.read_bytes() == b"x"


def test_a_missing_folder_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        atomic.write(tmp_path / "no" / "a", b"x")


def test_short_writes_are_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:3]))
    atomic.write(tmp_path / "a", b"0123456789")
    assert (tmp_path / "a").read_bytes() == b"0123456789"


@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_a_fault_of_the_disk_leaves_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "a"
    atomic.write(path, b"old")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space"):
        atomic.write(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_the_litter_of_a_killed_writer_is_swept(tmp_path: Path) -> None:
    (tmp_path / ".a.json.4711.~handler").write_bytes(b"half")
    (tmp_path / "a.json").write_bytes(b"whole")
    atomic.sweep(tmp_path)
    atomic.sweep(tmp_path / "missing")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


_WRITER = """
import os, sys
from pathlib import Path
from reconciler.control import atomic
os.getpid = lambda: 1  # so that the temporary file's name is known to the tracer
atomic.write(Path(sys.argv[1]), b"new" * 20_000)
"""


def _write_with_fault(path: Path, fault: str) -> int:
    """Run the writer with a fault injected into calls that touch its folder; its exit status."""
    touched = (path.parent, path, path.parent / ".a.1.~handler")
    command = [str(STRACE), "-f", "-qq", "-o", "/dev/null", "-e", f"inject={fault}"]
    for one in touched:
        command += ["-P", str(one)]
    command += [sys.executable, "-c", _WRITER, str(path)]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True).returncode


@pytest.mark.slow
@pytest.mark.skipif(STRACE is None, reason="strace is not installed: no system call can be made to fail")
@pytest.mark.parametrize("fault", ["signal=KILL", "error=ENOSPC"])
def test_a_crash_or_a_full_disk_at_any_call_leaves_the_old_or_the_new_file(
    tmp_path: Path, fault: str
) -> None:
    path = tmp_path / "a"
    old, new = b"old" * 20_000, b"new" * 20_000
    broken = 0
    for call in ("openat", "write", "fsync", "rename", "fchmod", "close", "unlink", "fstat", "read"):
        for number in range(1, 4):
            for entry in tmp_path.iterdir():
                entry.unlink()
            path.write_bytes(old)
            status = _write_with_fault(path, f"{call}:{fault}:when={number}")
            assert path.read_bytes() in (old, new), (call, number)
            broken += status != 0
    assert broken >= 9, "the tracer made nothing fail"
    assert path.read_bytes() == new
