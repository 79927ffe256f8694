"""The summary of a configuration, as shapes: the page over all objects; ``config.objectfile`` shapes one."""

from typing import Literal

from reconciler.config.objectfile import ConditionSeen, Document, ProblemSeen
from reconciler.model.status import Truth


class ControllerSeen(Document):
    """The controller that wrote the summary."""

    pid: int
    """Its process."""
    start_time: int | None
    """When it started, in ticks of the kernel: with the boot id it tells it from a later one."""
    boot_id: str
    """Which start of the machine that was."""
    version: str
    """The release of Handler."""
    http: str | None
    """Where metrics and health are served: an `http` address, or `unix:` and a path; null while nowhere."""


class ObjectRow(Document):
    """One object in the summary."""

    kind: str
    """Its kind."""
    name: str
    """Its name."""
    ready: Truth
    """Whether it is ready."""
    reason: str
    """Why."""
    message: str
    """The same for people."""
    file: str
    """Where it is defined."""
    line: int
    """The line of its first problem, or 0."""
    column: int
    """The column of its first problem, or 0."""
    synced: Truth
    """Whether its newest form is in force."""
    late: str
    """Why it is not, for people, or empty."""
    drifted: str
    """What is not as it was left, with its reason, for people, or empty."""
    used_by: list[str]
    """Objects that use it, as KIND/NAME."""
    indeterminate: int = 0
    """How many of its calls wait for a person to say what became of them."""


class InstanceRow(Document):
    """One running connector in the summary."""

    name: str
    """Its binding, and the digest of all that it is made from."""
    binding: str
    """Its binding."""
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
    reason: str | None
    """Why it does not run, or null."""
    message: str
    """The same for people."""
    calls: int
    """Calls in flight."""
    runtime: str
    """Its connector's; builtin, dialect and cassette are answered in the controller, without a process."""
    walls: dict[str, str]
    """How each wall around it stands."""


class RevisionSeen(Document):
    """One content that was admitted, under its newest revision."""

    revision: str
    """The revision."""
    digest: str
    """`sha256:…` of the files in force."""
    status: Literal["Applied", "AppliedInPart"]
    """Whether all of it was admitted, or some objects were refused and kept their last form."""
    refused: int
    """How many objects were refused."""
    at: str
    """When it was admitted last, as an ISO instant in UTC."""
    count: int
    """How often it was admitted."""
    seconds: float
    """How long deciding took."""
    also: list[str]
    """Other revisions with the same content."""


class RollbackSeen(Document):
    """An earlier revision that is served on purpose."""

    revision: str
    """The revision that is served."""
    digest: str
    """The digest of its content, as in `history`: one revision may stand for several contents."""
    instead_of: str
    """The revision of the source that was rolled back from: while it stays, the rollback does."""
    instead_of_digest: str
    """The digest of the content of the source then."""
    at: str
    """Since when, as an ISO instant in UTC."""


class Summary(Document):
    """The whole configuration on one page: `status/summary.json`."""

    api_version: Literal["handler.status/v1"]
    """The format of this file."""
    kind: Literal["summary"]
    """Tells this file from the others."""
    configuration: str
    """The configuration directory."""
    last_attempted_revision: str
    """The revision that was last looked at."""
    last_applied_revision: str
    """The last revision that was applied whole."""
    serving_revision: str
    """The revision that new sessions are served by."""
    dirty: bool
    """Whether the files differ from the commit."""
    generation: int
    """The number of the route table."""
    controller: ControllerSeen | None
    """The controller, or null when none runs."""
    at: str
    """When this was written."""
    conditions: list[ConditionSeen]
    """Truths about the configuration as a whole."""
    objects: list[ObjectRow]
    """Every object, by kind and name."""
    instances: list[InstanceRow]
    """Every running connector."""
    problems: list[ProblemSeen]
    """Problems of files that are no object."""
    counts: dict[str, int]
    """How many objects there are, by kind."""
    history: list[RevisionSeen]
    """The last admitted revisions, the newest first: at most five, one a content."""
    rollback: RollbackSeen | None
    """The rollback that is in force, or null."""
    last_handled_request_at: str
    """When a person last asked to look at once (`handler reconcile`) and was answered, or empty."""
