"""The ledger's rows in PostgreSQL, for several machines that share one ledger.

The same law as in a file: one transaction at a time. Each takes the ledger's lock (an advisory one, let go
with the transaction), so a sum that was read is true until what it allowed is kept, on whatever machine. Who
is stopped inside a transaction loses it after ten seconds, at the server; others wait as long, or are
refused. A connection that is gone is made anew by the next transaction, and asked for at most once a second;
one whose server says nothing for 35 s counts as gone. What a server or a role has set as its own habit
(another isolation, commits that do not wait for the disk) does not hold here.
"""

import re
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, cast

from reconciler.attempts import schema
from reconciler.attempts.store import Row, UnbegunError, UnusableError

try:
    import psycopg
    from psycopg.rows import dict_row
except ImportError as missing:  # the extra is not installed, or has no libpq
    raise UnusableError(
        f"a ledger in PostgreSQL needs the package psycopg ({missing}): "
        "install it beside Handler: pip install 'handler-reconciler[postgres]'"
    ) from None

_WORDS = {"strict": "", "int": "BIGINT", "real": "DOUBLE PRECISION", "serial": "BIGSERIAL PRIMARY KEY"}
_LOCK = 0x48616E646C6572  # "Handler": what every transaction of a ledger takes, in its database
_CONNECT_S = 5
_SILENT_S = 10  # so long the server leaves the lock to a session that says nothing
_WAIT_S = 15  # for the lock: longer than that
_STATEMENT_S = 30
_ANSWER_S = _STATEMENT_S + 5  # then the server, or the way to it, does not answer at all
_PAUSE_S = 1.0  # between two tries to reach a server that did not answer
_BOUNDS = {
    "lock_timeout": _WAIT_S,
    "idle_in_transaction_session_timeout": _SILENT_S,
    "statement_timeout": _STATEMENT_S,
}
_NAMED = re.compile(r"(?<!:):([a-z_]+)")
_DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)
_SEALED = """
SELECT pg_is_in_recovery() AS standby, current_setting('transaction_read_only') = 'on' AS shut,
  has_table_privilege('attempt', 'INSERT') AND has_table_privilege('attempt', 'UPDATE') AS granted
"""
_WRONG = (psycopg.Error, UnicodeError)  # what a statement may fail with; half a character is no text


class Connection(psycopg.Connection[dict[str, Any]]):
    """A connection that waits for no answer for ever: a server that is stopped keeps its lines open."""

    def wait(self, gen: Generator[Any, Any, Any], *more: Any, **named: Any) -> Any:
        """As psycopg has it, for ``_ANSWER_S`` at most. Raises OperationalError."""
        try:
            return super().wait(_bounded(gen), *more, **named)
        except _LateError:
            self.close()
            raise


