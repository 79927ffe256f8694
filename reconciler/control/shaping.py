"""Arguments into a dialect's fields and a driver's result into an interface's answer, by JMESPath.

Expressions see a file of the call as ``{name, mediaType, size, blob}`` and bytes of a result as
``{media: n}``. Functions of ours open the one and write the other, always inside the hand-off folders of the
instance, by names that the router made. All of it blocks and runs in a thread where a call has files.
"""

import base64
import json
import os
import struct
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jmespath
from jmespath import exceptions, functions

from reconciler.control import vectors
from reconciler.model.outcome import Media

_USUAL = {  # other names of what profiles list
    "audio/x-wav": "audio/wav", "audio/vnd.wave": "audio/wav", "audio/x-flac": "audio/flac",
    "audio/mp3": "audio/mpeg", "audio/x-m4a": "audio/mp4", "application/ogg": "audio/ogg",
}  # fmt: skip
_MOST_BYTES = 64 * 2**20  # of one file that goes in: what is sealed is held whole


class UnshapedError(ValueError):
    """An expression that gives nothing that can be used; the text is for operators."""


@dataclass(slots=True)
class Boxes:
    """Where a call's files lie, what came back in bytes, and which outputs were written."""

    inbox: int
    outbox: int
    media: Sequence[Media] = ()
    written: dict[str, str] = field(default_factory=dict)  # by blob: itself


def fields(expression: str, arguments: Mapping[str, Any], boxes: Boxes) -> dict[str, Any]:
    """The provider's fields of one call: nulls are left out. Parts are ``Media``, to be taken out by
    ``parted``. Raises UnshapedError, UnfitFileError, OSError.
    """
    shaped = _run(expression, dict(arguments), boxes) if expression else dict(arguments)
    if not isinstance(shaped, dict):
        raise UnshapedError(f"input gives {type(shaped).__name__}, no object")
    return {name: value for name, value in shaped.items() if value is not None}


def parted(found: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, tuple[Media, ...]]]:
    """The fields without the files, and the files."""
    files = {name: _media(value) for name, value in found.items() if _media(value)}
    return {name: value for name, value in found.items() if name not in files}, files


def answer(expression: str, told: Mapping[str, Any], boxes: Boxes) -> dict[str, Any]:
    """The interface's answer; ``told`` is ``result``, ``usage``, ``model`` and ``arguments``."""
    shaped = _run(expression, dict(told), boxes) if expression else told["result"]
    if not isinstance(shaped, dict):
        raise UnshapedError(f"output gives {type(shaped).__name__}, no object")
    return shaped


def _media(value: Any) -> tuple[Media, ...]:
    if isinstance(value, Media):
        return (value,)
    if isinstance(value, list) and value and all(isinstance(one, Media) for one in value):
        return tuple(value)
    return ()


def _run(expression: str, value: Any, boxes: Boxes) -> Any:
    try:
        return jmespath.search(expression, value, options=jmespath.Options(custom_functions=_Own(boxes)))
    except (exceptions.JMESPathError, ValueError, TypeError, RecursionError) as fault:
        raise UnshapedError(f"an expression cannot be run: {type(fault).__name__}") from None


