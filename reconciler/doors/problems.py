"""Problems as people and as programs read them: text with the line and a caret, JSON, GitHub, SARIF 2.1.0.

The words are the problem's own everywhere; what differs is the frame. Values of a file are shown where the
problem stands, since the person who reads this has the file before them; nothing else is.
"""

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler import __version__
from reconciler.config.codes import LEAK
from reconciler.doors import columns
from reconciler.model import secretlike
from reconciler.model.inventory import Inventory, Layer
from reconciler.model.problems import Problem, Severity

FORMATS = ("text", "json", "github", "sarif")
_WIDEST = 120  # cells of an excerpt: one line of a terminal, indented
_RANDOM = 12  # characters of a word that may be a secret
_BETWEEN = re.compile(r"[\s\"'=,\[\]{}#]+")
_BARE_END = " \t,]}#="
_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"


@dataclass(frozen=True, slots=True)
class Report:
    """What was found in one configuration; ``files`` counts those that were read."""

    root: Path
    inventory: Inventory
    problems: tuple[Problem, ...]
    files: int

    @property
    def errors(self) -> int:
        return sum(problem.severity is Severity.ERROR for problem in self.problems)

    @property
    def waits(self) -> int:
        """The errors that are none of their own: what they rest on is refused."""
        return sum(map(_waits, self.problems))

    @property
    def warnings(self) -> int:
        return len(self.problems) - self.errors

    def counted(self) -> str:
        """The last line: how many problems in how many files."""
        own = self.errors - self.waits
        found = [columns.counted(own, "error")] if own or not self.warnings else []
        found += [columns.counted(self.warnings, "warning")] if self.warnings else []
        waits = f"; {self.waits} more only {'waits' if self.waits == 1 else 'wait'} for that"
        return f"{' and '.join(found)} in {columns.counted(self.files, 'file')}{waits if self.waits else ''}."


def text(problems: Iterable[Problem], inventory: Inventory, paint: columns.Paint) -> str:
    """The problems with their source lines, for people: causes first, then what only waits for them."""
    problems = tuple(problems)
    if not problems:
        return ""
    from reconciler.doors import tables  # noqa: PLC0415 - what says problems waits until there are some

    told = [
        tables.problem_text(_as_json(one), paint, excerpt(one, inventory, paint))
        for one in problems
        if not _waits(one)
    ]
    return "".join(told) + "".join(f"{one.at}: {one.what}\n" for one in problems if _waits(one))


def _as_json(problem: Problem) -> dict[str, object]:
    from reconciler.control import say  # noqa: PLC0415

    return say.problem_json(problem)


def _waits(problem: Problem) -> bool:
    return problem.reason == "WaitsFor"


def excerpt(problem: Problem, inventory: Inventory, paint: columns.Paint) -> str:
    """The line that a problem stands in, and carets below what it is about; "" when there is no such line."""
    if problem.code == LEAK:
        return ""
    data = next((inventory.sources[layer, problem.at.file] for layer in _layers(problem, inventory)), b"")
    lines = data.decode(errors="replace").splitlines() if problem.at.line else []
    if not 0 < problem.at.line <= len(lines) or _is_told_too_much(problem, lines[problem.at.line - 1]):
        return ""
    line, start = lines[problem.at.line - 1], problem.at.column - 1
    if not 0 <= start < len(line):
        return ""
    end = start + _length(line[start:], on_key=problem.on_key)
    line, start, end = _window(line, start, end)
    before, marked = columns.shown(line[:start]), columns.shown(line[start:end])
    shown = before + marked + columns.shown(line[end:])
    number = str(problem.at.line)
    carets = paint("^" * max(1, columns.width(marked)), "red")
    gutter = " " * len(number)
    return f"  {number} | {shown}\n  {gutter} | {' ' * columns.width(before)}{carets}\n"


def _is_told_too_much(problem: Problem, line: str) -> bool:
    """Whether a line holds a known secret's shape; or, in a text that could not be read, so that nobody knows
    which value has which name, any random word.
    """
    if secretlike.shape(line):
        return True
    unread = problem.code.startswith(("S20", "S21"))
    return unread and any(secretlike.is_random(word, _RANDOM) for word in _BETWEEN.split(line))


def as_json(reports: Sequence[Report]) -> str:
    """All reports as one JSON object."""
    one = reports[0] if len(reports) == 1 else None
    value = {
        "configuration": str(one.root) if one else [str(report.root) for report in reports],
        "files": sum(report.files for report in reports),
        "errors": sum(report.errors for report in reports),
        "warnings": sum(report.warnings for report in reports),
        "problems": [
            {**_as_json(problem), "path": _path(report, problem)}
            for report in reports
            for problem in report.problems
        ],
    }
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def as_github(reports: Sequence[Report]) -> str:
    """Workflow commands that annotate the lines of a change on GitHub."""
    return "".join(_github(_path(report, one), one) for report in reports for one in report.problems)


def as_sarif(reports: Sequence[Report]) -> str:
    """SARIF 2.1.0, for code scanning."""
    results = [_sarif(_path(report, one), one) for report in reports for one in report.problems]
    rules = sorted({str(result["ruleId"]) for result in results})
    driver = {"name": "handler", "version": __version__, "rules": [{"id": rule} for rule in rules]}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SARIF, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _layers(problem: Problem, inventory: Inventory) -> list[Layer]:
    return [one for one in (Layer.CONFIG, Layer.CATALOG) if (one, problem.at.file) in inventory.sources]


def _path(report: Report, problem: Problem) -> str:
    """Where the file lies, from here: what an annotation on a checkout needs."""
    return os.path.relpath(report.root / problem.at.file)


def _length(rest: str, *, on_key: bool) -> int:
    """How many characters the key or value at the start of ``rest`` has, on this line."""
    quote = rest[0]
    if quote in "\"'":
        if rest.startswith(quote * 3):
            return len(rest.rstrip())
        at = 1
        while at < len(rest) and rest[at] != quote:
            at += 2 if rest[at] == "\\" and quote == '"' else 1
        return min(at + 1, len(rest))
    if quote in "[{":
        return _bracketed(rest)
    ends = _BARE_END + (".]" if on_key else "")
    return next((at for at, ch in enumerate(rest) if ch in ends), len(rest)) or 1


def _bracketed(rest: str) -> int:
    depth = 0
    for at, ch in enumerate(rest):
        depth += (ch in "[{") - (ch in "]}")
        if depth == 0:
            return at + 1
    return len(rest.rstrip())


def _window(line: str, start: int, end: int) -> tuple[str, int, int]:
    """The part of a long line that shows what is marked."""
    if len(line) <= _WIDEST:
        return line, start, end
    left = max(0, start - _WIDEST // 2)
    part = line[left : left + _WIDEST]
    return part, start - left, min(end - left, len(part))


def _github(path: str, problem: Problem) -> str:
    level = "error" if problem.severity is Severity.ERROR else "warning"
    place = f"file={_property(path)}"
    if problem.at.line:
        place += f",line={problem.at.line},col={problem.at.column}"
    message = _escaped(f"{problem.what}\nwhy: {problem.why}\nmend: {problem.mend}")
    return f"::{level} {place},title={problem.code}::{message}\n"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")


def _sarif(path: str, problem: Problem) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": path.replace(os.sep, "/")}}
    if problem.at.line:
        place["region"] = {"startLine": problem.at.line, "startColumn": problem.at.column}
    return {
        "ruleId": problem.code,
        "level": "error" if problem.severity is Severity.ERROR else "warning",
        "message": {"text": f"{problem.what}. {problem.why}. {problem.mend}."},
        "locations": [{"physicalLocation": place}],
    }
