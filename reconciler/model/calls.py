"""One call as the two sides of the router speak of it, and the record that it leaves.

``Dispatch`` is what the router is handed: it gives the lane to an instance, started when needed. A lane sends
one tool call and reports to a sink. All of it is callbacks on one loop: this is the hot path. A record never
holds a payload, a path or a message of a connector.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from reconciler.model.names import InstanceName
from reconciler.model.routes import ScopeFolder

# Result and CallRecord are made once a call, on the hot path, where ``frozen`` would cost more than their
# checks; nobody changes them.


@dataclass(slots=True)
class Result:
    """A connector's success: its structured answer, and the blobs it left for output files.

    ``files`` maps an input property (of format ``handler-output-file``) to a file name in the lane's outbox;
    ``read`` names files of the scope, as the agent does, whose text is in the answer (of builtin connectors).
    ``added`` are files in the outbox for folders of the binding's settings.
    """

    structured: Mapping[str, Any]
    files: Mapping[str, str]
    read: tuple[str, ...] = ()
    added: "tuple[Added, ...]" = ()


@dataclass(frozen=True, slots=True)
class Added:
    """A file that a connector hands over for the folder of a setting: ``name`` below it, ``blob`` in the
    outbox.
    """

    setting: str
    name: str
    blob: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call that ended without an answer: a code, and a diagnostic for the journal only. ``reason`` (of the
    closed list) says that the connector's own code never came to run, and why. ``no_effect`` is the proof
    that the call had none: it never reached the connector, or that said so. Without a proof it may have had.
    ``own``: it is the connector's own answer, whatever that is worth.
    """

    code: str
    diagnostic: str = ""
    reason: str = ""
    no_effect: "NoEffect" = ""
    own: bool = field(default=False, compare=False)


NoEffect = Literal["", "unsent", "said"]
Reply = Result | Refusal
Unanswered = Callable[[InstanceName, str, Refusal], None]
"""Hears, by tool, of what an instance did not do: its own refusals, and calls whose time ran out on it."""


class Sink(Protocol):
    """Who hears of one sent call. ``done`` comes exactly once, unless the call was cancelled first."""

    wants_progress: bool  # False: the connector is not even asked to report

    @property
    def caller(self) -> str:
        """Whose call it is: where calls have to wait, callers take turns."""
        ...

    @property
    def session(self) -> str:
        """The session that it was made in."""
        ...

    @property
    def scope(self) -> tuple[ScopeFolder, ...]:
        """What that session's agent may reach of the machine's files; for builtin connectors alone."""
        ...

    @property
    def entry(self) -> str:
        """What the call was let in by; "" where nobody was asked."""
        ...

    @property
    def attempt(self) -> str:
        """The ledger's name for what it does; "" without an effect."""
        ...

    def progress(self, progress: float, total: float | None) -> None: ...

    def done(self, reply: Reply) -> None: ...


class Relayed:
    """A sink that stands before another, and does something of its own when the call is done."""

    __slots__ = ("_sink", "wants_progress")

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.wants_progress = sink.wants_progress

    @property
    def caller(self) -> str:
        return self._sink.caller

    @property
    def session(self) -> str:
        return self._sink.session

    @property
    def scope(self) -> tuple[ScopeFolder, ...]:
        return self._sink.scope

    @property
    def entry(self) -> str:
        return self._sink.entry

    @property
    def attempt(self) -> str:
        return self._sink.attempt

    def progress(self, progress: float, total: float | None) -> None:
        self._sink.progress(progress, total)

    def done(self, reply: Reply) -> None:
        self._sink.done(reply)


class Lane(Protocol):
    """A ready connector. ``inbox`` and ``outbox`` are directory descriptors of the instance's own hand-off
    folders.

    The connector sees ``inbox`` read-only as ``/run/connector/in`` and may write ``outbox`` as
    ``/run/connector/out``.
    """

    inbox: int
    outbox: int

    def send(self, tool: str, arguments: Mapping[str, Any], sink: Sink, max_reply_bytes: int) -> int:
        """Send one call; the number cancels it. Never raises for a dead connector: the sink hears of it."""
        ...

    def cancel(self, number: int) -> bool:
        """Tell the connector to stop and forget the call; its late answer is dropped and counted. False: the
        call had not gone out, and will not.
        """
        ...

    def hold(self) -> None:
        """A call prepares files for this connector: it does not stop for being idle until ``release``."""
        ...

    def release(self) -> None: ...


class Dispatch(Protocol):
    """What joins a route to a running connector."""

    def lane(self, instance: InstanceName) -> Lane | None:
        """The lane when the instance runs already, else None."""
        ...

    def open_lane(self, instance: InstanceName, ready: Callable[[Lane | Refusal], None]) -> None:
        """Start the instance (single flight) and call back once, with the lane or with why there is none."""
        ...


@dataclass(slots=True)
class CallRecord:
    """What is kept of one call: who, what, how long, how large, how it ended. Never a payload."""

    at: float  # wall clock, seconds since 1970
    call: str
    session: str
    agent: str
    interface: str  # ocr/v1
    tool: str
    binding: str
    instance: str
    code: str  # "ok" or the error code the agent saw
    ms: float
    in_bytes: int
    out_bytes: int
    files: tuple[tuple[str, int, str], ...] = ()  # property, size, sha256 of each file handed over
    diagnostic: str = ""  # for operators: a field path, an exit status; never a value
    trace: str = ""  # the traceparent that the request named, as it came: 55 characters, or ""
    attempt: str = ""  # the ledger's, of a call with an effect
