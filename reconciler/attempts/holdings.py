"""What an attempt holds beside its state: permission to send, units, money, a session's lease."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether exact bytes may be sent, once. The ledger keeps it and counts its use; what led to it stands in
    ``basis``, whole and as the policy wrote it. Local evidence: it goes to no agent, log or status.
    """

    id: str
    verdict: Literal["allow", "ask", "deny"]
    wire_digest: str
    decided_at: float
    expires_at: float
    attempt: str = ""  # "" where what is sent is no effect
    transmission: int = 1
    uses_left: int = 1
    used_at: float = 0.0
    rule: str = ""
    basis: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reserve:
    """So many units of a resource, of which there are ``capacity``. A ``hold`` comes back when the attempt is
    over; a ``spend`` (money: ``budget:BINDING:DAY``) stays spent, by the actual cost where that is told.
    """

    resource: str
    units: int
    capacity: int
    kind: Literal["hold", "spend"] = "hold"


@dataclass(frozen=True, slots=True)
class SessionLease:
    """Who may speak in a provider's session: frames of an older epoch are dropped."""

    id: str
    binding: str
    epoch: int
    owner: str
    expires_at: float


@dataclass(frozen=True, slots=True)
class Tally:
    """How many attempts of a binding are open, and how many of those nobody can know the outcome of."""

    open: int = 0
    indeterminate: int = 0


class NoRoomError(RuntimeError):
    """A resource's capacity or a budget does not reach; ``resource`` says which."""

    def __init__(self, resource: str) -> None:
        super().__init__(f"no room in {resource}")
        self.resource = resource


class NotAllowedError(RuntimeError):
    """The decision does not permit this transmission; the text says why."""
