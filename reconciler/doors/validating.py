"""``handler validate``: every problem of a configuration at once, offline.

A path may be a configuration, or files and folders inside one; then only their problems are shown, though the
whole is judged, since most rules are about what files say of each other.
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from reconciler.control import folders, walk
from reconciler.doors import columns, offline, problems
from reconciler.doors.usage import Settings, Stopped


def run(settings: Settings, paths: Sequence[str], form: str) -> int:
    """Validate and print; 0 when all is admitted, 1 when something is refused. Raises ``Stopped``."""
    reports = [_report(root, inside) for root, inside in _roots(settings, paths).items()]
    if form == "json" or (form == "text" and settings.output == "json"):
        sys.stdout.write(problems.as_json(reports))
    elif form == "github":
        sys.stdout.write(problems.as_github(reports))
    elif form == "sarif":
        sys.stdout.write(problems.as_sarif(reports))
    else:
        _print(reports, settings)
    for report in reports:
        if not report.files and (nothing := offline.nothing(report.root)):
            sys.stderr.write(f"handler: {nothing}\n")
    return 1 if any(report.errors for report in reports) else 0


def _print(reports: Iterable[problems.Report], settings: Settings) -> None:
    paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
    for report in reports:
        sys.stdout.write(problems.text(report.problems, report.inventory, paint))
        sys.stdout.flush()
        if not settings.quiet:
            sys.stderr.write(f"{report.counted()}\n")


def _roots(settings: Settings, paths: Sequence[str]) -> dict[Path, list[str]]:
    """The configurations that the paths lie in, and which parts of them are meant (none: the whole)."""
    if not paths:
        return {folders.configuration(settings.config): []}
    found: dict[Path, list[str]] = {}
    for text in paths:
        path = Path(text).absolute()
        if not path.exists():
            raise Stopped(f"there is nothing at {text}")
        root = folders.configuration(settings.config) if settings.config else offline.root_of(path)
        if not path.is_relative_to(root):
            raise Stopped(f"{text} lies outside the configuration {root}")
        part = path.relative_to(root).as_posix()
        if path.is_file() and not walk.taken(part):
            raise Stopped(f"{text} belongs to no configuration: name one, or files of its folders")
        found.setdefault(root, []).append("" if part == "." else part)
    return {root: [] if "" in parts else parts for root, parts in found.items()}


def _report(root: Path, inside: Sequence[str]) -> problems.Report:
    look = offline.look(root)
    found = look.admission.problems
    files = [*look.tree.files, *look.tree.faults]
    if inside:
        found = tuple(problem for problem in found if _within(problem.at.file, inside))
        files = [path for path in files if _within(path, inside)]
    return problems.Report(root, look.admission.inventory, found, len(files))


def _within(file: str, parts: Iterable[str]) -> bool:
    return any(file == part or file.startswith(f"{part}/") for part in parts)
