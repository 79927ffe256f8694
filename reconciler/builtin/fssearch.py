"""``fs_grep``: the lines of a file, or of the files below a folder, that hold a text or fit a pattern.

Patterns run in linear time (``contract.finder``). Of a long line the beginning is searched and told.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reconciler.builtin.asking import Asked, Ended
from reconciler.builtin.fslisting import Walk
from reconciler.builtin.fsopening import anything, file_below, pieces
from reconciler.model import contract
from reconciler.router.beneath import Denied

_LINE = 4096  # bytes of a line that are searched
_TOLD = 500  # characters of it that are told
_MOST_FILE = 8 * 2**20  # of a folder's files, larger ones are left out
_MOST_READ = 256 * 2**20  # bytes of one search
_TO_THE_END = 2**62
_OFTEN = 4096  # lines between two looks at the clock


class _Search:
    """One search: what is looked for, where in each file, and what was found."""

    def __init__(self, arguments: Mapping[str, Any], asked: Asked) -> None:
        self.matches: list[dict[str, Any]] = []
        self.skipped = 0  # files that are no text, or too large
        self.walk = Walk(asked)
        self.left = _MOST_READ
        self._asked = asked
        self._start = arguments.get("start_line", 1)
        self._end = arguments.get("end_line", _TO_THE_END)
        regex = arguments.get("regex", False)
        self._hits = _hits(arguments["pattern"], regex=regex)
        # A text that a piece does not hold is in none of its lines, which then need not be told apart.
        self._may_hold = _always if regex else self._hits

    def look(self, descriptor: int, path: str, most: int) -> None:
        """Look through one open file; raises Ended where it is no text or too large."""
        for number, line in _lines(pieces(descriptor, self._asked, most), self._may_hold):
            if number > self._end or self.walk.truncated:
                return
            if number % _OFTEN == 0 and self.walk.is_late():
                return
            if number < self._start or not self._hits(line):
                continue
            text = line.decode(errors="replace").rstrip("\r")
            told = text if len(text) <= _TOLD else text[:_TOLD] + "…"
            if self.walk.fits(path, told):
                self.matches.append({"path": path, "line": number, "text": told})
                self._asked.read.add(path)

    def look_below(self, folder: int, path: str) -> None:
        """Look through the text files below an open folder."""
        for one in self.walk.through(folder, path):
            if one.kind != "file":
                continue
            if one.stat.st_size > _MOST_FILE:
                self.skipped += 1
                continue
            self.left -= one.stat.st_size
            if self.left < 0:
                self.walk.truncated = True
                return
            self._look_into(one.parent, one.name, one.path)

    def _look_into(self, parent: int, name: str, path: str) -> None:
        try:
            descriptor = file_below(parent, name)
        except Denied:
            self.skipped += 1
            return
        try:
            self.look(descriptor, path, _MOST_FILE)
        except Ended as ended:
            if ended.code not in ("not_text", "too_large"):
                raise
            self.skipped += 1
        finally:
            os.close(descriptor)


def grep(arguments: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
    """Every line that holds the text, or fits the pattern, up to the bounds of an answer."""
    search, path = _Search(arguments, asked), arguments["path"]
    with anything(asked, path) as found:
        if found.kind == "folder":
            search.look_below(found.descriptor, path)
        elif found.kind == "file":
            search.look(found.descriptor, path.removeprefix("./"), _MOST_READ // 4)
        else:
            raise Ended("wrong_kind", "it is neither a file nor a folder")
    return {"matches": search.matches, "skipped": search.skipped, "truncated": search.walk.truncated}


def _hits(pattern: str, *, regex: bool) -> Callable[[bytes], bool]:
    if not regex:
        wanted = pattern.encode()
        return lambda line: wanted in line
    try:
        found = contract.finder(pattern)
    except ValueError:
        raise Ended("invalid_pattern", "it is no pattern of the linear engine") from None
    return lambda line: found(line.decode(errors="replace"))


def _always(piece: bytes) -> bool:
    return True


def _lines(read: Iterator[bytes], may_hold: Callable[[bytes], bool]) -> Iterator[tuple[int, bytes]]:
    """Number and beginning of each line in a piece that may hold what is looked for; raises Ended where
    there is NUL.
    """
    number, head = 1, b""
    for piece in read:
        if b"\0" in piece:
            raise Ended("not_text", "it holds NUL")
        if not may_hold(head + piece):
            feeds = piece.count(b"\n")
            number, head = number + feeds, b"" if feeds else head
            head = (head + piece[piece.rfind(b"\n") + 1 :][:_LINE])[:_LINE]
            continue
        *whole, rest = piece.split(b"\n")
        for part in whole:
            yield number, (head + part[:_LINE])[:_LINE]
            number, head = number + 1, b""
        head = (head + rest[:_LINE])[:_LINE]
    if head:
        yield number, head
