"""Dialect profiles: what one exact server offers of one named wire protocol, fact by fact.

A profile is a frozen record read from ``profiles/ID/REVISION/profile.toml``; drivers are handed it and may
read nothing else. **A fact that is absent is unsupported**: no field passes through that has no table, no
operation exists that has no route, no reply means anything that is not listed. Our own keys are camelCase
with a unit; names of fields, statuses and events keep the provider's spelling, since they are data. Whether a
call is within a profile is ``model.admitting``'s question; which profiles may be together is admission's.
"""

from typing import Annotated, Literal

from reconciler.model.forms import Field
from reconciler.model.profilewords import (
    BodyPath,
    Days,
    DialectRef,
    Header,
    Method,
    ModelId,
    OperationName,
    ProfileId,
    Provided,
    RateLimitWord,
    Route,
    ServerBase,
    StatusClass,
)
from reconciler.model.records import Bytes, ErrorCode, Record, Scalar, Seconds, Seq, Slot, Text


class Identity(Record):
    """Whose facts these are: `[profile]`."""

    id: ProfileId
    """The profile's name: that of its folder."""
    revision: Annotated[int, Field(ge=1, le=999_999, examples=[1])]
    """The revision: the number of its folder. A locked revision never changes; other facts are a new one."""
    dialect: DialectRef
    """The wire protocol that it speaks, as the register has it."""
    provider: Annotated[str, Field(min_length=1, max_length=256, examples=["api.openai.com"])]
    """Who serves it, as people name it."""
    models: Annotated[Seq[ModelId], Field(max_length=1024)] = ()
    """Exact model ids that share every fact here; the first is the default. None: a binding names them."""
    server: Text = ""
    """The exact release of the server, or of the document, that the facts are taken from."""
    released: (
        Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", examples=["2026-08-21"])] | None
    ) = None
    """The day of that release."""
    driver: Annotated[
        str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*@[1-9][0-9]*$", examples=["openai-images@1"])
    ]
    """The driver that speaks it."""
    kind: Literal["call", "job", "session", "agent-model"] = "call"
    """How its operations are driven."""
    refuses: Seq[OperationName] = ()
    """The operations of the dialect that this server does not offer: with those stated, all of them."""
    description: Text = ""
    """What it is, in one sentence."""


class Auth(Record):
    """How a request proves whose it is; without it no credential is sent."""

    scheme: Literal["none", "bearer", "header", "query", "mtls", "sigv4"] = "none"
    """`bearer` writes `Bearer KEY` into the header, `header` the key alone; the last three are not served."""
    header: Header | None = None
    """The header that the gate fills."""
    parameter: Provided | None = None
    """The query parameter, for `query`."""
    secret: Slot | None = None
    """The slot of the binding whose secret it is; never a value."""


class Transport(Record):
    """Where requests go, and what each carries."""

    base: ServerBase
    """The address that routes are under; `binding` lets the binding's `settings.baseUrl` name it."""
    connect_timeout_seconds: Seconds = 5
    """How long a connection may take."""
    headers: dict[Header, Annotated[str, Field(pattern=r"^[ -~]*$", max_length=256)]] = Field(
        default_factory=dict
    )
    """Constant headers without a secret; no others are sent."""
    redirects: Literal["refuse"] = "refuse"
    """What becomes of a redirect: there is one answer."""
    max_request_bytes: Bytes | None = None
    """The largest body that the server takes."""
    max_response_bytes: Bytes = 64 * 2**20
    """The largest answer that is read."""
    request_id_header: Header | None = None
    """The header in which the server names a request."""


JsonType = Literal["string", "integer", "number", "boolean", "object", "array", "file"]


class FieldFact(Record):
    """One field that may be sent, and the values that it may have. A field without a table is refused."""

    type: JsonType
    """Its JSON type; `file` is a part of a multipart body."""
    also: Seq[JsonType] = ()
    """Other JSON types that it may have."""
    enum: Annotated[Seq[Scalar], Field(min_length=1)] | None = None
    """The only values; of an array, the only values of its items."""
    types: Annotated[Seq[str], Field(min_length=1)] | None = None
    """The only values of the key `type` of an object, or of each object of an array."""
    keys: Annotated[Seq[Provided], Field(min_length=1)] | None = None
    """The only keys of an object, or of each object of an array."""
    roles: Annotated[Seq[str], Field(min_length=1)] | None = None
    """The only values of the key `role` of each message of an array."""
    min: float | None = None
    """The least number."""
    max: float | None = None
    """The greatest number."""
    max_chars: Annotated[int, Field(ge=0, le=2**30)] | None = None
    """The most characters of a text."""
    max_items: Annotated[int, Field(ge=0, le=2**20)] | None = None
    """The most items of an array, or the most keys of an object."""
    max_bytes: Bytes | None = None
    """The most bytes of a file."""
    pattern: Annotated[str, Field(max_length=512)] | None = None
    """A regular expression that the whole text matches."""
    default: Scalar | None = None
    """What the server takes where the field is left out. It is not sent."""
    models: Annotated[Seq[ModelId], Field(min_length=1)] | None = None
    """The models that take it, where that is not all of the profile's."""


