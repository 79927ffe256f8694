"""The objects of a git repository, read without letting the repository say anything.

Git runs with a repository of its own for every reading: an empty one that we make, whose object folder is
the asked one's. So no setting, hook, filter, fsmonitor, credential helper, include, remote or replacement of
the repository itself is ever read, whoever owns it; a partial clone has no remote to fetch from; and root
reads what belongs to another user. Every object is checked against its name, so a store that was tampered
with cannot give other bytes under a commit that was signed.

Pipes carry everything: no object's content is ever an argument. Objects come through ``cat-file``; what git
alone knows of history (``main~2``, is this one older) through ``rev-parse`` and ``merge-base``, which see
nothing but the same objects.
"""

import hashlib
import os
import stat
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_READ_S = 30.0  # 256 MiB of objects take three seconds; a disk that hangs must not hold a look up for ever
_ASK_S = 5.0
_CHUNK = 64  # names a time: a pipe holds them all, so neither side waits for the other
_MAX_BYTES = 64 * 2**20  # of one object: a tree of a million entries has less
_MAX_FILES = 100_000
_MAX_DEPTH = 16
FOLDER, LINK, SUBMODULE = "40000", "120000", "160000"  # the modes of a tree's lines that are no files
_CONFIG = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectFormat = {}\n"


class Unanswered(Exception):  # noqa: N818 - a fact about a repository, not an error of ours
    """Git is missing, refuses, takes too long, or the store holds something else than its names say."""


@dataclass(frozen=True, slots=True)
class Store:
    """Where a repository keeps its objects, by which hash (``sha1`` or ``sha256``), and its shallow file."""

    folder: str
    algorithm: str
    shallow: str = ""


@dataclass(frozen=True, slots=True)
class Object:
    """One object as it was stored: ``commit``, ``tree``, ``blob`` or ``tag``, and its bytes."""

    kind: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a tree: mode (octal text) and the name of the object."""

    mode: str
    name: str


class Reader:
    """Reads objects by their full names, for as long as the ``opened`` block lasts."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", store: Store, sizes: Callable[..., object]
    ) -> None:
        assert process.stdin is not None  # noqa: S101 - pipes were asked for
        assert process.stdout is not None  # noqa: S101
        self._in: IO[bytes] = process.stdin
        self._out: IO[bytes] = process.stdout
        self.algorithm = store.algorithm
        self._folder = store.folder
        self._sizes = sizes

    def read(self, names: Sequence[str]) -> dict[str, Object]:
        """The objects with these names; one that is not there is left out. Raises ``Unanswered``."""
        found: dict[str, Object] = {}
        for start in range(0, len(names), _CHUNK):
            some = names[start : start + _CHUNK]
            _need_plain(f"{self._folder}/{name[:2]}/{name[2:]}" for name in some)
            try:
                self._in.write("".join(f"{name}\n" for name in some).encode())
                self._in.flush()
            except OSError as error:
                raise Unanswered("git ended, or was too slow") from error
            for name in some:
                if (one := self._next(name)) is not None:
                    found[name] = one
        return found

    def sizes(self, names: Sequence[str]) -> dict[str, int]:
        """How many bytes each of these has; one that is not there is left out. Raises ``Unanswered``."""
        _need_plain(f"{self._folder}/{name[:2]}/{name[2:]}" for name in names)
        asked = "".join(f"{name}\n" for name in names).encode()
        text = self._sizes("cat-file", "--batch-check", asked=asked)
        assert isinstance(text, str)  # noqa: S101 - what `_asked` returns
        parts = (line.split(" ") for line in text.splitlines())
        return {one[0]: int(one[2]) for one in parts if len(one) == 3 and one[2].isdigit()}

    def _next(self, name: str) -> Object | None:
        head = self._out.readline().split()
        if len(head) == 2 and head[1] == b"missing":
            return None
        if len(head) != 3 or not head[2].isdigit():
            raise Unanswered("git ended, was too slow, or cannot read the objects")
        kind, size_bytes = head[1].decode("ascii", "replace"), int(head[2])
        if size_bytes > _MAX_BYTES:
            raise Unanswered(f"object {name} has {size_bytes} bytes, more than {_MAX_BYTES}")
        data = self._out.read(size_bytes)
        self._out.read(1)
        if named(kind, data, self.algorithm) != name:
            raise Unanswered(f"object {name} is not what its name says: the repository is damaged")
        return Object(kind, data)


