"""The ledger over a real file: what it keeps, whom it refuses, and what a broken machine does to it."""

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.attempts import holding, identities, machine, retention, rows, schema, sessionleases
from reconciler.attempts.happenings import (
    Accepted,
    CancelAsked,
    Checked,
    Failed,
    Ground,
    Late,
    Lost,
    Refused,
    Seen,
    Settled,
    Submit,
    Succeeded,
)
from reconciler.attempts.holdings import (
    Decision,
    NoRoomError,
    NotAllowedError,
    Reserve,
    SessionLease,
    Tally,
)
from reconciler.attempts.ledger import LEASE_S, ConflictError, Ledger, OvertakenError
from reconciler.attempts.papers import Papers, TooLargeError
from reconciler.attempts.records import Idempotency, Owner, Request, State
from reconciler.attempts.store import SqliteStore, UnusableError
from tests.attempts.wishes import NOW, new


@pytest.fixture
def file_ledger(tmp_path: Path) -> Iterator[Ledger]:
    one = Ledger.at(tmp_path)
    yield one
    one.close()


def test_an_attempt_comes_back_as_it_was_kept_and_its_history_says_how(ledger: Ledger) -> None:
    made = ledger.prepare(new(1, idempotency=Idempotency("k", "client-key")), NOW)
    one = ledger.apply(made.attempt, NOW + 1, Submit())
    one = ledger.apply(one, NOW + 2, Accepted("job-1", "req-1"), Seen("queued", 0.25), actor="relay")
    one = ledger.apply(one, NOW + 3, Succeeded("r", "sha256:d", 12, {"seconds": 3}, warnings=("slow",)))
    assert ledger.get(one.id) == one
    assert ledger.by_handle(one.handle, "max") == one
    older = rows.row(one)  # of a release that kept more of a request
    older["request"] = older["request"].replace("{", '{"data_class":"","policy_digest":"",', 1)
    assert rows.attempt(older) == one
    assert [(e.what, e.dst) for e in ledger.history(one.id)] == [
        ("Prepared", "prepared"), ("Submit", "submitting"), ("Accepted", "accepted"), ("Seen", "running"),
        ("Succeeded", "succeeded"),
    ]  # fmt: skip
    assert ledger.history(one.id)[2].evidence == {"job_id": "job-1", "request_id": "req-1"}
    assert one.entered[State.SUBMITTING] == NOW + 1


def test_a_handle_is_worthless_to_another_agent(ledger: Ledger) -> None:
    one = ledger.prepare(new(), NOW).attempt
    assert ledger.by_handle(one.handle, "eva") is None


def test_the_same_key_finds_its_row_and_another_request_under_it_conflicts(ledger: Ledger) -> None:
    first = ledger.prepare(new(1, call_key="key:a"), NOW)
    assert ledger.prepare(new(1, call_key="key:a"), NOW).how == "known"
    assert ledger.prepare(new(1, call_key="key:a"), NOW).attempt == first.attempt
    with pytest.raises(ConflictError):
        ledger.prepare(new(2, call_key="key:a"), NOW)


def test_report_14_the_same_wish_of_a_session_finds_the_attempt_that_is_under_way(ledger: Ledger) -> None:
    """ext-tasks#11: a lost handle is found again; another session, and a wish after the end, are new ones."""
    first = ledger.prepare(new(1), NOW).attempt
    assert ledger.prepare(new(1), NOW).how == "duplicate"
    assert ledger.prepare(new(1), NOW, guard=False).how == "made"
    assert ledger.prepare(new(1, owner=Owner("max", "s2")), NOW).how == "made"
    assert [one.id for one in ledger.listing(agent="max")].count(first.id) == 1
    done = ledger.apply(ledger.apply(first, NOW, Submit()), NOW, Accepted(), Succeeded())
    assert done.is_over
    twins = [one for one in ledger.listing(only_open=True) if one.owner.session == "s1"]
    for one in twins:
        ledger.ask_cancel(one.id, "max", NOW)
    assert ledger.prepare(new(1), NOW).how == "made"


