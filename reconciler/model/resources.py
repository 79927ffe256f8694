"""The kinds of file a person writes, as closed, frozen values, and the one table of them.

Keys are camelCase in files and snake_case here; the alias generator is the only translator. Every record is
closed, and values are strict: ``"120"`` is no number. What spans two keys is asked in ``config.shape``, what
only admission can know in ``admission``. The text under a key is its documentation for editors.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from reconciler.model.agentrun import Run
from reconciler.model.approvalfile import ApprovalPolicy
from reconciler.model.chain import Chain
from reconciler.model.dialect import Profile as Profile  # noqa: PLC0414 - a kind like the others
from reconciler.model.forms import Field
from reconciler.model.names import Kind
from reconciler.model.policies import EgressPolicy
from reconciler.model.profilewords import ProfileRef
from reconciler.model.records import (
    Bytes,
    ErrorCode,
    Folder,
    HostPath,
    HostPort,
    InterfaceVersion,
    Name,
    Program,
    Scalar,
    Seconds,
    Seq,
    SettingName,
    Sha256,
    Slot,
    Text,
    Variable,
)
from reconciler.model.records import Record as Record  # noqa: PLC0414 - part of this module's face
from reconciler.model.references import SecretReference as SecretReference  # noqa: PLC0414 - as above
from reconciler.model.register import Dialect as Dialect  # noqa: PLC0414 - a kind like the others
from reconciler.model.settings import Config as Config  # noqa: PLC0414 - a kind like the others

# interface


class Limits(Record):
    """What one call and one session may use."""

    timeout_seconds: Seconds = 120
    """How long one call may take, waiting for its turn included."""
    max_file_bytes: Bytes = 20_000_000
    """The largest file that a call may hand in, and the largest that it may get back."""
    max_output_bytes: Bytes = 4_000_000
    """The largest JSON answer; above it the call ends `too_large` where listed, else `unavailable`."""
    concurrent_calls: Annotated[int, Field(ge=1, le=1024)] = 4
    """Calls of one session at the same time; one more waits its turn inside its own timeout."""
    calls_per_session: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    """Calls that one session may make in all; 0 sets no limit."""


class Operation(Record):
    """How a tool is driven and what it does to the world."""

    kind: Literal["call", "job", "session", "agent-model"] = "call"
    """How the tool is driven: one call, a durable job, a session of frames, or a model's turn."""
    effect: Literal["none", "local", "paid", "external"] = "none"
    """What a call changes: nothing, this machine, a bill, or the world outside."""


class Interface(Record):
    """The metadata of one frozen version of a contract: `interfaces/NAME/vN/interface.toml`."""

    api_version: Literal["handler.interface/v1"]
    """The format of this file."""
    name: Name
    """The interface's name: that of its folder, and the prefix of its tools."""
    version: Annotated[int, Field(ge=1, le=999_999, examples=[1])]
    """The version: the number of its folder. A published version never changes."""
    description: Text
    """What an agent gets from it, in one sentence."""
    limits: Limits = Limits()
    """What one call and one session may use."""
    errors: dict[ErrorCode, Text] = Field(default_factory=dict)
    """The closed list of error codes, each with the sentence that the agent reads."""
    operations: dict[str, Operation] = Field(default_factory=dict)
    """Tools that are more than one call without an effect, by tool name."""
    state: Literal["none", "session"] = "none"
    """Whether a connector keeps something between calls: `session` gives each session its own instance."""
    purpose: Text | None = None
    """The word that egress policies match on; without it, the interface's name."""


# connector


class SecretSlot(Record):
    """A secret that a binding fills with a reference."""

    env: Variable | None = None
    """The environment variable that holds the secret inside the sandbox."""
    header: (
        Annotated[
            str,
            Field(
                pattern=r"^[A-Za-z0-9_-]+(: *[!-z|~ ]*\{\}[!-z|~ ]*)?$",
                max_length=128,
                description="a header's name, or a name and a form: Authorization: Bearer {}",
                examples=["x-api-key", "Authorization: Bearer {}"],
            ),
        ]
        | None
    ) = None
    """The HTTP header that the gate adds outside of the sandbox: a name, or a name and a form with `{}`."""
    required: bool = False
    """Whether a binding must fill it."""
    via: Literal["gate", "fd", "file", "env"] | None = None
    """How it is delivered; only a narrower way than the usual one may be named."""
    description: Text = ""
    """What it is for and where one gets it."""


