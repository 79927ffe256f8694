"""Six formats, one shape: what each harness writes is read as it means it; what is odd is left out."""

import json
from typing import Any

import pytest

from reconciler.harness import formats, reading
from reconciler.harness.formats import Left, Server

UNUSABLE = "its '{}' holds a text that is too long, or what no text can hold"
NO_WAY = "it is reached in a way that no connector has: only a command, https or an image"
FROM_SOURCE = "it is built from source: publish an image with a digest, or give its command"
OVER_SSH = "it is started over ssh: write a connector with that command by hand"


def _read(harness: str, text: str, file: str = "x.json", folder: str = "/p/site") -> list[Server | Left]:
    return formats.servers(harness, reading.values(text.encode(), file), folder, "/home/me")


def _one(harness: str, entry: object, file: str = "x.json") -> Server | Left:
    tables: dict[str, Any] = {
        "claude": {"mcpServers": {"s": entry}},
        "cursor": {"mcpServers": {"s": entry}},
        "vscode": {"servers": {"s": entry}},
        "opencode": {"mcp": {"s": entry}},
        "codex": {"mcp_servers": {"s": entry}},
        "gridctl": {"mcp-servers": [entry]},
    }
    (found,) = _read(harness, json.dumps(tables[harness]), file)
    return found


_SAME = [
    ("claude", {"command": "npx", "args": ["-y", 3], "env": {"A": "b", "N": 1, "T": True, "U": None}}),
    ("cursor", {"command": "npx", "args": ["-y", "3"], "env": {"A": "b", "N": "1", "T": "true"}}),
    (
        "vscode",
        {"type": "stdio", "command": "npx", "args": ["-y", "3"], "env": {"A": "b", "N": 1, "T": True}},
    ),
    ("codex", {"command": "npx", "args": ["-y", "3"], "env": {"A": "b", "N": "1", "T": "true"}}),
    (
        "opencode",
        {"type": "local", "command": ["npx", "-y", "3"], "environment": {"A": "b", "N": 1, "T": True}},
    ),
    ("gridctl", {"name": "s", "command": ["npx", "-y", "3"], "env": {"A": "b", "N": "1", "T": "true"}}),
]


@pytest.mark.parametrize(("harness", "entry"), _SAME)
def test_a_started_server_is_the_same_in_every_format(harness: str, entry: object) -> None:
    assert _one(harness, entry) == Server("s", ("npx", "-y", "3"), env={"A": "b", "N": "1", "T": "true"})


_REACHED = [
    ("claude", {"type": "http", "url": "https://h/m", "headers": {"X": "v"}}),
    ("cursor", {"url": "https://h/m", "headers": {"X": "v"}}),
    ("vscode", {"type": "http", "url": "https://h/m", "headers": {"X": "v"}}),
    ("codex", {"url": "https://h/m", "http_headers": {"X": "v"}}),
    ("opencode", {"type": "remote", "url": "https://h/m", "headers": {"X": "v"}}),
    (
        "gridctl",
        {
            "name": "s",
            "url": "https://h/m",
            "transport": "http",
            "auth": {"type": "header", "header": "X", "value": "v"},
        },
    ),
]


@pytest.mark.parametrize(("harness", "entry"), _REACHED)
def test_a_reached_server_is_the_same_in_every_format(harness: str, entry: object) -> None:
    assert _one(harness, entry) == Server("s", url="https://h/m", headers={"X": "v"})


_SWITCHED_OFF = [
    ("claude", {"command": "x", "disabled": True}),
    ("opencode", {"command": ["x"], "enabled": False}),
    ("codex", {"command": "x", "enabled": False}),
    ("gridctl", {"name": "s", "command": ["x"], "disabled": "true"}),
]


@pytest.mark.parametrize(("harness", "entry"), _SWITCHED_OFF)
def test_what_is_switched_off_stays_so(harness: str, entry: object) -> None:
    found = _one(harness, entry)
    assert isinstance(found, Server)
    assert found.disabled


