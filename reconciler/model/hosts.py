"""Hosts and ports as they may be spelled: one canonical form, so that a list can be compared exactly.

The C library takes ``127.1``, ``0x7f000001``, ``2130706433``, ``0177.0.0.1`` and circled digits for
addresses, and an allow-list that compares text would miss them. Here a host is a name of ASCII labels whose
last one is no number, an IPv4 address of four plain decimals, or an IPv6 address in brackets; nothing else is
one. Upper case is lowered, as DNS does; a trailing dot, an empty label, a wildcard, user information are
refused. A name beyond ASCII is written in its ``xn--`` form (RFC 5891).
"""

import ipaddress
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_LONGEST_NAME = 253  # RFC 1035, without the trailing dot
_HIGHEST_PORT = 65_535

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """One host and port in canonical form: ``api.example.com:443``, ``127.0.0.1:8080``, ``[::1]:443``."""

    host: str  # an IPv6 address without its brackets
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``host:port``; ValueError, as a clause, when it is not exactly that."""
        host, colon, port = text.rpartition(":")
        if not colon or not _PORT.fullmatch(port) or int(port) > _HIGHEST_PORT:
            raise ValueError("it is not 'host:port' with a port from 1 to 65535")
        return cls(host_of(host), int(port))

    @property
    def address(self) -> Address | None:
        """The address, where the host is one and no name."""
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def of_address(url: str) -> Target:
    """Whom an ``https`` or ``http`` address names; ValueError, as a clause, for what is more or less."""
    scheme, _, rest = url.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if scheme not in ("https", "http") or not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("it is no plain https address")
    if "@" in authority or "#" in rest:
        raise ValueError("an address has no user and no fragment")
    has_port = re.search(r":[0-9]*$", authority) is not None
    return Target.parse(authority if has_port else f"{authority}:{443 if scheme == 'https' else 80}")


def header_is_framing(name: str) -> bool:
    """Whether a header says how a message is sent, not who sends it: its sender sets it, nobody else."""
    return name.lower() in _FRAMING or name.lower().startswith(_FRAMING_BEGINNINGS)


_FRAMING = frozenset(
    ("host", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "content-length",
     "content-encoding", "content-type", "accept-encoding", "expect", "via", "forwarded", "range", "date")
)  # fmt: skip
_FRAMING_BEGINNINGS = ("proxy-", "x-handler-", "x-forwarded-", "mcp-")


class Allow:
    """An allow-list: nothing in it allows nothing."""

    def __init__(self, listed: Iterable[str]) -> None:
        """Raises ValueError, naming the entry, when one is not a host and a port."""
        targets = set()
        for text in listed:
            try:
                targets.add(Target.parse(text))
            except ValueError as fault:
                raise ValueError(f"'{text[:80]}' is no host that can be reached: {fault}") from None
        self._targets = frozenset(targets)

    def __contains__(self, target: Target) -> bool:
        return target in self._targets

    def __len__(self) -> int:
        return len(self._targets)


def faults(listed: Iterable[str]) -> Iterator[tuple[int, str]]:
    """The entries of an allow-list that are no host and port: which, and why, as a clause."""
    for index, text in enumerate(listed):
        try:
            Target.parse(text)
        except ValueError as fault:
            yield index, str(fault)


def doubts(listed: Sequence[str]) -> Iterator[tuple[int, str, str, str]]:
    """The entries of an allow-list that will hardly do what is meant: which, what, why and the mend."""
    for index, text in enumerate(listed):
        try:
            target = Target.parse(text)
        except ValueError:
            continue  # one of ``faults``
        here = f"127.0.0.1:{target.port}"
        if target.host.rpartition(".")[2] == "localhost" and not {here, f"[::1]:{target.port}"} & {*listed}:
            why = "no name may lead to this machine's own servers: an address is listed itself"
            yield index, f"'{text}' cannot be reached", why, f"write '{here}'"
        elif target.host in _TELLTALES or (target.address is not None and target.address.is_link_local):
            why = "a cloud tells its machines' keys at such an address to whoever asks"
            yield index, f"'{text}' is the machine's own affair", why, "delete it, unless just that is meant"


_TELLTALES = ("168.63.129.16", "100.100.100.200", "fd00:ec2::254", "metadata.google.internal")


def host_of(text: str) -> str:
    """A host in canonical form, an IPv6 address without its brackets; ValueError, as a clause, for others."""
    if text.startswith("[") and text.endswith("]"):
        return _ipv6(text[1:-1])
    if not text.isascii():
        raise ValueError("the host has letters beyond ASCII: write its xn-- form")
    name = text.lower()
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _ipv4(name)
    if len(name) > _LONGEST_NAME or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError("the host is no name of plain labels")
    return name


def _ipv4(text: str) -> str:
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise ValueError("the host is a number that is no plain IPv4 address") from None


def _ipv6(text: str) -> str:
    try:
        if "%" in text:
            raise ValueError(text)
        return str(ipaddress.IPv6Address(text))
    except ValueError:
        raise ValueError("the host is no IPv6 address") from None
