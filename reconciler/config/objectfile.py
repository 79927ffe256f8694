"""The status file of one object, as shapes: what the controller says of it, for programs.

They are models so that a schema can be rendered and a test can check what was really written; the controller
writes plain JSON. A key that has nothing to say is null or empty, never left out.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from reconciler.model.status import ConditionType, Reason, Truth


class Document(BaseModel):
    """A closed JSON object with camelCase keys."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        hide_input_in_errors=True,
        protected_namespaces=(),
    )


class ProblemSeen(Document):
    """One fact that is wrong: what, where, which rule it breaks and how to mend it."""

    code: str
    """The problem's code, for `handler explain`; it never changes its meaning."""
    severity: Literal["error", "warning"]
    """Whether it refuses the object or only tells something about it."""
    object: str | None
    """The object that it is about, as KIND/NAME, or null for a file that is none."""
    file: str
    """The file, relative to the configuration."""
    line: int
    """The line, from 1; 0: the file as a whole."""
    column: int
    """The column in characters, from 1; 0: the file as a whole."""
    field: str
    """The key, as `services.ocr` or `requires[0]`."""
    what: str
    """The fact."""
    why: str
    """The rule that it breaks."""
    mend: str
    """What to do, with the text to type where there is one."""
    candidates: list[str]
    """Names that would do."""


class ConditionSeen(Document):
    """One truth about an object. A type that is absent is Unknown."""

    type: ConditionType
    """Which truth; `Reconciling`, `Stalled`, `Drifted` and `Flapping` are abnormal when True."""
    status: Truth
    """Whether it holds."""
    reason: Reason
    """One word of a closed list: why."""
    message: str
    """The same for people."""
    observed_generation: str
    """The digest of the object's source that this was observed for."""
    last_transition_time: str
    """When `status` last changed, as an ISO instant in UTC."""
    expires_at: str = ""
    """From when on it is worth nothing, to be read as Unknown, reason Stale; empty: it holds until it is said
    anew."""


class SourceSeen(Document):
    """Where an object is defined."""

    file: str
    """The file, relative to its layer."""
    digest: str
    """`sha256:…` of what defines it."""


class InstanceOf(Document):
    """A running connector of a binding."""

    id: str
    """Its binding, and the digest of all that it is made from."""
    phase: str
    """Where in its life it is."""
    pid: int | None
    """Its process, while it has one."""
    started_at: str
    """When that process was started, or empty."""
    restarts: int
    """How often it had to be started again."""
    last_exit: str
    """How it last ended, or empty."""


class FolderSeen(Document):
    """A folder of an agent's scope."""

    path: str
    """The folder, as it is written."""
    access: Literal["create", "read", "write"]
    """`create` reads and makes new files, `read` only reads, `write` may also overwrite."""


class Declared(Document):
    """What an object's file says of itself; what its kind does not have is null or empty."""

    description: str
    """What it is or is for."""
    project: str | None
    """The project of an agent."""
    requires: list[str]
    """Interface versions that must have a binding, those that an agent's project asks for included."""
    scope: list[FolderSeen]
    """The folders that files of an agent may come from and go to."""
    harness: str | None
    """The program that an agent runs in."""
    connector: str | None
    """The connector of a binding."""
    settings: dict[str, bool | int | float | str]
    """The settings of a binding; secrets are never told."""
    egress: list[str]
    """The hosts that the connector of a binding may reach: what else a policy rules is not told here."""
    implements: list[str]
    """The interface versions that a connector fulfils."""


class ServiceSeen(Document):
    """One interface of an agent: what answers it, and where that was chosen."""

    interface: str
    """The interface version."""
    binding: str
    """The binding that was chosen."""
    instance: str | None
    """What new sessions are answered by: a binding, and the digest of all that it is made from; or null."""
    tools: list[str] | None
    """The tools that are granted, or null: all."""
    max_calls: int | None
    """Calls that one session may make, or null: as many as the interface allows."""
    file: str
    """The file whose key chose the binding."""
    line: int
    """The line of that key's value, or 0."""
    column: int
    """Its column, or 0."""
    field: str
    """The key, like `services.ocr`."""


