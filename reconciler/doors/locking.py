"""``handler lock``: publishes interface versions and profiles by freezing them in ``handler.lock``.

From then on a version never changes; a later edit is refused everywhere. So nothing is locked that is not
admitted, and an entry that is there is never replaced or lost: one that writes keeps others out (``flock`` on
the configuration's folder) and adds to what the file says then; a lock that cannot be read is not written
over. ``review`` shows what a model will read beforehand,
``check`` holds a lock to what it was at an earlier commit.
"""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

from reconciler.admission import frozen
from reconciler.config import lock
from reconciler.control import atomic, commits, folders
from reconciler.control.source import Gone
from reconciler.doors import columns, offline, problems, reviewing, usage
from reconciler.model.inventory import Layer, Lock, LockEntry, Resource
from reconciler.model.names import InterfaceRef, Kind, ObjectRef, locked_object
from reconciler.model.problems import Problem
from reconciler.model.resources import Interface, Profile, Record

_GIT_S = 5.0
_FILE = "handler.lock"
_LAST_GOOD = "take the last good one from version control, and publish again"


def run(settings: usage.Settings, reference: str, reviewer: str, *, despite_warnings: bool = False) -> int:
    """Publish one version of the configuration; 0 published, 1 it is refused or was published otherwise.

    What is told as a warning about a version can be mended before it is frozen alone, so it has to be waived.
    """
    ref = _parsed(reference)
    look = offline.look(folders.configuration(settings.config))
    inventory = look.admission.inventory
    interface = inventory.resources.get(ref)
    if interface is None or interface.layer is not Layer.CONFIG:
        return _absent(settings, look, ref)
    whole = _now(look)
    entry = _entry(interface, reviewer.strip())
    if (there := whole.entries.get(entry.ref)) is not None:
        if there.digest == entry.digest and not there.files:  # of a time when a lock did not name files
            _add(look, replace(there, files=entry.files))
        return _there(there, entry)
    if found := look.admission.refused.get(interface.ref):
        return _refused(settings, look, found)
    warnings = tuple(one for one in look.admission.problems if one.about == interface.ref)
    if warnings and not despite_warnings:
        return _warned(settings, look, warnings)
    entry = replace(entry, reviewed_by=entry.reviewed_by or _reviewer(look))
    return _published(settings, look, interface, entry)


def _published(
    settings: usage.Settings, look: offline.Look, interface: Resource[Record], entry: LockEntry
) -> int:
    """Ask whoever sits there, and write."""
    if not _agreed(settings, look, interface):
        sys.stderr.write("handler: nothing was published\n")
        return 1
    if (there := _add(look, entry)) is not None:
        return _there(there, entry)
    sys.stdout.write(f"{entry.ref} {entry.digest}\n")
    if not settings.quiet:
        sys.stderr.write(f"Published {entry.ref}, reviewed by {entry.reviewed_by}. Commit {_FILE}.\n")
    return 0


def review(settings: usage.Settings, reference: str) -> int:
    """Show what a model will read of a version; 0 all of it is seen, 1 something in it is not."""
    ref = _parsed(reference)
    look = offline.look(folders.configuration(settings.config))
    published = look.admission.inventory.resources.get(ref)
    if published is None:
        return _absent(settings, look, ref)
    paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
    sys.stdout.write(reviewing.whole(published, look.admission.inventory, paint))
    return 1 if reviewing.is_hiding(published) else 0


def check(settings: usage.Settings, since: str) -> int:
    """Hold the lock to what it was at a commit: 0 nothing that was published changed, 1 something did."""
    look = offline.look(folders.configuration(settings.config))
    locks = look.admission.inventory.locks
    now = locks.get(Layer.CONFIG) or Lock()
    faults = [
        one
        for one in look.admission.problems
        if one.reason in ("FrozenModified", "ProfileMutated") or one.at.file == _FILE
    ]
    if since:
        faults += list(frozen.entries_that_changed(_lock_at(look, since), now, since))
    paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
    sys.stdout.write(problems.text(tuple(faults), look.admission.inventory, paint) if faults else "")
    if not settings.quiet and not faults:
        count = columns.counted(len(now.entries), "version")
        sys.stderr.write(f"{count} published, and as published{f' at {since}' if since else ''}\n")
    return 1 if faults else 0


def _lock_at(look: offline.Look, since: str) -> Lock:
    """The lock as a commit has it. Raises ``Stopped``."""
    commit = commits.resolve(look.root, since)
    tree = commit if isinstance(commit, Gone) else commits.tree(commit)
    if isinstance(tree, Gone):
        raise usage.Stopped(f"cannot read {_FILE} at '{since}': {tree.detail}")
    data = tree.files.get(_FILE)
    found = lock.read(data) if data is not None else Lock()
    if not isinstance(found, Lock):
        raise usage.Stopped(f"cannot read {_FILE} at '{since}': line {found.line}: {found.what}")
    return found


