"""A supervisor in a folder of its own, and a connector that runs whatever python a test sends it."""

import asyncio
import itertools
import json
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import reconciler
from reconciler.model.names import InstanceName
from reconciler.model.recipes import Pinned, Recipe, SandboxPolicy, folder_digest
from reconciler.model.status import InstanceSeen
from reconciler.runtime.supervisor import Endpoint, RuntimeFolders, Supervisor

KIT = Path(reconciler.__file__).parent / "kit" / "handler_connector.py"
PATIENCE_S = 20

# Runs the source in `code`; what it names `answer` comes back.
OBEDIENT = b"""
from handler_connector import serve

def run(args, call):
    names = {"args": args, "call": call}
    exec(args["code"], names)
    return {"answer": names.get("answer")}

serve({"run": run})
"""


def recipe(binding: str = "obedient", code: str = "", **changes: Any) -> Recipe:
    plain = Recipe(
        binding=binding, connector=binding, runtime="python", code=code, entry="main.py", environment="",
        settings=(), secrets=(), models=(), egress=(), sandbox=SandboxPolicy(), state="none", kit="k",
    )  # fmt: skip
    return replace(plain, **changes)


def pinned(main: bytes = OBEDIENT, **files: bytes) -> Pinned:
    whole = {"main.py": main, **files}
    return Pinned(folder_digest(whole), whole)


class Line:
    """One connection to a connector: requests with answers."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._buffer = b""
        self._numbers = itertools.count(1)

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        number = next(self._numbers)
        await self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}})
        while (message := await self.message()).get("id") != number:
            pass
        return message

    async def send(self, message: dict[str, Any]) -> None:
        await asyncio.get_running_loop().sock_sendall(self._socket, json.dumps(message).encode() + b"\n")

    async def message(self) -> dict[str, Any]:
        while b"\n" not in self._buffer:
            data = await asyncio.get_running_loop().sock_recv(self._socket, 65536)
            if not data:
                raise ConnectionResetError("the connector left")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        self._socket.close()


@dataclass
class Rig:
    supervisor: Supervisor
    base: Path
    seen: list[InstanceSeen] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    async def declare(
        self, binding: str = "obedient", code: Pinned | None = None, **changes: Any
    ) -> InstanceName:
        code = code or pinned()
        return await self.supervisor.declare(recipe(binding, code.digest, **changes), code)

    async def open(self, name: InstanceName) -> tuple[Endpoint, Line]:
        """Start it, greet it, and say that it answered."""
        endpoint = await self.supervisor.ready(name)
        line = Line(endpoint.connect())
        self.lines.append(line)
        await line.ask("initialize", {"protocolVersion": "2025-11-25"})
        self.supervisor.answered(name)
        return endpoint, line

    async def run(self, name: InstanceName, code: str, **arguments: Any) -> Any:
        """What ``answer`` is after this code ran in the connector."""
        _, line = await self.open(name)
        return await run(line, code, **arguments)

    def phase(self, name: InstanceName) -> InstanceSeen:
        return next(one for one in self.supervisor.observe() if one.name == str(name))


async def run(line: Line, code: str, **arguments: Any) -> Any:
    reply = await line.ask("tools/call", {"name": "run", "arguments": {"code": code, **arguments}})
    result = reply["result"]
    assert not result.get("isError"), result
    return result["structuredContent"]["answer"]


@asynccontextmanager
async def rig(base: Path | None = None, *, kit: Path = KIT, **more: Any) -> AsyncIterator[Rig]:
    """A supervisor (``more`` are its own words), closed at the end; nothing of it may be left then."""
    own = base is None
    base = base or Path(tempfile.mkdtemp(prefix="handler-rig-"))
    seen: list[InstanceSeen] = []
    supervisor = Supervisor(RuntimeFolders(base / "state", base / "run"), event=seen.append, kit=kit, **more)
    made = Rig(supervisor, base, seen)
    try:
        yield made
    finally:
        for line in made.lines:
            line.close()
        await supervisor.close()
        assert list((base / "run").iterdir()) == []
        limits = supervisor._limits
        assert not any((tree.at / limits._label).exists() for tree in limits._trees)
        if own:
            shutil.rmtree(base)
