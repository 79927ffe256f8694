"""What of a history a model is shown: calls paired with results, sliding to fit, and a cap in bytes.

All of it works on any message that has the few properties of ``Message``, and returns the caller's own
messages; where one must be made or cut, the caller says how. Nothing counts tokens here: a counter is handed
in, as is what makes a stub result.

The newest turn of the user survives, or the history does not fit (``OverflowsError``): a model is never asked
about a conversation whose question has silently gone.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar


class Message(Protocol):
    """What this module must know of a message."""

    @property
    def role(self) -> str:
        """``system``, ``user``, ``assistant`` or ``tool``."""
        ...

    @property
    def content(self) -> str:
        """Its text."""
        ...

    @property
    def thinking(self) -> str:
        """What a model thought aloud, or empty."""
        ...

    @property
    def tool_call_id(self) -> str:
        """Of a tool's message: the call that it answers."""
        ...

    @property
    def call_ids(self) -> tuple[str, ...]:
        """Of an assistant's message: its calls, in its order."""
        ...


M = TypeVar("M", bound=Message)


class OverflowsError(ValueError):
    """The history does not fit the window, however much of it is left out: the error class ``capacity``."""


def paired(messages: Sequence[M], stub: Callable[[M, str], M]) -> tuple[M, ...]:
    """``messages`` with exactly one result for each call, right after the message that asks for it.

    A result answers the newest message before it that asks for its call. One that answers none, or a call
    that is answered already, is dropped (the first wins). A call without a result gets ``stub(asking message,
    call id)``, after the results that are there.
    """
    newest: dict[str, int] = {}
    results: dict[int, dict[str, M]] = {}
    for at, message in enumerate(messages):
        newest.update(dict.fromkeys(message.call_ids, at))
        if message.role == "tool" and message.tool_call_id in newest:
            asker = newest[message.tool_call_id]
            results.setdefault(asker, {}).setdefault(message.tool_call_id, message)
    out: list[M] = []
    for at, message in enumerate(messages):
        if message.role == "tool":
            continue
        found = results.get(at, {})
        missing = [call for call in dict.fromkeys(message.call_ids) if call not in found]
        out.extend((message, *found.values(), *(stub(message, call) for call in missing)))
    return tuple(out)


def limit_tokens(token_limit: int, context_length: int) -> int | None:
    """The effective window: the smaller of a chain's limit and a request's context; None: unlimited."""
    known = [limit for limit in (token_limit, context_length) if limit > 0]
    return min(known) if known else None


@dataclass(frozen=True, slots=True)
class Window:
    """The room there is, in tokens: ``limit`` whole, of which ``spent`` goes to tools' schemas and guard
    texts and ``reserve`` to the answer.
    """

    limit: int
    spent: int = 0
    max_tokens: int = 0

    @property
    def budget(self) -> int:
        """What is left for the messages."""
        return self.limit - self.spent - self.reserve

    @property
    def reserve(self) -> int:
        """What the answer may take: ``max_tokens``, else an eighth of a limit of 8 or more."""
        return self.max_tokens or (self.limit // 8 if self.limit >= 8 else 0)


def fits(messages: Sequence[M], window: Window, tokens: Callable[[M], int]) -> bool:
    """Whether the whole history fits, the answer's reserve apart (as the check without ``shift`` is)."""
    return sum(tokens(message) for message in messages) + window.spent <= window.limit


def slid(messages: Sequence[M], window: Window, tokens: Callable[[M], int]) -> tuple[M, ...]:
    """The newest part of ``messages`` that fits, with every system message and the newest turn of the user.

    An assistant's message with calls and the results that follow it stay or go together; results without
    their call go. From the newest unit back, the first that does not fit ends the walk. Raises OverflowsError
    where what must stay does not fit, or the newest unit does not.
    """
    newest = next((at for at in reversed(range(len(messages))) if messages[at].role == "user"), None)
    kept = {at for at, message in enumerate(messages) if message.role == "system" or at == newest}
    budget = window.budget - sum(tokens(messages[at]) for at in kept)
    if budget < 0:
        raise OverflowsError("the system messages and the newest turn are longer than the context window")
    units = _units(messages)
    for unit in reversed(units):
        if unit[0] == newest:
            kept.update(unit)
            continue
        size = sum(tokens(messages[at]) for at in unit)
        if size > budget:
            break
        budget -= size
        kept.update(unit)
    if not units or units[-1][0] not in kept:
        raise OverflowsError("the newest messages do not fit the context window")
    return tuple(message for at, message in enumerate(messages) if at in kept)


def _units(messages: Sequence[Message]) -> list[list[int]]:
    """Places of what stays or goes together, oldest first; system messages and results without a call in
    none.
    """
    units: list[list[int]] = []
    open_calls: set[str] = set()
    for at, message in enumerate(messages):
        if message.role == "system":
            continue
        if message.role == "tool":
            if message.tool_call_id in open_calls:
                units[-1].append(at)
            continue
        open_calls = set(message.call_ids)
        units.append([at])
    return units


def cut_text(text: str, most_bytes: int) -> str:
    """``text`` within ``most_bytes`` of UTF-8, and a marker with its size and sha256; unchanged where it
    fits.

    A character that the cut would split goes whole.
    """
    raw = text.encode("utf-8", "replace")
    if most_bytes <= 0 or len(raw) <= most_bytes:
        return text
    head = raw[:most_bytes].decode("utf-8", "ignore")
    return f"{head}\n[cut: {len(raw)} bytes in all, sha256 {hashlib.sha256(raw).hexdigest()}]"


def cut_history(messages: Sequence[M], most_bytes: int, shortened: Callable[[M, str], M]) -> tuple[M, ...]:
    """The newest messages whose content and thinking make up ``most_bytes``; the one that crosses is cut.

    ``shortened(message, content)`` is the message with that content and no thinking. Counts of tokens that a
    history keeps are the caller's to reset when fewer messages come back, or another last one.
    """
    if most_bytes <= 0 or sum(_bytes(message) for message in messages) <= most_bytes:
        return tuple(messages)
    kept: list[M] = []
    left = most_bytes
    for message in reversed(messages):
        size = _bytes(message)
        if size > left:
            if left:
                kept.append(shortened(message, cut_text(message.content, left)))
            break
        kept.append(message)
        left -= size
    return tuple(reversed(kept))


def _bytes(message: Message) -> int:
    return len(message.content.encode("utf-8", "replace")) + len(message.thinking.encode("utf-8", "replace"))
