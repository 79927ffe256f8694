"""A file that whole lines are appended to, by one write each batch, and that never grows without bound.

A line that a killed writer left half is cut off before anything follows it; a full disk raises OSError and
leaves no half line. When the next batch would not fit, the file is moved aside and takes the place of the one
that was moved there before: so there are two at most, and what is newest is always kept.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path

_TAIL = 65_536  # bytes in which the last line begins


@dataclass(slots=True)
class Appended:
    """One such file; ``aside`` is where it goes when it is full."""

    path: Path
    aside: Path
    limit_bytes: int
    size_bytes: int | None = field(default=None)

    def append(self, lines: bytes) -> bool:
        """Append whole lines; True when a full file was moved aside first. Raises OSError."""
        if self.size_bytes is None:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.size_bytes = _mended(self.path)
        moved = bool(self.size_bytes) and self.size_bytes + len(lines) > self.limit_bytes
        if moved:
            self.path.replace(self.aside)
            self.size_bytes = 0
        fd = self._opened()
        try:
            if os.write(fd, lines) != len(lines):
                os.ftruncate(fd, self.size_bytes)
                raise OSError(28, "No space left on device")
        finally:
            os.close(fd)
        self.size_bytes += len(lines)
        return moved

    def _opened(self) -> int:
        """The file, made when it is missing: somebody may have removed it, or its folder."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(self.path, flags, 0o600)
        except FileNotFoundError:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.size_bytes = 0
            return os.open(self.path, flags, 0o600)


def _mended(path: Path) -> int:
    """The size of a file that ends with a whole line."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return 0
    try:
        size = os.fstat(fd).st_size
        tail = os.pread(fd, _TAIL, max(0, size - _TAIL))
        if tail and not tail.endswith(b"\n"):
            size -= len(tail) - (tail.rfind(b"\n") + 1)
            os.ftruncate(fd, size)
        return size
    finally:
        os.close(fd)
