"""How much work it is to hold a value to a JSON Schema that somebody gave. Pure.

References and branches may lead to the same again and again: of a schema of thirty short lines a value can be
judged a thousand million times. So the steps are counted before they are done, up to a bound: every keyword
that applies a schema, to every part of the value that it would be applied to. What a reference means is known
where it is a pointer into the schema; one that cannot be followed here counts as too much.
"""

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

_SAME = ("allOf", "anyOf", "oneOf")
_ALSO = ("not", "if", "then", "else")
_WHERE = ("dependentSchemas", "dependencies")  # the older name is obeyed, too
_UNKNOWN = ("$dynamicRef", "$recursiveRef")
_EACH = ("additionalProperties", "unevaluatedProperties")
_ITEMS = ("items", "contains", "unevaluatedItems")
_AGAIN = ("unevaluatedProperties", "unevaluatedItems")  # for which the rest is judged once more


def steps(schema: object, value: object, most: int) -> int:
    """How many steps it takes; more than ``most`` where it takes more, or nobody can say."""
    done, left = 0, [(schema, value)]
    while left:
        one, part = left.pop()
        done += 1
        if done + len(left) > most:
            return most + 1
        if not isinstance(one, dict):
            continue
        if any(key in one for key in _UNKNOWN) or ("$id" in one and one is not schema):
            return most + 1
        if "$ref" in one:
            target = _target(one["$ref"], schema)
            if target is None:
                return most + 1
            left.append((target, part))
        times = 2 if any(key in one for key in _AGAIN) else 1
        left += [*islice(chain(_of_itself(one, part), _below(one, part)), most)] * times
    return done


def _of_itself(schema: dict[str, Any], value: object) -> Iterator[tuple[object, object]]:
    for key in _SAME:
        if isinstance(many := schema.get(key), list):
            yield from ((one, value) for one in many)
    yield from ((schema[key], value) for key in _ALSO if key in schema)
    for key in _WHERE:
        if isinstance(named := schema.get(key), dict):
            yield from ((one, value) for one in named.values())


def _below(schema: dict[str, Any], value: object) -> Iterator[tuple[object, object]]:
    if isinstance(value, dict):
        named, patterns = schema.get("properties"), schema.get("patternProperties")
        each = [schema[key] for key in _EACH if key in schema]
        each += patterns.values() if isinstance(patterns, dict) else ()
        if isinstance(named, dict):
            yield from ((named[name], part) for name, part in value.items() if name in named)
        yield from ((one, part) for part in value.values() for one in each)
        yield from ((one, name) for one in [schema.get("propertyNames")] if one for name in value)
    elif isinstance(value, list):
        first = schema.get("prefixItems")
        yield from zip(first if isinstance(first, list) else (), value, strict=False)
        yield from ((schema[key], part) for key in _ITEMS if key in schema for part in value)


def _target(reference: object, root: object) -> object | None:
    """What a pointer into the schema leads to; None for any other reference."""
    if not isinstance(reference, str) or (reference != "#" and not reference.startswith("#/")):
        return None
    found = root
    for part in reference.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        elif isinstance(found, dict) and name in found:
            found = found[name]
        else:
            return None
    return found
