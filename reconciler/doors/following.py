"""A file that is appended to, followed: also past the moment when it is moved aside and another begins."""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

_LOOK_S = 0.2


def opened(path: Path, files: ExitStack) -> BinaryIO | None:
    """The file, closed with ``files``; None while there is none."""
    try:
        return files.enter_context(path.open("rb"))
    except OSError:
        return None


def appended(path: Path, held: BinaryIO | None, files: ExitStack, looks: int | None) -> Iterator[bytes]:
    """What is written behind what was read of ``held``, "" where nothing was; for so many ``looks``, five a
    second, or for ever. A file that is moved aside is read to its end first.
    """
    while looks is None or looks > 0:
        looks = None if looks is None else looks - 1
        stays = held is not None and _is(path, held)  # asked before it is read, so nothing is passed over
        yield held.read() if held else b""
        if not stays:
            held = opened(path, files) or held
        time.sleep(_LOOK_S)


def _is(path: Path, file: BinaryIO) -> bool:
    """True while the path still names the open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except OSError:
        return False
