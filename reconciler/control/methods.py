"""What the control socket answers: apply, diff, stop; of sessions by ``openings``."""

from collections.abc import Mapping
from typing import Any

import anyio

from reconciler import __version__
from reconciler.control import asking, comparing
from reconciler.control.looking import Look
from reconciler.control.loop import Controller
from reconciler.control.openings import Openings
from reconciler.control.rpc import Caller, Method, Refused
from reconciler.plan.losses import Live

_DEFAULT_WAIT_S = 120.0


class Methods:
    """The controller's answers, by method name."""

    def __init__(self, controller: Controller, *, pid: int, stop: anyio.Event) -> None:
        self._controller = controller
        self._keeper = controller.parts.doorkeeper
        self._pid = pid
        self._stop = stop
        self._openings = Openings(controller)

    def table(self) -> Mapping[str, Method]:
        return {
            "hello": self.hello,
            "apply": self.apply,
            "ready": self.ready,
            "diff": self.diff,
            "rollback": self.rollback,
            "reconcile": self.reconcile,
            "secret.check": self.secret_check,
            "stop": self.stop,
            **self._openings.table(),
        }

    async def hello(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """Who this is, what it serves, and what it cannot write: a status file could not say that."""
        look, parts = self._controller.look, self._controller.parts
        return {
            "version": __version__,
            "pid": self._pid,
            "revision": look.admission.inventory.revision if look else "",
            "generation": self._controller.table.generation,
            "looks": self._controller.looks,
            "http": self._controller.ears.address,
            "calls": {one.name: one.calls for one in parts.supervisor.lively() if one.calls},
            "faults": [one.fault for one in (parts.board, parts.journal, parts.looker) if one.fault],
        }

    async def diff(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """What an apply would change, deciding everything anew and doing nothing."""
        looker, runs = self._controller.parts.looker, self._runs()
        wish = comparing.Wish(str(params.get("rev") or ""), prune_all=params.get("prune") == "all")
        try:
            return await self._controller.quietly(lambda: comparing.preview(looker, runs, wish))
        except OSError as error:
            raise Refused(str(error)) from error

    async def apply(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """Reconcile now; with ``prune: "all"`` what is gone from the files goes, however much. With ``wait``:
        until the newest routes serve, or ``timeoutSeconds`` passed. With ``expect``: only at that revision.
        """
        if params.get("dryRun"):
            return {**await self.diff(params, caller), "applied": False, "ready": False}
        looker, expected = self._controller.parts.looker, str(params.get("expect") or "")
        try:
            await self._controller.quietly(lambda: comparing.unmoved(looker, expected))
        except OSError as error:
            raise Refused(str(error)) from error
        before, runs = self._controller.look, self._runs()
        found = await self._controller.now(explicit=True, prune_all=params.get("prune") == "all")
        if not isinstance(found, Look):
            raise Refused(f"the configuration cannot be read now: {found.detail}")
        if params.get("wait"):
            await self._settled_within(float(params.get("timeoutSeconds") or _DEFAULT_WAIT_S))
        await self._controller.speak()
        told = comparing.report(before, found, runs)
        return {**told, "applied": True, "ready": self._controller.settled()}

    async def rollback(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """Serve an earlier admitted revision (``to``, or the previous one) until the source moves on."""
        return await asking.roll_back(self._controller, str(params.get("to") or ""), self._report)

    async def reconcile(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """Look now, and try again what failed (of ``object``, or anywhere); what is held back stays so."""
        return await asking.reconcile(self._controller, str(params.get("object") or ""))

    async def ready(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """Whether the newest routes serve, what is waited for, and whether that is in vain (``stuck``);
        answers within ``timeoutSeconds``.
        """
        await self._settled_within(float(params.get("timeoutSeconds") or 0))
        now = self._controller
        return {"ready": now.settled(), "waiting": now.waiting(), "stuck": now.stuck()}

    async def secret_check(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """Whether each secret of a binding that serves, or of all, is found now; never a value."""
        return await asking.find_secrets(self._controller, str(params.get("binding") or ""))

    async def _settled_within(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await self._controller.until_settled()

    async def stop(self, params: Mapping[str, Any], caller: Caller) -> Any:
        self._stop.set()
        return {"pid": self._pid}

    def _report(self, before: Look | None, look: Look) -> dict[str, Any]:
        return comparing.report(before, look, self._runs())

    def _runs(self) -> Live:
        """What runs now: open sessions, and the instances that have a process."""
        seen = self._controller.parts.supervisor.observe()
        running = [one.name for one in seen if one.pid is not None]
        unproven = {name: trial.why for name, trial in self._controller.facts().unproven.items()}
        return comparing.live(self._keeper.sessions(), running, unproven)
