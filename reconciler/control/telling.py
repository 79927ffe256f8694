"""Telling only what changed: the words of every object, drawn anew where something may read otherwise."""

from dataclasses import dataclass

from reconciler.control import say
from reconciler.control.facts import Facts, Index
from reconciler.model.names import ObjectRef
from reconciler.model.status import ObjectStatus


@dataclass(frozen=True, slots=True)
class Told:
    """What is to be said now: new words of some objects, and those of which nothing is said any more.

    With ``whole`` it is all there is to say, whatever was said before.
    """

    changed: tuple[ObjectStatus, ...]
    gone: tuple[ObjectRef, ...]
    whole: bool


class Teller:
    """Remembers of which facts it told last. Telling one after the other adds up to ``say.statuses``.

    One that raised is of no more use: begin anew.
    """

    def __init__(self) -> None:
        self._index: Index | None = None
        self._told: set[ObjectRef] = set()

    def tell(self, facts: Facts) -> Told:
        """Everything the first time, then what may have changed; in the order of references."""
        whole = self._index is None
        index = self._index = self._index or Index()
        changed, gone = [], []
        for ref in sorted(index.follow(facts)):
            if index.is_told(ref):
                self._told.add(ref)
                changed.append(say.status(index, ref))
            elif ref in self._told:
                self._told.discard(ref)
                gone.append(ref)
        return Told(tuple(changed), tuple(gone), whole)
