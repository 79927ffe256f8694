"""What the docs say is so: links lead somewhere, commands exist, reasons and problem codes are those of
the code.
"""

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from reconciler.model.status import REASONS

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
_COMMAND = re.compile(r"\bhandler ((?:session|daemon|lock) [a-z]+|[a-z]+)\b")
_BLOCK = re.compile(r"^```([a-z]+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    lost = [link for link in _LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not lost


def test_commands_that_the_docs_name_exist() -> None:
    told = subprocess.run(
        [Path(sys.executable).parent / "handler", "--help"], capture_output=True, text=True, check=True
    ).stdout
    for page in PAGES:
        code = " ".join(re.findall(r"`[^`\n]+`|```.*?```", page.read_text(), re.DOTALL))
        for words in _COMMAND.findall(code):
            assert words.split()[0] in told, f"{page.name}: handler {words}"


def test_the_reasons_page_lists_the_closed_list() -> None:
    text = (ROOT / "docs" / "reasons.md").read_text().split("## Reasons")[1]
    assert set(re.findall(r"`([A-Z][A-Za-z]+)`", text)) >= REASONS
    assert {
        word for word in re.findall(r"^\| `([^|]+)` \|", text, re.MULTILINE) for word in word.split("` `")
    } <= REASONS


@pytest.mark.slow
def test_the_problems_page_is_what_the_rules_say() -> None:
    made = runpy.run_path(str(ROOT / ".ci" / "problems"))
    assert (ROOT / "docs" / "problems.md").read_text() == made["text"](), "run `make docs`"
    assert (ROOT / "reconciler/doors/examples.json").read_text() == made["words"](), "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_toml_blocks_are_toml(page: Path) -> None:
    for language, text in _BLOCK.findall(page.read_text()):
        if language == "toml":
            tomllib.loads(text)


def test_every_decision_has_a_number_of_its_own() -> None:
    records = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    numbers = [int(path.name.partition("-")[0]) for path in records]
    assert len(numbers) == len(set(numbers)) > 0
    titles = [path.read_text().partition("\n")[0] for path in records]
    assert [title.startswith(f"# {number}. ") for title, number in zip(titles, numbers, strict=True)] == [
        True
    ] * len(numbers)
