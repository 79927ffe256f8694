"""One attempt at one effect, as the ledger keeps it: every field frozen, every instant handed in.

An attempt is a row that is written before anything is sent; it says who asked, for what exactly, what was
sent how often, and what is known of the outcome. It holds digests, names and sizes: the bytes of a request
and of a result lie in files of their own. Instants are seconds since 1970, 0.0 where there is none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

Effect = Literal["none", "unknown", "happened"]  # of a failed attempt: what is known of the world
Ack = Literal["", "proved", "requested", "refused", "unknown"]  # the far end's answer to a cancel


class State(StrEnum):
    """Where an attempt stands; which may follow which is ``machine``'s law."""

    PREPARED = "prepared"
    SUBMITTING = "submitting"
    ACCEPTED = "accepted"
    RUNNING = "running"
    INDETERMINATE = "indeterminate"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


TERMINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED})


@dataclass(frozen=True, slots=True)
class Owner:
    """For whom: ``principal`` is the person or programme that the agent works for, "" where nobody said."""

    agent: str
    session: str = ""
    project: str = ""
    principal: str = ""


@dataclass(frozen=True, slots=True)
class Execution:
    """With what: the exact binding, code and profile that the attempt was made for, by name and digest.

    These are what it is reconciled with, also when the configuration has moved on.
    """

    binding: str
    instance: str = ""  # NAME@DIGEST of the declared instance
    connector: str = ""
    profile: str = ""  # ID@REVISION
    profile_digest: str = ""
    driver: str = ""
    dialect: str = ""
    executor: str = ""  # of a job: the name of who does it, as it is registered


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked. ``sealed_ref`` names the file of the exact bytes below the ledger's ``sealed`` folder,
    "" where the grade is ``boundary`` and the connector makes them. Of which class it is, and by what policy
    it may go, is the word of the decisions on it.
    """

    input_digest: str  # of the tool's arguments and files
    request_digest: str = ""  # of the whole request in its canonical form; ``input_digest`` where empty
    wire_digest: str = ""  # of the exact bytes, as a decision allows them
    sealed_ref: str = ""
    destination: str = ""  # origin, "" where it stays on this machine
    purpose: str = ""
    artifacts: tuple[Mapping[str, object], ...] = ()  # sha256, size, media type, class of each file


@dataclass(frozen=True, slots=True)
class Idempotency:
    """By what the far end tells a repetition from a second wish; ``none`` means that it does not."""

    key: str = ""
    mode: Literal["none", "client-key", "natural"] = "none"
    expires_at: float = 0.0  # after it the far end has forgotten the key; 0.0: never


@dataclass(frozen=True, slots=True)
class Provider:
    """What the far end said of it. ``status`` is its own word, raw."""

    job_id: str = ""
    request_ids: tuple[str, ...] = ()
    status: str = ""
    progress: float | None = None  # 0 to 1
    sent_at: float = 0.0  # when the last transmission began
    seen_at: float = 0.0  # when it last said anything of this attempt
    doubt: bool = False  # a transmission before the last may have happened too
    job_expires_at: float = 0.0
    result_expires_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of it: a result's file and digest, or a failure's code, or what a cancel was told.

    Amounts of money are millionths of ``currency``.
    """

    result_ref: str = ""  # the file below the ledger's ``results`` folder
    result_digest: str = ""
    result_bytes: int = 0
    collected_at: float = 0.0
    usage: Mapping[str, object] = field(default_factory=dict)
    cost: int = 0
    currency: str = ""
    warnings: tuple[str, ...] = ()
    code: str = ""  # the interface's error code
    cause: str = ""  # for operators; never a payload
    effect: Effect | Literal[""] = ""
    late_result: str = ""  # what the far end said after the end: kept, and changes nothing


@dataclass(frozen=True, slots=True)
class Cancel:
    """The wish to stop it, and how far the wish got."""

    asked_at: float = 0.0
    by: str = ""
    sent_at: float = 0.0
    ack: Ack = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One row of the ledger: ``ServiceJobAttempt@1``. Made by ``machine.prepared``, changed by
    ``machine.after`` alone.
    """

    id: str  # UUIDv7
    handle: str  # 128 bits of chance in hex: what an agent holds; worthless to another agent
    owner: Owner
    scope: str
    call_key: str
    interface: str
    tool: str
    execution: Execution
    request: Request
    operation: str = ""
    effect: Literal["local", "paid", "external"] = "external"
    kind: Literal["call", "job"] = "call"
    grade: Literal["wire", "boundary"] = "boundary"  # whose bytes are decided: ours, or those of a connector
    generation: int = 0
    idempotency: Idempotency = field(default_factory=Idempotency)
    decisions: tuple[str, ...] = ()  # one a transmission
    state: State = State.PREPARED
    ver: int = 1
    fence: int = 1
    holder: str = ""  # the controller's instance that works on it
    lease_until: float = 0.0
    transmissions: int = 0
    entered: Mapping[str, float] = field(default_factory=dict)  # state -> when it was first entered
    deadline: float = 0.0  # nothing is sent after it; 0.0: none
    next_check_at: float = 0.0
    checks: int = 0
    parked: bool = False  # INDETERMINATE that nobody looks after but once a day: a person has to say
    provider: Provider = field(default_factory=Provider)
    ended: Ended = field(default_factory=Ended)
    cancel: Cancel = field(default_factory=Cancel)

    @property
    def is_over(self) -> bool:
        """Whether nothing can change its state any more."""
        return self.state in TERMINAL
