"""``fs_stat_file``, ``fs_list_dir`` and ``fs_find_files``, and the walk through folders that grep shares.

A walk goes by open folders, each opened by its one name beneath the one above: a folder that is exchanged
meanwhile leads nowhere else. Links are named and never followed; hidden folders are entered only where one is
asked for by name. Everything is bounded, and an answer that is not all of it says ``truncated``.
"""

import fnmatch
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from reconciler.builtin.asking import Asked, Ended
from reconciler.builtin.fsopening import anything, below, kind_of
from reconciler.router import scopes
from reconciler.router.beneath import Denied

MOST_FOUND = 1000  # entries of one answer
MOST_TEXT = 512 * 2**10  # bytes of their paths and lines
_MOST_SEEN = 50_000  # entries that one walk looks at
_MOST_S = 10.0
_DEPTH, _DEEPEST = 6, 32
_MOST_PARTS = 64  # of a pattern


@dataclass(frozen=True, slots=True)
class Entry:
    """What a walk comes by: its path as the agent may give it, its name, and the open folder it lies in."""

    path: str
    name: str
    parent: int
    stat: os.stat_result

    @property
    def kind(self) -> str:
        """``file``, ``folder``, ``link`` or ``other``."""
        return kind_of(self.stat.st_mode)


class Walk:
    """One walk, with its bounds; ``truncated`` says that one of them was met."""

    def __init__(self, asked: Asked, depth: int = _DEEPEST) -> None:
        self.truncated = False
        self._asked = asked
        self._depth = depth
        self._seen = 0
        self._found = 0
        self._text = 0
        self._until = time.monotonic() + _MOST_S

    def fits(self, *texts: str) -> bool:
        """Whether one more of these finds goes into the answer; if not, it is truncated."""
        self._found += 1
        self._text += sum(len(text.encode()) for text in texts)
        self.truncated = self.truncated or self._found > MOST_FOUND or self._text > MOST_TEXT
        return not self.truncated

    def is_late(self) -> bool:
        """Whether its time is up, which truncates the answer."""
        self.truncated = self.truncated or time.monotonic() > self._until
        return self.truncated

    def through(self, folder: int, path: str) -> Iterator[Entry]:
        """Everything below an open folder, by name, each folder before what is in it."""
        bare = path.removeprefix("./").rstrip("/")
        start = "" if bare in (".", "") and not path.startswith("/") else f"{bare}/"
        yield from self._below(folder, start, 1)

    def _below(self, folder: int, start: str, depth: int) -> Iterator[Entry]:
        for name, found in self._entries(folder):
            path = start + name
            if self.truncated:
                return
            if len(path) > scopes.MAX_PATH:
                continue
            entry = Entry(path, name, folder, found)
            yield entry
            if entry.kind != "folder" or name.startswith("."):
                continue
            if depth >= self._depth:
                self._deep(depth)
                continue
            try:
                inner = below(folder, name)
            except Denied:
                continue  # exchanged, or not ours to read
            try:
                yield from self._below(inner, f"{path}/", depth + 1)
            finally:
                os.close(inner)

    def _deep(self, depth: int) -> None:
        """There is more below; that is only worth a word where nobody asked for so little."""
        if depth >= _DEEPEST:
            self.truncated = True

    def _entries(self, folder: int) -> list[tuple[str, os.stat_result]]:
        """The entries of one folder whose names can be given, sorted."""
        found = []
        with os.scandir(folder) as entries:
            for entry in entries:
                self._seen += 1
                if self._seen > _MOST_SEEN or self.is_late():
                    self.truncated = True
                    break
                self._asked.go_on()
                if scopes.is_name(entry.name):
                    try:
                        found.append((entry.name, entry.stat(follow_symlinks=False)))
                    except OSError:
                        continue  # gone meanwhile
        return sorted(found, key=lambda one: one[0])


def stat_file(arguments: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
    """What lies at a path: its kind, size and last change, and what the scope lets one do there."""
    with anything(asked, arguments["path"]) as found:
        changed = datetime.fromtimestamp(max(found.stat.st_mtime, 0), UTC)
        return {
            "kind": found.kind,
            "size": found.stat.st_size if found.kind == "file" else 0,
            "modified": changed.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "access": found.access,
        }


def list_dir(arguments: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
    """What a folder holds, and with ``recursive`` what its folders hold."""
    depth = arguments.get("max_depth", _DEPTH) if arguments.get("recursive") else 1
    walk, path = Walk(asked, depth), arguments.get("path", ".")
    with _folder(asked, path) as folder:
        entries = [_told(one) for one in walk.through(folder, path) if walk.fits(one.path)]
    return {"entries": entries, "truncated": walk.truncated}


def find_files(arguments: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
    """The files below a folder whose name, or path below it, fits a pattern."""
    walk, path = Walk(asked), arguments.get("path", ".")
    with _folder(asked, path) as folder:
        fits, skip = _fitting(arguments["pattern"]), None
        paths = []
        for one in walk.through(folder, path):
            skip = len(one.path) - len(one.name) if skip is None else skip
            if one.kind == "file" and fits(one.path[skip:]) and walk.fits(one.path):
                paths.append(one.path)
    return {"paths": paths, "truncated": walk.truncated}


@contextmanager
def _folder(asked: Asked, path: str) -> Iterator[int]:
    """A folder of the scope, open; raises Denied, and Ended where no folder lies there."""
    with anything(asked, path) as found:
        if found.kind != "folder":
            raise Ended("wrong_kind", "it is no folder")
        yield found.descriptor


def _told(one: Entry) -> dict[str, Any]:
    told: dict[str, Any] = {"path": one.path, "kind": one.kind}
    return told | {"size": one.stat.st_size} if one.kind == "file" else told


def _fitting(pattern: str) -> Callable[[str], bool]:
    """Whether a path below the folder fits: ``*``, ``?`` and ``[…]`` within one name, ``**`` for any folders.
    A pattern without a slash is of names alone. Raises Ended.
    """
    parts = pattern.split("/")
    if len(parts) > _MOST_PARTS or not all(parts):
        raise Ended("invalid_pattern", "a part of the pattern is empty, or there are too many")
    compiled = [None if part == "**" else re.compile(fnmatch.translate(part)) for part in parts]
    if len(parts) == 1:
        only = compiled[0]
        return lambda path: only is None or only.match(path.rpartition("/")[2]) is not None
    return lambda path: _fits(compiled, path.split("/"))


def _fits(pattern: list[re.Pattern[str] | None], names: list[str]) -> bool:
    """By the set of places in the pattern that may come next: never more work than parts times names."""
    places = _jumped(pattern, {0})
    for name in names:
        following = set()
        for place in places:
            if place < len(pattern):
                part = pattern[place]
                if part is None:
                    following.add(place)
                elif part.match(name):
                    following.add(place + 1)
        places = _jumped(pattern, following)
    return len(pattern) in places


def _jumped(pattern: list[re.Pattern[str] | None], places: set[int]) -> set[int]:
    """The places, and those behind a ``**`` that stands for no folder."""
    found = set(places)
    for place in sorted(places):
        while place < len(pattern) and pattern[place] is None:
            place += 1  # noqa: PLW2901 - a walk along the pattern
            found.add(place)
    return found