@contextmanager
def opened(store: Store) -> Iterator[Reader]:
    """Read objects of a store; at most 30 s. Raises ``Unanswered`` when git is missing."""
    with _own(store) as environment:
        try:
            process = subprocess.Popen(
                ["git", "cat-file", "--batch"],  # noqa: S607 - the git of this machine
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        except OSError as error:
            raise Unanswered(f"git cannot be run: {error.strerror}") from error
        clock = threading.Timer(_READ_S, process.kill)
        clock.daemon = True
        clock.start()
        try:
            yield Reader(process, store, lambda *words, asked: _asked(environment, *words, asked=asked))
        finally:
            clock.cancel()
            process.kill()
            with suppress(OSError):
                process.communicate()


def _entries(tree: Object, algorithm: str) -> Mapping[bytes, Entry]:
    """The lines of a tree, by file name, in git's order. Raises ``Unanswered`` when it is none."""
    width, place, data = (32 if algorithm == "sha256" else 20), 0, tree.data
    found: dict[bytes, Entry] = {}
    try:
        if tree.kind != "tree":
            raise ValueError(tree.kind)
        while place < len(data):
            space = data.index(b" ", place)
            end = data.index(b"\0", space)
            mode, file = data[place:space].decode("ascii"), data[space + 1 : end]
            place = end + 1 + width
            if not file or b"/" in file or file in (b".", b"..") or file in found or place > len(data):
                raise ValueError(file)
            found[file] = Entry(mode, data[end + 1 : place].hex())
    except ValueError as error:
        raise Unanswered(f"a tree of the repository is malformed: {error}") from error
    return found


def files(
    reader: Reader, commit: str, prefix: str, wanted: Callable[[str, bool], bool]
) -> dict[str, Entry] | None:
    """Everything below the folder ``prefix`` ("" for the top) of a commit that is no folder, by path from
    there; None when the commit has no such folder.

    ``wanted`` is asked, with the path and whether it is a folder, what is taken in. A folder nested deeper
    than 16 stands as itself. Raises ``Unanswered`` when an object is not there.
    """
    top = _top(reader, commit, prefix)
    if top is None:
        return None
    found: dict[str, Entry] = {}
    level, depth = {"": top}, 0
    while level:
        trees = _all_there(reader.read(list(dict.fromkeys(level.values()))), level.values())
        below: dict[str, str] = {}
        for path, name in level.items():
            for file, entry in _entries(trees[name], reader.algorithm).items():
                full, folder = path + os.fsdecode(file), entry.mode == FOLDER
                if not wanted(full, folder):
                    continue
                if folder and depth < _MAX_DEPTH:
                    below[f"{full}/"] = entry.name
                else:
                    found[full] = entry
            if len(found) + len(below) > _MAX_FILES:
                raise Unanswered(f"the commit has more than {_MAX_FILES} files")
        level, depth = below, depth + 1
    return found


def _top(reader: Reader, commit: str, prefix: str) -> str | None:
    whole = _all_there(reader.read([commit]), [commit])[commit]
    name = whole.data.partition(b"\n")[0].removeprefix(b"tree ").decode("ascii", "replace")
    if whole.kind != "commit":
        raise Unanswered(f"{commit} is a {whole.kind}, not a commit")
    for part in filter(None, prefix.split("/")):
        tree = _all_there(reader.read([name]), [name])[name]
        entry = _entries(tree, reader.algorithm).get(os.fsencode(part))
        if entry is None or entry.mode != FOLDER:
            return None
        name = entry.name
    return name


def _all_there(found: Mapping[str, Object], names: Iterable[str]) -> Mapping[str, Object]:
    for name in names:
        if name not in found:
            raise Unanswered(
                f"object {name} is not in this repository (of a shallow or partial clone nothing is fetched)"
            )
    return found


def named(kind: str, data: bytes, algorithm: str) -> str:
    """The name that git gives to an object."""
    head = b"%s %d\0" % (kind.encode(), len(data))
    whole = hashlib.sha256(head) if algorithm == "sha256" else hashlib.sha1(head, usedforsecurity=False)
    whole.update(data)
    return whole.hexdigest()


def commit_name(store: Store, expression: str) -> str:
    """The commit that a name with steps means (``<hex>``, ``<hex>~2``, ``<hex>^2``), an unambiguous start
    of a name too; "" when there is none. Raises ``Unanswered`` when git cannot say.
    """
    with _own(store) as environment:
        wanted = f"{expression}^{{commit}}"
        try:
            return _asked(environment, "rev-parse", "--verify", "--quiet", "--end-of-options", wanted).strip()
        except subprocess.CalledProcessError:
            return ""


def is_ancestor(store: Store, older: str, newer: str) -> bool | None:
    """Whether the history of ``newer`` holds ``older``; None when the objects do not tell (a shallow clone,
    an object that is gone, no git).
    """
    try:
        with _own(store) as environment:
            _asked(environment, "merge-base", "--is-ancestor", older, newer)
    except subprocess.CalledProcessError as error:
        return False if error.returncode == 1 else None
    except Unanswered:
        return None
    return True


@contextmanager
def _own(store: Store) -> Iterator[dict[str, str]]:
    """An empty repository whose objects are the store's: the whole environment for git in it."""
    with tempfile.TemporaryDirectory(prefix="handler-git-", ignore_cleanup_errors=True) as folder:
        top = Path(folder)
        _need_plain(str(path) for name in ("pack", "info") for path in Path(store.folder, name).glob("*"))
        (top / "refs").mkdir()
        (top / "HEAD").write_text("ref: refs/heads/none\n")
        (top / "config").write_text(_CONFIG.format(store.algorithm))
        yield _bare_environment() | {
            "GIT_DIR": folder,
            "GIT_OBJECT_DIRECTORY": store.folder,
            "GIT_SHALLOW_FILE": store.shallow,
        }


def _need_plain(paths: Iterable[str]) -> None:
    """Raise ``Unanswered`` where a file is a pipe or the like: git would wait for who writes into it."""
    for path in paths:
        with suppress(OSError):  # most objects are in packs
            mode = os.stat(path).st_mode  # noqa: PTH116 - of each object that is read
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise Unanswered(f"{path} is no file: a pipe, a socket or a device among git's objects")


def _asked(environment: Mapping[str, str], *words: str, asked: bytes = b"") -> str:
    """What git prints. Raises ``CalledProcessError`` for its own refusals, else ``Unanswered``."""
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command; names are hex or follow --end-of-options
            ["git", "-c", "core.commitGraph=false", *words],  # noqa: S607 - the git of this machine
            input=asked,
            capture_output=True,
            timeout=_ASK_S,
            check=True,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unanswered(f"git cannot be asked: {error}") from error
    return done.stdout.decode("ascii", "replace")


def _bare_environment() -> dict[str, str]:
    """What git may know of ours: no GIT_*, no settings of the machine or the person, no way to a remote."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return kept | {
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }
