"""What can happen to an attempt: each with the evidence that the ledger keeps of it.

Whoever learned something says it in one of these; which state follows from it is ``machine``'s to say. None
carries a payload: ``cause`` and ``evidence`` are words for operators, kept in the ledger.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.attempts.records import Ack, Effect, State


class Ground(StrEnum):
    """By what right a transmission goes out: the first, or one of the few that may repeat it."""

    FIRST = "first"
    NOT_SENT = "not-sent"  # the last one provably never left
    NO_EFFECT = "no-effect"  # the last one was answered by an error that had none, and may be repeated
    ABSENT = "absent"  # looked up and provably absent
    CLIENT_KEY = "client-key"  # the far end takes the same key for the same wish
    NATURAL = "natural"  # a second one of the same name cannot exist


@dataclass(frozen=True, slots=True)
class Submit:
    """The request is about to go out: kept before its first byte. ``decision`` permits exactly this one; ""
    where no policy asks for any.
    """

    ground: Ground = Ground.FIRST
    decision: str = ""


@dataclass(frozen=True, slots=True)
class NotSent:
    """No byte of the request left: nothing can have happened."""

    cause: str
    code: str = "unavailable"


@dataclass(frozen=True, slots=True)
class Refused:
    """The far end answered that it did nothing."""

    code: str
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Absent:
    """The far end was asked and provably knows nothing of it."""

    cause: str = "looked up and provably absent"


@dataclass(frozen=True, slots=True)
class Lost:
    """The outcome cannot be known from here: it may have happened."""

    cause: str
    parked: bool = False  # and nothing can be asked about it


@dataclass(frozen=True, slots=True)
class Accepted:
    """The far end has it. A synchronous answer has no job's id: it is ``Succeeded`` in the same breath."""

    job_id: str = ""
    request_id: str = ""
    status: str = ""
    job_expires_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Seen:
    """The far end works on it."""

    status: str = ""
    progress: float | None = None
    check_after_s: float = 0.0  # how long the far end wants to be left alone


@dataclass(frozen=True, slots=True)
class Succeeded:
    """It is done, and the result lies in its file already."""

    result_ref: str = ""
    result_digest: str = ""
    result_bytes: int = 0
    usage: Mapping[str, object] = field(default_factory=dict)
    cost: int | None = None  # millionths; None: not told, the estimate stands
    currency: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """The far end says that it failed, and what that did."""

    code: str
    cause: str = ""
    effect: Effect = "unknown"
    cost: int | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    """It is provably cancelled."""

    proof: str


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """It will not be sent: denied, too late, or what it was made for is gone."""

    code: str
    cause: str


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """Somebody wants it stopped."""

    by: str


@dataclass(frozen=True, slots=True)
class CancelSent:
    """The wish to stop it is about to go out."""


@dataclass(frozen=True, slots=True)
class CancelAnswered:
    """What the far end said to the wish. ``proved`` alone is no end: ``Stopped`` is."""

    ack: Ack


@dataclass(frozen=True, slots=True)
class Checked:
    """It was looked after, and nothing new was learned; ``again_s`` is when to look next."""

    again_s: float
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Settled:
    """A person says what became of it, and how they know."""

    to: State
    by: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Collected:
    """The agent has its result."""


@dataclass(frozen=True, slots=True)
class Late:
    """The far end said something after the end: kept, and changes nothing."""

    said: str


Happening = (
    Submit
    | NotSent
    | Refused
    | Absent
    | Lost
    | Accepted
    | Seen
    | Succeeded
    | Failed
    | Stopped
    | Withdrawn
    | CancelAsked
    | CancelSent
    | CancelAnswered
    | Checked
    | Settled
    | Collected
    | Late
)
