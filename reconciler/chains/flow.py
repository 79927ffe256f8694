"""The value that flows from task to task, with its type: text, whole number, JSON, conversation, or nothing.

A declared type is trusted; ``narrowed`` infers one where a tool says ``any``, and for the run's output. Whole
numbers stay whole numbers. JSON keeps what it is, floats and truth values included, only inference without a
declaration turns those into text (as the format has it).
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from reconciler.chains import history, strictjson
from reconciler.chains.history import History

_WHOLE = re.compile(r"[+-]?[0-9]{1,300}")

FlowType = Literal["string", "int", "json", "chat_history", "nil", "any"]
TYPES: tuple[FlowType, ...] = ("string", "int", "json", "chat_history", "nil", "any")


@dataclass(frozen=True, slots=True)
class Value:
    """A value and its type. ``data`` is str, int, None, History, or JSON as Python has it, by ``type``."""

    type: FlowType
    data: Any


NIL = Value("nil", None)


def text(content: str) -> Value:
    """A value of type ``string``."""
    return Value("string", content)


def type_named(word: str) -> FlowType:
    """The type of this name, whatever its case; raises ValueError."""
    found = word.strip().lower()
    if found not in TYPES:
        raise ValueError(f"'{word}' is no type: write {', '.join(TYPES)}")
    return found


def inferred(data: object) -> Value:
    """A value of the type that it looks like: null nil, whole numbers int, lists and maps json, else text."""
    if data is None:
        return NIL
    if isinstance(data, History):
        return Value("chat_history", data)
    if isinstance(data, Mapping | list | tuple):
        return Value("json", data)
    if isinstance(data, int) and not isinstance(data, bool):
        return Value("int", data)
    return text(plain(data))


def narrowed(value: Value) -> Value:
    """The same with a type of its own where it is ``any``; every other type is trusted."""
    return inferred(value.data) if value.type == "any" else value


def converted(value: Value, wanted: FlowType) -> Value:
    """The value in another type; raises ValueError where it has no meaning in it."""
    if wanted in ("any", value.type):
        return value
    if wanted == "string":
        return text(plain(value.data))
    if wanted == "int":
        return Value("int", _whole(value.data))
    if wanted == "json":
        return Value("json", _as_json(value.data))
    if wanted == "chat_history":
        if not isinstance(value.data, Mapping):
            raise ValueError(f"{value.type} is no chat history")
        return Value("chat_history", history.from_json(value.data))
    raise ValueError(f"{value.type} is not nothing")


def _whole(data: object) -> int:
    match data:
        case bool():
            raise ValueError("a truth value is no whole number")
        case int():
            return data
        case float() if data == data and abs(data) < 2**63:
            return int(data)
        case str() if _WHOLE.fullmatch(data.strip()):
            return int(data)
        case _:
            raise ValueError("it is no whole number")


def _as_json(data: object) -> Any:
    if isinstance(data, History):
        return history.to_json(data)
    if isinstance(data, str):
        if data[:1] in "{[" and data:
            try:
                return strictjson.read(data)
            except ValueError:
                return data
        return data
    return data


def plain(data: object) -> str:
    """A value as Go's ``%v`` shows it: lists in brackets, maps as ``map[a:1]`` with sorted keys."""
    if isinstance(data, History):
        return serialised(Value("chat_history", data))
    if isinstance(data, Mapping):
        keys = sorted(map(str, data))
        return "map[" + " ".join(f"{key}:{plain(data[key])}" for key in keys) + "]"
    if isinstance(data, Sequence) and not isinstance(data, str):
        return "[" + " ".join(map(plain, data)) + "]"
    if isinstance(data, float):
        return _float(data)
    words = {None: "<nil>", True: "true", False: "false"}
    return words[data] if data is None or isinstance(data, bool) else str(data)


def _float(number: float) -> str:
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else f"{'+' if number > 0 else '-'}Inf"
    if number == int(number) and abs(number) < 1e21:
        return str(int(number)) if abs(number) < 1e15 else f"{number:.0f}"
    return repr(number)


def serialised(value: Value) -> str:
    """A value as a model or a person reads it: JSON where it is JSON, ``null`` for nothing, else its text."""
    data = value.data
    if data is None:
        return "null"
    if isinstance(data, History):
        data = history.to_json(data)
    if isinstance(data, str) and value.type != "json":
        return data
    if value.type in ("json", "any", "chat_history"):
        return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return plain(data)


# to and from JSON, exactly


def to_json(value: Value) -> dict[str, Any]:
    """A value that ``from_json`` gives back as it was."""
    data = history.to_json(value.data) if isinstance(value.data, History) else value.data
    return {"type": value.type, "data": data, "history": isinstance(value.data, History)}


def from_json(stored: Mapping[str, Any]) -> Value:
    """The value that was stored; raises ValueError or KeyError for anything else."""
    data = history.from_json(stored["data"]) if stored["history"] else stored["data"]
    return Value(type_named(stored["type"]), data)
