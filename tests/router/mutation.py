"""Lines that agents never send: conversations of real clients, changed at random, from a seed.

What changes is chosen by the grammar: members are left out, doubled, renamed, given other values, ids and
methods and eras are exchanged; the text is written in other ways that mean the same; and now and then bytes
are broken. Most lines stay JSON, so that they reach what lies behind the parser.
"""

import json
import random
from collections.abc import Callable
from typing import Any

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
TASKS = "io.modelcontextprotocol/tasks"
MODERN = {
    VERSION: "2026-07-28",
    CAPABILITIES: {},
    "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
}


def _said(method: str, ident: Any = None, **params: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}
    if ident is None:
        del message["id"]
    return message


CONVERSATION: tuple[dict[str, Any], ...] = (
    _said(
        "initialize",
        0,
        protocolVersion="2025-11-25",
        capabilities={"roots": {"listChanged": True}, "sampling": {}},
        clientInfo={"name": "claude-code", "version": "3.1"},
    ),
    _said("notifications/initialized"),
    _said("initialize", 1, protocolVersion="2024-11-05", capabilities={}, clientInfo={"name": "x"}),
    _said("ping", "p"),
    _said("tools/list", 2),
    _said("tools/list", 3, _meta={"progressToken": 3}),
    _said("tools/call", 4, name="echo_say", arguments={"text": "hello"}, _meta={"progressToken": 4}),
    _said("tools/call", "5", name="echo_add", arguments={"n": 1.5}),
    _said("tools/call", 6, name="echo_say", arguments={"text": "x", "wait_for_previous": True}),
    _said("tools/call", 7, name="echo_add", arguments={"n": -7}, _meta={}),
    _said("notifications/cancelled", requestId=7, reason="the user said so"),
    _said("notifications/progress", progressToken=1, progress=0.5, total=1),
    _said("server/discover", 8, _meta=MODERN),
    _said("tools/list", 9, _meta=MODERN),
    _said("tools/call", "a-1", name="echo_say", arguments={"text": "modern"}, _meta=MODERN),
    _said("tools/call", 10, name="echo_add", arguments={"n": 10}, _meta=MODERN | {"progressToken": "t"}),
    _said("tools/call", 11, name="echo_say", arguments={"text": "t"}, task={"ttl": 60}, _meta=MODERN),
    _said("subscriptions/listen", 12, notifications={"toolsListChanged": True}, _meta=MODERN),
    _said("notifications/cancelled", requestId=12),
    _said("tasks/get", 13, taskId="t", _meta=MODERN | {CAPABILITIES: {"extensions": {TASKS: {}}}}),
    _said("resources/list", 14),
    {"jsonrpc": "2.0", "id": 1, "result": {}},
    {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "x"}},
)
METHODS = tuple(dict.fromkeys(one["method"] for one in CONVERSATION if "method" in one))
ODD: tuple[Any, ...] = (
    None, True, False, 0, -0.0, 1, 1.0, 1.5, -1, 2**53 + 1, 2**63, 2**64 - 1, -(2**63), 1e300, 5e-324,
    "", "x", "2.0", "007", "\u2028", "\ufeff", "\x00", "é" * 128, "é" * 129, "i" * 256, "i" * 257,
    [], [1], {}, {"a": 1}, "2026-07-28", "2025-06-18", "echo_say", "echo_add", "tools/call", "m" * 128,
    "m" * 129, "100", "__class__", {"text": "x"}, {"n": 1}, {"n": "1"}, {"text": 1}, MODERN, {VERSION: 1},
    "12", 12,
)  # fmt: skip
KEYS = (
    "jsonrpc", "id", "method", "params", "result", "error", "_meta", "name", "arguments", "text", "n", "task",
    "cursor", "progressToken", "requestId", "notifications", "extensions", VERSION, CAPABILITIES, "", "é",
    "wait_for_previous", "protocolVersion",
)  # fmt: skip
BROKEN: tuple[bytes, ...] = (
    b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\x00", b"\r", b"\n", b"\xef\xbb\xbf",
    b"\\ud800", b"\\udc00\\ud800", b"NaN", b"Infinity", b"1e999", b"01", b"+1", b"{", b"}", b"[", b"]", b",",
    b":", b'"', b"\\", b'"a":1,', b"9" * 25, b"18446744073709551616", b"-9223372036854775809", b"[" * 70,
    b"//", b"'", b"\x7f", b"\t", b"\\u0000", b"\\/", b"\xe2\x80\xa8", b"\x0b", b"null", b"1E5", b"-", b"-0",
)  # fmt: skip

Chance = random.Random


def line(chance: Chance) -> bytes:
    """One line without its end, mostly; what breaks bytes may put an end into it."""
    message: Any = json.loads(json.dumps(chance.choice(CONVERSATION)))
    for _ in range(_few(chance)):
        message = chance.choice(_CHANGES)(message, chance)
    text = written(message, chance)
    if chance.random() < 0.25:
        for _ in range(1 + _few(chance)):
            text = chance.choice(_BREAKS)(text, chance)
    return text


