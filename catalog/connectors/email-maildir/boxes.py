"""Which boxes take whose messages, and how a message lies in a Maildir.

A Maildir is a folder with ``tmp``, ``new`` and ``cur``. What arrives becomes a file in ``new`` under a name
that no other delivery ever has, whole from its first moment: so readers need no locks. Here the last step is
the controller's, which gives a file its name when it is on the disk; nothing ever lies in ``tmp``.
"""

from __future__ import annotations

import secrets
import time

_HERE = "."  # the box that is the folder itself


def sorted_into(recipients: list[str], boxes: str) -> dict[str, list[str]]:
    """The boxes that take a message to these, each with the recipients that it is for."""
    listed = [entry.strip().partition("=") for entry in boxes.split(",")]
    found: dict[str, list[str]] = {}
    for one in recipients:
        address = one.lower()
        for pattern in (address, "@" + address.rpartition("@")[2], "*"):
            its = [box for written, _, box in listed if written.lower() == pattern]
            for box in dict.fromkeys(its):
                found.setdefault(box, []).append(one)
            if its:
                break
    return found


def sizes(text: str) -> dict[str, int]:
    """The most bytes of a message, by box."""
    pairs = (entry.strip().partition("=") for entry in text.split(",") if entry.strip())
    return {box: int(most) for box, _, most in pairs}


def delivered(mail: bytes, sender: str, recipients: list[str]) -> bytes:
    """A message as a box keeps it: lines end as files' do here, and before it stands for whom it came."""
    heads = [f"Return-Path: <{sender}>", *(f"Delivered-To: {one}" for one in recipients)]
    return "\n".join(heads).encode() + b"\n" + mail.replace(b"\r\n", b"\n")


def place(box: str) -> str:
    """The name of a new message, below the folder."""
    name = f"{int(time.time())}.{secrets.token_hex(12)}.handler"
    return f"new/{name}" if box == _HERE else f"{box}/new/{name}"
