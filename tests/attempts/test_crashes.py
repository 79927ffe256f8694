"""Representative rows of the crash matrix, with real kills; `make flows-crash` runs it whole."""

import json
import subprocess
import sys

import pytest

from tests.kit.crash import Run, expected


@pytest.mark.slow
def test_a_controller_killed_at_its_worst_moments_does_nothing_twice_and_says_what_it_cannot_know() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.kit.crash", "--json", "K2", "K4", "K9", "C2"],
        capture_output=True,
        text=True,
        timeout=110,
        check=True,
    )
    runs = [Run(**one) for one in json.loads(done.stdout)]
    assert len(runs) == 10
    for run in runs:
        assert run.killed
        assert (run.state, run.effects, run.transmissions) == expected(run), run
        assert run.held == (run.state == "indeterminate")
