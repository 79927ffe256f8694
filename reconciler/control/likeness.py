"""How far two answers to one question are alike, told by paths of fields and never by a value. Pure.

A path names what the interface's schema names: ``pages[].text``. A key that no schema names may be payload
itself and stands as ``*``; places in a list are not told apart. A field that differs anywhere differs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_NODES = 50_000  # values of an answer that are looked at
_PATHS = 100  # of each sort that are told
_WHOLE = "(the whole)"


@dataclass(frozen=True, slots=True)
class Likeness:
    """The fields that are equal everywhere, and those that are not; ``cut`` when not all was looked at."""

    equal: tuple[str, ...]
    different: tuple[str, ...]
    cut: bool = False


def named(schema: object) -> frozenset[str]:
    """Every property that a schema names, at any depth."""
    return frozenset(_named(schema))


def compared(own: object, other: object, known: frozenset[str]) -> Likeness:
    """What of two answers is alike; ``known`` are the names that may be told."""
    found: dict[str, bool] = {}
    stack: list[tuple[str, Any, Any]] = [("", own, other)]
    nodes = 0
    while stack and nodes < _NODES:
        nodes += 1
        path, one, two = stack.pop()
        if isinstance(one, Mapping) and isinstance(two, Mapping):
            stack += (
                (_under(path, key, known), one.get(key, _NONE), two.get(key, _NONE)) for key in {*one, *two}
            )
        elif isinstance(one, list) and isinstance(two, list):
            within = f"{path}[]"
            if len(one) != len(two):
                found[within] = False
            stack += ((within, *pair) for pair in zip(one, two, strict=False))
        else:
            same = one == two and isinstance(one, bool) == isinstance(two, bool)
            found[path] = found.get(path, True) and same
    equal = sorted(path or _WHOLE for path, same in found.items() if same)
    different = sorted(path or _WHOLE for path, same in found.items() if not same)
    cut = bool(stack) or max(len(equal), len(different)) > _PATHS
    return Likeness(tuple(equal[:_PATHS]), tuple(different[:_PATHS]), cut)


_NONE = object()  # a field that the other answer has and this one has not


def _under(path: str, key: str, known: frozenset[str]) -> str:
    word = key if key in known else "*"
    return f"{path}.{word}" if path else word


def _named(schema: object) -> Iterator[str]:
    if isinstance(schema, Mapping):
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            yield from properties
        for inner in schema.values():
            yield from _named(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _named(inner)
