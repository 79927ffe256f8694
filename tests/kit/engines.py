"""Runs a connector of the catalogue without controller and sandbox, and judges cases of its interfaces.

The connector's own ``main.py`` runs with the kit on a socket that is handed over, as the supervisor does it,
and the test speaks the wire to it. What the router would do to a call is done by the contract: input and
output against the schemas, unlisted codes to ``unavailable``.
"""

import asyncio
import hashlib
import itertools
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import tomli

from reconciler.conformance import cases
from reconciler.model.contract import ROUTER_CODES, Contract, Tool, compiled
from reconciler.model.resources import Connector, Interface
from reconciler.runtime.environments import Environments

ROOT = Path(__file__).resolve().parents[2]
CATALOG = ROOT / "catalog"
KIT = ROOT / "reconciler" / "kit"
CACHE = ROOT / ".demo" / "envs"  # an engine's packages: fetched once for a checkout
ANSWER_S = 300  # a page takes seconds; a machine full of other tests takes its time

# As the product starts a python connector, but for the folders of the hand-off, which are the sandbox's own.
BOOT = """
import sys
kit, app, environment, inbox, outbox = sys.argv[1:]
sys.path[:0] = [one for one in (kit, app, environment) if one]
import handler_connector
handler_connector.INBOX, handler_connector.OUTBOX = inbox, outbox
import runpy
sys.argv = [app + "/main.py"]
runpy.run_path(app + "/main.py", run_name="__main__")
"""


def interface(version: str) -> Path:
    return CATALOG / "interfaces" / version


def connectors(interface: str) -> list[str]:
    """Every connector of the catalogue that implements some version of an interface."""
    every = sorted(path.parent.name for path in CATALOG.glob("connectors/*/main.py"))  # of python's
    return [name for name in every if any(one.startswith(f"{interface}/") for one in spec(name).implements)]


def variables(connector: str, settings: Mapping[str, object]) -> dict[str, str]:
    """What carries a connector's settings: these values, and its own where none is given."""
    found = {}
    for key, one in spec(connector).settings.items():
        value = settings.get(key, one.default)
        if one.env and value is not None:
            found[one.env] = str(value)
    return found


def spec(connector: str) -> Connector:
    text = (CATALOG / "connectors" / connector / "connector.toml").read_text()
    return Connector.model_validate(tomli.loads(text))


@cache
def contract(version: str) -> Contract:
    folder = interface(version)
    described = Interface.model_validate(tomli.loads((folder / "interface.toml").read_text()))
    return compiled(described, (folder / "tools.json").read_bytes())


def suite(version: str) -> tuple[cases.Case, ...]:
    file = interface(version) / "conformance" / "cases.toml"
    found, problems = cases.read(tomli.loads(file.read_text()), file.name)
    assert not problems
    return found


def environment(connector: str) -> str:
    """The folder with the engine's packages, as the product builds it; "" for a connector that needs none."""
    lock = CATALOG / "connectors" / connector / "requirements.lock"
    if not lock.is_file():
        return ""

    async def build() -> Path:
        wanted = lock.read_bytes()
        return await Environments(CACHE).build(hashlib.sha256(wanted).hexdigest(), wanted, print)

    return str(asyncio.run(build()))


