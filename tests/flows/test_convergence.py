"""Whatever happened, in whatever order: in the end the status says what a fresh start on the same files says.

What a controller remembers on purpose is settled first, exactly so:

* what is *held back* (``PruneBlocked``, ``AwaitingApply``, manual mode), a *rollback*, and what is *known to
  be bad* end with one ``handler apply --prune=all`` while nothing fails any more and no session is open;
* *flapping* ends with a minute of quiet;
* the *last good form* of what is refused ends when its file is mended or removed. Until then it is the only
  thing that the past decides, and it is all in ``<state>/admitted``: a fresh controller that is given nothing
  but that folder says the same.
"""

import asyncio
import contextlib
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.control.rolling import NotKept
from tests.kit import statustree
from tests.kit.edits import EDITS, FILES, Act, Desk
from tests.kit.effort import EFFORT, times
from tests.kit.stage import Clocks, Fuse, Killed, Scene, Stage

_YEAR_S = 365 * 86_400.0
_JUMPS_S = (-56 * _YEAR_S, -_YEAR_S, -3600.0, 3600.0, 70 * _YEAR_S)


class Story:
    """One configuration, one controller that is killed and begun again, and what happens to both."""

    def __init__(self, folder: Path, fuse: Fuse) -> None:
        self.folder = folder
        self.clocks = Clocks()
        self.fuse = fuse
        self.desk = Desk(folder / "config", str(folder / "inbox"))
        self.stage = self._stage("one")
        self.lives = False

    def _stage(self, name: str) -> Stage:
        return Stage(self.desk.root, self.folder / name, self.clocks)

    async def happen(self, act: Act) -> None:
        """One act; a controller that dies of it is gone."""
        if act.what in EDITS:
            with self.fuse.spared():
                self.desk.do(act)
            return
        try:
            await getattr(self, f"_{act.what}")(act.which, act.how)
        except Killed:
            self._die()

    async def settle(self) -> None:
        """End everything that is remembered on purpose, but for last good forms."""
        self.fuse.left = None
        self.desk.tidy()
        self.stage.scene = Scene()
        self._die()
        await self._settled(self.stage)

    async def _settled(self, stage: Stage) -> None:
        await stage.start()
        await stage.look(explicit=True, prune_all=True)
        self.clocks.mono_s += 61
        await stage.look()
        await stage.look()

    async def fresh(self, name: str, *, given_admitted: bool = False) -> Stage:
        """Another state folder, a first start, and the same settling."""
        stage = self._stage(name)
        admitted = self.stage.place.state / "admitted"
        if given_admitted and admitted.exists():  # where the settings are hidden, nothing ever was
            shutil.copytree(admitted, stage.place.state / "admitted")
        await self._settled(stage)
        return stage

    def mend(self) -> None:
        """Every file is a good one, and no other lies there."""
        for path in FILES:
            self.desk.save(path, self.desk.good(path, 0))
        for folder in ("bindings", "agents"):
            for found in (self.desk.root / folder).iterdir():
                if f"{folder}/{found.name}" in FILES:
                    continue
                if found.is_dir() and not found.is_symlink():
                    shutil.rmtree(found)
                else:
                    found.unlink()

    def refused(self) -> list[str]:
        controller = self.stage.controller
        assert controller is not None
        assert controller.look is not None
        return sorted(map(str, controller.look.admission.refused))

    def _die(self) -> None:
        self.stage.drop()
        self.lives, self.fuse.left = False, None

    async def _start(self, which: int, how: int) -> None:
        if not self.lives:
            self.lives = True
            await self.stage.start()

    async def _look(self, which: int, how: int) -> None:
        if self.lives:
            await self.stage.look()

    async def _apply(self, which: int, how: int) -> None:
        if self.lives:
            await self.stage.look(explicit=True, prune_all=bool(how % 2))

    async def _kill(self, which: int, how: int) -> None:
        self._die()

    async def _doom(self, which: int, how: int) -> None:
        """It dies at one of the next calls that change the disk."""
        self.fuse.left = which % 40

    async def _jump(self, which: int, how: int) -> None:
        self.clocks.wall_s = max(0.0, self.clocks.wall_s + _JUMPS_S[how % 5])

    async def _wait(self, which: int, how: int) -> None:
        self.clocks.mono_s += (1, 11, 61)[how % 3]

    async def _roll_back(self, which: int, how: int) -> None:
        if self.lives:
            with contextlib.suppress(NotKept):
                await self.stage.look(back_to="")

    async def _use(self, which: int, how: int) -> None:
        self.stage.scene.used = ((), ("a",), ("b", "c"))[how % 3]

    async def _fail(self, which: int, how: int) -> None:
        self.stage.scene.failing = {"abc"[which % 3]} if how % 2 else set()


