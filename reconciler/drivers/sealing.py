"""Calls into exact bytes: routes, headers, JSON as RFC 8785, multipart with a derived boundary.

What every HTTP driver shares, as functions. Only fields that the profile states are written; any other raises
``Unsealable``. The same call and profile give the same bytes, whenever and wherever they are sealed.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import orjson
import rfc8785

from reconciler.drivers import stating
from reconciler.drivers.asking import Call, Job, Unsealable
from reconciler.model import hosts
from reconciler.model.dialect import Operation, Profile
from reconciler.model.outcome import Media
from reconciler.model.sealed import AuthSlot, Sealed, StreamSpec, wire_digest

_EVENT_BYTES = 32 * 2**20  # a picture in one event; nothing longer is put together
_WHOLE = 2**53  # RFC 8785 has no form for whole numbers from here on
_PLAIN_FROM, _PLAIN_TO = 1e-4, 1e15  # between them no writer of shortest decimals uses an exponent
_LONGEST_ID = 512  # characters of a provider's id that goes into a route
_ENDINGS = {
    "audio/flac": "flac", "audio/mpeg": "mp3", "audio/mp4": "m4a", "audio/ogg": "ogg", "audio/wav": "wav",
    "audio/x-wav": "wav", "audio/webm": "webm", "image/gif": "gif", "image/jpeg": "jpg", "image/png": "png",
    "image/webp": "webp", "text/plain": "txt", "application/pdf": "pdf", "video/mp4": "mp4",
}  # fmt: skip
_CONTENT_TYPE = "content-type"


@dataclass(frozen=True, slots=True)
class Draft:
    """A request that has everything but its place and its digest."""

    method: str
    path: str  # under the base, its parameters filled in
    body: bytes = b""
    content_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: StreamSpec | None = None


def sealed(draft: Draft, profile: Profile, base: str | None) -> Sealed:
    """The draft under the profile's base (or the binding's), with its constant headers, and its digest."""
    scheme, target, under = _base(profile, base)
    headers = {**profile.transport.headers, **draft.headers}
    if draft.content_type:
        headers[_CONTENT_TYPE] = draft.content_type
    limit = profile.transport.max_request_bytes
    if limit is not None and len(draft.body) > limit:
        raise Unsealable("transport.maxRequestBytes")
    origin, path = f"{scheme}://{target}", under + draft.path
    ordered = tuple(sorted((name.lower(), text) for name, text in headers.items()))
    digest = wire_digest((draft.method, origin, path), ordered, draft.body)
    most = profile.transport.max_response_bytes
    return Sealed(draft.method, origin, path, ordered, draft.body, _auth(profile), digest, draft.stream, most)


def call(asked: Call, profile: Profile) -> Sealed:
    """A call's bytes: its fields as JSON or as parts, as its operation says."""
    operation = stated(profile, asked.operation)
    fields = _fields(asked, operation)
    _files(asked, operation, profile)
    content_type, body = _body(asked, operation, fields)
    draft = Draft(operation.method, route(operation.path, asked), body, content_type, _key(asked, operation))
    if asked.stream:
        draft = replace(draft, stream=stream_of(operation, profile))
    return sealed(draft, profile, asked.base)


def stated(profile: Profile, name: str) -> Operation:
    """The operation of this name; Unsealable where the profile has none."""
    found = profile.operation(name)
    if found is None:
        raise Unsealable(f"operation.{name}")
    return found


def route(path: str, job: Call | Job) -> str:
    """The route with its parameters filled in, each as one segment; Unsealable for what is no id."""
    known = {"key": job.key, "tag": job.tag, "job": job.job_id if isinstance(job, Job) else ""}

    def filled(found: re.Match[str]) -> str:
        value = known[found.group(1)]
        if not value or not value.strip(".") or len(value) > _LONGEST_ID:
            raise Unsealable(f"route.{found.group(1)}")
        return quote(value, safe="")

    return re.sub(r"\{(job|key|tag)\}", filled, path)


def _base(profile: Profile, given: str | None) -> tuple[str, hosts.Target, str]:
    stands = profile.transport.base
    base = given if stands == "binding" else stands
    if not base:
        raise Unsealable("transport.base")
    try:
        target = hosts.of_address(base)
    except ValueError:
        raise Unsealable("transport.base") from None
    scheme, _, rest = base.partition("://")
    _, slash, path = rest.partition("/")
    if "?" in rest:
        raise Unsealable("transport.base")
    return scheme, target, (slash + path).rstrip("/")


def _auth(profile: Profile) -> AuthSlot | None:
    auth = profile.auth
    if auth.scheme == "none" or auth.secret is None:
        return None
    header = auth.header or ("authorization" if auth.scheme == "bearer" else None)
    return AuthSlot(auth.scheme, auth.secret, header, auth.parameter)


def _fields(asked: Call, operation: Operation) -> dict[str, object]:
    fields: dict[str, object] = {}
    for name, value in asked.fields.items():
        if name not in operation.fields or name in operation.rejected:
            raise Unsealable(f"field.{name}")
        fields[name] = value
    if asked.stream:
        if operation.stream.meaning == "none":
            raise Unsealable("stream.meaning")
        for path, value in operation.stream.ask.items():
            _put(fields, path, value)
    if asked.tag and operation.lookup.tag_field:
        _put(fields, operation.lookup.tag_field, asked.tag)
    if asked.key and operation.idempotency.mode == "client-key" and operation.idempotency.field:
        fields[operation.idempotency.field] = _bounded(asked, operation)
    for name in operation.required:
        if name not in fields and name not in asked.files:
            raise Unsealable(f"required.{name}")
    return fields