class Setting(Record):
    """A value that a binding may set; the connector reads it from the environment."""

    env: Variable | None = None
    """The environment variable that the connector reads."""
    description: Text
    """What it changes."""
    default: Scalar | None = None
    """The value where a binding sets none."""
    enum: Annotated[Seq[Scalar], Field(min_length=1)] | None = None
    """The only values that it may have."""
    pattern: Annotated[str, Field(max_length=512)] | None = None
    """A regular expression that its text must match."""
    required: bool = False
    """Whether a binding must set it."""
    format: Literal["folder", "url", "host", "hosts"] | None = None
    """What the value opens: a folder, the server of a `url` or `host` (host:port), `hosts` between blanks."""
    access: Literal["read", "add"] | None = None
    """Of a folder: `read` (the usual) shows it; `add` shows nothing, and new files of its are put there."""


class ToolMapping(Record):
    """How a wrapped tool becomes the interface's: names, shapes, errors."""

    from_: Annotated[str | None, Field(alias="from")] = None
    """The wrapped server's name of the tool."""
    input: str | None = None
    """A JMESPath expression from the interface's arguments to the wrapped tool's."""
    output: str | None = None
    """A JMESPath expression from the wrapped tool's answer to the interface's."""
    errors: dict[str, str] = Field(default_factory=dict)
    """The interface's error code for each of the wrapped tool's."""
    operation: str | None = None
    """The operation of the dialect that answers this tool."""
    needs: Seq[str] = ()
    """Facts that a profile must state for this tool to be offered."""


class SandboxNeeds(Record):
    """Host programs and read-only data that the engine needs, and its bounds."""

    programs: Seq[Program] = ()
    """Programs of the host that may run inside, by name."""
    read: Seq[HostPath] = ()
    """Absolute folders of the host that are visible inside, read-only."""
    tmp_bytes: Bytes = 256 * 2**20
    """The size of the private /tmp."""
    memory_bytes: Bytes | None = None
    """The most memory that all its processes may use."""
    pids: Annotated[int, Field(ge=1, le=65_536)] = 64
    """The most processes and threads."""
    cpu: Annotated[float, Field(gt=0, le=1024)] | None = None
    """The share of processors: 1.5 is one and a half."""
    gpu: bool = False
    """Whether the devices of the graphics processor are visible inside."""


class Ready(Record):
    """When a started connector counts as ready."""

    timeout_seconds: Seconds = 30
    """From the start of the process to its first answer."""


class Reserve(Record):
    """Capacity of `handler.toml` that is taken while the connector runs."""

    gpu: Annotated[int, Field(ge=0, le=64)] = 0
    """Graphics processors."""


Runtime = Literal["python", "deno", "command", "mcp", "dialect", "image", "remote", "attached", "builtin"]


class Connector(Record):
    """What implements which interfaces, and all that it may touch: `connectors/NAME/connector.toml`."""

    api_version: Literal["handler.connector/v1"]
    """The format of this file."""
    name: Name
    """The connector's name: that of its folder."""
    description: Text
    """What it is, in one sentence."""
    implements: Annotated[Seq[InterfaceVersion], Field(examples=[["ocr/v1"]])]
    """The interface versions that it fulfils. Only a wrapped MCP server (mcp, remote, image) may list none:
    then nothing can select it."""
    runtime: Runtime | None = None
    """What runs it; without it, the entry file beside this one decides."""
    entry: str | None = None
    """The program's file, for python (`main.py`) and deno (`main.ts`)."""
    command: Annotated[Seq[str], Field(min_length=1, examples=[["mcp-server-time"]])] | None = None
    """The program and its arguments, one list element each: no shell, no interpolation."""
    image: (
        Annotated[
            str,
            Field(
                pattern=r"^[^@\s-][^@\s]*@sha256:[0-9a-f]{64}$",
                description="an image by digest: name@sha256:…",
            ),
        ]
        | None
    ) = None
    """The OCI image, by digest: `name@sha256:…`."""
    url: (
        Annotated[
            str,
            Field(
                pattern=r"^(https://|http://(127\.0\.0\.1|\[::1\])[:/])",
                description="an https address, or plain http of this machine",
                examples=["https://mcp.example.com/mcp"],
            ),
        ]
        | None
    ) = None
    """The remote MCP server's address."""
    socket: str | None = None
    """The existing Unix socket of an attached connector."""
    profiles: Seq[ProfileRef] = ()
    """The profiles that a dialect connector speaks by; operation and model select one."""
    reserve: Reserve = Reserve()
    """Capacity that is taken while it runs."""
    egress: Seq[HostPort] = ()
    """The exact `host:port` pairs that it may reach; without any it has no network."""
    secret_slots: dict[Slot, SecretSlot] = Field(default_factory=dict)
    """The secrets that a binding fills, by slot."""
    settings: dict[SettingName, Setting] = Field(default_factory=dict)
    """What a binding may set, by key."""
    tool: dict[str, ToolMapping] = Field(default_factory=dict)
    """How wrapped tools become the interface's, by the interface's tool name."""
    sandbox: SandboxNeeds = SandboxNeeds()
    """What the sandbox lets in, and its bounds."""
    ready: Ready = Ready()
    """When a started connector counts as ready."""


