"""Delivers email: the tool of send-email over ``boxes``. The controller puts the files there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import boxes
import handler_email as message
from handler_connector import Failure, serve

if TYPE_CHECKING:
    from handler_connector import Call


def send(arguments: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """``send_email_message``: one copy for each box that a recipient has, or nothing anywhere."""
    to = message.recipients(arguments)
    found = boxes.sorted_into(to, os.environ["MAILDIR_BOXES"])
    if not found:
        raise Failure("invalid_recipient", "no recipient has a box")
    sender = os.environ["MAILDIR_SENDER"]
    mail = message.compose(arguments, sender, os.environ.get("MAILDIR_SENDER_NAME", ""))
    most = boxes.sizes(os.environ.get("MAILDIR_SIZES", ""))
    copies = [(box, boxes.delivered(mail.as_bytes(), sender, whose)) for box, whose in found.items()]
    if any(len(data) > most.get(box, len(data)) for box, data in copies):
        raise Failure("too_large", "it is larger than settings.sizes permits for a box")
    for box, data in copies:
        call.add("maildir", boxes.place(box), data)
    accepted = [one for one in to if any(one in whose for whose in found.values())]
    rejected = [one for one in to if one not in accepted]
    return {"messageId": str(mail["Message-ID"]), "accepted": accepted, "rejected": rejected}


if __name__ == "__main__":
    serve({"send_email_message": send})
