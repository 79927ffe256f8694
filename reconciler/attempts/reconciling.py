"""What the relay asks of whoever can speak to an attempt's far end, and what that far end can do at all."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from reconciler.attempts.happenings import (
    Absent,
    Accepted,
    Failed,
    Lost,
    NotSent,
    Refused,
    Seen,
    Stopped,
)
from reconciler.attempts.records import Ack, Attempt

By = Literal["job-id", "key", "tag"]


@dataclass(frozen=True, slots=True)
class FarEnd:
    """The facts of one attempt's far end, from the profile that it was made with. All absent: nothing can be
    asked, and what is unknown stays so.
    """

    lookup: frozenset[By] = frozenset()
    absence_is_proof: bool = False
    visibility_delay_s: float = 0.0  # before it, "not found" says nothing: what was sent may still arrive
    same_key_same_job: bool = False  # live evidence for both: same key and body give the same job…
    other_body_is_error: bool = False  # …and the same key with another body is refused
    can_cancel: bool = False  # by this job's own id, and no other job's
    reconcile_for_s: float = 86_400.0  # after that long without evidence a person has to say
    max_result_bytes: int = 67_108_864


@dataclass(frozen=True, slots=True)
class Finished:
    """The far end says that it is done. ``inline`` is the result where the answer held it; None: fetch it."""

    inline: bytes | None = None
    usage: dict[str, object] = field(default_factory=dict)
    cost: int | None = None
    currency: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotFound:
    """The far end was asked and named nothing. It proves something only where the far end's facts say so."""


@dataclass(frozen=True, slots=True)
class Expired:
    """The far end knew it once, and has forgotten it or its result."""

    cause: str = "expired"


@dataclass(frozen=True, slots=True)
class Unclear:
    """The far end could not be asked, or cannot be understood: not known to run, nor to be over."""

    cause: str
    again_s: float = 0.0  # how long it wants to be left alone


Found = Accepted | Seen | Finished | Failed | Refused | Stopped | Absent | NotFound | Expired | Unclear
Sent = Accepted | Finished | Refused | NotSent | Lost | Failed


class NoPermissionError(RuntimeError):
    """A transmission is not allowed to go out; the text says why."""


class Reconciler(Protocol):
    """Who speaks to the far ends. Each call sends at most one request, each with its own decision; none
    decides what becomes of an attempt. Cancelled after ten seconds: as if it had said ``Unclear``.
    """

    def far_end(self, one: Attempt) -> FarEnd | None:
        """What can be asked of an attempt's far end; None: nobody here can speak to it (any more)."""
        ...

    async def lookup(self, one: Attempt, by: By) -> Found:
        """Ask what became of it."""
        ...

    async def permit(self, one: Attempt) -> str:
        """A fresh decision on the same sealed bytes: its id, "" where no policy asks for one. Raises
        NoPermissionError.
        """
        ...

    async def submit(self, one: Attempt) -> Sent:
        """Send the sealed bytes, once more; the ledger knows of it already."""
        ...

    async def cancel(self, one: Attempt) -> Ack:
        """Ask the far end to stop this very job."""
        ...

    async def fetch(self, one: Attempt) -> Iterable[bytes] | Expired | Unclear:
        """The bytes of the result."""
        ...
