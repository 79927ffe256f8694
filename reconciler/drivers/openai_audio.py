"""``openai.audio-batch@1``: recordings into text, and text into recordings, one file a call.

Source: OpenAI's OpenAPI file of 2026-08-21. Servers go by a file's ending and not by what is said of it: a
recording without a name of its own is given the ending of its media type (``sealing``).
"""

from collections.abc import Mapping

from reconciler.drivers import bytesof, reading, sealing, sse, stating, streaming
from reconciler.drivers.asking import Call
from reconciler.drivers.picking import at, count, number, records, text
from reconciler.model.dialect import Operation, Profile
from reconciler.model.outcome import CallOutcome, Done, Media, Rejected, Unknown, Usage
from reconciler.model.sealed import Reply, Sealed
from reconciler.model.turns import Event, Preview, TextDelta

SPEAK = "speak"
_TEXTS = frozenset(("text", "srt", "vtt"))  # formats whose answer is no JSON
_NO_TEXTS = frozenset(("text/html", "application/json"))
_SOUNDS = {"mp3": "audio/mpeg", "opus": "audio/opus", "aac": "audio/aac", "flac": "audio/flac",
           "wav": "audio/wav", "pcm": "audio/pcm"}  # fmt: skip
_MOST = 100_000  # segments or words of one answer


def seal(call: Call, profile: Profile) -> Sealed:
    """The bytes of a call."""
    return sealing.call(call, profile)


def read(reply: Reply, call: Call, profile: Profile) -> CallOutcome:
    """A recording (``{"audio": {"media": 0}}``), or its words: ``{"text", "language"?, "seconds"?,
    "segments"?, "words"?}``; of subtitles the text is the file.
    """
    if not reading.succeeded(reply):
        return reading.refusal(reply, profile)
    if call.operation == SPEAK:
        return _spoken(reply, reply.body, call, profile)
    form = text(call.fields.get("response_format"))
    return _plain(reply, form, profile) if form in _TEXTS else _written(reply, call, profile)


def _spoken(reply: Reply, data: bytes, call: Call, profile: Profile) -> CallOutcome:
    """A recording of the format that was asked for, as far as its bytes show one."""
    operation = sealing.stated(profile, call.operation)
    fact = operation.fields.get("response_format")
    form = text(call.fields.get("response_format")) or text(fact.default if fact else None)
    allowed = stating.media_out(profile, operation)
    wanted = tuple(one for one in allowed if one == _SOUNDS.get(form)) or allowed
    said = reply.headers.get("content-type", "")
    kind = bytesof.media_type(data, "" if said.startswith("text/event-stream") else said, wanted)
    if kind is None or not data:
        return Unknown("the answer is no recording that was asked for", reading.seen(reply, profile))
    return Done({"audio": {"media": 0}}, (Media(kind, data),), seen=reading.seen(reply, profile))


def _plain(reply: Reply, form: str, profile: Profile) -> CallOutcome:
    seen = reading.seen(reply, profile)
    said = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        words = reply.body.decode()
    except UnicodeDecodeError:
        return Unknown("the answer is no text", seen)
    if said in _NO_TEXTS:
        return Unknown("the answer is no text of the format that was asked for", seen)
    return Done({"text": words.rstrip("\n") if form == "text" else words}, seen=seen)


def _written(reply: Reply, call: Call, profile: Profile) -> CallOutcome:
    body = reading.opened(reply, profile, text(call.fields.get("model")))
    return body if isinstance(body, Rejected | Unknown) else _words(body, reply, profile)


def _words(body: Mapping[str, object], reply: Reply, profile: Profile) -> CallOutcome:
    seen = reading.seen(reply, profile)
    words = body.get("text")
    if not isinstance(words, str):
        return Unknown("the answer has no text", seen)
    result: dict[str, object] = {"text": words}
    if language := reading.code(body.get("language")):
        result["language"] = language
    if (length := number(body.get("duration"))) is not None:
        result["seconds"] = length
    for name, key in (("segments", "text"), ("words", "word")):
        if parts := _timed(body.get(name), key):
            result[name] = parts
    return Done(result, usage=_usage(body), seen=seen)


def _timed(found: object, key: str) -> list[dict[str, object]]:
    """Pieces with their times in seconds; one that has none is left out."""
    timed: list[dict[str, object]] = []
    for one in records(found)[:_MOST]:
        start, end, words = number(one.get("start")), number(one.get("end")), one.get(key)
        if start is None or end is None or not isinstance(words, str):
            continue
        piece: dict[str, object] = {"start": start, "end": end, "text": words}
        if speaker := text(one.get("speaker")):
            piece["speaker"] = speaker
        timed.append(piece)
    return timed


def _usage(body: Mapping[str, object]) -> Usage:
    return Usage(
        input_tokens=count(at(body, "usage.input_tokens")),
        output_tokens=count(at(body, "usage.output_tokens")),
        seconds=number(at(body, "usage.seconds")) or number(body.get("duration")) or 0.0,
    )


def decoder(head: Reply, call: Call, profile: Profile) -> "Streamed | None":
    """What reads a streamed answer; None where it is no stream."""
    operation = sealing.stated(profile, call.operation)
    return Streamed(head, call, profile, operation) if streaming.streams(head, operation) else None


class Streamed:
    """Events into words or sounds and, at the end, the whole. What an event is the profile's list says."""

    def __init__(self, head: Reply, call: Call, profile: Profile, operation: Operation) -> None:
        self._head, self._call, self._profile, self._operation = head, call, profile, operation
        self._events = streaming.events(operation, profile)
        self._words: list[str] = []
        self._sound: list[bytes] = []
        self._last: Mapping[str, object] | None = None
        self._failed: Rejected | Unknown | None = None

    def feed(self, data: bytes) -> tuple[Event, ...]:
        """The words or sounds that these bytes complete; none after the end, or after a fault."""
        found: list[Event] = []
        for sent in self._events.feed(data):
            if self._failed is None and self._last is None:
                found += self._event(sent)
        return tuple(found)

    def close(self) -> CallOutcome:
        """The whole text, or the whole recording. A stream that broke off is Unknown."""
        if self._failed is not None:
            return self._failed
        if self._events.fault is not None or self._last is None:
            fault = self._events.fault or streaming.CUT
            return Unknown(fault, reading.seen(self._head, self._profile))
        if self._call.operation == SPEAK:
            return _spoken(self._head, b"".join(self._sound), self._call, self._profile)
        body = {"text": "".join(self._words), **self._last}
        return _words(body, self._head, self._profile)

    def _event(self, sent: sse.Sent) -> list[Event]:
        told = streaming.told(sent, self._head, self._operation, self._profile)
        if isinstance(told, Rejected | Unknown):
            self._failed = told
            return []
        match told.word:
            case "text-delta":
                words = text(told.body.get("delta"))
                self._words.append(words)
                return [TextDelta(words)] if words else []
            case "audio":
                return self._frame(told.body)
            case "finish":
                self._last = told.body
                return [_usage(told.body)]
            case _:
                return []

    def _frame(self, body: Mapping[str, object]) -> list[Event]:
        data = bytesof.decoded(body.get("audio"))
        if data is None:
            return self._fail("a piece of sound cannot be read")
        self._sound.append(data)
        return [Preview(len(self._sound) - 1, "application/octet-stream", data)]

    def _fail(self, cause: str) -> list[Event]:
        self._failed = Unknown(cause, reading.seen(self._head, self._profile))
        return []
