"""The folders that a job's files go through: in from the agent's scope, out to it. Nothing stays in them.

Files of the router's (``router.handoff``), each with a name of its own, gone with the call that they are of;
what a killed controller left goes when the next one first needs them.
"""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

_FOLDERS = ("in", "out")


class Staging:
    """The two folders of one controller, made when they are first needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: tuple[int, int] | None = None

    def descriptors(self) -> tuple[int, int]:
        """Both folders, open as long as the controller runs. Raises OSError."""
        if self._open is None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir(mode=0o700, parents=True)
            for one in _FOLDERS:
                (self._folder / one).mkdir(mode=0o700)
            into, out = (os.open(self._folder / one, os.O_RDONLY | os.O_DIRECTORY) for one in _FOLDERS)
            self._open = into, out
        return self._open

    def path(self, blob: str) -> Path:
        """Where an input lies. ValueError for what is no plain name."""
        return self._folder / "in" / _plain(blob)

    def lay(self, blob: str, pieces: Iterable[bytes]) -> None:
        """Write an output for the router to put in place. Raises OSError, and ValueError as above."""
        with (self._folder / "out" / _plain(blob)).open("xb") as file:
            for piece in pieces:
                file.write(piece)


def _plain(blob: str) -> str:
    if not blob or "/" in blob or blob.startswith("."):
        raise ValueError(f"{blob!r} is no name of a file")
    return blob
