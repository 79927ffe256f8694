"""A paper that holds values and files: what a job was asked with, or what came of it.

One line of JSON says what is in it, the bytes of the files follow one after the other; so it is written once,
read in pieces, and whole or not there like every paper. A plain paper (an answer alone) is read as a parcel
without files.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import orjson

_MAGIC = b"handler.parcel/v1 "
_PIECE = 2**20
_MOST_HEAD = 64 * 2**20  # bytes of the line


class BrokenError(OSError):
    """It is not the parcel that was kept."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """What lies in one: ``said``, and of each file its name, its size, and where it begins."""

    path: Path
    said: Mapping[str, Any]
    files: Mapping[str, tuple[int, int]]

    def pieces(self, name: str) -> Iterator[bytes]:
        """The bytes of one file. Raises OSError; KeyError where there is none of that name."""
        start, size = self.files[name]
        with self.path.open("rb") as paper:
            paper.seek(start)
            yield from exactly(paper, size)


def packed(said: Mapping[str, Any], files: Mapping[str, tuple[int, Iterable[bytes]]]) -> Iterator[bytes]:
    """The bytes of a parcel; of each file its size and its bytes, which are read while it is written.

    Raises BrokenError for a file that has another size.
    """
    sizes = [[name, size] for name, (size, _) in files.items()]
    yield _MAGIC + orjson.dumps({"said": said, "files": sizes}) + b"\n"
    for name, (size, pieces) in files.items():
        left = size
        for piece in pieces:
            left -= len(piece)
            yield piece
        if left:
            raise BrokenError(f"{name} is not of {size} bytes")


def opened(path: Path) -> Parcel:
    """Read what is in a paper. Raises OSError."""
    with path.open("rb") as paper:
        if paper.read(len(_MAGIC)) != _MAGIC:
            paper.seek(0)
            return Parcel(path, _mapping(paper.read(_MOST_HEAD)), {})
        head = _mapping(paper.readline(_MOST_HEAD))
        at = paper.tell()
    files = {}
    try:
        for name, size in head["files"]:
            files[str(name)] = (at, int(size))
            at += int(size)
        return Parcel(path, dict(head["said"]), files)
    except (KeyError, TypeError, ValueError):
        raise BrokenError("the paper is no parcel") from None


def exactly(source: BinaryIO, size: int) -> Iterator[bytes]:
    """So many bytes of a file, in pieces. Raises BrokenError where it is shorter."""
    while size:
        piece = source.read(min(_PIECE, size))
        if not piece:
            raise BrokenError("it is shorter than it was")
        size -= len(piece)
        yield piece


def _mapping(text: bytes) -> Mapping[str, Any]:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise BrokenError("the paper is no JSON") from None
    if not isinstance(found, dict):
        raise BrokenError("the paper is no object")
    return found
