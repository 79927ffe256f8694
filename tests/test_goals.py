"""What a benchmark says of its goals: reached, missed, not measured."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from reconciler.control.dispatch import Endpoint, Instances

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import goals  # type: ignore[import-not-found]
from running import Running  # type: ignore[import-not-found]


def test_each_goal_is_marked_and_the_last_line_counts_them(capsys: pytest.CaptureFixture[str]) -> None:
    told = goals.Goals()
    told.title("10 objects")
    told.figure("cold", 6.0, "ms", told.goal("cold", 2.5, 0.7, "times the peer"))
    told.figure("no-op", 1.0, "ms", told.goal("no-op", 1.2, 1.2, "times the floor"))
    told.skip("validate", "taplo is not installed")
    assert told.end() == 1
    out = capsys.readouterr().out
    assert "✗ 2.50 times the peer (goal: at most 0.70)" in out
    assert "✓ 1.20 times the floor (goal: at most 1.20)" in out
    assert "✗ cold, 10 objects: 2.50 times the peer, goal at most 0.70\n" in out
    assert "- not measured: validate: taplo is not installed\n" in out
    assert out.endswith("\n1 of 2 goals reached\n")


def test_a_run_without_a_missed_goal_ends_with_nought() -> None:
    told = goals.Goals()
    told.goal("cold", 0.5, 0.7, "times the peer")
    assert told.end() == 0


def test_the_benchmarks_instance_has_all_that_a_lane_asks_of_one(tmp_path: Path) -> None:
    async def story() -> None:
        instance = Running("none.sock", str(tmp_path), str(tmp_path))
        for face in (Endpoint, Instances):
            asked = {*face.__annotations__, *vars(face)}
            assert [name for name in asked if name[0] != "_" and not hasattr(instance, name)] == []
        os.close(instance.inbox)
        os.close(instance.outbox)

    asyncio.run(story())
