"""The requests that a bridge passed on and that are not answered yet, and what ends them when nobody can.

A controller that is killed answers nothing, and a client without a timeout of its own would wait for good. So
the id of each request is read from the two ends of its line, where every client writes it, and that of each
answer from its beginning, where our router writes it; only a line of another shape is parsed. What is
remembered is bounded, in number and in bytes. An id is kept as JSON: ``7``, ``"a"``.
"""

_MOST = 1024  # requests; the router takes fewer at a time, so older ones will not be answered any more
_END = 2048  # bytes kept of each end of a long line; no client writes an id or a version deeper inside
_MAX_ID = 1600  # bytes of an id as it is written; the router takes 256, each escaped at most
_MOST_WHOLE = 2 * _END  # bytes of a line that is kept as it is
_MAX_ID_BYTES = 256  # of a string, as the router takes it
_ZERO = ord("0")
_USUAL_DIGITS = 18  # characters of a number that is surely within 64 bits
_MAX_DIGITS = 21  # characters of a number of 64 bits, and what follows
_CUT = b"\0"  # between the two ends: no JSON, so that one is never taken for the other
_COMPACT = b'{"jsonrpc":"2.0","id":'
_AT = len(_COMPACT)
_METHOD = b',"method":'
_SPACED = b'{"jsonrpc": "2.0", "id": '
_HEADS = (  # how a request begins whose id stands last
    b'{"method":',
    b'{"jsonrpc":"2.0","method":',
)
_CANCEL = b"notifications/cancelled"
_INTERNAL = -32603
_TEXT = "the service cannot answer now; retrying later may work"  # the router's own for this code
_WHY = "its connection broke while it ran, and what it was to do may have been done"
_GONE = "the connection broke before the answer: ask again"
_META = "io.modelcontextprotocol/"

Noted = tuple[bytes, bytes | None]  # an id and the line that asked, or None: it is owed nothing any more


def begun(before: bytes, piece: bytes) -> bytes:
    """What is kept of a message without an end yet, one piece later."""
    end = piece.rfind(b"\n") + 1
    return _kept(piece[end:] if end else before + piece)


def noted(before: bytes, data: bytes) -> list[tuple[int, Noted]]:
    """What ``data``, which continues ``before``, asks for or takes back, and where each such line ends."""
    size = len(data)
    if data.startswith(_COMPACT) and not before and data.find(b"\n") == size - 1 <= _MOST_WHOLE:
        # The usual case, in as few steps as can be.
        end = data.find(b",", _AT, _AT + _USUAL_DIGITS)
        if data.startswith(_METHOD, end) and data[_AT:end].isdigit() and data[_AT] != _ZERO:
            return [(size, (data[_AT:end], data))]
    found = []
    start = 0
    while end := data.find(b"\n", start) + 1:
        line = before + data[start:end] if start or before or end < len(data) else data
        if one := _read(line):
            found.append((end, one))
        before, start = b"", end
    return found


def answered(lines: bytes) -> list[bytes]:
    """The ids of the answers in whole lines of a router."""
    found = []
    start = 0
    while True:
        if lines.startswith(_COMPACT, start):
            found.append(_id(lines[start + _AT : start + _AT + _MAX_ID]))
        start = lines.find(b"\n", start) + 1
        if not start or start == len(lines):
            return found


class Owed:
    """The open requests of one bridge, by id. Not for two threads at once, but for ``settle``."""

    def __init__(self) -> None:
        self._open: dict[bytes, bytes] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    def note(self, one: Noted) -> None:
        """Remember a request, or forget one that was taken back."""
        ident, line = one
        if line is None:
            self._open.pop(ident, None)
            return
        self._open[ident] = line
        if len(self._open) > _MOST:
            self._open.pop(list(self._open)[0], None)  # noqa: RUF015 - the other thread may change it meanwhile

    def settle(self, lines: bytes) -> None:
        """Forget what whole lines of a router answer."""
        end = lines.find(b",", _AT, _AT + _MAX_DIGITS)
        is_known = lines.startswith(_COMPACT) and self._open.pop(lines[_AT:end], None) is not None
        if is_known and lines.find(b"\n", end) == len(lines) - 1:
            return  # the usual case, in as few steps as can be
        for ident in answered(lines):
            self._open.pop(ident, None)

    def forget(self, one: Noted) -> None:
        """A request did not go out after all."""
        self._open.pop(one[0], None)

    def ends(self) -> bytes:
        """The lines that end all that is open; then nothing is."""
        left, self._open = self._open, {}
        return b"".join(answer(ident, line) for ident, line in left.items())


def lost(line: bytes) -> bytes:
    """The line that ends the request of which only a part went out; empty where it asks for nothing."""
    one = _read(line)
    return answer(one[0], one[1]) if one and one[1] is not None else b""