class Condition(Record):
    """What must hold for a rule to apply; all of it."""

    present: Seq[Provided] = ()
    """Fields that are given."""
    absent: Seq[Provided] = ()
    """Fields that are not."""
    equals: dict[Provided, Scalar] = Field(default_factory=dict)
    """Fields with exactly this value."""
    models: Seq[ModelId] = ()
    """One of these models is asked for."""


class Consequence(Record):
    """What a rule asks for where it applies."""

    require: Seq[Provided] = ()
    """Fields that must be given."""
    reject: Seq[Provided] = ()
    """Fields that must not be given."""
    enum: dict[Provided, Seq[Scalar]] = Field(default_factory=dict)
    """Fields that, where they are given, have one of these values."""


class FieldRule(Record):
    """Fields that depend on each other."""

    if_: Annotated[Condition, Field(alias="if")]
    """When it applies."""
    then: Consequence
    """What it asks for."""


EventWord = Literal[
    "start", "text-delta", "tool-call-start", "tool-call-delta", "part-start", "part-end", "reasoning",
    "usage", "finish", "error", "preview", "artifact", "audio", "progress", "ignore",
]  # fmt: skip


class Stream(Record):
    """What a streamed answer means; without it, asking for one is refused."""

    meaning: Literal["none", "token-deltas", "audio-frames", "progress", "previews", "partial-artifacts"] = (
        "none"
    )
    """What the parts are."""
    framing: Literal["sse", "ndjson", "chunked", "websocket"] = "sse"
    """How the parts are told apart."""
    ask: dict[BodyPath, Scalar] = Field(default_factory=dict)
    """The fields that ask for it, by dotted path: `stream = true`."""
    events: dict[str, EventWord] = Field(default_factory=dict)
    """The closed list of the server's events and what each is for us; a stream without names has `chunk`."""
    unknown: Literal["ignore", "fail"] = "fail"
    """What an event is that is not listed."""
    end: Annotated[str, Field(max_length=128)] | None = None
    """What ends it: the text `[DONE]`, or an event's name. Without it, the end of the answer."""
    usage: Literal["none", "last-chunk", "events"] = "none"
    """Where the usage stands."""


class Idempotency(Record):
    """What proves that a request sent twice has one effect; without it, nothing does."""

    mode: Literal["none", "client-key", "natural"] = "none"
    """`client-key`: the server knows a key of ours; `natural`: the name derived from it exists once."""
    header: Header | None = None
    """The header that carries the key."""
    field: Provided | None = None
    """The field that carries the key."""
    max_chars: Annotated[int, Field(ge=8, le=1024)] | None = None
    """The longest key."""
    key_ttl_seconds: Annotated[float, Field(gt=0)] | None = None
    """How long the server remembers a key."""
    scope: Literal["account", "key", "endpoint"] | None = None
    """Within what a key is one."""
    mismatch: Literal["error", "returns-original", "unknown"] = "unknown"
    """What the same key with another body does."""
    stores: Literal["all", "2xx", "non-5xx"] | None = None
    """Which answers are remembered."""
    in_flight: Literal["409", "waits"] | None = None
    """What the same key does while the first request runs."""


class Cancel(Record):
    """How work is stopped; without it, it is not."""

    mode: Literal["none", "abort-unproven", "request", "proved"] = "none"
    """`abort-unproven` drops the connection, `request` asks, `proved` is told that nothing runs any more."""
    method: Method = "POST"
    """The method of the route."""
    path: Route | None = None
    """The route; `{job}` is the provider's id."""
    cancels: Seq[Literal["queued", "running"]] = ()
    """What can be cancelled."""
    proof: Seq[str] = ()
    """The raw statuses that prove that it is cancelled."""
    refused: Seq[int] = ()
    """The HTTP statuses by which the server says that it cannot be cancelled any more."""


JobState = Literal["queued", "running", "succeeded", "failed", "cancelled", "expired"]


