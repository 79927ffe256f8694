"""Sends email: the tool of the send-email interface over ``message`` (what) and ``sending`` (how)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import handler_email as message
import sending
from handler_connector import Failure, secret, serve

if TYPE_CHECKING:
    from handler_connector import Call


def send(arguments: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """``send_email_message``: one message, to everyone or, where one is not permitted, to nobody."""
    to = message.recipients(arguments)
    if message.unpermitted(to, os.environ["SMTP_RECIPIENTS"]):
        why = "a recipient is not among those of settings.recipients"
        raise Failure("refused", why, nothing_happened=True)
    sender = os.environ["SMTP_SENDER"]
    mail = message.compose(arguments, sender, os.environ.get("SMTP_SENDER_NAME", ""))
    stopped = call.cancelled.is_set
    try:
        sent = asyncio.run(sending.send(_server(), sender, to, mail.as_bytes(), stopped=stopped))
    except sending.NobodyError:
        raise Failure("invalid_recipient", "the server refuses every recipient") from None
    except sending.TooLargeError:
        raise Failure("too_large", "the server takes no message of that size") from None
    except sending.UnsentError as fault:
        raise Failure("unavailable", str(fault), nothing_happened=True) from None
    except sending.UnknownError as fault:
        raise Failure("outcome_unknown", f"the connection ended after the message: {fault}") from None
    return {"messageId": str(mail["Message-ID"]), "accepted": sent.accepted, "rejected": sent.rejected}


def _server() -> sending.Server:
    host, _, port = os.environ["SMTP_SERVER"].rpartition(":")
    host = host.strip("[]")
    return sending.Server(
        host=host,
        port=int(port),
        security=os.environ.get("SMTP_SECURITY") or "tls",
        name=os.environ.get("SMTP_SERVER_NAME") or host,
        user=os.environ.get("SMTP_USER", ""),
        password=secret("password"),
    )


if __name__ == "__main__":
    serve({"send_email_message": send})
