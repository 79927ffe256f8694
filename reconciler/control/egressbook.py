"""What an egress policy has to remember: which class a session's data is of, and what each rule spent today.

Both survive a restart: a file each, replaced whole when a value in it changes, which is rare. A session's
class only rises.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import orjson

from reconciler.control.atomic import write
from reconciler.egress.decide import Spent
from reconciler.egress.policy import Policy, Sum

_MOST = 10_000  # sessions that are remembered; the oldest are forgotten
_MARKS, _SPENT = "egress-classes.json", "egress-spent.json"


class Book:
    """Both of one controller. OSError of a write is the caller's: what cannot be remembered is not let go."""

    def __init__(self, state: Path, now: Callable[[], float]) -> None:
        """``now`` is the wall clock in seconds since 1970. A file that is damaged raises ValueError."""
        self._marks_at, self._spent_at, self._now = state / _MARKS, state / _SPENT, now
        self._marks: dict[str, str] = {str(key): str(name) for key, name in _read(self._marks_at).items()}
        self._day, self._spent = _sums(_read(self._spent_at))

    def mark(self, session: str) -> str:
        """The class of what a session has read, or ""."""
        return self._marks.get(session, "")

    def raise_mark(self, session: str, class_name: str, policy: Policy) -> None:
        """The session read data of a class."""
        known = self.mark(session)
        low = policy.rank(policy.lowest)
        if policy.rank(class_name) <= (policy.rank(known) if known else low):
            return
        marks = {**self._marks, session: class_name}
        while len(marks) > _MOST:
            del marks[next(iter(marks))]
        write(self._marks_at, orjson.dumps(marks), durable=False)
        self._marks = marks

    @property
    def spent(self) -> Spent:
        """What each rule spent today (UTC), by currency. A clock that was set back by a day at most begins no
        day anew; a day further ahead was a clock's that jumped, and what was spent on it counts as of today:
        else no day would have its sum again until then.
        """
        today = self._today()
        if self._day and (date.fromisoformat(self._day) - date.fromisoformat(today)).days > 1:
            self._keep(today, self._spent)
        return self._spent if today <= self._day else {}

    def spend(self, rule: str, charge: Sum) -> None:
        """Count it."""
        spent = {name: dict(sums) for name, sums in self.spent.items()}
        sums = spent.setdefault(rule, {})
        sums[charge.currency] = sums.get(charge.currency, 0) + charge.units
        self._keep(max(self._today(), self._day), spent)

    def _keep(self, day: str, spent: dict[str, dict[str, int]]) -> None:
        write(self._spent_at, orjson.dumps({"day": day, "rules": spent}), durable=False)
        self._day, self._spent = day, spent

    def _today(self) -> str:
        return datetime.fromtimestamp(self._now(), UTC).date().isoformat()


def _read(path: Path) -> Mapping[str, Any]:
    try:
        found = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    if not isinstance(found, dict):
        raise ValueError(f"{path.name} is damaged")
    return found


def _sums(kept: Mapping[str, Any]) -> tuple[str, dict[str, dict[str, int]]]:
    """The day, and what each rule spent on it by currency. Raises ValueError."""
    try:
        day = str(kept.get("day", ""))
        if day:
            date.fromisoformat(day)
        rules = kept.get("rules", {}).items()
        return day, {rule: {name: int(units) for name, units in sums.items()} for rule, sums in rules}
    except (AttributeError, TypeError, ValueError):
        raise ValueError(f"{_SPENT} is damaged") from None
