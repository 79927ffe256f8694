"""The answers of ``handler jobs … -o json``, as shapes: attempts at effects, for programs.

They are models so that a schema can be rendered and a test can check what is really printed. A key that has
nothing to say is null or empty, never left out. Nothing of a payload stands in them.
"""

from typing import Literal

from pydantic import Field

from reconciler.config.objectfile import Document

Scalar = str | int | float | bool | None
Told = Scalar | list[str] | dict[str, Scalar]


class JobEvent(Document):
    """One thing that happened to an attempt."""

    at: str
    """When."""
    what: str
    """What happened, in one word."""
    from_: str = Field(alias="from")
    """The state before it; empty for the first."""
    to: str
    """The state after it."""
    actor: str
    """Who said so: a controller's run, an agent's name, a person."""
    evidence: dict[str, Told]
    """What was told of it; never a payload."""


class JobSeen(Document):
    """One attempt at one effect."""

    job: str
    """Its id, which sorts by time."""
    handle: str
    """What its agent holds of a job, and what nobody but that agent can use; empty of a call."""
    kind: Literal["call", "job"]
    """Whether its caller waits for it, or comes back for it."""
    agent: str
    """Whose it is."""
    session: str
    """The session that it was made in."""
    interface: str
    """The interface version, like send-email/v1."""
    tool: str
    """The tool that was called."""
    binding: str
    """The binding that serves it."""
    effect: Literal["local", "paid", "external"]
    """What the tool does to the world."""
    state: Literal[
        "prepared", "submitting", "accepted", "running", "indeterminate", "succeeded", "failed", "cancelled"
    ]
    """Where it stands; indeterminate: it may have happened, and nobody knows."""
    parked: bool
    """Whether it is indeterminate and a person has to say what became of it."""
    created_at: str
    """When it was written down."""
    since: str
    """When it came to its state first."""
    transmissions: int
    """How often it was sent."""
    cancel_asked_at: str | None
    """When somebody wanted it stopped."""
    code: str
    """The error that the agent reads; empty where there is none."""
    cause: str
    """The same for operators."""
    happened: Literal["", "none", "unknown", "happened"]
    """What is known of the effect of one that ended."""
    result_bytes: int
    """The size of its result."""
    history: list[JobEvent] | None
    """Everything that happened to it; null in a list."""


class Jobs(Document):
    """The answer of handler jobs list, get, cancel and settle: the attempts that were asked for."""

    jobs: list[JobSeen]
    """The newest first."""
    unreadable: list[str]
    """The ids of rows that cannot be read: the ledger was damaged, or written by hand."""