def _entry(resource: Resource[Record], reviewer: str) -> LockEntry:
    today = datetime.now(UTC).date().isoformat()
    if resource.ref.kind is Kind.PROFILE:
        return frozen.profile_entry(cast("Resource[Profile]", resource), reviewer, today)
    return frozen.entry(cast("Resource[Interface]", resource), reviewer, today)


def _agreed(settings: usage.Settings, look: offline.Look, interface: Resource[Record]) -> bool:
    """Show what a model will read, and ask, where somebody sits there; scripts have read ``review``."""
    if not (settings.ask and sys.stdin.isatty()):
        return True
    paint = columns.Paint(settings.color, tty=sys.stderr.isatty())
    sys.stderr.write(reviewing.whole(interface, look.admission.inventory, paint))
    sys.stderr.write(f"Publish {interface.ref.name}? It never changes then. [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _add(look: offline.Look, entry: LockEntry) -> LockEntry | None:
    """Write the entry beside those that stand there now; one of its name that says which files it froze is
    left as it is, and given back. Raises ``Stopped``.
    """
    with _alone(look):
        whole = _now(look)
        there = whole.entries.get(entry.ref)
        if there is not None and (there.files or not entry.files):
            return there
        atomic.write(look.root / _FILE, lock.render(Lock({**whole.entries, entry.ref: entry})).encode())
        (look.root / _FILE).chmod(0o644)
    return None


@contextmanager
def _alone(look: offline.Look) -> Iterator[None]:
    """Nobody else publishes here meanwhile, as far as the file system knows of locks."""
    folder = os.open(look.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _now(look: offline.Look) -> Lock:
    """What is published, as the file says at this moment. Raises ``Stopped`` where it cannot be trusted:
    written over, it would let go of every version that it froze.
    """
    path = look.root / _FILE
    if path.is_symlink():
        raise usage.Stopped(f"nothing was published: {_FILE} is a symbolic link; {_LAST_GOOD}")
    try:
        found = lock.read(path.read_bytes())
    except FileNotFoundError:
        return Lock()
    if not isinstance(found, Lock):
        raise usage.Stopped(
            f"nothing was published: cannot read {_FILE}: line {found.line}: {found.what}; {_LAST_GOOD}"
        )
    return found


def _parsed(reference: str) -> ObjectRef:
    """What is to be published: ``ocr/v1``, or a profile as ``ID@REVISION``."""
    found = locked_object(reference.removeprefix("profile/"))
    try:
        if found.kind is Kind.INTERFACE:
            return ObjectRef(Kind.INTERFACE, str(InterfaceRef.parse(reference)))
    except ValueError as error:
        raise usage.Usage(str(error)) from None
    return found


def _absent(settings: usage.Settings, look: offline.Look, ref: ObjectRef) -> int:
    """Say why there is nothing to publish: refused, of the catalogue, or not there."""
    inventory = look.admission.inventory
    if found := look.admission.refused.get(ref):
        return _refused(settings, look, found)
    if ref in inventory.resources:
        raise usage.Stopped(f"{ref.name} belongs to the catalogue, which publishes its own versions")
    near = usage.nearest(ref.name, list(inventory.names(ref.kind)))
    raise usage.Stopped(
        f"there is no {lock.folder(ref.name)}" + (f": did you mean '{near}'?" if near else "")
    )


def _refused(settings: usage.Settings, look: offline.Look, found: tuple[Problem, ...]) -> int:
    paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
    sys.stdout.write(problems.text(found, look.admission.inventory, paint))
    sys.stderr.write("handler: nothing was published, since the version is refused\n")
    return 1


def _warned(settings: usage.Settings, look: offline.Look, found: tuple[Problem, ...]) -> int:
    paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
    sys.stdout.write(problems.text(found, look.admission.inventory, paint))
    sys.stderr.write(
        "handler: nothing was published: no byte of a published version can be mended. "
        "Mend it now, or add --despite-warnings\n"
    )
    return 1


def _there(there: LockEntry, entry: LockEntry) -> int:
    if there.digest == entry.digest:
        sys.stderr.write(f"{entry.ref} is published already, on {there.published}.\n")
        return 0
    raise usage.Stopped(
        f"{entry.ref} is published and its files have changed since: restore them, or make them "
        f"{frozen.following(entry.ref)}"
    )


def _reviewer(look: offline.Look) -> str:
    """Who reviews: the person that git knows here. Whoever reads the lock in a year has only that name, so
    where there is none, one has to be given: ``usage.Usage``.
    """
    command = ["git", "-C", str(look.root), "config", "user.email"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_S, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        email = ""
    else:
        email = told.stdout.strip()
    if not email:
        raise usage.Usage(
            "who reviewed it is not known, since git has no user.email here: add --reviewer NAME"
        )
    return email
