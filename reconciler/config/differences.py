"""The answer of ``handler diff -o json``, as shapes: the blast radius of an edit, for programs.

They are models so that a schema can be rendered and a test can check what is really printed. A key that has
nothing to say is null or empty, never left out; no list is cut.
"""

from typing import Literal

from pydantic import Field

from reconciler.config.moves import ChangeSeen
from reconciler.config.objectfile import Document, ProblemSeen
from reconciler.model.status import Reason


class HeldObject(Document):
    """An object whose last form is kept, and why."""

    object: str
    """The object, as KIND/NAME."""
    reason: Reason
    """One word."""
    message: str
    """The same for people."""


class AgentsReached(Document):
    """All agents, by whether they are reached."""

    reached: list[str]
    """Their next session gets something else."""
    untouched: list[str]
    """Nothing changes for them."""


class SessionSeen(Document):
    """An open session that is touched."""

    session: str
    """Its name."""
    agent: str
    """Its agent."""
    revision: str | None
    """The revision it was opened at; null: by a release that did not write it down."""
    generation: int
    """The number of the table it was opened with."""
    standing: bool
    """Whether it came through the agent's standing door."""
    instances: list[str]
    """The instances that it is pinned to."""


class InstancesMoved(Document):
    """All instances that begin or end."""

    begin: list[str]
    """Those that are made known: started by their first call, or before they replace one that serves."""
    end: list[str]
    """Those that are drained, and stopped once no open session is pinned to them."""


class LastGoodSeen(Document):
    """An object that goes on in an earlier form."""

    object: str
    """The object, as KIND/NAME."""
    why: str
    """Why."""


class Difference(Document):
    """The blast radius of an edit: what `handler diff -o json` prints."""

    api_version: Literal["handler.diff/v1"]
    """The format of this document."""
    from_: str | None = Field(alias="from")
    """The revision that is compared with; null: nothing was ever in force."""
    revision: str
    """The revision that is judged."""
    changes: list[ChangeSeen]
    """Every object that differs, by kind and name."""
    agents: AgentsReached
    """Every agent that is in force afterwards, and those that lose something."""
    chains: list[str]
    """Chains that are touched; none can be in this release."""
    sessions: list[SessionSeen]
    """Every open session that is touched."""
    instances: InstancesMoved
    """Every instance that begins or ends."""
    held: list[HeldObject]
    """Every object that is kept, or waits for an explicit apply."""
    refused_before: list[str]
    """Every object that the older side refuses and has no earlier form of: it counts as not there."""
    last_good: list[LastGoodSeen]
    """Every object that goes on in an earlier form: it is refused, or its newest instance proved nothing."""
    problems: list[ProblemSeen]
    """Everything that is wrong, errors and warnings."""
    refused: list[str]
    """Every object that is refused."""
    waiting: list[str]
    """Every object that no apply changes now."""
    applied: bool
    """Whether this was done, or only looked at."""
    ready: bool
    """After an apply: whether the newest routes serve."""
