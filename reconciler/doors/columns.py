"""Text for terminals: aligned columns, colour where a person looks, nothing that a terminal would obey.

Plain Python, since every quick command prints with it. Widths are those of terminals (a wide character takes
two cells); control characters of any origin are shown, not sent.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

_ESC = "\x1b["
_CODES = {"green": "32", "red": "31", "yellow": "33", "blue": "34", "grey": "2", "bold": "1"}
_GAP = "   "
_ON = " " * 6  # before what goes on in a next line
_FAIR = 36  # cells that words go on in beside what they are about; with fewer they get a line
_LEAST = 20  # cells of a column that is cut: fewer would tell nothing


class Paint:
    """Puts colour around text, or leaves it as it is; ``room``: the cells of a terminal's line, else None."""

    __slots__ = ("on", "room")

    def __init__(self, when: str, *, tty: bool) -> None:
        """``when`` is ``auto``, ``always`` or ``never``; auto means a terminal without ``NO_COLOR``."""
        self.on = when == "always" or (
            when == "auto" and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and tty
        )
        self.room: int | None = _room() if tty else None

    def __call__(self, text: str, colour: str) -> str:
        return f"{_ESC}{_CODES[colour]}m{text}{_ESC}0m" if self.on and colour and text else text


def _room() -> int | None:
    """The cells of a line of the terminal, as the person says or it says itself."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return int(said)
    for number in (1, 2):
        with suppress(OSError):
            return os.get_terminal_size(number).columns or None
    return None


def shown(text: object) -> str:
    """A value as one line of harmless text: what is not printable is escaped, line ends become spaces."""
    line = str(text).replace("\n", " ")
    if line.isprintable():
        return line
    return "".join(ch if ch.isprintable() else ch.encode("unicode_escape").decode() for ch in line)


def width(text: str) -> int:
    """How many cells of a terminal a printable text takes."""
    if text.isascii():
        return len(text)
    import unicodedata  # noqa: PLC0415 - not needed for plain text

    return sum(
        0 if unicodedata.combining(ch) else 2 if unicodedata.east_asian_width(ch) in "WF" else 1
        for ch in text
    )


def table(
    rows: list[list[str]],
    paint: Paint,
    colours: list[list[str]] | None = None,
    *,
    fit: tuple[int, int] | None = None,
) -> str:
    """Rows as aligned columns, one line each, ended by a newline; the last column is left ragged.

    ``colours`` names a colour (or "") for each cell. Cells are made harmless first, so colour is ours alone.
    ``fit`` is a column and a number of cells: the column is cut until the lines fit. Without it what is too
    long for a terminal goes on in a next line, between columns or words.
    """
    cells = [[shown(cell) for cell in row] for row in rows]
    if fit is not None:
        _cut(cells, *fit)
    count = max((len(row) for row in cells), default=0)
    widths = [max((width(row[at]) for row in cells if at < len(row)), default=0) for at in range(count)]
    places = _places(widths, paint.room if fit is None else None)
    lines = []
    for row, names in zip(cells, colours or [[] for _ in cells], strict=True):
        colour = [*names, *[""] * (count - len(names))]
        painted = [partial(paint, colour=one) for one in colour]
        lines += _lines(row, painted, widths, places)
    return "".join(f"{line}\n" for line in lines)


def _gap(cells: int) -> str:
    return " " if cells == 1 else _GAP  # a mark stands close to what it marks


def _places(widths: list[int], room: int | None) -> list[tuple[bool, int]]:
    """For each column: whether a next line begins with it, and how many cells it has there (0: enough)."""
    found: list[tuple[bool, int]] = []
    at = 0
    for number, cells in enumerate(widths):
        left = (room or 0) - at
        fits = room is None or cells <= left
        begins = not fits and number > 0 and left < max(_LEAST, min(cells, _FAIR))
        begins = begins or (number > 0 and bool(found[-1][1]))
        if begins:
            at, left = len(_ON), (room or 0) - len(_ON)
            fits = cells <= left
        found.append((begins, 0 if fits else max(_LEAST, left)))
        at += cells + len(_gap(cells))
    return found


def _lines(
    row: list[str], painted: Sequence[Callable[[str], str]], widths: list[int], places: list[tuple[bool, int]]
) -> list[str]:
    """One row: the lines that its cells take."""
    lines, line, at = [], "", 0
    for number, cell in enumerate(row):
        begins, room = places[number]
        if begins:
            lines.append(line)
            line, at = _ON, len(_ON)
        first, *more = _wrapped(cell, room) if room else [cell]
        line += painted[number](first)
        for text in more:
            lines.append(line)
            line = " " * at + painted[number](text)
        if number < len(row) - 1 and not room:
            line += " " * (widths[number] - width(cell)) + _gap(widths[number])
        at += widths[number] + len(_gap(widths[number]))
    head, *rest = (one.rstrip() for one in (*lines, line))
    return [head, *filter(None, rest)]


def _wrapped(text: str, room: int) -> list[str]:
    """A text in lines of at most so many cells, where its words allow it."""
    if width(text) <= room:
        return [text]
    import textwrap  # noqa: PLC0415 - a narrow terminal alone needs it

    return textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]


def _cut(rows: list[list[str]], column: int, room: int) -> None:
    """Shorten the cells of one column until every line has at most ``room`` cells (or it has ``_LEAST``);
    then those of the last column from their left, so that a place keeps its line.
    """
    count = max((len(row) for row in rows), default=0)
    if column >= count:
        return
    for at, least in ((column, _LEAST), (count - 1, _LEAST)):
        widths = [max((width(row[n]) for row in rows if n < len(row)), default=0) for n in range(count)]
        over = sum(widths) + len(_GAP) * (count - 1) - room
        most = max(least, widths[at] - over)
        for row in rows if over > 0 else ():
            if at < len(row) and width(row[at]) > most:
                row[at] = row[at][: most - 1] + "…" if at == column else "…" + row[at][1 - most :]


def folded(text: str, indent: int, room: int | None) -> str:
    """A text on lines of at most ``room`` cells, all but the first indented; as it is without ``room``."""
    if room is None or indent + width(text) <= room:
        return text
    import textwrap  # noqa: PLC0415 - a live screen alone needs it

    return f"\n{' ' * indent}".join(textwrap.wrap(text, max(_LEAST, room - indent)))


def age(seconds: float) -> str:
    """A span as people say it: ``12s``, ``41m``, ``3h``, ``9d``."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def counted(number: int, one: str) -> str:
    """``1 agent``, ``3 agents``."""
    return f"{number} {one}" if number == 1 else f"{number} {one}s"


def jobs(told: object) -> str:
    """A binding's attempts that are not over, in words; "" where there are none."""
    if not isinstance(told, dict) or not told.get("open"):
        return ""
    lost = int(told.get("indeterminate") or 0)
    more = f", {lost} of which nobody knows whether it happened: handler jobs list" if lost else ""
    return f"{told['open']} not over{more}"


def records(value: object) -> list[dict[str, object]]:
    """The records of a list in JSON; none where it is no list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
