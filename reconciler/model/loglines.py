"""Lines of a binding's log: when the controller read one, which instance's it is, where a process begins.

A line of a log is a head of one fixed width and then what the connector printed, so whoever prints cannot
write a head: each of its own lines gets one. A line without a head was kept by an earlier version, which
wrote none. Pure, and without a pattern: quick commands read logs, too.
"""

from collections.abc import Iterable, Iterator

_AT = len("2026-11-30T10:42:30.000Z")
_DIGEST = 12  # names.SHOWN_DIGEST, which would cost a quick command its imports
_MARK = _AT + 1 + _DIGEST
HEAD = _MARK + 2  # characters, all of them ASCII, before what was printed
_BEGINS, _GOES_ON = "+", "|"
_HEX = frozenset("0123456789abcdef")


class Line:
    """One line. ``at`` (ISO, UTC) and ``digest`` (of the instance, as people see it) are "" where unknown;
    the first line of a process ``begins`` it.
    """

    __slots__ = ("at", "begins", "digest", "text")

    def __init__(self, text: str, at: str = "", digest: str = "", *, begins: bool = False) -> None:
        self.text = text
        self.at = at
        self.digest = digest
        self.begins = begins


def head(at: str, digest: str, *, begins: bool) -> str:
    """What stands before a line that was read at an instant (ISO, UTC, milliseconds)."""
    return f"{at} {digest[:_DIGEST]:0<{_DIGEST}}{_BEGINS if begins else _GOES_ON} "


def parted(line: str) -> Line:
    """A line of a log in its parts."""
    at, digest, mark = line[:_AT], line[_AT + 1 : _MARK], line[_MARK : _MARK + 1]
    headed = len(line) >= HEAD and line[_AT] == line[_MARK + 1] == " " and at[10] == "T" and at[-1] == "Z"
    if not headed or mark not in (_BEGINS, _GOES_ON) or not _HEX.issuperset(digest):
        return Line(line)
    return Line(line[HEAD:], at, digest, begins=mark == _BEGINS)


def lines(text: str) -> list[Line]:
    """The lines of a whole text. What ends a line is "\\n" alone: other ends are what somebody printed."""
    return [parted(line) for line in text.removesuffix("\n").split("\n")] if text else []


def after(said: Iterable[Line], since: str) -> Iterator[Line]:
    """The lines from an instant on; one of unknown time is as old as the last known before it."""
    at = ""
    for line in said:
        at = line.at or at
        if at >= since:
            yield line
