"""``handler rebind``: edits the one value that selects a binding, and nothing else of the file.

The result is judged before it is saved: where it would not be admitted, the file stays as it is, byte for
byte. Comments are kept; a file that changed in the meantime is not overwritten.
"""

import difflib
import sys
from collections.abc import Iterable
from pathlib import Path as FilePath

from reconciler.admission.admit import Admission
from reconciler.config import toml
from reconciler.config.text import TextFault
from reconciler.control import atomic, folders
from reconciler.doors import columns, offline, problems, usage
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.problems import Path, Problem, Severity


def run(settings: usage.Settings, agent: str, interface: str, binding: str) -> int:
    """Point an agent's interface at a binding; 0 saved, 1 the result would not be admitted."""
    look = offline.look(folders.configuration(settings.config))
    file = _file_of(look, agent)
    before = look.tree.files[file]
    after = _edited(before, file, interface, binding)
    if after == before:
        sys.stderr.write(f"{file} selects {binding} for {interface} already.\n")
        return 0
    changed = look.with_file(file, after)
    paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
    found = _in_the_way(look.admission, changed.admission, ObjectRef(Kind.AGENT, agent))
    if found:
        sys.stdout.write(problems.text(found, changed.admission.inventory, paint))
        sys.stderr.write(f"handler: {file} is left as it was, since the result would not be admitted\n")
        return 1
    sys.stdout.write(_difference(file, before, after, paint))
    _save(look.root / file, before, after)
    if not settings.quiet:
        sys.stderr.write(f"Saved {file}. The next session of {agent} uses {binding}; open ones stay.\n")
    return 0


def _file_of(look: offline.Look, agent: str) -> str:
    """The agent's file, also where what it says now is refused; raises ``usage.Usage`` for an unknown one."""
    file = f"agents/{agent}.toml"
    if file in look.tree.files:
        return file
    known = [path[len("agents/") : -len(".toml")] for path in look.tree.files if path.startswith("agents/")]
    near = usage.nearest(agent, known)
    hint = f"did you mean '{near}'?" if near else f"there are {', '.join(sorted(known)) or 'none'}"
    raise usage.Usage(f"there is no agent '{agent}': {hint}")


def _edited(data: bytes, file: str, interface: str, binding: str) -> bytes:
    values = toml.read(data)
    if isinstance(values, TextFault):
        raise usage.Stopped(f"cannot edit {file}:{values.line}:{values.column}: {values.what}")
    try:
        return toml.edit(data.decode(), _place(values, interface), binding).encode()
    except ValueError as error:
        raise usage.Stopped(f"cannot edit {file}: {error}") from None


def _place(values: dict[str, object], interface: str) -> Path:
    """The key that holds the selection: the short form, or the ``binding`` of the long one."""
    services = values.get("services")
    chosen = services.get(interface) if isinstance(services, dict) else None
    return ("services", interface, "binding") if isinstance(chosen, dict) else ("services", interface)


def _in_the_way(before: Admission, after: Admission, agent: ObjectRef) -> list[Problem]:
    """What refuses the agent after the edit, and whatever else the edit would break."""
    known = {(problem.code, problem.what) for problem in before.problems}
    return [
        problem
        for problem in _errors(after.problems)
        if problem.about == agent or (problem.code, problem.what) not in known
    ]


def _errors(found: Iterable[Problem]) -> list[Problem]:
    return [problem for problem in found if problem.severity is Severity.ERROR]


def _difference(file: str, before: bytes, after: bytes, paint: columns.Paint) -> str:
    """The edit as a unified diff."""
    old, new = (text.decode().splitlines() for text in (before, after))
    colours = {"+": "green", "-": "red", "@": "blue"}
    lines = difflib.unified_diff(old, new, f"a/{file}", f"b/{file}", lineterm="", n=2)
    return "".join(f"{paint(columns.shown(line), colours.get(line[:1], ''))}\n" for line in lines)


def _save(path: FilePath, before: bytes, after: bytes) -> None:
    if path.read_bytes() != before:
        raise usage.Stopped(f"{path.name} changed in the meantime and is left as it is: try again")
    atomic.write(path, after)
