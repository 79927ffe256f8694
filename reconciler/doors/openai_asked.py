"""What a client of the OpenAI-compatible door asks: a body of JSON in, a turn of a conversation out.

Strict in what is understood and silent about what is not: a field that would change the answer and cannot be
honoured is refused with its name; fields that nobody here knows are passed over. Pictures come inline
(``data:``); nothing is ever fetched. Source: OpenAI's OpenAPI file of 2026-08-21.
"""

import base64
import binascii
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import orjson

from reconciler.chains import history
from reconciler.model.turns import (
    Image,
    Message,
    Part,
    Role,
    Text,
    Think,
    ToolResult,
    ToolSpec,
    ToolUse,
    Turn,
)

CHAIN = "chain:"  # before a chain's id where a model is named
DEFAULT = "default"  # as a model: the agent's first
CLIENT = "client"  # the provider whose tools are those that a client brings

_ROLES: Mapping[str, Role] = {
    "system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool",
}  # fmt: skip
_THINKS: Mapping[str, Think] = {
    "none": "off", "minimal": "minimal", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh",
}  # fmt: skip
_DATA = re.compile(r"data:(image/[a-z0-9.+-]{1,64})(?:;[a-z0-9=._-]{1,64}){0,4};base64,", re.IGNORECASE)
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MOST_MESSAGES = 4096
_MOST_PARTS = 256  # of one message
_MOST_TOOLS = 128
_MOST_STOPS = 16
_LONGEST_STOP = 256  # characters