class PostgresStore:
    """The ledger's tables in the schema that a connection begins in. ``only_read`` makes and changes none."""

    def __init__(self, url: str, password: Callable[[], str], *, only_read: bool = False) -> None:
        """Connect, and bring the tables to this version. ``password`` is asked at each connection; "": none.

        Raises UnusableError; its text names the server, never the password.
        """
        self._url = url
        self._password = password
        self._only_read = only_read
        self._depth = 0
        self._xid = ""
        self._is_known = False  # whether the tables were found, or made, as this version has them
        self._base: Connection | None = None
        self._failed: tuple[float, str] = (-_PAUSE_S, "")
        base = self._connected()
        try:
            self._migrate()
            self._is_known = True
        except BaseException as error:
            base.close()
            if isinstance(error, psycopg.Error):
                raise UnusableError(f"cannot use the ledger at {self.where}: {_said(error)}") from None
            raise

    @property
    def where(self) -> str:
        """The server and database, for people."""
        return self._url.partition("?")[0]

    def skew_s(self) -> float:
        """How far the server's clock is ahead of this machine's. Raises UnusableError."""
        before = time.time()
        found = self.rows("SELECT EXTRACT(EPOCH FROM clock_timestamp())::float8 AS now")
        return float(found[0]["now"]) - (before + time.time()) / 2

    def sealed(self) -> str:
        """See ``Store``: a standby, a role or a database that only reads, tables of another role."""
        found = self.rows(_SEALED)[0]
        if found["standby"]:
            return f"{self.where} is a standby, which only reads"
        if found["shut"]:
            return f"{self.where} only lets this role read (default_transaction_read_only)"
        return "" if found["granted"] else f"{self.where} does not let this role write to its tables"

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """See ``Store``. A server that is away, a lock that is held too long: UnusableError."""
        name = f"s{self._depth}"
        base = self._base if self._depth else self._connected()
        if base is None or base.closed:
            raise UnusableError(f"cannot write to the ledger: the connection to {self.where} is lost")
        self._begin(base, name)
        self._depth += 1
        try:
            yield
            self._depth -= 1
        except BaseException as error:
            self._depth -= 1
            with suppress(psycopg.Error):
                base.execute(f"ROLLBACK TO {name}; RELEASE {name}" if self._depth else "ROLLBACK")
            if isinstance(error, _WRONG):
                raise UnusableError(f"cannot write to the ledger: {_said(error)}") from None
            raise
        self._end(base, name)

    def _begin(self, base: Connection, name: str) -> None:
        try:
            if self._depth:
                base.execute(f"SAVEPOINT {name}")
                return
            begin = "BEGIN ISOLATION LEVEL READ COMMITTED"  # what is read under the lock is what is kept now
            base.execute(f"{begin} READ ONLY" if self._only_read else begin)
            if not self._only_read:
                taken = "SELECT pg_advisory_xact_lock(%s), pg_current_xact_id()::text AS xid"
                found = base.execute(taken, (_LOCK,)).fetchone()
                self._xid = str((found or {}).get("xid", ""))
        except psycopg.Error as error:
            with suppress(psycopg.Error):
                base.execute("ROLLBACK")
            raise UnusableError(f"cannot write to the ledger: {_said(error)}") from None

    def _end(self, base: Connection, name: str) -> None:
        try:
            done = base.execute(f"RELEASE {name}" if self._depth else "COMMIT").statusmessage
            if done == "ROLLBACK":  # how a server says that an error before has undone it
                raise UnusableError("cannot write to the ledger: an error before has undone the transaction")
        except psycopg.Error as error:
            if self._depth or not self._was_kept():
                raise UnusableError(f"cannot write to the ledger: {_said(error)}") from None

    def _was_kept(self) -> bool:
        """Whether the transaction whose commit was not answered is kept: asked over a new connection."""
        self._failed = (-_PAUSE_S, "")
        try:
            sql = "SELECT pg_xact_status(%s::text::xid8) AS status"
            found = self._connected().execute(sql, (self._xid,)).fetchone()
        except (UnusableError, psycopg.Error):
            return False  # not known: what it began is looked after as if it were
        return found is not None and found["status"] == "committed"

    def rows(self, sql: str, values: Row | None = None) -> list[Row]:
        """See ``Store``. A server that is away: UnusableError."""
        try:
            return cast(list[Row], self._execute(sql, values).fetchall())
        except _WRONG as error:
            raise UnusableError(f"cannot read the ledger: {_said(error)}") from None

    def change(self, sql: str, values: Row | None = None) -> int:
        """See ``Store``."""
        try:
            return self._execute(sql, values).rowcount
        except _WRONG as error:
            raise UnusableError(f"cannot write to the ledger: {_said(error)}") from None

    def close(self) -> None:
        """Let go of the connection."""
        if self._base is not None:
            self._base.close()

    def _execute(self, sql: str, values: Row | None) -> "psycopg.Cursor[dict[str, Any]]":
        base = self._base if self._depth else self._connected()
        if base is None or base.closed:
            raise UnusableError(f"the connection to {self.where} is lost")
        return base.execute(_translated(sql).encode(), values or {})

    def _connected(self) -> Connection:
        if self._base is not None and not self._base.closed:
            return self._base
        failed_at, why = self._failed
        if time.monotonic() - failed_at < _PAUSE_S:
            raise UnusableError(why)
        try:
            self._base = self._made()
        except (psycopg.Error, OSError) as error:
            why = f"cannot reach the ledger at {self.where}: {_said(error)}"
            self._failed = (time.monotonic(), why)
            raise UnusableError(why) from None
        if self._is_known:
            self._need_known()
        return self._base

    def _need_known(self) -> None:
        """Raise UnusableError where a later program has changed the tables meanwhile."""
        base, known = self._base, len(schema.VERSIONS)
        try:
            if (found := self._version()) != known:
                raise UnusableError(
                    f"the ledger is of version {found}, and this program knows version {known}"
                )
        except BaseException:
            if base is not None:
                base.close()
            raise

    def _made(self) -> Connection:
        options = " ".join(f"-c {name}={seconds}s" for name, seconds in _BOUNDS.items())
        known = psycopg.conninfo.conninfo_to_dict(self._url)
        more: dict[str, Any] = {"connect_timeout": _CONNECT_S, "tcp_user_timeout": _WAIT_S * 1000}
        more |= {"application_name": "handler", "client_encoding": "utf8"}
        if password := self._password():
            more["password"] = password
        more |= {name: value for name, value in _sealed_line(known).items() if name not in known}
        more["options"] = f"{known.get('options', '')} {options}".strip()
        base = Connection.connect(self._url, autocommit=True, row_factory=dict_row, **more)
        try:
            base.execute(_DURABLE)
        except BaseException:
            base.close()
            raise
        return base

    def _migrate(self) -> None:
        known, found = len(schema.VERSIONS), self._version()
        if self._only_read and not found:
            raise UnbegunError("nothing was ever kept in the ledger")
        if found > known or (self._only_read and found < known):
            raise UnusableError(f"the ledger is of version {found}, and this program knows version {known}")
        if found == known:
            return
        with self.transaction():
            found = self._version()  # again: another machine may have been faster
            if not found:
                self.change("CREATE TABLE ledger_version (version BIGINT NOT NULL)")
                self.change("INSERT INTO ledger_version (version) VALUES (0)")
            for version in range(found, known):
                for one in schema.statements(version, _WORDS):
                    self.change(one)
            self.change("UPDATE ledger_version SET version = :known", {"known": known})

    def _version(self) -> int:
        if not self.rows("SELECT to_regclass('ledger_version') IS NOT NULL AS there")[0]["there"]:
            return 0
        found = self.rows("SELECT version FROM ledger_version")
        if len(found) != 1:
            raise UnusableError(f"cannot use the ledger at {self.where}: its table ledger_version is damaged")
        return int(found[0]["version"])


class _LateError(psycopg.OperationalError):
    """The server said nothing in time."""


def _bounded(gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """What is asked of a server, until it is over or late: psycopg looks in ten times a second."""
    until = time.monotonic() + _ANSWER_S
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > until:
                raise _LateError(f"the server has said nothing for {_ANSWER_S} s")
            wanted = gen.send(ready)
    except StopIteration as done:
        return done.value


def _sealed_line(known: dict[str, Any]) -> dict[str, str]:
    """How a server is spoken to that is not on this machine, where the address does not say it: by TLS, and
    with a certificate that this machine's authorities vouch for.
    """
    host = str(known.get("host") or known.get("hostaddr") or "")
    if known.get("sslmode", "verify-full") != "verify-full":  # libpq refuses "system" with less
        return {}
    if not host or host.startswith(("/", "127.")) or host in ("localhost", "::1"):
        return {}
    return {"sslmode": "verify-full", "sslrootcert": "system"}


@lru_cache(maxsize=256)
def _translated(sql: str) -> str:
    """A statement with this engine's marks for values."""
    return _NAMED.sub(r"%(\1)s", sql)


def _said(error: Exception) -> str:
    """An engine's words, in one line."""
    return " ".join(str(error).split()) or type(error).__name__