class Lookup(Record):
    """How work that was submitted is found again; without it, it is not."""

    by: Seq[Literal["job-id", "key", "tag"]] = ()
    """What it is found by."""
    path: Route | None = None
    """The route by job id; `{job}` is the provider's id."""
    key_path: Route | None = None
    """The route by our key; `{key}` is the key."""
    list_path: Route | None = None
    """The route by tag; `{tag}` is the tag."""
    tag_field: BodyPath | None = None
    """The field of a submit that carries the tag, by dotted path."""
    id_at: BodyPath = "id"
    """Where the job's id stands in an answer, by dotted path."""
    status_at: BodyPath = "status"
    """Where the raw status stands."""
    status: dict[str, JobState] = Field(default_factory=dict)
    """The closed list of raw statuses and what each is; another is unknown, never running and never done."""
    visibility_delay_seconds: Annotated[float, Field(ge=0)] | None = None
    """How long after a submit it may not be found yet."""
    absence_is_proof: bool = False
    """Whether "not found" after that delay proves that it never began."""
    progress_at: BodyPath | None = None
    """Where the progress stands."""
    progress_scale: Annotated[float, Field(gt=0)] = 1
    """The progress of what is done: 1 or 100."""
    error_at: BodyPath | None = None
    """Where the cause of a failure stands."""
    expires_at: BodyPath | None = None
    """Where the instant stands after which the result is gone, in seconds of the epoch."""
    poll_after_header: Header | None = None
    """The header that says when to ask again, in seconds."""
    min_interval_seconds: Seconds = 5
    """The least time between two questions."""


class Fetch(Record):
    """How the result of a job is fetched; without it, a result stands in the answer itself."""

    path: Route
    """The route; `{job}` is the provider's id."""
    parts: dict[Provided, str] = Field(default_factory=dict)
    """What can be fetched, and the query that asks for each: `video = "variant=video"`. One part without one
    has an empty query."""
    available_for_seconds: Annotated[float, Field(gt=0)] | None = None
    """How long it can be fetched after the job is done."""
    digest_header: Header | None = None
    """The header that carries the sha256 of the bytes."""
    not_ready: Seq[int] = ()
    """The HTTP statuses by which the server says that there is nothing to fetch yet."""


class Operation(Record):
    """One operation that the server offers: its route, its fields, and what a call of it is worth."""

    name: OperationName
    """The operation, as the dialect's entry lists it."""
    method: Method
    """The method."""
    path: Route
    """The route under the base address."""
    body: Literal["json", "multipart", "none"] = "json"
    """How the fields are written."""
    effect: Literal["none", "local", "paid", "external"]
    """What a call changes."""
    result: Annotated[
        str, Field(pattern=r"^[a-z0-9]+([.-][a-z0-9]+)*@[1-9][0-9]*$", examples=["openai.images.result@1"])
    ]
    """The type of the result, as the dialect's entry lists it."""
    required: Seq[Provided] = ()
    """Fields that must be given."""
    rejected: Seq[Provided] = ()
    """Fields that the family knows and this server refuses: they are refused here, by name."""
    fields: Annotated[dict[Provided, FieldFact], Field(alias="field")] = Field(default_factory=dict)
    """The fields that may be sent."""
    rules: Annotated[Seq[FieldRule], Field(alias="rule")] = ()
    """Fields that depend on each other."""
    stream: Stream = Stream()
    """What a streamed answer means."""
    idempotency: Idempotency = Idempotency()
    """What proves that a request sent twice has one effect."""
    cancel: Cancel = Cancel()
    """How work is stopped."""
    lookup: Lookup = Lookup()
    """How work is found again."""
    fetch: Fetch | None = None
    """How a result is fetched."""


class MediaType(Record):
    """One media type that goes in or comes out, and how it is carried."""

    type: Annotated[str, Field(pattern=r"^[a-z]+/[a-z0-9.+-]+$", max_length=128, examples=["image/png"])]
    """The media type."""
    via: Provided
    """How it is carried: `multipart`, `base64`, `data-url`, `url`, `raw`, or the field that holds base64."""
    operations: Seq[OperationName] = ()
    """The operations that it is for, where that is not all."""
    max_bytes: Bytes | None = None
    """The most bytes of one."""
    max_count: Annotated[int, Field(ge=1, le=2**20)] | None = None
    """The most of them in one call."""
    max_pixels: Annotated[int, Field(ge=1, le=2**40)] | None = None
    """The most pixels of one."""
    max_duration_seconds: Annotated[float, Field(gt=0)] | None = None
    """The longest one."""
    sample_rates: Seq[int] = ()
    """The only sample rates, where that matters."""


class Media(Record):
    """What goes in and comes out besides text; a type that is not listed is unsupported."""

    in_: Annotated[Seq[MediaType], Field(alias="in")] = ()
    """What may be handed in."""
    out: Seq[MediaType] = ()
    """What may come out."""
    url_fetch: Literal["never"] = "never"
    """Whether an address in an answer is followed: it never is."""


