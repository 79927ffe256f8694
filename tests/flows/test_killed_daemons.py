"""``kill -9`` again and again while somebody edits: nothing is left over, and the end is the same."""

import os
import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit import statustree
from tests.kit.edits import FILES, Act, Desk
from tests.kit.effort import times
from tests.kit.house import FIXTURES, House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.slow, pytest.mark.timeout(1200)]

_KILLS = times(5)
_LONGEST_S = 3.0  # a start takes one to two seconds: some die on the way, some while they serve
_EDITS = (
    "write",
    "write in place",
    "break",
    "remove",
    "rename",
    "touch",
    "chmod",
    "commit",
    "checkout",
    "reset",
)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[House]:
    with house(tmp_path) as made:
        shutil.copy(FIXTURES / "invoice.png", made.inbox)
        yield made


class Editor(threading.Thread):
    """Somebody who edits without end, by a random order that a seed gives."""

    def __init__(self, desk: Desk, seed: int) -> None:
        super().__init__(daemon=True)
        self.desk = desk
        self.over = threading.Event()
        self.pen = threading.Lock()  # who holds it edits; the others wait
        self._random = random.Random(seed)

    def run(self) -> None:
        choice = self._random
        while not self.over.wait(choice.uniform(0.0, 0.2)):
            with self.pen:
                self.desk.do(Act(choice.choice(_EDITS), choice.randrange(42), choice.randrange(42)))


def serves(made: House) -> bool:
    """Whether binding a answers; what waits since ``mode = "manual"`` was there for a while is applied."""
    made.handler("apply", "--prune=all", "-y", check=False)
    said = made.handler("call", "ocr_extract", "path=invoice.png", "--binding", "a", check=False)
    return '"pages"' in said.stdout


def mended(desk: Desk) -> None:
    """Every file of the configuration is good again, whatever became of it."""
    for path in FILES:
        desk.save(path, desk.good(path, 0))


def settled(made: House) -> dict[str, object]:
    """Everything that is remembered on purpose is ended; what a controller then says at its next start."""
    made.start()
    made.handler("apply", "--prune=all", "-y", "--wait", "--timeout", "100")
    made.kill()
    wait_for(lambda: not made.processes(), "nothing is left over")
    made.start()
    made.handler("apply", "--wait", "--timeout", "100")
    assert made.stop() == 0
    return statustree.tree(made.state / "status")


def test_killed_again_and_again_while_somebody_edits_nothing_is_left_and_the_end_is_a_fresh_starts(
    place: House, tmp_path: Path
) -> None:
    seed = int(os.environ.get("HANDLER_SEED", random.randrange(10**6)))
    print(f"HANDLER_SEED={seed}")
    desk, moments = Desk(place.config, str(place.inbox)), random.Random(seed)
    desk.begin()
    editor = Editor(desk, seed + 1)
    editor.start()
    for number in range(_KILLS):
        daemon = place.launch()
        if number % 4 == 3:  # one in four serves: a connector runs when it dies
            with editor.pen:  # by chance it might be broken for as long as anybody waits
                mended(desk)
                wait_for(lambda: serves(place), "it serves once all is mended")
        editor.over.wait(moments.uniform(0.0, _LONGEST_S))  # a random moment
        assert daemon.poll() is None, (tmp_path / "handlerd.log").read_text()[-2000:]
        place.kill()
        wait_for(lambda: not place.processes(), f"nothing is left over of controller {number}")
    editor.over.set()
    editor.join()
    desk.tidy()
    mended(desk)
    for folder in ("bindings", "agents"):
        for found in (desk.root / folder).iterdir():
            if f"{folder}/{found.name}" not in FILES:
                found.unlink()
    ended = settled(place)
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    with house(fresh) as other:
        other.config.rmdir()
        other.config = place.config
        other.env["HANDLER_CONFIG"] = str(place.config)
        odd = statustree.differences(ended, settled(other))
    assert not odd, f"HANDLER_SEED={seed}\n" + "\n".join(odd)
