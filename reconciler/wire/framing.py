"""A byte stream cut into lines: at 0x0A only, each bounded, whole again after one that was too long. Pure."""

from dataclasses import dataclass

MAX_LINE = 4 * 2**20  # from agents; a connector's bound follows the interface's limits

_HEAD = 256  # bytes of an oversized line that are kept, to see whose it was
_BLANK = b"!"  # more than any line of white space, less than any message


@dataclass(slots=True)
class Oversized:
    """A line above the bound, reported once and then dropped up to its end."""

    head: bytes


class Framer:
    """Cuts a byte stream into lines at 0x0A, never holding more than ``limit`` bytes of one.

    A longer line is reported once, as soon as it is too long, and skipped; the next line is whole again.
    """

    __slots__ = ("_parts", "_size", "at_start", "dropped", "limit", "skipping")

    def __init__(self, limit: int = MAX_LINE) -> None:
        self.limit = limit
        self.skipping = False
        self.dropped = 0  # bytes of the line being skipped
        self.at_start = True  # nothing of a line is held or skipped
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def held(self) -> int:
        """Bytes of the line that has begun and not ended."""
        return self._size

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        """The lines that ``data`` completes, in order, each with its end, blank ones left out."""
        if self.at_start and data.endswith(b"\n") and len(data) <= self.limit and b"\r" not in data:
            # Whole lines and nothing else; ``splitlines`` of bytes knows no ends but 0x0A and 0x0D.
            return [line for line in data.splitlines(keepends=True) if line > _BLANK or not line.isspace()]
        size = len(data)
        lines: list[bytes | Oversized] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._take(data[start:end], lines)
            self._end(lines)
            start = end + 1
        if start < size:
            self._take(data[start:] if start else data, lines)
        self.at_start = not self._size and not self.skipping
        return lines

    def is_whole(self, data: bytes) -> bool:
        """Whether ``data`` is one line and nothing else, so that it need not be cut: the usual case."""
        is_one = self.at_start and -1 < data.find(b"\n") == len(data) - 1 < self.limit
        return is_one and (data > _BLANK or not data.isspace())

    def _take(self, piece: bytes, lines: list[bytes | Oversized]) -> None:
        if self.skipping:
            self.dropped += len(piece)
            return
        self._parts.append(piece)
        self._size += len(piece)
        if self._size > self.limit:
            lines.append(Oversized(b"".join(self._parts)[:_HEAD]))
            self.skipping, self.dropped = True, self._size
            self._parts, self._size = [], 0

    def _end(self, lines: list[bytes | Oversized]) -> None:
        if self.skipping:
            self.skipping = False
            self.dropped = 0
            return
        self._parts.append(b"\n")
        line = b"".join(self._parts)
        self._parts, self._size = [], 0
        if not line.isspace():
            lines.append(line)
