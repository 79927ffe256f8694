"""What is known of a service besides its declaration: three truths, kept apart, each with an age. Pure.

*Link*: did something answer. *Readiness*: can this operation take work now. *Conformance*: did exactly this
pass its suite. None stands for another, none grants a way out, and none adds an operation or a model: a good
word only gives back what a bad one took. An observation past its end is worth nothing, whatever it says.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from reconciler.model.stands import instant
from reconciler.model.status import Reason

Kind = Literal["link", "readiness", "conformance"]
Link = Literal["up", "down", "unknown"]
Readiness = Literal["ready", "warming", "busy", "not-ready", "unprobed", "unknown"]
Conformance = Literal["passed", "failed", "stale", "never"]
Actor = Literal["link-probe", "readiness-probe", "inventory", "call", "conformance", "fingerprint"]
Heard = Literal["answered", "unavailable", "stalled", "substituted"]
"""How a real call of an operation ended, as far as readiness is concerned. ``answered``: the service took
it, with whatever result or closed error. ``unavailable``: it said that it cannot. ``stalled``: not a byte
came for too long. ``substituted``: the answer names another model than the one that was asked for."""
Policy = Literal["required", "attempt"]

VALUES: dict[Kind, tuple[str, ...]] = {
    "link": get_args(Link), "readiness": get_args(Readiness), "conformance": get_args(Conformance),
}  # fmt: skip
EVERY = "*"  # the operation of an observation that is about all of them

# Who may say what. Whatever is not here may not be said by that actor, whoever asks it to.
_MAY: dict[Actor, dict[Kind, tuple[str, ...]]] = {
    "link-probe": {"link": get_args(Link)},
    "readiness-probe": {"readiness": get_args(Readiness)},
    "inventory": {"readiness": ("not-ready", "unknown")},
    "call": {"readiness": ("ready", "not-ready", "unknown")},
    "conformance": {"conformance": get_args(Conformance)},
    "fingerprint": {"conformance": ("stale",)},
}


@dataclass(frozen=True, slots=True)
class Subject:
    """What an observation is about: one operation (or ``*``) of one instance of a binding."""

    binding: str
    instance: str = ""  # binding@digest12
    operation: str = EVERY
    profile: str = ""  # id@revision; "" for a connector with code of its own
    profile_digest: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """One thing that was seen, by whom, when, and until when that is worth something. Times: seconds since
    1970. Evidence is the fingerprint of a check's.
    """

    kind: Kind
    subject: Subject
    value: str
    reason: Reason
    by: Actor
    observed_at: float
    expires_at: float
    message: str = ""  # for people; no payload, no vendor's words
    egress_bytes: int = 0  # that the looking sent beyond a handshake
    evidence: str = ""

    def as_json(self) -> dict[str, Any]:
        """The record (``handler.observation/v1``), as status files hold it."""
        return {
            "kind": self.kind,
            "subject": {
                "binding": self.subject.binding,
                "instance": self.subject.instance,
                "operation": self.subject.operation,
                "profile": self.subject.profile,
                "profileDigest": self.subject.profile_digest,
            },
            "value": self.value,
            "reason": self.reason,
            "message": self.message,
            "by": self.by,
            "observedAt": instant(self.observed_at),
            "expiresAt": instant(self.expires_at),
            "egressBytes": self.egress_bytes,
            "evidence": self.evidence,
        }

    def is_fresh(self, now: float) -> bool:
        """Whether it is worth something yet. One from the future is not: the clock was moved."""
        return self.observed_at <= now + _SKEW_S and now < self.expires_at

    def at(self, now: float) -> "Observation":
        """The same as it is to be read now: past its end nothing is known, and proof is stale."""
        if self.is_fresh(now):
            return self
        worth = "stale" if self.kind == "conformance" else "unknown"
        return self if self.value in (worth, "never") else replace(self, value=worth, reason="Stale")


_SKEW_S = 5.0


def may(actor: Actor, kind: Kind, value: str) -> bool:
    """Whether this actor may say this of that kind."""
    return value in _MAY[actor].get(kind, ())


@dataclass(frozen=True, slots=True)
class Seen:
    """What is to be told of one binding: its observations, and of a server's models those that are missing
    and how many others it lists (None: it was not asked).
    """

    observations: tuple[Observation, ...] = ()
    missing: tuple[str, ...] = ()
    undeclared: int | None = None


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a server lists as its models, held against what is declared: a negative, and a count."""

    missing: tuple[str, ...] = ()
    undeclared: int = 0
    declared: tuple[str, ...] = field(default=())


def compared(declared: tuple[str, ...], listed: frozenset[str]) -> Inventory:
    """Which declared models a list lacks, and how many others it has. Nothing listed becomes selectable."""
    wanted = frozenset(declared)
    return Inventory(tuple(one for one in declared if one not in listed), len(listed - wanted), declared)
