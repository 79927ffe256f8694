"""Server-sent events (WHATWG HTML, 9.2.6), read wherever the bytes are cut, and never more than is allowed.

The same bytes give the same events however they arrive. An event or a stream beyond its bound, or text that
is no UTF-8, is a fault: from then on nothing is read.
"""

from dataclasses import dataclass

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Sent:
    """One event: its name ("" without one) and its data, lines joined by ``\\n``."""

    name: str
    data: str


class Events:
    """Bytes in, events out. ``fault`` says why no more are read, or None."""

    def __init__(self, max_event_bytes: int, max_bytes: int) -> None:
        self.fault: str | None = None
        self._event_bytes = max_event_bytes
        self._left = max_bytes
        self._line: list[bytes] = []
        self._held = 0  # bytes of the event that has begun
        self._name = ""
        self._data: list[str] = []
        self._after_cr = False
        self._first = True

    def feed(self, data: bytes) -> tuple[Sent, ...]:
        """The events that ``data`` completes."""
        if self.fault is not None or not data:
            return ()
        allowed, self._left = data[: self._left], self._left - len(data)
        found: list[Sent] = []
        for piece, ends in self._pieces(allowed):
            if not self._take(piece, found, ends=ends):
                return tuple(found)
        if self._left < 0:
            self.fault = "the stream is longer than is read"
        return tuple(found)

    def _take(self, piece: bytes, found: list[Sent], *, ends: bool) -> bool:
        self._held += len(piece)
        if self._held > self._event_bytes:
            self.fault = "an event is longer than is read"
            return False
        self._line.append(piece)
        if ends and (event := self._ended()) is not None:
            found.append(event)
        return self.fault is None

    def _pieces(self, data: bytes) -> list[tuple[bytes, bool]]:
        """Pieces of lines, and whether each ends its line: at CR, LF, or CR LF."""
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
        if not data:
            self._after_cr = False
            return []
        self._after_cr = data.endswith(b"\r")
        lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        return [(line, True) for line in lines[:-1]] + ([(lines[-1], False)] if lines[-1] else [])

    def _ended(self) -> Sent | None:
        line = b"".join(self._line)
        self._line = []
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        try:
            text = line.decode()
        except UnicodeDecodeError:
            self.fault = "the stream is no UTF-8"
            return None
        if text:
            self._field(text)
            return None
        self._held = 0
        event = Sent(self._name, "\n".join(self._data)) if self._data else None
        self._name, self._data = "", []
        return event

    def _field(self, text: str) -> None:
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
