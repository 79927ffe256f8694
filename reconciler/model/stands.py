"""How an interface of a session stands: it answers, it struggles, or nobody answers. For agents' eyes.

Three words and since when, and nothing else: which connector or vendor is behind it, and what exactly is the
matter with it, is for operators.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from reconciler.model.routes import Route

State = Literal["bound", "degraded", "missing"]

# What follows from a state, as an agent is told.
MEANS: dict[State, str] = {
    "bound": "",
    "degraded": "calls may answer unavailable",
    "missing": "calls answer unavailable",
}


@dataclass(frozen=True, slots=True)
class Stand:
    """How one interface stands, and since when: seconds since 1970, or 0.0 where nobody knows."""

    state: State
    since: float = 0.0

    @property
    def words(self) -> str:
        """The same for an agent. One that answers has no date: instructions that stay as they are can be
        kept by whoever pays for reading them.
        """
        if self.state == "bound":
            return self.state
        when = f" since {instant(self.since)}" if self.since else ""
        return f"{self.state}{when}: {MEANS[self.state]}"


Stands = Callable[[Route], Stand]


def as_pinned(route: Route) -> Stand:
    """How a route stands by what it was pinned as, without a look at what runs."""
    return together([Stand("bound" if one.suspended is None else "missing") for one in route.each])


def together(stands: Sequence[Stand]) -> Stand:
    """How an interface stands that several answer: missing where all are, degraded where one is not well."""
    first = stands[0]
    if all(one.state == first.state for one in stands):
        return Stand(first.state, max(one.since for one in stands))
    return Stand("degraded", max(one.since for one in stands if one.state != "bound"))


def instant(seconds: float) -> str:
    """An ISO instant in UTC, to the second."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
