"""What is not the same object in two mappings, found without touching what is.

Rooms keep unchanged values by identity, so that the next look costs what changed. A mapping that was copied
from another and edited (``Edited``) shares with it what it did not change, and knows where it did; any two
are compared by running along their addresses, since hashing ten thousand objects would cost more than the
rest of a look.
"""

import weakref
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, MutableMapping, ValuesView
from itertools import compress, count
from operator import is_not, or_
from typing import Any, Final, Generic, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_FEW = 64  # entries out of their order, up to which two mappings are compared by running along them
_MOST = 128  # edits laid over one dict: copied by each look, and laid together once in so many
_NOTHING: Final[Any] = object()
_GONE: Final[Any] = object()


class Edited(MutableMapping[K, V]):
    """A copy of a mapping that costs what is edited in it, and remembers where that was.

    Copies lie over one dict that nobody edits, each with its own edits, and are laid together now and then.
    So what was copied must not be edited any more once the copy is made. To go through all entries is to lay
    them together: ``keys``, ``values`` and ``items`` tell of one moment.
    """

    __slots__ = ("__weakref__", "_copied", "_size", "base", "edited", "edits")

    def __init__(self, copied: Mapping[K, V]) -> None:
        self.edited: set[K] = set()
        self._size = len(copied)
        self._copied = weakref.ref(copied) if isinstance(copied, Edited) else None
        if isinstance(copied, Edited):
            copied.lay_together()
            self.base: dict[K, V] = copied.base  # shared: never edited
            self.edits: dict[K, V] = copied.edits.copy()  # _GONE: the base has it
        else:
            self.base, self.edits = whole(copied), {}

    def copied(self) -> "Edited[K, V] | None":
        """What this is a copy of, while that is still kept by somebody (and is one of these)."""
        return self._copied() if self._copied else None

    def beside(self, other: Mapping[K, V]) -> Iterable[K] | None:
        """Keys outside which this has the same as the other; None when nobody remembers."""
        if self.copied() is other:
            return self.edited
        edits = self.edits
        if other is self.base:
            return edits
        if not isinstance(other, Edited):
            return None
        if other.copied() is self:
            return other.edited
        edits = {**edits, **other.edits}  # read before it is asked whose they are: see `lay_together`
        return edits if self.base is other.base else None

    def lay_together(self) -> None:
        """Have all in one dict once the edits are many: here, so that what is copied at each look and stays
        is laid once. Others may read meanwhile: the base is there before its edits go.
        """
        if len(self.edits) > _MOST:
            self.base = self.whole()
            self.edits = {}

    def whole(self) -> dict[K, V]:
        """All of it as a dict, which is not to be edited."""
        edits = self.edits
        if not edits:
            return self.base
        found = self.base | edits
        for key in [key for key, value in edits.items() if value is _GONE]:
            del found[key]
        return found

    def __getitem__(self, key: K) -> V:
        found: V = self.get(key, _NOTHING)
        if found is _NOTHING:
            raise KeyError(key)
        return found

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, default: V | D, /) -> V | D: ...
    def get(self, key: K, default: Any = None, /) -> Any:
        if edits := self.edits:
            found = edits.get(key, _NOTHING)
            if found is not _NOTHING:
                return default if found is _GONE else found
        return self.base.get(key, default)

    def __contains__(self, key: object) -> bool:
        edits: dict[Any, Any] = self.edits
        found = edits.get(key, _NOTHING) if edits else _NOTHING
        return key in self.base if found is _NOTHING else found is not _GONE

    def __setitem__(self, key: K, value: V) -> None:
        found = self.edits.get(key, _NOTHING)
        if found is _GONE or (found is _NOTHING and key not in self.base):
            self._size += 1
        self.edited.add(key)
        self.edits[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._size -= 1
        self.edited.add(key)
        if key in self.base:
            self.edits[key] = _GONE
        else:
            del self.edits[key]

    def pop(self, key: K, /, *default: Any) -> Any:
        """As a dict does it: no exception tells that a key is not there, as in mappings in general."""
        found = self.get(key, _NOTHING)
        if found is not _NOTHING:
            del self[key]
            return found
        if not default:
            raise KeyError(key)
        return default[0]

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        return iter(self.whole())

    def keys(self) -> KeysView[K]:
        return self.whole().keys()

    def values(self) -> ValuesView[V]:
        return self.whole().values()

    def items(self) -> ItemsView[K, V]:
        return self.whole().items()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        if len(self) != len(other):
            return False
        return all(self.get(key, _NOTHING) == other.get(key, _NOTHING) for key in moved(self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Edited({self.whole()!r})"


def whole(mapping: Mapping[K, V]) -> dict[K, V]:
    """All of a mapping as a dict, which is not to be edited: its own where it has one."""
    if type(mapping) is dict:
        return mapping
    return mapping.whole() if isinstance(mapping, Edited) else dict(mapping)


def laid_over(mapping: Mapping[K, V], more: Mapping[K, V]) -> Mapping[K, V]:
    """The mapping with these entries; itself where there are none."""
    if not more:
        return mapping
    found = Edited(mapping)
    found.update(more)
    return found


def moved(before: Mapping[K, V], after: Mapping[K, V]) -> set[K]:
    """The keys at which one holds another object than the other, or nothing.

    Where nobody remembers: edits take few entries out of their order, and where many are, each is looked up.
    """
    if before is after:
        return set()
    found = after.beside(before) if isinstance(after, Edited) else None
    if found is None and isinstance(before, Edited):
        found = before.beside(after)
    if found is not None:
        return _differing(found, before, after) if found else set()
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
        entries = whole(mapping)
        self.keys = list(entries)
        self.values = list(entries.values())

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
