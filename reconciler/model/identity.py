"""What is not the same object in two mappings, found without touching what is.

Rooms keep unchanged values by identity, so that the next look costs what changed. A mapping that was copied
from another and edited knows where (``Edited``); any two are compared by running along their addresses, since
hashing ten thousand objects would cost more than the rest of a look.
"""

import weakref
from collections.abc import Iterable, Mapping
from itertools import compress, count
from operator import is_not, or_
from typing import Generic, NoReturn, TypeVar

from reconciler.model.problems import Bug

K = TypeVar("K")
V = TypeVar("V")

_FEW = 64  # entries out of their order, up to which two mappings are compared by running along them
_NOTHING = object()


class Edited(dict[K, V]):
    """A copy of a mapping that remembers where it was edited since: by ``[]``, ``del`` and ``pop`` alone.

    What was copied must not be edited any more once the copy is made.
    """

    __slots__ = ("__weakref__", "_copied", "edited")

    def __init__(self, copied: Mapping[K, V]) -> None:
        super().__init__(copied)
        self.edited: set[K] = set()
        self._copied = weakref.ref(copied) if isinstance(copied, Edited) else None

    def copied(self) -> "Edited[K, V] | None":
        """What this is a copy of, while that is still kept by somebody (and is one of these)."""
        return self._copied() if self._copied else None

    def __setitem__(self, key: K, value: V) -> None:
        self.edited.add(key)
        super().__setitem__(key, value)

    def __delitem__(self, key: K) -> None:
        self.edited.add(key)
        super().__delitem__(key)

    def pop(self, key: K, default: V | None = None) -> V | None:  # type: ignore[override]
        self.edited.add(key)
        return super().pop(key, default)

    def _not_remembered(self, *_: object, **__: object) -> NoReturn:
        raise Bug("edit it by [], del and pop: nothing else is remembered")

    update = setdefault = popitem = clear = __ior__ = _not_remembered


def moved(before: Mapping[K, V], after: Mapping[K, V]) -> set[K]:
    """The keys at which one holds another object than the other, or nothing.

    Where nobody remembers: edits take few entries out of their order, and where many are, each is looked up.
    """
    if before is after:
        return set()
    if isinstance(after, Edited) and after.copied() is before:
        return _differing(after.edited, before, after)
    odd: list[K] = []
    old, new = _Run(before), _Run(after)
    while len(odd) < _FEW:
        old.skip(new)
        if old.keys and (not new.keys or after.get(old.keys[0], _NOTHING) is not new.values[0]):
            odd.append(old.take())
        elif new.keys:
            odd.append(new.take())
        else:
            break
    return _differing((*odd, *old.keys, *new.keys), before, after)


def _differing(keys: Iterable[K], before: Mapping[K, V], after: Mapping[K, V]) -> set[K]:
    return {key for key in keys if before.get(key, _NOTHING) is not after.get(key, _NOTHING)}


class _Run(Generic[K, V]):
    """The entries of a mapping that were not met yet, in their order."""

    def __init__(self, mapping: Mapping[K, V]) -> None:
        self.keys = list(mapping)
        self.values = list(mapping.values())

    def skip(self, other: "_Run[K, V]") -> None:
        """Leave out what both start with in common."""
        differ = map(or_, map(is_not, self.keys, other.keys), map(is_not, self.values, other.values))
        alike = next(compress(count(), differ), min(len(self.keys), len(other.keys)))
        for run in (self, other):
            del run.keys[:alike], run.values[:alike]

    def take(self) -> K:
        """The next entry's key; the entry is met."""
        del self.values[0]
        return self.keys.pop(0)
