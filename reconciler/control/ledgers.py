"""Which ledger a state folder uses: the file in it, or a database that several machines share.

``[ledger]`` of ``handler.toml`` says so, and what was used last is kept in ``ledger.json``: a settings file
that cannot be read never makes a controller begin a second ledger. One is left for another only when nothing
of this state folder is open in it. Sealed requests and results stay in the state folder, its home.
"""

import asyncio
import json
import os
import re
import secrets
import socket
import stat
import tomllib
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from reconciler.attempts.ledger import Ledger
from reconciler.attempts.papers import Papers
from reconciler.attempts.store import SqliteStore, UnusableError
from reconciler.control import atomic
from reconciler.model.recipes import SecretUse
from reconciler.model.references import SecretReference
from reconciler.model.resources import SecretSlot
from reconciler.model.settings import Config
from reconciler.model.settings import Ledger as Wanted
from reconciler.plan import making
from reconciler.runtime.resolving import Resolver, Unresolved

_MEMO = "ledger.json"
_MOST_BYTES = 64 * 1024
_MOST_OPEN = 100_000


@dataclass(frozen=True, slots=True)
class Shared:
    """A ledger in a database, as this state folder uses it."""

    url: str
    home: str  # begins the names of holders: this machine's state folder
    install: str = ""  # the ledger's own random name
    form: str = ""  # of the password's reference, and its words
    words: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """The server and database, for people."""
        return self.url.partition("?")[0]


class Ledgers:
    """The ledger of one state folder. What opens it is for a thread."""

    def __init__(self, state: Path, config: Path | None = None) -> None:
        """``config`` is the configuration's folder, where that is to say which ledger is wanted."""
        self.file = state / "ledger.db"
        self.used = ""  # the address of the database that was opened; "": the file
        self.settings: Callable[[], Wanted | None] = lambda: (
            None
        )  # in force; None where that is not known yet
        self._state = state
        self._config = config
        self.resolver = Resolver(config or Path.cwd())  # of this controller's secrets

    def shared(self) -> Shared | None:
        """The database that is used, or will be; None for the file. Raises UnusableError."""
        wanted, memo = self._wanted(), self._memo()
        if wanted is None:
            return memo
        if not wanted.url:
            return None
        home = memo.home if memo is not None else f"{_machine()}-{secrets.token_hex(3)}/"
        install = memo.install if memo is not None and memo.url == wanted.url else ""
        use = _use(wanted.password)
        return Shared(wanted.url, home, install, use.form, use.reference)

    def remembered(self) -> str:
        """Why a database is used that no settings name, as a sentence; "" where they say. Raises
        UnusableError.
        """
        if self.settings() is not None or self._config is None or _said(self._config) is not None:
            return ""
        if (memo := self._memo()) is None:
            return ""
        return (
            f"handler.toml is missing or cannot be read: {memo.where} was used last and stays the ledger "
            "(a handler.toml without [ledger] means the file ledger.db)"
        )

    def exists(self) -> bool:
        """Whether there is a ledger to look into; raises nothing."""
        try:
            return self.shared() is not None or self.file.exists()
        except UnusableError:
            return True  # whoever opens it is told

    def read(self) -> Ledger | None:
        """What there is, beside whoever writes it; None where nothing was ever kept. Raises UnusableError and
        ``store.UnbegunError``.
        """
        shared = self.shared()
        if shared is not None:
            return self._joined(shared, only_read=True)
        return Ledger.read(self._state) if self.file.exists() else None

    def open(self) -> Ledger:
        """The ledger, to write to it. Raises UnusableError and OSError."""
        shared, memo = self.shared(), self._memo()
        if shared is None:
            if memo is not None:
                self._need_left(memo)
                atomic.remove(self._state / _MEMO)
            self.used = ""
            return Ledger.at(self._state)
        if memo is None and self.file.exists():
            with closing(Ledger(SqliteStore(self.file), Papers(self._state / "attempts"))) as old:
                _need_nothing_open(old, "the file ledger.db")
        ledger = self._joined(shared)
        try:
            install = ledger.fact("install", secrets.token_hex(16))
            if memo is not None and install != memo.install:
                self._need_left(memo)
            self._remember(Shared(shared.url, shared.home, install, shared.form, shared.words))
        except BaseException:
            ledger.close()
            raise
        self.used = shared.url
        return ledger

    def _joined(self, shared: Shared, *, only_read: bool = False) -> Ledger:
        from reconciler.attempts.postgres import PostgresStore  # noqa: PLC0415 - the extra, where it is used

        store = PostgresStore(shared.url, lambda: self._password(shared), only_read=only_read)
        return Ledger(store, Papers(self._state / "attempts", only_read=only_read), shared.home)

    def _password(self, shared: Shared) -> str:
        """Asked for at each connection, so that one that was changed is found."""
        if not shared.form:
            return ""
        use = SecretUse("ledger.password", shared.form, shared.words, None, "env")
        try:
            return asyncio.run(self.resolver.one(use)).value.reveal().decode()
        except Unresolved as fault:
            raise UnusableError(f"cannot reach the ledger at {shared.where}: {fault}") from None
        except UnicodeDecodeError:
            raise UnusableError("the ledger's password is no text") from None

    def _wanted(self) -> Wanted | None:
        """What the settings say; None where that is not known, and what was used last counts."""
        if (found := self.settings()) is not None or self._config is None:
            return found
        said = _said(self._config)
        # A commit's own are in force later.
        return said.ledger if said is not None and said.source.mode == "worktree" else None

    def _memo(self) -> Shared | None:
        path = self._state / _MEMO
        try:
            said = json.loads(_plain(path))
            return Shared(**{**said, "words": tuple(said["words"])})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as fault:
            raise UnusableError(
                f"{path} cannot be read, which says what ledger was used last ({fault}): "
                "where that is sure, write [ledger] accordingly and remove it"
            ) from None

    def _remember(self, shared: Shared) -> None:
        atomic.write(self._state / _MEMO, json.dumps(asdict(shared), indent=1).encode())

    def _need_left(self, memo: Shared) -> None:
        """Raise UnusableError where the database that was used has, or may have, something of ours open."""
        try:
            with closing(self._joined(memo)) as old:
                _need_nothing_open(old, f"the ledger at {memo.where}")
        except UnusableError as fault:
            raise UnusableError(
                f"{fault}; if that ledger is gone for ever, remove {self._state / _MEMO}"
            ) from None


def _said(config: Path) -> Config | None:
    """The settings as their file has them now; None where it is missing or cannot be read."""
    try:
        return Config.model_validate(tomllib.loads(_plain(config / "handler.toml").decode()))
    except (OSError, ValueError):
        return None


def _need_nothing_open(old: Ledger, which: str) -> None:
    left = sum(one.holder.startswith(old.home) for one in old.listing(_MOST_OPEN, only_open=True))
    if left:
        raise UnusableError(
            f"{which} holds {left} that are not over, and [ledger] names another: go back to it, let them "
            "end or settle them ('handler jobs list'), then change"
        )


def _use(reference: SecretReference | None) -> SecretUse:
    if reference is None:
        return SecretUse("ledger.password", "", (), None, "env")
    return making.secret("ledger.password", reference, SecretSlot())


def _machine() -> str:
    return re.sub(r"[^a-z0-9-]", "-", socket.gethostname().lower().partition(".")[0])[:24] or "machine"


def _plain(path: Path) -> bytes:
    """A small regular file. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:  # noqa: PTH123 - a descriptor
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{path} is no regular file")
        return file.read(_MOST_BYTES)
