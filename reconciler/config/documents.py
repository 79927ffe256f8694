"""Every file that is written by the product for programs to read, by the name of its schema.

The lock and the events are shaped here, the status files in ``config.objectfile`` and
``config.statuses``, what ``handler diff`` prints in ``config.differences``, a session's
sheet in ``config.capabilities``, what ``handler connector check`` found in ``config.evidence``, what
``handler jobs`` prints in ``config.jobfile``.
"""

from typing import Literal

from pydantic import BaseModel, Field

from reconciler.config.capabilities import Capabilities
from reconciler.config.differences import Difference
from reconciler.config.evidence import Evidence
from reconciler.config.jobfile import Jobs
from reconciler.config.objectfile import Document, StatusFile
from reconciler.config.statuses import Summary


class LockedVersion(Document):
    """A published interface version: it never changes."""

    digest: str
    """`sha256:…` over the paths, modes and bytes of its folder."""
    model_digest: str
    """`sha256:…` over what a model reads of it, whatever the layout: RFC 8785 of the tools, and the skill."""
    reviewed_by: str
    """Who read what the model will read."""
    published: str
    """The day it was locked, as YYYY-MM-DD."""
    files: dict[str, str] = Field(default_factory=dict)
    """`sha256:…` of each of its files, by path: so that what changed can be named."""


class LockedProfile(Document):
    """A published profile: its facts never change."""

    digest: str
    """`sha256:…` over RFC 8785 of its table: of the facts, not of how they are laid out."""
    reviewed_by: str
    """Who read them."""
    published: str
    """The day it was locked, as YYYY-MM-DD."""


class LockFile(Document):
    """Digests of all that is published: `handler.lock`, written by `handler lock add`."""

    api_version: Literal["handler.lock/v1"]
    """The format of this file."""
    interfaces: dict[str, LockedVersion] = Field(default_factory=dict)
    """The published versions, by name: `ocr/v1`."""
    profiles: dict[str, LockedProfile] = Field(default_factory=dict)
    """The published profiles, by name and revision: `openai-images.gpt-image-2@1`."""


class Event(Document):
    """One line of `events.jsonl`: something happened to an object."""

    timestamp: str
    """When it was last told, as an ISO instant in UTC."""
    first_timestamp: str
    """When it was first told."""
    object: str
    """The object, as KIND/NAME."""
    severity: Literal["Normal", "Warning"]
    """Whether somebody should look."""
    reason: str
    """One word: why."""
    message: str
    """The same for people."""
    metadata: dict[str, str | int | None]
    """Facts that belong to it, like the instance and how it last ended."""
    count: int
    """How often it happened since it was first told."""


# By the name of the schema's file: its title, and its shape.
DOCUMENTS: dict[str, tuple[str, type[BaseModel]]] = {
    "lock": ("handler.lock/v1", LockFile),
    "status": ("handler.status/v1", StatusFile),
    "summary": ("handler.status/v1 summary", Summary),
    "evidence": ("handler.evidence/v1", Evidence),
    "event": ("handler.event/v1", Event),
    "capabilities": ("handler.capabilities/v1", Capabilities),
    "diff": ("handler.diff/v1", Difference),
    "jobs": ("handler.jobs/v1", Jobs),
}