def test_report_8_and_9_what_is_over_absorbs_and_a_stale_reader_changes_nothing(ledger: Ledger) -> None:
    """n8n#23807, river#1302: the row was completed between a relay's read and its write."""
    sent = ledger.apply(ledger.prepare(new(), NOW).attempt, NOW, Submit())
    snapshot = ledger.get(sent.id)
    assert snapshot is not None
    ledger.apply(sent, NOW, Accepted(), Succeeded())
    with pytest.raises(OvertakenError) as caught:
        ledger.apply(snapshot, NOW, Lost("rescued"))
    assert caught.value.now is not None
    assert caught.value.now.state is State.SUCCEEDED
    late = ledger.apply(caught.value.now, NOW, Late("failed"))
    assert late.state is State.SUCCEEDED


def test_report_5_a_stopped_owner_is_fenced_off_when_it_wakes(ledger: Ledger) -> None:
    """saq#127: the sweep took its row while its code still ran."""
    mine = ledger.apply(ledger.prepare(new(lease_until=NOW + LEASE_S), NOW).attempt, NOW, Submit())
    assert ledger.claim("relay", NOW + 10) == []
    (taken,) = ledger.claim("relay", NOW + LEASE_S + 1)
    assert (taken.fence, taken.holder) == (2, "relay")
    with pytest.raises(OvertakenError):
        ledger.apply(mine, NOW + LEASE_S + 2, Accepted(), Succeeded())
    assert ledger.renew([mine], NOW + LEASE_S + 2) == set()


def test_reports_4_and_7_a_renewed_lease_is_respected_however_long_it_runs(ledger: Ledger) -> None:
    """pretix#2058, dbos-transact-java#491: a job ran for longer than its lease, and was run again."""
    one = ledger.apply(ledger.prepare(new(lease_until=NOW + LEASE_S), NOW).attempt, NOW, Submit())
    for passed in range(10, 4 * 3600, 600):
        ledger.renew([one], NOW + passed)
        assert ledger.claim("relay", NOW + passed + LEASE_S - 1) == []
    assert ledger.apply(one, NOW + 4 * 3600, Accepted(), Succeeded()).transmissions == 1


def test_an_agents_wish_to_cancel_does_not_overtake_the_owner(ledger: Ledger) -> None:
    mine = ledger.apply(ledger.prepare(new(), NOW).attempt, NOW, Submit())
    ledger.ask_cancel(mine.id, "max", NOW)
    done = ledger.apply(mine, NOW, Accepted(), Succeeded())
    assert (done.state, done.cancel.by) == (State.SUCCEEDED, "max")


def test_two_repetitions_of_one_snapshot_send_once(ledger: Ledger) -> None:
    """A version alone is no guard where SUBMITTING follows SUBMITTING."""
    key = Idempotency("k", "client-key")
    seen = ledger.apply(ledger.prepare(new(idempotency=key), NOW).attempt, NOW, Submit())
    ledger.apply(seen, NOW, Submit(Ground.CLIENT_KEY))
    with pytest.raises(OvertakenError):
        ledger.apply(seen, NOW, Submit(Ground.CLIENT_KEY))


@pytest.mark.parametrize("jump_s", [-10 * 86_400, 10 * 86_400])
def test_a_clock_that_jumped_leaves_no_row_behind(ledger: Ledger, jump_s: float) -> None:
    wrong = NOW + jump_s
    one = ledger.apply(ledger.prepare(new(lease_until=wrong + LEASE_S), wrong).attempt, wrong, Submit())
    ledger.renew([one], wrong)
    (taken,) = ledger.claim("relay", NOW + 120)
    assert taken.id == one.id


def test_orphans_are_taken_at_once_by_whoever_holds_the_lock(ledger: Ledger) -> None:
    ledger.prepare(new(lease_until=NOW + LEASE_S, holder="dead"), NOW)
    ledger.prepare(new(2, lease_until=NOW + LEASE_S, holder="alive"), NOW)
    assert [one.request.input_digest for one in ledger.claim("alive", NOW, orphans=True)] == ["sha256:0"]


def test_a_row_that_cannot_be_read_stops_no_page(ledger: Ledger) -> None:
    bad, good = ledger.prepare(new(1), NOW).attempt, ledger.prepare(new(2), NOW).attempt
    ledger.store.change("UPDATE attempt SET provider = 'rubbish' WHERE id = :id", {"id": bad.id})
    assert [one.id for one in ledger.claim("relay", NOW + 60)] == [good.id]
    assert ledger.claim("relay", NOW + 70) == []


