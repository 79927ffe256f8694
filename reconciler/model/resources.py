"""The kinds of file a person writes, as closed, frozen values, and the one table of them.

Keys are camelCase in files and snake_case here; the alias generator is the only translator. Every record is
closed: an unknown key is a problem. Values are strict: ``"120"`` is no number. What only admission can know
(does the connector exist?) is not asked here. Keys of capabilities that are not built yet are part of the
format from the start; ``admission.absent`` says so in a condition wherever one is used.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from reconciler.model.names import MAX_NAME, NAME_PATTERN, Kind

T = TypeVar("T")
Seq = Annotated[tuple[T, ...], Field(strict=False)]  # TOML gives lists; values here never change

Name = Annotated[str, Field(pattern=NAME_PATTERN, max_length=MAX_NAME)]
InterfaceVersion = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*/v[1-9][0-9]{0,5}$")]
Text = Annotated[str, Field(max_length=4096)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Bytes = Annotated[int, Field(gt=0, le=2**40)]


class Record(BaseModel):
    """A closed, frozen, strict record; its errors never repeat the input."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        validate_by_name=False,
        validate_by_alias=True,
        hide_input_in_errors=True,
        protected_namespaces=(),
    )


# interface


class Limits(Record):
    """What one call and one session may use; seconds are wall clock on the monotonic clock."""

    timeout_seconds: Seconds = 120
    max_file_bytes: Bytes = 20_000_000
    max_output_bytes: Bytes = 4_000_000
    concurrent_calls: Annotated[int, Field(ge=1, le=1024)] = 4
    calls_per_session: Annotated[int, Field(ge=0, le=10_000_000)] = 0  # 0: no limit


class Operation(Record):
    """How a tool is driven and what it does to the world."""

    kind: Literal["call", "job", "session", "agent-model"] = "call"
    effect: Literal["none", "local", "paid", "external"] = "none"


class Interface(Record):
    """``interface.toml``: the metadata of one frozen version of a contract."""

    api_version: Literal["handler.interface/v1"]
    name: Name
    version: Annotated[int, Field(ge=1, le=999_999)]
    description: Text
    limits: Limits = Limits()
    errors: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)], Text] = {}
    operations: dict[str, Operation] = {}
    state: Literal["none", "session"] = "none"
    purpose: Text | None = None


# connector


class SecretSlot(Record):
    """A secret that a binding fills; ``via`` narrows how it is delivered."""

    env: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$", max_length=64)] | None = None
    header: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+$", max_length=64)] | None = None
    required: bool = False
    via: Literal["gate", "fd", "file", "env"] | None = None
    description: Text = ""


class Setting(Record):
    """A value that a binding may set; the connector reads it from ``env``."""

    env: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$", max_length=64)] | None = None
    description: Text
    default: str | int | float | bool | None = None
    enum: Seq[str | int | float | bool] | None = None
    pattern: Annotated[str, Field(max_length=512)] | None = None
    required: bool = False


class ToolMapping(Record):
    """How a wrapped tool becomes the interface's: names, shapes (JMESPath), errors."""

    from_: Annotated[str | None, Field(alias="from")] = None
    input: str | None = None
    output: str | None = None
    errors: dict[str, str] = {}
    operation: str | None = None
    needs: Seq[str] = ()


class SandboxNeeds(Record):
    """Host programs and read-only data that the engine needs, and its bounds."""

    programs: Seq[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]] = ()
    read: Seq[Annotated[str, Field(pattern=r"^/")]] = ()
    tmp_bytes: Bytes = 256 * 2**20
    memory_bytes: Bytes | None = None
    pids: Annotated[int, Field(ge=1, le=65_536)] = 64
    cpu: Annotated[float, Field(gt=0, le=1024)] | None = None
    gpu: bool = False


class Ready(Record):
    timeout_seconds: Seconds = 30


class Reserve(Record):
    gpu: Annotated[int, Field(ge=0, le=64)] = 0


Runtime = Literal["python", "deno", "command", "mcp", "dialect", "image", "remote", "attached", "builtin"]


