"""Addresses and headers: what one is, what a call allows of them, and where a redirect leads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address
from typing import Any
from urllib.parse import SplitResult, quote, urlencode, urljoin, urlsplit, urlunsplit

from handler_connector import Failure

_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"\[[0-9a-f:.]+\]|[a-z0-9_.-]+")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\U0010ffff]*")
_FRAMING = (
    *("host", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "content-length"),
    *("accept-encoding", "expect", "via", "forwarded"),
)
_FRAMING_BEGINNINGS = ("proxy-", "x-handler-", "x-forwarded-")
_ENTRY = re.compile(
    r"(?P<dot>\*?\.)?(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_-][a-z0-9_.-]*|[0-9a-f]*:[0-9a-f:.]*:[0-9a-f.:]*))"
    r"(?::(?P<port>[0-9]{1,5}))?"
)
_LONGEST = 8192


def whole(arguments: Mapping[str, Any]) -> str:
    """The address with its query; raises Failure."""
    parts = _split(arguments["url"])
    try:
        more = urlencode(list(arguments.get("query", {}).items()), quote_via=quote)
    except UnicodeEncodeError:
        raise Failure("bad_address", "half a letter is no text") from None
    query = "&".join(one for one in (parts.query, more) if one)
    url = urlunsplit((parts.scheme, parts.netloc, parts.path or "/", query, ""))
    if len(url) > _LONGEST:
        raise Failure("bad_address", "with its query it is too long")
    return url


def led(url: str, leads: str) -> str:
    """Where a redirect leads, from where it came; raises Failure for what is no web, and for less than TLS
    where there was TLS.
    """
    try:
        there = urljoin(url, quote(leads.strip(), safe="!#$%&'()*+,/:;=?@[]~-._"))
        scheme = urlsplit(there).scheme
    except ValueError:
        raise Failure("redirected", "it leads to what is no address") from None
    if scheme not in _PORTS or (scheme == "http" and url.startswith("https:")):
        raise Failure("refused", "a redirect leads to another scheme")
    parts = _split(there)
    return urlunsplit((parts.scheme, parts.netloc, parts.path or "/", parts.query, ""))


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, _spelled((parts.hostname or "").rstrip(".")), parts.port or _PORTS[parts.scheme]


def need_plain(headers: Mapping[str, str]) -> None:
    """Raises Failure for headers that say how a message is sent, and for what is no header."""
    for name, value in headers.items():
        low = name.lower()
        if low in _FRAMING or low.startswith(_FRAMING_BEGINNINGS):
            raise Failure("refused", "a header of the connection itself")
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise Failure("refused", "a header that is none")
        try:
            value.encode("latin-1")
        except UnicodeEncodeError:
            raise Failure("refused", "a header with letters that none can have") from None


@dataclass(frozen=True)
class Ways:
    """Which hosts a call allows, on top of what the gate lets through."""

    allowed: Sequence[str] | None
    denied: Sequence[str]

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Ways:
        """From ``allowed_hosts`` and ``denied_hosts``."""
        return cls(arguments.get("allowed_hosts"), arguments.get("denied_hosts", ()))

    def need(self, url: str) -> None:
        """Raises Failure for an address beyond them."""
        _, host, port = origin(url)
        if any(_is(host, port, one, below=True) for one in self.denied):
            raise Failure("refused", "the call denies this host")
        if self.allowed is not None and not any(_is(host, port, one, below=False) for one in self.allowed):
            raise Failure("refused", "the call does not allow this host")


def _is(host: str, port: int, written: str, *, below: bool) -> bool:
    """Whether an entry means this host: its name, or with a dot or ``*.`` before it all below it."""
    found = _ENTRY.fullmatch(written.strip().lower())
    if found is None:  # what denies nothing that is meant would let through
        raise Failure("refused", "an entry of the call's hosts is neither a host nor host:port")
    name = _spelled((found["six"] or found["name"]).rstrip("."))
    if found["port"] and int(found["port"]) != port:
        return False
    if host == name:
        return not found["dot"] or below
    return bool(found["dot"] or below) and host.endswith(f".{name}")


def _spelled(host: str) -> str:
    """A host as it is compared: an address in its one spelling."""
    try:
        return str(ip_address(host))
    except ValueError:
        return host


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Failure("bad_address", "it cannot be read") from None
    host = parts.netloc.lower().partition(":")[0]
    if parts.netloc.startswith("["):
        host = f"[{parts.hostname}]"
    if "@" in parts.netloc or not _HOST.fullmatch(host) or port == 0:
        raise Failure("bad_address", "it names a user, or no host")
    if _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
        try:
            IPv4Address(host)
        except ValueError:
            raise Failure("refused", "a number that is no plain address") from None
    elif parts.scheme == "http" and not host.startswith("["):
        raise Failure("refused", "plain http goes to an address, and to names only https")
    return parts
