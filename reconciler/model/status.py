"""Conditions and what a status file says: the truths about one object, each with its own reason and age.

The rules of Kubernetes' kstatus hold: ``lastTransitionTime`` moves only when ``status`` does, an absent
type means
Unknown, and ``Reconciling``, ``Stalled``, ``Drifted``, ``Flapping`` are abnormal when True. Reasons are a
closed
list per major version (``docs/reasons.md``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

Truth = Literal["True", "False", "Unknown"]
ConditionType = Literal[
    "Ready", "Admitted", "Synced", "Linked", "ProfileReady", "Conformant", "EgressReady", "Supported",
    "Reconciling", "Stalled", "Drifted", "Flapping", "Contained",
]  # fmt: skip
Reason = Literal[
    "Admitted", "SchemaInvalid", "UnknownField", "UnresolvedReference", "MissingRequirement",
    "FrozenModified",
    "EgressDenied", "SecretUnresolved", "Suspended", "DuplicateName", "MergeConflict",
    "ReconcileSuccess", "ReconcileError", "LastGoodRetained", "PruneBlocked", "SourceUnavailable",
    "SourceRefused", "SourceBusy",
    "Starting", "CrashLoop", "SandboxUnavailable", "StartTimeout", "OutOfMemory", "Draining",
    "UnsupportedFact", "Proven",
    "Withheld", "Stale", "ProbeOff", "WatchDegraded", "SecretTimeout", "SecretEcho", "InternalError",
    "ModelMissing",
    "ModelSubstituted", "ProfileMutated", "AwaitingApply", "Uncontained", "CapacityWait",
    "Idle", "Running", "Playing", "Recording", "Shadowed", "NotBuilt", "WaitsFor", "RolledBack", "Flapping",
    "ProcessVanished", "CodeChanged", "EnvironmentChanged", "SocketMissing", "StatusEdited", "StateEdited",
    "HarnessEdited", "DriftCorrected",
    "Reachable", "Unreachable", "Answering", "NotAnswering",
]  # fmt: skip
REASONS: frozenset[str] = frozenset(get_args(Reason))


@dataclass(frozen=True, slots=True)
class Condition:
    """One truth about one object. ``since`` is an ISO instant in UTC, or "" before it is settled."""

    type: ConditionType
    status: Truth
    reason: Reason
    message: str = ""
    since: str = ""
    generation: str = ""  # sha256:… of the object's source that this was observed for
    until: str = ""  # an ISO instant from which on nothing is known; "" where it holds until it is said anew


def settle(old: tuple[Condition, ...], new: Condition) -> tuple[Condition, ...]:
    """Put the new condition in; its ``since`` moves only when its status does."""
    before = {condition.type: condition for condition in old}
    was = before.get(new.type)
    if was is not None and was.status == new.status:
        new = replace(new, since=was.since)
    before[new.type] = new
    return tuple(before[key] for key in sorted(before))


@dataclass(frozen=True, slots=True)
class Held:
    """Why an object's last form is kept though its source says otherwise: its ``Synced`` is False."""

    reason: Reason  # AwaitingApply, PruneBlocked, …
    message: str


@dataclass(frozen=True, slots=True)
class InstanceSeen:
    """What is observed of one instance: asked of the supervisor, never remembered from a wish."""

    name: str  # binding@digest12
    phase: Literal["declared", "building", "starting", "ready", "idle", "draining", "failed"]
    pid: int | None = None
    started_at: str = ""
    restarts: int = 0
    last_exit: str = ""  # "exit 1", "signal 9", or "" when it never ended
    reason: Reason | None = None  # why it is failed: CrashLoop, StartTimeout, SandboxUnavailable, …
    message: str = ""
    calls: int = 0  # in flight now
    runtime: str = ""  # builtin, dialect and cassette are answered in the controller: there is no process
    walls: Mapping[str, str] = field(default_factory=dict)  # wall → how it stands
    vanished: bool = False  # its process served, ended without being asked, and none was started since
    killed: bool = False  # it failed, by a signal that nobody here sent
    session: str = ""  # the one that it serves, where each has its own


@dataclass(frozen=True, slots=True)
class ObjectStatus:
    """One status file, before it is JSON. It changes only when its own source or conditions do."""

    kind: str
    name: str
    file: str
    digest: str  # sha256:… of its source now
    observed_digest: str  # sha256:… of the form that is in force; "" when none ever was
    suspended: bool
    conditions: tuple[Condition, ...]
    problems: tuple[Mapping[str, Any], ...] = ()
    inventory: tuple[Mapping[str, Any], ...] = ()
    used_by: tuple[str, ...] = ()
    declared: Mapping[str, Any] | None = None  # what its form in force says of itself
    services: tuple[Mapping[str, Any], ...] = ()  # of an agent: what answers each of its interfaces
    jobs: Mapping[str, int] | None = None  # of a binding: its attempts that are not over
    observations: tuple[Mapping[str, Any], ...] = ()  # of a binding: the three truths about it, apart
    models: Mapping[str, Any] | None = None  # of a binding whose server lists its models


@dataclass(frozen=True, slots=True)
class Summary:
    """What ``summary.json`` says beyond its objects: which revision is where, who controls, what is wrong.

    ``controller`` is the process that keeps it (pid, startTime, bootId, version), None when none does.
    ``problems`` are those of files that are no object.
    """

    configuration: str
    controller: Mapping[str, Any] | None = None
    last_attempted: str = ""
    last_applied: str = ""
    serving: str = ""
    dirty: bool = False
    generation: int = 0
    conditions: tuple[Condition, ...] = ()
    instances: tuple[Mapping[str, Any], ...] = ()
    problems: tuple[Mapping[str, Any], ...] = ()
    history: tuple[Mapping[str, Any], ...] = ()  # the last admitted revisions, the newest first
    rollback: Mapping[str, Any] | None = None  # which earlier revision is served on purpose, instead of which
    handled: str = ""  # when a person last asked to look at once and was answered
