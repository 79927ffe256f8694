"""Calls a connector's functions in this process, held to the contract as the router holds a process to it."""

import threading
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from reconciler.conformance import cases
from reconciler.model.contract import ROUTER_CODES, Contract, Tool


class Call:
    """A call that somebody waits for."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self.added: list[tuple[str, str, bytes]] = []

    def add(self, setting: str, name: str, data: bytes) -> None:
        self.added.append((setting, name, data))

    def progress(self, done: float, total: float | None = None) -> None: ...


def outcome(
    promised: Contract, tools: Mapping[str, Callable[[Any, Any], Any]], case: cases.Case, scope: Path
) -> cases.Outcome:
    """How a case ends: its answer, or the code that an agent would read. ``scope`` holds its files."""
    tool = promised.tools[case.tool]
    if tool.input_fault(case.input):
        return cases.Outcome(None, "invalid_input", 0.0)
    try:
        answer = tools[case.tool](_handed(tool, case, scope), Call())
    except Exception as fault:  # noqa: BLE001 - whatever a connector meets
        code = getattr(fault, "code", "unavailable")
        assert code in promised.errors or code in ROUTER_CODES, fault
        return cases.Outcome(None, code, 0.0)
    assert tool.output_fault(answer) is None, (tool.output_fault(answer), answer)
    return cases.Outcome(answer, None, 0.0)


def _handed(tool: Tool, case: cases.Case, scope: Path) -> dict[str, Any]:
    """The arguments as a connector gets them: a file is open to be read."""
    given = dict(case.input)
    for one in tool.files:
        if one.name in given:
            files = [Given(scope / name) for name in (given[one.name] if one.many else [given[one.name]])]
            given[one.name] = files if one.many else files[0]
    return given


class Given:
    """A file that an agent handed in, as the kit shows it."""

    def __init__(self, path: Path) -> None:
        self.name, self.path, self.size = path.name, str(path), path.stat().st_size
        self.media_type = "application/octet-stream"

    def read(self, size: int = -1) -> bytes:
        return self.open().read(size)

    def open(self) -> BytesIO:
        return BytesIO(Path(self.path).read_bytes())


def failure(act: Callable[[], object]) -> tuple[str, str]:
    """The code and the diagnostic that a function ends with."""
    try:
        answer = act()
    except Exception as fault:  # noqa: BLE001 - whatever a connector meets
        return getattr(fault, "code", type(fault).__name__), getattr(fault, "diagnostic", str(fault))
    raise AssertionError(f"it answered: {answer}")
