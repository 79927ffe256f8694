"""One request as it goes on the wire, and the one digest that names it (``handler.wire/v1``).

Whoever seals a request, whoever decides on it and the gate that sends it compute the same digest, each from
what it has before itself, so "these exact bytes, once" can be compared. Secret headers are not in it: the
gate adds them. Neither is the framing, which the gate writes itself, nor what begins with ``x-handler-``,
which is between us and the gate.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

import rfc8785

VERSION = "handler.wire/v1"
_UNSIGNED = frozenset(
    ("connection", "keep-alive", "proxy-connection", "proxy-authorization", "te", "trailer", "upgrade",
     "transfer-encoding", "content-length", "host", "expect", "accept-encoding", "forwarded", "via",
     "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto")
)  # fmt: skip


def is_signed(name: str) -> bool:
    """Whether a header (its name in any case) is part of what is decided on; others are the gate's own."""
    lower = name.lower()
    return lower not in _UNSIGNED and not lower.startswith("x-handler-")


def wire_digest(
    method: str, origin: str, target: str, headers: Iterable[tuple[str, str]], *, body: tuple[str, int]
) -> str:
    """``sha256:`` and 64 hex digits over RFC 8785 of one request.

    ``origin`` is ``https://host:port`` with its port; ``target`` the path with its query; ``body`` its sha256
    (hex) and its length in bytes. Headers are compared by lower-case name and stripped value, sorted; those
    that are not signed are left out.
    """
    signed = sorted([name.lower(), value.strip(" \t")] for name, value in headers if is_signed(name))
    sha256, size = body
    value: dict[str, Any] = {
        "v": VERSION,
        "method": method,
        "origin": origin,
        "target": target,
        "headers": signed,
        "body_sha256": sha256,
        "body_len": size,
    }
    return "sha256:" + hashlib.sha256(rfc8785.dumps(value)).hexdigest()
