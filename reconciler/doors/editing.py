"""One file of a configuration edited by a command: found, changed, judged, shown, saved whole or not at all.

What ``rebind``, ``suspend`` and ``resume`` have in common. The result is judged before it is saved: where it
would not be admitted, the file stays as it is, byte for byte. Comments are kept; a file that changed in the
meantime is not overwritten.
"""

import difflib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path as FilePath

from reconciler.admission.admit import Admission
from reconciler.config import toml
from reconciler.config.text import TextFault
from reconciler.control import atomic
from reconciler.doors import columns, offline, problems, usage
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.problems import Path, Problem, Severity


def file_of(look: offline.Look, ref: ObjectRef) -> str:
    """The file of a binding, a project or an agent, also where what it says now is refused; raises
    ``usage.Usage`` for an unknown one.
    """
    folder = f"{ref.kind.value}s/"
    file = f"{folder}{ref.name}.toml"
    if file in look.tree.files:
        return file
    if fault := look.tree.faults.get(file):
        what = {"symlink": "it is a link", "special": "it is no plain file"}.get(fault.word, fault.detail)
        raise usage.Stopped(f"{file} is not read, so it cannot be edited: {what or fault.word}")
    known = [
        path[len(folder) : -len(".toml")]
        for path in look.tree.files
        if path.startswith(folder) and path.endswith(".toml")
    ]
    near = usage.nearest(ref.name, known)
    hint = f"did you mean '{near}'?" if near else f"there are {', '.join(sorted(known)) or 'none'}"
    raise usage.Usage(f"there is no {ref.kind.value} '{ref.name}': {hint}")


def values(look: offline.Look, file: str) -> dict[str, object]:
    """What a file says; raises ``Stopped`` when it cannot be read, and so not be edited."""
    found = toml.read(look.tree.files[file])
    if isinstance(found, TextFault):
        raise usage.Stopped(f"cannot edit {file}:{found.line}:{found.column}: {found.what}")
    return found


def edited(look: offline.Look, file: str, changes: Mapping[Path, object]) -> bytes:
    """The file's bytes with each value at its path (None removes a key); raises ``Stopped``."""
    text = look.tree.files[file].decode()
    try:
        for path, value in changes.items():
            text = toml.edit(text, path, value)
        return text.encode()
    except UnicodeEncodeError:
        raise usage.Usage("a word of the command is no text in UTF-8") from None
    except ValueError as error:
        raise usage.Stopped(f"cannot edit {file}: {error}") from None


def save(
    settings: usage.Settings,
    look: offline.Look,
    file: str,
    after: bytes,
    *,
    about: ObjectRef,
) -> bool:
    """Judge the file's new bytes, show the difference, and save it; False, said, where it is not admitted.
    Data in JSON stays alone on stdout.
    """
    before = look.tree.files[file]
    if not is_admitted(settings, look, file, after, about=about):
        return False
    stream = sys.stderr if settings.output == "json" else sys.stdout
    paint = columns.Paint(settings.color, tty=stream.isatty())
    stream.write(difference(file, before, after, paint))
    write(look.root / file, before, after)
    stream.flush()  # talk on stderr comes after the data it is about
    return True


def is_admitted(
    settings: usage.Settings, look: offline.Look, file: str, after: bytes, *, about: ObjectRef
) -> bool:
    """Judge a file's new bytes; False, with all that stands in the way said, where they are not admitted."""
    changed = look.with_file(file, after)
    found = _in_the_way(look.admission, changed.admission, about)
    if found:
        stream = sys.stderr if settings.output == "json" else sys.stdout
        paint = columns.Paint(settings.color, tty=stream.isatty())
        stream.write(problems.text(found, changed.admission.inventory, paint))
        sys.stderr.write(f"handler: {file} is left as it was, since the result would not be admitted\n")
    return not found


def when(look: offline.Look) -> str:
    """What a person has still to do until a saved file is in force; "" where saving it is enough."""
    found = look.admission.in_force.get(ObjectRef(Kind.CONFIG, "handler"))
    source, reconcile = (getattr(found.spec, key, None) if found else None for key in ("source", "reconcile"))
    if getattr(source, "mode", "") == "commit":
        return "It is in force once it is committed."
    if getattr(reconcile, "mode", "") == "manual":
        return "It is in force after 'handler apply'."
    return ""


def difference(file: str, before: bytes, after: bytes, paint: columns.Paint) -> str:
    """The edit as a unified diff."""
    old, new = (text.decode().splitlines() for text in (before, after))
    colours = {"+": "green", "-": "red", "@": "blue"}
    lines = difflib.unified_diff(old, new, f"a/{file}", f"b/{file}", lineterm="", n=2)
    return "".join(f"{paint(columns.shown(line), colours.get(line[:1], ''))}\n" for line in lines)


def write(path: FilePath, before: bytes, after: bytes) -> None:
    """Put new bytes in place of those that were read; raises ``Stopped`` where others stand there by now."""
    if path.is_symlink() or path.read_bytes() != before:
        raise usage.Stopped(f"{path.name} changed in the meantime and is left as it is: try again")
    atomic.write(path, after)


def _in_the_way(before: Admission, after: Admission, about: ObjectRef) -> list[Problem]:
    """What refuses the object after the edit, and whatever else the edit would break."""
    known = {(problem.code, problem.what) for problem in before.problems}
    return [
        problem
        for problem in _errors(after.problems)
        if problem.about == about or (problem.code, problem.what) not in known
    ]


def _errors(found: Iterable[Problem]) -> list[Problem]:
    return [problem for problem in found if problem.severity is Severity.ERROR]
