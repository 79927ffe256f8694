"""How deep a JSON Schema lets its instances be nested. Pure.

A closed schema bounds that by itself, so what it allows need not be walked again to see that it is not nested
too deep: the walk would cost more than all other checks of a large answer. Where nothing is said of an
instance (an open record, an empty schema, one that contains itself) there is no bound.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_MOST_LOOKS = 20_000  # some 20 ms; what is larger is walked call by call
_PARTS = ("allOf", "anyOf", "oneOf")


def nesting(schema: object) -> int | None:
    """The most levels of objects and arrays of any instance, 0 for a plain value; None: there is no bound."""
    return _levels(schema, _Root(schema), ())


@dataclass(slots=True)
class _Root:
    """What references point into, and how much of it may still be looked at: they may repeat without end."""

    schema: object
    left: int = _MOST_LOOKS


def _levels(schema: object, root: _Root, inside: tuple[str, ...]) -> int | None:
    """``inside`` holds the references that led here."""
    root.left -= 1
    if schema is False:
        return 0
    if not isinstance(schema, Mapping) or root.left < 0:
        return None
    found = [bound for bound in _bounds(schema, root, inside) if bound is not None]
    return min(found) if found else None  # every keyword must hold, so the narrowest bound does


def _bounds(schema: Mapping[str, Any], root: _Root, inside: tuple[str, ...]) -> Iterable[int | None]:
    if "enum" in schema and isinstance(schema["enum"], list):
        yield max((depth(value) for value in schema["enum"]), default=0)
    if "const" in schema:
        yield depth(schema["const"])
    if isinstance(reference := schema.get("$ref"), str) and reference not in inside:
        yield _levels(_target(reference, root.schema), root, (*inside, reference))
    for part in _PARTS:
        if isinstance(schemas := schema.get(part), list):
            bounds = [_levels(one, root, inside) for one in schemas]
            yield _narrowest(bounds) if part == "allOf" else _widest(bounds)
    yield _of_types(schema, root, inside)


def _of_types(schema: Mapping[str, Any], root: _Root, inside: tuple[str, ...]) -> int | None:
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not isinstance(kinds, list) or not kinds:
        return None
    levels: list[int | None] = [0]
    if "object" in kinds:
        levels.append(_more(_widest([_levels(one, root, inside) for one in _members(schema)])))
    if "array" in kinds:
        levels.append(_more(_widest([_levels(one, root, inside) for one in _items(schema)])))
    return _widest(levels)


def _members(schema: Mapping[str, Any]) -> Iterable[object]:
    for keyword in ("properties", "patternProperties"):
        if isinstance(named := schema.get(keyword), Mapping):
            yield from named.values()
    yield schema.get("additionalProperties", True)


def _items(schema: Mapping[str, Any]) -> Iterable[object]:
    if isinstance(first := schema.get("prefixItems"), list):
        yield from first
    yield schema.get("items", True)


def _target(reference: str, root: object) -> object:
    """What a reference of the schema's own means; True (anything) for every other."""
    if not reference.startswith("#"):
        return True
    found = root
    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or name not in found:
            return True
        found = found[name]
    return found


def _more(levels: int | None) -> int | None:
    return None if levels is None else levels + 1


def _widest(levels: Sequence[int | None]) -> int | None:
    known = [one for one in levels if one is not None]
    return max(known, default=0) if len(known) == len(levels) else None


def _narrowest(levels: Sequence[int | None]) -> int | None:
    return min((one for one in levels if one is not None), default=None)


def depth(value: object) -> int:
    """How many levels of objects and arrays a value has, 0 for a plain one."""
    if isinstance(value, dict):
        return 1 + max((depth(item) for item in value.values()), default=0)
    if isinstance(value, list):
        return 1 + max((depth(item) for item in value), default=0)
    return 0
