"""The harnesses that are told of an agent's services: where each keeps its MCP servers, and in which form.

One row a harness. Read from the programs themselves (Claude Code 2.1.197, Codex 0.171.0, Gemini CLI 0.61.0,
Qwen Code 0.15.10, opencode 1.18.33, Copilot CLI 1.0.102, Mistral Vibe) and, for editors, from their
documentation. ``agent.harness`` names a row; what a file of a row holds besides is never touched.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

_GRACE_S = 10  # on top of an interface's own limit, so that the router's answer comes first


@dataclass(frozen=True, slots=True)
class Service:
    """One MCP server of an agent as a harness starts it; ``timeout_s``: the longest that a call may take."""

    name: str
    command: tuple[str, ...]
    timeout_s: float

    @property
    def wait_s(self) -> int:
        """How long the harness should wait for an answer: a little longer than the router does."""
        return ceil(self.timeout_s) + _GRACE_S


Entry = Callable[[Service], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Session:
    """How one run is told without an edit of a person's files.

    ``file`` is written into a private folder; in arguments and variables ``{file}`` and ``{folder}`` stand
    for its path and the folder's. ``skills`` is where in the folder skills lie, "" where the program has no
    way to be shown them for one run. ``single`` gives arguments for each service instead of a file.
    """

    file: str = ""
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    skills: str = ""
    single: Callable[[Service], Sequence[str]] | None = None


@dataclass(frozen=True, slots=True)
class Harness:
    """One row: ``file`` below a project's folder, the path to its table of servers in it, one entry's form.

    ``named`` is the key of the name where the servers are a list and not a table. ``program`` is what starts
    it, "" for an editor, which nobody starts for an agent.
    """

    word: str
    title: str
    file: str
    table: tuple[str, ...]
    entry: Entry
    program: str = ""
    named: str = ""
    session: Session | None = None


def _plain(service: Service) -> dict[str, Any]:
    return {"command": service.command[0], "args": list(service.command[1:])}


def _claude(service: Service) -> dict[str, Any]:
    return {"type": "stdio", **_plain(service), "timeout": service.wait_s * 1000}


_ROWS = (
    Harness(
        "claude-code",
        "Claude Code",
        ".mcp.json",
        ("mcpServers",),
        _claude,
        program="claude",
        session=Session(
            "mcp.json",
            # The last flag takes no value: the two before it take as many words as follow.
            ("--mcp-config", "{file}", "--add-dir", "{folder}", "--strict-mcp-config"),
            skills=".claude/skills",
        ),
    ),
)
HARNESSES: Mapping[str, Harness] = {row.word: row for row in _ROWS}
