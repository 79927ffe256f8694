"""The folders of an agent's scope as a sandbox of its programs shows them, each at its own place.

Each is opened without following a link that a program could have made, and its device and inode are kept: who
starts the program sees inside that what is shown is what was meant.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from reconciler.runtime import agenthost
from reconciler.runtime.agentbox import Mount

NEVER = ("/", "/proc", "/sys", "/dev", "/run", "/etc", "/home", "/root", "/var")


class Unshown(Exception):  # noqa: N818 - an answer: nothing ran
    """A folder that cannot be shown; the text says why, and how to mend it."""


@dataclass(slots=True)
class Shown:
    """The folders as they are mounted, and what each must be when it is."""

    mounts: list[Mount] = field(default_factory=list)
    seen: list[tuple[str, int, int]] = field(default_factory=list)

    @property
    def folders(self) -> tuple[str, ...]:
        """Every place at which one is shown, and where it really lies."""
        return tuple(path for mount in self.mounts for path in (mount.inside, mount.outside))


def shown(folders: Iterable[tuple[str, str]], home: str, *, writable: Iterable[str]) -> Shown:
    """Folders with their words of access; those with one of ``writable`` can be changed. Raises Unshown, also
    for one that holds the whole ``home``.
    """
    scope = Shown()
    changed: list[str] = []
    for written, access in folders:
        path = written.rstrip("/") or "/"
        try:
            real, device, inode = agenthost.real_folder(path)
        except OSError as error:
            why = error.strerror or str(error)
            raise Unshown(f"the folder {path} of the scope cannot be shown: {why}") from None
        if real in NEVER or agenthost.within(home, (path, real)):
            raise Unshown(f"the scope holds {path}: with all of it a sandbox is none; list folders inside it")
        if real != path and agenthost.within(os.path.dirname(path), changed):  # noqa: PTH120 - as text
            raise Unshown(f"{path} is a link that a program with this scope can change: list {real} instead")
        is_writable = access in writable
        if is_writable:
            changed += [path, real]
        for inside in dict.fromkeys((path, real)):
            scope.mounts.append(Mount(real, inside, writable=is_writable))
            scope.seen.append((inside, device, inode))
    return scope
