"""``fs_read_file``, ``fs_read_file_range`` and ``fs_count_stats``: text files, whole or by lines.

A file is read from beginning to end whatever part is asked for, since its digest is what a later write is
checked against; only the part is kept in memory.
"""

import codecs
import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.builtin import memory
from reconciler.builtin.asking import Asked, Ended
from reconciler.builtin.fsopening import pieces, plain

MOST_CONTENT = 256 * 2**10  # bytes of text in one answer
_TO_THE_END = 2**62
_WORD = re.compile(r"\S+")


def read_file(arguments: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
    """The text of a file, whole or from one line to another, both included."""
    path, start = arguments["path"], arguments.get("start_line", 1)
    end = arguments.get("end_line", _TO_THE_END)
    if end < start:
        raise Ended("no_such_lines", "end_line is less than start_line")
    whole = start == 1 and end == _TO_THE_END
    with plain(asked, path) as found:
        if whole and found.stat.st_size > MOST_CONTENT:
            raise Ended("too_large", f"it has more than {MOST_CONTENT} bytes")
        hashed, lines = hashlib.sha256(), _Lines(start, end)
        for piece in checked(pieces(found.descriptor, asked)):
            hashed.update(piece)
            lines.take(piece)
        digest = hashed.hexdigest()
        memory.READS.note(asked.session, found.stat, digest, whole=whole)
        asked.read.add(path)
    if start > max(lines.count, 1):
        raise Ended("no_such_lines", "the file has fewer lines")
    return {
        "content": b"".join(lines.kept).decode(),
        "start_line": start,
        "end_line": min(end, lines.count),
        "lines": lines.count,
        "size": lines.size,
        "sha256": digest,
    }


def count_stats(arguments: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
    """How many lines, words, characters and bytes a text file has."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    lines, words, characters, size = _Lines(1, 0), 0, 0, 0
    within_word = False
    with plain(asked, arguments["path"]) as found:
        for piece in checked(pieces(found.descriptor, asked)):
            lines.take(piece)
            size += len(piece)
            text = decoder.decode(piece)
            characters += len(text)
            if text:
                words += sum(1 for _ in _WORD.finditer(text)) - (within_word and not text[0].isspace())
                within_word = not text[-1].isspace()
    return {"lines": lines.count, "words": words, "characters": characters, "size": size}


def checked(read: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces of a file, seen to be UTF-8 text without NUL; raises Ended."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for piece in read:
            if b"\0" in piece:
                raise Ended("not_text", "it holds NUL")
            decoder.decode(piece)
            yield piece
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise Ended("not_text", "it is not UTF-8") from None


class _Lines:
    """Counts lines and keeps those that are asked for. A line ends with its line feed, or with the file."""

    def __init__(self, start: int, end: int) -> None:
        self.kept: list[bytes] = []
        self.size = 0
        self._start = start
        self._end = end
        self._line = 1  # that the next byte belongs to
        self._held = 0
        self._open = False  # that line has a byte already

    @property
    def count(self) -> int:
        """Lines so far."""
        return self._line - 1 + self._open

    def take(self, piece: bytes) -> None:
        """One more piece of the file, not empty."""
        self.size += len(piece)
        feeds = piece.count(b"\n")
        last = self._line + feeds
        if last >= self._start and self._line <= self._end:
            self._keep(piece)
        self._line = last
        self._open = not piece.endswith(b"\n")

    def _keep(self, piece: bytes) -> None:
        line, at = self._line, 0
        while line < self._start and (feed := piece.find(b"\n", at)) >= 0:
            line, at = line + 1, feed + 1
        begin = at
        while line <= self._end and self._end < _TO_THE_END and (feed := piece.find(b"\n", at)) >= 0:
            line, at = line + 1, feed + 1
        part = piece[begin:at] if line > self._end else piece[begin:]
        self._held += len(part)
        if self._held > MOST_CONTENT:
            raise Ended("too_large", f"those lines have more than {MOST_CONTENT} bytes")
        self.kept.append(part)
