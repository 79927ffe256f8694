"""The index of one folder: passages in SQLite's FTS5, in memory, kept true to the files at each search.

One connection and one lock: searches take milliseconds, and whoever comes while files are read wants the
result of that reading. A query reaches FTS5 as words in quotes, so nothing of its syntax can be spoken from
outside.
"""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from pages import SUFFIXES, Page, page

_MOST_BYTES = 4 * 2**20  # of one file
_PASSAGE = (
    1500  # characters: long enough to hold what belongs together, short enough for an excerpt to be fair
)
_EXCERPT_WORDS = 40
_MOST_WORDS = 32  # of a query
_DEEPEST = 32  # folders
_WORD = re.compile(r"\w+")
_TITLE_WEIGHT = 4.0  # a word in the title says more than one in the text

Stamp = tuple[int, int]  # size and time of change, ns


class StoppedError(Exception):
    """Nobody waits for this search any more."""


class UnreadableError(Exception):
    """The folder cannot be read; the text says why, without its place on the machine."""


@dataclass(frozen=True, slots=True)
class Found:
    """One document that fits: its path below the folder, and its best passage cut to an excerpt."""

    path: str
    page: Page  # without its text
    excerpt: str


def words(query: str) -> list[str]:
    """The words of a query, each once, in their order; [] when it has none."""
    found = (word for word in _WORD.findall(query) if any(map(str.isalnum, word)))
    return list(dict.fromkeys(found))[:_MOST_WORDS]


class Index:
    """Everything that can be searched in one folder."""

    def __init__(self, folder: str, *, rescan_s: float = 10, most: int = 20_000) -> None:
        self._folder = folder
        self._rescan_s = rescan_s
        self._most = most
        self._lock = threading.Lock()
        self._scanned_at: float | None = None  # or None until the first search
        self._files: dict[str, tuple[Stamp, int]] = {}  # path: what it was when read, its number
        self._pages: dict[int, tuple[str, Page]] = {}
        self._numbers = 0
        self._db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._db.execute(
            "CREATE VIRTUAL TABLE passages USING fts5(title, body, number UNINDEXED, "
            "tokenize = 'porter unicode61 remove_diacritics 2')"
        )

    def search(self, wanted: list[str], most: int, stopped: Callable[[], bool]) -> list[Found]:
        """The best documents for these words, at most ``most``; raises StoppedError or UnreadableError."""
        with self._lock:
            self._refresh(stopped)
            quoted = [f'"{word}"' for word in wanted]
            found: dict[int, str] = {}
            for query in (" AND ".join(quoted), " OR ".join(quoted)):
                for number, excerpt in self._matches(query, most):
                    found.setdefault(number, excerpt)
                if len(found) >= most:
                    break
            return [Found(*self._pages[number], found[number]) for number in list(found)[:most]]

    def _matches(self, query: str, most: int) -> Iterator[tuple[int, str]]:
        """The best passage of each of the best documents, however many passages of one fit."""
        best: dict[int, int] = {}
        ranked = self._db.execute(
            "SELECT number, rowid FROM passages WHERE passages MATCH ? AND rank MATCH ? ORDER BY rank",
            (query, f"bm25({_TITLE_WEIGHT}, 1.0)"),
        )
        for number, row in ranked:
            best.setdefault(int(number), row)
            if len(best) == most:
                break
        ranked.close()
        for number, row in best.items():
            excerpt = self._db.execute(
                "SELECT snippet(passages, 1, '', '', '…', ?) FROM passages "
                "WHERE passages MATCH ? AND rowid = ?",
                (_EXCERPT_WORDS, query, row),
            ).fetchone()[0]
            yield number, " ".join(excerpt.split())

    # keeping it true

    def _refresh(self, stopped: Callable[[], bool]) -> None:
        now = time.monotonic()
        if self._scanned_at is not None and now - self._scanned_at < self._rescan_s:
            return
        seen = self._listed()
        self._db.execute("BEGIN")
        try:
            for path in self._files.keys() - seen.keys():
                self._forget(path)
            for path, stamp in seen.items():
                if stopped():
                    raise StoppedError
                if path not in self._files or self._files[path][0] != stamp:
                    self._read(path, stamp)
        finally:
            self._db.execute("COMMIT")  # what was read stays read; the next search goes on
        self._scanned_at = now

    def _listed(self) -> dict[str, Stamp]:
        seen: dict[str, Stamp] = {}
        for path, stamp in _files(self._folder):
            if len(seen) == self._most:
                sys.stderr.write(f"more than {self._most} files: the others are not searched\n")
                break
            seen[path] = stamp
        return seen

    def _forget(self, path: str) -> None:
        _, number = self._files.pop(path)
        if self._pages.pop(number, None) is not None:
            self._db.execute("DELETE FROM passages WHERE number = ?", (number,))

    def _read(self, path: str, stamp: Stamp) -> None:
        if path in self._files:
            self._forget(path)
        self._numbers += 1
        self._files[path] = (stamp, self._numbers)
        try:
            with open(f"{self._folder}/{path}", "rb", opener=_opened) as file:
                data = file.read(_MOST_BYTES + 1)
        except OSError as fault:
            sys.stderr.write(f"a file cannot be read: {fault.strerror}\n")
            return
        found = page(path.rpartition("/")[2], data) if len(data) <= _MOST_BYTES else None
        if found is None:
            return
        self._pages[self._numbers] = (path, Page(found.title, "", found.address, found.published))
        rows = ((found.title, passage, self._numbers) for passage in _passages(found.text))
        self._db.executemany("INSERT INTO passages (title, body, number) VALUES (?, ?, ?)", rows)


def _opened(path: str, flags: int) -> int:
    """A file that was listed as one: whatever stands there by now is not followed and not waited for."""
    found = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise OSError(errno.ENXIO, "it is no file any more")
    return found


def _files(folder: str) -> Iterator[tuple[str, Stamp]]:
    """Every file that can be searched, by its path below the folder, in a fixed order, without links."""
    waiting = [""]
    while waiting:
        below = waiting.pop()
        for entry in _entries(folder, below):
            path = below + entry.name
            if entry.is_dir(follow_symlinks=False):
                if path.count("/") < _DEEPEST:
                    waiting.append(path + "/")
            elif entry.is_file(follow_symlinks=False) and entry.name.lower().endswith(tuple(SUFFIXES)):
                with suppress(OSError):  # it is gone meanwhile
                    about = entry.stat(follow_symlinks=False)
                    yield path, (about.st_size, about.st_mtime_ns)


def _entries(folder: str, below: str) -> list[os.DirEntry[str]]:
    """What stands in a folder, but what is hidden or cannot be told on; nothing where it is closed to us."""
    try:
        found = sorted(os.scandir(f"{folder}/{below}"), key=lambda one: one.name)
    except OSError as fault:
        if below:
            return []
        raise UnreadableError(f"the folder cannot be read: {fault.strerror}") from fault
    return [one for one in found if not one.name.startswith(".") and _is_text(one.name)]


def _is_text(path: str) -> bool:
    """Whether a name can be told on: one that is no UTF-8 cannot."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _passages(text: str) -> Iterator[str]:
    """The text in parts of about a passage, cut between paragraphs, else lines, else words; at least one."""
    part = ""
    for piece in _pieces(text):
        if part and len(part) + len(piece) > _PASSAGE:
            yield part
            part = ""
        part += piece
    yield part


def _pieces(text: str) -> Iterator[str]:
    for paragraph in re.findall(r"[^\n]*\n*", text):
        for at in range(0, len(paragraph), _PASSAGE):
            yield paragraph[at : at + _PASSAGE]
