"""Agents for an examination alone: small programs, each run in a sandbox as any agent is."""

import secrets
import shutil
from collections.abc import Mapping
from typing import Any

from reconciler.control.callees import Callee, NotCalledError
from reconciler.control.processes import Process
from reconciler.model.agentrun import Run
from reconciler.runtime.supervisor import RuntimeFolders

_RUNS = {
    "echo": Run(command=("cat",)),
    "greeter": Run(command=("echo", "{input}")),
    "flood": Run(command=("yes",)),
    "broken": Run(command=("false",)),
    "sleepy": Run.model_validate({"command": ["sleep", "600"], "timeoutSeconds": 1}),
    "distant": Run(command=("cat",)),
}


class ExamCallees:
    """They have no services and no scope. Implements ``callees.Callees``."""

    def __init__(self, folders: RuntimeFolders) -> None:
        """The examination's own."""
        self._folder, self._config = folders.run / "s", folders.state

    def listed(self, session: str) -> list[dict[str, str]]:
        """All of them."""
        return [{"agent": name, "description": "for an examination"} for name in _RUNS]

    def callee(self, session: str, caller: str, name: str) -> Callee:
        """As ``Callees`` has it."""
        run = self.still(caller, name)
        if name == "distant":
            raise NotCalledError("too_deep", "an examination's stands at the end of a chain of callers")
        return Callee(name, run, (caller,))

    def still(self, caller: str, name: str) -> Run:
        """As ``Callees`` has it."""
        if name not in _RUNS:
            raise NotCalledError("no_such_agent", "it is none of an examination's")
        return _RUNS[name]

    def class_of(self, session: str, agent: str) -> str:
        """Nothing has one."""
        return ""

    def mark(self, session: str, class_name: str) -> None:
        """Nothing has one."""

    async def open(self, name: str, opener: Process, above: tuple[str, ...]) -> Mapping[str, Any]:
        """A folder without a socket."""
        session = secrets.token_hex(6)
        folder = self._folder / session
        folder.mkdir(parents=True, mode=0o700)
        return {
            "session": session,
            "agent": name,
            "folder": str(folder),
            "services": str(folder / "services.sock"),
            "capabilities": str(folder / "capabilities.json"),
            "sockets": {},
            "interfaces": {},
            "scope": [],
            "harness": "none",
            "sandbox": {"egress": []},
            "config": str(self._config),
        }

    async def close(self, session: str) -> None:
        """The folder goes."""
        shutil.rmtree(self._folder / session, ignore_errors=True)
