"""What holds for every test: an example is judged by what it shows, not by how long a busy machine takes, and
signals are what they are at a terminal, however the tests were started. ``HANDLER_EFFORT`` says how many
examples one tries (``tests.kit.effort``).

The longest files come first, so that of two workers none is left alone with one at the end.
"""

import gc
import os
import signal
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.kit import processes
from tests.kit.effort import times

_PATIENCE_S = 30.0  # for a process that was killed, on a busy machine

settings.register_profile(
    "handler", deadline=None, max_examples=times(40), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("handler")

# What starts in the background of a script, or under nohup, ignores these, and so would all that tests start.
for _number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number is signal.SIGINT else signal.SIG_DFL)

# By how long they run, the longest first (``--durations``): what is not named is short.
_LONGEST = (
    "test_convergence.py",
    "test_engines.py",
    "test_drift.py",
    "test_matrix.py",
    "test_main_job.py",
    "test_cutover.py",
    "test_agents.py",
    "test_runtimes.py",
    "test_canary.py",
    "test_runs.py",
    "test_kinds.py",
    "test_killed_daemons.py",
    "test_hostile.py",
    "test_truths.py",
)


@pytest.fixture(autouse=True, scope="module")
def _no_process_is_left() -> Iterator[None]:
    """What a file's tests began has ended with them: who leaves a process is named, not who finds it."""
    before = processes.descendants()
    yield
    deadline = time.monotonic() + _PATIENCE_S
    while (left := processes.descendants() - before) and time.monotonic() < deadline:
        time.sleep(0.02)
    told = [processes.told(pid) for pid in left]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not told, f"left behind: {told}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order files by how long they take: those above, then whole-way flows, then slow ones."""
    weights: dict[str, int] = {}
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        weight = 2 if "flow" in marks else 1 if "slow" in marks else 0
        if item.path.name in _LONGEST:
            weight = 2 + len(_LONGEST) - _LONGEST.index(item.path.name)
        weights[str(item.path)] = max(weight, weights.get(str(item.path), 0))
    items.sort(key=lambda item: -weights[str(item.path)])


def pytest_collection_finish() -> None:
    """What was collected stays until the end: no garbage collection need look at it again."""
    gc.collect()
    gc.freeze()
