"""What may not be seen of a secret in another's text: the forms it is written in, found and left out.

A value is looked for as it is, as JSON, HTML, python and a URL write it, as hexadecimal digits, and as base64
of either alphabet at each of the three places where it can begin within a longer text; digits also where a
program breaks them into lines or groups. That is a tripwire and no proof: whoever wants to hide a value, by
turning it round, can. Pure; texts come in pieces of any length.
"""

import base64
import bisect
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
# What may stand between two digits where there are lines: their ends, also as JSON writes them, and blanks.
_ENDS, _BETWEEN = (rb"\n", rb"\r"), b" \t\r\n\\"
_GAP = rb"(?:\\[nr]|[ \t\r\n\\])*"
_URL_SAFE = ("/", "", "!'()*", ";,/?:@&=+$#!'()*")  # Python's two, encodeURIComponent's and encodeURI's


class Redactor:
    """Finds what fills the slots of one process. It holds values: it is never printed, compared or kept."""

    __slots__ = ("_digits", "_longest", "_starts", "_words")
    _digits: tuple[bytes, ...]
    _longest: int
    _starts: set[bytes]
    _words: tuple[bytes, ...]

    def __init__(self, filled: Iterable[Filled]) -> None:
        parts = {part for one in filled for part in _parts(one.value.reveal())}
        found = {form for part in parts for form in _forms(part)}
        digits = {form for part in parts for form in _digits(part) if len(form) >= _LEAST}
        # Whose first digits were another line, which is shown before it is known what they begin.
        digits |= {form[_LEAST:] for form in digits if len(form) > 3 * _LEAST}
        self._digits = tuple(sorted(digits, key=len, reverse=True))
        self._words = tuple(sorted(found, key=len, reverse=True))  # the longest that fits is left out
        self._longest = max(map(len, self._words), default=0)
        self._starts = {form[:_LEAST] for form in self._words}

    def __repr__(self) -> str:
        return "Redactor()"

    def finds(self, text: bytes) -> bool:
        """Whether one of the values stands in a text."""
        return any(word in text for word in self._words) or any(self._broken(text))

    def without(self, text: bytes) -> tuple[bytes, int]:
        """The text with each value left out, and how many there were."""
        found = 0
        for word in self._words:  # a search for plain bytes is quicker than any pattern of them all
            if count := text.count(word):
                found += count
                text = text.replace(word, _LEFT_OUT)
        for word in self._broken(text):
            text, count = re.subn(
                _GAP.join(re.escape(word[at : at + 1]) for at in range(len(word))), _LEFT_OUT, text
            )
            found += count
        return text, found

    def _broken(self, text: bytes) -> Iterator[bytes]:
        """The digits that stand in a text once its lines are joined."""
        if self._digits and _has_lines(text):
            joined = _joined(text)
            yield from (word for word in self._digits if word in joined)

    def held(self, text: bytes) -> int:
        """How many bytes at the end of a text may be the beginning of a value: wait for what follows them."""
        return max(self._held(text), self._held_broken(text[-2 * self._longest :]))

    def _held(self, text: bytes) -> int:
        first = max(0, len(text) - self._longest + 1)
        short = range(max(first, len(text) - _LEAST + 1), len(text))
        places: list[int] = sorted({*self._begun(text, first, self._starts), *short})
        for at in places:
            if any(word.startswith(text[at:]) for word in self._words):
                return len(text) - at
        return 0

    def _held_broken(self, text: bytes) -> int:
        """The same for digits in lines, of which enough stand there to be told from other text."""
        if not _has_lines(text):
            return 0
        joined = _joined(text)
        for at in sorted(self._begun(joined, 0, {word[:_LEAST] for word in self._digits})):
            if any(word.startswith(joined[at:]) for word in self._digits):
                size = len(joined) - at
                cut = bisect.bisect_left(range(len(text)), -size, key=lambda one: -len(_joined(text[one:])))
                return len(text) - cut
        return 0

    def _begun(self, text: bytes, first: int, starts: set[bytes]) -> Iterator[int]:
        """Where the first bytes of a value stand."""
        for start in starts:
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


def _has_lines(text: bytes) -> bool:
    return b"\n" in text or rb"\n" in text


def _joined(text: bytes) -> bytes:
    """A text whose lines and groups of digits follow each other."""
    for end in _ENDS:
        text = text.replace(end, b"")
    return text.translate(None, _BETWEEN)


def _parts(value: bytes) -> Iterator[bytes]:
    """A value, and each line of it that is long enough to be told from other text."""
    yield value
    yield from (line for line in map(bytes.strip, value.splitlines()) if len(line) >= _LINE)


def _forms(part: bytes) -> Iterator[bytes]:
    """Each way to write it."""
    text = part.decode()
    yield part
    yield from (written.encode() for written in _escaped(text))
    yield from _digits(part)


def _digits(part: bytes) -> Iterator[bytes]:
    """Each way to write it in digits."""
    yield part.hex().encode()
    yield part.hex().upper().encode()
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
