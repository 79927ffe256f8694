"""What a builtin tool is given beside its arguments, and the one way in which it ends without an answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from reconciler.model.routes import ScopeFolder


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asks: the session, what its agent may reach, and whether anybody still waits for the answer."""

    session: str
    scope: tuple[ScopeFolder, ...]
    wanted: Callable[[], bool]
    read: set[str] = field(default_factory=set)  # files whose text the answer gives, by the agent's paths

    def go_on(self) -> None:
        """Between two pieces of work: raises ``Ended`` when nobody waits any more."""
        if not self.wanted():
            raise Ended("unavailable", "the call ended meanwhile")


class Ended(Exception):  # noqa: N818 - an answer of the interface's closed list
    """The call ends with a code; ``diagnostic`` is for the record and names no path and no payload."""

    def __init__(self, code: str, diagnostic: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.diagnostic = diagnostic


# One tool: it blocks, runs in a thread, and raises ``Ended``, ``beneath.Denied`` or OSError.
Answerer = Callable[[Mapping[str, Any], Asked], dict[str, Any]]