def _decision(one: str, **fields: object) -> Decision:
    return replace(Decision("d1", "allow", "sha256:w", NOW, NOW + 60, one), **fields)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ""),
        ({"verdict": "deny"}, "deny"),
        ({"verdict": "ask"}, "ask"),
        ({"wire_digest": "sha256:other"}, "other bytes"),
        ({"expires_at": NOW - 1}, "expired"),
        ({"uses_left": 0}, "used up"),
        ({"attempt": "another"}, "no such decision"),
    ],
)
def test_a_transmission_uses_up_a_decision_on_its_own_bytes(
    ledger: Ledger, fields: dict[str, object], words: str
) -> None:
    one = ledger.prepare(new(request=Request("sha256:0", wire_digest="sha256:w")), NOW).attempt
    holding.decide(ledger.store, _decision(one.id, **fields))
    if words:
        with pytest.raises(NotAllowedError, match=words):
            ledger.apply(one, NOW, Submit(decision="d1"))
        assert ledger.get(one.id) == one
        return
    sent = ledger.apply(one, NOW, Submit(decision="d1"))
    assert sent.decisions == ("d1",)
    with pytest.raises(NotAllowedError):
        holding.spend(ledger.store, _decision(one.id), "sha256:w", NOW)


def test_a_reservation_comes_back_at_the_end_and_is_kept_while_nobody_knows(ledger: Ledger) -> None:
    gpu = (Reserve("gpu", 1, 1),)
    first = ledger.prepare(new(1), NOW, gpu).attempt
    with pytest.raises(NoRoomError, match="gpu"):
        ledger.prepare(new(2), NOW, gpu)
    lost = ledger.apply(ledger.apply(first, NOW, Submit()), NOW, Lost("no answer", parked=True))
    assert holding.held(ledger.store, "gpu") == 1
    settled = ledger.apply(lost, NOW, Settled(State.FAILED, "max", "asked their desk"), actor="max")
    assert settled.ended.cause == "settled by max: asked their desk"
    assert holding.held(ledger.store, "gpu") == 0
    assert ledger.prepare(new(2), NOW, gpu).how == "made"


@pytest.mark.parametrize(
    ("end", "spent"),
    [
        ((Accepted(), Succeeded(cost=700)), 700),
        ((Accepted(), Succeeded()), 1000),
        ((Refused("limit"),), 0),
        ((Accepted(), Failed("unavailable", effect="happened")), 1000),
    ],
)
def test_money_is_reserved_by_estimate_and_spent_by_what_it_did_cost(
    ledger: Ledger, end: tuple[machine.Happening, ...], spent: int
) -> None:
    budget = (Reserve("budget:mail:2027-01-15", 1000, 5000, "spend"),)
    one = ledger.apply(ledger.prepare(new(), NOW, budget).attempt, NOW, Submit())
    ledger.apply(one, NOW, *end)
    assert holding.held(ledger.store, "budget:mail:2027-01-15") == spent


def test_what_is_open_is_counted_by_binding(ledger: Ledger) -> None:
    ledger.prepare(new(1), NOW)
    ledger.apply(ledger.apply(ledger.prepare(new(2), NOW).attempt, NOW, Submit()), NOW, Lost("x"))
    over = ledger.apply(ledger.prepare(new(3), NOW).attempt, NOW, Submit())
    ledger.apply(over, NOW, Accepted(), Succeeded())
    assert ledger.tallies() == {"mail": Tally(2, 1)}


def test_a_session_taken_over_has_a_higher_epoch_and_a_living_owner_keeps_it(ledger: Ledger) -> None:
    def take(owner: str, now: float) -> SessionLease:
        with ledger.store.transaction():
            return sessionleases.open_session(
                ledger.store, SessionLease("voice", "b", 0, owner, now + 30), now
            )

    assert take("first", NOW).epoch == 1
    with pytest.raises(NoRoomError):
        take("second", NOW + 10)
    assert take("second", NOW + 31).epoch == 2