@dataclass
class Running:
    """One connector process, and one connection to it."""

    inbox: Path
    outbox: Path
    wire: socket.socket
    lines: Iterator[bytes]
    pid: int
    numbers: Iterator[int] = field(default_factory=itertools.count)
    known: dict[str, tuple[dict[str, Any], float]] = field(default_factory=dict)

    def start(self, tool: str, arguments: dict[str, Any], *, progress: bool = False) -> int:
        """Send one call, files given as paths; gives its number."""
        number = next(self.numbers)
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        if progress:
            params["_meta"] = {"progressToken": number}
        self.send({"id": number, "method": "tools/call", "params": params})
        return number

    def send(self, message: dict[str, Any]) -> None:
        self.wire.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def answer(self, number: int) -> dict[str, Any]:
        """The result of a call; other lines (progress, answers to others) are dropped."""
        for line in self.lines:
            message = json.loads(line)
            if message.get("id") == number:
                return dict(message["result"])
        raise AssertionError("the connector hung up")

    def hand_over(self, path: Path) -> dict[str, Any]:
        blob = f"in{next(self.numbers)}"
        (self.inbox / blob).write_bytes(path.read_bytes())
        return {
            "name": path.name,
            "mediaType": "application/octet-stream",
            "size": path.stat().st_size,
            "blob": blob,
        }

    def outcome(self, promised: Contract, case: cases.Case, scope: Path) -> cases.Outcome:
        """Run one case as the router would: the contract before, the files across, the contract after."""
        tool = promised.tools[case.tool]
        if tool.input_fault(case.input):
            return cases.Outcome(None, "invalid_input", 0.0)
        result, took = self.asked(tool, case, scope)
        if result.get("isError"):
            code = result["_meta"]["ai.handler/error"]["code"]
            known = code in promised.errors or code in ROUTER_CODES
            return cases.Outcome(None, code if known else "unavailable", took)
        assert tool.output_fault(result["structuredContent"]) is None
        written = result.get("_meta", {}).get("ai.handler/files", {})
        files = {name: (self.outbox / one["blob"]).read_bytes() for name, one in written.items()}
        return cases.Outcome(result["structuredContent"], None, took, files)

    def asked(self, tool: Tool, case: cases.Case, scope: Path) -> tuple[dict[str, Any], float]:
        """What came back, and after how many seconds.

        A connector never learns which version a call comes from, so what two versions ask alike, of the same
        bytes, is asked once and held to the law of each.
        """
        incoming = {
            one.name: [scope / name for name in _names(case.input[one.name])]
            for one in tool.files
            if not one.output and one.name in case.input
        }
        digests = {
            name: [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
            for name, paths in incoming.items()
        }
        question = json.dumps([case.tool, {**case.input, **digests}], sort_keys=True)
        if question not in self.known:
            handed = {name: [self.hand_over(path) for path in paths] for name, paths in incoming.items()}
            many = {one.name for one in tool.files if one.many}
            arguments = {**case.input, **{k: v if k in many else v[0] for k, v in handed.items()}}
            for one in tool.files:
                if one.output and one.name in case.input:
                    arguments[one.name] = {"name": case.input[one.name], "blob": f"out{next(self.numbers)}"}
            began = time.monotonic()
            result = self.answer(self.start(case.tool, arguments))
            self.known[question] = (result, time.monotonic() - began)
        return self.known[question]


def _names(value: Any) -> list[str]:
    """The names that a file argument holds: one, or a list."""
    return list(value) if isinstance(value, list | tuple) else [value]


@contextmanager
def started(
    connector: str, folder: Path, settings: Mapping[str, object] | None = None, **more: str
) -> Iterator[Running]:
    """One process of it, with these settings and further variables; killed at the end, its log printed."""
    (folder / "in").mkdir()
    (folder / "out").mkdir()
    app = CATALOG / "connectors" / connector
    own = variables(connector, settings or {}) | more
    with socket.socket(socket.AF_UNIX) as listener, (folder / "log").open("wb") as log:
        listener.bind(str(folder / "s"))
        listener.listen()
        words = (str(KIT), str(app), environment(connector), str(folder / "in"), str(folder / "out"))
        child = subprocess.Popen(
            [sys.executable, "-B", "-I", "-S", "-c", BOOT, *words],
            env={"PATH": os.environ["PATH"], "HANDLER_CONNECTOR_FD": str(listener.fileno()), **own},
            pass_fds=(listener.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            with socket.socket(socket.AF_UNIX) as wire:
                wire.connect(str(folder / "s"))
                wire.settimeout(ANSWER_S)
                with wire.makefile("rb") as lines:
                    yield Running(folder / "in", folder / "out", wire, lines, child.pid)
        finally:
            child.kill()
            child.wait()
            sys.stdout.write((folder / "log").read_text(errors="replace"))
