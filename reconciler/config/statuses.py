"""The status files and the summary, as shapes: what the controller says of every object, for programs.

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
    conditions: list[ConditionSeen]
    """Its truths, sorted by type."""
    problems: list[ProblemSeen]
    """What is wrong with its newest form."""
    inventory: list[InstanceOf]
    """What runs because of it."""
    used_by: list[str] = []
    """Objects that use it, as KIND/NAME."""


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
    used_by: list[str]
    """Objects that use it, as KIND/NAME."""


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
    walls: dict[str, str]
    """How each wall around it stands."""


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
    """Every object, what is not ready first."""
    instances: list[InstanceRow]
    """Every running connector."""
    problems: list[ProblemSeen]
    """Problems of files that are no object."""
    counts: dict[str, int]
    """How many objects there are, by kind."""
