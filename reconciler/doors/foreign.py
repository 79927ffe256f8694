"""What every import does: read a file that others wrote, write new files, say what of them is refused."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reconciler.control import checkouts, folders, harnessfiles
from reconciler.doors import columns, offline, problems, usage
from reconciler.harness import reading
from reconciler.model.problems import Severity


def root(settings: usage.Settings) -> Path:
    """The configuration to import into; raises ``Stopped`` where it has no files."""
    found = folders.configuration(settings.config)
    if checkouts.is_bare(found.resolve()):
        raise usage.Stopped("a bare repository has no files to write: import into a checkout of it")
    return found


def named(path: str) -> Path:
    """The file that a command line names."""
    return Path(path).expanduser().absolute()


@contextmanager
def values(file: Path, name: str = "") -> Iterator[dict[str, Any]]:
    """The values of a file, of the sort that ``name`` (else its own) tells. What cannot be read of it, or
    made of it within, ends as ``Stopped``.
    """
    shown = usage.path_shown(str(file))
    try:
        yield reading.values(harnessfiles.held(file), name or file.name)
    except ValueError as fault:
        raise usage.Stopped(f"cannot import {shown}: {fault}") from None
    except OSError as fault:
        raise usage.Stopped(f"cannot read {shown}: {fault.strerror}") from None


def write(into: Path, files: Mapping[str, str]) -> None:
    """Write new files, connectors first; through no link. Raises ``Stopped`` and OSError."""
    for path in files:
        for above in (into / path).parents:
            if above != into and above.is_relative_to(into) and above.is_symlink():
                raise usage.Stopped(f"{above.relative_to(into)} is a link: nothing was written")
    for path, text in sorted(files.items(), key=lambda item: not item[0].startswith("connectors/")):
        target = into / path
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with target.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise usage.Stopped(f"{path} appeared meanwhile and was not touched: import once more") from None


def refused(settings: usage.Settings, look: offline.Look, files: Mapping[str, str]) -> bool:
    """Say what admission says against the new files; whether it refuses any."""
    judged = look.with_files({path: text.encode() for path, text in files.items()})
    mine = [
        one for one in judged.admission.problems if one.at.file in files and one.severity is Severity.ERROR
    ]
    if mine:
        paint = columns.Paint(settings.color, tty=sys.stderr.isatty())
        sys.stderr.write(problems.text(mine, judged.admission.inventory, paint))
    return bool(mine)
