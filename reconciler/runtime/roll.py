"""What is observed of every declared instance, at the cost of those that ever did anything.

Thousands may be declared and never called. Such a one is seen once; whatever moved since it was declared is
looked at anew each time. Only for the loop that the instances live in.
"""

from collections.abc import Mapping

from reconciler.model.identity import Edited
from reconciler.model.status import InstanceSeen
from reconciler.runtime.running import Running


class Roll:
    """The instances of one supervisor, by name."""

    def __init__(self) -> None:
        self._seen: Edited[str, InstanceSeen] = Edited({})
        self._stirred: dict[str, Running] = {}

    def came(self, unit: Running) -> None:
        """An instance was declared."""
        self._note({unit.name: unit.seen()})

    def stirred(self, unit: Running) -> None:
        """It is not as it was declared, or not any more."""
        self._stirred[unit.name] = unit

    def went(self, unit: Running) -> None:
        """It is gone, and another of its name may come."""
        self._stirred.pop(unit.name, None)
        self._seen = Edited(self._seen)
        self._seen.pop(unit.name, None)

    def lively(self) -> tuple[InstanceSeen, ...]:
        """What there is of those that ever did anything, in no order."""
        return tuple(unit.seen() for name, unit in self._stirred.items() if name in self._seen)

    def observed(self) -> Mapping[str, InstanceSeen]:
        """What there is now, never edited."""
        self._note({one.name: one for one in self.lively() if self._seen[one.name] is not one})
        return self._seen

    def _note(self, seen: Mapping[str, InstanceSeen]) -> None:
        if seen:
            self._seen = Edited(self._seen)
            self._seen.update(seen)
