"""Two writers that fight over one object: seen by how often it changes, and slowed down. Pure.

An object flaps when it returned to an earlier form of the last minute five times, or changed more than thirty
times in it. From then on its last applied form is kept, and one change a back-off is let through: 10 s at
first, twice as long each time, five minutes at most. It is over when nothing changed for a minute; then what
lies there is applied. Only objects that changed lately are remembered. What a person asks for is not held.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from reconciler.model.names import ObjectRef

WINDOW_S = 60.0  # what counts as often, and how long is quiet
RETURNS = 5  # a person who tries two forms turns fewer times a minute
CHANGES = 30  # one every two seconds: more than a person saves
FIRST_WAIT_S = 10.0
LAST_WAIT_S = 300.0


@dataclass(slots=True)
class _Track:
    """One object that changed lately. ``wait_s`` is 0 while it is calm."""

    last_s: float
    forms: list[tuple[float, str]] = field(default_factory=list)  # of the last minute, at most CHANGES + 2
    applied: str | None = None  # the form last let through, or None before one was
    often: tuple[int, int] = (0, 0)  # changes and returns when it was found out
    wait_s: float = 0.0
    next_s: float = 0.0  # when the next change may be applied


@dataclass(frozen=True, slots=True)
class Kept:
    """One object that flaps, as it is kept over a restart: its last form, and what a track has."""

    object: str
    form: str
    applied: str | None
    changes: int
    returns: int
    wait_s: float
    last_s: float
    next_s: float


class Flapping:
    """Which objects flap. Digests name forms; "" is an object that is not there."""

    def __init__(self) -> None:
        self._tracks: dict[ObjectRef, _Track] = {}

    def saw(self, ref: ObjectRef, before: str, now: str, now_s: float) -> None:
        """The source has another form of an object than it had; ``before`` matters the first time."""
        track = self._tracks.get(ref)
        if track is None:
            if not before or before == now:
                return  # a first form fights nothing
            track = self._tracks[ref] = _Track(now_s, [(now_s, before)])
        elif track.forms[-1][1] == now:
            return
        track.last_s = now_s
        recent = [one for one in track.forms[-CHANGES - 1 :] if now_s - one[0] <= WINDOW_S]
        track.forms = [*recent, (now_s, now)]
        changes, returns = _counted([digest for _, digest in track.forms])
        if not track.wait_s and (returns >= RETURNS or changes > CHANGES):
            track.often, track.wait_s, track.next_s = (changes, returns), FIRST_WAIT_S, now_s + FIRST_WAIT_S

    def holds(self, ref: ObjectRef, now_s: float) -> bool:
        """Whether a change of this object has to wait."""
        track = self._tracks.get(ref)
        return track is not None and track.wait_s > 0 and now_s < track.next_s

    def let_through(self, ref: ObjectRef, form: str, now_s: float) -> None:
        """A form of an object is decided on; while it flaps, the next one waits twice as long."""
        track = self._tracks.get(ref)
        if track is None or track.applied == form:
            return
        track.applied = form
        if track.wait_s and now_s >= track.next_s:
            track.wait_s = min(track.wait_s * 2, LAST_WAIT_S)
            track.next_s = now_s + track.wait_s

    def settle(self, now_s: float) -> None:
        """Forget what was quiet for long enough."""
        for ref in [ref for ref, track in self._tracks.items() if now_s - track.last_s >= WINDOW_S]:
            del self._tracks[ref]

    def flaps(self) -> dict[ObjectRef, str]:
        """Every object that flaps, and what is said of it; the words change with each back-off alone."""
        return {ref: _words(track) for ref, track in self._tracks.items() if track.wait_s}

    def kept(self) -> tuple[Kept, ...]:
        """Every object that flaps, for ``restore``."""
        found = (one for one in self._tracks.items() if one[1].wait_s)
        return tuple(
            Kept(str(ref), one.forms[-1][1], one.applied, *one.often, one.wait_s, one.last_s, one.next_s)
            for ref, one in found
        )

    def restore(self, kept: Iterable[Kept], shift_s: float, now_s: float) -> None:
        """Go on with these; ``shift_s`` is by how much instants are later now. Raises ValueError."""
        for one in kept:
            last_s, next_s = min(one.last_s + shift_s, now_s), min(one.next_s + shift_s, now_s + LAST_WAIT_S)
            track = _Track(last_s, [(last_s, one.form)], one.applied, (one.changes, one.returns))
            track.wait_s, track.next_s = float(one.wait_s), next_s
            self._tracks[ObjectRef.parse(one.object)] = track

    def due_s(self, held: Iterable[ObjectRef]) -> float | None:
        """When something is to be decided anew: one of the ``held`` is due, or one that flaps is quiet."""
        quiet = (track.last_s + WINDOW_S for track in self._tracks.values() if track.wait_s)
        due = (self._tracks[ref].next_s for ref in held if ref in self._tracks)
        return min((*quiet, *due), default=None)


def _words(track: _Track) -> str:
    changes, returns = track.often
    return (
        f"it changed {changes} times within a minute, {returns} times back to an earlier form: do two "
        f"programs write it? One change in {track.wait_s:g} s is applied until it is quiet for a minute"
    )


def _counted(digests: list[str]) -> tuple[int, int]:
    """Changes, and those that went back to a form seen before."""
    returns = sum(digest in digests[:place] for place, digest in enumerate(digests))
    return len(digests) - 1, returns
