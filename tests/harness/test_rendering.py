"""What a harness is told for one run: private files, arguments after its program, variables."""

import json

import pytest

from reconciler.harness import rendering
from reconciler.harness.harnesses import HARNESSES, Service
from reconciler.harness.rendering import Skill

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


@pytest.mark.parametrize("word", HARNESSES)
def test_every_harness_waits_longer_than_the_router(word: str) -> None:
    text = json.dumps(rendering.document(HARNESSES[word], [OCR]))
    assert "130" in text
