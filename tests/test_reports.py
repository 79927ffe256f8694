"""docs/reports.md: each report has its row, and each row names tests that there are."""

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs/reports.md").read_text("utf-8")
ROWS = [
    line
    for line in TEXT.splitlines()
    if line.startswith("| ") and not line.startswith(("| no.", "| ---", "| edge"))
]
CITED = re.compile(r"`([a-z_/]+)::(test_[a-z0-9_]+)`")
GATHERED = (
    "01 02 04 05 07 08 10 11 13 14 16 17 19 20 22 23 25 26 28 29 31 32 34 35 37 38 40 41 43 44 46 47 49 50 "
    "52 53 55 56 58 59 61 62 64 65 67 68 70 71 73 74 76 77 79 80 82 83 85 86 88"
)


@cache
def source(module: str) -> str:
    path = ROOT / "tests" / f"{module}.py"
    return path.read_text("utf-8") if path.is_file() else ""


def test_each_report_has_one_row() -> None:
    numbers = [row.split("|")[1].strip() for row in ROWS]
    law = [one for one in numbers if one.isdigit()]
    assert law == [str(number) for number in range(1, 27)]
    assert [one[2:] for one in numbers if one.startswith("B-")] == GATHERED.split()


def test_each_row_names_tests_that_there_are() -> None:
    cited = {row.split("|")[1].strip(): CITED.findall(row) for row in ROWS}
    assert [number for number, found in cited.items() if not found] == []
    every = [one for found in cited.values() for one in found]
    assert [f"{module}::{name}" for module, name in every if f"def {name}(" not in source(module)] == []
