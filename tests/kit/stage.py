"""A controller that is driven step by step in one process: real folders, injected clocks, any death.

The looker, the loop's decisions, the board and every book on disk are the real ones; what would run is
granted by ``Scene``, which starts nothing. ``Fuse`` ends the controller before its Nth call that changes the
disk (in the middle of it, where bytes are written), and from then on every such call: nothing of ours can
tidy up, as after SIGKILL.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from reconciler.control.admitted import Admitted
from reconciler.control.bad import Bad
from reconciler.control.harnessdrift import HarnessDrift
from reconciler.control.journal import Journal
from reconciler.control.looking import Looker
from reconciler.control.loop import Controller, Parts
from reconciler.control.place import Place
from reconciler.control.proving import Demand
from reconciler.control.retained import Retained
from reconciler.control.status import Board, iso
from reconciler.control.withdrawn import Withdrawn
from reconciler.model.calls import Refusal
from reconciler.model.names import InstanceName
from reconciler.model.recipes import Recipe
from reconciler.model.status import InstanceSeen, Summary

_CHANGES = ("write", "fsync", "rename", "replace", "unlink", "ftruncate", "mkdir", "rmdir", "fchmod")


class Killed(BaseException):
    """The controller died here."""


class Fuse:
    """Ends a controller at its Nth call that changes the disk; None: it lives."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.spent = 0  # calls while it was laid

    def _burn(self) -> bool:
        """True when this call is the last one, or comes after it."""
        if self.left is None:
            return False
        self.spent += 1
        self.left = max(self.left - 1, -1)
        return self.left < 0

    @contextmanager
    def spared(self) -> Iterator[None]:
        """What is done meanwhile is done by others."""
        left, self.left = self.left, None
        yield
        self.left = left

    @contextmanager
    def laid(self) -> Iterator[None]:
        """Watch the calls of this process."""
        real = {name: getattr(os, name) for name in _CHANGES}
        calls = {**real, "fsync": lambda fd: None}  # nobody cuts the power here

        def watched(name: str) -> Callable[..., Any]:
            def call(*words: Any, **more: Any) -> Any:
                if not self._burn():
                    return calls[name](*words, **more)
                if name == "write" and self.left == -1 and len(words[1]) > 1:
                    real[name](words[0], bytes(words[1])[: len(words[1]) // 2])
                raise Killed(name)

            return call

        try:
            for name in _CHANGES:
                setattr(os, name, watched(name))
            yield
        finally:
            for name, call in real.items():
                setattr(os, name, call)


@dataclass
class Clocks:
    """What the controller takes for the time. ``wall_s`` may jump; ``mono_s`` only goes on."""

    wall_s: float = 1.8e9
    mono_s: float = 1e5


@dataclass
class Scene:
    """Stands for the supervisor, the dispatcher and the doorkeeper: nothing runs, all that is asked is
    granted, but for the start of what is ``failing``.
    """

    used: tuple[str, ...] = ()  # the bindings that open sessions use
    failing: set[str] = field(default_factory=set)  # bindings whose new instances do not start

    async def declare(self, recipe: Recipe, code: object) -> InstanceName:
        return recipe.name

    async def retire(self, name: InstanceName) -> None: ...

    def observe(self) -> tuple[InstanceSeen, ...]:
        return ()

    def observed(self) -> Mapping[str, InstanceSeen]:
        return {one.name: one for one in self.observe()}

    def lively(self) -> tuple[InstanceSeen, ...]:
        return self.observe()

    def seen(self, name: InstanceName) -> InstanceSeen | None:
        return None

    def revoke(self, why: Mapping[InstanceName, str]) -> None: ...

    async def follow_rotation(self) -> tuple[InstanceName, ...]:
        return ()

    def forgive(self, name: InstanceName) -> None: ...

    def prove(self, name: InstanceName, heard: Callable[[Refusal | None], None]) -> None:
        heard(Refusal("unavailable", "it ended") if name.binding in self.failing else None)

    async def restore(self) -> None: ...

    async def follow(self, table: object) -> None: ...

    def take_withdrawn(self, why: object, known: object) -> None: ...

    def in_use(self) -> tuple[str, ...]:
        return self.used

    def recipes(self) -> Mapping[InstanceName, Recipe]:
        return {}


class Unlocked:
    """In the place of a lock: here controllers die without a process that would let go of one."""

    def is_lost(self) -> bool:
        return False


class Stage:
    """One state folder and, while it lives, one controller on it."""

    def __init__(self, config: Path, folder: Path, clocks: Clocks) -> None:
        self.place = Place(config, folder / "state", folder / "run")
        self.clocks = clocks
        self.scene = Scene()
        self.controller: Controller | None = None

    async def start(self) -> None:
        """Begin as ``handlerd`` does: with what was in force, then with what lies there."""
        controller = self.controller = self._made()
        parts = controller.parts
        controller.look = parts.looker.first()
        controller.table = parts.retained.load()
        await controller._do(controller.look)
        await self.look()

    def _made(self) -> Controller:
        wall, mono = lambda: self.clocks.wall_s, lambda: self.clocks.mono_s
        state, scene = self.place.state, cast("Any", self.scene)
        looker = Looker(self.place, Admitted(state / "admitted", wall), clock=mono)
        looker.rolling._now = wall
        looker.source._wall_ns = lambda: int(wall() * 1e9)
        looker.source._clock = mono
        parts = Parts(
            looker,
            scene,
            scene,
            scene,
            Board(state / "status", wall),
            Journal(state, wall),
            Retained(state / "retained.json"),
            Bad(state / "bad.json", lambda: iso(wall())),
            cast("Any", Unlocked()),
            HarnessDrift(state),
            lambda admission, binding: Demand(),
        )
        frame = Summary(configuration=str(self.place.config), controller={"pid": 1})
        return Controller(parts, Withdrawn(scene), frame, clock=mono)

    async def look(self, **how: Any) -> None:
        """One look, the proofs that follow, and all that is to be said of it."""
        controller = self.controller
        assert controller is not None
        await controller.now(**how)
        for _ in range(3):
            tried = [n for n, trial in controller._prover.unproven.items() if not trial.given_up]
            for name in tried:
                await controller._prove(name)
            if not tried:
                break
            await controller.now()
        await controller.speak()
        controller.parts.journal.flush()

    def drop(self) -> None:
        """The process is gone; what it had open is closed, and nothing more is written."""
        self.controller = None
