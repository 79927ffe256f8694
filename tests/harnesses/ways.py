"""How each harness is started for one task without a person, with the scripted model in the place of its own.

One row a harness. ``{url}`` stands for the model's address. Of the services a harness is told by
``handler run``; Gemini CLI, which cannot be told for one run, by the file that ``handler render`` writes.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.kit import strangers

HERE = Path(__file__).parent
TASK = "Read all documents."
_PLACED_BY_SCRIPTS = ("@anthropic-ai/claude-code", "opencode-ai")  # their programs are put in place by these


@dataclass(frozen=True, slots=True)
class Way:
    """One harness: ``tool`` is the name by which its model knows `ocr_extract` of the interface `ocr`.

    ``home`` are files below its private home, in which ``{work}`` is the project's folder, whose files a
    person has said to trust. ``own_checks``: it holds arguments against the schema itself,
    and what does not fit never reaches the router. ``told`` is false where `handler run` cannot tell it.
    ``trust`` are arguments by which a person says to trust the project's files for one run.
    """

    word: str
    title: str
    package: str
    tool: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    home: Mapping[str, str] = field(default_factory=dict)
    own_checks: bool = False
    told: bool = True
    trust: tuple[str, ...] = ()

    def programs(self) -> Path:
        """The folder with its program; Missing where it cannot be installed."""
        if self.word == "vibe":
            pins = strangers.ROOT / "requirements" / "client-vibe.txt"
            return strangers.python_environment(pins, _newer_python()).parent
        lock = HERE / "package-lock.json"
        made = strangers.node_environment(lock, "harnesses", _PLACED_BY_SCRIPTS, whole=False)
        return made / "node_modules" / ".bin"

    def version(self) -> str:
        """The release that is pinned."""
        if self.word == "vibe":
            pins = (strangers.ROOT / "requirements" / "client-vibe.txt").read_text()
            return next(line for line in pins.split() if line.startswith("mistral-vibe==")).partition("==")[2]
        pinned: dict[str, str] = json.loads((HERE / "package.json").read_text())["dependencies"]
        return pinned[self.package]


def _newer_python() -> str:
    """A python that the newest harness runs on: 3.12 or later."""
    found = [str(path) for path in sorted(Path.home().glob(".pyenv/versions/3.1[2-9].*/bin/python"))]
    named = [shutil.which(f"python3.{minor}") for minor in (12, 13, 14)]
    ask = "import sys, venv; sys.exit(sys.version_info < (3, 12))"
    for python in (sys.executable, *filter(None, named), *found):
        if subprocess.run([python, "-c", ask], check=False, capture_output=True).returncode == 0:
            return python
    raise strangers.Missing("it needs Python 3.12 or newer")


_CODEX = """model = "scripted"
model_provider = "local"
[model_providers.local]
name = "local"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "LOCAL_KEY"
[projects."{work}"]
trust_level = "trusted"
"""
_VIBE = """active_model = "scripted"
enable_telemetry = false
enable_update_checks = false
[[providers]]
name = "local"
api_base = "{url}/v1"
api_key_env_var = "LOCAL_KEY"
api_style = "openai"
backend = "generic"
[[models]]
name = "scripted"
provider = "local"
alias = "scripted"
"""
_OPENCODE = {
    "provider": {
        "local": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "local",
            "options": {"baseURL": "{url}/v1", "apiKey": "none"},
            "models": {"scripted": {"name": "scripted", "limit": {"context": 200_000, "output": 8_000}}},
        }
    }
}

WAYS = (
    Way(
        "claude-code",
        "Claude Code",
        "@anthropic-ai/claude-code",
        "mcp__ocr__ocr_extract",
        ("claude", "-p", TASK, "--allowedTools", "mcp__ocr__ocr_extract"),
        {
            "ANTHROPIC_BASE_URL": "{url}",
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
        {".claude/settings.json": json.dumps({"enableAllProjectMcpServers": True})},
    ),
    Way(
        "codex",
        "Codex",
        "@openai/codex",
        "ocr_extract",  # in the namespace mcp__ocr
        ("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", TASK),
        {"LOCAL_KEY": "none"},
        {".codex/config.toml": _CODEX},
    ),
    Way(
        "vibe",
        "Mistral Vibe",
        "mistral-vibe",
        "tools.mcp_ocr.ocr_extract",
        ("vibe", "-p", TASK, "--auto-approve"),
        {"LOCAL_KEY": "none"},
        {".vibe/config.toml": _VIBE},
        own_checks=True,
        trust=("--trust",),
    ),
    Way(
        "gemini",
        "Gemini CLI",
        "@google/gemini-cli",
        "mcp_ocr_ocr_extract",
        ("gemini", "-p", TASK, "--yolo", "--skip-trust", "-m", "gemini-2.5-pro"),
        {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_CLI_TRUST_WORKSPACE": "true"},
        {".gemini/settings.json": json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}})},
        own_checks=True,
        told=False,
    ),
    Way(
        "opencode",
        "opencode",
        "opencode-ai",
        "ocr_ocr_extract",
        ("opencode", "run", "-m", "local/scripted", TASK),
        {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"},
        {".config/opencode/opencode.json": json.dumps(_OPENCODE)},
    ),
    Way(
        "qwen",
        "Qwen Code",
        "@qwen-code/qwen-code",
        "mcp__ocr__ocr_extract",
        ("qwen", "-p", TASK, "--yolo", "--auth-type", "openai", "-m", "scripted"),
        {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": "{url}/v1", "OPENAI_MODEL": "scripted"},
        own_checks=True,
    ),
    Way(
        "copilot",
        "Copilot CLI",
        "@github/copilot",
        "ocr-ocr_extract",
        ("copilot", "-p", TASK, "--allow-all-tools"),
        {
            "COPILOT_PROVIDER_BASE_URL": "{url}/v1",
            "COPILOT_PROVIDER_TYPE": "openai",
            "COPILOT_PROVIDER_API_KEY": "none",
            "COPILOT_MODEL": "scripted",
            "COPILOT_OFFLINE": "true",
        },
        trust=("--trust-folder",),
    ),
)
