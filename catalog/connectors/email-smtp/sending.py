"""One message over SMTP (RFC 5321), and how far it came: told apart are "not sent" and "perhaps".

Everything before the end of the message leaves nothing behind at the server. From then on only its word says
whether it took the message; where that word does not come, nobody knows. Nothing is tried twice.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import aiosmtplib

_CONNECT_S, _COMMAND_S, _DATA_S = 15, 15, 40  # within the interface's 60; RFC 5321 would wait minutes
_TOO_LARGE = (552, 523)  # codes for "exceeds the size": RFC 1870, and what some write instead
_MOST_HEAD = 8192
_OPEN = 200  # the one status that opens a tunnel


class UnsentError(Exception):
    """The server did not get the message, or did not take it; the text says why, without its words."""


class TooLargeError(Exception):
    """The server takes no message of that size."""


class NobodyError(Exception):
    """The server refuses every recipient."""


class UnknownError(Exception):
    """The message was handed over, and nobody knows whether the server took it."""


@dataclass(frozen=True, slots=True)
class Server:
    """Where and how to send."""

    host: str
    port: int
    security: str  # tls, starttls, none
    name: str  # in its certificate
    user: str = ""
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Sent:
    """Whom the server took the message for, and whom not."""

    accepted: list[str]
    rejected: list[str]


async def send(
    server: Server, sender: str, to: list[str], data: bytes, *, stopped: Callable[[], bool]
) -> Sent:
    """Send the bytes of a message, unless nobody waits any more when it is about to be handed over; raises
    what this module names.
    """
    wire = _wire(server)
    client = aiosmtplib.SMTP(
        hostname=server.name,
        sock=wire,
        use_tls=server.security == "tls",
        start_tls=server.security == "starttls",
        tls_context=ssl.create_default_context() if server.security != "none" else None,
        timeout=_COMMAND_S,
    )
    try:
        sent = await _offered(client, server, (sender, to, len(data)))
        if stopped():
            raise UnsentError("cancelled")
        await _hand_over(client, data)
        with suppress(aiosmtplib.SMTPException, OSError):  # it has the message; how it ends says nothing
            await client.execute_command(b"QUIT")
    finally:
        await _end(client, wire)
    return sent


async def _end(client: aiosmtplib.SMTP, wire: socket.socket) -> None:
    """Close the connection now, not when the loop that it belongs to is gone."""
    transport = client.transport
    client.close()
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()
    for _ in range(3):  # a transport gives its socket back in the loop's next rounds
        await asyncio.sleep(0)
    wire.close()


async def _offered(client: aiosmtplib.SMTP, server: Server, mail: tuple[str, list[str], int]) -> Sent:
    """Everything before the message itself: whatever goes wrong here, it was not sent."""
    try:
        await client.connect()
        if server.user:
            await client.login(server.user, server.password or "")
        return await _envelope(client, *mail)
    except aiosmtplib.SMTPAuthenticationError as fault:
        raise UnsentError(f"the server takes neither user nor password ({fault.code})") from None
    except aiosmtplib.SMTPSenderRefused as fault:
        if fault.code in _TOO_LARGE:
            raise TooLargeError from None
        raise UnsentError(f"the server does not send for this sender ({fault.code})") from None
    except (aiosmtplib.SMTPException, OSError, ValueError) as fault:
        raise UnsentError(_without_way(fault)) from None


def _without_way(fault: BaseException) -> str:
    """Why there is no way to the server: the library wraps what TLS says."""
    cause: BaseException | None = fault
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"the server's certificate is not trusted: {cause.verify_message}"
        cause = cause.__cause__ or cause.__context__
    return f"no way to the server: {type(fault).__name__}"


async def _envelope(client: aiosmtplib.SMTP, sender: str, to: list[str], size: int) -> Sent:
    most = client.esmtp_extensions.get("size", "")
    if most.isdigit() and 0 < int(most) < size:
        raise TooLargeError
    options = [f"size={size}"] if client.supports_extension("size") else []
    await client.mail(sender, options=options)
    accepted: list[str] = []
    rejected: list[str] = []
    for one in to:
        try:
            await client.rcpt(one)
            accepted.append(one)
        except aiosmtplib.SMTPRecipientRefused as fault:
            if fault.code in _TOO_LARGE:
                raise TooLargeError from None
            rejected.append(one)
    if not accepted:
        raise NobodyError
    return Sent(accepted, rejected)


async def _hand_over(client: aiosmtplib.SMTP, data: bytes) -> None:
    try:
        await client.data(data, timeout=_DATA_S)
    except aiosmtplib.SMTPDataError as fault:  # the server's own word: it did not take it
        if fault.code in _TOO_LARGE:
            raise TooLargeError from None
        raise UnsentError(f"the server refuses the message ({fault.code})") from None
    except (aiosmtplib.SMTPException, OSError) as fault:
        raise UnknownError(type(fault).__name__) from None


# through the sandbox's one way out


def _proxy() -> tuple[str, int] | None:
    found = urlsplit(os.environ.get("HTTPS_PROXY", ""))
    return (found.hostname, found.port) if found.hostname and found.port else None


def _wire(server: Server) -> socket.socket:
    """A connection to the server, through the proxy where there is one; raises UnsentError."""
    proxy = _proxy()
    wire = None
    try:
        wire = socket.create_connection(proxy or (server.host, server.port), _CONNECT_S)
        status = _tunnelled(wire, server) if proxy else _OPEN
    except (OSError, ValueError) as fault:
        if wire is not None:
            wire.close()
        raise UnsentError(f"no way to the server: {type(fault).__name__}") from None
    if status != _OPEN:
        wire.close()
        raise UnsentError(f"the proxy lets nothing through to the server ({status})")
    wire.setblocking(False)  # noqa: FBT003
    return wire


def _tunnelled(wire: socket.socket, server: Server) -> int:
    host = f"[{server.host}]" if ":" in server.host else server.host
    target = f"{host}:{server.port}"
    wire.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode("ascii"))
    return _status(wire)


def _status(wire: socket.socket) -> int:
    """The status of the proxy's answer, read byte by byte: what follows belongs to the server."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = wire.recv(1)
        if not byte or len(head) > _MOST_HEAD:
            raise ValueError("the proxy hung up")
        head += byte
    return int(head.split(b" ", 2)[1])
