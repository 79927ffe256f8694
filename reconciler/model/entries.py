"""The entry of a call into a connector, as router and policy speak of it: before anything is handed over.

The router is handed an ``Entries``. While there is a policy, each call asks it once, with what it is about to
hand over named by digests and by where files lie; it goes on when it hears that it may. What is said to
agents are fixed words: which rule spoke, operators see.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from reconciler.model.calls import Refusal
from reconciler.model.contract import Tool
from reconciler.model.routes import Route, ScopeFolder

DENIED = "what may be sent out does not allow this"
UNASKED = "a person has to agree to this first; once they have, the same call may be made again"
AWAITS = "ApprovalPending"  # a refusal's reason: a person was asked, and has not agreed yet

Files = tuple[tuple[str, int, str], ...]  # property, bytes, sha256


@dataclass(frozen=True, slots=True)
class Entering:
    """A call that is about to be handed over. ``paths`` are its input files as the agent named them."""

    agent: str
    session: str
    route: Route
    tool: Tool
    arguments: Mapping[str, Any]  # as the agent gave them
    scope: tuple[ScopeFolder, ...]
    paths: tuple[str, ...]
    files: Files
    left_s: float  # until the call's own deadline


Entered = Callable[[str | Refusal], None]  # the entry's name, or why not


class Entries(Protocol):
    """Who decides on entries. All of it on the loop."""

    def enter(self, entering: Entering, heard: Entered) -> None:
        """Decide; ``heard`` is called exactly once, maybe before this returns."""
        ...

    def read(self, entry: str, paths: tuple[str, ...]) -> Refusal | None:
        """The answer of that entry's call gives the text of files of the scope; why it may not, or None."""
        ...

    def left(self, entry: str) -> None:
        """The call of that entry is over, or was given up."""
        ...


class Open:
    """Where no policy is, every call may enter."""

    def enter(self, entering: Entering, heard: Entered) -> None:
        """Let it in."""
        heard("")

    def read(self, entry: str, paths: tuple[str, ...]) -> Refusal | None:
        """Nobody asks what a session has read."""
        return None

    def left(self, entry: str) -> None:
        """Nothing was kept of it."""


class Policed:
    """Whether entries are asked for, and whom: one value for all that need to know, changed in place."""

    __slots__ = ("entries", "on")

    def __init__(self) -> None:
        self.on = False
        self.entries: Entries = Open()
