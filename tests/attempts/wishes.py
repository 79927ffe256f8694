"""Attempts for tests, each with chance of its own."""

import os
import time
from dataclasses import replace
from typing import Any

from reconciler.attempts import identities
from reconciler.attempts.records import Attempt, Execution, Owner, Request

NOW = 1_800_000_000.0


def new(number: int = 0, **fields: Any) -> Attempt:
    """A wish of session s1, told from others by its number."""
    one = Attempt(
        id=identities.attempt_id(time.time(), os.urandom(10)),
        handle=identities.handle(os.urandom(16)),
        owner=Owner("max", "s1"),
        scope=identities.scope("", "", "max"),
        call_key=identities.call_key(None, os.urandom(16)),
        interface="send-email/v1",
        tool="email_send",
        execution=Execution("mail"),
        request=Request(f"sha256:{number}"),
        holder="first",
    )
    return replace(one, **fields)
