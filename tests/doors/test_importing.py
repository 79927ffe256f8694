"""import: what is written for each harness, what is never written or shown, and that what is there stays."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import tomli

from reconciler.doors import foreign
from tests.doors.conftest import World

pytestmark = pytest.mark.slow  # commands as people start them: a process each

Golden = Callable[[str, str], None]
CANARY = "hunter2-canary"

_CLAUDE = {
    "mcpServers": {
        "GitHub": {
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-github"],
            "env": {
                "GITHUB_PERSONAL_ACCESS_TOKEN": CANARY, "ORG": "${ORG:-hunter2-canary}", "LOG_LEVEL": "debug",
                "NODE_ENV": "production",
            },
        },
        "context7": {
            "type": "http", "url": f"https://mcp.context7.com/mcp?key={CANARY}",
            "headers": {"CONTEXT7_API_KEY": CANARY, "Authorization": "Bearer ${TOKEN}"},
        },
        "postgres": {
            "command": "uvx", "args": ["mcp-postgres", f"postgresql://me:{CANARY}@db/x", "--dir", "${DIR}"],
            "disabled": True, "cwd": "/srv",
        },
        "ocr-tesseract": {"command": "uvx", "args": ["mcp-ocr"]},
        "local": {"type": "http", "url": f"http://localhost:3000/{CANARY}"},
    }
}  # fmt: skip
_CODEX = f"""
[mcp_servers.docs]
command = "npx"
args = ["-y", "mcp-docs"]
env_vars = ["DOCS_TOKEN"]
env = {{ DOCS_KEY = "{CANARY}" }}
[mcp_servers.figma]
url = "https://mcp.figma.com/mcp"
bearer_token_env_var = "FIGMA_TOKEN"
enabled = false
tool_timeout_sec = 60
"""
_VSCODE = f"""\ufeff{{
  // asked for once
  "inputs": [{{"id": "key", "type": "promptString", "password": true, "default": "{CANARY}"}}],
  "servers": {{
    "search": {{
      "type": "stdio", "command": "search", "args": ["${{workspaceFolderBasename}}"],
      "env": {{"SEARCH_KEY": "${{input:key}}"}}
    }},
    "events": {{"type": "sse", "url": "https://events.example.com/sse", "headers": {{"X-Key": "{CANARY}"}}}},
  }},
}}
"""
_CURSOR = {
    "mcpServers": {
        "notion": {"url": "https://mcp.notion.com/mcp", "headers": {"Authorization": "Bearer ${env:NOTION}"}},
        "shell": {"command": "sh", "args": ["-c", f"TOKEN={CANARY} exec server"]},
    }
}
_OPENCODE = f"""{{
  "$schema": "https://opencode.ai/config.json",
  "mcp": {{
    "everything": {{"type": "local", "command": ["npx", "-y", "server-everything"], "environment": {{
      "A_KEY": "{{env:MY_KEY}}", "B_KEY": "{{file:~/.keys/b}}", "C_KEY": "{CANARY}" }}, "enabled": false}},
  }},
}}
"""
_GRIDCTL = f"""
version: "1"
name: demo
x-env: &shared {{ LOG_LEVEL: info }}
mcp-servers:
  - name: github
    image: ghcr.io/github/github-mcp-server:v1.12.1@sha256:{"0a" * 32}
    transport: stdio
    env: {{ <<: *shared, GITHUB_TOKEN: "${{var:GITHUB_TOKEN}}", OTHER: {CANARY} }}
  - name: old
    image: example/old:latest
  - name: remote
    url: https://api.example.com/mcp
    auth: {{ type: bearer, token: {CANARY} }}
