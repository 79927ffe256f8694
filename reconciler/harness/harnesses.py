"""The harnesses that are told of an agent's services: where each keeps its MCP servers, and in which form.

One row a harness. Read from the programs themselves (Claude Code 2.1.197, Codex 0.171.0, Gemini CLI 0.61.0,
Qwen Code 0.15.10, opencode 1.18.33, Copilot CLI 1.0.102, Mistral Vibe 3.0.2) and, for editors and the Agent
Plugin 1.0.0, from their documentation. ``agent.harness`` names a row; what a file of a row holds besides is
never touched.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

_START_S = 30  # a bridge waits ten seconds for a controller that is restarting
_GRACE_S = 10  # on top of an interface's own limit, so that the router's answer comes first

# By this a bridge knows the session around it; for harnesses that hide their surroundings from their servers.
# Whatever else it needs stands in the entry: Codex warns of each variable that is named here and not set.
_FORWARDED = ["HANDLER_SERVICES"]


@dataclass(frozen=True, slots=True)
class Service:
    """One MCP server of an agent as a harness starts it.

    ``timeout_s`` is the longest that a call may take; ``environment`` what the server has to be given.
    """

    name: str
    command: tuple[str, ...]
    timeout_s: float
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def wait_s(self) -> int:
        """How long the harness should wait for an answer: a little longer than the router does."""
        return ceil(self.timeout_s) + _GRACE_S


Entry = Callable[[Service], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Session:
    """How one run is told without an edit of a person's files.

    ``file`` is written into a private folder. In ``arguments``, ``environment`` and ``beside`` (what the file
    holds besides its servers) these stand for their values: ``{file}`` and ``{folder}`` (paths), ``{skills}``
    (the path of the folder of skills), ``{servers}`` (the entries as JSON). ``skills`` is where skills lie in
    the folder, "" where the program has no way to be shown them for one run. ``single`` gives arguments for
    each service.
    """

    file: str = ""
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    skills: str = ""
    beside: Mapping[str, Any] = field(default_factory=dict)
    single: Callable[[Service], Sequence[str]] | None = None


@dataclass(frozen=True, slots=True)
class Harness:
    """One row: ``file`` below a project's folder (or ``~/``), the path to its table of servers in it, and the
    form of an entry.

    ``named`` is the key of the name where the servers are a list and not a table. ``program`` is what starts
    it, "" for what nobody starts for an agent. Without ``session`` one run is told by the project's file.
    ``beside`` is what a file of ours alone holds besides, ``whole``: the file is ours alone.
    """

    word: str
    title: str
    file: str
    table: tuple[str, ...]
    entry: Entry
    program: str = ""
    named: str = ""
    session: Session | None = None
    beside: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = False

    @property
    def form(self) -> str:
        """``TOML`` or ``JSON``."""
        return "TOML" if self.file.endswith(".toml") else "JSON"


def again(row: Harness, name: str, entry: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    """How an entry of ours would be written now, for the same command; raises LookupError for another's."""
    first = entry["command"]
    command = first if isinstance(first, list) else [first, *entry["args"]]
    environment = entry.get("environment", entry.get("env", {}))
    return row.entry(Service(name, tuple(command), timeout_s, environment))


def _plain(service: Service) -> dict[str, Any]:
    env = {"env": dict(service.environment)} if service.environment else {}
    return {"command": service.command[0], "args": list(service.command[1:]), **env}


def _typed(service: Service) -> dict[str, Any]:
    return {"type": "stdio", **_plain(service)}


def _in_ms(service: Service) -> dict[str, Any]:
    return {**_plain(service), "timeout": service.wait_s * 1000}


def _portable(service: Service) -> dict[str, Any]:
    """Read by Claude Code and by Copilot CLI, which wants ``tools``, from one file: so it is one for both."""
    return {"type": "stdio", **_in_ms(service), "tools": ["*"]}


def _in_seconds(service: Service) -> dict[str, Any]:
    return {**_plain(service), "timeout": service.wait_s}


def _opencode(service: Service) -> dict[str, Any]:
    return {
        "type": "local",
        "command": list(service.command),
        "enabled": True,
        "timeout": service.wait_s * 1000,
        **({"environment": dict(service.environment)} if service.environment else {}),
    }


