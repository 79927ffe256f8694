"""What a driver is asked, and the faces that drivers have: seal a request, read an answer.

A driver is a module of pure functions. It is handed a call and a profile and reads no other fact. It never
retries, sleeps, follows a redirect, chooses a model, fetches an address that it finds in an answer, or keeps
anything between two calls. Of the same call and profile it seals the same bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from reconciler.model.dialect import Profile
from reconciler.model.outcome import (
    CallOutcome,
    CancelAck,
    FetchOutcome,
    LookupOutcome,
    Media,
    Rejected,
    SubmitOutcome,
    Unknown,
)
from reconciler.model.sealed import Reply, Sealed
from reconciler.model.turns import Answered, Event, ModelFacts, Turn

By = Literal["job-id", "key", "tag"]


class Unsealable(ValueError):  # noqa: N818 - what is true when it is raised
    """The call has no bytes under this profile: ``fact`` is what the profile does not state, such as
    ``field.seed``. Whoever asked ``model.admitting`` before never meets it.
    """

    def __init__(self, fact: str) -> None:
        super().__init__(f"the profile does not state {fact}")
        self.fact = fact


@dataclass(frozen=True, slots=True)
class Call:
    """One call of one operation. ``fields`` are the provider's, as the profile lists them; ``files`` those of
    type ``file``. ``id`` is the attempt's or call's own: boundaries are derived from it, so it is stable.
    """

    id: str
    operation: str
    fields: Mapping[str, object]
    files: Mapping[str, tuple[Media, ...]] = field(default_factory=dict)
    base: str | None = None  # the origin and path of a profile whose base is ``binding``
    stream: bool = False
    key: str = ""  # the idempotency key, sent where the profile says how
    tag: str = ""  # what the job can be found by, sent where the profile says how


@dataclass(frozen=True, slots=True)
class Job:
    """A job that was submitted, as the ledger knows it."""

    id: str  # the attempt's
    operation: str
    job_id: str = ""  # the provider's, "" while it is not known
    key: str = ""
    tag: str = ""
    base: str | None = None
    model: str = ""  # as it was asked for


class Decoder(Protocol):
    """Reads an answer in pieces, wherever they are cut."""

    def feed(self, data: bytes) -> tuple[Event, ...]:
        """What these bytes complete. Nothing raises: after a fault there are no more events."""

    def close(self) -> CallOutcome:
        """What the whole stream was. One that ended before its end is Unknown."""


class TurnDecoder(Protocol):
    """Reads a model's answer in pieces, wherever they are cut."""

    def feed(self, data: bytes) -> tuple[Event, ...]:
        """What these bytes complete. Nothing raises: after a fault there are no more events."""

    def close(self) -> Answered | Rejected | Unknown:
        """What the whole stream was: the same turn as without streaming."""


class CallDriver(Protocol):
    """One request, one result."""

    def seal(self, call: Call, profile: Profile) -> Sealed:
        """The bytes of the call. Raises Unsealable."""

    def read(self, reply: Reply, call: Call, profile: Profile) -> CallOutcome:
        """What the answer is. Never raises, whatever it holds."""

    def decoder(self, head: Reply, call: Call, profile: Profile) -> Decoder | None:
        """What reads the streamed answer that begins with this status and these headers; None: it is no
        stream, read it whole.
        """


class JobDriver(Protocol):
    """A job: submitted, looked up, cancelled, fetched. None: the profile states no such request."""

    def seal_submit(self, call: Call, profile: Profile) -> Sealed:
        """The bytes of the submit. Raises Unsealable."""

    def read_submit(self, reply: Reply, call: Call, profile: Profile) -> SubmitOutcome:
        """What the answer is."""

    def seal_lookup(self, job: Job, profile: Profile, by: By) -> Sealed | None:
        """The question for a job by its id, our key, or our tag."""

    def read_lookup(self, reply: Reply, job: Job, profile: Profile, by: By) -> LookupOutcome:
        """Where the job stands. A status that is not in the profile's list is Unknown."""

    def seal_cancel(self, job: Job, profile: Profile) -> Sealed | None:
        """The request to stop exactly this job."""

    def read_cancel(self, reply: Reply, job: Job, profile: Profile) -> CancelAck:
        """What asking brought."""

    def seal_fetch(self, job: Job, part: str, profile: Profile) -> Sealed | None:
        """The request for a part of the result."""

    def read_fetch(self, reply: Reply, job: Job, part: str, profile: Profile) -> FetchOutcome:
        """The part, as the one media of a Done."""


class ModelDriver(Protocol):
    """A language model: turns in, turns out. It answers with wishes for tools and runs none."""

    def facts(self, profile: Profile, model: str) -> ModelFacts:
        """What the profile states of the model."""

    def call_of(self, turn: Turn, call_id: str, profile: Profile, base: str | None) -> Call:
        """The call that a turn is; ``seal`` makes its bytes. Raises Unsealable for what the profile does not
        state: a picture, a tool, a schema.
        """

    def seal(self, call: Call, profile: Profile) -> Sealed:
        """The bytes of the call. Raises Unsealable."""

    def read_turn(self, reply: Reply, turn: Turn, profile: Profile) -> Answered | Rejected | Unknown:
        """What the answer is."""

    def turn_decoder(self, head: Reply, turn: Turn, profile: Profile) -> TurnDecoder | None:
        """What reads the streamed answer; None: it is no stream, read it whole."""
