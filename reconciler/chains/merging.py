"""What a task's own tool is called with: what flows to it, and its fixed arguments over that.

An object that flows is the arguments; a conversation is the words of its last message. A text or a number
fills the one required argument that is still unset and takes it (a file's ``content``), else an argument
named ``input``, where the tool has one. Fixed arguments are written as text, and become what the schema asks
for: a whole number, a number, a truth value, JSON. What does not fit stays as it is: the router refuses it.
"""

import json
from collections.abc import Mapping
from typing import Any

from reconciler.chains.flow import Value
from reconciler.chains.history import History

_INPUT = "input"


def arguments(schema: Mapping[str, Any], value: Value, static: Mapping[str, str]) -> dict[str, Any]:
    """The arguments, whole: what a policy judges, and what the tool gets."""
    properties = schema.get("properties", {})
    fixed = {key: _typed(text, properties.get(key, {})) for key, text in static.items()}
    data = value.data
    if isinstance(data, Mapping):
        return {**data, **fixed}
    if isinstance(data, History):
        data = data.last.content if data.last else ""
    if data is None or data == "":
        return fixed
    unset = [key for key in schema.get("required", ()) if key not in fixed]
    free = [key for key in unset if _takes(properties.get(key), data)]
    if len(free) == 1:
        return {free[0]: data, **fixed}
    named = _INPUT in properties or not properties
    return {_INPUT: data, **fixed} if named and _INPUT not in fixed else fixed


def _takes(schema: Any, data: Any) -> bool:
    kinds = schema.get("type") if isinstance(schema, Mapping) else None
    named = {kinds} if isinstance(kinds, str) else set(kinds or ())
    if isinstance(data, str):
        return "string" in named
    if isinstance(data, int):
        return bool(named & {"integer", "number"})
    return isinstance(data, list) and "array" in named


def _typed(text: str, schema: Mapping[str, Any]) -> Any:
    """A fixed argument as its schema has it; the text where it is none of that."""
    kinds = schema.get("type")
    named = {kinds} if isinstance(kinds, str) else set(kinds or ())
    if not named or "string" in named:
        return text
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    kind: tuple[type, ...] = ()
    for name in named:
        kind += _KINDS.get(name, ())
    is_right = isinstance(found, kind) and (not isinstance(found, bool) or "boolean" in named)
    return found if is_right else text


_KINDS: Mapping[str, tuple[type, ...]] = {
    "integer": (int,), "number": (int, float), "boolean": (bool,), "array": (list,), "object": (dict,),
    "null": (type(None),),
}  # fmt: skip
