"""Sandboxes that a killed controller left behind: found by their label, ended before anything is started.

Bubblewrap dies with its parent, but in the first milliseconds of a spawn that is not yet arranged. The
processes of a sandbox carry the owner's label as their name, which whoever started them gave them.
"""

import os
import select
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_LABEL = "handler-sandbox"
_GONE_MS = 2000


def label(owner: str, instance: str) -> str:
    """The name of a sandbox's processes, as ``ps`` shows it."""
    return f"{_LABEL}:{owner}:{instance}"


def sweep(owner: str) -> int:
    """End every sandbox of this owner and wait until it is gone; how many processes there were.

    Only for the one controller of a state folder, before its first spawn. A process is named by a descriptor
    before it is looked at, so a number that is used again is never signalled.
    """
    found = list(_labelled(label(owner, "").encode()))
    for pidfd in found:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    waiting = select.poll()
    for pidfd in found:
        waiting.register(pidfd, select.POLLIN)
    left = set(found)
    while left and (ended := waiting.poll(_GONE_MS)):
        for pidfd, _ in ended:
            waiting.unregister(pidfd)
            left.discard(pidfd)
    for pidfd in found:
        os.close(pidfd)
    return len(found)


def _labelled(prefix: bytes) -> Iterator[int]:
    """A pidfd of each of our own user's processes whose name begins so."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if entry.stat().st_uid != os.geteuid() and os.geteuid() != 0:
                continue
            pidfd = os.pidfd_open(int(entry.name))
        except OSError:
            continue
        try:
            ours = (entry / "cmdline").read_bytes().startswith(prefix)
        except OSError:
            ours = False
        if ours:
            yield pidfd
        else:
            os.close(pidfd)
