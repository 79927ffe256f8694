"""What a driver made of an answer: one value out of a closed list, in our words.

A vendor's own words stop here. What a person may read later (``detail``) is a status, a code of the vendor's
when it looks like a code, and our own text; never a message, never a payload.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Effect = Literal["none", "unknown", "happened"]
Retry = Literal["never", "retry-after", "backoff"]


@dataclass(frozen=True, slots=True)
class Media:
    """Bytes of a result, or of a request: a picture, a sound, a film."""

    media_type: str
    data: bytes = field(repr=False)
    name: str = ""  # a file's own name, without a folder; its ending tells some servers the format

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return len(self.data)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call took, as its server counted; 0 where it said nothing."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0  # of the input, read from a cache
    reasoning_tokens: int = 0  # of the output, not shown
    seconds: float = 0.0  # of sound or film


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server said of its rate limits: its text by names of ours (``requests_remaining``), and resets
    in seconds from the answer where that is what it said.
    """

    said: Mapping[str, str] = field(default_factory=dict)
    reset_s: Mapping[str, float] = field(default_factory=dict)
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What came along with an answer, whatever its outcome."""

    status: int = 0
    request_id: str = ""  # the server's, when it looks like one
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Done:
    """It was done. ``result`` is the dialect's typed result; a place of bytes in it is ``{"media": n}``."""

    result: Mapping[str, object]
    media: tuple[Media, ...] = ()
    usage: Usage = field(default_factory=Usage)
    model: str = ""  # as the answer names it
    warnings: tuple[str, ...] = ()
    seen: Seen = field(default_factory=Seen)


@dataclass(frozen=True, slots=True)
class Accepted:
    """A job was taken; it is this one."""

    job_id: str
    status: str = ""  # the server's word
    progress: float | None = None  # 0 to 1
    expires_at: int | None = None  # seconds since 1970
    seen: Seen = field(default_factory=Seen)


@dataclass(frozen=True, slots=True)
class Rejected:
    """It was refused or failed. ``effect`` says what that proves: ``none`` only where the profile's error map
    says so. ``code`` is one of an interface's or the router's.
    """

    code: str
    detail: str
    effect: Effect = "unknown"
    retry: Retry = "never"
    reason: Literal["", "ModelSubstituted"] = ""  # what a binding's status says of it
    seen: Seen = field(default_factory=Seen)


@dataclass(frozen=True, slots=True)
class Pending:
    """The job is not at its end. ``moving`` tells a running one from a queued one."""

    status: str
    moving: bool = False
    progress: float | None = None  # 0 to 1
    poll_after_s: float | None = None
    expires_at: int | None = None
    seen: Seen = field(default_factory=Seen)


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The server says of this very job that it was cancelled."""

    status: str
    proved: bool  # the status is one that the profile's ``cancel.proof`` lists
    seen: Seen = field(default_factory=Seen)


@dataclass(frozen=True, slots=True)
class Absent:
    """The server knows no such job; ``proof`` only where the profile says that absence proves it."""

    proof: bool = False
    seen: Seen = field(default_factory=Seen)


@dataclass(frozen=True, slots=True)
class Expired:
    """The job or its result is no longer kept."""

    seen: Seen = field(default_factory=Seen)


@dataclass(frozen=True, slots=True)
class Unknown:
    """The answer cannot be read as anything of the dialect: never success, never failure."""

    cause: str
    seen: Seen = field(default_factory=Seen)


@dataclass(frozen=True, slots=True)
class CancelAck:
    """What asking for an end brought: ``proved`` that it ended, ``requested``, ``refused``, ``unknown``."""

    answer: Literal["proved", "requested", "refused", "unknown"]
    seen: Seen = field(default_factory=Seen)


CallOutcome = Done | Rejected | Unknown
SubmitOutcome = Accepted | Done | Rejected | Unknown
LookupOutcome = Pending | Accepted | Done | Rejected | Cancelled | Absent | Expired | Unknown
FetchOutcome = Done | Pending | Rejected | Absent | Expired | Unknown