def answer(ident: bytes, line: bytes) -> bytes:
    """The line that ends a request whose connection broke: a call as ``unavailable``, as the router does;
    a subscription as complete; anything else by an error of JSON-RPC.
    """
    import json  # noqa: PLC0415 - a road that is rarely taken

    name, method = "the tool", ""
    try:
        message = json.loads(line)
        method = str(message["method"])
        name = str(message["params"]["name"])
    except (ValueError, LookupError, TypeError, RecursionError):
        method = method or ("tools/call" if b'"tools/call"' in line else "")
    known = json.loads(ident)
    body: dict[str, object] = {"jsonrpc": "2.0", "id": known}
    if method == "tools/call":
        body["result"] = _unavailable(name, line)
    elif method == "subscriptions/listen":
        body["result"] = {"resultType": "complete", "_meta": {_META + "subscriptionId": known}}
    else:
        body["error"] = {"code": _INTERNAL, "message": _GONE}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="replace") + b"\n"


def _unavailable(name: str, line: bytes) -> dict[str, object]:
    """As ``router.answers.failure`` says it; a test holds the two to the same."""
    import json  # noqa: PLC0415 - a road that is rarely taken

    body = {"error": "unavailable", "message": f"{_TEXT}: {_WHY}"}
    written = json.dumps(body, separators=(",", ":"))
    text = f"{name} ended with the error unavailable: {body['message']}\n{written}"
    value: dict[str, object] = {}
    if f'"{_META}protocolVersion"'.encode() in line:
        value["resultType"] = "complete"
    return value | {
        "content": [{"type": "text", "text": text}],
        "isError": True,
        "_meta": {"ai.handler/error": body},
    }


def _kept(line: bytes) -> bytes:
    return line if len(line) <= _MOST_WHOLE else line[:_END] + _CUT + line[-_END:]


def _read(line: bytes) -> Noted | None:
    """The request in a line; None where it asks for nothing, or under an id that no router answers by."""
    one = _found(line)
    return one if one and _is_taken(one[0]) else None


def _is_taken(ident: bytes) -> bool:
    """Whether a router takes an id: what it does not take it answers at once, under none."""
    if ident.startswith(b'"'):
        return len(ident) <= _MAX_ID_BYTES + 2 or _length(ident) <= _MAX_ID_BYTES
    digits = ident.removeprefix(b"-")
    return digits.isdigit() and (digits == b"0" or digits[0] != _ZERO) and -(2**63) <= int(ident) < 2**63


def _length(ident: bytes) -> int:
    import json  # noqa: PLC0415 - a road that is rarely taken

    try:
        return len(str(json.loads(ident)).encode(errors="surrogatepass"))
    except ValueError:
        return _MAX_ID_BYTES + 1


def _found(line: bytes) -> Noted | None:
    """The request in a line, by its two ends where they tell."""
    at = _AT if line.startswith(_COMPACT) else len(_SPACED) if line.startswith(_SPACED) else 0
    if at:
        ident = _id(line[at : at + _MAX_ID])
        after = at + len(ident)
        if ident and line[after : after + 11].replace(b" ", b"") in (b',"method":', b',"method":"'):
            return ident, _kept(line)
    elif line.startswith(_HEADS) and (ident := _last_id(line)):
        return ident, _kept(line)
    return _parsed(line) if b'"id"' in line or _CANCEL in line else None


def _last_id(line: bytes) -> bytes:
    """The id that ends a line, as ``…,"id":7}``: what only one brace follows is of the message itself."""
    end = line[-_MAX_ID:].rstrip()
    at = end.rfind(b',"id":')
    ident = end[at + 6 : -1] if at >= 0 and end.endswith(b"}") else b""
    return ident if ident == _id(ident + b"}") else b""


def _id(begins: bytes) -> bytes:
    """The number, or string without an escape, that stands at the beginning; else what JSON reads there."""
    if begins.startswith(b'"'):
        ident = begins[: begins.find(b'"', 1) + 1]
        return _normal(begins) if b"\\" in ident else ident
    number = begins[:_MAX_DIGITS]
    return number[: len(number) - len(number.lstrip(b"-0123456789"))]


def _normal(begins: bytes) -> bytes:
    """A string with an escape, as ``_written`` has it."""
    import json  # noqa: PLC0415 - a road that is rarely taken

    try:
        value, _ = json.JSONDecoder().raw_decode(begins.decode(errors="replace"))
    except ValueError:
        return b""
    return _written(value)


def _written(ident: object) -> bytes:
    import json  # noqa: PLC0415 - a road that is rarely taken

    if type(ident) is int or type(ident) is str:
        return json.dumps(ident, ensure_ascii=False).encode(errors="replace")
    return b""


def _parsed(line: bytes) -> Noted | None:
    """What a line of any other shape asks for or takes back."""
    import json  # noqa: PLC0415 - a road that is rarely taken

    try:
        message = json.loads(line)
        method = message["method"]
        if method == _CANCEL.decode():
            ident = _written(message["params"]["requestId"])
            return (ident, None) if ident else None
        ident = _written(message["id"])
        return (ident, _kept(line)) if ident else None
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
