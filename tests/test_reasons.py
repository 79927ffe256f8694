"""The closed list of reasons, held to the code that gives them, the page and the golden examples."""

import ast
import re
import runpy
from pathlib import Path
from typing import get_args

import pytest

from reconciler.doors import reasons
from reconciler.model.status import REASONS, ConditionType

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden" / "reasons"
PAGE = (ROOT / "docs" / "reasons.md").read_text()
GIVEN = set(re.findall(r"^### (\w+)$", PAGE, re.MULTILINE))
RESERVED = set(re.findall(r"^\| `(\w+)` \|", PAGE.split("## Not raised by this release")[1], re.MULTILINE))
UNOBSERVED = {"EgressReady"}  # types that the page says are not observed
_READERS = ("doors",)  # rooms that read what others raise
_SAYING = {
    ("drivers", "reading.py"),
    ("model", "outcome.py"),
}  # what one answer says, which is no condition yet


def raised() -> set[str]:
    """Every reason and type that stands in the code of a room which may give one."""
    found = set()
    for path in (ROOT / "reconciler").rglob("*.py"):
        room = path.relative_to(ROOT / "reconciler").parts
        if room[0] not in _READERS and room not in {("model", "status.py"), *_SAYING}:
            tree = ast.parse(path.read_text())
            found |= {
                node.value
                for node in ast.walk(tree)
                if isinstance(node, ast.Constant) and node.value.__hash__
            }
    return {one for one in found if isinstance(one, str)}


def test_every_reason_is_on_the_page_as_given_or_as_reserved() -> None:
    assert GIVEN | RESERVED == REASONS
    assert not GIVEN & RESERVED


@pytest.mark.slow
def test_no_code_gives_a_reason_or_type_that_is_reserved() -> None:
    assert not raised() & (RESERVED | UNOBSERVED)
    assert raised() >= GIVEN


def test_the_page_says_which_types_are_not_observed() -> None:
    rows = {row for row in PAGE.splitlines() if "not observed by this release" in row}
    assert {re.findall(r"`(\w+)`", row)[0] for row in rows} == UNOBSERVED


@pytest.mark.parametrize("word", sorted(GIVEN))
def test_a_given_reason_is_told_whole_and_shown(word: str) -> None:
    (one,) = (found for found in reasons.of(word) if found.kind == "reason")
    assert one.word == word
    section = PAGE.split(f"\n### {word}\n")[1].split("\n##")[0]
    assert re.findall(r"^- \*\*(\w+)\*\*: .", section, re.MULTILINE) == ["When", "Means", "Serves", "Do"]
    assert word in one.example
    assert f"(#{word.lower()})" in PAGE


def test_the_examples_are_the_golden_texts_and_each_one_is_shown() -> None:
    made = runpy.run_path(str(ROOT / ".ci" / "reasons"))
    assert made["text"]() == PAGE, "run `make docs`"
    assert set(re.findall(r"<!-- example: (\S+) -->", PAGE)) == {path.stem for path in GOLDEN.glob("*.txt")}


@pytest.mark.parametrize("kind", sorted(set(get_args(ConditionType)) - UNOBSERVED))
def test_a_condition_of_each_type_is_shown(kind: str) -> None:
    texts = [path.read_text() for path in GOLDEN.glob("*.txt")]
    shown = [
        row for text in texts for row in re.findall(rf"^{kind} +(True|False|Unknown) ", text, re.MULTILINE)
    ]
    assert shown


def test_a_golden_text_names_no_place_of_the_machine_that_made_it() -> None:
    for path in GOLDEN.glob("*.txt"):
        assert not re.search(r"/tmp/|/root|/home/|/work", path.read_text()), path.name
