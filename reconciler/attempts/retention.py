"""How long the ledger keeps what is over: results a week, rows a month, what nobody knows for ever.

A row outlives whatever could still speak of it (the far end's key, its own retention), so that a late
duplicate meets its row. Papers that no row speaks of are what a kill left, and go after a day.
"""

import math
from dataclasses import dataclass

import orjson

from reconciler.attempts.ledger import Ledger
from reconciler.attempts.machine import DAY_S
from reconciler.attempts.papers import SHELVES, Shelf
from reconciler.attempts.records import Attempt, State
from reconciler.attempts.store import Row

_ROW_S = 30 * DAY_S
_RESULT_S = 7 * DAY_S
_COLLECTED_S = DAY_S  # after the agent has it
_STRAY_S = DAY_S  # a request is sealed before its row is made: seconds, and never a day
PAGE = 200  # rows in one look of a controller: nobody waits long for the writer
_ALL = 2**31


@dataclass(frozen=True, slots=True)
class Gone:
    """What went, or would go: ids of attempts, papers by shelf and name, how many decisions."""

    attempts: tuple[str, ...] = ()
    papers: tuple[str, ...] = ()
    decisions: int = 0


def prune(ledger: Ledger, now: float, *, dry_run: bool, at_once: int = _ALL) -> Gone:
    """Take away what is past its time (``at_once`` rows at most), or say what would go. Raises UnusableError
    and OSError.
    """
    with ledger.store.transaction():
        rows = _old_rows(ledger, now, at_once)
        papers = _old_papers(ledger, now, frozenset(rows))
        old = {"until": now - _ROW_S}
        which = "decided_at < :until AND (attempt = '' OR attempt NOT IN (SELECT id FROM attempt))"
        count = ledger.store.rows(f"SELECT COUNT(*) AS n FROM decision WHERE {which}", old)[0]["n"]  # noqa: S608
        if not dry_run:
            for one in rows:
                for table, column in _OF_AN_ATTEMPT:
                    ledger.store.change(f"DELETE FROM {table} WHERE {column} = :id", {"id": one})  # noqa: S608
            ledger.store.change(f"DELETE FROM decision WHERE {which}", old)  # noqa: S608
    if not dry_run:
        for shelf, ref in papers:
            ledger.papers.drop(shelf, ref)
    return Gone(rows, tuple(f"{shelf}/{ref}" for shelf, ref in papers), int(count))


def kept_until(one: Attempt) -> float:
    """Until when an attempt tells what came of it; 0.0 as long as nothing did."""
    if not one.is_over:
        return 0.0
    return _result_until(one) if one.state is State.SUCCEEDED else one.entered[one.state] + _ROW_S


def _result_until(one: Attempt) -> float:
    over_at, collected_at = one.entered[one.state], one.ended.collected_at
    return min(over_at + _RESULT_S, collected_at + _COLLECTED_S if collected_at else math.inf)


# What was spent stays spent as long as its row; then its day is long over.
_OF_AN_ATTEMPT = (
    ("event", "attempt"),
    ("reservation", "attempt"),
    ("decision", "attempt"),
    ("attempt", "id"),
)


def _old_rows(ledger: Ledger, now: float, at_once: int) -> tuple[str, ...]:
    """The oldest that nothing speaks of any more. Those that a far end still remembers, or that cannot be
    read, are passed over: however many they are, they keep no others.
    """
    sql = (
        "SELECT id, over_at, idempotency, provider FROM attempt WHERE over_at > 0 AND over_at < :until"
        " AND (over_at > :at OR (over_at = :at AND id > :id)) ORDER BY over_at, id LIMIT :n"
    )
    gone: list[str] = []
    values = {"until": now - _ROW_S, "at": 0.0, "id": "", "n": PAGE}
    while len(gone) < at_once and (page := ledger.store.rows(sql, values)):
        gone += [row["id"] for row in page if _remembered_until(row) < now]
        values |= {"at": page[-1]["over_at"], "id": page[-1]["id"]}
    return tuple(gone[:at_once])


def _remembered_until(row: Row) -> float:
    """Until when a far end may still speak of an attempt; for ever where the row cannot be read."""
    try:
        key, far = orjson.loads(row["idempotency"]), orjson.loads(row["provider"])
        return max(float(key["expires_at"]), float(far["job_expires_at"]), float(far["result_expires_at"]))
    except (ValueError, TypeError, KeyError):
        return math.inf


def _old_papers(ledger: Ledger, now: float, going: frozenset[str]) -> list[tuple[Shelf, str]]:
    gone: list[tuple[Shelf, str]] = []
    for shelf in SHELVES:
        for ref, seen in sorted(ledger.papers.listing(shelf)):
            if _is_done_with(ledger, (shelf, ref), (now, seen.st_mtime), going):
                gone.append((shelf, ref))
    return gone


def _is_done_with(
    ledger: Ledger, paper: tuple[Shelf, str], at: tuple[float, float], going: frozenset[str]
) -> bool:
    (shelf, ref), (now, written_at) = paper, at
    one = ledger.get(ref)  # papers bear the name of their attempt
    if one is None:
        return now - written_at > _STRAY_S
    if one.id in going:
        return True
    if not one.is_over:
        return False
    return shelf == "sealed" or now > _result_until(one)