_RUNS = ("start", "look", "apply", "kill", "doom", "jump", "wait", "roll_back", "use", "fail")
# Every other act lets the controller see what there is: edits that nobody sees are one edit.
_ACT = st.builds(
    Act,
    st.one_of(st.sampled_from(tuple(EDITS)), st.sampled_from(("start", "look")), st.sampled_from(_RUNS)),
    st.integers(0, 41),
    st.integers(0, 41),
)


async def _told_whole(folder: Path, acts: Sequence[Act]) -> None:
    """The story, its end, and what a fresh start says: with the last good forms, and without any."""
    fuse = Fuse()
    with fuse.laid():
        story = Story(folder, fuse)
        story.desk.begin()
        for act in acts:
            await story.happen(act)
        await story.settle()
        _same(story.stage, await story.fresh("two", given_admitted=True), story, "given what was admitted")
        story.mend()
        await story.settle()
        assert story.refused() == []
        _same(story.stage, await story.fresh("three"), story, "without any past")


def _same(one: Stage, other: Stage, story: Story, what: str) -> None:
    trees = [statustree.tree(stage.place.state / "status") for stage in (one, other)]
    odd = statustree.differences(*trees)
    assert not odd, f"a fresh start {what} says otherwise:\n" + "\n".join(odd)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(
    max_examples=times(15),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
@given(acts=st.lists(_ACT, min_size=12, max_size=40))
def test_any_order_of_edits_deaths_and_clock_jumps_ends_as_a_fresh_start_does(
    acts: list[Act], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("order")
    try:
        asyncio.run(_told_whole(folder, acts))
    finally:
        shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_death_at_any_call_that_changes_the_disk_leaves_what_a_fresh_start_says(tmp_path: Path) -> None:
    """One life: a start, an edit with a removal that is applied, a rollback, and the way back. It ends at its
    first call, at its second, and so on until it lives through all of them; at the usual effort at every
    third, from one that chance decides.
    """
    asyncio.run(_every_death(tmp_path))


async def _every_death(folder: Path) -> None:
    fuse = Fuse()
    with fuse.laid():
        story = Story(folder, fuse)
        desk = story.desk
        desk.begin()
        old = desk.repo.head()
        for path in ("agents/x.toml", "bindings/a.toml", "connectors/own/main.py", "projects/p.toml"):
            desk.save(path, desk.good(path, 1))
        (desk.root / "bindings" / "c.toml").unlink()
        desk.commit()
        new = desk.repo.head()
        desk.repo.git("checkout", "-q", new)
        wanted = statustree.tree((await story.fresh("fresh")).place.state / "status")
        step = 3 if EFFORT <= 1 else 1
        deaths = random.randrange(step)
        while True:
            desk.repo.git("checkout", "-q", "-f", old)
            stage = story._stage(f"n{deaths}")
            fuse.left = deaths
            with contextlib.suppress(Killed):
                await _life(stage, story, new)
            lived, fuse.left = fuse.left >= 0, None
            desk.repo.git("checkout", "-q", "-f", new)
            await story._settled(stage)
            odd = statustree.differences(statustree.tree(stage.place.state / "status"), wanted)
            assert not odd, f"killed at call {deaths}:\n" + "\n".join(odd)
            if lived:
                break
            shutil.rmtree(stage.place.state)
            deaths += step
        assert deaths > 60, "a life has so many calls"


async def _life(stage: Stage, story: Story, new: str) -> None:
    await stage.start()
    with story.fuse.spared():
        story.desk.repo.git("checkout", "-q", "-f", new)
    await stage.look()
    await stage.look(explicit=True, prune_all=True)
    await stage.look(back_to="")
    await stage.look(explicit=True)
