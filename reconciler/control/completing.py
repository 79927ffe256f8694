"""``llm_complete`` over a language model's driver: a prompt in, text or a checked value out.

Where the profile states that the server takes a schema, it is sent; else the model is told of it in words.
Either way the answer is judged here, by the schema that the call gave, and asked for once more where it does
not fit: another transmission, with a decision of its own. A picture for a model without vision is an error of
its own.
"""

import asyncio
import json
import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from reconciler.model.contract import checker
from reconciler.model.turns import Image, Message, ModelFacts, ModelTurn, Text, Turn

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
_EXACT = 20  # digits, or a sign and digits, of the largest integer of 64 bits


class RefusedError(ValueError):
    """The call cannot be asked; ``code`` is the interface's, the text for operators."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


Ask = Callable[[Turn], Awaitable[ModelTurn]]


@dataclass(frozen=True, slots=True)
class Model:
    """Who is asked: an exact id, and what its profile states."""

    name: str
    facts: ModelFacts


async def complete(
    arguments: Mapping[str, Any], pictures: tuple[bytes, ...], model: Model, ask: Ask
) -> dict[str, Any]:
    """The interface's answer. Raises RefusedError, and what ``ask`` raises."""
    check = _check(arguments["schema"]) if "schema" in arguments else None
    turn = _turn(arguments, pictures, model)
    began = time.monotonic()
    said = [await ask(turn)]
    if check is None:
        return _answer(said, {"text": _shown(said[0]), "valid": True}, began)
    value, fault = await asyncio.to_thread(_value, said[0].text, check)
    if fault:
        again = f"That answer does not fit: {fault}. Answer with JSON that fits the schema, and nothing else."
        more = (Message("assistant", (Text(said[0].text or "-"),)), Message("user", (Text(again),)))
        said.append(await ask(replace(turn, messages=(*turn.messages, *more))))
        value, fault = await asyncio.to_thread(_value, said[1].text, check)
    found: dict[str, Any] = {"text": _shown(said[-1]), "valid": not fault}
    if not fault and len(said[-1].text) <= _MOST_TEXT and _is_held(value):
        found["value"] = value
    return _answer(said, found, began)


def _shown(turn: ModelTurn) -> str:
    return turn.text.encode("utf-8", "replace").decode()[:_MOST_TEXT]


def _answer(said: list[ModelTurn], found: dict[str, Any], began: float) -> dict[str, Any]:
    usage = {
        "inTokens": sum(one.usage.input_tokens for one in said),
        "outTokens": sum(one.usage.output_tokens for one in said),
    }
    return {**found, "usage": usage, "ms": int((time.monotonic() - began) * 1000)}


# what goes in


def _turn(arguments: Mapping[str, Any], pictures: tuple[bytes, ...], model: Model) -> Turn:
    text = arguments["prompt"]
    if arguments.get("input"):
        text = f"{text}\n\n{arguments['input']}"
    images = tuple(_image(data, model.facts) for data in pictures)
    schema = json.loads(arguments["schema"]) if "schema" in arguments else None
    told = [arguments["system"]] if arguments.get("system") else []
    if schema is not None and not model.facts.json_schema:
        told.append(f"Answer with JSON that fits this JSON Schema, and nothing else:\n{json.dumps(schema)}")
        schema = None
    system = (Message("system", (Text("\n\n".join(told)),)),) if told else ()
    most = arguments.get("maxTokens", min(USUAL_TOKENS, model.facts.max_output_tokens or USUAL_TOKENS))
    if model.facts.max_output_tokens is not None and most > model.facts.max_output_tokens:
        raise RefusedError("too_long", f"{most} tokens are asked for, more than the model gives")
    user = Message("user", (*images, Text(text)))
    return Turn(model.name, (*system, user), max_tokens=most, schema=schema)


def _image(data: bytes, facts: ModelFacts) -> Image:
    kind = next((kind for magic, kind in _MAGIC if data.startswith(magic)), None)
    if kind is None and data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "image/webp"
    if kind is None:
        raise RefusedError("unsupported_image", "the file is no PNG, JPEG, GIF or WebP")
    if not facts.vision:
        raise RefusedError("unsupported_image", "the profile does not state that the model reads images")
    return Image(kind, data)


def _check(text: str) -> Callable[[object], str]:
    """The compiled schema; nothing is fetched for it, and its patterns run in linear time."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        raise RefusedError("unsupported_schema", "it is not JSON") from None
    if not isinstance(schema, dict):
        raise RefusedError("unsupported_schema", "it is no object of keywords")
    try:
        return checker(schema)
    except ValueError:
        raise RefusedError("unsupported_schema", "it cannot be compiled") from None


# what comes out


def _value(text: str, check: Callable[[object], str]) -> tuple[Any, str]:
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
    if fault:
        return None, fault[:_MOST_FAULT]
    return value, ""


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