# binding


class InstanceBounds(Record):
    """How long an instance stays and how much it may use."""

    idle_stop_seconds: Seconds = 300
    """How long it stays without a call before it is stopped."""
    memory_bytes: Bytes | None = None
    """The most memory, where it is less than the connector's own bound."""
    pids: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """The most processes and threads, where that is less than the connector's own bound."""
    max_concurrent_calls: Annotated[int, Field(ge=1, le=1024)] = 8
    """Calls of all callers that it answers at the same time."""


class Probe(Record):
    """What is asked of a connector besides real calls."""

    link: Literal["off", "on"] = "off"
    """Whether the way to a remote server is tried from time to time."""
    readiness: Literal["required", "attempt"] | None = None
    """Whether a new instance must be ready before it takes over; without it, local ones must."""


CaseName = Annotated[str, Field(min_length=1, max_length=256, description="a case's name")]


class ConformanceDemand(Record):
    """Which evidence of conformance this binding asks of its connector."""

    require: Literal["none", "offline", "live"] = "none"
    """The kind of evidence."""
    max_age_days: Annotated[int, Field(ge=1, le=3650)] = 90
    """How old it may be."""
    smoke: Annotated[Seq[CaseName], Field(max_length=64, examples=[["invoice text"]])] = ()
    """Cases of its interfaces that a new instance must pass before it replaces one that serves."""


class Cassette(Record):
    """Recorded answers, for work without the real engine."""

    mode: Literal["record", "replay"]
    """Whether answers are written down or played back."""
    path: Annotated[
        str, Field(pattern=r"^cassettes/[A-Za-z0-9][A-Za-z0-9._-]*\.jsonl$", examples=["cassettes/ocr.jsonl"])
    ]
    """The file, in the configuration's `cassettes`. It holds what was asked and answered: payload."""


class Binding(Record):
    """One configured connector (or addon): `bindings/NAME.toml`."""

    api_version: Literal["handler.binding/v1"]
    """The format of this file."""
    name: Name | None = None
    """The binding's name: that of its file, which also gives it."""
    description: Text = ""
    """What it is for."""
    connector: Name | None = None
    """The connector that it configures; a binding names exactly one of connector and addon."""
    addon: Name | None = None
    """The addon that it configures; a binding names exactly one of connector and addon."""
    secrets: dict[Slot, SecretReference] = Field(default_factory=dict)
    """Where each secret of the connector is found, by slot: references, never values."""
    settings: dict[SettingName, Scalar] = Field(default_factory=dict)
    """Values for the connector's settings, by key."""
    models: Seq[str] = ()
    """The exact models that may be asked for; the first is the default."""
    suspend: bool = False
    """Whether new calls are refused as `unavailable`."""
    suspend_reason: Text = ""
    """Why, for whoever reads the status."""
    connector_digest: Sha256 | None = None
    """The only digest of the connector's folder that is accepted."""
    instance: InstanceBounds = InstanceBounds()
    """How long an instance stays and how much it may use."""
    probe: Probe = Probe()
    """What is asked of the connector besides real calls."""
    conformance: ConformanceDemand = ConformanceDemand()
    """Which evidence of conformance is asked for."""
    shadow: Name | None = None
    """Another binding that gets a copy of some calls without effects; its answers are only compared."""
    cassette: Cassette | None = None
    """Recorded answers instead of the engine's."""
    drift: Literal["off", "report", "correct"] = "correct"
    """What happens when its process, code or environment is not as it was left: `correct` puts it right."""


# project and agent


class Selection(Record):
    """The long form of a service: a binding, and what of it is granted."""

    binding: Name
    """The binding that answers."""
    version: Annotated[int, Field(ge=1, examples=[1])] | None = None
    """The interface's version, where `requires` does not say it."""
    tools: Seq[str] | None = None
    """The tools that are granted; without it, all."""
    max_calls: Annotated[int, Field(ge=1)] | None = None
    """Calls that one session may make, on top of the interface's own limit."""


Services = dict[Name, Name | Selection | Annotated[Seq[Name], Field(min_length=1)]]


