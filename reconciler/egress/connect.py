"""The one request that the proxy takes, read strictly: ``CONNECT host:port HTTP/1.1`` and plain headers, or
a plain ``GET http://127.0.0.1:8080/…`` to an address, which goes on as that server would be asked directly.

Everything that two readers could read differently is refused: bare line feeds, folded headers, spaces before
a colon, control characters, bodies, a second ``Host``, a ``Host`` of something else (RFC 9112, RFC 9110
section 9.3.6). Nothing of a CONNECT goes on, so a header that has no meaning here has no effect either; of a
plain request all goes on but what is said to the proxy itself. Only addresses are asked plainly: one that is
listed may carry whatever it likes, while a name is held to by TLS.
"""

import re
from dataclasses import dataclass

from reconciler.model.hosts import Target, host_of

MAX_HEAD_BYTES = 8192
_MAX_HEADERS = 64
_END = b"\r\n\r\n"
_METHOD = b"CONNECT "
_SCHEME = b"http://"
_MOST_METHOD = 16
_PLAIN = re.compile(rb"([A-Z]{1,16}) http://([\x21-\x2e\x30-\x7e]{1,300})(/[\x21-\x7e]*)? (HTTP/1\.[01])")
_OURS = (b"connection", b"keep-alive", b"upgrade", b"te", b"proxy-connection", b"proxy-authorization")
_HTTP_PORT = 80
_ONLY_CONNECT = (
    "this proxy takes CONNECT, and plain http only to an address that is listed: use https (curl -p makes a "
    "CONNECT of plain http, too)"
)
_LINE = re.compile(rb"CONNECT ([\x21-\x7e]{1,300}) HTTP/1\.[01]")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e\x80-\xff\t]*)")
_FRAMING = (b"content-length", b"transfer-encoding", b"trailer", b"expect")


@dataclass(frozen=True, slots=True)
class Connect:
    """A request to be connected to ``target``; ``used`` bytes were its head. Where it was a plain request,
    ``head`` is what the target is sent for that.
    """

    target: Target
    used: int
    head: bytes = b""


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that is not taken: the status of the answer, and why, as one sentence without its text."""

    status: int
    why: str


def read(data: bytes) -> Connect | Refused | None:
    """What the first bytes of a connection ask for; None while more are needed. More bytes never turn one
    answer into another.
    """
    is_plain = not data.startswith(_METHOD[: len(data)])
    if is_plain and not _may_be_plain(data):
        return Refused(403, _ONLY_CONNECT)
    end = data.find(_END, 0, MAX_HEAD_BYTES)
    if end < 0:
        return Refused(431, "the request's head is too large") if len(data) >= MAX_HEAD_BYTES else None
    first, *headers = data[:end].split(b"\r\n")
    return (_plain if is_plain else _connect)(first, headers, end + len(_END))


def _connect(first: bytes, headers: list[bytes], used: int) -> Connect | Refused:
    line = _LINE.fullmatch(first)
    if line is None:
        return Refused(400, "the request line is not CONNECT host:port HTTP/1.1")
    try:
        target = Target.parse(line[1].decode("ascii"))
    except ValueError as fault:
        return Refused(403, f"this is no host and port: {fault}")
    if wrong := _header_fault(headers, target):
        return Refused(400, wrong)
    return Connect(target, used)


def _may_be_plain(data: bytes) -> bool:
    """Whether these bytes begin, or may come to begin, like ``GET http://``."""
    method, space, rest = data[: _MOST_METHOD + 1 + len(_SCHEME)].partition(b" ")
    if len(method) > _MOST_METHOD or not (method.isalpha() and method.isupper()):
        return False
    return not space or rest.startswith(_SCHEME[: len(rest)])


def _plain(first: bytes, headers: list[bytes], used: int) -> Connect | Refused:
    line = _PLAIN.fullmatch(first)
    if line is None:
        return Refused(400, "the request line is not METHOD http://host:port/path HTTP/1.1")
    authority = line[2].decode("ascii")
    try:
        has_port = authority.rpartition(":")[2].isdigit()
        target = Target.parse(authority if has_port else f"{authority}:{_HTTP_PORT}")
    except ValueError as fault:
        return Refused(403, f"this is no host and port: {fault}")
    if target.address is None:
        return Refused(403, _ONLY_CONNECT)
    if wrong := _header_fault(headers, target, framing=()):
        return Refused(400, wrong)
    kept = (one for one in headers if one.partition(b":")[0].lower() not in _OURS)
    start = b"%b %b %b" % (line[1], line[3] or b"/", line[4])
    head = b"\r\n".join((start, *kept, b"Connection: close"))
    return Connect(target, used, head + _END)


def _header_fault(lines: list[bytes], target: Target, *, framing: tuple[bytes, ...] = _FRAMING) -> str:
    if len(lines) > _MAX_HEADERS:
        return "the request has too many headers"
    hosts = []
    for line in lines:
        header = _HEADER.fullmatch(line)
        if header is None:
            return "a header does not have its form"
        name = header[1].lower()
        if name in framing:
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