def _codex(service: Service) -> dict[str, Any]:
    return {
        **_plain(service),
        "env_vars": _FORWARDED,
        "startup_timeout_sec": _START_S,
        "tool_timeout_sec": service.wait_s,
    }


def _vibe(service: Service) -> dict[str, Any]:
    return {
        "transport": "stdio",
        **_plain(service),
        "startup_timeout_sec": _START_S,
        "tool_timeout_sec": service.wait_s,
    }


def _plugged(service: Service) -> dict[str, Any]:
    """A plugin's command is its own program, which starts ours (the format allows no absolute path)."""
    return {**_typed(service), "command": "./bin/handler-service"}


def _codex_flags(service: Service) -> tuple[str, str]:
    """``-c KEY=VALUE``: the value is read as TOML, and a JSON text of texts and lists is that."""
    entry = {key: value for key, value in _codex(service).items() if key != "env_vars"}
    inside = ",".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in entry.items())
    return "-c", f"mcp_servers.{service.name}={{{inside}}}"


_SCHEMAS = "https://agent-plugins.org/schemas/1.0.0"
_ROWS = (
    Harness(
        "claude-code",
        "Claude Code",
        ".mcp.json",
        ("mcpServers",),
        _portable,
        program="claude",
        session=Session(
            "mcp.json",
            # The last flag takes no value: the two before it take as many words as follow.
            ("--mcp-config", "{file}", "--add-dir", "{folder}", "--strict-mcp-config"),
            skills=".claude/skills",
        ),
    ),
    Harness(
        "codex",
        "Codex",
        ".codex/config.toml",
        ("mcp_servers",),
        _codex,
        program="codex",
        session=Session(single=_codex_flags),
    ),
    Harness(
        "vibe",
        "Mistral Vibe",
        ".vibe/config.toml",
        ("mcp_servers",),
        _vibe,
        program="vibe",
        named="name",
        session=Session(
            environment=(("VIBE_MCP_SERVERS", "{servers}"), ("VIBE_SKILL_PATHS", '["{skills}"]')),
            skills="skills",
        ),
    ),
    Harness(
        # Files of settings besides a person's and a project's it takes from root alone.
        "gemini",
        "Gemini CLI",
        ".gemini/settings.json",
        ("mcpServers",),
        _in_ms,
        program="gemini",
    ),
    Harness(
        "opencode",
        "opencode",
        "opencode.json",
        ("mcp",),
        _opencode,
        program="opencode",
        session=Session(
            "opencode.json",
            environment=(("OPENCODE_CONFIG", "{file}"),),
            skills="skills",
            beside={"skills": {"paths": ["{skills}"]}},
        ),
        beside={"$schema": "https://opencode.ai/config.json"},
    ),
    Harness(
        "copilot",
        "Copilot CLI",
        ".mcp.json",
        ("mcpServers",),
        _portable,
        program="copilot",
        session=Session(
            "mcp.json",
            ("--additional-mcp-config", "@{file}", "--add-dir", "{folder}"),
            skills=".github/skills",
        ),
    ),
    Harness(
        "qwen",
        "Qwen Code",
        ".qwen/settings.json",
        ("mcpServers",),
        _in_ms,
        program="qwen",
        session=Session("mcp.json", ("--mcp-config", "{file}")),
    ),
    Harness("vscode", "VS Code", ".vscode/mcp.json", ("servers",), _typed),
    Harness("cursor", "Cursor", ".cursor/mcp.json", ("mcpServers",), _plain),
    Harness("zed", "Zed", ".zed/settings.json", ("context_servers",), _in_seconds),
    Harness("windsurf", "Windsurf", "~/.codeium/windsurf/mcp_config.json", ("mcpServers",), _plain),
    Harness(
        "plugin",
        "Agent Plugin",
        ".agents/plugins/handler-{agent}/mcp.json",
        ("mcpServers",),
        _plugged,
        beside={"$schema": f"{_SCHEMAS}/mcp.schema.json"},
        whole=True,
    ),
)
HARNESSES: Mapping[str, Harness] = {row.word: row for row in _ROWS}