def test_the_folder_and_its_files_are_their_owners_alone(tmp_path: Path) -> None:
    os.umask(os.umask(0o022))
    ledger = Ledger.at(tmp_path)
    ledger.papers.keep("results", "ab", (b"x",))
    ledger.prepare(new(), NOW)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    ledger.close()
    assert modes["ledger.db"] == modes["ledger.db-wal"] == modes["ab"] == 0o600
    assert modes["attempts"] == modes["results"] == modes["sealed"] == 0o700


def test_a_paper_is_whole_or_not_there(tmp_path: Path) -> None:
    papers = Papers(tmp_path / "p")

    def breaks() -> Iterator[bytes]:
        yield b"half"
        raise OSError("the line broke")

    with pytest.raises(OSError, match="broke"):
        papers.keep("results", "ab", breaks())
    with pytest.raises(TooLargeError):
        papers.keep("results", "ab", (b"12345",), 4)
    assert list(papers.listing("results")) == []
    with pytest.raises(ValueError, match="no paper's name"):
        papers.path("results", "../ledger.db")


def test_an_attempt_without_its_sealed_request_is_not_prepared(ledger: Ledger) -> None:
    with pytest.raises(machine.ForbiddenError, match="sealed request"):
        ledger.prepare(new(request=Request("sha256:0", sealed_ref="ab")), NOW)
    assert ledger.listing() == []


def test_a_ledger_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    Ledger.at(tmp_path).close()
    with sqlite3.connect(tmp_path / "ledger.db") as base:
        base.execute("PRAGMA user_version = 99")
    base.close()
    with pytest.raises(UnusableError, match="version 99"):
        Ledger.at(tmp_path)


def test_a_reader_beside_a_writer_sees_what_is_kept_and_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(UnusableError):
        SqliteStore(tmp_path / "ledger.db", only_read=True)
    ledger = Ledger.at(tmp_path)
    one = ledger.prepare(new(), NOW).attempt
    reader = Ledger(SqliteStore(tmp_path / "ledger.db", only_read=True), ledger.papers)
    assert reader.listing() == [one]
    with pytest.raises(UnusableError):
        reader.prepare(new(2), NOW)
    reader.close()
    ledger.close()


def test_a_locked_ledger_refuses_and_nothing_is_kept(file_ledger: Ledger, tmp_path: Path) -> None:
    ledger = file_ledger
    ledger.store.rows("PRAGMA busy_timeout = 50")
    other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(UnusableError, match="locked"):
        ledger.prepare(new(), NOW)
    other.execute("ROLLBACK")
    other.close()
    assert ledger.listing() == []


def _on_a_full_disk(ledger: Ledger, room: int, act: Callable[[], object]) -> None:
    """Do it where no file of ours may grow past what is there plus ``room``."""
    path = Path(ledger.store.rows("PRAGMA database_list")[0]["file"] + "-wal")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + room, before[1]))
    try:
        act()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, old)


@pytest.mark.parametrize("room", [0, 100, 4096, 9000])
def test_on_a_full_disk_each_write_is_refused_whole_and_works_when_there_is_room(
    file_ledger: Ledger, room: int
) -> None:
    ledger = file_ledger
    sent = ledger.apply(ledger.prepare(new(1), NOW).attempt, NOW, Submit())

    def fill() -> None:
        for number in range(2, 200):
            ledger.prepare(new(number), NOW)

    def accept() -> None:
        with pytest.raises(UnusableError, match="cannot write"):
            fill()
        with pytest.raises(UnusableError, match="cannot write"):
            ledger.apply(sent, NOW, Accepted("job"))

    _on_a_full_disk(ledger, room, accept)
    assert ledger.get(sent.id) == sent  # as it was: it will be looked up
    assert ledger.store.rows("PRAGMA integrity_check")[0]["integrity_check"] == "ok"
    assert ledger.apply(sent, NOW, Accepted("job")).state is State.ACCEPTED


