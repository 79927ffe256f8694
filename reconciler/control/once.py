"""Apply and diff without a controller: the same look, under the same lock, and nothing runs.

What is admitted is written down and said (``Ready`` is Unknown), so that the controller that comes next
starts
from it. A preview takes no lock and writes nothing.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reconciler.control import comparing, holding, lock, say, sessions
from reconciler.control.admitted import Admitted
from reconciler.control.facts import Facts
from reconciler.control.looking import Look, Looker
from reconciler.control.place import Place
from reconciler.control.source import Busy, Gone
from reconciler.control.status import Board
from reconciler.model.status import Summary


def apply(config: Path, expected: str = "", *, prune_all: bool = False) -> dict[str, Any]:
    """Admit the configuration and write status; the report of ``comparing``. What may not be removed at once
    is removed with ``prune_all``.

    Raises ``lock.Held`` when a controller runs, OSError when the configuration cannot be read, or is not at
    the ``expected`` revision.
    """

    def act(looker: Looker) -> Look | Busy | Gone:
        comparing.unmoved(looker, expected)
        return looker.look(None, prune_all=prune_all)

    return _done(config, act)[0]


def roll_back(config: Path, wanted: str) -> dict[str, Any]:
    """Put an earlier revision in force ("": the previous one) without a controller; raises as ``apply``, and
    ``rolling.NotKept``.
    """
    told, looker = _done(config, lambda looker: looker.roll_back(wanted))
    return {**told, "rollback": looker.rolling.as_json()}


def _done(config: Path, act: Callable[[Looker], Look | Busy | Gone]) -> tuple[dict[str, Any], Looker]:
    place = Place.of(config)
    with lock.held(place.state):
        place.claim()
        looker = Looker(place, Admitted(place.state / "admitted"))
        before = looker.first()
        look = comparing.readable(act(looker))
        facts = Facts(
            look.admission, look.desired.table, look.desired.table, {}, held=look.held, running=False
        )
        board = Board(place.state / "status", time.time)
        board.publish(tuple(say.statuses(facts)))
        source = looker.rolling.condition(looker.attempted) or holding.condition(look.held)
        frame = Summary(configuration=str(place.config), conditions=(source,) if source else ())
        board.summary(looker.told(say.summary(facts, frame)))
        left = sessions.left_open(place.state / "sessions")
    told = comparing.report(before, look, comparing.live(left))
    return {**told, "applied": True, "ready": False}, looker


def preview(config: Path, wish: comparing.Wish = comparing.NOTHING) -> dict[str, Any]:
    """What an apply would change, changing nothing; OSError when the configuration cannot be read."""
    place = Place.of(config)
    looker = Looker(place, Admitted(place.state / "admitted"))
    looker.first()
    told = comparing.preview(looker, comparing.live(sessions.left_open(place.state / "sessions")), wish)
    return {**told, "applied": False, "ready": False}
