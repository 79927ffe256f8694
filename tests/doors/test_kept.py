"""Of a configuration that is not there nothing is claimed, and how to name one is said."""

import pytest

from tests.doors.conftest import World

_READ = (
    "jobs list", "jobs get 1", "receipts list", "receipts verify", "approve list", "approve show 1",
    "runs list", "runs show 1", "events",
)  # fmt: skip


@pytest.mark.parametrize("words", _READ)
def test_what_is_not_there_is_said_and_not_that_nothing_is_in_it(world: World, words: str) -> None:
    ran = world.handler(*words.split(), "-c", "elsewhere")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("handler: there is no configuration at ./elsewhere: name one with -c DIR")
