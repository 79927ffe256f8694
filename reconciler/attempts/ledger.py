"""The ledger: attempts as rows, each step of one a transaction that is on the disk before it returns.

``prepare`` makes a row or finds the one that there is; ``apply`` lets something happen to it, under three
predicates: the state and version that the caller saw, and its fence. Who was overtaken is told so and has
changed nothing. For one thread at a time: the controller speaks to it through ``writing``.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import orjson

from reconciler.attempts import holding, machine, rows
from reconciler.attempts.happenings import CancelAsked, Happening, Submit
from reconciler.attempts.holdings import Reserve, Tally
from reconciler.attempts.papers import Papers
from reconciler.attempts.records import Attempt, State
from reconciler.attempts.store import Row, SqliteStore, Store

LEASE_S = 30.0  # a holder renews every ten seconds: three chances
PAGE = 32
_LONGEST_WAIT_S = 2 * machine.DAY_S  # a check that lies further ahead was set by a clock that jumped
SKEW_S = 5.0  # between two machines' clocks: with more, a lease of one says nothing to the other
_ASIDE = frozenset({CancelAsked.__name__})  # what others may have said meanwhile without overtaking a holder
_TERMS = "over_at = 0"
_HEX = re.compile(r"[0-9a-f-]{4,36}")


class ConflictError(ValueError):
    """The same key came with another request: ``idempotency_conflict``, and nothing is sent."""


class OvertakenError(RuntimeError):
    """Somebody else moved the attempt on; ``now`` is how it stands."""

    def __init__(self, now: Attempt | None) -> None:
        super().__init__("the attempt was moved on by somebody else" if now else "there is no such attempt")
        self.now = now


@dataclass(frozen=True, slots=True)
class Prepared:
    """A row for a wish. ``known``: the same key had it already; ``duplicate``: the same session asks for the
    same while that is under way.
    """

    attempt: Attempt
    how: Literal["made", "known", "duplicate"]


@dataclass(frozen=True, slots=True)
class Event:
    """One line of an attempt's history."""

    ver: int
    at: float
    src: str
    dst: str
    what: str
    actor: str
    evidence: Mapping[str, object]


