"""The one request that the proxy takes, read strictly: ``CONNECT host:port HTTP/1.1`` and plain headers.

Everything that two readers could read differently is refused: bare line feeds, folded headers, spaces before
a colon, control characters, bodies, a second ``Host``, a ``Host`` of something else (RFC 9112, RFC 9110
section 9.3.6). Nothing of the request goes on, so a header that has no meaning here has no effect either.
"""

import re
from dataclasses import dataclass

from reconciler.model.hosts import Target, host_of

MAX_HEAD_BYTES = 8192
_MAX_HEADERS = 64
_END = b"\r\n\r\n"
_METHOD = b"CONNECT "
_LINE = re.compile(rb"CONNECT ([\x21-\x7e]{1,300}) HTTP/1\.[01]")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e\x80-\xff\t]*)")
_FRAMING = (b"content-length", b"transfer-encoding", b"trailer", b"expect")


@dataclass(frozen=True, slots=True)
class Connect:
    """A request to be connected to ``target``; ``used`` bytes were its head."""

    target: Target
    used: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that is not taken: the status of the answer, and why, as one sentence without its text."""

    status: int
    why: str


def read(data: bytes) -> Connect | Refused | None:
    """What the first bytes of a connection ask for; None while more are needed. More bytes never turn one
    answer into another.
    """
    if not data.startswith(_METHOD[: len(data)]):
        return Refused(403, "only CONNECT is served here: an https address goes through it, http does not")
    end = data.find(_END, 0, MAX_HEAD_BYTES)
    if end < 0:
        return Refused(431, "the request's head is too large") if len(data) >= MAX_HEAD_BYTES else None
    first, *headers = data[:end].split(b"\r\n")
    line = _LINE.fullmatch(first)
    if line is None:
        return Refused(400, "the request line is not CONNECT host:port HTTP/1.1")
    try:
        target = Target.parse(line[1].decode("ascii"))
    except ValueError as fault:
        return Refused(403, f"this is no host and port: {fault}")
    if wrong := _header_fault(headers, target):
        return Refused(400, wrong)
    return Connect(target, end + len(_END))


def _header_fault(lines: list[bytes], target: Target) -> str:
    if len(lines) > _MAX_HEADERS:
        return "the request has too many headers"
    hosts = []
    for line in lines:
        header = _HEADER.fullmatch(line)
        if header is None:
            return "a header does not have its form"
        name = header[1].lower()
        if name in _FRAMING:
            return "a CONNECT request has no body"
        if name == b"host":
            hosts.append(header[2].decode("latin-1").strip())
    if len(hosts) > 1 or not all(_names(host, target) for host in hosts):
        return "the Host header names something else"
    return ""


def _names(text: str, target: Target) -> bool:
    """Whether a ``Host`` header names the target, with its port or without."""
    try:
        if text.endswith(f":{target.port}"):
            return Target.parse(text) == target
        return host_of(text) == target.host
    except ValueError:
        return False
