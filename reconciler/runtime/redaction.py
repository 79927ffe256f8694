"""What may not be seen of a secret in another's text: the forms it is written in, found and left out.

A value is looked for as it is, as JSON, HTML, python and a URL write it, as hexadecimal digits, and as base64
of either alphabet at each of the three places where it can begin within a longer text. That is a tripwire and
no proof: whoever wants to hide a value, by turning it round, can. Pure; texts come in pieces of any length.
"""

import base64
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import quote, quote_plus

from reconciler.model.secrets import Filled

_LEAST = 8  # bytes of a form that is looked for
_LEFT_OUT = b"[secret]"
_LINE = 16  # bytes of a line of a longer secret that is looked for alone
# What JSON for web pages writes otherwise: Go's and PHP's, and with capitals that of .NET.
_WEB_SAFE = {ord(one): f"\\u{ord(one):04x}" for one in "<>&"}
_WEB_SAFE_CAPITALS = {ord(one): f"\\u{ord(one):04X}" for one in "<>&+'"}
_URL_SAFE = ("/", "", "!'()*", ";,/?:@&=+$#!'()*")  # Python's two, encodeURIComponent's and encodeURI's


class Redactor:
    """Finds what fills the slots of one process. It holds values: it is never printed, compared or kept."""

    __slots__ = ("_longest", "_starts", "_words")
    _longest: int
    _starts: set[bytes]
    _words: tuple[bytes, ...]

    def __init__(self, filled: Iterable[Filled]) -> None:
        found = {form for one in filled for form in _forms(one.value.reveal())}
        self._words = tuple(sorted(found, key=len, reverse=True))  # the longest that fits is left out
        self._longest = max(map(len, self._words), default=0)
        self._starts = {form[:_LEAST] for form in self._words}

    def __repr__(self) -> str:
        return "Redactor()"

    def finds(self, text: bytes) -> bool:
        """Whether one of the values stands in a text."""
        return any(word in text for word in self._words)

    def without(self, text: bytes) -> tuple[bytes, int]:
        """The text with each value left out, and how many there were."""
        found = 0
        for word in self._words:  # a search for plain bytes is quicker than any pattern of them all
            if count := text.count(word):
                found += count
                text = text.replace(word, _LEFT_OUT)
        return text, found

    def held(self, text: bytes) -> int:
        """How many bytes at the end of a text may be the beginning of a value: wait for what follows them."""
        first = max(0, len(text) - self._longest + 1)
        short = range(max(first, len(text) - _LEAST + 1), len(text))
        places: list[int] = sorted({*self._begun(text, first), *short})
        for at in places:
            if any(word.startswith(text[at:]) for word in self._words):
                return len(text) - at
        return 0

    def _begun(self, text: bytes, first: int) -> Iterator[int]:
        """Where the first bytes of a value stand."""
        for start in self._starts:
            at = text.find(start, first)
            while at >= 0:
                yield at
                at = text.find(start, at + 1)


class Sieve:
    """One stream of text through a redactor, piece by piece; what may be half a value waits for its rest."""

    __slots__ = ("_echoed", "_redactor", "_rest")

    def __init__(self, redactor: Redactor, echoed: Callable[[], None]) -> None:
        """``echoed`` is told of each piece in which something was left out."""
        self._redactor = redactor
        self._rest = b""
        self._echoed = echoed

    def through(self, data: bytes) -> bytes:
        """What may be shown now."""
        text, count = self._redactor.without(self._rest + data)
        if count:
            self._echoed()
        held = self._redactor.held(text)
        self._rest = text[len(text) - held :]
        return text[: len(text) - held]

    def rest(self) -> bytes:
        """What waited, at the end of the stream: it was the beginning of a value, so it is not shown."""
        held, self._rest = self._rest, b""
        return held if len(held) < _LEAST else _LEFT_OUT


def _forms(value: bytes) -> Iterator[bytes]:
    """Each way to write a value that is long enough to be told from other text."""
    lines = [line.strip() for line in value.splitlines()]
    for part in dict.fromkeys((value, *(line for line in lines if len(line) >= _LINE))):
        text = part.decode()
        yield part
        for written in (*_escaped(text), part.hex(), part.hex().upper()):
            yield written.encode()
        yield from _base64(part)


def _escaped(text: str) -> Iterator[str]:
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield json.dumps(text)[1:-1].replace("/", "\\/")
    yield json.dumps(json.dumps(text)[1:-1])[1:-1]
    for plain in (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
        yield plain.translate(_WEB_SAFE)
        yield plain.translate(_WEB_SAFE_CAPITALS)
    yield html.escape(text)
    yield html.escape(text, quote=False)
    yield html.escape(text, quote=False).replace('"', "&#34;").replace("'", "&#39;")
    yield html.escape(text).replace("&#x27;", "&#39;")
    yield repr(text)[1:-1]
    for mark in "\"'`":  # as a console of JavaScript shows it within an object
        yield text.replace("\\", "\\\\").replace(mark, f"\\{mark}")
    yield text.replace("\\", "\\\\")
    for quoted in (*(quote(text, safe=safe) for safe in _URL_SAFE), quote_plus(text)):
        yield quoted
        yield re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), quoted)


def _base64(part: bytes) -> Iterator[bytes]:
    """What stands in any base64 text that holds the bytes: without the digits that its neighbours share."""
    for before in range(3):
        digits = base64.b64encode(b"\0" * before + part).rstrip(b"=")
        cut = digits[(0, 2, 3)[before] : len(digits) - bool((before + len(part)) % 3)]
        if len(cut) >= _LEAST:
            yield cut
            yield cut.translate(bytes.maketrans(b"+/", b"-_"))
