"""``handler chain vet|show|graph``: chains of the configuration by their id, or in files of anywhere.

A file needs no configuration around it: it is judged by itself, its id need not be its name. Nothing is
written and nothing is run.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from reconciler.admission import chains as rules
from reconciler.config import chaintext, objects, places, shape
from reconciler.config.text import TextFault
from reconciler.config.words import Subject
from reconciler.control import folders
from reconciler.doors import columns, offline, problems
from reconciler.doors.usage import Settings, Stopped
from reconciler.model.chain import Chain, Task
from reconciler.model.inventory import Inventory, Layer
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.problems import Problem, Severity, Span, in_order
from reconciler.model.resources import KINDS

_ROW = next(row for row in KINDS if row.kind is Kind.CHAIN)
_ENDINGS = (".json", ".toml")
_MOST = 2**22  # bytes of a chain's file


def vet(settings: Settings, words: Sequence[str], form: str) -> int:
    """Judge and print; 0 where all are sound. Raises ``Stopped``."""
    files = [word for word in words if _is_file(word)]
    names = [word for word in words if word not in files]
    reports = [_of_file(Path(word))[1] for word in files]
    if names or not words:
        reports += _of_configuration(settings, names)
    if form == "json" or (form == "text" and settings.output == "json"):
        sys.stdout.write(problems.as_json(reports))
    elif form == "github":
        sys.stdout.write(problems.as_github(reports))
    elif form == "sarif":
        sys.stdout.write(problems.as_sarif(reports))
    else:
        paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
        for report in reports:
            sys.stdout.write(problems.text(report.problems, report.inventory, paint))
        _say(settings, reports)
    return 1 if any(report.errors for report in reports) else 0


def _say(settings: Settings, reports: Iterable[problems.Report]) -> None:
    reports = tuple(reports)
    if settings.quiet:
        return
    files, errors = sum(one.files for one in reports), sum(one.errors for one in reports)
    warnings = sum(one.warnings for one in reports)
    sys.stdout.flush()
    counts = f"{columns.counted(errors, 'error')} and {columns.counted(warnings, 'warning')}"
    sys.stderr.write(f"{counts} in {columns.counted(files, 'chain')}.\n")


def _is_file(word: str) -> bool:
    return word.endswith(_ENDINGS) or "/" in word


def _of_configuration(settings: Settings, names: Sequence[str]) -> list[problems.Report]:
    look = offline.look(folders.configuration(settings.config))
    inventory = look.admission.inventory
    known = {_named(path): path for path in look.tree.files if path.startswith("chains/")}
    for name in names:
        if name not in known:
            raise Stopped(_unknown(name, known))
    wanted = {known[name] for name in names} or set(known.values())
    found = tuple(one for one in look.admission.problems if one.at.file in wanted)
    return [problems.Report(look.root, inventory, found, len(wanted))]


def _named(path: str) -> str:
    return path.partition("/")[2].rpartition(".")[0]


def _unknown(name: str, known: Iterable[str]) -> str:
    listed = ", ".join(sorted(known)) or "none"
    return (
        f"there is no chain '{name}' in the configuration (there are: {listed}); a file is named by its path"
    )


# one file by itself


def _of_file(path: Path) -> tuple[Chain | None, problems.Report]:
    """The chain of a file, where its text is one, and all that is wrong with it."""
    if not path.name.endswith(_ENDINGS):
        raise Stopped(f"{path} is no chain: its name ends in .json or .toml")
    if path.exists() and not path.is_file():
        raise Stopped(f"{path} is no file")  # a pipe would be waited for
    try:
        with path.open("rb") as opened:
            data = opened.read(_MOST + 1)
    except OSError as error:
        raise Stopped(f"cannot read {path}: {error.strerror}") from None
    if len(data) > _MOST:
        raise Stopped(f"{path} is larger than any chain")
    file = str(path)
    chain, found = _judged(file, data)
    placed = in_order(_placed(one, data) for one in found)
    nothing = Inventory("", {}, (), {(Layer.CONFIG, file): data}, {}, {})
    return chain, problems.Report(path.absolute().parent, nothing, placed, 1)


def _judged(file: str, data: bytes) -> tuple[Chain | None, list[Problem]]:
    values = objects.read_text(file, data)
    if isinstance(values, TextFault):
        return None, [values.problem(file)]
    kept, told = chaintext.read(values, file, None)
    chain = shape.sound(_ROW, kept, {})
    if not isinstance(chain, Chain):
        return None, [*told, *shape.problems(Subject(_ROW, file, None, kept, {}))]
    return chain, [*told, *rules.of(chain, file, None)]


def _placed(problem: Problem, data: bytes) -> Problem:
    if problem.at.line:
        return problem
    place = places.at(problem.at.file, data, problem.path, on_key=problem.on_key)
    return problem.placed(Span(problem.at.file, *(place or (1, 1))))


def chain_named(settings: Settings, word: str) -> Chain:
    """The chain that a word means, sound or not, as long as its text is one. Raises ``Stopped``."""
    if _is_file(word):
        chain, report = _of_file(Path(word))
        if chain is None:
            first = next(one for one in report.problems if one.severity is Severity.ERROR)
            raise Stopped(f"{first.at}: {first.what}; 'handler chain vet {word}' says more")
        return chain
    look = offline.look(folders.configuration(settings.config))
    resource = look.admission.inventory.resources.get(ObjectRef(Kind.CHAIN, word))
    if resource is None or not isinstance(resource.spec, Chain):
        known = [ref.name for ref in look.admission.inventory.resources if ref.kind is Kind.CHAIN]
        if any(_named(path) == word for path in look.tree.files if path.startswith("chains/")):
            raise Stopped(f"the chain '{word}' cannot be read: 'handler chain vet {word}' says why")
        raise Stopped(_unknown(word, known))
    return resource.spec


# showing


def show(settings: Settings, word: str) -> int:
    """A table of the tasks, or the chain as JSON."""
    chain = chain_named(settings, word)
    if settings.output == "json":
        told = chain.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        sys.stdout.write(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
        return 0
    title = " · ".join(part for part in (chain.id, chain.description) if part)
    if title and not settings.quiet:
        sys.stdout.write(f"{columns.shown(title)}\n\n")
    rows = [_row(task) for task in chain.tasks]
    header = ["TASK", "HANDLER", "MODEL", "TOOLS", "LEADS TO"]
    paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
    colours = [["bold"] * len(header), *([""] * len(header) for _ in rows)]
    sys.stdout.write(columns.table([header, *rows], paint, colours))
    return 0


def _row(task: Task) -> list[str]:
    config = task.execute_config
    model = ", ".join([one for one in (config.model, *config.models) if one]) if config else ""
    tools = task.tools.name if task.tools else ", ".join(config.tools or ()) if config else ""
    ways = [_way(one.operator, one.when, one.goto) for one in task.transition.branches] or ["end"]
    if task.transition.on_failure:
        ways.append(f"failed: {task.transition.on_failure}")
    return [columns.shown(one) or "-" for one in (task.id, task.handler, model, tools, "; ".join(ways))]


def _way(operator: str, when: str, goto: str) -> str:
    words = {"default": "else", "equals": when, "edge_traversed_at_least": f"after {when}"}
    return f"{words.get(operator, f'{operator} {when}')}: {goto or 'end'}"


def graph(settings: Settings, word: str, *, svg: bool) -> int:
    """The chain's picture, as text for Mermaid or drawn."""
    from reconciler.doors import chainpicture  # noqa: PLC0415 - drawing is nobody else's

    chain = chain_named(settings, word)
    sys.stdout.write(chainpicture.svg(chain) if svg else chainpicture.mermaid(chain))
    return 0
