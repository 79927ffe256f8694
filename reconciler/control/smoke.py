"""Smoke cases: calls of an interface's own suite, through the real router, on an instance that is new.

Which cases is the binding's word (``conformance.smoke``); what passes is ``conformance.cases``' judgement.
The fixtures of a suite are laid into a folder of the run folder, which is the scope of its cases, and a door
is opened for as long as they run. Their calls are recorded like any others, as agent ``smoke/BINDING``. What
a connector answered is judged and never told: a fault names the case and what was expected.
"""

import asyncio
import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio.to_thread
import orjson

from reconciler.admission import smoke, suites
from reconciler.admission.admit import Admission
from reconciler.admission.view import inside
from reconciler.conformance import cases
from reconciler.conformance.cases import Case, Outcome
from reconciler.control.proving import Demand
from reconciler.model.contract import Contract
from reconciler.model.inventory import Resource
from reconciler.model.names import InstanceName, InterfaceRef, Kind, ObjectRef
from reconciler.model.problems import quoted
from reconciler.model.resources import Binding, Connector, Interface
from reconciler.model.routes import AgentRoutes, Route, ScopeFolder
from reconciler.plan import routing
from reconciler.router.answers import ERROR_KEY
from reconciler.router.server import Door, Peer, Pinned, Router
from reconciler.wire import jsonrpc

_FOLDER = "conformance/"
_LINE_FACTOR, _LINE_ROOM = 2, 2**20  # what the text copy and the envelope add to an answer's bytes


@dataclass(frozen=True, slots=True)
class Suite:
    """The cases to run of one interface version, and the files that lie beside them, by path."""

    contract: Contract
    cases: tuple[Case, ...]
    files: Mapping[str, bytes]
    models: tuple[str, ...] | None = None  # as in the routes of agents


def asked(admission: Admission, binding: str) -> tuple[Suite, ...]:
    """What a binding asks of its new instances; () for most."""
    form = admission.in_force.get(ObjectRef(Kind.BINDING, binding))
    if form is None or not isinstance(form.spec, Binding) or not form.spec.conformance.smoke:
        return ()
    connector = admission.in_force.get(ObjectRef(Kind.CONNECTOR, form.spec.connector or ""))
    versions = connector.spec.implements if connector and isinstance(connector.spec, Connector) else ()
    found = (_suite(admission, version, form.spec) for version in versions)
    return tuple(one for one in found if one is not None and one.cases)


def digest(suites_asked: Sequence[Suite]) -> str:
    """What identifies what was asked: the versions, their cases and files; "" when nothing was."""
    if not suites_asked:
        return ""
    whole = hashlib.sha256()
    for one in suites_asked:
        whole.update(f"{one.contract.interface} {one.cases!r}\n".encode())
        for path, data in sorted(one.files.items()):
            whole.update(f"{hashlib.sha256(data).hexdigest()} {path}\n".encode())
    return whole.hexdigest()


class Smoke:
    """Runs smoke cases. Its folder is ``<run>/p``; what an earlier controller left there goes."""

    def __init__(
        self, router: Router, run: Path, *, token: Callable[[], str], clock: Callable[[], float]
    ) -> None:
        """``token`` gives names that nobody else uses; ``clock`` is monotonic seconds."""
        self._router = router
        self._folder = run.resolve() / "p"
        self._token = token
        self._clock = clock
        shutil.rmtree(self._folder, ignore_errors=True)

    def demand(self, admission: Admission, binding: str) -> Demand:
        """What a new instance of a binding has to show, beyond its first answer."""
        if found := asked(admission, binding):
            return Demand(digest(found), partial(self.faults, found))
        return Demand()

    async def faults(self, suites_asked: Sequence[Suite], instance: InstanceName) -> tuple[str, ...]:
        """Run all of it; each fault is one sentence, none: it passed. OSError: we could not ask."""
        faults: list[str] = []
        for one in suites_asked:
            faults += await self._of_suite(one, instance)
        return tuple(faults)

    async def _of_suite(self, suite: Suite, instance: InstanceName) -> list[str]:
        token = self._token()
        scope = self._folder / f"{token}.suite"
        interface = suite.contract.interface
        route = Route(interface, instance.binding, instance, suite.contract, models=suite.models)
        granted = (ScopeFolder(str(scope), "write"),)
        pinned = Pinned(
            f"smoke-{token}", AgentRoutes(f"smoke/{instance.binding}", {interface.name: route}, granted)
        )

        def pin(peer: Peer) -> Pinned | str:
            return pinned

        door = Door(f"p/{token}", self._folder / token, pin, (interface.name,), lambda session: None)
        try:
            await anyio.to_thread.run_sync(_lay, scope, suite.files)
            await self._router.open(door)
            return await self._ask_all(suite, door.folder / f"{interface.name}.sock", scope)
        finally:
            await self._router.close(door.id)
            self._router.forget(pinned.session)
            shutil.rmtree(scope, ignore_errors=True)

    async def _ask_all(self, suite: Suite, socket: Path, scope: Path) -> list[str]:
        limit = suite.contract.spec.limits.max_output_bytes * _LINE_FACTOR + _LINE_ROOM
        reader, writer = await asyncio.open_unix_connection(str(socket), limit=limit)
        faults: list[str] = []
        try:
            for number, case in enumerate(suite.cases):
                began = self._clock()
                writer.write(_call(number, case))
                result = _result(await reader.readline())
                files = await anyio.to_thread.run_sync(_written, suite.contract, case, scope)
                outcome = Outcome(*result, self._clock() - began, files)
                name = f"smoke case {quoted(case.name)} of {suite.contract.interface}"
                faults += [f"{name}: {fault}" for fault in cases.judge(case, outcome)]
        finally:
            writer.close()
        return faults


def _suite(admission: Admission, version: str, binding: Binding) -> Suite | None:
    form = admission.in_force.get(ObjectRef(Kind.INTERFACE, version))
    contract = admission.contracts.get(InterfaceRef.parse(version))
    if form is None or contract is None or not isinstance(form.spec, Interface):
        return None
    known, _ = cases.read(smoke.suite(cast("Resource[Interface]", form)), suites.SUITE)
    names = binding.conformance.smoke
    wanted = tuple(case for case in known if case.name in names and case.tool in contract.tools)
    files = {
        path.removeprefix(_FOLDER): data for path, data in inside(form).items() if path.startswith(_FOLDER)
    }
    return Suite(contract, wanted, files, routing.models(contract, binding.models))


def _lay(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(parents=True, mode=0o700)
    for path, data in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        target.write_bytes(data)


def _call(number: int, case: Case) -> bytes:
    params = {"name": case.tool, "arguments": dict(case.input)}
    return jsonrpc.encode({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})


def _result(line: bytes) -> tuple[Mapping[str, Any] | None, str | None]:
    """The structured answer, or the error code, of one line of the router. OSError when there is none."""
    if not line.endswith(b"\n"):
        raise ConnectionResetError("the router ended the connection of the smoke cases")
    message = orjson.loads(line)
    result = message.get("result")
    if result is None:
        return None, "invalid_input"  # the router understood the line, and not what it asks for
    if result.get("isError"):
        return None, str(result["_meta"][ERROR_KEY]["error"])
    return result["structuredContent"], None


def _written(contract: Contract, case: Case, scope: Path) -> dict[str, bytes]:
    """What the connector wrote for each output file that the case asked for."""
    found = {}
    for field in contract.tools[case.tool].files:
        path = (scope / str(case.input.get(field.name, ""))).resolve()
        if field.output and field.name in case.input and path.is_relative_to(scope) and path.is_file():
            found[field.name] = path.read_bytes()
    return found
