"""What only a ledger in PostgreSQL has to stand: a server that goes away, sessions that stop, other homes.

The contract itself is ``test_ledger``'s: `make flows-postgres` holds both engines to all of it.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest

from reconciler.attempts import postgres
from reconciler.attempts.happenings import Accepted, CancelAsked, Submit, Succeeded
from reconciler.attempts.ledger import LEASE_S, Ledger, OvertakenError
from reconciler.attempts.papers import Papers
from reconciler.attempts.postgres import PostgresStore
from reconciler.attempts.records import State
from reconciler.attempts.store import UnbegunError, UnusableError
from reconciler.control.ledgers import Ledgers
from reconciler.model.settings import Ledger as Wanted
from tests.attempts.wishes import NOW, new
from tests.kit.postgres import PASSWORD, Server

pytestmark = pytest.mark.slow


class Bench:
    """Ledgers of one schema, as different machines have them."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server, self.folder, self.url = server, folder, server.url()
        self.opened: list[Ledger] = []

    def ledger(self, home: str = "", **more: bool) -> Ledger:
        papers = self.folder / (home or "papers").strip("/")
        one = Ledger(PostgresStore(self.url, lambda: "", **more), Papers(papers), home)
        self.opened.append(one)
        return one


@pytest.fixture
def bench(server: Server, tmp_path: Path) -> Iterator[Bench]:
    one = Bench(server, tmp_path)
    yield one
    for ledger in one.opened:
        ledger.close()


