"""The resync of a controller: every ``reconcile.resyncSeconds``, and when asked, what drifted is seen to."""

import logging
from collections.abc import Callable

import anyio
from anyio.abc import TaskGroup

from reconciler.control import looking
from reconciler.control.drift import Drift, Voice, Wish
from reconciler.control.errands import Errands
from reconciler.control.findings import Findings, Grounds, Meant
from reconciler.model.names import ObjectRef
from reconciler.model.resources import Agent, Binding

_LOG = logging.getLogger("handler.drift")


class Resync:
    """Checks for drift, one check at a time."""

    def __init__(self, grounds: Grounds, meant: Callable[[], Meant], voice: Voice) -> None:
        self._meant = meant
        self._due = anyio.Event()
        self._tasks: TaskGroup | None = None  # or None until run
        self._findings = Findings(grounds, meant, Errands(self._spawn, self.soon))
        self._supervisor, self._voice = grounds.supervisor, voice
        self._rotating = False
        self.drift = Drift(self._findings.all, self._wish, voice)

    def soon(self) -> None:
        """Have a check as soon as nothing else is being decided."""
        self._due.set()

    async def run(self, turn: anyio.Lock) -> None:
        """Check again and again, each time in a ``turn``; a fault of ours ends a check, not this."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            while True:
                settings = looking.settings_in_force(self._meant().look.admission)
                with anyio.move_on_after(settings.reconcile.resync_seconds):
                    await self._due.wait()
                self._due = anyio.Event()
                try:
                    async with turn:
                        await self.drift.check()
                except Exception:  # noqa: BLE001 - what serves goes on serving
                    _LOG.exception("a check for drift broke off")
                if not self._rotating:  # a program that is asked may take its time
                    self._rotating = True
                    tasks.start_soon(self._rotate)

    def _spawn(self, work: Callable[[], object]) -> None:
        assert self._tasks is not None  # noqa: S101 - errands come of checks, and checks of run
        self._tasks.start_soon(work)  # type: ignore[arg-type]

    async def _rotate(self) -> None:
        """Have what was started with an earlier value of a secret replaced, and say so."""
        try:
            for name in await self._supervisor.follow_rotation():
                words = f"a secret of {name} has another value: its process is replaced after its calls"
                self._voice.event(f"binding/{name.binding}", "Normal", "ReconcileSuccess", words)
        except Exception:  # noqa: BLE001 - what serves goes on serving
            _LOG.exception("a look at secrets broke off")
        finally:
            self._rotating = False

    def _wish(self, ref: ObjectRef) -> Wish:
        found = self._meant().look.admission.in_force.get(ref)
        return found.spec.drift if found and isinstance(found.spec, (Agent, Binding)) else "correct"
