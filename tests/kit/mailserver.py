"""A mail server for tests: TLS, a login, and the addresses of send-email's cases; it keeps what it gets."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import SMTP as POLICY
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

USER, PASSWORD = "ada@example.test", "a-password-that-nobody-may-see"
NAME = "mail.example.test"


@dataclass
class Mailbox:
    """What came, with its envelope; ``reply`` instead of taking a message."""

    port: int = 0
    mails: list[tuple[list[str], EmailMessage, bytes]] = field(default_factory=list)
    logins: int = 0
    reply: str | None = None
    holds: bool = False  # a message is taken, and the answer does not come yet

    async def handle_RCPT(  # noqa: N802 - the name that aiosmtpd looks for
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: Any
    ) -> str:
        local = address.partition("@")[0]
        if local in ("nobody", "large"):
            return "550 5.1.1 no such mailbox" if local == "nobody" else "552 5.3.4 too big for it"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        data = envelope.content or b""
        assert isinstance(data, bytes)
        if envelope.rcpt_tos == ["dropped@example.test"]:
            assert server.transport is not None
            server.transport.abort()
            return ""
        if self.reply is not None:
            return self.reply
        mail = BytesParser(EmailMessage, policy=POLICY).parsebytes(data)
        self.mails.append((list(envelope.rcpt_tos), mail, data))
        while self.holds:
            await asyncio.sleep(0.01)
        return "250 OK"

    def login(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, given: Any
    ) -> AuthResult:
        right = isinstance(given, LoginPassword) and (given.login, given.password) == (
            USER.encode(),
            PASSWORD.encode(),
        )
        self.logins += right
        return AuthResult(success=right, handled=False)


class _Server(Controller):
    def __init__(self, box: Mailbox, context: ssl.SSLContext | None, *, starttls: bool, most: int) -> None:
        self._starttls = starttls
        login = {"authenticator": box.login, "auth_required": True, "auth_require_tls": starttls}
        whole = {"data_size_limit": most, **(login if context else {})}
        if starttls:
            whole |= {"tls_context": context, "require_starttls": True}
        super().__init__(
            box, hostname="127.0.0.1", port=0, ssl_context=None if starttls else context, **whole  # type: ignore[arg-type]
        )  # fmt: skip

    def _trigger_server(self) -> None:
        """One connection, which the library waits for; its own way speaks TLS by a context for servers."""
        assert self.server is not None
        self.port = self.server.sockets[0].getsockname()[1]
        socket.create_connection(("127.0.0.1", self.port)).close()


@contextmanager
def serving(
    context: ssl.SSLContext | None, *, starttls: bool = False, most: int = 100_000
) -> Iterator[Mailbox]:
    """A server on loopback: TLS from the start, or by STARTTLS; without a context plain and without login."""
    box = Mailbox()
    server = _Server(box, context, starttls=starttls, most=most)
    server.start()
    try:
        box.port = server.port
        yield box
    finally:
        server.stop()