class Ledger:
    """The rows, and the papers beside them."""

    def __init__(self, store: Store, papers: Papers, home: str = "") -> None:
        """``home`` names the state folder where several share the rows: holders' names begin with it, and
        what it holds is looked after by it, for the papers lie there.
        """
        self.store = store
        self.papers = papers
        self.home = home

    @classmethod
    def read(cls, state: Path) -> "Ledger":
        """What there is of a state folder's ledger, beside whoever writes it. Raises UnusableError."""
        papers = Papers(state / "attempts", only_read=True)
        return cls(SqliteStore(state / "ledger.db", only_read=True), papers)

    @classmethod
    def at(cls, state: Path) -> "Ledger":
        """A state folder's ledger: ``ledger.db``, the folder ``attempts``. Raises UnusableError, OSError."""
        return cls(SqliteStore(state / "ledger.db"), Papers(state / "attempts"))

    def close(self) -> None:
        """Let go of the file."""
        self.store.close()

    def fact(self, name: str, otherwise: str) -> str:
        """A fact of this ledger that is set once, by whoever asks first: ``install`` is its random name."""
        with self.store.transaction():
            self.store.change(
                "INSERT INTO fact (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING",
                {"name": name, "value": otherwise},
            )
            found = self.store.rows("SELECT value FROM fact WHERE name = :name", {"name": name})
        return str(found[0]["value"])

    def prepare(
        self, new: Attempt, now: float, reserve: Sequence[Reserve] = (), *, guard: bool = True
    ) -> Prepared:
        """A row for ``new``, PREPARED and held by ``new.holder``, or the row that there is.

        The sealed request's paper lies there before. ``guard`` finds the same wish of the same session that
        is under way. Raises ConflictError, ``holdings.NoRoomError`` and UnusableError; nothing is kept then.
        """
        sealed = new.request.sealed_ref
        if sealed and (sealed != new.id or not self.papers.has("sealed", sealed)):
            raise machine.ForbiddenError("the sealed request is not there, under its attempt's name")
        with self.store.transaction():
            if (same := self._same(new)) is not None:
                return Prepared(same, "known")
            if guard and (twin := self._twin(new)) is not None:
                return Prepared(twin, "duplicate")
            one = machine.prepared(new, now)
            holding.reserve(self.store, one, reserve, now)
            columns = rows.row(one)
            self.store.change(_INSERT, columns)
            self._note(one, "", _Said(now, one.holder, "Prepared", {}))
        return Prepared(one, "made")

    def apply(self, held: Attempt, now: float, *happenings: Happening, actor: str = "") -> Attempt:
        """Let it happen, in this order and in one transaction; the attempt as it stands then.

        Raises ForbiddenError where the law says no, ``holdings.NotAllowedError`` for a decision that does not
        permit it, OvertakenError when the row is not the one that was ``held`` any more, UnusableError.
        Nothing is kept then.
        """
        with self.store.transaction():
            one = self._current(held)
            before = one
            for happening in happenings:
                after = machine.after(one, happening, now)
                if isinstance(happening, Submit) and happening.decision:
                    holding.use(self.store, happening.decision, after, now)
                said = _Said(now, actor or held.holder, type(happening).__name__, _evidence(happening))
                self._note(after, one.state.value, said)
                one = after
            columns = rows.row(one)
            named = {"was_state": before.state.value, "was_ver": before.ver, "was_fence": before.fence}
            if self.store.change(_UPDATE, columns | named) != 1:
                raise OvertakenError(self.get(held.id))
            if one.is_over:
                holding.release(self.store, one, now)
        return one

    def claim(self, holder: str, now: float, limit: int = PAGE, *, orphans: bool = False) -> list[Attempt]:
        """Take what is due and held by nobody, under a lease of ours and a fence one higher.

        ``orphans`` also takes at once whatever another holder left: right only for whoever holds the state
        folder's lock, at its start. A lease or a check too far ahead was set by a clock that jumped: due.
        Of another home, only a call is taken whose witness is gone: that needs no papers.
        """
        values = {
            "me": holder, "now": now, "until": now + LEASE_S, "far": now + LEASE_S + 1,
            "late": now + _LONGEST_WAIT_S, "n": limit, "home": self.home, "length": len(self.home),
        }  # fmt: skip
        free = "(lease_until <= :now OR lease_until > :far)"
        due = f"(next_check_at <= :now OR next_check_at > :late) AND {free}"
        mine = "substr(holder, 1, :length) = :home"
        if not orphans and self.home and abs(self.store.skew_s()) < SKEW_S:
            mine = f"({mine} OR (kind = 'call' AND grade = 'boundary'))"
        which = f"holder <> :me AND {mine}" if orphans else f"{due} AND {mine}"
        picked = f"SELECT id FROM attempt WHERE {_TERMS} AND {which} ORDER BY next_check_at LIMIT :n"  # noqa: S608
        sql = (
            "UPDATE attempt SET fence = fence + 1, holder = :me, lease_until = :until"  # noqa: S608
            f" WHERE id IN ({picked}) RETURNING *"
        )
        with self.store.transaction():
            taken = [(row, _readable(row)) for row in self.store.rows(sql, values)]
            for row, one in taken:
                if one is None:  # written by a hand or a broken disk: it must not stop the others
                    again = {"id": row["id"], "at": now + machine.DAY_S}
                    self.store.change("UPDATE attempt SET next_check_at = :at WHERE id = :id", again)
        return sorted((one for _, one in taken if one is not None), key=_due)

    def renew(self, held: Iterable[Attempt], now: float) -> set[str]:
        """Hold on to what is under way: the ids whose lease goes on; others were overtaken, or are over."""
        kept = set()
        with self.store.transaction():
            for one in held:
                values = {"id": one.id, "fence": one.fence, "until": now + LEASE_S}
                if self.store.change(_RENEW, values) == 1:
                    kept.add(one.id)
        return kept

    def ask_cancel(self, attempt_id: str, by: str, now: float) -> Attempt:
        """Keep the wish to stop it, whoever holds it; CANCELLED at once where nothing was sent.

        Raises OvertakenError where there is no such attempt, and ForbiddenError where it is over.
        """
        with self.store.transaction():
            one = self.get(attempt_id)
            if one is None:
                raise OvertakenError(None)
            return self.apply(one, now, CancelAsked(by), actor=by)

    def get(self, attempt_id: str) -> Attempt | None:
        """The attempt, as it stands."""
        return _one(self.store.rows("SELECT * FROM attempt WHERE id = :id", {"id": attempt_id}))

    def by_handle(self, handle: str, agent: str) -> Attempt | None:
        """The attempt of a handle, for the agent whose it is; None for any other."""
        sql = "SELECT * FROM attempt WHERE handle = :handle AND agent = :agent"
        return _one(self.store.rows(sql, {"handle": handle, "agent": agent}))

    def found(self, text: str) -> list[Attempt]:
        """Attempts whose id or handle is or begins with ``text``, three at most: what a person typed."""
        return _sorted_out(self._named(text))[0]

    def unreadable(self, text: str) -> list[str]:
        """The ids that begin so whose rows cannot be read."""
        return _sorted_out(self._named(text))[1]

    def listing(
        self, limit: int = 1000, *, only_open: bool = False, agent: str = "", binding: str = ""
    ) -> list[Attempt]:
        """The newest attempts first; without those that cannot be read."""
        return self.listed(limit, only_open=only_open, agent=agent, binding=binding)[0]

    def listed(
        self, limit: int = 1000, *, only_open: bool = False, agent: str = "", binding: str = ""
    ) -> tuple[list[Attempt], list[str]]:
        """The newest attempts first, and the ids of those among them that cannot be read."""
        terms = ["1 = 1"]
        terms += [_TERMS] if only_open else []
        terms += ["agent = :agent"] if agent else []
        terms += ["binding = :binding"] if binding else []
        sql = f"SELECT * FROM attempt WHERE {' AND '.join(terms)} ORDER BY id DESC LIMIT :n"  # noqa: S608
        return _sorted_out(self.store.rows(sql, {"agent": agent, "binding": binding, "n": limit}))

    def _named(self, text: str) -> list[Row]:
        text = text.lower()
        if not _HEX.fullmatch(text):
            return []
        sql = "SELECT * FROM attempt WHERE id LIKE :text OR handle LIKE :text ORDER BY id LIMIT 3"
        return self.store.rows(sql, {"text": f"{text}%"})

    def history(self, attempt_id: str) -> list[Event]:
        """What happened to an attempt, in order."""
        sql = "SELECT * FROM event WHERE attempt = :id ORDER BY ver"
        return [
            Event(
                row["ver"], row["at"], row["src"], row["dst"], row["what"], row["actor"],
                _told(row["evidence"]),
            )
            for row in self.store.rows(sql, {"id": attempt_id})
        ]  # fmt: skip

    def tallies(self) -> dict[str, Tally]:
        """How many attempts of each binding are not over, and how many of those are INDETERMINATE."""
        sql = (
            "SELECT binding, COUNT(*) AS n, SUM(CASE WHEN state = :state THEN 1 ELSE 0 END) AS lost"  # noqa: S608
            f" FROM attempt WHERE {_TERMS} GROUP BY binding"
        )
        found = self.store.rows(sql, {"state": State.INDETERMINATE.value})
        return {row["binding"]: Tally(int(row["n"]), int(row["lost"])) for row in found}

    def _same(self, new: Attempt) -> Attempt | None:
        sql = "SELECT * FROM attempt WHERE scope = :scope AND call_key = :key AND generation = :generation"
        values = {"scope": new.scope, "key": new.call_key, "generation": new.generation}
        same = _one(self.store.rows(sql, values))
        if same is not None and _asked(same) != _asked(new):
            raise ConflictError("the same key came with another request")
        return same

    def _twin(self, new: Attempt) -> Attempt | None:
        sql = (
            "SELECT * FROM attempt WHERE session = :session AND tool = :tool AND agent = :agent"  # noqa: S608
            f" AND input_digest = :digest AND {_TERMS} ORDER BY id LIMIT 1"
        )
        owner = new.owner
        values = {"session": owner.session, "agent": owner.agent, "tool": new.tool}
        values["digest"] = new.request.input_digest
        return _one(self.store.rows(sql, values)) if owner.session else None

    def _current(self, held: Attempt) -> Attempt:
        """The row as its holder may go on from it: the one that was held, or with no more than a wish to
        cancel added since. Raises OvertakenError.
        """
        sql = "SELECT state, ver, fence, lease_until FROM attempt WHERE id = :id"
        seen = self.store.rows(sql, {"id": held.id})
        stands = [(row["state"], row["ver"], row["fence"]) for row in seen]
        if stands == [(held.state, held.ver, held.fence)]:
            return replace(held, lease_until=seen[0]["lease_until"])  # renewed, it may be
        one = self.get(held.id)
        if one is None or one.fence != held.fence or one.ver < held.ver:
            raise OvertakenError(one)
        if one.ver > held.ver:
            since = self.store.rows(
                "SELECT what FROM event WHERE attempt = :id AND ver > :ver", {"id": held.id, "ver": held.ver}
            )
            if one.is_over or any(row["what"] not in _ASIDE for row in since):
                raise OvertakenError(one)
        elif one.state is not held.state:
            raise OvertakenError(one)
        return one

    def _note(self, one: Attempt, src: str, said: "_Said") -> None:
        values = {
            "attempt": one.id, "ver": one.ver, "at": said.at, "src": src, "dst": one.state.value,
            "what": said.what, "actor": said.actor,
            "evidence": orjson.dumps(said.evidence, option=orjson.OPT_NON_STR_KEYS).decode(),
        }  # fmt: skip
        self.store.change(_EVENT, values)


