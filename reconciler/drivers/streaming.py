"""Streamed answers, as far as all drivers read them alike: what is one, its bounds, what an event is."""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.drivers import reading, sse
from reconciler.drivers.picking import at, parsed, text
from reconciler.drivers.sealing import stream_of
from reconciler.model.dialect import Operation, Profile
from reconciler.model.outcome import Rejected, Unknown
from reconciler.model.sealed import Reply

CUT = "the stream ended before its end"


def streams(head: Reply, operation: Operation) -> bool:
    """Whether an answer that begins so is a stream of events that the operation states."""
    kind = head.headers.get("content-type", "").partition(";")[0].strip().lower()
    return (
        reading.succeeded(head)
        and operation.stream.meaning != "none"
        and operation.stream.framing == "sse"
        and kind == "text/event-stream"
    )


def events(operation: Operation, profile: Profile) -> sse.Events:
    """A reader of the stream, within its bounds."""
    bounds = stream_of(operation, profile)
    return sse.Events(bounds.max_event_bytes, bounds.max_bytes)


def word(operation: Operation, name: str) -> str | None:
    """What an event of this name is for us: ``ignore`` where unknown ones are passed over, None where
    they are a fault.
    """
    known = operation.stream.events.get(name)
    if known is None and operation.stream.unknown == "ignore":
        return "ignore"
    return known


@dataclass(frozen=True, slots=True)
class Told:
    """One event: its name, what the profile says that it is, and its object."""

    name: str
    word: str
    body: Mapping[str, object]


def told(sent: sse.Sent, head: Reply, operation: Operation, profile: Profile) -> Told | Rejected | Unknown:
    """What an event says. An error is a refusal by the profile's map; one that is not listed, or is no JSON
    object, ends the reading.
    """
    body = parsed(sent.data)
    name = sent.name or text(at(body, "type"))
    if body is None:
        return Unknown("an event is no JSON object", reading.seen(head, profile))
    found = word(operation, name)
    if found == "error" or name == "error" or isinstance(body.get("error"), dict):
        return reading.refusal(head, profile, body)
    if found is None:
        return Unknown("an event that the profile does not list", reading.seen(head, profile))
    return Told(name, found, body)