def test_codex_names_variables_that_it_passes_on() -> None:
    text = """
model = "gpt"
[mcp_servers.a]
command = "x"
env_vars = ["ONE", { name = "TWO", source = "local" }]
startup_timeout_sec = 20
[mcp_servers.b]
url = "https://h/m"
bearer_token_env_var = "TOKEN"
env_http_headers = { "X-Org" = "ORG" }
"""
    assert _read("codex", text, "config.toml") == [
        Server("a", ("x",), env={"ONE": "${ONE}", "TWO": "${TWO}"}, untaken=("startup_timeout_sec",)),
        Server("b", url="https://h/m", headers={"Authorization": "Bearer ${TOKEN}", "X-Org": "${ORG}"}),
    ]


def test_claude_codes_own_file_ranks_its_project_before_its_person() -> None:
    text = json.dumps({
        "numStartups": 3,
        "mcpServers": {"a": {"command": "person"}, "off": {"command": "x"}},
        "projects": {
            "/p": {"mcpServers": {"a": {"command": "project"}}, "disabledMcpServers": ["off"]},
            "/other": {"mcpServers": {"b": {"command": "x"}}},
        },
    })  # fmt: skip
    assert _read("claude", text) == [
        Server("a", ("project",), rank=0),
        Server("a", ("person",), rank=2),
        Server("off", ("x",), disabled=True, rank=2),
    ]


def test_an_editors_own_placeholders_are_put_in() -> None:
    found = _one("vscode", {"command": "${workspaceFolder}/run", "args": ["${userHome}/x", "${input:key}"]})
    assert isinstance(found, Server)
    assert found.command == ("/p/site/run", "/home/me/x", "${input:key}")


def test_settings_of_vs_code_may_hold_the_table_one_deeper() -> None:
    assert _read("vscode", '{"mcp": {"servers": {"s": {"command": "x"}}}}') == [Server("s", ("x",))]


def test_a_gridctl_server_may_be_an_image() -> None:
    digest = f"x:v1@sha256:{'0' * 64}"
    assert _one("gridctl", {"name": "s", "image": digest, "command": ["run"], "port": "80"}) == Server(
        "s", image=digest, untaken=("port", "command")
    )


_LEFT = [
    ("text", "its entry is text, not a table"),
    (None, "its entry is nothing, not a table"),
    (True, "its entry is true or false, not a table"),
    ({}, "it has neither a command nor an address"),
    ({"command": {}}, "it has neither a command nor an address"),
    ({"command": {"CANARY": 1}}, "its 'command' holds a table where a text should stand"),
    ({"command": "x", "args": "CANARY"}, "its 'args' is text, not a list"),
    ({"command": "x", "args": [["CANARY"]]}, "its 'args' holds a list where a text should stand"),
    ({"command": "x", "env": ["CANARY"]}, "its 'env' is a list, not a table"),
    (
        {"command": "x", "env": {"A": {"CANARY": 1}}},
        "its 'env' holds a table where a text should stand",
    ),
    ({"command": "x", "args": ["a"] * 300}, "it has too many arguments"),
    ({"args": ["a"]}, "it has no command"),
    ({"command": "a\0CANARY"}, UNUSABLE.format("command")),
    ({"command": "x", "args": ["\ud800"]}, UNUSABLE.format("args")),
    ({"command": "a" * 5000}, UNUSABLE.format("command")),
    ({"url": "https://h", "type": "ws"}, NO_WAY),
    ({"command": ["x"], "ssh": {"host": "h"}}, OVER_SSH),
    ({"openapi": {"spec": "x"}}, "it is made from an OpenAPI document, which is no MCP server"),
    ({"source": {"path": "."}}, FROM_SOURCE),
]  # fmt: skip


@pytest.mark.parametrize(("entry", "why"), _LEFT, ids=lambda one: str(one)[:30])
def test_an_entry_that_is_no_server_is_left_out_and_its_values_are_not_repeated(
    entry: object, why: str
) -> None:
    assert _one("claude", entry) == Left("s", why)


def test_a_file_without_servers_or_with_very_many_is_refused() -> None:
    with pytest.raises(ValueError, match="it names no MCP server: there is no 'mcpServers' in it"):
        _read("claude", "{}")
    with pytest.raises(ValueError, match="what should be its table of MCP servers is none"):
        _read("claude", '{"mcpServers": 3}')
    many = {f"s{number}": {"command": "x"} for number in range(201)}
    with pytest.raises(ValueError, match="it names more than 200 MCP servers"):
        _read("claude", json.dumps({"mcpServers": many}))