_MIGRATE = """
import os, signal, sys
from pathlib import Path
from reconciler.attempts import schema, store
texts, left = schema.statements, int(sys.argv[2])
class Dying(tuple):
    def __iter__(self):
        for number, one in enumerate(tuple.__iter__(self)):
            if number == left:
                os.kill(os.getpid(), signal.SIGKILL)
            yield one
schema.statements = lambda *a: Dying(texts(*a))
store.SqliteStore(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("after", [1, 9])
def test_a_kill_during_a_migration_leaves_the_old_ledger(tmp_path: Path, after: int) -> None:
    path = tmp_path / "ledger.db"
    died = subprocess.run([sys.executable, "-c", _MIGRATE, path, str(after)], check=False, timeout=60)
    assert died.returncode == -signal.SIGKILL
    with sqlite3.connect(path) as base:
        assert base.execute("SELECT name FROM sqlite_master").fetchall() == []
    base.close()
    ledger = Ledger.at(tmp_path)
    assert ledger.prepare(new(), NOW).how == "made"
    ledger.close()


_RACE = """
import sys
from pathlib import Path
from reconciler.attempts.happenings import Submit
from reconciler.attempts.ledger import OvertakenError
from tests.kit.ledgers import opened
ledger = opened(Path(sys.argv[1]))
rows = ledger.listing(5000)
sys.stdout.write("ready\\n"); sys.stdout.flush(); sys.stdin.readline()
won = 0
for one in rows:
    try:
        ledger.apply(one, one.next_check_at, Submit())
        won += 1
    except OvertakenError:
        pass
