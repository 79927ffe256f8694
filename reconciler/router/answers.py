"""The lines that an agent is sent: how a call ended, how far it is, and what subscriptions hear. Pure."""

from typing import Any, Protocol

import orjson

from reconciler.model.contract import Contract
from reconciler.model.effects import UNKNOWN
from reconciler.router.mcp import META, ROUTER_TEXTS, UNKNOWN_TEXT, Listen, Offer
from reconciler.wire import jsonrpc
from reconciler.wire.jsonrpc import Id

ERROR_KEY = "ai.handler/error"

_INLINE_TEXT = 64 * 1024  # of structured JSON, no more than this is said twice
_BEGINNING = 32 * 1024  # opencode puts a text of 50 KB into a file, Gemini CLI one of 40,000 characters


class Asked(Protocol):
    """A call that is answered."""

    @property
    def id(self) -> Id: ...

    @property
    def modern(self) -> bool: ...

    @property
    def offer(self) -> Offer: ...


def success(call: Asked, structured: bytes) -> bytes:
    """The line of a call that went well: the structured answer, and the identical JSON as text (S2).

    Above 64 KiB the text is the beginning, and says so first: some harnesses show their model the text alone.
    """
    text = structured.decode() if len(structured) <= _INLINE_TEXT else _beginning(structured)
    end = _MODERN_END if call.modern else b""
    return _SUCCESS % (orjson.dumps(call.id), orjson.dumps(text), structured, end)


def _beginning(structured: bytes) -> str:
    begun = structured[:_BEGINNING].decode(errors="ignore")  # a character may be cut in two
    return (
        f"The answer is long: of its {len(structured)} bytes the first {_BEGINNING} follow. "
        f"structuredContent holds all of it; where you cannot see that, ask for less at a time.\n{begun}"
    )


# Written by hand: a dictionary of dictionaries costs more than all that it says.
_SUCCESS = (
    b'{"jsonrpc":"2.0","id":%b,"result":{"content":[{"type":"text","text":%b}],"structuredContent":%b%b}}\n'
)
_MODERN_END = b',"resultType":"complete"'


def failure(call: Asked, code: str, detail: str = "") -> bytes:
    """The line of a call that did not: prose, then the JSON object, and a machine copy under our own key.

    Measured: ``structuredContent`` on errors and a text of pure JSON are both replaced by a complaint in some
    harnesses; this form survived in all.
    """
    message = error_text(call.offer.route.contract, code)
    if detail:
        message = f"{message}: {detail}"
    body = {"error": code, "message": message}
    text = f"{call.offer.tool.name} ended with the error {code}: {message}\n{orjson.dumps(body).decode()}"
    value: dict[str, Any] = {"resultType": "complete"} if call.modern else {}
    value |= {"content": [{"type": "text", "text": text}], "isError": True, "_meta": {ERROR_KEY: body}}
    return jsonrpc.result(call.id, value)


def error_text(contract: Contract, code: str) -> str:
    """The sentence an agent reads for a code: the interface's own, else the router's."""
    return contract.errors.get(code) or (UNKNOWN_TEXT if code == UNKNOWN else ROUTER_TEXTS[code])


def progress(token: Id, done: float, total: float | None) -> bytes:
    """The line that reports progress; never a connector's words."""
    params: dict[str, Any] = {"progressToken": token, "progress": done}
    if total is not None:
        params["total"] = total
    return jsonrpc.encode({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})


def acknowledged(listen: Listen) -> bytes:
    """The first line of a subscription. It honours nothing: what a session sees never changes."""
    return jsonrpc.encode(
        {
            "jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": {"notifications": {}, "_meta": {META + "subscriptionId": listen.id}},
        }
    )


def listened(listen: Listen) -> bytes:
    """The last line of a subscription, when the door closes."""
    return jsonrpc.result(
        listen.id, {"resultType": "complete", "_meta": {META + "subscriptionId": listen.id}}
    )