class ErrorRule(Record):
    """What one sort of refusal means; the first that fits counts."""

    status: Annotated[int, Field(ge=100, le=599, examples=[429])] | StatusClass
    """The HTTP status, or a class of them: `5xx`."""
    when: dict[BodyPath, Scalar] = Field(default_factory=dict)
    """What stands in the body, by dotted path; all of it."""
    code: ErrorCode = "unavailable"
    """The interface's error code."""
    effect: Literal["none", "unknown", "happened"] = "unknown"
    """What the server did before it said so."""
    retry: Literal["never", "retry-after", "backoff"] = "never"
    """Whether the same request may be worth another decision later."""


class RateLimit(Record):
    """Where the server says what is left; without it, nothing is tracked."""

    headers: dict[RateLimitWord, Header] = Field(default_factory=dict)
    """The header of each number."""
    reset_format: Literal["go-duration", "rfc3339", "seconds", "epoch"] | None = None
    """How the time of a reset is written."""


class Retention(Record):
    """How long the server keeps what it gets. What is absent is unstated, and no policy takes it for met."""

    request_days: Days | None = None
    """How long a request is kept; 0: not at all."""
    result_days: Days | None = None
    """How long a result is kept; 0: not at all."""
    training: Literal["no", "yes"] | None = None
    """Whether what is sent may train models."""
    region: Annotated[str, Field(min_length=1, max_length=64, examples=["eu"])] | None = None
    """Where it is kept."""
    job_expires_seconds: Annotated[float, Field(gt=0)] | None = None
    """How long a job is known."""
    result_expires_seconds: Annotated[float, Field(gt=0)] | None = None
    """How long an address in a result works."""


class Echo(Record):
    """Whether an answer names the model that gave it."""

    model: Literal["exact", "prefix", "unreliable"] = "unreliable"
    """`exact`: another name in the answer is a failure."""
    at: BodyPath = "model"
    """Where the name stands in an answer."""


class ModelLimits(Record):
    """What a model takes and gives, where the server states it."""

    max_input_tokens: Annotated[int, Field(ge=1)] | None = None
    """The most tokens of a request."""
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    """The most tokens of an answer."""


class ProbeRoute(Record):
    """A question that carries no payload."""

    method: Literal["GET", "HEAD"] = "GET"
    """The method."""
    path: Route
    """The route, under the base address."""
    ids_at: BodyPath | None = None
    """Of an inventory: where the list of models stands; each has an `id`."""


class ProbeFacts(Record):
    """What may be asked of the server besides real calls; what is absent is never asked."""

    link: ProbeRoute | None = None
    """A route that answers as long as the server does."""
    inventory: ProbeRoute | None = None
    """The route that lists models: one that is missing there is not ready; nothing is ever added by it."""
    readiness: dict[OperationName, dict[Provided, Scalar]] = Field(default_factory=dict)
    """The smallest call of an operation, for local servers alone: its fields."""
    ready_unit: bool = False
    """Whether one operation that is ready proves that all are: a server with one fixed model."""


class Profile(Record):
    """What one exact server offers of one dialect, in `profiles/ID/REVISION/profile.toml`."""

    api_version: Literal["handler.dialect-profile/v1"]
    """The format of this file."""
    identity: Annotated[Identity, Field(alias="profile")]
    """Whose facts these are."""
    auth: Auth = Auth()
    """How a request proves whose it is."""
    transport: Transport
    """Where requests go."""
    operations: Annotated[Seq[Operation], Field(alias="operation")]
    """The operations that the server offers."""
    media: Media = Media()
    """What goes in and comes out besides text."""
    errors: Annotated[Seq[ErrorRule], Field(alias="error")] = ()
    """What refusals mean. One that fits none is `unavailable`, effect unknown, and is not tried again."""
    rate_limit: RateLimit = RateLimit()
    """Where the server says what is left."""
    retention: Retention = Retention()
    """How long the server keeps what it gets."""
    echo: Echo = Echo()
    """Whether an answer names the model that gave it."""
    limits: ModelLimits = ModelLimits()
    """What the models take and give."""
    probe: ProbeFacts = ProbeFacts()
    """What may be asked besides real calls."""

    @property
    def ref(self) -> str:
        """``id@revision``: how connectors, locks and records name it."""
        return f"{self.identity.id}@{self.identity.revision}"

    @property
    def description(self) -> str:
        """What it is, in one sentence: where every kind has it."""
        return self.identity.description

    def operation(self, name: str) -> Operation | None:
        """The operation of this name, or None: the server does not offer it."""
        return next((one for one in self.operations if one.name == name), None)
