"""A run that asks a person: one question for each ask of the engine, in the same book as all the others.

The question is known by the ask's own name. So a run that is resumed finds the answer that came meanwhile, or
the question that still waits, and never asks twice. A person reads which tool is to be called with what. What
that person denied, the same run does not ask about again with the same arguments.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson

from reconciler.chains.asks import AskApproval
from reconciler.chains.replies import Decided
from reconciler.control.approvals import Approval, Approvals

_LONGEST_S = 7 * 86_400.0  # a question that nobody answers in a week is answered by no
_SHOWN = 300  # characters of one argument


async def asked(
    book: Approvals,
    ask: AskApproval,
    whose: Mapping[str, Any],
    *,
    waits: Callable[[str], Awaitable[None]],
    now: Callable[[], float],
) -> Decided:
    """The verdict. ``waits`` is told the question's id before anybody waits for an answer."""
    mark = f"run:{ask.id}"
    until = now() + (float(ask.timeout_s) if ask.timeout_s > 0 else _LONGEST_S)
    found = _known(book, mark)
    if found is None or found.state == "waiting":
        about = {**whose, **_about(ask)}
        if found is None and (no := _said_no(book, about)) is not None:
            return Decided("denied", no.by)
        number = found.id if found is not None else book.begun(mark, about, until).id
        await waits(number)
        while (found := _known(book, mark)) is not None and found.state == "waiting":
            found = await book.asked(mark, about, until=until, wait_s=max(1.0, found.until - now()))
            if found.state != "waiting":
                break
    return await _decided(book, found, mark)


def _known(book: Approvals, mark: str) -> Approval | None:
    return next((one for one in book.listed() if one.mark == mark), None)


def _said_no(book: Approvals, about: Mapping[str, Any]) -> Approval | None:
    """What a person denied this run about the very same call."""
    keys = ("run", "interface", "tool", "sha256")
    same = (one for one in book.listed() if all(one.about.get(key) == about.get(key) for key in keys))
    return next((one for one in same if one.state == "denied"), None)


async def _decided(book: Approvals, found: Approval | None, mark: str) -> Decided:
    if found is not None and found.state == "approved":
        found = await book.consent(mark) or found
    if found is not None and found.state in ("approved", "used"):
        return Decided("approved", found.by)
    if found is not None and found.state == "denied":
        return Decided("denied", found.by)
    return Decided("expired")


def _about(ask: AskApproval) -> dict[str, Any]:
    """What a person reads: the whole of short arguments, the beginning of long ones, and a digest of all."""
    raw = orjson.dumps(ask.arguments, option=orjson.OPT_SORT_KEYS)
    told: dict[str, Any] = {
        "interface": ask.provider,
        "tool": ask.tool,
        "task": ask.task,
        "bytes": len(raw),
        "sha256": hashlib.sha256(raw).hexdigest(),
        "arguments": {str(key): _short(value) for key, value in ask.arguments.items()},
    }
    return told | ({"rule": ask.rule} if ask.rule is not None else {})


def _short(value: Any) -> Any:
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    if len(text) > _SHOWN:
        return f"{text[:_SHOWN]}… ({len(text)} characters)"
    return value
