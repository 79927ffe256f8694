"""How one call asks a policy whether it may be handed over, and lets go of what it was let in by."""

from collections.abc import Callable

from reconciler.model.calls import Refusal, Reply, Result
from reconciler.model.entries import Entering, Policed


class LetIn:
    """The entry of one call: asked for once, left once."""

    __slots__ = ("_go_on", "_is_over", "_policed", "entry")

    def __init__(self, policed: Policed, go_on: Callable[[Refusal | None], None]) -> None:
        """``go_on`` hears that it may go on (None), or why not."""
        self.entry = ""
        self._policed, self._go_on = policed, go_on
        self._is_over = False

    def ask(self, entering: Entering) -> None:
        """Ask; the answer may come before this returns, or when a person gave it."""
        self._policed.entries.enter(entering, self._heard)

    def told(self, reply: Reply) -> Reply:
        """What becomes of a reply: what its session reads by it is kept before the agent has it."""
        if self.entry and isinstance(reply, Result) and reply.read:
            return self._policed.entries.read(self.entry, reply.read) or reply
        return reply

    def leave(self) -> None:
        """The call is over."""
        self._is_over = True
        if self.entry:
            self._policed.entries.left(self.entry)

    def _heard(self, said: str | Refusal) -> None:
        if isinstance(said, str):
            self.entry = said
        if self._is_over:  # its agent did not wait so long
            self.leave()
        else:
            self._go_on(None if isinstance(said, str) else said)