def read(inbox: int, given: Mapping[str, Any]) -> bytes:
    """The bytes of a file of the call. Raises OSError, UnshapedError."""
    blob = given.get("blob")
    if not isinstance(blob, str) or "/" in blob or "mediaType" not in given:
        raise UnshapedError("this is no file of the call")
    with os.fdopen(os.open(blob, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=inbox), "rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise UnshapedError(f"a file has more than {_MOST_BYTES} bytes")
    return data


class _Own(functions.Functions):  # type: ignore[misc]
    """What an expression may call besides JMESPath's own."""

    def __init__(self, boxes: Boxes) -> None:
        self._boxes = boxes

    @functions.signature({"types": ["object"]})  # type: ignore[untyped-decorator]
    def _func_file(self, given: Mapping[str, Any]) -> str:
        return base64.b64encode(read(self._boxes.inbox, given)).decode()

    @functions.signature({"types": ["object"]})  # type: ignore[untyped-decorator]
    def _func_data_url(self, given: Mapping[str, Any]) -> str:
        encoded = base64.b64encode(read(self._boxes.inbox, given)).decode()
        return f"data:{given['mediaType']};base64,{encoded}"

    @functions.signature({"types": ["object"]})  # type: ignore[untyped-decorator]
    def _func_part(self, given: Mapping[str, Any]) -> Media:
        name = os.path.basename(str(given.get("name", "")))  # noqa: PTH119 - a name, not a path
        kind = str(given["mediaType"])
        return Media(_USUAL.get(kind, kind), read(self._boxes.inbox, given), name)

    @functions.signature({"types": ["object"]}, {"types": ["object", "string"]})  # type: ignore[untyped-decorator]
    def _func_save(self, given: Mapping[str, Any], what: Any) -> int:
        data = what.encode() if isinstance(what, str) else self._bytes(what).data
        blob = given.get("blob")
        if not isinstance(blob, str) or "/" in blob or "mediaType" in given:
            raise UnshapedError("this is no output file of the call")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(blob, flags, 0o600, dir_fd=self._boxes.outbox), "wb") as file:
            file.write(data)
        self._boxes.written[blob] = blob
        return len(data)

    @functions.signature({"types": ["string"]})  # type: ignore[untyped-decorator]
    def _func_visible(self, text: str) -> str | None:
        return text if any(unicodedata.category(sign)[0] not in "CZ" for sign in text) else None

    @functions.signature({"types": ["string"]})  # type: ignore[untyped-decorator]
    def _func_parse_json(self, text: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return None

    @functions.signature({"types": ["object"]})  # type: ignore[untyped-decorator]
    def _func_width(self, what: Mapping[str, Any]) -> int | None:
        found = _png(self._bytes(what).data)
        return found[0] if found else None

    @functions.signature({"types": ["object"]})  # type: ignore[untyped-decorator]
    def _func_height(self, what: Mapping[str, Any]) -> int | None:
        found = _png(self._bytes(what).data)
        return found[1] if found else None

    @functions.signature({"types": ["object"]})  # type: ignore[untyped-decorator]
    def _func_seconds(self, what: Mapping[str, Any]) -> float | None:
        return _wav_seconds(self._bytes(what).data)

    @functions.signature({"types": ["array"]})  # type: ignore[untyped-decorator]
    def _func_webvtt(self, segments: Sequence[Mapping[str, Any]]) -> str:
        pieces = [
            f"{_clock(one['start'])} --> {_clock(one['end'])}\n{' '.join(str(one['text']).split())}\n"
            for one in segments
        ]
        return "\n".join(("WEBVTT\n", *pieces))

    @functions.signature({"types": ["object"]}, {"types": ["number"]})  # type: ignore[untyped-decorator]
    def _func_lines(self, given: Mapping[str, Any], most: float) -> list[str]:
        return [text for _, text in vectors.lines(read(self._boxes.inbox, given), int(most))]

    @functions.signature({"types": ["object"]}, {"types": ["array"]})  # type: ignore[untyped-decorator]
    def _func_vector_lines(self, given: Mapping[str, Any], found: Sequence[vectors.Vector]) -> str:
        return vectors.written(vectors.lines(read(self._boxes.inbox, given), len(found)), found)

    @functions.signature({"types": ["array"]})  # type: ignore[untyped-decorator]
    def _func_nearest(self, found: Sequence[vectors.Vector]) -> list[dict[str, Any]]:
        return vectors.nearest(found)

    @functions.signature({"types": ["array"]})  # type: ignore[untyped-decorator]
    def _func_unit(self, found: Sequence[vectors.Vector]) -> list[list[float]]:
        return [vectors.unit(one) for one in found]

    def _bytes(self, what: Mapping[str, Any]) -> Media:
        number = what.get("media")
        if type(number) is not int or not 0 <= number < len(self._boxes.media):
            raise UnshapedError("these are no bytes of the answer")
        return self._boxes.media[number]


def _png(data: bytes) -> tuple[int, int] | None:
    if data[:8] != b"\x89PNG\r\n\x1a\n" or len(data) < 24 or data[12:16] != b"IHDR":
        return None
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def _wav_seconds(data: bytes) -> float | None:
    """How long a WAV file is; streamed ones say a size that is none, and their data goes to the end."""
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        return None
    at, rate = 12, 0
    while at + 8 <= len(data):
        name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        if name == b"fmt " and size >= 16 and at + 24 <= len(data):
            rate = int.from_bytes(data[at + 16 : at + 20], "little")
        if name == b"data":
            return round(min(size, len(data) - at - 8) / rate, 3) if rate else None
        at += 8 + size + size % 2
    return None


def _clock(seconds: float) -> str:
    ms = round(seconds * 1000)
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02}.{ms % 1000:03}"
