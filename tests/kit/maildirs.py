"""Maildirs for send-email's cases: boxes for its addresses, one too small, and one that takes nothing."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BOXES = (
    "ada@example.test=ada, bob@example.test=bob, eve@example.test=eve, large@example.test=small, "
    "dropped@example.test=ada, dropped@example.test=full"
)


@contextmanager
def boxes(folder: Path) -> Iterator[dict[str, str]]:
    """The settings of an email-maildir whose boxes lie in a new folder."""
    for box in ("ada", "bob", "eve", "small", "full"):
        for name in ("tmp", "new", "cur"):
            (folder / box / name).mkdir(parents=True)
    with _takes_nothing(folder / "full" / "new"):
        yield {
            "maildir": str(folder),
            "sender": "clerk@example.test",
            "boxes": BOXES,
            "sizes": "small=64",
        }


@contextmanager
def _takes_nothing(folder: Path) -> Iterator[None]:
    """As a full disk does: for root by a file system that is read-only, for others by the folder's mode."""
    if os.geteuid() != 0:
        folder.chmod(0o500)
        yield
        folder.chmod(0o700)
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,size=4k", "none", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)
