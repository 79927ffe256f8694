"""What became of an object's last forms: at most five, one a digest. Pure: the time is handed in.

An attempt begins when a form is taken up and ends with its outcome; one that waits for its instance to answer
is still the same attempt. A form that comes back, or meets another outcome, is attempted once more: its entry
comes to the front and counts.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from reconciler.model.status import Condition, ObjectStatus

_KEPT = 5
_WAITING = "Waiting"  # an earlier form serves until this one answers


@dataclass(frozen=True, slots=True)
class Attempt:
    """One form of an object and what became of it. ``at`` is when, in seconds of the wall clock; ``seconds``
    how long that took from the look that took it up.
    """

    digest: str
    status: str
    at: float
    count: int = 1
    seconds: float = 0.0


def outcome(conditions: Iterable[Condition]) -> str:
    """``Applied``, ``Refused``, ``Waiting``, ``Held``, or ``Admitted`` where no controller applied it."""
    found = {condition.type: condition for condition in conditions}
    admitted, synced = found.get("Admitted"), found.get("Synced")
    if admitted is not None and admitted.status == "False":
        return "Refused"
    if synced is None or synced.status == "Unknown":
        return "Admitted"
    if synced.status == "True":
        return "Applied"
    return _WAITING if synced.reason == "LastGoodRetained" else "Held"


def attempted(
    history: tuple[Attempt, ...], status: ObjectStatus, now: float, began: float
) -> tuple[Attempt, ...]:
    """The history with what the status says, the newest first; itself when it says nothing new.

    ``began`` is when the last look began.
    """
    found = outcome(status.conditions)
    if not status.digest:  # its file is gone
        return history
    newest = history[0] if history else None
    spent = round(max(0.0, now - began), 3)
    if newest is not None and newest.digest == status.digest:
        if newest.status == found:
            return history
        if newest.status == _WAITING:
            whole = round(newest.seconds + max(0.0, now - newest.at), 3)
            return (replace(newest, status=found, at=now, seconds=whole), *history[1:])
    known = next((one for one in history if one.digest == status.digest), None)
    one = Attempt(status.digest, found, now, 1 + (known.count if known else 0), spent)
    return (one, *[other for other in history if other is not known][: _KEPT - 1])


def as_json(history: Iterable[Attempt], iso: Callable[[float], str]) -> list[dict[str, Any]]:
    """The history as a status file has it; ``iso`` writes an instant."""
    return [
        {"digest": o.digest, "status": o.status, "at": iso(o.at), "count": o.count, "seconds": o.seconds}
        for o in history
    ]


def from_json(document: Mapping[str, Any]) -> tuple[Attempt, ...]:
    """The history that a status file holds; ``()`` when it holds none that can be read."""
    try:
        return tuple(
            Attempt(
                str(one["digest"]),
                str(one["status"]),
                datetime.fromisoformat(str(one["at"])).timestamp(),
                int(one["count"]),
                float(one["seconds"]),
            )
            for one in document.get("history", ())[:_KEPT]
        )
    except (KeyError, TypeError, ValueError):
        return ()
