"""The email as it is handed over: headers, text, attachments; and whom it may go to. Pure.

Nothing of a call can become a second header: the email package refuses line breaks in headers, and the
interface's schema does before. Blind copies are recipients and never a header.
"""

from __future__ import annotations

from collections.abc import Mapping
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, localtime, make_msgid
from typing import Any

_POLICY = SMTP.clone(cte_type="7bit")  # what every server takes, whatever it says of itself
_PLAIN_TYPES = ("text", "image", "audio", "application")  # what a media type may begin with; else it is bytes


def recipients(arguments: Mapping[str, Any]) -> list[str]:
    """Everyone it goes to, each once, however the domain is written."""
    found: dict[str, str] = {}
    for key in ("to", "cc", "bcc"):
        for address in arguments.get(key, ()):
            found.setdefault(_folded(address), address)
    return list(found.values())


def unpermitted(wanted: list[str], permitted: str) -> list[str]:
    """The addresses that the operator's list does not hold."""
    listed = {entry.strip().lower() for entry in permitted.split(",") if entry.strip()}
    if "*" in listed:
        return []
    return [one for one in wanted if not {one.lower(), "@" + one.lower().rpartition("@")[2]} & listed]


def compose(arguments: Mapping[str, Any], sender: str, sender_name: str) -> EmailMessage:
    """The whole message, with a Message-ID of its own."""
    mail = EmailMessage(policy=_POLICY)
    mail["From"] = Address(_one_line(sender_name), addr_spec=sender)
    for header, key in (("To", "to"), ("Cc", "cc")):
        if arguments.get(key):
            mail[header] = ", ".join(dict.fromkeys(arguments[key]))
    mail["Subject"] = _one_line(arguments["subject"])
    mail["Date"] = format_datetime(localtime())
    mail["Message-ID"] = make_msgid(domain=sender.rpartition("@")[2])
    if arguments.get("inReplyTo"):
        mail["In-Reply-To"] = mail["References"] = arguments["inReplyTo"]
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: so that absence notes do not answer a program
    mail.set_content(arguments["text"])
    for file in arguments.get("attachments", ()):
        _attach(mail, file)
    return mail


def _attach(mail: EmailMessage, file: Any) -> None:
    main, _, sub = file.media_type.partition("/")
    if main not in _PLAIN_TYPES or not sub.replace("-", "").replace(".", "").replace("+", "").isalnum():
        main, sub = "application", "octet-stream"
    mail.add_attachment(file.read(), maintype=main, subtype=sub, filename=_one_line(file.name))


def _one_line(text: str) -> str:
    """Without what any reader takes for the end of a line, or for a command to a terminal."""
    return "".join(one if one.isprintable() else "_" for one in text)


def _folded(address: str) -> str:
    local, _, domain = address.rpartition("@")
    return f"{local}@{domain.lower()}"
