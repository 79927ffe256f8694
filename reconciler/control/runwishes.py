"""What ``chain.run`` is asked with, read strictly: a value of another kind is refused by its name.

A number too large to be written down, or none at all, is refused before anything is kept of it.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from reconciler.chains import flow, history
from reconciler.chains.asks import ToolFace
from reconciler.chains.flow import Value
from reconciler.control.rpc import Refused
from reconciler.model.chain import Chain

_MOST_TEXT = 10_000  # characters of a name, of a word
_KINDS = "string, chat, json, int or chat_history"


def checked(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same parameters, each of its kind. Raises ``Refused`` for the first that is not."""
    for name, (fits, kind) in _RULES.items():
        given = params.get(name)
        if given is not None and not fits(given):
            raise Refused(f"the run cannot begin: {name!r} is {kind}")
    return params


def _text(given: Any) -> bool:
    return isinstance(given, str) and len(given) <= _MOST_TEXT


def _texts(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(one, str) for one in given)


def _pairs(given: Any) -> bool:
    return isinstance(given, dict) and all(isinstance(one, str) for one in given.values())


def _number(given: Any) -> bool:
    return not isinstance(given, bool) and isinstance(given, int | float) and math.isfinite(given)


def _count(given: Any) -> bool:
    return not isinstance(given, bool) and isinstance(given, int) and 0 <= given < 2**31


def _tools(given: Any) -> bool:
    return isinstance(given, list) and all(map(_tool, given))


def _tool(given: Any) -> bool:
    if not isinstance(given, dict) or not isinstance(given.get("name"), str) or not given["name"]:
        return False
    texts = isinstance(given.get("description", ""), str)
    return texts and isinstance(given.get("parameters") or {}, dict)


_RULES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "chain": (_text, "the id of a chain, a text"),
    "model": (_text, "the name of a model, a text"),
    "agent": (_text, "the name of an agent, a text"),
    "inputType": (_text, f"the input's type, a text: {_KINDS}"),
    "think": (_text, "how much the model thinks, a text"),
    "vars": (_pairs, "an object of texts: NAME: VALUE"),
    "allowlist": (_texts, "a list of providers' names"),
    "temperature": (_number, "a number"),
    "maxTokens": (_count, "a whole number, 0 or more"),
    "clientTools": (_tools, "a list of objects with name, description and parameters"),
}


def client_tools(params: Mapping[str, Any]) -> tuple[ToolFace, ...]:
    """The tools that a caller brings, of checked parameters."""
    given = params.get("clientTools") or ()
    return tuple(
        ToolFace("client", one["name"], one.get("description", ""), one.get("parameters") or {})
        for one in given
    )


def alone(model: str, params: Mapping[str, Any]) -> Chain:
    """A model without a chain: one task that asks it."""
    config: dict[str, Any] = {"model": model, "pass_clients_tools": True}
    if params.get("maxTokens") is not None:
        config["max_tokens"] = params["maxTokens"]
    if params.get("think"):
        config["think"] = params["think"]
    task = {"id": "answer", "handler": "chat_completion", "execute_config": config}
    return Chain.model_validate({"id": "model", "tasks": [task]})


def input_value(given: Any, kind: str) -> Value:
    """The run's input, as its type says; raises ValueError."""
    if isinstance(given, float) and not math.isfinite(given):
        raise ValueError("the input is no number that can be written down")
    if kind == "chat":
        if not isinstance(given, str):
            raise ValueError("an input of type chat is what a user says, a text")
        return Value("chat_history", history.of_text(given))
    if kind in ("chat_history", "messages"):
        return Value("chat_history", history.from_json(given))
    if kind == "json":
        return flow.converted(flow.text(given) if isinstance(given, str) else flow.inferred(given), "json")
    wanted = flow.type_named(kind)
    if wanted in ("nil", "any"):
        return flow.inferred(given)
    return flow.converted(flow.text(given) if isinstance(given, str) else flow.inferred(given), wanted)
