"""Jobs as an agent meets them: ``X_submit`` answers with a handle, and three companions ask about it.

``X_status``, ``X_result`` and ``X_cancel`` stand beside ``X_submit`` in the same ``tools.json``, with schemas
that are fixed here (the result's answer is the interface's own), and are answered from the ledger: no
connector hears of them. A handle is its agent's, in whatever session; to anybody else there is no such job.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeGuard

from reconciler.model.calls import Refusal
from reconciler.model.contract import COMPANIONS, SUBMIT
from reconciler.model.effects import Intent

NOT_READY, CANCELLED = "not_ready", "cancelled"  # errors that an interface with a job lists, with UNKNOWN
JOB = "job"  # the field that holds a handle
# ``files`` and ``kept`` are the router's own: lay the result's files out, and: the agent has them.
What = Literal["job", "status", "result", "cancel", "files", "kept"]
Standing = Literal["working", "succeeded", "failed", "cancelled", "unknown"]

_HANDLE = {"type": "string", "pattern": "^[0-9a-f]{32}$", "maxLength": 32}
_STANDING = {"type": "string", "enum": ["working", "succeeded", "failed", "cancelled", "unknown"]}


def _closed(needed: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object", "additionalProperties": False, "required": list(needed), "properties": properties,
    }  # fmt: skip


_SEEN = _closed(
    (JOB, "state"),
    job=_HANDLE,
    state=_STANDING,
    progress={"type": "number", "minimum": 0, "maximum": 1},
    error={"type": "string", "maxLength": 64},
)
# The schemas but for descriptions, by kind of tool: input, output; None: the interface's own.
SCHEMAS: Mapping[str, tuple[dict[str, Any] | None, dict[str, Any] | None]] = {
    "job": (None, _closed((JOB, "state"), job=_HANDLE, state=_STANDING)),
    "status": (_closed((JOB,), job=_HANDLE), _SEEN),
    "result": (_closed((JOB,), job=_HANDLE), None),
    "cancel": (_closed((JOB,), job=_HANDLE), _SEEN),
}


def companions(submit: str) -> dict[str, str]:
    """The tools that ask about what a tool submits, by kind; {} for a name that submits nothing."""
    if not submit.endswith(SUBMIT):
        return {}
    return {kind: submit.removesuffix(SUBMIT) + suffix for kind, suffix in COMPANIONS.items()}


def is_handle(value: object) -> TypeGuard[str]:
    """Whether a value has the form of a handle."""
    return type(value) is str and re.fullmatch("[0-9a-f]{32}", value) is not None


def bare(schema: object) -> object:
    """A schema without its descriptions and titles."""
    if isinstance(schema, Mapping):
        named = schema.get("properties")
        found = {k: bare(v) for k, v in schema.items() if k not in ("description", "title", "properties")}
        if isinstance(named, Mapping):
            found["properties"] = {name: bare(value) for name, value in named.items()}
        return found
    return [bare(one) for one in schema] if isinstance(schema, list) else schema


@dataclass(frozen=True, slots=True)
class AskJob:
    """A step of a call's law: submit a job, or ask about one. Reply: JobSeen or Refusal.

    ``handed`` is what stands in the place of its files, by property, and lies in the staging folders.
    """

    what: What
    arguments: Mapping[str, Any]
    handed: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobSeen:
    """How a job stands. ``error`` is the interface's code of one that failed; ``structured`` is the answer
    of one that succeeded, where it was asked for; ``files`` its output files that the agent does not have
    yet: property, and the path that was asked for. Instants are seconds since 1970; ``kept_until`` is when
    what came of it may be forgotten, 0.0 as long as that is not in sight.
    """

    attempt: str
    handle: str
    state: Standing
    progress: float | None = None
    error: str = ""
    structured: bytes = b""
    files: Mapping[str, str] = field(default_factory=dict)
    tool: tuple[str, str] = ("", "")  # the interface, and the tool that submitted it
    made_at: float = 0.0
    changed_at: float = 0.0
    kept_until: float = 0.0


class Jobs(Protocol):
    """Who keeps jobs. Calls back exactly once, on the loop."""

    def ask(self, what: What, intent: Intent, heard: Callable[[JobSeen | Refusal], None]) -> None:
        """Submit what ``intent`` wants, or ask about the job that its arguments name."""
        ...

    def find(self, handle: str, agent: str, heard: Callable[[JobSeen | Refusal], None]) -> None:
        """How the job of a handle stands, whichever tool it is of; ``refused``: the agent has no such job."""
        ...

    def staging(self) -> tuple[int, int]:
        """Descriptors of the folders that a job's files go through, in and out. Raises OSError."""
        ...


class NoJobs:
    """Where nobody does jobs."""

    def ask(self, what: What, intent: Intent, heard: Callable[[JobSeen | Refusal], None]) -> None:
        """Refuse."""
        heard(Refusal("unavailable", "nobody here does jobs"))

    def find(self, handle: str, agent: str, heard: Callable[[JobSeen | Refusal], None]) -> None:
        """There is none."""
        heard(Refusal("refused", "nobody here does jobs"))

    def staging(self) -> tuple[int, int]:
        """There are none."""
        raise FileNotFoundError("nobody here does jobs")
