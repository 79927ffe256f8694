"""A record that tells which of its keys were read, for the law that a driver reads facts and nothing else.

It stands in for the record: attributes are read through it, what is read is noted as the dotted path that a
file would have, and what is no key of the format is an error. Tests hand it to drivers.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, cast

from reconciler.model.forms import Record

R = TypeVar("R", bound=Record)


class Undeclared(AttributeError):  # noqa: N818 - it is told as what it is
    """Something was asked of a record that its format does not have."""


def recorded(record: R) -> tuple[R, set[str]]:
    """The record as one that notes what is read of it, and the paths that were: they grow as it is read.

    The paths are those of files: ``operation[0].cancel.mode``; of a table with a person's own keys the key is
    part of it.
    """
    read: set[str] = set()
    return cast("R", _Recorded(record, "", read)), read


class _Recorded:
    __slots__ = ("_at", "_read", "_record")

    def __init__(self, record: Record, at: str, read: set[str]) -> None:
        self._record, self._at, self._read = record, at, read

    def __getattr__(self, name: str) -> Any:
        kind = type(self._record)
        if alias := kind.aliases.get(name):
            path = f"{self._at}.{alias}" if self._at else alias
            self._read.add(path)
            return _noted(getattr(self._record, name), path, self._read)
        own = vars(kind).get(name)
        if isinstance(own, property) and own.fget:
            return own.fget(self)
        if callable(own) and not name.startswith("_"):
            return own.__get__(self)
        raise Undeclared(f"{kind.__name__} has no key {name!r}")

    def __eq__(self, other: object) -> bool:
        return self._record == (other._record if isinstance(other, _Recorded) else other)

    def __hash__(self) -> int:
        return hash(self._record)


class _RecordedTable(Mapping[str, Any]):
    def __init__(self, table: Mapping[str, Any], at: str, read: set[str]) -> None:
        self._table, self._at, self._read = table, at, read

    def __getitem__(self, key: str) -> Any:
        path = f"{self._at}.{key}"
        self._read.add(path)
        return _noted(self._table[key], path, self._read)

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


def _noted(value: Any, path: str, read: set[str]) -> Any:
    if isinstance(value, Record):
        return _Recorded(value, path, read)
    if isinstance(value, dict):
        return _RecordedTable(value, path, read)
    if isinstance(value, tuple):
        return tuple(_noted(one, f"{path}[{index}]", read) for index, one in enumerate(value))
    return value
