"""One controller per state folder, decided by the kernel."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.control import lock, processes

_HOLD = """
import sys, pathlib, reconciler.control.lock as l
with l.held(pathlib.Path(sys.argv[1])):
    print('held', flush=True)
    sys.stdin.read()
"""
_TRY = """
import sys, pathlib, reconciler.control.lock as l
try:
    with l.held(pathlib.Path(sys.argv[1])):
        print('won', flush=True)
        sys.stdin.read()
except l.Held as e:
    print('lost', e.pid, flush=True)
"""


def _start(code: str, state: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, str(state)], stdin=-1, stdout=-1, text=True)


def test_a_second_controller_is_told_who_holds_the_folder(tmp_path: Path) -> None:
    first = _start(_HOLD, tmp_path)
    assert first.stdout and first.stdout.readline() == "held\n"
    with pytest.raises(lock.Held, match=str(first.pid)), lock.held(tmp_path):
        pass
    found = lock.owner(tmp_path)
    assert found is not None and found.pid == first.pid
    first.communicate("")


def test_a_killed_owner_holds_nothing(tmp_path: Path) -> None:
    first = _start(_HOLD, tmp_path)
    assert first.stdout and first.stdout.readline() == "held\n"
    first.send_signal(signal.SIGKILL)
    first.wait()
    first.stdout.close()
    assert first.stdin
    first.stdin.close()
    assert lock.owner(tmp_path) is None
    with lock.held(tmp_path):
        found = lock.owner(tmp_path)
        assert found is not None and found.pid == os.getpid()


@pytest.mark.slow
def test_of_twelve_that_start_at_once_exactly_one_wins(tmp_path: Path) -> None:
    for round_number in range(3):
        state = tmp_path / str(round_number)
        started = [_start(_TRY, state) for _ in range(12)]
        words = [one.stdout.readline().split()[0] for one in started if one.stdout]
        for one in started:
            one.communicate("")
        assert sorted(words) == ["lost"] * 11 + ["won"]


def test_a_child_does_not_inherit_the_lock(tmp_path: Path) -> None:
    with lock.held(tmp_path):
        child = subprocess.Popen(["sleep", "30"], close_fds=False)
    try:
        with lock.held(tmp_path):
            pass
    finally:
        child.kill()
        child.wait()


def test_a_lock_that_somebody_removed_is_missed_and_taken_again(tmp_path: Path) -> None:
    with lock.held(tmp_path) as mine:
        assert not mine.is_lost()
        (tmp_path / "lock").unlink()
        assert mine.is_lost()
        mine.take_again()
        assert not mine.is_lost()
        with pytest.raises(lock.Held), lock.held(tmp_path):
            pass


def test_a_lock_that_another_took_meanwhile_names_it(tmp_path: Path) -> None:
    with lock.held(tmp_path) as mine:
        (tmp_path / "lock").unlink()
        other = _start(_HOLD, tmp_path)
        assert other.stdout and other.stdout.readline() == "held\n"
        with pytest.raises(lock.Held, match=str(other.pid)):
            mine.take_again()
        assert mine.is_lost()
        other.communicate("")
        mine.take_again()
        assert not mine.is_lost()


def test_words_in_the_file_mean_nothing_without_the_process(tmp_path: Path) -> None:
    tmp_path.joinpath("lock").write_text(f"{os.getpid()} 1\n")  # our pid, another start time
    assert lock.owner(tmp_path) is None
    tmp_path.joinpath("lock").write_text("garbage")
    assert lock.owner(tmp_path) is None


def test_a_process_is_known_by_number_and_start() -> None:
    mine = processes.start_time(os.getpid())
    assert mine is not None
    assert processes.lives(processes.Process(os.getpid(), mine))
    assert not processes.lives(processes.Process(os.getpid(), mine + 1))
    above = processes.parent(os.getpid())
    assert above is not None and above.pid == os.getppid()


def test_a_zombie_does_not_live() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert processes.start_time(child.pid) is None
    child.wait()
