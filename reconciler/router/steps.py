"""What the law of a call asks for, step by step, and how a call ends. Pure values; ``call`` is the law."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.model.effects import Ending
from reconciler.model.jobs import AskJob

Files = Mapping[str, tuple[str, ...]]  # input property → the paths that the agent gave


@dataclass(frozen=True, slots=True)
class Turn:
    """Wait until another call of this session and interface has ended. Reply: None."""


@dataclass(frozen=True, slots=True)
class Look:
    """See that each input is a readable file of the scope, and that each output may be made. Reply: None.
    ``again``: an output may have been put in its place before, and nobody heard of it.
    """

    inputs: Files
    outputs: Mapping[str, str]
    max_bytes: int
    lists: frozenset[str] = frozenset()  # inputs that are lists of files
    again: bool = False


@dataclass(frozen=True, slots=True)
class Hash:
    """Hash the looked-at inputs where they lie. Reply: property, bytes and sha256 of each."""


@dataclass(frozen=True, slots=True)
class Enter:
    """Ask whether the call may be handed over, as a policy has it. Reply: None, or a Refusal."""

    arguments: Mapping[str, Any]  # as the agent gave them
    files: tuple[tuple[str, int, str], ...] = ()
    paths: tuple[str, ...] = ()  # of the inputs, as the agent gave them


@dataclass(frozen=True, slots=True)
class HandOver:
    """Copy the looked-at inputs to the connector. Reply: what stands in their place, by property.
    ``hashed``: they are hashed by then, not after the call. ``decided``: what they have to be, where that was
    decided on. ``staged``: to the staging folders of jobs, not to a connector.
    """

    hashed: bool = False
    decided: tuple[tuple[str, int, str], ...] | None = None
    staged: bool = False


@dataclass(slots=True)
class Send:
    """Send the call; ``max_bytes`` bounds the line that answers. Reply: Result or Refusal."""

    tool: str
    arguments: Mapping[str, Any]
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Place:
    """Put what the connector wrote (property → blob) where the agent asked for it. Reply: None."""

    blobs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Join:
    """Wait for the same call of the same session, if one runs. Reply: its outcome, or None: this is the
    first.
    """

    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Begin:
    """Have the connector ready and keep that the call is about to be sent. Reply: Begun, Known or Refusal."""

    arguments: Mapping[str, Any]  # as the agent gave them


@dataclass(frozen=True, slots=True)
class Settle:
    """Keep how the begun call ended. Reply: None; no deadline comes in here."""

    ending: Ending


Step = Turn | Look | Hash | Enter | HandOver | Send | Place | Join | Begin | Settle | AskJob


@dataclass(slots=True)
class Answer:
    """A call that went well: the structured answer as JSON, checked and within bounds."""

    structured: bytes


@dataclass(slots=True)
class Refused:
    """A call that did not: the code and detail that the agent sees, and what only the operator does."""

    code: str
    detail: str = ""
    diagnostic: str = ""


Outcome = Answer | Refused