print(won)
"""


@pytest.mark.slow
def test_eight_processes_race_over_three_hundred_attempts_and_each_is_won_once(
    ledger: Ledger, tmp_path: Path
) -> None:
    with ledger.store.transaction():
        for number in range(300):
            ledger.prepare(new(number), NOW)
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", _RACE, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(8)
    ]
    for one in racers:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    won = [int(one.communicate("go\n", timeout=100)[0]) for one in racers]
    assert sum(won) == 300
    assert {one.transmissions for one in ledger.listing(5000)} == {1}


def test_retention_takes_what_is_old_and_over_and_never_what_is_unknown(ledger: Ledger) -> None:
    day = machine.DAY_S

    def done(number: int, at: float) -> str:
        one = ledger.apply(ledger.prepare(new(number), at).attempt, at, Submit())
        digest, size = ledger.papers.keep("results", one.id, (b"film",))
        return ledger.apply(one, at, Accepted(), Succeeded(one.id, digest, size)).id

    old, week, fresh = done(1, NOW - 31 * day), done(2, NOW - 8 * day), done(3, NOW)
    lost = ledger.apply(ledger.prepare(new(4), NOW - 99 * day).attempt, NOW - 99 * day, Submit())
    ledger.apply(lost, NOW - 99 * day, Lost("no answer", parked=True))
    ledger.papers.keep("sealed", "ab", (b"whose?",))
    stray = ledger.papers.path("sealed", "ab")
    os.utime(stray, (NOW - 2 * day, NOW - 2 * day))
    planned = retention.prune(ledger, NOW, dry_run=True)
    assert len(ledger.listing()) == 4
    assert stray.exists()
    gone = retention.prune(ledger, NOW, dry_run=False)
    assert gone == planned
    assert gone.attempts == (old,)
    assert sorted(gone.papers) == sorted([f"results/{old}", f"results/{week}", "sealed/ab"])
    assert {one.id for one in ledger.listing()} == {week, fresh, lost.id}
    assert ledger.papers.has("results", fresh)
    assert ledger.history(old) == []


def test_what_a_far_end_remembers_for_long_keeps_nothing_else(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "PAGE", 4)
    long_ago = NOW - 90 * machine.DAY_S

    def over(number: int, at: float, remembered: float) -> str:
        known = Idempotency("k", "client-key", remembered)
        one = ledger.prepare(new(number, idempotency=known), at).attempt
        return ledger.apply(one, at, CancelAsked("ada")).id

    pinned = [over(number, long_ago, NOW + 1) for number in range(9)]
    free = [over(number + 20, long_ago + 1, 0.0) for number in range(6)]
    ledger.store.change("UPDATE attempt SET provider = '?' WHERE id = :id", {"id": pinned[0]})
    assert len(retention.prune(ledger, NOW, dry_run=False, at_once=4).attempts) == 4
    assert len(retention.prune(ledger, NOW, dry_run=False, at_once=4).attempts) == 2
    assert retention.prune(ledger, NOW, dry_run=False, at_once=4).attempts == ()
    assert {one.id for one in ledger.listing()} == set(pinned[1:])
    assert not set(free) & {one.id for one in ledger.listing()}


@given(st.floats(0, 4e12), st.binary(min_size=10, max_size=10), st.binary(min_size=16, max_size=16))
def test_identities_have_their_forms(now: float, chance: bytes, more: bytes) -> None:
    made = identities.attempt_id(now, chance)
    assert (made[14], made[19] in "89ab", len(made)) == ("7", True, 36)
    assert len(identities.handle(more)) == 32


def test_an_idempotency_key_changes_with_everything_that_it_stands_for() -> None:
    to = identities.Destination("sha256:p", "create", "https://api.example:443")
    named = ("scope", "key:a", 0)
    key = identities.idem_key("install", named, "sha256:r", to)
    assert len(key) == identities.IDEM_KEY_CHARS
    assert key == identities.idem_key("install", named, "sha256:r", to)
    others = {
        identities.idem_key("other", named, "sha256:r", to),
        identities.idem_key("install", ("other", "key:a", 0), "sha256:r", to),
        identities.idem_key("install", ("scope", "key:b", 0), "sha256:r", to),
        identities.idem_key("install", ("scope", "key:a", 1), "sha256:r", to),
        identities.idem_key("install", named, "sha256:s", to),
        *(
            identities.idem_key("install", named, "sha256:r", replace(to, **{name: "x"}))
            for name in ("profile_digest", "operation", "origin")
        ),
    }
    assert len(others | {key}) == 9


def test_a_digest_is_of_the_content_and_refuses_what_has_no_one_form() -> None:
    first = identities.input_digest("t", {"a": 1, "b": "x"}, [("f", "1"), ("e", "2")])
    assert first == identities.input_digest("t", {"b": "x", "a": 1}, [("e", "2"), ("f", "1")])
    for bad in ({"a": float("nan")}, {"a": 2**53}, {"a": "\ud800"}):
        with pytest.raises(ValueError, match="cannot digest"):
            identities.digest(bad)


def test_half_a_character_is_refused_in_words(ledger: Ledger) -> None:
    with pytest.raises(UnusableError, match="cannot write"):
        ledger.fact("name", "\ud800")
    assert ledger.fact("name", "whole") == "whole"


def test_every_column_is_named_once() -> None:
    assert sorted(rows.FIXED + rows.MOVING) == sorted(rows.row(new()))
    assert len(schema.VERSIONS) == 1


def test_checks_and_pauses_are_kept(ledger: Ledger) -> None:
    one = ledger.apply(ledger.prepare(new(), NOW).attempt, NOW, Submit())
    one = ledger.apply(one, NOW, Checked(7.0, "busy"))
    assert (one.checks, one.next_check_at) == (1, NOW + 7)
    assert ledger.claim("relay", NOW + 6) == []
    with pytest.raises(machine.ForbiddenError):
        ledger.apply(one, NOW, CancelAsked("max"), Submit(Ground.CLIENT_KEY))
    assert ledger.get(one.id) == one


_OWNER = """
import sys
from pathlib import Path
from reconciler.attempts.happenings import Accepted, Submit, Succeeded
from reconciler.attempts.ledger import LEASE_S, OvertakenError
from tests.attempts.wishes import NOW, new
from tests.kit.ledgers import opened
ledger = opened(Path(sys.argv[1]))
mine = ledger.apply(ledger.prepare(new(lease_until=NOW + LEASE_S), NOW).attempt, NOW, Submit())
print("sent", flush=True)
sys.stdin.readline()
try:
    ledger.apply(mine, NOW + 1, Accepted(), Succeeded())
    print("kept")
except OvertakenError as error:
    print("overtaken", error.now.state, error.now.fence)
"""


def test_report_5_an_owner_that_was_stopped_and_goes_on_changes_nothing(
    ledger: Ledger, tmp_path: Path
) -> None:
    """saq#126: SIGSTOP, a takeover, SIGCONT: by a real process."""
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "sent\n"
        owner.send_signal(signal.SIGSTOP)
        (taken,) = ledger.claim("relay", NOW + LEASE_S + 1)
        ledger.apply(taken, NOW + LEASE_S + 1, Lost("its owner is silent"))
        owner.send_signal(signal.SIGCONT)
        assert owner.communicate("go on\n", timeout=60)[0] == "overtaken indeterminate 2\n"
    assert [one.state for one in ledger.listing()] == [State.INDETERMINATE]