class BadRequest(Exception):  # noqa: N818 - a verdict on what was sent
    """What is wrong with a request, in a sentence for whoever wrote it; ``param`` names the field."""

    def __init__(self, message: str, param: str = "", code: str = "") -> None:
        super().__init__(message)
        self.message, self.param, self.code = message, param, code


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. ``turn.model`` is what was named ("" for the first of all); ``chain`` is a chain's id
    where that was one. ``with_usage``: a stream ends with what was counted.
    """

    turn: Turn
    chain: str = ""
    with_usage: bool = False


def read(body: bytes) -> Asked:
    """The request that a body is; raises ``BadRequest``."""
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError as fault:
        raise BadRequest(f"the body is no JSON: {fault}") from None
    if not isinstance(asked, dict):
        raise BadRequest("the body is no JSON object")
    _refuse(asked)
    model = _text(asked, "model")
    chain = model.removeprefix(CHAIN) if model.startswith(CHAIN) else ""
    options = _record(asked, "stream_options")
    tools = _tools(asked)
    turn = Turn(
        model="" if chain or model == DEFAULT else model,
        messages=_messages(asked),
        tools=tools,
        tool_choice=_choice(asked, tools),
        max_tokens=_count(asked, "max_completion_tokens") or _count(asked, "max_tokens"),
        temperature=_number(asked, "temperature", 2.0),
        top_p=_number(asked, "top_p", 1.0),
        seed=_seed(asked),
        stop=_stops(asked.get("stop")),
        think=_think(asked),
        schema=_schema(asked),
        stream=_flag(asked, "stream"),
    )
    return Asked(turn, chain, _flag(options, "include_usage"))


def as_history(messages: tuple[Message, ...]) -> dict[str, Any]:
    """The messages as the input of a chain, a history in JSON: calls of the client's own tools bear the name
    of the provider ``client``.
    """
    return history.to_json(history.History(tuple(map(_kept, messages))))


def _kept(message: Message) -> history.Message:
    result = next((one for one in message.parts if isinstance(one, ToolResult)), None)
    if result is not None:
        return history.Message("tool", result.text, tool_call_id=result.id)
    return history.Message(
        cast("history.Role", message.role),
        "\n".join(one.text for one in message.parts if isinstance(one, Text)),
        images=tuple(
            history.Image(base64.b64encode(one.data).decode(), one.media_type)
            for one in message.parts
            if isinstance(one, Image)
        ),
        calls=tuple(
            history.ToolCall(one.id, f"{CLIENT}.{one.name}", one.arguments)
            for one in message.parts
            if isinstance(one, ToolUse)
        ),
    )


# what cannot be honoured


def _refuse(asked: Mapping[str, Any]) -> None:
    """Raise for what would change the answer and is not done here."""
    if asked.get("n") not in (None, 1):
        raise BadRequest("one answer is given: 'n' is 1", "n", "unsupported_value")
    if asked.get("logprobs") or asked.get("top_logprobs"):
        raise BadRequest("log probabilities are not given", "logprobs", "unsupported_value")
    modalities = asked.get("modalities") or ["text"]
    if modalities != ["text"] or asked.get("audio"):
        raise BadRequest("answers are text: 'modalities' is [\"text\"]", "modalities", "unsupported_value")
    if asked.get("functions") or asked.get("function_call"):
        raise BadRequest("'functions' is the older form: write 'tools'", "functions", "unsupported_value")


# messages


def _messages(asked: Mapping[str, Any]) -> tuple[Message, ...]:
    given = asked.get("messages")
    if not isinstance(given, list) or not given:
        raise BadRequest("'messages' is a list with one message at least", "messages")
    if len(given) > _MOST_MESSAGES:
        raise BadRequest(f"more than {_MOST_MESSAGES} messages", "messages")
    return tuple(_message(one, f"messages[{number}]") for number, one in enumerate(given))


def _message(given: object, at: str) -> Message:
    if not isinstance(given, dict):
        raise BadRequest(f"{at} is no object", at)
    role = _ROLES.get(given.get("role") or "") if isinstance(given.get("role"), str) else None
    if role is None:
        names = ", ".join(_ROLES)
        raise BadRequest(f"{at}.role is not one of {names}", f"{at}.role")
    parts = _parts(given.get("content"), f"{at}.content")
    if role == "tool":
        call = given.get("tool_call_id")
        if not isinstance(call, str) or not call:
            raise BadRequest(f"{at}.tool_call_id names the call that is answered", f"{at}.tool_call_id")
        text = "\n".join(one.text for one in parts if isinstance(one, Text))
        parts = (ToolResult(call, text), *(one for one in parts if not isinstance(one, Text)))
    if role == "assistant":
        parts += _wishes(given.get("tool_calls"), f"{at}.tool_calls")
    if role != "user" and any(isinstance(one, Image) for one in parts):
        raise BadRequest(f"{at}: a picture stands in a message of the user", f"{at}.content")
    if not parts and role != "assistant":
        raise BadRequest(f"{at}.content is text, or a list of parts", f"{at}.content")
    return Message(role, parts)


def _parts(content: object, at: str) -> tuple[Part, ...]:
    if content is None:
        return ()
    if isinstance(content, str):
        return (Text(content),)
    if not isinstance(content, list):
        raise BadRequest(f"{at} is text, or a list of parts", at)
    if len(content) > _MOST_PARTS:
        raise BadRequest(f"{at} has more than {_MOST_PARTS} parts", at)
    parts = [_part(one, f"{at}[{number}]") for number, one in enumerate(content)]
    words = [one.text for one in parts if isinstance(one, Text)]
    pictures = [one for one in parts if isinstance(one, Image)]
    return (*((Text("\n".join(words)),) if words else ()), *pictures)


def _part(given: object, at: str) -> Text | Image:
    kind = given.get("type") if isinstance(given, dict) else None
    if isinstance(given, dict) and kind in ("text", "refusal"):
        text = given.get(kind)
        if not isinstance(text, str):
            raise BadRequest(f"{at}.{kind} is text", f"{at}.{kind}")
        return Text(text)
    if isinstance(given, dict) and kind == "image_url":
        shown = given.get("image_url")
        url = shown.get("url") if isinstance(shown, dict) else None
        if not isinstance(url, str):
            raise BadRequest(f"{at}.image_url.url is missing", f"{at}.image_url.url")
        return _image(url, f"{at}.image_url.url")
    raise BadRequest(f"{at}.type is 'text' or 'image_url'", f"{at}.type", "unsupported_value")


def _image(url: str, at: str) -> Image:
    head = _DATA.match(url)
    if head is None:
        raise BadRequest(
            f"{at} is a picture of its own, data:image/…;base64,…: nothing is fetched",
            at,
            "invalid_image_url",
        )
    try:
        data = base64.b64decode(url[head.end() :], validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest(f"{at} is no base64", at, "invalid_image_url") from None
    if not data:
        raise BadRequest(f"{at} is empty", at, "invalid_image_url")
    return Image(head[1].lower(), data)


def _wishes(given: object, at: str) -> tuple[ToolUse, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or len(given) > _MOST_TOOLS:
        raise BadRequest(f"{at} is a list of at most {_MOST_TOOLS} calls", at)
    return tuple(_wish(one, f"{at}[{number}]") for number, one in enumerate(given))


def _wish(given: object, at: str) -> ToolUse:
    function = given.get("function") if isinstance(given, dict) else None
    call = given.get("id") if isinstance(given, dict) else None
    if not isinstance(function, dict) or not isinstance(call, str) or not call:
        raise BadRequest(f"{at} is a call of a function, with an id", at)
    name, arguments = function.get("name"), function.get("arguments", "{}")
    if not isinstance(name, str) or not isinstance(arguments, str):
        raise BadRequest(f"{at}.function has a name, and arguments as text", f"{at}.function")
    return ToolUse(call, name, arguments)


# settings


def _tools(asked: Mapping[str, Any]) -> tuple[ToolSpec, ...]:
    given = asked.get("tools") or []
    if not isinstance(given, list) or len(given) > _MOST_TOOLS:
        raise BadRequest(f"'tools' is a list of at most {_MOST_TOOLS}", "tools")
    found = tuple(_tool(one, f"tools[{number}]") for number, one in enumerate(given))
    if len({one.name for one in found}) != len(found):
        raise BadRequest("two tools have the same name", "tools")
    return found


def _tool(given: object, at: str) -> ToolSpec:
    function = given.get("function") if isinstance(given, dict) and given.get("type") == "function" else None
    if not isinstance(function, dict):
        raise BadRequest(f"{at} is no tool of type 'function'", at, "unsupported_value")
    name, description = function.get("name"), function.get("description") or ""
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
        raise BadRequest(f"{at}.function.name is not [A-Za-z0-9_-], 64 at most", f"{at}.function.name")
    if not isinstance(description, str) or not isinstance(parameters, dict):
        raise BadRequest(
            f"{at}.function: a text describes it, a JSON Schema its parameters", f"{at}.function"
        )
    return ToolSpec(name, description, parameters)


def _choice(asked: Mapping[str, Any], tools: tuple[ToolSpec, ...]) -> str:
    given = asked.get("tool_choice")
    if given is None or given in ("auto", "none", "required"):
        return str(given or "") if tools else ""
    function = given.get("function") if isinstance(given, dict) and given.get("type") == "function" else None
    name = function.get("name") if isinstance(function, dict) else None
    if name not in [one.name for one in tools]:
        raise BadRequest(
            "'tool_choice' is 'auto', 'none', 'required', or names one of the tools", "tool_choice"
        )
    return f"tool:{name}"


def _stops(given: object) -> tuple[str, ...]:
    stops = [given] if isinstance(given, str) else [] if given is None else given
    if not isinstance(stops, list) or not all(isinstance(one, str) for one in stops):
        raise BadRequest("'stop' is a text, or a list of texts", "stop")
    found = tuple(dict.fromkeys(one for one in stops if one))
    if len(found) > _MOST_STOPS or any(len(one) > _LONGEST_STOP for one in found):
        raise BadRequest(f"'stop' has {_MOST_STOPS} texts of {_LONGEST_STOP} characters at most", "stop")
    return found


def _schema(asked: Mapping[str, Any]) -> Mapping[str, object] | None:
    wanted = _record(asked, "response_format")
    kind = wanted.get("type", "text")
    if kind == "text":
        return None
    inner = wanted.get("json_schema")
    schema = inner.get("schema") if isinstance(inner, dict) else None
    if kind != "json_schema" or not isinstance(schema, dict):
        raise BadRequest(
            "'response_format' is 'text', or 'json_schema' with a schema",
            "response_format",
            "unsupported_value",
        )
    return cast("Mapping[str, object]", schema)


def _think(asked: Mapping[str, Any]) -> Think | None:
    word = asked.get("reasoning_effort")
    if word is None:
        return None
    if not isinstance(word, str) or word not in _THINKS:
        raise BadRequest(f"'reasoning_effort' is one of {', '.join(_THINKS)}", "reasoning_effort")
    return _THINKS[word]


def _text(asked: Mapping[str, Any], key: str) -> str:
    found = asked.get(key)
    if found is None:
        return ""
    if not isinstance(found, str) or len(found) > 256:
        raise BadRequest(f"'{key}' is a text of 256 characters at most", key)
    return found


def _record(asked: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = asked.get(key)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise BadRequest(f"'{key}' is an object", key)
    return found


def _flag(asked: Mapping[str, Any], key: str) -> bool:
    found = asked.get(key)
    if found is not None and not isinstance(found, bool):
        raise BadRequest(f"'{key}' is true or false", key)
    return bool(found)


def _count(asked: Mapping[str, Any], key: str) -> int | None:
    found = asked.get(key)
    if found is None:
        return None
    if type(found) is not int or not 1 <= found <= 2**31:
        raise BadRequest(f"'{key}' is a whole number, 1 at least", key)
    return found


def _seed(asked: Mapping[str, Any]) -> int | None:
    found = asked.get("seed")
    if found is not None and type(found) is not int:
        raise BadRequest("'seed' is a whole number", "seed")
    return found


def _number(asked: Mapping[str, Any], key: str, most: float) -> float | None:
    found = asked.get(key)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        raise BadRequest(f"'{key}' is a number", key)
    if not 0 <= found <= most:
        raise BadRequest(f"'{key}' is from 0 to {most:g}", key)
    return float(found)
