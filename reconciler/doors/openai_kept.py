"""Conversations that the OpenAI-compatible door keeps for clients that name a session: in memory, bounded.

``X-Session-ID: new`` begins one; its id is in the answer's head. What follows in it sends its new messages
alone. Text of system messages is for its own request and never kept. All of it is gone when the door ends.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from reconciler.model.turns import Image, Message, Sound, Text, ToolResult, ToolUse

_MOST = 256  # conversations
_MOST_BYTES = 8 * 2**20  # of one
_MOST_IN_ALL = 64 * 2**20  # bytes of all together
_LONGEST_S = 24 * 3600.0  # without a request


@dataclass(slots=True)
class Conversation:
    """One of them; ``busy`` while a request of it is answered."""

    id: str
    messages: tuple[Message, ...] = ()
    size: int = 0  # of its messages, in bytes
    busy: bool = False
    seen: float = field(default=0.0)


class Conversations:
    """Those of one door. ``new_id`` makes ids that nobody guesses."""

    def __init__(self, new_id: Callable[[], str], clock: Callable[[], float] = time.monotonic) -> None:
        self._new_id, self._clock = new_id, clock
        self._kept: OrderedDict[str, Conversation] = OrderedDict()

    def begin(self) -> Conversation:
        """A new one; the one that was used longest ago goes where there are too many."""
        self._clean()
        while len(self._kept) >= _MOST:
            self._kept.popitem(last=False)
        made = Conversation(self._new_id(), seen=self._clock())
        self._kept[made.id] = made
        return made

    def find(self, name: str) -> Conversation | None:
        """The one of this id; None where there is none any more."""
        self._clean()
        found = self._kept.get(name)
        if found is not None:
            found.seen = self._clock()
            self._kept.move_to_end(name)
        return found

    def keep(self, one: Conversation, asked: tuple[Message, ...], said: Message) -> None:
        """Add what was asked and said to it. One that grows too large loses its oldest messages, up to the
        next one of the user's; where all together grow too large, those that were used longest ago go.
        """
        fresh = tuple(each for each in asked if each.role not in ("system", "developer"))
        messages = [*one.messages, *fresh, said]
        size = sum(map(_size, messages))
        while messages and (size > _MOST_BYTES or messages[0].role != "user"):
            size -= _size(messages.pop(0))
        one.messages, one.size = tuple(messages), size
        self._shed(one)

    def _shed(self, newest: Conversation) -> None:
        """Forget those that were used longest ago until the rest has room; one that is answered now, last."""
        size = sum(each.size for each in self._kept.values())
        for each in sorted(self._kept.values(), key=lambda found: found.busy):  # the order of use stays
            if size <= _MOST_IN_ALL:
                return
            if each is not newest:
                size -= each.size
                del self._kept[each.id]

    def _clean(self) -> None:
        until = self._clock() - _LONGEST_S
        while self._kept and next(iter(self._kept.values())).seen < until:
            self._kept.popitem(last=False)


def joined(one: Conversation, asked: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages of a request after those that are kept; what its system messages say stays in front."""
    told = tuple(each for each in asked if each.role in ("system", "developer"))
    return (*told, *one.messages, *(each for each in asked if each not in told))


def _size(message: Message) -> int:
    return sum(_weight(part) for part in message.parts) + 64


def _weight(part: object) -> int:
    match part:
        case Text(text) | ToolResult(_, text):
            return len(text.encode())
        case ToolUse(_, name, arguments):
            return len(name) + len(arguments.encode())
        case Image(_, data) | Sound(_, data):
            return len(data)
        case _:
            return 0
