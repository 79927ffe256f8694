"""``handler lock add``: publishes an interface version by freezing its folder in ``handler.lock``.

From then on the version never changes; a later edit is refused everywhere. So nothing is locked that is not
admitted, and an entry that is there is never replaced.
"""

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime

from reconciler.admission import frozen
from reconciler.config import lock
from reconciler.control import atomic, folders
from reconciler.doors import columns, offline, problems, usage
from reconciler.model.inventory import Layer, Lock, LockEntry
from reconciler.model.names import InterfaceRef, Kind, ObjectRef
from reconciler.model.problems import Problem

_GIT_S = 5.0
_FILE = "handler.lock"


def run(settings: usage.Settings, reference: str, reviewer: str) -> int:
    """Publish one version of the configuration; 0 published, 1 it is refused or was published otherwise."""
    ref = _parsed(reference)
    look = offline.look(folders.configuration(settings.config))
    inventory = look.admission.inventory
    interface = inventory.interface(str(ref))
    if interface is None or interface.layer is not Layer.CONFIG:
        return _absent(settings, look, ref)
    whole = inventory.locks.get(Layer.CONFIG) or Lock()
    entry = frozen.entry(interface, reviewer.strip(), datetime.now(UTC).date().isoformat())
    if (there := whole.entries.get(entry.ref)) is not None:
        return _there(there, entry)
    if found := look.admission.refused.get(interface.ref):
        return _refused(settings, look, found)
    entry = replace(entry, reviewed_by=entry.reviewed_by or _reviewer(look))
    text = lock.render(Lock({**whole.entries, entry.ref: entry}))
    atomic.write(look.root / _FILE, text.encode())
    (look.root / _FILE).chmod(0o644)
    sys.stdout.write(f"{entry.ref} {entry.digest}\n")
    if not settings.quiet:
        sys.stderr.write(f"Published {entry.ref}, reviewed by {entry.reviewed_by}. Commit {_FILE}.\n")
    return 0


def _parsed(reference: str) -> InterfaceRef:
    try:
        return InterfaceRef.parse(reference)
    except ValueError as error:
        raise usage.Usage(str(error)) from None


def _absent(settings: usage.Settings, look: offline.Look, ref: InterfaceRef) -> int:
    """Say why there is nothing to publish: refused, of the catalogue, or not there."""
    inventory = look.admission.inventory
    if found := look.admission.refused.get(ObjectRef(Kind.INTERFACE, str(ref))):
        return _refused(settings, look, found)
    if inventory.interface(str(ref)) is not None:
        raise usage.Stopped(f"{ref} belongs to the catalogue, which publishes its own versions")
    near = usage.nearest(str(ref), list(inventory.names(Kind.INTERFACE)))
    raise usage.Stopped(f"there is no interfaces/{ref}/" + (f": did you mean '{near}'?" if near else ""))


def _refused(settings: usage.Settings, look: offline.Look, found: tuple[Problem, ...]) -> int:
    paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
    sys.stdout.write(problems.text(found, look.admission.inventory, paint))
    sys.stderr.write("handler: nothing was published, since the version is refused\n")
    return 1


def _there(there: LockEntry, entry: LockEntry) -> int:
    if there.digest == entry.digest:
        sys.stderr.write(f"{entry.ref} is published already, on {there.published}.\n")
        return 0
    ref = InterfaceRef.parse(entry.ref)
    raise usage.Stopped(
        f"{ref} is published and its files have changed since: restore them, or make them "
        f"interfaces/{ref.name}/v{ref.version + 1}"
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
