"""The greeting of TLS, read strictly: for which server name a client asks, before anything goes on.

A tunnel to an allowed host could otherwise carry a handshake for another one that the same servers answer
for. The ClientHello (RFC 8446 section 4.1.2) may be split over several records (section 5.1); each length
must be exact, and there is one name, of type host_name (RFC 6066 section 3). A greeting with an encrypted
ClientHello is refused, also where it is only there for show: what it hides could be any name.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_HELLO_BYTES = 16_384  # with keys of post-quantum exchanges it is some 2,000
_HANDSHAKE, _CLIENT_HELLO = 22, 1
_RECORD_HEAD, _MESSAGE_HEAD = 5, 4
_MAX_RECORD = 16_384
_SERVER_NAME, _HOST_NAME = 0, 0
_ENCRYPTED = frozenset((0xFE0D, *range(0xFE08, 0xFE0D), 0xFFCE))  # ECH, its drafts, and ESNI before it
_NAME = re.compile(rb"[A-Za-z0-9_.-]{1,253}")


@dataclass(frozen=True, slots=True)
class Hello:
    """A whole greeting; the name is lower case, "" where the client names none."""

    name: str


@dataclass(frozen=True, slots=True)
class Refused:
    """No greeting that is taken, and why, as a clause."""

    why: str


class _Wrong(Exception):  # noqa: N818 - never leaves this module
    """A length or a value that a greeting cannot have; the text says which."""


def read(data: bytes) -> Hello | Refused | None:
    """What the first bytes of a tunnel greet for; None while more are needed. More bytes never turn one
    answer into another.
    """
    try:
        message = _message(data)
        return None if message is None else Hello(_name(message))
    except _Wrong as fault:
        return Refused(str(fault))


def _message(data: bytes) -> bytes | None:
    """The body of the first handshake message, put together from its records; None while it is not whole."""
    body = b""
    at = 0
    while True:
        head = data[at : at + _RECORD_HEAD]
        if head[:1] != bytes([_HANDSHAKE])[: len(head[:1])] or head[1:2] != b"\x03"[: len(head[1:2])]:
            raise _Wrong("it does not begin with TLS")
        if len(head) < _RECORD_HEAD:
            return None
        size = int.from_bytes(head[3:])
        if not 0 < size <= _MAX_RECORD:
            raise _Wrong("a TLS record has a size that none may have")
        part = data[at + _RECORD_HEAD : at + _RECORD_HEAD + size]
        body += part
        whole = _size_of(body)
        if whole is not None and len(body) >= whole:
            if len(body) > whole:
                raise _Wrong("something stands behind the greeting in its record")
            if len(part) == size:
                return body[_MESSAGE_HEAD:]
        if len(part) < size:
            return None
        at += _RECORD_HEAD + size


def _size_of(body: bytes) -> int | None:
    """How long a handshake message is, its head included; None before its head is there."""
    if body and body[0] != _CLIENT_HELLO:
        raise _Wrong("its first message is no greeting")
    if len(body) < _MESSAGE_HEAD:
        return None
    whole = _MESSAGE_HEAD + int.from_bytes(body[1:_MESSAGE_HEAD])
    if whole > MAX_HELLO_BYTES:
        raise _Wrong("the greeting is too large")
    return whole


def _name(body: bytes) -> str:
    """The server name of a ClientHello's body, "" without one."""
    fields = _Reader(body)
    fields.take(2 + 32)  # version and random
    if len(fields.block(1)) > 32:
        raise _Wrong("its session id is too long")
    ciphers, compressions = fields.block(2), fields.block(1)
    if not ciphers or len(ciphers) % 2 or not compressions:
        raise _Wrong("it offers nothing")
    extensions = dict(_extensions(fields.block(2))) if not fields.done else {}
    fields.end()
    if _ENCRYPTED & extensions.keys():
        raise _Wrong("it hides the server's name (encrypted ClientHello)")
    return _server_name(extensions[_SERVER_NAME]) if _SERVER_NAME in extensions else ""


def _extensions(block: bytes) -> Iterator[tuple[int, bytes]]:
    fields, seen = _Reader(block), set()
    while not fields.done:
        kind = int.from_bytes(fields.take(2))
        if kind in seen:
            raise _Wrong("it has an extension twice")
        seen.add(kind)
        yield kind, fields.block(2)


def _server_name(extension: bytes) -> str:
    fields = _Reader(extension)
    names = _Reader(fields.block(2))
    fields.end()
    if names.take(1) != bytes([_HOST_NAME]):
        raise _Wrong("its server name is of no known sort")
    name = names.block(2)
    names.end()
    if not _NAME.fullmatch(name):
        raise _Wrong("its server name is no name")
    return name.decode("ascii").lower()


class _Reader:
    """Takes exact pieces from bytes; raises ``_Wrong`` when they are not there."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def done(self) -> bool:
        return self._at == len(self._data)

    def take(self, size: int) -> bytes:
        piece = self._data[self._at : self._at + size]
        if len(piece) < size:
            raise _Wrong("it is cut short inside")
        self._at += size
        return piece

    def block(self, width: int) -> bytes:
        """A piece behind its own length, which has ``width`` bytes."""
        return self.take(int.from_bytes(self.take(width)))

    def end(self) -> None:
        if not self.done:
            raise _Wrong("something stands behind its end")
