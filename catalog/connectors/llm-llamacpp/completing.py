"""One completion as llm/v1 wants it, whoever speaks to the model: messages in, text or a checked value out.

A value is judged here, by the schema that the call gave: a server that takes a schema and ignores it is
found out. An answer that does not fit is asked for once more, with the fault; then it is what it is, and
``valid`` is false.
"""

from __future__ import annotations

import base64
import json
import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import labour
from handler_connector import Failure

USUAL_TOKENS = 2048  # where the caller says nothing, as the interface has it
_DEEPEST = 5  # levels that llm/v1 lets a value have; of deeper ones the text alone comes back
_FENCE = re.compile(r"\A\s*```(?:json)?\s*\n(.*)\n\s*```\s*\Z", re.DOTALL)
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_MOST_TEXT = 1_000_000  # characters that llm/v1 lets an answer hold
_MOST_ITEMS = 100_000  # of an array in it
_MOST_FAULT = 500
_MOST_STEPS, _TELLING_STEPS = 50_000, 10_000  # of judging a value, and up to which a fault is told in words
_EXACT = 20  # digits, or a sign and digits, of the largest integer of 64 bits

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """What a model wrote, and the tokens that it read and wrote."""

    text: str
    in_tokens: int
    out_tokens: int


Ask = Callable[[list[Message], "dict[str, Any] | None", int], Turn]


def complete(arguments: Mapping[str, Any], ask: Ask, *, window: int, sees: bool) -> dict[str, Any]:
    """``llm_complete``. ``window`` is how many tokens the model holds, ``sees`` whether it reads images."""
    most = arguments.get("maxTokens", min(USUAL_TOKENS, max(window // 2, 1)))
    if most >= window:
        raise Failure("too_long", f"{most} tokens are asked for, and the model holds {window}")
    schema = _schema(arguments["schema"]) if "schema" in arguments else None
    messages = _messages(arguments, sees=sees)
    began = time.monotonic()
    turns = [ask(messages, schema, most)]
    if schema is None:
        return _answer(turns, {"text": turns[0].text[:_MOST_TEXT], "valid": True}, began)
    check = partial(_fault, _check(schema), schema)
    value, fault = _value(turns[0].text, check)
    if fault:
        again = f"That answer does not fit: {fault}. Answer with JSON that fits the schema, and nothing else."
        messages += [{"role": "assistant", "content": turns[0].text}, {"role": "user", "content": again}]
        turns.append(ask(messages, schema, most))
        value, fault = _value(turns[1].text, check)
    found: dict[str, Any] = {"text": turns[-1].text[:_MOST_TEXT], "valid": not fault}
    if not fault and len(turns[-1].text) <= _MOST_TEXT and _is_held(value):
        found["value"] = value
    return _answer(turns, found, began)


def _answer(turns: list[Turn], found: dict[str, Any], began: float) -> dict[str, Any]:
    usage = {
        "inTokens": sum(turn.in_tokens for turn in turns),
        "outTokens": sum(turn.out_tokens for turn in turns),
    }
    return {**found, "usage": usage, "ms": int((time.monotonic() - began) * 1000)}


# what goes in


def _messages(arguments: Mapping[str, Any], *, sees: bool) -> list[Message]:
    text = arguments["prompt"]
    if arguments.get("input"):
        text = f"{text}\n\n{arguments['input']}"
    images = [_image(file, sees=sees) for file in arguments.get("images", ())]
    content: Any = [*images, {"type": "text", "text": text}] if images else text
    system = [{"role": "system", "content": arguments["system"]}] if arguments.get("system") else []
    return [*system, {"role": "user", "content": content}]


def _image(file: Any, *, sees: bool) -> dict[str, Any]:
    head = file.read(16)
    kind = next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)
    if kind is None and head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        kind = "image/webp"
    if kind is None:
        raise Failure("unsupported_image", "the file is no PNG, JPEG, GIF or WebP")
    if not sees:
        raise Failure("unsupported_image", "the binding says that the model reads no images")
    data = base64.b64encode(file.read()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}


def _schema(text: str) -> dict[str, Any]:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        raise Failure("unsupported_schema", "it is not JSON") from None
    if not isinstance(schema, dict):
        raise Failure("unsupported_schema", "it is no object of keywords")
    if labour.steps(schema, None, _TELLING_STEPS) > _TELLING_STEPS:
        raise Failure("unsupported_schema", "its references and branches lead to the same too often")
    _check(schema)
    return schema


def _check(schema: dict[str, Any]) -> Any:
    """The compiled schema; nothing is fetched for it, and its patterns run in linear time."""
    import jsonschema_rs  # noqa: PLC0415 - the start does not need it

    try:
        return jsonschema_rs.Draft202012Validator(
            schema,
            retriever=_refuse,
            validate_formats=False,
            pattern_options=jsonschema_rs.RegexOptions(),
        )
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as fault:
        raise Failure("unsupported_schema", f"it cannot be compiled: {type(fault).__name__}") from None


def _refuse(uri: str) -> NoReturn:
    raise ValueError("references to elsewhere are refused")


# what comes out


def _value(text: str, check: Any) -> tuple[Any, str]:
    """The answer as a value and "", or None and why it is none that fits."""
    fenced = _FENCE.match(text)
    try:
        value = json.loads(
            fenced[1] if fenced else text, parse_float=_number, parse_int=_whole, parse_constant=_no_number
        )
        json.dumps(value, ensure_ascii=False).encode()  # half a character is no text
        fault = check(value)
    except (ValueError, RecursionError):
        return None, "it is not JSON"
    return (None, fault[:_MOST_FAULT]) if fault else (value, "")


def _fault(check: Any, schema: dict[str, Any], value: object) -> str:
    """Where a value does not fit, or ""; one that would take for ever to judge fits no schema."""
    taken = labour.steps(schema, value, _MOST_STEPS)
    if taken > _MOST_STEPS:
        return "it takes too long to hold it to the schema"
    if taken > _TELLING_STEPS:
        return "" if check.is_valid(value) else "it does not fit the schema"
    fault = next(check.iter_errors(value), None)
    return "" if fault is None else fault.message


def _number(word: str) -> float:
    number = float(word)
    if not math.isfinite(number):
        raise ValueError("a number beyond what is counted with")
    return number


def _whole(word: str) -> int | float:
    """An integer; one of more than 64 bits, which readers of JSON do not keep, as they read it."""
    number = int(word) if len(word) <= _EXACT else 0
    return number if len(word) <= _EXACT and -(2**63) <= number < 2**64 else _number(word)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")


def _is_held(value: Any) -> bool:
    """Whether llm/v1's answer has room for it: levels of objects and arrays, and items of an array."""
    depth, level = 0, [value]
    while level := [one for one in level if isinstance(one, dict | list)]:
        depth += 1
        if depth > _DEEPEST or any(isinstance(one, list) and len(one) > _MOST_ITEMS for one in level):
            return False
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return True
