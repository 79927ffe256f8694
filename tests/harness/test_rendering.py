"""What a harness is told for one run: private files, arguments after its program, variables."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest
import tomli

from reconciler.harness import formats, harnesses, rendering
from reconciler.harness.harnesses import HARNESSES, Service
from reconciler.harness.rendering import Skill
from reconciler.model.resources import HarnessWord

OCR = Service("ocr", ("/bin/handler-service", "ocr", "--socket", "/run/s/1/ocr.sock"), 120)
SKILL = Skill("ocr", b"---\nname: ocr\n---\n")


def test_claude_code_is_told_by_flags_and_a_private_file() -> None:
    told = rendering.rendered("claude-code", [OCR], [SKILL], "/run/s/1/h")
    assert json.loads(told.files["mcp.json"]) == {
        "mcpServers": {
            "ocr": {
                "type": "stdio",
                "command": "/bin/handler-service",
                "args": ["ocr", "--socket", "/run/s/1/ocr.sock"],
                "timeout": 130_000,
                "tools": ["*"],
            }
        }
    }
    assert told.files[".claude/skills/ocr/SKILL.md"] == SKILL.text
    assert rendering.command(told, ["/opt/bin/claude", "-p", "hello"]) == (
        "/opt/bin/claude",
        "--mcp-config",
        "/run/s/1/h/mcp.json",
        "--add-dir",
        "/run/s/1/h",
        "--strict-mcp-config",
        "-p",
        "hello",
    )
    started = rendering.command(told, [])
    assert started is not None
    assert started[0] == "claude"
    assert rendering.command(told, ["sh", "-c", "claude"]) is None


def test_an_agent_without_a_harness_is_told_nothing() -> None:
    told = rendering.rendered("none", [OCR], [SKILL], "/f")
    assert told == rendering.Rendered()
    assert rendering.command(told, ["make", "test"]) == ("make", "test")
    assert rendering.command(told, []) is None


def test_a_word_that_is_no_harness_is_refused() -> None:
    with pytest.raises(ValueError, match="'clod' is no harness"):
        rendering.rendered("clod", [OCR], [], "/f")


_TIMED = {  # how long each waits for an answer, as its own key says it; the others have no such key
    "claude-code": ("timeout", 130_000),
    "codex": ("tool_timeout_sec", 130),
    "vibe": ("tool_timeout_sec", 130),
    "gemini": ("timeout", 130_000),
    "opencode": ("timeout", 130_000),
    "copilot": ("timeout", 130_000),
    "qwen": ("timeout", 130_000),
    "zed": ("timeout", 130),
}


@pytest.mark.parametrize("word", HARNESSES)
def test_every_harness_that_can_waits_longer_than_the_router(word: str) -> None:
    entry = HARNESSES[word].entry(OCR)
    if word in _TIMED:
        key, value = _TIMED[word]
        assert entry[key] == value
    else:
        assert not [key for key in entry if "timeout" in key]


@pytest.mark.parametrize("word", HARNESSES)
def test_every_file_names_the_service_and_its_whole_command(word: str) -> None:
    row = HARNESSES[word]
    found: Any = rendering.document(row, [OCR])
    for key in row.table:
        found = found[key]
    entry = next(one for one in found if one[row.named] == "ocr") if row.named else found["ocr"]
    listed = entry["command"] if isinstance(entry["command"], list) else [entry["command"], *entry["args"]]
    assert listed[1:] == list(OCR.command[1:])
    assert listed[0] == ("./bin/handler-service" if word == "plugin" else OCR.command[0])


@pytest.mark.parametrize("word", HARNESSES)
@pytest.mark.parametrize("environment", [{}, {"HANDLER_RUN": "/r"}])
def test_an_entry_tells_how_it_would_be_written_again(word: str, environment: dict[str, str]) -> None:
    row = HARNESSES[word]
    one, longer = (Service("ocr", OCR.command, limit, environment) for limit in (120, 600))
    assert harnesses.again(row, "ocr", row.entry(one), 120) == row.entry(one)
    assert harnesses.again(row, "ocr", row.entry(one), 600) == row.entry(longer)


def test_codex_is_told_by_flags_alone() -> None:
    told = rendering.rendered("codex", [OCR], [SKILL], "/f")
    assert not told.files
    flag, value = told.arguments
    assert flag == "-c"
    assert tomli.loads(value)["mcp_servers"]["ocr"] == {
        "command": "/bin/handler-service",
        "args": ["ocr", "--socket", "/run/s/1/ocr.sock"],
        "startup_timeout_sec": 30,
        "tool_timeout_sec": 130,
    }


def test_vibe_is_told_by_variables() -> None:
    told = rendering.rendered("vibe", [OCR], [SKILL], "/f")
    (server,) = json.loads(told.environment["VIBE_MCP_SERVERS"])
    assert (server["name"], server["transport"]) == ("ocr", "stdio")
    assert json.loads(told.environment["VIBE_SKILL_PATHS"]) == ["/f/skills"]
    assert told.files == {"skills/ocr/SKILL.md": SKILL.text}


def test_opencode_is_told_by_a_file_that_also_names_the_skills() -> None:
    told = rendering.rendered("opencode", [OCR], [SKILL], "/f")
    assert told.environment == {"OPENCODE_CONFIG": "/f/opencode.json"}
    held = json.loads(told.files["opencode.json"])
    assert held["skills"] == {"paths": ["/f/skills"]}
    assert held["mcp"]["ocr"]["command"] == list(OCR.command)


def test_qwen_and_copilot_are_told_by_a_flag() -> None:
    assert rendering.rendered("qwen", [OCR], [], "/f").arguments == ("--mcp-config", "/f/mcp.json")
    told = rendering.rendered("copilot", [OCR], [SKILL], "/f")
    assert told.arguments == ("--additional-mcp-config", "@/f/mcp.json", "--add-dir", "/f")
    assert ".github/skills/ocr/SKILL.md" in told.files


def test_a_mark_in_a_command_is_no_mark_of_ours() -> None:
    odd = Service("ocr", ("/bin/{folder}", "{file}"), 1)
    told = rendering.rendered("opencode", [odd], [], "/f")
    assert json.loads(told.files["opencode.json"])["mcp"]["ocr"]["command"] == ["/bin/{folder}", "{file}"]


@pytest.mark.parametrize("word", ["gemini", "vscode", "cursor", "zed", "windsurf", "plugin"])
def test_what_has_no_way_for_one_run_is_told_by_its_file_alone(word: str) -> None:
    told = rendering.rendered(word, [OCR], [SKILL], "/f")
    assert told == rendering.Rendered(HARNESSES[word].program)


@pytest.mark.parametrize("word", HARNESSES)
def test_a_document_can_be_read_by_the_importer_where_it_knows_the_format(word: str) -> None:
    known = {"claude-code": "claude", "codex": "codex", "vscode": "vscode", "cursor": "cursor"}
    known["opencode"] = "opencode"
    if word not in known:
        return
    (server,) = formats.servers(known[word], rendering.document(HARNESSES[word], [OCR]), "/p", "/h")
    assert isinstance(server, formats.Server)
    assert server.command == OCR.command


def test_an_agent_may_name_every_harness_and_no_other() -> None:
    assert get_args(HarnessWord) == ("none", *HARNESSES)


@pytest.mark.parametrize("word", HARNESSES)
def test_the_page_names_every_harness_with_its_file(word: str) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/harnesses.md").read_text()
    (row,) = (line for line in page.splitlines() if line.startswith(f"| `{word}` |"))
    file = (
        HARNESSES[word].file.replace("{agent}", "AGENT").removesuffix("mcp.json" if word == "plugin" else "")
    )
    assert f"| `{file}`" in row
    entry = HARNESSES[word].entry(OCR)
    timed = [key for key in entry if key in ("timeout", "tool_timeout_sec")]
    assert f"`{timed[0]}`" in row if timed else "has no such key" in row
