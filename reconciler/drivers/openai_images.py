"""``openai.images@1``: pictures of a text, changed pictures, variations; whole, or streamed with previews.

Source: OpenAI's OpenAPI file of 2026-08-21. An address in an answer is given on as an address and never
followed; it is a result only where the profile says that pictures come so.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace

from reconciler.drivers import bytesof, reading, sealing, sse, stating, streaming
from reconciler.drivers.asking import Call
from reconciler.drivers.picking import at, count, records, text
from reconciler.model.dialect import Operation, Profile
from reconciler.model.outcome import CallOutcome, Done, Media, Rejected, Unknown, Usage
from reconciler.model.sealed import Reply, Sealed
from reconciler.model.turns import Event, Preview

_MOST = 64  # pictures of one answer; more are no answer
_LONGEST_ADDRESS = 8192
_ALONE = frozenset(("mask",))  # fields of JSON bodies that hold one picture, not a list


@dataclass(frozen=True, slots=True)
class _Allowed:
    """What pictures may be: media types, and whether an address may stand for one."""

    types: tuple[str, ...]
    addresses: bool


def seal(call: Call, profile: Profile) -> Sealed:
    """The bytes of a call. Where an operation takes JSON, its pictures stand in it as data addresses."""
    operation = sealing.stated(profile, call.operation)
    if operation.body != "json" or not call.files:
        return sealing.call(call, profile)
    fields = dict(call.fields)
    for name, files in call.files.items():
        for one in files:
            stating.shown(profile, operation, one.media_type)
        shown = [{"image_url": _address(one)} for one in files]
        fields[name] = shown[0] if name in _ALONE else shown
    return sealing.call(replace(call, fields=fields, files={}), profile)


def _address(media: Media) -> str:
    return f"data:{media.media_type};base64,{base64.b64encode(media.data).decode()}"


def read(reply: Reply, call: Call, profile: Profile) -> CallOutcome:
    """The pictures: ``{"images": [{"media": n} or {"url": …}]}``, each with its ``revisedPrompt`` if any."""
    operation = sealing.stated(profile, call.operation)
    body = reading.opened(reply, profile, text(call.fields.get("model")))
    if isinstance(body, Rejected | Unknown):
        return body
    said, allowed = _said(body, call), _allowed(profile, operation)
    images: list[dict[str, object]] = []
    media: list[Media] = []
    found = records(body.get("data"))
    for one in found[:_MOST]:
        image = _image(one, said, allowed, media)
        if image is None:
            return Unknown("a picture of the answer cannot be read", reading.seen(reply, profile))
        images.append(image)
    if not images or len(found) > _MOST:
        return Unknown("the answer has no pictures, or too many", reading.seen(reply, profile))
    return Done({"images": images}, tuple(media), _usage(body), seen=reading.seen(reply, profile))


def _allowed(profile: Profile, operation: Operation) -> _Allowed:
    return _Allowed(stating.media_out(profile, operation), any(one.via == "url" for one in profile.media.out))


def _said(body: Mapping[str, object], call: Call) -> str:
    """The media type that the answer, or else the request, speaks of."""
    form = text(body.get("output_format")) or text(call.fields.get("output_format"))
    return f"image/{form}" if form else ""


def _image(
    one: Mapping[str, object], said: str, allowed: _Allowed, media: list[Media]
) -> dict[str, object] | None:
    image: dict[str, object] = {}
    if data := bytesof.decoded(one.get("b64_json")):
        kind = bytesof.media_type(data, said, allowed.types)
        if kind is None:
            return None
        image["media"] = len(media)
        media.append(Media(kind, data))
    else:
        address = text(one.get("url"))
        if not _is_plain(address) or not allowed.addresses:
            return None
        image["url"] = address
    if revised := text(one.get("revised_prompt")):
        image["revisedPrompt"] = revised
    return image


def _is_plain(address: str) -> bool:
    return address.startswith("https://") and address.isprintable() and len(address) <= _LONGEST_ADDRESS


def _usage(body: Mapping[str, object]) -> Usage:
    return Usage(count(at(body, "usage.input_tokens")), count(at(body, "usage.output_tokens")))


def decoder(head: Reply, call: Call, profile: Profile) -> "Streamed | None":
    """What reads a streamed answer: previews, then pictures; None where it is no stream."""
    operation = sealing.stated(profile, call.operation)
    return Streamed(head, call, profile, operation) if streaming.streams(head, operation) else None


class Streamed:
    """Events into previews and, at the end, the pictures. What an event is the profile's list says."""

    def __init__(self, head: Reply, call: Call, profile: Profile, operation: Operation) -> None:
        self._head, self._call, self._profile, self._operation = head, call, profile, operation
        self._events = streaming.events(operation, profile)
        self._allowed = _allowed(profile, operation)
        self._images: list[dict[str, object]] = []
        self._media: list[Media] = []
        self._usage = Usage()
        self._failed: Rejected | Unknown | None = None

    def feed(self, data: bytes) -> tuple[Event, ...]:
        """The previews that these bytes complete; none after a fault."""
        found: list[Event] = []
        for sent in self._events.feed(data):
            if self._failed is None:
                found += self._event(sent)
        return tuple(found)

    def close(self) -> CallOutcome:
        """The pictures. A stream without one broke off: what it did is not known."""
        seen = reading.seen(self._head, self._profile)
        if self._failed is not None:
            return self._failed
        if self._events.fault is not None or not self._images:
            return Unknown(self._events.fault or streaming.CUT, seen)
        return Done({"images": self._images}, tuple(self._media), self._usage, seen=seen)

    def _event(self, sent: sse.Sent) -> list[Event]:
        told = streaming.told(sent, self._head, self._operation, self._profile)
        if isinstance(told, Rejected | Unknown):
            self._failed = told
            return []
        if told.word == "preview":
            return self._preview(told.body)
        return self._artifact(told.body) if told.word == "artifact" else []

    def _preview(self, body: Mapping[str, object]) -> list[Event]:
        media: list[Media] = []
        image = _image(body, _said(body, self._call), self._allowed, media)
        if image is None or not media:
            return self._fail("a preview cannot be read")
        return [Preview(count(body.get("partial_image_index")), media[0].media_type, media[0].data)]

    def _artifact(self, body: Mapping[str, object]) -> list[Event]:
        said = _said(body, self._call)
        image = _image(body, said, self._allowed, self._media)
        if image is None or len(self._images) >= _MOST:
            return self._fail("a picture of the answer cannot be read")
        self._images.append(image)
        self._usage = _usage(body)
        return [self._usage]

    def _fail(self, cause: str) -> list[Event]:
        self._failed = Unknown(cause, reading.seen(self._head, self._profile))
        return []
