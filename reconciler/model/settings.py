"""``handler.toml``: the settings of a configuration, all of which have a default."""

from typing import Annotated, Literal

from reconciler.model.forms import Field
from reconciler.model.records import Record
from reconciler.model.references import SecretReference


class Reconcile(Record):
    """When and how the configuration is made true."""

    mode: Literal["auto", "manual"] = "auto"
    """`auto` applies what is accepted; `manual` waits for `handler apply`."""
    scan_seconds: Annotated[float, Field(ge=0.1, le=3600)] = 2
    """How often the files are looked at, whatever the watcher says."""
    resync_seconds: Annotated[float, Field(ge=1, le=86_400)] = 60
    """How often everything is decided anew."""


class Source(Record):
    """What is read: the files as they lie, or a commit."""

    mode: Literal["worktree", "commit"] = "worktree"
    """`worktree` reads the files, `commit` the object store at `ref`."""
    ref: str = "HEAD"
    """The commit or branch that is read in mode `commit`."""
    verify: Literal["none", "signed"] = "none"
    """Whether commits must be signed."""
    allowed_signers: str | None = None
    """The file that lists whose signatures count."""


class Prune(Record):
    """How much may be removed at once without being asked."""

    max_fraction: Annotated[float, Field(gt=0, le=1)] = 0.5
    """The largest share of all objects, or of one kind, that an edit may remove by itself."""
    allow_empty: bool = False
    """Whether an edit may remove everything."""


_BYTE = r"(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_PORT = r"(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3}|0)"

Listen = Annotated[
    str,
    Field(
        pattern=rf"^(unix|(127(\.{_BYTE}){{3}}|\[::1\]):{_PORT})$",
        max_length=32,
        description="`unix`, or an address of this machine alone with a port, like 127.0.0.1:9464",
        examples=["unix", "127.0.0.1:9464", "127.0.0.1:0"],
    ),
]


class Http(Record):
    """Metrics and health for observers: `/metrics`, `/livez`, `/readyz`."""

    listen: Listen | None = None
    """Where it listens, like `127.0.0.1:9464`; port 0 takes a free one, and `unix` is a socket in the run
    folder for the same user alone. Off without it."""


class Capacity(Record):
    """What this machine has for connectors to reserve."""

    gpu: Annotated[int, Field(ge=0, le=64)] = 0
    """Graphics processors."""


class Log(Record):
    """The controller's own log."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least level that is written."""
    format: Literal["auto", "text", "json"] = "auto"
    """Lines for people or for programs; `auto` asks whether a terminal reads them."""


class Telemetry(Record):
    """Traces for an OpenTelemetry collector."""

    otlp_endpoint: (
        Annotated[
            str,
            Field(
                pattern=rf"^https?://([^\s/?#@:\[\]]+|\[[0-9A-Fa-f:.]+\])(:{_PORT})?(/[^\s?#]*)?$",
                max_length=2048,
                description="the address of a collector that speaks OTLP over HTTP",
                examples=["http://127.0.0.1:4318"],
            ),
        ]
        | None
    ) = None
    """The collector that is told of each call, by OTLP over HTTP; off without it. No argument is sent."""


_PARAMETER = "(host|port|sslmode|sslrootcert|sslcert|sslkey|channel_binding|target_session_attrs|options)"


class Ledger(Record):
    """Where attempts at effects are kept."""

    url: (
        Annotated[
            str,
            Field(
                pattern=rf"^postgres(ql)?://([^\s:@/?#]+@)?[^\s@/?#]*/[^\s@/?#]+(\?{_PARAMETER}=[^\s&#]*(&{_PARAMETER}=[^\s&#]*)*)?$",
                max_length=2048,
                description="the address of a database of PostgreSQL, without a password",
                examples=["postgresql://handler@db.example/handler"],
            ),
        ]
        | None
    ) = None
    """A database of PostgreSQL that several machines share; without it, the ledger is a file of the state
    folder. A change counts from the controller's next start."""
    password: SecretReference | None = None
    """Where the database's password is found."""


class Config(Record):
    """Settings of the configuration: `handler.toml`; an empty file, or none, is valid."""

    api_version: Literal["handler.config/v1"] = "handler.config/v1"
    """The format of this file."""
    reconcile: Reconcile = Reconcile()
    """When and how the configuration is made true."""
    capacity: Capacity = Capacity()
    """What this machine has for connectors to reserve."""
    source: Source = Source()
    """What is read."""
    prune: Prune = Prune()
    """How much may be removed at once."""
    http: Http = Http()
    """Metrics and health for observers."""
    log: Log = Log()
    """The controller's own log."""
    telemetry: Telemetry = Telemetry()
    """Traces."""
    ledger: Ledger = Ledger()
    """Where attempts at effects are kept."""
