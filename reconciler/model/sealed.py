"""Exact bytes that are to be sent, without the secret; and what comes back.

A driver makes a ``Sealed`` (``drivers.sealing``), a decision is taken on its ``wire_digest``, the gate sends
it once and adds the secret that ``auth`` speaks of. The digest covers everything but that secret: one other
byte, header, path, method or origin is another request. Headers that say how a message is framed (``host``,
``content-length``) belong to whoever sends.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.model import transmission

Headers = tuple[tuple[str, str], ...]  # lower-case names, sorted, each once


@dataclass(frozen=True, slots=True)
class AuthSlot:
    """Where the secret goes and which slot it is of; never the value."""

    scheme: str  # bearer, header, query, mtls, sigv4
    slot: str  # the secret's slot of the binding
    header: str | None = None  # lower-case; bearer's usual one is ``authorization``
    parameter: str | None = None  # of the query, for ``query``


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """How an answer in pieces is framed, and its bound."""

    framing: str  # sse, ndjson, chunked
    max_bytes: int  # of the whole stream
    max_event_bytes: int  # of one event


@dataclass(frozen=True, slots=True)
class Sealed:
    """One request, exactly. ``origin`` always has its port (``https://api.example.com:443``); ``target`` is
    path and query as they stand in the request line.
    """

    method: str
    origin: str
    target: str
    headers: Headers
    body: bytes = field(repr=False)
    auth: AuthSlot | None
    wire_digest: str  # "sha256:" + hex
    stream: StreamSpec | None = None
    max_response: int = 64 * 2**20  # bytes; a longer answer is not read to its end

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    def is_whole(self) -> bool:
        """Whether the digest is that of these very fields: nothing was changed since it was sealed."""
        place = (self.method, self.origin, self.target)
        return self.wire_digest == wire_digest(place, self.headers, self.body)


def wire_digest(place: tuple[str, str, str], headers: Headers, body: bytes) -> str:
    """``sha256:`` + hex of RFC 8785 over what goes on the wire, secrets left out (``handler.wire/v1``).

    ``place`` is method, origin, target. Raises rfc8785's ``CanonicalizationError``, a ValueError, for text
    that is no Unicode.
    """
    method, origin, target = place
    digest = hashlib.sha256(body).hexdigest()
    return transmission.wire_digest(method, origin, target, headers, body=(digest, len(body)))


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer: header names in lower case, the last of several values. Untrusted to the last byte."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(default=b"", repr=False)
    elapsed_ms: int = 0  # from the first byte sent to the last one read
