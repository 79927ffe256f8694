"""Calls with an effect that are made twice: the second one gets what comes of the first, and is not sent.

Clients make a lost call again under a new id. While a call of the same session, tool and arguments runs, the
next one waits for its outcome. A call whose agent left before it ended goes on; if what it did leaves the
machine, its outcome is kept for ten minutes, and the same agent's next call of the same kind is answered
with it, once. What a controller before this one left is the ledger's to know.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from reconciler.model.effects import UNKNOWN
from reconciler.router.steps import Answer, Outcome

_KEPT_S = 600.0
_MOST_KEPT = 64
_LARGEST = 256 * 1024  # bytes of an answer that is kept

Told = Callable[[Outcome | None], None]  # None: be the first now


@dataclass(slots=True)
class Run:
    """One call that is under way, and who waits for what comes of it."""

    session: str
    agent: str
    what: str  # tool and arguments
    is_local: bool
    waiting: list[Told] = field(default_factory=list)


class Guard:
    """What runs, and what ended unheard. All methods are for the loop's own thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` is monotonic, in seconds."""
        self._clock = clock
        self._running: dict[tuple[str, str], Run] = {}  # by session and what
        self._adrift: dict[tuple[str, str], Run] = {}  # by agent and what: their agents left
        self._unheard: OrderedDict[tuple[str, str], tuple[float, Outcome]] = OrderedDict()

    def enter(self, new: Run, told: Told) -> Run | Outcome:
        """``new``, when the call is to be made; or the outcome that it has already; or the run that it waits
        for: ``told`` hears of that later, and of None when the call is to enter anew.
        """
        running = self._running.get((new.session, new.what)) or self._adrift.get((new.agent, new.what))
        if running is not None:
            running.waiting.append(told)
            return running
        kept = self._unheard.pop((new.agent, new.what), None)
        if kept is not None and self._clock() - kept[0] < _KEPT_S:
            return kept[1]
        self._running[new.session, new.what] = new
        return new

    def give_up(self, run: Run, told: Told) -> None:
        """A call does not wait for that run any more."""
        if told in run.waiting:
            run.waiting.remove(told)

    def drift(self, run: Run) -> None:
        """Its agent has left, and it goes on."""
        if not run.is_local:
            self._adrift[run.agent, run.what] = run

    def leave(self, run: Run, outcome: Outcome | None, *, heard: bool) -> None:
        """It has ended; None: before anything was sent, for reasons of its own. Who waits hears of it."""
        self._running.pop((run.session, run.what), None)
        self._adrift.pop((run.agent, run.what), None)
        if outcome is not None and not (heard or run.is_local or run.waiting) and _is_worth_keeping(outcome):
            self._unheard[run.agent, run.what] = (self._clock(), outcome)
            if len(self._unheard) > _MOST_KEPT:
                self._unheard.popitem(last=False)
        for told in run.waiting:
            told(outcome)


def what(tool: str, arguments: Mapping[str, Any]) -> str:
    """What is asked, as one word: the same for the same tool and arguments, in whatever order."""
    told = orjson.dumps([tool, arguments], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(told).hexdigest()


def _is_worth_keeping(outcome: Outcome) -> bool:
    """Whether the call did something, or may have; and what it answered is not too large."""
    if isinstance(outcome, Answer):
        return len(outcome.structured) <= _LARGEST
    return outcome.code == UNKNOWN