class Connector(Record):
    """``connector.toml``: what implements which interfaces, and all that it may touch."""

    api_version: Literal["handler.connector/v1"]
    name: Name
    description: Text
    implements: Annotated[Seq[InterfaceVersion], Field(min_length=1)]
    runtime: Runtime | None = None  # None: by the entry file that lies beside it
    entry: str | None = None
    command: Annotated[Seq[str], Field(min_length=1)] | None = None
    image: Annotated[str, Field(pattern=r"^[^@\s]+@sha256:[0-9a-f]{64}$")] | None = None
    url: Annotated[str, Field(pattern=r"^https://")] | None = None
    socket: str | None = None  # attached: the existing socket
    profiles: Seq[str] = ()
    reserve: Reserve = Reserve()
    egress: Seq[Annotated[str, Field(pattern=r"^[^\s:*/]+:[0-9]{1,5}$")]] = ()
    secret_slots: dict[Name | Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")], SecretSlot] = {}
    settings: dict[Annotated[str, Field(pattern=r"^[a-z][A-Za-z0-9_]*$", max_length=40)], Setting] = {}
    tool: dict[str, ToolMapping] = {}
    sandbox: SandboxNeeds = SandboxNeeds()
    ready: Ready = Ready()


# binding


class SecretReference(Record):
    """Where a secret is found; never the secret. Exactly one of the forms."""

    command: Annotated[Seq[str], Field(min_length=1)] | None = None
    file: str | None = None
    env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    keyring: dict[str, str] | str | None = None
    systemd: str | None = None
    age: dict[str, str] | str | None = None
    sops: dict[str, str] | str | None = None


class InstanceBounds(Record):
    idle_stop_seconds: Seconds = 300
    memory_bytes: Bytes | None = None
    pids: Annotated[int, Field(ge=1, le=65_536)] | None = None
    max_concurrent_calls: Annotated[int, Field(ge=1, le=1024)] = 8


class Probe(Record):
    link: Literal["off", "on"] = "off"
    readiness: Literal["required", "attempt"] | None = None  # None: local required, remote attempt


class ConformanceDemand(Record):
    require: Literal["none", "offline", "live"] = "none"
    max_age_days: Annotated[int, Field(ge=1, le=3650)] = 90


class Cassette(Record):
    mode: Literal["record", "replay"]
    path: str


class Binding(Record):
    """``bindings/NAME.toml``: one configured connector (or addon)."""

    api_version: Literal["handler.binding/v1"]
    name: Name | None = None
    description: Text = ""
    connector: Name | None = None
    addon: Name | None = None
    secrets: dict[str, SecretReference] = {}
    settings: dict[str, str | int | float | bool] = {}
    models: Seq[str] = ()
    suspend: bool = False
    suspend_reason: Text = ""
    connector_digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")] | None = None
    instance: InstanceBounds = InstanceBounds()
    probe: Probe = Probe()
    conformance: ConformanceDemand = ConformanceDemand()
    shadow: Name | None = None
    cassette: Cassette | None = None
    drift: Literal["off", "report", "correct"] = "correct"


# project and agent


class Selection(Record):
    """The long form of a service: a binding, and what of it is granted."""

    binding: Name
    version: Annotated[int, Field(ge=1)] | None = None
    tools: Seq[str] | None = None
    max_calls: Annotated[int, Field(ge=1)] | None = None


Services = dict[Name, Name | Selection | Annotated[Seq[Name], Field(min_length=1)]]


class Project(Record):
    """``projects/NAME.toml``: defaults and requirements that its agents share."""

    api_version: Literal["handler.project/v1"]
    name: Name | None = None
    description: Text = ""
    services: Services = {}
    requires: Seq[InterfaceVersion] = ()


class ScopeEntry(Record):
    """A folder that files may come from and go to. Without ``access``: read, and make new files."""

    path: Annotated[str, Field(pattern=r"^(/|~/)")]
    access: Literal["create", "read", "write"] = "create"


class Run(Record):
    """How ``agent/v1`` runs this agent as a service."""

    command: Seq[str] | None = None
    chain: str | None = None


class Agent(Record):
    """``agents/NAME.toml``: who may call what, from where."""

    api_version: Literal["handler.agent/v1"]
    name: Name | None = None
    description: Text = ""
    project: Name | None = None
    services: Services = {}
    requires: Seq[InterfaceVersion] = ()
    scope: Seq[Annotated[str, Field(pattern=r"^(/|~/)")] | ScopeEntry] = ()
    models: Seq[str] = ()
    agents: Seq[Name] = ()
    harness: str = "none"
    run: Run | None = None
    floor_class: Name | None = None
    suspend: bool = False
    drift: Literal["off", "report", "correct"] = "correct"


# handler.toml


class Reconcile(Record):
    mode: Literal["auto", "manual"] = "auto"
    scan_seconds: Annotated[float, Field(ge=0.1, le=3600)] = 2
    resync_seconds: Annotated[float, Field(ge=1, le=86_400)] = 60


class Source(Record):
    mode: Literal["worktree", "commit"] = "worktree"
    ref: str = "HEAD"
    verify: Literal["none", "signed"] = "none"
    allowed_signers: str | None = None


class Prune(Record):
    max_fraction: Annotated[float, Field(gt=0, le=1)] = 0.5
    allow_empty: bool = False


class Http(Record):
    listen: str | None = None


class Capacity(Record):
    gpu: Annotated[int, Field(ge=0, le=64)] = 0


class Log(Record):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "text", "json"] = "auto"


class Telemetry(Record):
    otlp_endpoint: str | None = None


class Config(Record):
    """``handler.toml``: settings of the configuration; an empty file, or none, is valid."""

    api_version: Literal["handler.config/v1"] = "handler.config/v1"
    reconcile: Reconcile = Reconcile()
    capacity: Capacity = Capacity()
    source: Source = Source()
    prune: Prune = Prune()
    http: Http = Http()
    log: Log = Log()
    telemetry: Telemetry = Telemetry()


@dataclass(frozen=True, slots=True)
class KindRow:
    """One row of the table of kinds: the model, its ``apiVersion``, and where its files lie."""

    kind: Kind
    model: type[Record]
    pattern: str  # relative to a layer's root

    @property
    def api_version(self) -> str:
        return f"handler.{self.kind.value}/v1"


KINDS: tuple[KindRow, ...] = (
    KindRow(Kind.CONFIG, Config, "handler.toml"),
    KindRow(Kind.INTERFACE, Interface, "interfaces/<name>/v<N>/interface.toml"),
    KindRow(Kind.CONNECTOR, Connector, "connectors/<name>/connector.toml"),
    KindRow(Kind.BINDING, Binding, "bindings/<name>.toml"),
    KindRow(Kind.PROJECT, Project, "projects/<name>.toml"),
    KindRow(Kind.AGENT, Agent, "agents/<name>.toml"),
)
