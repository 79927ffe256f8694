"""What the control socket answers about sessions: open one, close it, say which are open.

A session that a launcher opens *with itself* (``withCaller``) ends with that very process, whatever ends it;
one that a script opens ends by ``close``, or after a day without a call. Why an agent gets none is said here
with the place and the mend.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from reconciler.admission import absent
from reconciler.control import leaving
from reconciler.control.capabilities import SHEET
from reconciler.control.loop import Controller
from reconciler.control.rpc import Caller, Method, Refused
from reconciler.control.sessions import Session
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.problems import Problem, Severity
from reconciler.model.resources import Agent
from reconciler.model.routes import AgentRoutes, Route, ScopeFolder
from reconciler.model.stands import instant
from reconciler.plan import routing

_FEW = 12  # names in one sentence


class Openings:
    """The controller's answers about sessions, by method name."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._keeper = controller.parts.doorkeeper

    def table(self) -> Mapping[str, Method]:
        return {
            "session.open": self.open,
            "session.close": self.close,
            "session.list": self.listed,
            "session.egress": self.egress,
        }

    async def open(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """Open a session of an agent, or of one binding for its operator, and say where its sockets are.
        ``withCaller``: it ends with the process that asks.
        """
        table = self._controller.table
        if binding := params.get("binding"):
            routes = self._binding_routes(str(binding), params.get("scope") or [])
        else:
            routes = self._agent_routes(str(params.get("agent", "")))
        opener = caller.process if params.get("withCaller") else None
        try:
            session = await self._keeper.open(routes, table, opener)
        except OSError as error:
            raise Refused(f"the session cannot be opened: {error.strerror or error}") from error
        return self.answer(session)

    def answer(self, session: Session) -> dict[str, Any]:
        """What whoever works in a session is told of it: its sockets, folders, interfaces, harness."""
        interfaces = {
            name: {
                "interface": str(route.interface),
                "timeoutSeconds": route.contract.spec.limits.timeout_seconds,
            }
            for name, route in session.routes.routes.items()
        }
        told = self._told(session.agent)
        return {**self._as_json(session), "interfaces": interfaces, **told}

    async def close(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """End one session: its sockets go, its calls end."""
        session = await self._keeper.close(str(params.get("session", "")))
        if session is None:
            asked = str(params.get("session"))[:40]
            raise Refused(f"there is no open session {asked!r}: `handler session list` lists them")
        return {"session": session.id}

    async def listed(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """Every open session, standing ones included; the records of their calls are on the disk by then."""
        await asyncio.to_thread(self._controller.parts.journal.flush)
        return [self._as_json(session) for session in self._keeper.sessions()]

    async def egress(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """Keep the record of what a session's sandbox tried to reach."""
        asked = str(params.get("session", ""))
        session = next((one for one in self._keeper.sessions() if one.id == asked), None)
        if session is None:
            raise Refused(f"there is no open session {asked[:40]!r}")
        return {"kept": leaving.keep(self._controller.parts.journal, session, params.get("attempts"))}

    def _told(self, agent: str) -> dict[str, Any]:
        """What the agent's file says of whoever runs for it; a binding's session has none."""
        look = self._controller.look
        ref = ObjectRef(Kind.AGENT, agent) if look and "/" not in agent else None
        form = look.admission.in_force.get(ref) if look and ref else None
        if form is None or not isinstance(form.spec, Agent):
            return {"harness": "none", "sandbox": {"egress": []}}
        of = form.spec.sandbox
        bounds = {"memory_bytes": of.memory_bytes, "pids": of.pids, "cpu": of.cpu}
        return {"harness": form.spec.harness, "sandbox": {"egress": list(of.egress), "bounds": bounds}}

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
        if look is not None and resource is None:
            known = sorted({name.binding for name in self._controller.table.recipes})
            told = ", ".join(known[:_FEW]) + (", …" if known[_FEW:] else "")
            raise Refused(f"there is no binding {binding[:80]!r} to call; bindings: {told or 'none'}")
        if look is None or resource is None or not names:
            raise Refused(
                f"binding {binding!r} cannot be called: `handler describe binding/{binding}` says why"
            )
        connector = look.admission.inventory.connector(resource.spec.connector or "")
        routes: dict[str, Route] = {}
        unbuilt: list[str] = []
        for contract in sorted(look.admission.contracts.values(), key=lambda c: c.interface):
            if connector and str(contract.interface) in connector.spec.implements:
                interface = look.admission.inventory.interface(str(contract.interface))
                if interface is not None and (words := absent.needed(interface)):
                    unbuilt.append(f"{', '.join(words)} of {contract.interface}")
                    continue
                listed = routing.models(contract, self._controller.table.recipes[names[0]].models)
                route = Route(contract.interface, binding, names[0], contract, models=listed)
                routes[contract.interface.name] = route
        if unbuilt and not routes:
            missing = "; ".join(unbuilt[:_FEW])
            raise Refused(f"binding {binding!r} cannot be called: {missing} is not built in this release")
        folders = tuple(ScopeFolder(str(path)) for path in scope)
        return AgentRoutes(agent=f"binding/{binding}", routes=routes, scope=folders)

    def _is_draining(self, session: Session) -> bool:
        """Whether a new session of its agent gets other routes, or none."""
        now = self._controller.table.agents.get(session.agent)
        return "/" not in session.agent and (now is None or not routing.same_routes(now, session.routes))

    def _stands(self, session: Session) -> dict[str, Any]:
        found = {}
        for name, route in session.routes.routes.items():
            stand = self._keeper.standings.stand(route)
            since = instant(stand.since or session.opened_at)
            found[name] = {"interface": str(route.interface), "state": stand.state, "since": since}
        return found

    def _as_json(self, session: Session) -> dict[str, Any]:
        folder = self._keeper.folder(session)
        return {
            "session": session.id,
            "agent": session.agent,
            "openedAt": session.opened_at,
            "generation": session.generation,
            "revision": session.revision,
            "standing": session.standing,
            "draining": self._is_draining(session),
            "opener": {"pid": session.opener.pid} if session.opener else None,
            "scope": [{"path": one.path, "access": one.access} for one in session.routes.scope],
            "folder": str(folder),
            "services": str(folder / "services.sock"),
            "capabilities": str(folder / SHEET),
            "sockets": {name: str(folder / f"{name}.sock") for name in session.routes.routes},
            "stands": self._stands(session),
            "routes": {name: str(route.instance) for name, route in session.serving.routes.items()},
        }
