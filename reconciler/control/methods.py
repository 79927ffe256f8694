"""What the control socket answers: apply, diff, sessions, stop."""

from collections.abc import Mapping
from typing import Any

import anyio

from reconciler import __version__
from reconciler.control import asking, comparing
from reconciler.control.looking import Look
from reconciler.control.loop import Controller
from reconciler.control.rpc import Caller, Method, Refused
from reconciler.control.sessions import Session
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.problems import Problem, Severity
from reconciler.model.routes import AgentRoutes, Route, ScopeFolder
from reconciler.plan.losses import Live

_DEFAULT_WAIT_S = 120.0


class Methods:
    """The controller's answers, by method name."""

    def __init__(self, controller: Controller, *, pid: int, stop: anyio.Event) -> None:
        self._controller = controller
        self._keeper = controller.parts.doorkeeper
        self._pid = pid
        self._stop = stop

    def table(self) -> Mapping[str, Method]:
        return {
            "hello": self.hello,
            "apply": self.apply,
            "ready": self.ready,
            "diff": self.diff,
            "rollback": self.rollback,
            "reconcile": self.reconcile,
            "session.open": self.session_open,
            "session.close": self.session_close,
            "session.list": self.session_list,
            "stop": self.stop,
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

    async def _settled_within(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await self._controller.until_settled()

    async def session_open(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """Open a session of an agent, or of one binding for its operator, and say where its sockets are."""
        table = self._controller.table
        if binding := params.get("binding"):
            routes = self._binding_routes(str(binding), params.get("scope") or [])
        else:
            routes = self._agent_routes(str(params.get("agent", "")))
        try:
            session = await self._keeper.open(routes, table)
        except OSError as error:
            raise Refused(f"the session cannot be opened: {error.strerror or error}") from error
        return self._session_json(session)

    async def session_close(self, params: Mapping[str, Any], caller: Caller) -> Any:
        session = await self._keeper.close(str(params.get("session", "")))
        if session is None:
            raise Refused(f"there is no open session {str(params.get('session'))[:40]!r}")
        return {"session": session.id}

    async def session_list(self, params: Mapping[str, Any], caller: Caller) -> Any:
        return [self._session_json(session) for session in self._keeper.sessions()]

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

    def _agent_routes(self, agent: str) -> AgentRoutes:
        routes = self._controller.table.agents.get(agent)
        if routes is None:
            raise Refused(self._why_not(agent))
        return routes

    def _why_not(self, agent: str) -> str:
        look = self._controller.look
        problems: tuple[Problem, ...] = ()
        if look:
            problems = tuple(
                problem
                for ref, found in look.admission.refused.items()
                if ref.name == agent
                for problem in found
                if problem.severity is Severity.ERROR
            )
        if problems:
            first = problems[0]
            return f"agent {agent!r} cannot start a session: {first.at}: {first.what}\n  mend  {first.mend}"
        form = look.admission.in_force.get(ObjectRef(Kind.AGENT, agent)) if look and agent else None
        if form is not None:
            why = getattr(form.spec, "suspend_reason", "") or "`handler describe` says why"
            state = "is suspended" if getattr(form.spec, "suspend", False) else "has no routes"
            return f"agent {agent!r} {state}, so no session opens: {why}"
        known = ", ".join(sorted(self._controller.table.agents)) or "none"
        return f"there is no agent {agent!r} to open a session for; agents: {known}"

    def _binding_routes(self, binding: str, scope: list[str]) -> AgentRoutes:
        look = self._controller.look
        resource = look.admission.inventory.binding(binding) if look else None
        names = [n for n in self._controller.table.recipes if n.binding == binding]
        if look is None or resource is None or not names:
            raise Refused(
                f"binding {binding!r} cannot be called: `handler describe binding/{binding}` says why"
            )
        connector = look.admission.inventory.connector(resource.spec.connector or "")
        routes: dict[str, Route] = {}
        for contract in sorted(look.admission.contracts.values(), key=lambda c: c.interface):
            if connector and str(contract.interface) in connector.spec.implements:
                routes[contract.interface.name] = Route(contract.interface, binding, names[0], contract)
        folders = tuple(ScopeFolder(str(path)) for path in scope)
        return AgentRoutes(agent=f"binding/{binding}", routes=routes, scope=folders)

    def _session_json(self, session: Session) -> dict[str, Any]:
        folder = self._keeper.folder(session)
        return {
            "session": session.id,
            "agent": session.agent,
            "openedAt": session.opened_at,
            "generation": session.generation,
            "revision": session.revision,
            "standing": session.standing,
            "opener": {"pid": session.opener.pid} if session.opener else None,
            "folder": str(folder),
            "services": str(folder / "services.sock"),
            "sockets": {name: str(folder / f"{name}.sock") for name in session.routes.routes},
            "routes": {name: str(route.instance) for name, route in session.routes.routes.items()},
        }
