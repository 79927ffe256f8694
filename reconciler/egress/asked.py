"""What a connector asks of the gate, read strictly, and what is sent for it: pure, over h11's events.

``POST https://api.example.com/v1/pages`` names its origin whole; ``POST /v1/pages`` with a ``Host`` names it
by that: https for a name, plain http for an address that is listed as such. Where both name one, they are the
same. h11 refuses what two readers could read differently (two lengths, odd encodings, control characters);
here goes what it leaves: a length beside chunks, hop-by-hop headers, upgrades, user information, fragments.
What is sent is written anew from what was understood, so nothing of the text of a request goes on unread.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.model.hosts import Target, host_of
from reconciler.model.transmission import is_signed, wire_digest

CALL_HEADER = "x-handler-call"
MAX_HEAD_BYTES = 32_768
_MAX_HEADERS = 100
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_WHOLE = re.compile(r"(https?)://([^/?#\s]{1,300})([/?][\x21-\x7e]*)?", re.IGNORECASE)
_CALL = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_PORTS = {"https": 443, "http": 80}
# Of an answer this much reaches a connector: what it is, how to ask again, and what MCP and vendors number.
_PASSED = frozenset(
    ("content-type", "content-disposition", "content-language", "content-range", "accept-ranges", "etag",
     "last-modified", "location", "link", "date", "age", "allow", "www-authenticate", "retry-after",
     "request-id", "x-request-id", "cache-control", "expires")
)  # fmt: skip
_PASSED_BEGINNINGS = ("mcp-", "ratelimit", "x-ratelimit-", "anthropic-ratelimit-")

Headers = tuple[tuple[bytes, bytes], ...]


class Refused(Exception):  # noqa: N818 - it is an answer
    """A request that is not taken: the status of the answer, and why, as one sentence without its text."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One request as it is understood; its body comes apart. ``headers`` are the connector's own."""

    method: str
    scheme: str  # https or http
    target: Target
    path: str  # with its query
    headers: Headers
    call: str = ""  # the number of the call that it serves; "" for one of a start

    @property
    def origin(self) -> str:
        """Whom it is sent to: ``https://api.example.com:443``."""
        return f"{self.scheme}://{self.target}"

    def sent_headers(self, added: Mapping[str, bytes], size: int, *, has_body: bool) -> list[Any]:
        """The headers as they are sent: ``added`` in the place of any of the same name, then the framing."""
        port = "" if self.target.port == _PORTS[self.scheme] else f":{self.target.port}"
        host = f"[{self.target.host}]" if ":" in self.target.host else self.target.host
        replaced = {name.lower() for name in added}
        kept = [(name, value) for name, value in self.headers if name.decode().lower() not in replaced]
        length = [(b"Content-Length", b"%d" % size)] if has_body else []
        return [
            (b"Host", f"{host}{port}".encode()),
            *kept,
            *((name.encode(), value) for name, value in added.items()),
            (b"Accept-Encoding", b"identity"),
            *length,
            (b"Connection", b"close"),
        ]

    def wire_digest(self, body: tuple[str, int]) -> str:
        """What names this very request; of the body its sha256 (hex) and its size."""
        headers = ((name.decode(), value.decode("latin-1")) for name, value in self.headers)
        return wire_digest(self.method, self.origin, self.path, headers, body=body)

    def path_mark(self, key: bytes) -> str:
        """The path as records have it: a digest under the key of one controller, 16 hex digits."""
        return hashlib.blake2b(self.path.encode(), key=key, digest_size=8).hexdigest()


def understood(method: bytes, target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> Outgoing:
    """A request's head as h11 gives it (names in lower case); raises Refused."""
    listed = list(headers)
    if len(listed) > _MAX_HEADERS or len(target) + size_of(listed) > MAX_HEAD_BYTES:
        raise Refused(431, "the request's head is too large")
    word = method.decode("ascii")
    if word not in _METHODS:
        raise Refused(405, "the gate takes GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS")
    known = _single(listed, (b"host", CALL_HEADER.encode(), b"connection", b"expect"))
    if {b"content-length", b"transfer-encoding"} <= {name for name, _ in listed}:
        raise Refused(400, "the request has a length and is in chunks")
    if known.get(b"connection", "close").lower() not in ("close", "keep-alive"):
        raise Refused(400, "the gate takes no upgrade and no options of a connection")
    if b"expect" in known:
        raise Refused(417, "the gate takes no expectations: send the body at once")
    scheme, at, path = _origin(target.decode("ascii"), known.get(b"host", ""))
    call = known.get(CALL_HEADER.encode(), "")
    if call and not _CALL.fullmatch(call):
        raise Refused(400, f"{CALL_HEADER} is no number of a call")
    kept = tuple((name, value) for name, value in listed if is_signed(name.decode()))
    return Outgoing(word, scheme, at, path, kept, call)


def size_of(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """How many bytes headers are on the wire."""
    return sum(len(name) + len(value) + 4 for name, value in headers)


def narrowed(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """What of an answer's headers reaches the connector."""
    return [
        (name, value)
        for name, value in headers
        if (text := name.decode().lower()) in _PASSED or text.startswith(_PASSED_BEGINNINGS)
    ]


def _single(headers: list[tuple[bytes, bytes]], names: tuple[bytes, ...]) -> dict[bytes, str]:
    """Headers that stand once or not at all."""
    found: dict[bytes, str] = {}
    for name, value in headers:
        if name in names:
            if name in found:
                raise Refused(400, f"the header {name.decode()} stands twice")
            found[name] = value.decode("latin-1").strip()
    return found


def _origin(target: str, host: str) -> tuple[str, Target, str]:
    """Scheme, host and port, and path of a request."""
    if target.startswith("/"):
        is_plain = _target(host, "https").address is not None and not host.endswith(":443")
        scheme = "http" if is_plain else "https"
        return scheme, _target(host, scheme), _path(target)
    whole = _WHOLE.fullmatch(target)
    if whole is None:
        raise Refused(400, "the request's target is no path and no http or https address")
    scheme = whole[1].lower()
    at = _target(whole[2], scheme)
    if host and _target(host, scheme) != at:
        raise Refused(400, "the Host header names something else than the request")
    if scheme == "http" and at.address is None:
        raise Refused(403, "plain http is for addresses that are listed: use https")
    path = whole[3] or "/"
    return scheme, at, _path(path if path.startswith("/") else f"/{path}")


def _path(text: str) -> str:
    if "#" in text:
        raise Refused(400, "the request's target has a fragment")
    return text


def _target(authority: str, scheme: str) -> Target:
    try:
        has_port = re.search(r":[0-9]*$", authority) is not None and not authority.endswith("]")
        if has_port:
            return Target.parse(authority)
        return Target(host_of(authority), _PORTS[scheme])
    except ValueError as fault:
        raise Refused(403, f"this is no host and port: {fault}") from None