class AttemptSeen(Document):
    """One form of an object and what became of it."""

    digest: str
    """`sha256:…` of its source."""
    status: Literal["Applied", "Refused", "Waiting", "Held", "Admitted"]
    """What became of it: in force; refused; an earlier form serves until it answers; held back until a person
    agrees; admitted without a controller."""
    at: str
    """When, as an ISO instant in UTC."""
    count: int
    """How often it was taken up."""
    seconds: float
    """How long that took, from the look that took it up."""


class SubjectSeen(Document):
    """What an observation is about."""

    binding: str
    """The binding."""
    instance: str
    """The instance: the binding, and the digest of all that it is made from."""
    operation: str
    """The tool, or the operation of a profile; `*` is all of them."""
    profile: str
    """The profile, as ID@REVISION; empty for a connector with code of its own."""
    profile_digest: str
    """The digest of its facts, or empty."""


class ObservationSeen(Document):
    """One thing that was seen of a binding (`handler.observation/v1`); none stands for another."""

    kind: Literal["link", "readiness", "conformance"]
    """Did something answer; can the operation take work now; did exactly this pass its suite."""
    subject: SubjectSeen
    """What it is about."""
    value: str
    """link: up, down, unknown; readiness: ready, warming, busy, not-ready, unprobed, unknown; conformance:
    passed, failed, stale, never."""
    reason: Reason
    """One word of a closed list: why."""
    message: str
    """The same for people."""
    by: Literal["link-probe", "readiness-probe", "inventory", "call", "conformance", "fingerprint"]
    """Who saw it."""
    observed_at: str
    """When, as an ISO instant in UTC."""
    expires_at: str
    """From when on it is worth nothing."""
    egress_bytes: int
    """What the looking sent, beyond a handshake."""
    evidence: str
    """The fingerprint of the evidence, of conformance; or empty."""


class ModelsSeen(Document):
    """What a server lists as its models, held against the binding's."""

    missing: list[str]
    """Models of the binding that it does not list."""
    undeclared_seen: int
    """How many others it lists: none of them can be asked for."""


class StatusFile(Document):
    """All that is known of one object: `status/KIND/NAME.json`."""

    api_version: Literal["handler.status/v1"]
    """The format of this file."""
    kind: str
    """The object's kind."""
    name: str
    """The object's name."""
    source: SourceSeen
    """Where it is defined."""
    generation: str
    """The digest of its source now."""
    observed_generation: str
    """The digest of the form that is in force, or empty."""
    suspended: bool
    """Whether it is suspended."""
    declared: Declared | None = None
    """What its form in force says of itself; null when no form ever was."""
    services: list[ServiceSeen] = []
    """The interfaces of an agent, and what answers each."""
    conditions: list[ConditionSeen]
    """Its truths, sorted by type."""
    problems: list[ProblemSeen]
    """What is wrong with its newest form."""
    inventory: list[InstanceOf]
    """What runs because of it."""
    used_by: list[str] = []
    """Objects that use it, as KIND/NAME."""
    jobs: dict[Literal["open", "indeterminate"], int] | None = None
    """How many of a binding's attempts at an effect are not over, and of how many of those nobody can know
    whether they happened (`handler jobs`); null of other kinds, and where no controller runs."""
    observations: list[ObservationSeen] = []
    """What was seen of a binding: link, readiness and conformance, each with its age."""
    models: ModelsSeen | None = None
    """Of a binding whose server was asked for its models; else null."""
    history: list[AttemptSeen] = []
    """Its last forms, the newest first: at most five, one a digest."""
    last_handled_request_at: str = ""
    """When a person last asked for it by name (`handler reconcile`) and was answered, or empty."""
