"""Cases of a suite asked of one instance through the real router, one after the other.

The fixtures of a suite are laid into a folder of the run folder, which is the scope of its cases, and a door
is opened for as long as they run. Whoever asks judges the outcomes; nothing is judged or kept here.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio.to_thread
import orjson

from reconciler.admission import smoke, suites
from reconciler.admission.admit import Admission
from reconciler.admission.view import inside
from reconciler.conformance import cases
from reconciler.conformance.cases import Case, Outcome
from reconciler.model.contract import Contract
from reconciler.model.inventory import Resource
from reconciler.model.jobs import JOB, companions
from reconciler.model.names import InstanceName, InterfaceRef, Kind, ObjectRef
from reconciler.model.resources import Binding, Interface
from reconciler.model.routes import AgentRoutes, Route, ScopeFolder
from reconciler.plan import routing
from reconciler.router.answers import ERROR_KEY
from reconciler.router.server import Door, Peer, Pinned, Router
from reconciler.wire import jsonrpc

_FOLDER = "conformance/"
_AGAIN_S = 0.2  # between two questions about a job
_JOB_S = 3600.0  # a job of a case is given up after an hour
_LINE_FACTOR, _LINE_ROOM = 2, 2**20  # what the text copy and the envelope add to an answer's bytes


@dataclass(frozen=True, slots=True)
class Suite:
    """Cases of one interface version, and the files that lie beside them, by path."""

    contract: Contract
    cases: tuple[Case, ...]
    files: Mapping[str, bytes]
    models: tuple[str, ...] | None = None  # as in the routes of agents


def suite_of(admission: Admission, version: str, binding: Binding) -> Suite | None:
    """The whole suite of an interface version as a binding's instance is asked it; None where the version is
    not in force.
    """
    form = admission.in_force.get(ObjectRef(Kind.INTERFACE, version))
    contract = admission.contracts.get(InterfaceRef.parse(version))
    if form is None or contract is None or not isinstance(form.spec, Interface):
        return None
    known, _ = cases.read(smoke.suite(cast("Resource[Interface]", form)), suites.SUITE)
    wanted = tuple(case for case in known if case.tool in contract.tools)
    files = {
        path.removeprefix(_FOLDER): data for path, data in inside(form).items() if path.startswith(_FOLDER)
    }
    return Suite(contract, wanted, files, routing.models(contract, binding.models))


class Asking:
    """A connection at an open door, on which cases are asked."""

    def __init__(
        self,
        contract: Contract,
        scope: Path,
        wire: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        clock: Callable[[], float],
    ) -> None:
        self._contract = contract
        self._scope = scope
        self._reader, self._writer = wire
        self._clock = clock
        self._number = 0

    async def ask(self, case: Case) -> Outcome:
        """Ask one case; of a job, the whole of it. OSError where the router gives no answer."""
        began = self._clock()
        result = await self._call(case.tool, case.input)
        if self._contract.tools[case.tool].kind == "job" and result[0] is not None:
            result = await self._job(case.tool, {JOB: result[0][JOB]})
        files = await anyio.to_thread.run_sync(_written, self._contract, case, self._scope)
        return Outcome(*result, self._clock() - began, files)

    async def _job(self, submit: str, handle: Mapping[str, Any]) -> "_Said":
        """Wait until a job is over: what came of it. One that takes too long is cancelled."""
        asking, until = companions(submit), self._clock() + _JOB_S
        while True:
            seen, error = await self._call(asking["status"], handle)
            if seen is None or seen["state"] != "working":
                return (None, error) if seen is None else await self._call(asking["result"], handle)
            if self._clock() > until:
                await self._call(asking["cancel"], handle)
                return None, "unavailable"
            await asyncio.sleep(_AGAIN_S)

    async def _call(self, tool: str, arguments: Mapping[str, Any]) -> "_Said":
        self._number += 1
        self._writer.write(_line(self._number, tool, arguments))
        return _result(await self._reader.readline())


class CaseRunner:
    """Opens doors for suites. Its folder is ``<run>/p``; what an earlier controller left there goes."""

    def __init__(
        self, router: Router, run: Path, *, token: Callable[[], str], clock: Callable[[], float]
    ) -> None:
        """``token`` gives names that nobody else uses; ``clock`` is monotonic seconds."""
        self._router = router
        self._folder = run.resolve() / "p"
        self._token = token
        self._clock = clock
        shutil.rmtree(self._folder, ignore_errors=True)

    @asynccontextmanager
    async def opened(self, suite: Suite, instance: InstanceName, whose: str) -> AsyncIterator[Asking]:
        """Lay the fixtures and open a door to one instance; both are gone afterwards. Calls are recorded as
        ``whose/BINDING``'s. OSError: we cannot ask.
        """
        token = self._token()
        scope = self._folder / f"{token}.suite"
        interface = suite.contract.interface
        route = Route(interface, instance.binding, instance, suite.contract, models=suite.models)
        granted = (ScopeFolder(str(scope), "write"),)
        pinned = Pinned(
            f"{whose}-{token}", AgentRoutes(f"{whose}/{instance.binding}", {interface.name: route}, granted)
        )

        def pin(peer: Peer) -> Pinned | str:
            return pinned

        door = Door(f"p/{token}", self._folder / token, pin, (interface.name,), lambda session: None)
        try:
            await anyio.to_thread.run_sync(_lay, scope, suite.files)
            await self._router.open(door)
            limit = suite.contract.spec.limits.max_output_bytes * _LINE_FACTOR + _LINE_ROOM
            wire = await asyncio.open_unix_connection(
                str(door.folder / f"{interface.name}.sock"), limit=limit
            )
            try:
                yield Asking(suite.contract, scope, wire, self._clock)
            finally:
                wire[1].close()
        finally:
            await self._router.close(door.id)
            self._router.forget(pinned.session)
            shutil.rmtree(scope, ignore_errors=True)


def _lay(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(parents=True, mode=0o700)
    for path, data in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        target.write_bytes(data)


_Said = tuple[Mapping[str, Any] | None, str | None]


def _line(number: int, tool: str, arguments: Mapping[str, Any]) -> bytes:
    params = {"name": tool, "arguments": dict(arguments)}
    return jsonrpc.encode({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})


def _result(line: bytes) -> _Said:
    """The structured answer, or the error code, of one line of the router. OSError when there is none."""
    if not line.endswith(b"\n"):
        raise ConnectionResetError("the router ended the connection of the cases")
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