def written(message: Any, chance: Chance) -> bytes:
    """A value as one of the many texts that mean it."""
    style = chance.random()
    spaces = (chance.choice(("", " ", "\t")), chance.choice(("", " ", " \r")))
    separators = (spaces[0] + "," + spaces[1], spaces[1] + ":" + spaces[0]) if style < 0.3 else (",", ":")
    text = json.dumps(message, ensure_ascii=chance.random() < 0.5, separators=separators)
    if style > 0.85:  # a letter written as an escape, in a key or a value
        at = text.find(chance.choice('aeimnopr"') if style > 0.9 else "m")
        if at >= 0 and text[at] != '"' and _in_string(text, at):
            text = f"{text[:at]}\\u{ord(text[at]):04x}{text[at + 1 :]}"
    if style < 0.1:
        text = f" {text}\r"
    return text.encode("utf-8", "surrogatepass")


def _in_string(text: str, at: int) -> bool:
    return text[:at].replace('\\"', "").count('"') % 2 == 1 and text[at - 1] != "\\"


def _few(chance: Chance) -> int:
    return min(int(chance.expovariate(0.9)), 4)


def _places(node: Any) -> list[Any]:
    """Every object of a message, itself included."""
    found = [node] if isinstance(node, dict) else []
    for one in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        found += _places(one)
    return found


def _changed(what: Callable[[dict[str, Any], str, Chance], None]) -> Callable[[Any, Chance], Any]:
    """A change of one member of one object somewhere in the message."""

    def change(message: Any, chance: Chance) -> Any:
        places = [place for place in _places(message) if place]
        if places:
            place = chance.choice(places)
            what(place, chance.choice(list(place)), chance)
        return message

    return change


def _copy(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _drop(place: dict[str, Any], key: str, _: Chance) -> None:
    del place[key]


def _replace(place: dict[str, Any], key: str, chance: Chance) -> None:
    place[key] = _copy(chance.choice(ODD))


def _rename(place: dict[str, Any], key: str, chance: Chance) -> None:
    place[chance.choice(KEYS)] = place.pop(key)


def _add(place: dict[str, Any], _: str, chance: Chance) -> None:
    place[chance.choice(KEYS)] = _copy(chance.choice(ODD))


def _nest(place: dict[str, Any], key: str, chance: Chance) -> None:
    for _ in range(chance.choice((1, 2, 5, 55, 60, 61, 62, 63, 64, 80))):
        place[key] = [place[key]] if chance.random() < 0.5 else {"a": place[key]}


def _new_id(message: Any, chance: Chance) -> Any:
    if isinstance(message, dict):
        message["id"] = chance.choice((chance.randrange(40), str(chance.randrange(40)), *ODD[:30]))
    return message


def _new_method(message: Any, chance: Chance) -> Any:
    if isinstance(message, dict):
        message["method"] = chance.choice(METHODS)
    return message


def _new_era(message: Any, chance: Chance) -> Any:
    if isinstance(message, dict) and isinstance(message.get("params"), dict):
        params = message["params"]
        if "_meta" in params and chance.random() < 0.5:
            del params["_meta"]
        else:
            params["_meta"] = _copy(
                chance.choice((MODERN, {}, {"progressToken": 1}, {VERSION: "2027-01-01"}))
            )
    return message


def _batch(message: Any, _: Chance) -> Any:
    return [message]


_CHANGES: tuple[Callable[[Any, Chance], Any], ...] = (
    *map(_changed, (_drop, _replace, _replace, _rename, _add, _nest)),
    _new_id, _new_id, _new_method, _new_era, _new_era, _batch,
)  # fmt: skip


def _insert(text: bytes, chance: Chance) -> bytes:
    at = chance.randrange(len(text) + 1)
    return text[:at] + chance.choice(BROKEN) + text[at:]


def _cut(text: bytes, chance: Chance) -> bytes:
    start = chance.randrange(len(text) + 1)
    return text[:start] + text[start + 1 + int(chance.expovariate(0.1)) :]


def _flip(text: bytes, chance: Chance) -> bytes:
    at = chance.randrange(len(text) + 1)
    return text[:at] + bytes([chance.randrange(256)]) + text[at + 1 :]


def _double(text: bytes, chance: Chance) -> bytes:
    """A piece twice: keys that stand twice, values that follow one another."""
    start = chance.randrange(len(text) + 1)
    end = start + chance.randrange(40)
    return text[:end] + text[start:end] + text[end:]


def _double_member(text: bytes, chance: Chance) -> bytes:
    return text.replace(b'"id"', chance.choice((b'"id":1,"id"', b'"\\u0069d":1,"id"')), 1)


_BREAKS: tuple[Callable[[bytes, Chance], bytes], ...] = (
    _insert,
    _insert,
    _cut,
    _flip,
    _double,
    _double_member,
)