def test_racing_machines_win_each_attempt_once(bench: Bench) -> None:
    first = bench.ledger()
    with first.store.transaction():
        rows = [first.prepare(new(number), NOW).attempt for number in range(40)]
    won: list[str] = []

    def race(ledger: Ledger) -> None:
        for one in rows:
            try:
                won.append(ledger.apply(one, NOW, Submit()).id)
            except OvertakenError:
                continue

    racers = [threading.Thread(target=race, args=(bench.ledger(),)) for _ in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(100)
    assert sorted(won) == sorted(one.id for one in rows)
    assert {one.transmissions for one in first.listing()} == {1}


def test_a_server_that_is_killed_refuses_in_words_and_loses_nothing(bench: Bench) -> None:
    ledger = bench.ledger()
    sent = ledger.apply(ledger.prepare(new(), NOW).attempt, NOW, Submit())
    bench.server.kill()
    try:
        with pytest.raises(UnusableError, match="cannot write to the ledger"):
            ledger.apply(sent, NOW, Accepted("job"))
        with pytest.raises(UnusableError, match="cannot reach the ledger at postgresql://"):
            ledger.listing()
        began = time.monotonic()
        for _ in range(20):  # it is not asked for by each of many who wait
            with pytest.raises(UnusableError):
                ledger.prepare(new(2), NOW)
        assert time.monotonic() - began < 10 * postgres._PAUSE_S
    finally:
        bench.server.start()
    deadline = time.monotonic() + 30
    while True:
        try:
            assert ledger.apply(sent, NOW, Accepted("job")).state is State.ACCEPTED
            break
        except UnusableError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert [one.id for one in ledger.listing()] == [sent.id]


def test_a_commit_that_was_not_answered_is_asked_after(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server kept it, and the line broke before it could say so."""
    ledger = bench.ledger()
    store = ledger.store
    assert isinstance(store, PostgresStore)
    execute = psycopg.Connection.execute

    def lost(self: psycopg.Connection, query: object, *more: object, **named: object) -> object:
        done = execute(self, query, *more, **named)  # type: ignore[arg-type]
        if query == "COMMIT" and not broken:
            broken.append(self)
            self.close()
            raise psycopg.OperationalError("the line broke")
        return done

    broken: list[object] = []
    monkeypatch.setattr(psycopg.Connection, "execute", lost)
    one = ledger.prepare(new(1), NOW).attempt
    assert broken
    assert ledger.get(one.id) == one

    def before(self: psycopg.Connection, query: object, *more: object, **named: object) -> object:
        if query == "COMMIT":
            self.close()
        return execute(self, query, *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(psycopg.Connection, "execute", before)
    with pytest.raises(UnusableError):
        ledger.prepare(new(2), NOW)
    monkeypatch.setattr(psycopg.Connection, "execute", execute)
    assert [found.id for found in ledger.listing()] == [one.id]


def test_who_is_stopped_inside_a_transaction_keeps_no_other_out(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(postgres._BOUNDS, "idle_in_transaction_session_timeout", 1)
    stopped, other = bench.ledger(), bench.ledger()
    transaction = stopped.store.transaction()
    transaction.__enter__()
    stopped.prepare(new(1), NOW)
    assert other.prepare(new(2), NOW).how == "made"  # after that second
    with pytest.raises(UnusableError):
        transaction.__exit__(None, None, None)
    assert [one.request.input_digest for one in other.listing()] == ["sha256:2"]
    monkeypatch.setitem(postgres._BOUNDS, "lock_timeout", 1)
    monkeypatch.setitem(postgres._BOUNDS, "idle_in_transaction_session_timeout", 60)
    other, third = bench.ledger(), bench.ledger()
    with other.store.transaction(), pytest.raises(UnusableError, match="lock timeout"):
        third.prepare(new(3), NOW)


def test_each_home_looks_after_its_own_and_after_calls_whose_witness_is_gone(bench: Bench) -> None:
    """What waits to be sent needs its sealed request, which lies at its home."""
    one, two = bench.ledger("one/"), bench.ledger("two/")
    later = {"lease_until": NOW + LEASE_S}
    call = one.prepare(new(1, holder="one/a", **later), NOW).attempt
    job = one.prepare(new(2, holder="one/a", kind="job", grade="wire"), NOW).attempt
    assert two.claim("two/b", NOW, orphans=True) == []
    assert two.claim("two/b", NOW + 10) == []
    assert [found.id for found in two.claim("two/b", NOW + LEASE_S + 1)] == [call.id]
    assert [found.id for found in one.claim("one/c", NOW, orphans=True)] == [job.id]


def test_a_clock_that_is_far_off_takes_nothing_of_another_home(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = bench.ledger("one/"), bench.ledger("two/")
    one.prepare(new(1, holder="one/a", lease_until=NOW + LEASE_S), NOW)
    monkeypatch.setattr(two.store, "skew_s", lambda: -60.0)
    assert two.claim("two/b", NOW + 2 * LEASE_S) == []
    assert abs(one.store.skew_s()) < 5


def test_a_password_is_asked_for_at_each_connection_and_never_said(server: Server) -> None:
    url, told = server.loopback(server.schema()), ["wrong-horse-battery"]
    with pytest.raises(UnusableError, match="cannot reach the ledger") as caught:
        PostgresStore(url, lambda: told[0])
    assert "horse" not in str(caught.value)
    told[0] = PASSWORD
    store = PostgresStore(url, lambda: told[0])
    assert store._base is not None
    store._base.close()
    assert Ledger(store, Papers(server.folder / "papers")).listing() == []
    store.close()


def test_a_reader_makes_nothing_and_a_later_version_is_left_alone(bench: Bench) -> None:
    with pytest.raises(UnbegunError):
        bench.ledger(only_read=True)
    ledger = bench.ledger()
    one = ledger.apply(ledger.prepare(new(), NOW).attempt, NOW, Submit())
    one = ledger.apply(one, NOW, Accepted(), Succeeded())
    reader = bench.ledger(only_read=True)
    assert reader.listing() == [one]
    with pytest.raises(UnusableError, match="read-only"):
        reader.prepare(new(2), NOW)
    ledger.store.change("UPDATE ledger_version SET version = 99")
    with pytest.raises(UnusableError, match="version 99"):
        bench.ledger()
    assert isinstance(ledger.store, PostgresStore) and ledger.store._base is not None
    ledger.store._base.close()  # who comes back finds what others did meanwhile
    with pytest.raises(UnusableError, match="version 99"):
        ledger.prepare(new(3), NOW)
    with psycopg.connect(bench.url, autocommit=True) as base:
        base.execute("UPDATE ledger_version SET version = 1")
    assert ledger.prepare(new(3), NOW).how == "made"


def test_habits_of_a_role_do_not_hold_for_a_ledger(bench: Bench) -> None:
    with psycopg.connect(bench.server.plain(), autocommit=True) as base:
        base.execute("ALTER ROLE handler SET synchronous_commit = off")
        base.execute("ALTER ROLE handler SET default_transaction_isolation = 'serializable'")
        try:
            store = bench.ledger().store
        finally:
            base.execute("ALTER ROLE handler RESET ALL")
    with store.transaction():
        assert store.rows("SHOW synchronous_commit") == [{"synchronous_commit": "on"}]
        assert store.rows("SHOW transaction_isolation") == [{"transaction_isolation": "read committed"}]


def test_a_server_that_says_nothing_more_is_not_waited_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = bench.ledger()
    monkeypatch.setattr(postgres, "_ANSWER_S", 0.2)
    with pytest.raises(UnusableError, match="has said nothing"), ledger.store.transaction():
        ledger.store.rows("SELECT pg_sleep(1)")
    monkeypatch.undo()
    assert ledger.prepare(new(1), NOW).how == "made"


def test_a_transaction_that_an_error_has_undone_is_not_said_to_be_kept(bench: Bench) -> None:
    store = bench.ledger().store
    with pytest.raises(UnusableError, match="has undone"), store.transaction(), suppress(UnusableError):
        store.change("UPDATE nothing SET here = 1")


def test_tables_that_are_no_ledger_are_said_to_be_damaged(bench: Bench) -> None:
    bench.ledger().store.change("DELETE FROM ledger_version")
    with pytest.raises(UnusableError, match="damaged"):
        bench.ledger()


def test_another_machine_is_spoken_to_by_tls_alone_unless_the_address_says_otherwise() -> None:
    assert postgres._sealed_line({"host": "db.example"})["sslmode"] == "verify-full"
    assert postgres._sealed_line({"host": "db.example", "sslmode": "require"}) == {}
    for here in ({"host": "/run/postgresql"}, {"host": "127.0.0.1"}, {"host": "localhost"}, {}):
        assert postgres._sealed_line(here) == {}


def test_a_ledger_is_left_for_another_only_when_nothing_of_ours_is_open_in_it(
    server: Server, tmp_path: Path
) -> None:
    (tmp_path / "state").mkdir()
    ledgers, said = Ledgers(tmp_path / "state"), [Wanted(url=server.url())]
    ledgers.settings = lambda: said[0]
    first = ledgers.open()
    one = first.prepare(new(1, holder=f"{first.home}run"), NOW).attempt
    first.prepare(new(2, holder="elsewhere/run"), NOW)
    said[0] = Wanted(url=f"{said[0].url}&sslmode=disable")  # the same one by another address
    ledgers.open().close()
    said.insert(0, Wanted(url=server.url()))
    with pytest.raises(UnusableError, match="holds 1 that are not over"):
        ledgers.open()
    first.apply(one, NOW, CancelAsked("ada"))
    first.close()
    other = ledgers.open()
    assert (other.listing(), other.home, ledgers.used) == ([], first.home, said[0].url)
    other.close()
    said.insert(0, Wanted())
    ledgers.open().close()
    assert ledgers.file.is_file()
    assert ledgers.shared() is None


def test_a_ledger_that_only_reads_says_so_before_an_effect_is_refused(bench: Bench) -> None:
    def sealed(url: str) -> str:
        with closing(PostgresStore(url, lambda: "", only_read=True)) as store:
            return store.sealed()

    assert bench.ledger().store.sealed() == ""
    assert "only lets this role read" in sealed(f"{bench.url}%20-cdefault_transaction_read_only%3Don")
    schema = bench.url.rpartition("%3D")[2]
    with psycopg.connect(bench.url, autocommit=True) as base:
        base.execute("CREATE ROLE reader LOGIN")
        base.execute(f"GRANT USAGE ON SCHEMA {schema} TO reader")
        base.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader")
    assert "does not let this role write" in sealed(bench.url.replace("//handler@", "//reader@"))
