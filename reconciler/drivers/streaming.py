"""Streamed answers, as far as all drivers read them alike: what is one, its bounds, what an event is."""

from reconciler.drivers import reading, sse
from reconciler.drivers.sealing import stream_of
from reconciler.model.dialect import Operation, Profile
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
