"""Runs one program within bounds: a time, an end when the caller has gone, and no shell.

No byte of a document touches a disk; what a program says on stderr is for operators only.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import BinaryIO

_LONGEST_S = 90.0  # one page; a page that takes longer is a trap or hopeless, and the others wait for it
_LOOK_S = 0.1  # how soon a cancelled call ends its program
_SAID = 300  # characters of stderr that a diagnostic keeps

# One thread a program: pages are shared out instead, which reads them about twice as fast.
_ENVIRONMENT = {**os.environ, "OMP_THREAD_LIMIT": "1", "LC_ALL": "C.UTF-8"}


class BrokenError(Exception):
    """The program is missing, was killed, took too long or is wanted no more: no document is to blame."""


class RefusedError(Exception):
    """The program ran and said no; the text is the end of what it said."""


def run(argv: Sequence[str], stopped: Callable[[], bool], feed: bytes = b"") -> bytes:
    """What ``argv`` prints; raises RefusedError when it exits with a code, BrokenError for all else."""
    if stopped():
        raise BrokenError("the call was cancelled")
    with _in_memory(feed) as source:
        try:
            child = subprocess.Popen(
                argv, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_ENVIRONMENT
            )
        except FileNotFoundError as error:
            raise BrokenError(f"{argv[0]} is not there; PROVISIONING.md says which package has it") from error
    with child:
        try:
            out, said = _wait(child, stopped)
        except BaseException:
            child.kill()
            raise
    if child.returncode < 0:
        raise BrokenError(f"{argv[0]} was ended by signal {-child.returncode}")
    if child.returncode:
        words = said.decode(errors="replace").strip()[-_SAID:]
        raise RefusedError(f"{argv[0]} exit {child.returncode}: {words}")
    return out


def _in_memory(feed: bytes) -> BinaryIO:
    """The bytes as a file without a name; a pipe could not be fed and watched by a time-out at once."""
    file = os.fdopen(os.memfd_create("page"), "w+b")
    file.write(feed)
    file.seek(0)
    return file


def _wait(child: subprocess.Popen[bytes], stopped: Callable[[], bool]) -> tuple[bytes, bytes]:
    until = time.monotonic() + _LONGEST_S
    while True:
        try:
            return child.communicate(timeout=_LOOK_S)
        except subprocess.TimeoutExpired:
            pass  # what it has printed so far is kept for the next look
        if stopped():
            raise BrokenError("the call was cancelled")
        if time.monotonic() > until:
            raise BrokenError(f"a program took longer than {_LONGEST_S:.0f} s")
