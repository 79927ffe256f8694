"""Where the ledger's rows lie: the one seam between it and an engine, and SQLite behind it.

A transaction is durable when ``transaction()`` has ended (WAL with ``synchronous=FULL``: a commit is on the
disk). One inside another is a savepoint, so that many writers' work may share one commit and each still fails
alone. Never on a network's file system: SQLite's locks do not hold there.
"""

import os
import sqlite3
import stat
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from reconciler.attempts import schema

_BUSY_MS = 10_000  # another process's transaction is milliseconds long; a migration, a second
_WORDS = {"strict": " STRICT", "int": "INTEGER", "real": "REAL", "serial": "INTEGER PRIMARY KEY"}
_REMOTE = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "fuse.sshfs", "afs", "glusterfs"})
_WRONG = (sqlite3.Error, UnicodeError)  # what a statement may fail with; half a character is no text

Row = Mapping[str, Any]


class UnusableError(OSError):
    """The ledger cannot be opened or written to; nothing was sent. The text says why, for operators."""


class UnbegunError(UnusableError):
    """There is a file, and nothing was ever kept in it: whoever made it was killed before it had tables."""


class Store(Protocol):
    """Rows in one engine. For one thread at a time."""

    def skew_s(self) -> float:
        """How far the clock that all who share the rows go by is ahead of this machine's."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """Everything inside happens or nothing does; inside another one it is a savepoint."""
        ...

    def sealed(self) -> str:
        """Why nothing can be written here now, in words, as far as that shows without trying; "": it can."""
        ...

    def rows(self, sql: str, values: Row | None = None) -> list[Row]:
        """What a statement gives; ``:name`` stands for a value."""
        ...

    def change(self, sql: str, values: Row | None = None) -> int:
        """How many rows a statement changed."""
        ...

    def close(self) -> None: ...


class SqliteStore:
    """The ledger's file. ``only_read`` opens what there is, beside a controller that writes."""

    def __init__(self, path: Path, *, only_read: bool = False) -> None:
        """Open the file, and bring it to this version. Raises UnusableError."""
        self._depth = 0
        try:
            self._base = _opened(path, only_read=only_read)
        except (sqlite3.Error, OSError) as error:
            raise UnusableError(f"cannot open the ledger {path.name}: {error}") from None
        try:
            self._base.row_factory = _named
            self._migrate(only_read=only_read)
        except BaseException as error:
            self._base.close()
            if isinstance(error, sqlite3.Error):
                raise UnusableError(f"cannot use the ledger {path.name}: {error}") from None
            raise

    def _migrate(self, *, only_read: bool) -> None:
        known = len(schema.VERSIONS)
        found = self._version()
        if only_read and not found:
            raise UnbegunError("nothing was ever kept in the ledger")
        if found > known or (only_read and found < known):
            raise UnusableError(f"the ledger is of version {found}, and this program knows version {known}")
        if found == known:
            return
        with self.transaction():
            for version in range(self._version(), known):  # again: another process may have been faster
                for one in schema.statements(version, _WORDS):
                    self._base.execute(one)
            self._base.execute(f"PRAGMA user_version = {known}")

    def _version(self) -> int:
        return int(self._base.execute("PRAGMA user_version").fetchone()["user_version"])

    def skew_s(self) -> float:
        """See ``Store``: all who share a file share its machine's clock."""
        return 0.0

    def sealed(self) -> str:
        """See ``Store``: SQLite writes to the file and makes others beside it."""
        file = Path(self._base.execute("PRAGMA database_list").fetchone()["file"])
        shut = [one.name for one in (file, file.parent) if not os.access(one, os.W_OK)]
        return f"{shut[0]} cannot be written to" if shut else ""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """See ``Store``. A full disk, a lock that is held too long: UnusableError, and nothing is changed."""
        name = f"s{self._depth}"
        if self._depth and not self._base.in_transaction:
            raise UnusableError("cannot write to the ledger: an error before has undone the transaction")
        try:
            self._base.execute(f"SAVEPOINT {name}" if self._depth else "BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise UnusableError(f"cannot write to the ledger: {error}") from None
        self._depth += 1
        try:
            yield
            self._base.execute(f"RELEASE {name}" if self._depth > 1 else "COMMIT")
        except BaseException as error:
            with suppress(sqlite3.Error):  # a full disk has undone the whole of it already
                self._base.execute(f"ROLLBACK TO {name}" if self._depth > 1 else "ROLLBACK")
                if self._depth > 1:
                    self._base.execute(f"RELEASE {name}")
            if isinstance(error, _WRONG):
                raise UnusableError(f"cannot write to the ledger: {error}") from None
            raise
        finally:
            self._depth -= 1

    def rows(self, sql: str, values: Row | None = None) -> list[Row]:
        """See ``Store``. A file that is damaged: UnusableError."""
        try:
            return self._base.execute(sql, values or {}).fetchall()
        except _WRONG as error:
            raise UnusableError(f"cannot read the ledger: {error}") from None

    def change(self, sql: str, values: Row | None = None) -> int:
        """See ``Store``."""
        return self._base.execute(sql, values or {}).rowcount

    def close(self) -> None:
        """Let go of the file."""
        self._base.close()


def _opened(path: Path, *, only_read: bool) -> sqlite3.Connection:
    for one in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal"))):
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(one.lstat().st_mode):  # to open a pipe waits for ever
                raise OSError(f"{one.name} is no file of its own")
    if only_read:
        base = sqlite3.connect(
            f"file:{_quoted(path)}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
        )
        base.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        return base
    if (kind := _file_system(path.parent)) in _REMOTE:
        raise OSError(f"its folder lies on a network's file system ({kind}), where locks do not hold")
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    base = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=_BUSY_MS / 1000)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        base.execute(f"PRAGMA {pragma}")
    return base


def _named(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip([column[0] for column in cursor.description], values, strict=True))


def _quoted(path: Path) -> str:
    return path.absolute().as_posix().replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _file_system(folder: Path) -> str:
    """The kind of file system that a folder lies on; "" where the machine does not say."""
    try:
        real = folder.resolve()
        mounts = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    best, kind = -1, ""
    for line in mounts:
        fields = line.split(" ")
        at = fields[4].replace("\\040", " ")
        if len(at) > best and (at == "/" or real == Path(at) or Path(at) in real.parents):
            best, kind = len(at), fields[fields.index("-") + 1]
    return kind
