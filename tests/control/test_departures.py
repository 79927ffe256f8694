"""The end of a process is told at once, whatever ended it, and of the very process that was meant."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from reconciler.control import processes
from reconciler.control.departures import Departures


def _process(child: "subprocess.Popen[bytes]") -> processes.Process:
    return processes.Process(child.pid, processes.start_time(child.pid) or 0)


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("reaped", [True, False])
def test_an_end_is_told_once_reaped_or_not(*, reaped: bool) -> None:
    async def watched() -> list[str]:
        told: list[str] = []
        heard = asyncio.Event()

        def gone(key: str) -> None:
            told.append(key)
            heard.set()

        departures = Departures(gone)
        child = subprocess.Popen(["sleep", "60"])
        departures.watch("a", _process(child))
        await asyncio.sleep(0)
        assert told == []
        child.kill()
        if reaped:
            child.wait()
        await asyncio.wait_for(heard.wait(), 30)
        child.wait()
        await asyncio.sleep(0)
        return told

    before = _open_files()
    assert asyncio.run(watched()) == ["a"]
    assert _open_files() == before


def test_one_that_ended_before_or_whose_number_is_somebody_elses_is_told_in_the_next_turn() -> None:
    async def watched() -> set[str]:
        told: set[str] = set()
        departures = Departures(told.add)
        child = subprocess.Popen(["true"])
        gone = _process(child)
        child.wait()
        departures.watch("gone", gone)
        departures.watch("reused", processes.Process(os.getpid(), 1))
        assert told == set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return told

    before = _open_files()
    assert asyncio.run(watched()) == {"gone", "reused"}
    assert _open_files() == before


def test_what_is_forgotten_is_not_told_and_holds_nothing_open() -> None:
    async def watched() -> list[str]:
        told: list[str] = []
        departures = Departures(told.append)
        with subprocess.Popen(["sleep", "60"]) as child:
            for key in ("a", "b"):
                departures.watch(key, _process(child))
            departures.forget("a")
            departures.forget("nobody")
            departures.close()
            child.kill()
        for _ in range(5):
            await asyncio.sleep(0)
        return told

    before = _open_files()
    assert asyncio.run(watched()) == []
    assert _open_files() == before
