"""The body of an answer: read within a time and so many bytes, as text or into a file."""

from __future__ import annotations

import codecs
import http.client
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from handler_connector import Failure, OutputFile

# The gate's words for a request of which no byte left this machine.
NOT_SENT = (
    "request",
    "unlisted",
    "address",
    "busy",
    "unresolved",
    "unreachable",
    "slow",
    "call",
    "denied",
    "tls",
)
_PIECE = 65_536
_MOST_TEXT, _USUAL_TEXT = 2 * 2**20, 256 * 2**10
_MOST_FILE = 32 * 2**20
_CHARSET = re.compile(r"charset\s*=\s*\"?([A-Za-z0-9._-]{1,40})", re.IGNORECASE)
_CHARSETS = ("utf-8", "us-ascii", "ascii", "iso-8859-1", "iso-8859-15", "windows-1252", "utf-16", "utf-16le")


class Deadline:
    """The time that a call has, redirects and all."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds; raises TimeoutError where there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def kept(
    answer: Any, wire: Any, until: Deadline, arguments: Mapping[str, Any], *, may_break: bool
) -> dict[str, Any]:
    """``body``, ``body_is`` and ``size`` of an answer. ``may_break``: what took effect is told, though its
    answer breaks off. Raises Failure.
    """
    output = arguments.get("output")
    into = output if isinstance(output, OutputFile) else None
    usual, most = (_MOST_FILE, _MOST_FILE) if into else (_USUAL_TEXT, _MOST_TEXT)
    most = min(int(arguments.get("max_bytes", usual)), most)
    pieces = _pieces(answer, wire, until, most, may_break=may_break)
    if into is not None:
        size, last = 0, False
        with into.open() as file:
            for piece, cut in pieces:
                file.write(piece)
                size, last = size + len(piece), cut
        if last:
            raise Failure("unavailable", f"the body has more than {most} bytes")
        return {"body": "", "body_is": "in_file", "size": size}
    data, is_cut = bytearray(), False
    for piece, cut in pieces:
        data += piece
        is_cut = is_cut or cut
    text = _text(bytes(data), answer.headers, whole=not is_cut)
    if text is None:
        return {"body": "", "body_is": "not_text", "size": len(data)}
    return {"body": text, "body_is": "cut" if is_cut else "whole", "size": len(data)}


def _pieces(
    answer: Any, wire: Any, until: Deadline, most: int, *, may_break: bool
) -> Iterator[tuple[bytes, bool]]:
    """The body, and with its last piece whether there is more."""
    left = most
    try:
        while True:
            if not answer.isclosed():
                wire.settimeout(until.left())
            piece = answer.read1(min(_PIECE, left + 1))
            if not piece:
                return
            if len(piece) > left:
                yield piece[:left], True
                return
            left -= len(piece)
            yield piece, False
    except (OSError, http.client.HTTPException) as fault:
        if may_break:
            yield b"", True
            return
        raise Failure("unavailable", f"the answer broke off: {type(fault).__name__}") from None


def _text(data: bytes, headers: Any, *, whole: bool) -> str | None:
    """The body as text; None where it is none."""
    if headers.get("content-encoding", "identity").lower() != "identity":
        return None
    found = _CHARSET.search(headers.get("content-type", ""))
    named = found[1].lower() if found else "utf-8"
    decoder = codecs.getincrementaldecoder(named if named in _CHARSETS else "utf-8")()
    try:
        text = decoder.decode(data, final=whole)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text.removeprefix("\ufeff")
