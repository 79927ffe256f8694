"""``capabilities.json`` of a session, as shapes: what its agent may call now, for programs it starts.

It names interfaces and how they stand, never a binding, a connector or a vendor. The controller writes it in
``control.capabilities``; it is replaced whole whenever something in it changes.
"""

from typing import Literal

from reconciler.config.objectfile import Document
from reconciler.model.stands import State


class Capability(Document):
    """One interface of the session."""

    interface: str
    """The interface and its version, as NAME/vN."""
    description: str
    """What it is for."""
    tools: list[str]
    """The tools that may be called, in their order."""
    socket: str
    """Where this interface alone is served."""
    state: State
    """`bound`: it answers; `degraded`: it may answer `unavailable`; `missing`: it answers `unavailable`."""
    since: str
    """Since when, as an ISO instant in UTC."""
    means: str
    """What follows for a caller, or empty."""


class Capabilities(Document):
    """What the agent of a session may call: `capabilities.json`, named by `HANDLER_CAPABILITIES`."""

    api_version: Literal["handler.capabilities/v1"]
    """The format of this file."""
    agent: str
    """Whose session it is."""
    session: str | None
    """The session; null at an agent's standing door, which tells what its next session gets."""
    services: str
    """The socket where all of it is served."""
    interfaces: list[Capability]
    """Each interface, by name."""
