"""What an agent is told while its call runs: progress that grows, not too often, and no words. Pure."""

from collections.abc import Callable

from reconciler.router import answers
from reconciler.wire.jsonrpc import Id

_MAX_TOLD = 20  # lines of progress of one call in a second: more than anybody reads


class Teller:
    """Tells of one call's progress under its token (MCP: strictly increasing)."""

    def __init__(self, token: Id, clock: Callable[[], float]) -> None:
        self._token = token
        self._clock = clock
        self._last: float | None = None
        self._second = (0.0, 0)  # that began at…, and how much was told in it

    def tell(self, progress: float, total: float | None) -> bytes | None:
        """The line to send, or None: it did not grow, or too much was told in this second."""
        if self._last is not None and progress <= self._last:
            return None
        now, (since, told) = self._clock(), self._second
        if now - since >= 1:
            since, told = now, 0
        if told >= _MAX_TOLD:
            return None
        self._last, self._second = progress, (since, told + 1)
        return answers.progress(self._token, progress, total)