@dataclass(frozen=True, slots=True)
class _Said:
    at: float
    actor: str
    what: str
    evidence: Mapping[str, object]


_EVENT = (
    "INSERT INTO event (attempt, ver, at, src, dst, what, actor, evidence)"
    " VALUES (:attempt, :ver, :at, :src, :dst, :what, :actor, :evidence)"
)
_COLUMNS = (*rows.FIXED, *rows.MOVING)
_INSERT = f"INSERT INTO attempt ({', '.join(_COLUMNS)}) VALUES ({', '.join(':' + one for one in _COLUMNS)})"  # noqa: S608
_UPDATE = (
    f"UPDATE attempt SET {', '.join(f'{one} = :{one}' for one in rows.MOVING)}"  # noqa: S608
    " WHERE id = :id AND state = :was_state AND ver = :was_ver AND fence = :was_fence"
)
_RENEW = (  # not one whose lease was given up: by us, or by whoever knew more
    "UPDATE attempt SET lease_until = :until"
    " WHERE id = :id AND fence = :fence AND over_at = 0 AND lease_until > 0"
)


def _one(found: list[Row]) -> Attempt | None:
    return rows.attempt(found[0]) if found else None


def _sorted_out(found: list[Row]) -> tuple[list[Attempt], list[str]]:
    """The attempts of rows, and the ids of rows that cannot be read."""
    read = [(row, _readable(row)) for row in found]
    return [one for _, one in read if one is not None], [str(row["id"]) for row, one in read if one is None]


def _readable(row: Row) -> Attempt | None:
    try:
        return rows.attempt(row)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _told(text: str) -> Mapping[str, object]:
    """What an event's evidence says; nothing where that cannot be read."""
    try:
        found = orjson.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _asked(one: Attempt) -> str:
    return one.request.request_digest or one.request.input_digest


def _due(one: Attempt) -> float:
    return one.next_check_at


def _evidence(happening: Happening) -> dict[str, Any]:
    told = ((one.name, getattr(happening, one.name)) for one in fields(happening))
    return {name: value for name, value in told if value not in ("", None, 0.0, {}, ())}
