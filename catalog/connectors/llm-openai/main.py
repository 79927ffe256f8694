"""Asks a server that speaks OpenAI's chat completions: the tool of the llm interface, one request a turn.

Nothing is sent twice but the one second try that the interface knows: a server that failed may have counted
the tokens. What a server says in words of its own is read for one thing, whether it names a known fault, and
is not kept.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import completing
from handler_connector import Failure, Unanswered, ask, serve

if TYPE_CHECKING:
    from handler_connector import Call

_TIMEOUT_S = 115  # both turns together; the call has 120
_NAMED = {  # what servers call a prompt that is too long, in "code" or "type"
    "context_length_exceeded": "too_long",
    "exceed_context_size_error": "too_long",
    "string_above_max_length": "too_long",
    "image_parse_error": "unsupported_image",
    "invalid_image_format": "unsupported_image",
    "invalid_json_schema": "unsupported_schema",
}
_ISSUE = re.compile(
    r"(?:[-@:](?:latest|[0-9]{3,8}(?:-[0-9]{2}){0,2}))?"
)  # after a model's name: of which day
_MOST_TOKENS = 2**53  # what every reader of JSON keeps
_WORDS = {
    401: "the key is not taken (HTTP 401)",
    403: "the key may not do this (HTTP 403)",
    404: "the server has no such model or address (HTTP 404)",
    413: "the server takes no request of that size (HTTP 413)",
    429: "the quota is used up for now (HTTP 429)",
}


def complete(arguments: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """``llm_complete``: what the server's model answers."""
    model = arguments.get("model") or os.environ.get("LLM_MODEL")
    if not model:
        raise Failure("unavailable", "no model is named: write models, or settings.model, in the binding")
    deadline = time.monotonic() + _TIMEOUT_S

    def ask(messages: list[dict[str, Any]], schema: dict[str, Any] | None, most: int) -> completing.Turn:
        if call.cancelled.is_set():
            raise Failure("unavailable", "cancelled")
        body = _body(str(model), messages, schema, most)
        return _turn(_asked(body, max(deadline - time.monotonic(), 1.0)), str(model))

    window = int(os.environ.get("LLM_CONTEXT_TOKENS") or 128_000)
    return completing.complete(arguments, ask, window=window, sees=os.environ.get("LLM_IMAGES") == "true")


def _body(
    model: str, messages: list[dict[str, Any]], schema: dict[str, Any] | None, most: int
) -> dict[str, Any]:
    field = os.environ.get("LLM_TOKENS_FIELD") or "max_tokens"
    body: dict[str, Any] = {"model": model, "messages": messages, field: most, "stream": False}
    way = os.environ.get("LLM_ANSWERS") or "json_schema"
    if schema is None:
        return body
    if way == "json_schema":
        body["response_format"] = {"type": way, "json_schema": {"name": "answer", "schema": schema}}
        return body
    if way == "json_object":
        body["response_format"] = {"type": way}
    told = f"Answer with JSON that fits this JSON Schema, and nothing else:\n{json.dumps(schema)}"
    return {**body, "messages": [{"role": "system", "content": told}, *messages]}


def _asked(body: dict[str, Any], timeout_s: float) -> Any:
    url = f"{os.environ['LLM_SERVER'].rstrip('/')}/chat/completions"
    try:
        return ask(url, body, timeout_s=timeout_s)
    except Unanswered as fault:
        code = _named(fault.body) or ("too_long" if fault.status == 413 else "unavailable")
        raise Failure(code, _WORDS.get(fault.status, str(fault))) from fault


def _named(body: Any) -> str | None:
    """The interface's code for what a server's error names, or None."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return None
    return next((_NAMED[word] for key in ("code", "type") if (word := str(error.get(key))) in _NAMED), None)


def _is_the_same(named: Any, model: str) -> bool:
    """Whether the model that a server names is the one that was asked for, as strictly as is set up."""
    how = os.environ.get("LLM_ECHO") or "dated"
    if how == "any" or named == model:
        return True
    if how == "exact":
        return False
    text = str(named or model)  # many servers name none
    return text.startswith(model) and bool(_ISSUE.fullmatch(text.removeprefix(model)))


def _turn(answer: Any, model: str) -> completing.Turn:
    if isinstance(answer, dict) and not _is_the_same(answer.get("model"), model):
        raise Failure("unavailable", "answered with another model than was asked for (settings.echo)")
    try:
        message = answer["choices"][0]["message"]
        text = message.get("content") or ""
        usage = answer.get("usage") or {}
        counts = [usage.get(key, 0) for key in ("prompt_tokens", "completion_tokens")]
    except (TypeError, KeyError, IndexError, AttributeError):
        raise Failure("unavailable", "the answer is no chat completion") from None
    if not isinstance(text, str) or not all(type(one) is int and 0 <= one < _MOST_TOKENS for one in counts):
        raise Failure("unavailable", "the answer is no chat completion")
    if not text and message.get("refusal"):
        raise Failure("unavailable", "the model declined to answer")
    return completing.Turn(text.encode("utf-8", "replace").decode(), *counts)


if __name__ == "__main__":
    serve({"llm_complete": complete})
