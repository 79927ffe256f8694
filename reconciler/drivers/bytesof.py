"""Bytes in an answer: decoded strictly, and named by what they are, not by what is said of them alone."""

import base64
import binascii
from collections.abc import Sequence

_SIGNS: tuple[tuple[int, bytes, str], ...] = (  # where, what, and of which media type it is the sign
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF8", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (8, b"WAVE", "audio/wav"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"\xff\xfb", "audio/mpeg"),
    (0, b"\xff\xf3", "audio/mpeg"),
    (0, b"\xff\xf2", "audio/mpeg"),
    (0, b"\xff\xf1", "audio/aac"),
    (0, b"\xff\xf9", "audio/aac"),
    (0, b"fLaC", "audio/flac"),
    (0, b"OggS", "audio/ogg"),
    (4, b"ftyp", "video/mp4"),
    (0, b"\x1aE\xdf\xa3", "video/webm"),
)
_SAME = {
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/mp3": "audio/mpeg",
    "image/jpg": "image/jpeg",
    "audio/opus": "audio/ogg",
    "audio/mp4": "video/mp4",
    "audio/webm": "video/webm",
}


def decoded(value: object) -> bytes | None:
    """The bytes of a base64 text; None where it is none, or empty."""
    if not isinstance(value, str):
        return None
    try:
        return base64.b64decode(value, validate=True) or None
    except (binascii.Error, ValueError):
        return None


def media_type(data: bytes, said: str, allowed: Sequence[str]) -> str | None:
    """Which of the allowed media types the bytes are. What they show themselves counts; where they show
    nothing, what is said of them; where that is nothing, the only one that may come. None: none of them.
    """
    shown = next((kind for start, sign, kind in _SIGNS if data[start : start + len(sign)] == sign), None)
    said = said.partition(";")[0].strip().lower()
    if shown is not None:
        return next((one for one in allowed if _same(one) == _same(shown)), None)
    if said in allowed:
        return said
    if said in ("", "application/octet-stream", "binary/octet-stream") and len(allowed) == 1:
        return allowed[0]
    return next((one for one in allowed if _same(one) == _same(said)), None)


def _same(kind: str) -> str:
    return _SAME.get(kind, kind)