"""
_SOURCES = {
    "claude": (".mcp.json", json.dumps(_CLAUDE)),
    "codex": (".codex/config.toml", _CODEX),
    "vscode": (".vscode/mcp.json", _VSCODE),
    "cursor": (".cursor/mcp.json", json.dumps(_CURSOR)),
    "opencode": ("opencode.jsonc", _OPENCODE),
    "gridctl": ("stack.yaml", _GRIDCTL),
}
_LEFT_OUT = {"claude": 1, "gridctl": 1}  # the exit code


@pytest.fixture
def config(world: World) -> Path:
    assert world.handler("init", "config").code == 0
    return world.config


def _source(world: World, harness: str) -> Path:
    name, text = _SOURCES[harness]
    file = world.root / "site" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def _files(root: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(root)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in root.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("harness", _SOURCES)
def test_a_harness_becomes_objects_that_are_admitted_and_laid_out(
    world: World, config: Path, golden: Golden, harness: str
) -> None:
    _source(world, harness)
    code = _LEFT_OUT.get(harness, 0)
    shown = world.handler("import", harness, "site", "--dry-run", "-c", "config")
    golden(f"import-{harness}", f"{shown.out}---\n{shown.err}".replace(str(world.root), "ROOT"))
    assert shown.code == code
    before = _files(config)
    ran = world.handler("import", harness, "site", "-c", "config")
    assert ran.code == code, ran.err
    assert sorted(_files(config).keys() - before.keys()) == sorted(ran.out.split())
    checked = world.handler("validate", "config")
    assert checked.code == 0, checked.out
    assert " error " not in checked.out
    laid = world.handler("fmt", "--check", "-c", "config")
    assert (laid.code, laid.out) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("harness", _SOURCES)
def test_no_value_of_a_secret_reaches_a_file_a_screen_or_a_fault(
    world: World, config: Path, harness: str
) -> None:
    source = _source(world, harness)
    said = [
        world.handler("import", harness, "site", *more, "-c", "config")
        for more in (["--dry-run"], ["--dry-run", "-o", "json"], ["-v"], ["-v", "-o", "json"])
    ]
    said += [world.handler(*words, "-c", "config", "-v") for words in (["diff"], ["apply", "-y"], ["status"])]
    source.write_bytes(source.read_bytes()[:-9] + b' "' + CANARY.encode() + b"\xff")
    said.append(world.handler("import", harness, "site", "-v", "-c", "config"))
    assert said[-1].code == 2
    everything = "".join(ran.out + ran.err for ran in said)
    assert "import" in everything
    assert CANARY not in everything
    for path in world.root.rglob("*"):
        if path.is_file() and path != source:
            assert CANARY.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("harness", _SOURCES)
def test_a_second_import_changes_nothing_and_the_source_never_changes(
    world: World, config: Path, harness: str
) -> None:
    source = _source(world, harness)
    was = source.stat(), source.read_bytes()
    world.handler("import", harness, "site", "-c", "config")
    after = _files(world.root)
    again = world.handler("import", harness, "site", "-c", "config")
    assert again.out == ""
    assert "0 files written" in again.err
    assert "kept:" not in again.err
    assert _files(world.root) == after
    now = source.stat(), source.read_bytes()
    assert (now[0].st_mtime_ns, now[0].st_ino, now[1]) == (was[0].st_mtime_ns, was[0].st_ino, was[1])


def test_a_dry_run_writes_nothing(world: World, config: Path) -> None:
    _source(world, "cursor")
    before = _files(world.root)
    assert world.handler("import", "cursor", "site", "--dry-run", "-c", "config").code == 0
    assert _files(world.root) == before


def test_what_is_there_is_kept_whole_and_named(world: World, config: Path) -> None:
    _source(world, "cursor")
    mine = config / "connectors/notion/connector.toml"
    mine.parent.mkdir(parents=True)
    mine.write_text("# mine\n")
    (config / "agents/cursor.toml").write_text('apiVersion = "handler.agent/v1"\n')
    ran = world.handler("import", "cursor", "site", "-c", "config")
    assert ran.out.split() == ["connectors/shell/connector.toml", "bindings/shell.toml"]
    for path in ("connectors/notion/connector.toml", "agents/cursor.toml"):
        assert f"kept: {path} is there already and says something else: it was not touched\n" in ran.err
    assert mine.read_text() == "# mine\n"
    assert not (config / "bindings/notion.toml").exists()


def test_a_file_whose_comments_were_edited_is_the_same(world: World, config: Path) -> None:
    _source(world, "codex")
    world.handler("import", "codex", "site", "-c", "config")
    file = config / "bindings/docs.toml"
    file.write_text("# reviewed\n" + file.read_text())
    again = world.handler("import", "codex", "site", "-c", "config")
    assert "kept:" not in again.err
    assert file.read_text().startswith("# reviewed\n")


@pytest.mark.parametrize("link", ["connectors", "bindings", "connectors/notion", "bindings/notion.toml"])
def test_nothing_is_written_through_a_link(world: World, config: Path, link: str) -> None:
    _source(world, "cursor")
    outside = world.root / "outside"
    outside.mkdir()
    there = config / link
    if there.is_dir():
        there.rename(config / "moved")
    there.parent.mkdir(exist_ok=True)
    there.symlink_to(outside if "." not in link else outside / "file")
    world.handler("import", "cursor", "site", "-c", "config")
    assert list(outside.iterdir()) == []


def test_json_tells_what_became_of_everything(world: World, config: Path) -> None:
    _source(world, "claude")
    ran = world.handler("import", "claude", "site", "-c", "config", "-o", "json", "--agent", "me")
    told = json.loads(ran.out)
    assert told["dryRun"] is False
    assert "agents/me.toml" in told["written"]
    assert [one["server"] for one in told["left"]] == ["local"]
    assert (told["there"], told["kept"]) == ([], [])
    assert any("GITHUB" in one.upper() for one in told["toDo"])


def test_without_a_path_the_nearest_of_one_name_counts(world: World, config: Path) -> None:
    own = {"a": {"command": "person"}, "b": {"command": "person"}, "c": {"command": "person"}}
    local = {str(world.root): {"mcpServers": {"a": {"command": "local"}}}}
    (world.root / ".claude.json").write_text(json.dumps({"mcpServers": own, "projects": local}))
    shared = {"a": {"command": "shared"}, "b": {"command": "shared"}}
    (world.root / ".mcp.json").write_text(json.dumps({"mcpServers": shared}))
    assert world.handler("import", "claude", "-c", "config").code == 0
    commands = {
        name: tomli.loads((config / f"connectors/{name}/connector.toml").read_text())["command"]
        for name in "abc"
    }
    assert commands == {"a": ["local"], "b": ["shared"], "c": ["person"]}


def test_a_catalogues_name_is_left_to_the_catalogue(world: World, config: Path) -> None:
    _source(world, "claude")
    world.handler("import", "claude", "site", "-c", "config")
    assert not (config / "connectors/ocr-tesseract").exists()
    (made,) = config.glob("connectors/ocr-tesseract-*")
    assert (config / f"bindings/{made.name}.toml").exists()


def test_nothing_claims_to_serve(world: World, config: Path) -> None:
    _source(world, "cursor")
    world.handler("import", "cursor", "site", "-c", "config")
    assert world.handler("apply", "-y", "-c", "config").code == 0
    told = json.loads(world.handler("describe", "binding/notion", "-c", "config", "-o", "json").out)
    conditions = {one["type"]: (one["status"], one["reason"]) for one in told["conditions"]}
    assert conditions["Ready"][0] != "True"  # nothing ran, and nothing can select it


_CANNOT = [
    (["claud"], "'claud' is no configuration that can be imported: did you mean 'claude'?"),
    (["zed"], "it reads claude, codex, vscode, cursor, opencode, gridctl"),
    (["claude", "site", "--agent", "A B"], "'A B' is no name for an agent"),
    (["claude", "nowhere"], "there is nothing at ./nowhere"),
    (["claude", "empty"], "there is no configuration of claude here: looked for ./empty/.mcp.json"),
    (["claude", "dangling.json"], "cannot read ./dangling.json: No such file or directory"),
    (["claude", "loop.json"], "cannot read ./loop.json: Too many levels of symbolic links"),
    (["claude", "pipe"], "cannot import ./pipe: it is not a regular file"),
    (["claude", "/dev/zero"], "cannot import /dev/zero: it is not a regular file"),
    (["claude", "huge.json"], "cannot import ./huge.json: it has more than 16,777,216 bytes"),
    (["claude", "deep.json"], "cannot import ./deep.json: its brackets are nested too deep"),
    (["claude", "other.json"], "./other.json: it names no MCP server: there is no 'mcpServers' in it"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "said"), _CANNOT, ids=lambda one: str(one)[:40])
def test_what_cannot_be_imported_is_said_in_a_sentence(
    world: World, config: Path, words: list[str], said: str
) -> None:
    _source(world, "claude")
    root = world.root
    (root / "empty").mkdir()
    (root / "dangling.json").symlink_to("gone")
    (root / "loop.json").symlink_to("loop.json")
    os.mkfifo(root / "pipe")
    (root / "deep.json").write_text('{"mcpServers": ' + "[" * 100_000)
    (root / "other.json").write_text("{}")
    with (root / "huge.json").open("wb") as file:
        file.truncate(2**24 + 1)
    before = _files(config)
    ran = world.handler("import", *words, "-c", "config")
    assert ran.code == 2
    assert said in ran.err
    assert ran.out == ""
    assert _files(config) == before


def test_a_link_to_the_source_is_read_as_dotfiles_are_kept(world: World, config: Path) -> None:
    source = _source(world, "cursor")
    (world.root / "linked.json").symlink_to(source)
    assert world.handler("import", "cursor", "linked.json", "-c", "config").code == 0


@pytest.mark.slow
def test_a_megabyte_of_anything_is_read_or_refused(world: World, config: Path) -> None:
    servers = {f"s{number}": {"command": "x", "env": {"A": "b" * 4000}} for number in range(200)}
    big = world.root / "big.json"
    big.write_text(json.dumps({"history": "x" * 1_000_000, "mcpServers": servers}))
    started = time.process_time()
    assert world.handler("import", "claude", "big.json", "-c", "config", "--dry-run").code == 0
    assert time.process_time() - started < 60  # of processor time: no reading grows faster than its text


def test_a_file_that_appeared_in_between_is_not_written_over(
    world: World, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _source(world, "cursor")
    write = foreign.write

    def late(root: Path, files: dict[str, str]) -> None:
        (root / "bindings/notion.toml").write_text("# late\n")
        write(root, files)

    monkeypatch.setattr(foreign, "write", late)
    ran = world.handler("import", "cursor", "site", "-c", "config")
    assert ran.code == 2
    assert "bindings/notion.toml appeared meanwhile and was not touched: import once more" in ran.err
    assert (config / "bindings/notion.toml").read_text() == "# late\n"
