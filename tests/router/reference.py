"""What a line from an agent must be answered, written a second time: plainly, slowly, from the rules.

It reads with the standard library and shares no code with the router; what the two disagree on, one of them
has wrong. The connector behind it answers every call with the call's own arguments, at once.
"""

import json
from typing import Any, NoReturn

PARSE, INVALID, METHOD, PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
VERSION_UNSUPPORTED, CAPABILITY_MISSING = -32022, -32021
MODERN = "2026-07-28"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
META = "io.modelcontextprotocol/"
DEPTH = 64
SUBSCRIPTIONS = 16

Answer = tuple[Any, ...]  # (id, code) of an error, (id, word, what it says) of a result


class Reference:
    """One connection, as it should be."""

    def __init__(self) -> None:
        self.listening: list[Any] = []  # ids, of subscriptions that are open

    def answer(self, line: bytes) -> Answer | None:
        """The one answer to a line, or None."""
        if not line.strip():
            return None
        try:
            message = read(line)
        except (ValueError, RecursionError):
            return None, PARSE
        if type(message) is not dict:
            return None, INVALID
        return self._message(message)

    def _message(self, message: dict[str, Any]) -> Answer | None:
        is_answer = "result" in message or "error" in message
        ident = message.get("id")
        known = ident if legal(ident) and not is_answer and not self._in_use(ident) else None
        if message.get("jsonrpc") != "2.0":
            return known, INVALID
        if sum(member in message for member in ("method", "result", "error")) != 1:
            return known, INVALID
        if is_answer:
            return (None, INVALID) if "result" in message and not legal(ident) else None
        if "id" in message and not legal(ident):
            return None, INVALID
        method, params = message["method"], message.get("params", {})
        if type(method) is not str:
            return known, INVALID
        if "id" not in message:
            self._note(method, params)
            return None
        if type(params) is not dict:
            return known, PARAMS
        if len(method) > 128:
            return known, METHOD
        if self._in_use(ident):
            return None, INVALID
        return (ident, *self._request(ident, method, params))

    def _in_use(self, ident: Any) -> bool:
        return any(type(one) is type(ident) and one == ident for one in self.listening)

    def _note(self, method: str, params: Any) -> None:
        if method == "notifications/cancelled" and type(params) is dict:
            ident = params.get("requestId")
            if legal(ident) and self._in_use(ident):
                self.listening.remove(ident)

    def _request(self, ident: Any, method: str, params: dict[str, Any]) -> Answer:
        meta = params.get("_meta", {})
        if type(meta) is not dict:
            return (PARAMS,)
        if META + "protocolVersion" in meta:
            return self._modern(ident, method, params, meta)
        if method == "initialize":
            asked = params.get("protocolVersion")
            return "initialize", asked if type(asked) is str and asked in LEGACY else LEGACY[-1]
        if method == "ping":
            return "ping", ""
        if method == "tools/list":
            return listed(params)
        if method == "tools/call":
            return called(params, meta)
        return (PARAMS,) if method == "server/discover" else (METHOD,)

    def _modern(self, ident: Any, method: str, params: dict[str, Any], meta: dict[str, Any]) -> Answer:
        version, capabilities = meta[META + "protocolVersion"], meta.get(META + "clientCapabilities")
        if type(version) is not str or type(capabilities) is not dict:
            return (PARAMS,)
        if version != MODERN:
            return (VERSION_UNSUPPORTED,)
        extensions = capabilities.get("extensions")
        has_tasks = type(extensions) is dict and type(extensions.get(META + "tasks")) is dict
        if method == "server/discover":
            return "discover", MODERN
        if method == "tools/list":
            return listed(params)
        if method in ("tasks/get", "tasks/update", "tasks/cancel"):
            return (METHOD,) if has_tasks else (CAPABILITY_MISSING,)
        if method == "tools/call":
            return called(params, meta)  # a ``task`` is a word of another time
        if method != "subscriptions/listen":
            return (METHOD,)
        if type(params.get("notifications", {})) is not dict:
            return (PARAMS,)
        if len(self.listening) >= SUBSCRIPTIONS:
            return (INTERNAL,)
        self.listening.append(ident)
        return "acknowledged", ""


def listed(params: dict[str, Any]) -> Answer:
    return ("list", "") if params.get("cursor") is None else (PARAMS,)


def called(params: dict[str, Any], meta: dict[str, Any]) -> Answer:
    name, arguments, token = params.get("name"), params.get("arguments"), meta.get("progressToken")
    arguments = {} if arguments is None else arguments
    if name not in ("echo_say", "echo_add") or type(arguments) is not dict:
        return (PARAMS,)
    if token is not None and not legal(token):
        return (PARAMS,)
    said = {key: value for key, value in arguments.items() if key != "wait_for_previous"}
    if name == "echo_say":
        fits = list(said) == ["text"] and type(said["text"]) is str
    else:
        fits = list(said) == ["n"] and type(said["n"]) in (int, float)
    return ("call", canonical(said)) if fits else ("call", "invalid_input")


def legal(ident: Any) -> bool:
    """Whether a value may be an id."""
    return type(ident) is int or (type(ident) is str and len(ident.encode()) <= 256)


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def read(line: bytes) -> Any:
    """Strict JSON; raises ValueError or RecursionError."""
    text = line.decode()  # strict
    value = json.loads(
        text, object_pairs_hook=_members, parse_constant=_refuse, parse_float=_float, parse_int=_int
    )
    _need_shallow(value)
    return value


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    for key in found:
        key.encode()  # raises where a surrogate stands alone
    return found


def _refuse(word: str) -> NoReturn:
    raise ValueError(word)


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("too large")
    return value


def _int(text: str) -> int:
    if len(text) > 30 or not -(2**63) <= int(text) < 2**64:
        raise ValueError("more than 64 bits")
    return int(text)


def _need_shallow(value: Any, level: int = 1) -> None:
    if isinstance(value, str):
        value.encode()
    if isinstance(value, dict | list):
        if level > DEPTH:
            raise ValueError("too deep")
        for one in value.values() if isinstance(value, dict) else value:
            _need_shallow(one, level + 1)
