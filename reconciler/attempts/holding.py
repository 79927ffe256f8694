"""What attempts hold, as rows: decisions that are used up, units and money that are reserved.

Every function runs inside a transaction of its caller's, so that a state and what it holds move together.
Sums are always taken from the rows, never from memory.
"""

from collections.abc import Sequence

import orjson

from reconciler.attempts.holdings import Decision, NoRoomError, NotAllowedError, Reserve
from reconciler.attempts.records import Attempt, State
from reconciler.attempts.store import Row, Store


def decide(store: Store, decision: Decision) -> None:
    """Keep a decision. The same id again is a broken caller: the engine refuses it."""
    store.change(
        "INSERT INTO decision (id, attempt, transmission, verdict, wire_digest, rule, decided_at, expires_at,"
        " uses_left, used_at, basis) VALUES (:id, :attempt, :transmission, :verdict, :wire_digest, :rule,"
        " :decided_at, :expires_at, :uses_left, :used_at, :basis)",
        {
            "id": decision.id, "attempt": decision.attempt, "transmission": decision.transmission,
            "verdict": decision.verdict, "wire_digest": decision.wire_digest, "rule": decision.rule,
            "decided_at": decision.decided_at, "expires_at": decision.expires_at,
            "uses_left": decision.uses_left, "used_at": decision.used_at,
            "basis": orjson.dumps(decision.basis).decode(),
        },
    )  # fmt: skip


def decision(store: Store, decision_id: str) -> Decision | None:
    """The decision of an id."""
    found = store.rows("SELECT * FROM decision WHERE id = :id", {"id": decision_id})
    return _decision(found[0]) if found else None


def decisions(store: Store, attempt: str) -> list[Decision]:
    """Every decision of an attempt, in order."""
    sql = "SELECT * FROM decision WHERE attempt = :attempt ORDER BY decided_at, id"
    return [_decision(row) for row in store.rows(sql, {"attempt": attempt})]


def use(store: Store, decision_id: str, one: Attempt, now: float) -> None:
    """Use a decision up for the transmission that ``one`` is about to make. Raises NotAllowedError."""
    known = decision(store, decision_id)
    if known is None or known.attempt != one.id:
        raise NotAllowedError("there is no such decision for this attempt")
    spend(store, known, one.request.wire_digest, now)


def spend(store: Store, known: Decision, wire_digest: str, now: float) -> None:
    """Use a decision up for these bytes. Raises NotAllowedError."""
    if known.verdict != "allow":
        raise NotAllowedError(f"its decision is {known.verdict}")
    if known.wire_digest != wire_digest:
        raise NotAllowedError("its decision is on other bytes")
    sql = (
        "UPDATE decision SET uses_left = uses_left - 1, used_at = :now"
        " WHERE id = :id AND uses_left > 0 AND expires_at > :now"
    )
    if store.change(sql, {"id": known.id, "now": now}) != 1:
        raise NotAllowedError("its decision is used up or has expired")


def reserve(store: Store, one: Attempt, wanted: Sequence[Reserve], now: float) -> None:
    """Reserve all of it for an attempt. Raises NoRoomError: the caller's transaction keeps nothing then."""
    for want in wanted:
        if held(store, want.resource) + want.units > want.capacity:
            raise NoRoomError(want.resource)
        store.change(
            "INSERT INTO reservation (resource, units, attempt, fence, kind, acquired_at, released_at)"
            " VALUES (:resource, :units, :attempt, :fence, :kind, :now, 0)",
            {
                "resource": want.resource, "units": want.units, "attempt": one.id, "fence": one.fence,
                "kind": want.kind, "now": now,
            },
        )  # fmt: skip


def held(store: Store, resource: str) -> int:
    """How many units of a resource are held or spent."""
    sql = (
        "SELECT COALESCE(SUM(units), 0) AS n FROM reservation WHERE resource = :resource AND released_at = 0"
    )
    return int(store.rows(sql, {"resource": resource})[0]["n"])


def release(store: Store, one: Attempt, now: float) -> None:
    """Give back what an attempt that is over held; money stays spent, by what it did cost."""
    values: dict[str, object] = {"attempt": one.id, "now": now, "cost": one.ended.cost}
    mine = "attempt = :attempt AND released_at = 0"
    if not store.rows(f"SELECT 1 AS one FROM reservation WHERE {mine} LIMIT 1", values):  # noqa: S608
        return
    unspent = one.state is State.CANCELLED and not one.transmissions
    if unspent or (one.state is State.FAILED and one.ended.effect == "none"):
        store.change(f"UPDATE reservation SET released_at = :now WHERE {mine}", values)  # noqa: S608
        return
    store.change(
        f"UPDATE reservation SET released_at = :now WHERE {mine} AND kind = 'hold'",  # noqa: S608
        values,
    )
    if one.ended.cost:
        store.change(
            f"UPDATE reservation SET units = :cost WHERE {mine} AND kind = 'spend'",  # noqa: S608
            values,
        )


def _decision(row: Row) -> Decision:
    return Decision(
        row["id"], row["verdict"], row["wire_digest"], row["decided_at"], row["expires_at"], row["attempt"],
        row["transmission"], row["uses_left"], row["used_at"], row["rule"], orjson.loads(row["basis"]),
    )  # fmt: skip
