"""Harnesses' own files on disk: read, written and removed for what ``harness.wishes`` planned.

Nothing outside the project (or the home folder) that was named is touched, whatever links lie in it. A file
is replaced whole or not at all, keeps its mode, and what it held before lies below
``<state>/harness/before``. What was written is remembered in ``<state>/harness/written.json``, which one
process at a time changes.
"""

import fcntl
import json
import os
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.control import atomic
from reconciler.harness import ledger as book
from reconciler.harness.ledger import Ledger
from reconciler.harness.reading import MAX_BYTES
from reconciler.harness.wishes import Plan

_READ_ALL = 0o666
_RUN_ALL = 0o777


class Unfit(Exception):  # noqa: N818 - a fact about a file
    """A file or a folder that cannot be used; the text says which and why."""


def data(path: Path) -> bytes | None:
    """What a file holds, None where there is none. Raises ``Unfit`` and OSError."""
    try:
        return held(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as fault:
        raise Unfit(f"{path} cannot be used: {fault}") from None


def held(path: Path) -> bytes:
    """What a file holds; raises OSError, and ValueError (a clause) for what is no regular file, or too large.

    A pipe is not waited for.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("it is not a regular file")
    with open(descriptor, "rb") as opened:  # noqa: PTH123 - a descriptor has no path
        found = opened.read(MAX_BYTES + 1)
    if len(found) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
    return found


def place(root: Path, relative: str) -> Path:
    """Where a file below ``root`` really lies, through links that stay inside. Raises ``Unfit`` otherwise."""
    real_root = root.resolve()
    found = real_root / relative
    real = Path(os.path.realpath(found))
    if not real.is_relative_to(real_root):
        raise Unfit(f"{found} leads out of {real_root} through a link: nothing is written there")
    return real


@dataclass(frozen=True, slots=True)
class Way:
    """How changes are made: ``remember`` what was; ``programs`` are paths that can be run."""

    remember: Callable[[Ledger], None]
    programs: Collection[str] = ()


@contextmanager
def remembered(state: Path) -> Iterator[tuple[Ledger, Callable[[Ledger], None]]]:
    """What was written, and the way to remember something else; nobody else changes it meanwhile.

    Raises ``Unfit`` where the record cannot be read: then nobody knows whose an entry is.
    """
    folder = state / "harness"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        path = folder / "written.json"

        def remember(ledger: Ledger) -> None:
            atomic.write(path, json.dumps(book.as_json(ledger), indent=1, ensure_ascii=False).encode())

        yield read(state), remember
    finally:
        os.close(fd)


def read(state: Path) -> Ledger:
    """What was written, as far as it is remembered. Raises ``Unfit`` where the record cannot be read."""
    path = state / "harness" / "written.json"
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        return Ledger()
    try:
        return book.from_json(json.loads(found))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise Unfit(f"{path} cannot be read: move it away to begin anew") from None


def done(plan: Plan, old: Ledger, state: Path, way: Way) -> None:
    """Make the changes of a plan, and remember each: what is written before it is, what is removed after.

    Raises ``Unfit`` where a file changed since it was looked at, and OSError; what was done by then stays
    done and remembered.
    """
    ledger = old
    for change in plan.changes:
        if change.after is not None:
            _no_file_in_the_way(Path(change.path).parent)
    for change in plan.changes:
        path = Path(change.path)
        if data(path) != change.before:
            raise Unfit(f"{path} was changed meanwhile: run it once more")
        if change.before is not None:
            _keep_copy(state, path, change.before)
        if change.after is None:
            atomic.remove(path)
            ledger = _with(ledger, plan.ledger, change.path)
            ledger = replace(ledger, folders=tuple(_without_empty(path, list(ledger.folders))))
            way.remember(ledger)
        else:
            made = _missing(path.parent)
            ledger = _with(ledger, plan.ledger, change.path)
            ledger = replace(ledger, folders=tuple(dict.fromkeys((*ledger.folders, *map(str, made)))))
            way.remember(ledger)
            for folder in made:
                folder.mkdir()
            _write(path, change.after, _RUN_ALL if change.path in way.programs else _READ_ALL)
    way.remember(replace(plan.ledger, folders=ledger.folders))


def _with(old: Ledger, new: Ledger, path: str) -> Ledger:
    """The old ledger with what the new one says of one file."""
    shared = {name: one for name, one in old.shared.items() if name != path}
    whole = {name: one for name, one in old.whole.items() if name != path}
    if path in new.shared:
        shared[path] = new.shared[path]
    if path in new.whole:
        whole[path] = new.whole[path]
    return replace(old, shared=shared, whole=whole)


def _write(path: Path, text: bytes, mode: int) -> None:
    before = path.stat() if path.exists() else None
    atomic.write(path, text, mode=mode & ~_mask())
    if before is not None and before.st_uid != os.geteuid():
        with suppress(OSError):  # root writes for a person: the file stays theirs
            os.chown(path, before.st_uid, before.st_gid)


def _mask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _no_file_in_the_way(folder: Path) -> None:
    for one in (folder, *folder.parents):
        if one.is_dir():
            return
        if one.exists():
            raise Unfit(f"{one} is a file, and a folder is needed there: nothing was written")


def _missing(folder: Path) -> list[Path]:
    """A folder and those above it that are not there, from above."""
    return [one for one in reversed((folder, *folder.parents)) if not one.exists()]


def _without_empty(path: Path, folders: list[str]) -> list[str]:
    """Remove the folders of ours that are empty now, upwards from a file."""
    for folder in path.parents:
        if str(folder) not in folders:
            break
        try:
            folder.rmdir()
        except OSError:
            break
        folders.remove(str(folder))
    return folders


def _keep_copy(state: Path, path: Path, before: bytes) -> None:
    folder = state / "harness" / "before"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    atomic.write(folder / f"{book.digest(str(path).encode())[:12]}-{path.name}", before)