class Project(Record):
    """Defaults and requirements that its agents share: `projects/NAME.toml`."""

    api_version: Literal["handler.project/v1"]
    """The format of this file."""
    name: Name | None = None
    """The project's name: that of its file, which also gives it."""
    description: Text = ""
    """What it is for."""
    services: Services = Field(default_factory=dict)
    """The binding behind each interface, for agents that select none."""
    requires: Seq[InterfaceVersion] = ()
    """Interface versions that each of its agents must have a binding for."""


class ScopeEntry(Record):
    """A folder that files may come from and go to."""

    path: Folder
    """The folder, absolute or under the home folder."""
    access: Literal["create", "read", "write"] = "create"
    """`create` reads and makes new files, `read` only reads, `write` may also overwrite."""


HarnessWord = Literal[
    "none", "claude-code", "codex", "vibe", "gemini", "opencode", "copilot", "qwen", "vscode", "cursor",
    "zed", "windsurf", "plugin",
]  # fmt: skip


class AgentSandbox(Record):
    """What `handler run --sandbox` lets this agent's programs reach and use; so do runs for others."""

    egress: Seq[HostPort] = ()
    """The exact `host:port` pairs that they may reach, by https; without any they have no network."""
    memory_bytes: Bytes | None = None
    """The most memory that all its processes may use."""
    pids: Annotated[int, Field(ge=1, le=65_536)] = 4096
    """The most processes and threads."""
    cpu: Annotated[float, Field(gt=0, le=1024)] | None = None
    """The share of processors: 1.5 is one and a half."""


class Agent(Record):
    """Who may call what, from where: `agents/NAME.toml`."""

    api_version: Literal["handler.agent/v1"]
    """The format of this file."""
    name: Name | None = None
    """The agent's name: that of its file, which also gives it."""
    description: Text = ""
    """What it is for."""
    project: Name | None = None
    """The project whose defaults and requirements it shares."""
    services: Services = Field(default_factory=dict)
    """The binding behind each interface: its name, or a table with what is granted."""
    requires: Seq[InterfaceVersion] = ()
    """Interface versions that must have a binding before a session starts."""
    scope: Seq[Folder | ScopeEntry] = ()
    """The folders that files may come from and go to; relative paths start at the first."""
    models: Seq[str] = ()
    """The models that it may ask for, where that is fewer than the binding allows."""
    agents: Seq[Name] = ()
    """The agents that it may call."""
    harness: HarnessWord = "none"
    """The program that it runs in: `handler run` starts it, `handler render` writes its MCP configuration."""
    run: Run | None = None
    """How it runs as a service for others."""
    sandbox: AgentSandbox = AgentSandbox()
    """What a sandbox of `handler run --sandbox` lets in."""
    floor_class: Name | None = None
    """The lowest class of the data that it handles."""
    suspend: bool = False
    """Whether new sessions are refused."""
    suspend_reason: Text = ""
    """Why, for whoever reads the status."""
    drift: Literal["off", "report", "correct"] = "correct"
    """What happens when its sockets are not where they were put: `correct` listens again."""


@dataclass(frozen=True, slots=True)
class KindRow:
    """One row of the table of kinds: the model, its ``apiVersion``, and where its files lie."""

    kind: Kind
    model: type[Record]
    pattern: str  # relative to a layer's root
    word: str = ""  # in ``apiVersion``, where it is not the kind's own

    @property
    def api_version(self) -> str:
        return f"handler.{self.word or self.kind.value}/v1"


KINDS: tuple[KindRow, ...] = (
    KindRow(Kind.CONFIG, Config, "handler.toml"),
    KindRow(Kind.INTERFACE, Interface, "interfaces/<name>/v<N>/interface.toml"),
    KindRow(Kind.CONNECTOR, Connector, "connectors/<name>/connector.toml"),
    KindRow(Kind.BINDING, Binding, "bindings/<name>.toml"),
    KindRow(Kind.PROJECT, Project, "projects/<name>.toml"),
    KindRow(Kind.AGENT, Agent, "agents/<name>.toml"),
    KindRow(Kind.POLICY, EgressPolicy, "policies/egress.toml", "egress-policy"),
    KindRow(Kind.APPROVAL, ApprovalPolicy, "policies/approval.toml", "approval-policy"),
    KindRow(Kind.PROFILE, Profile, "profiles/<name>/<N>/profile.toml", "dialect-profile"),
    KindRow(Kind.DIALECT, Dialect, "dialects/<name>/dialect.toml"),
    KindRow(Kind.CHAIN, Chain, "chains/<name>.json"),  # or .toml
)