def _files(asked: Call, operation: Operation, profile: Profile) -> None:
    for name, files in asked.files.items():
        fact = operation.fields.get(name)
        if fact is None or not files or name in operation.rejected:
            raise Unsealable(f"field.{name}")
        if fact.max_items is not None and len(files) > fact.max_items:
            raise Unsealable(f"field.{name}.maxItems")
        if fact.max_bytes is not None and any(len(one.data) > fact.max_bytes for one in files):
            raise Unsealable(f"field.{name}.maxBytes")
        for one in files:
            stating.shown(profile, operation, one.media_type)


def _put(fields: dict[str, object], path: str, value: object) -> None:
    *above, last = path.split(".")
    inner = fields
    for key in above:
        known = inner.get(key)
        inner[key] = deeper = dict(known) if isinstance(known, Mapping) else {}
        inner = deeper
    inner[last] = value


def _key(asked: Call, operation: Operation) -> dict[str, str]:
    fact = operation.idempotency
    if not asked.key or fact.mode != "client-key" or fact.header is None:
        return {}
    return {fact.header: _bounded(asked, operation)}


def _bounded(asked: Call, operation: Operation) -> str:
    most = operation.idempotency.max_chars
    if most is not None and len(asked.key) > most:
        raise Unsealable("idempotency.maxChars")
    return asked.key


def stream_of(operation: Operation, profile: Profile) -> StreamSpec:
    """How a streamed answer is framed, and its bounds."""
    most = profile.transport.max_response_bytes
    return StreamSpec(operation.stream.framing, most, min(most, _EVENT_BYTES))


def _body(asked: Call, operation: Operation, fields: Mapping[str, object]) -> tuple[str | None, bytes]:
    if operation.body == "json":
        if asked.files:
            raise Unsealable(f"body.{next(iter(asked.files))}")
        return "application/json", as_json(fields)
    if operation.body == "multipart":
        boundary = _boundary(asked)
        return f"multipart/form-data; boundary={boundary}", _multipart(fields, asked.files, boundary)
    if fields or asked.files:
        raise Unsealable("body")
    return None, b""


def as_json(fields: Mapping[str, object]) -> bytes:
    """RFC 8785 of the fields; Unsealable for a number or a text that it has no form for.

    With ASCII keys and numbers that everybody writes alike, sorted orjson is that, and ten times as quick
    (a picture in base64 is megabytes); the rest takes the long way.
    """
    try:
        value, alike = _plain(fields)
        if alike:
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (orjson.JSONEncodeError, RecursionError):
        pass  # the long way says what is wrong, or that nothing is
    try:
        return rfc8785.dumps(_plain(fields)[0])
    except (rfc8785.CanonicalizationError, RecursionError):
        raise Unsealable("field.value") from None


def _plain(value: object) -> tuple[Any, bool]:
    """The value in dicts and lists alone, and whether all writers of JSON agree about it."""
    if isinstance(value, Mapping):
        items = {key: _plain(item) for key, item in value.items()}
        alike = all(isinstance(key, str) and key.isascii() and own for key, (_, own) in items.items())
        return {key: item for key, (item, _) in items.items()}, alike
    if isinstance(value, list | tuple):
        members = [_plain(item) for item in value]
        return [item for item, _ in members], all(own for _, own in members)
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE:
        return int(value), True
    if isinstance(value, float):
        return value, _PLAIN_FROM <= abs(value) < _PLAIN_TO
    if isinstance(value, int) and not isinstance(value, bool):
        return value, abs(value) < _WHOLE
    return value, value is None or isinstance(value, str | bool)


def _boundary(asked: Call) -> str:
    """Of the call's id, and of nothing that stands in its bytes."""
    texts = [one.data for files in asked.files.values() for one in files]
    texts.append(as_json(asked.fields))
    for turn in range(1000):
        mark = "hdl1-" + hashlib.sha256(f"{turn}:{asked.id}".encode()).hexdigest()[:40]
        if not any(mark.encode() in text for text in texts):
            return mark
    raise Unsealable("body.boundary")  # somebody computed a thousand of them beforehand


def _multipart(fields: Mapping[str, object], files: Mapping[str, tuple[Media, ...]], boundary: str) -> bytes:
    mark = b"--" + boundary.encode()
    pieces = []
    for name in sorted(fields):
        for text in _texts(fields[name]):
            pieces += [
                mark,
                f'\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n'.encode(),
                text,
                b"\r\n",
            ]
    for name in sorted(files):
        for one in files[name]:
            head = f'form-data; name="{name}"; filename="{_file_name(one)}"'
            head = f"\r\ncontent-disposition: {head}\r\ncontent-type: {one.media_type}\r\n\r\n"
            pieces += [mark, head.encode(), one.data, b"\r\n"]
    return b"".join([*pieces, mark, b"--\r\n"])


def _texts(value: object) -> Iterator[bytes]:
    """A field's parts: an array is one part an item, under the name that the profile states (``name[]``)."""
    if isinstance(value, list | tuple):
        for item in value:
            yield _text(item)
    else:
        yield _text(value)


def _text(value: object) -> bytes:
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise Unsealable("field.value") from None
    if isinstance(value, Mapping):
        return as_json(value)
    return as_json({"": value})[4:-1]  # one value alone, as it stands in an object


def _file_name(media: Media) -> str:
    """The file's own name where it is given one, else a neutral one: servers go by its ending."""
    name = media.name or f"file.{_ENDINGS.get(media.media_type, 'bin')}"
    return (
        name.replace("\\", "/")
        .rpartition("/")[2]
        .replace('"', "%22")
        .replace("\r", "%0D")
        .replace("\n", "%0A")
    )
