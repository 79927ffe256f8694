"""What bubblewrap is handed in memory instead of as arguments: its options, its system call filter."""

import os
from collections.abc import Iterable
from contextlib import ExitStack


def packed(options: Iterable[str]) -> bytes:
    """Options as ``--args`` reads them, each ended by a NUL. ValueError, as a clause, when one holds a NUL:
    what stands behind it would be an option of its own.
    """
    parts = [os.fsencode(one) for one in options]
    if any(b"\0" in part for part in parts):
        raise ValueError("a value that its sandbox is made from holds a NUL character")
    return b"".join(part + b"\0" for part in parts)


def file(name: str, content: bytes, owner: ExitStack) -> int:
    """A file without a place, at its beginning; its descriptor, which ``owner`` closes."""
    number = os.memfd_create(name, os.MFD_CLOEXEC)
    owner.callback(os.close, number)
    os.write(number, content)
    os.lseek(number, 0, os.SEEK_SET)
    return number
