"""Text for terminals: aligned columns, colour where a person looks, nothing that a terminal would obey.

Plain Python, since every quick command prints with it. Widths are those of terminals (a wide character takes
two cells); control characters of any origin are shown, not sent.
"""

import os

_ESC = "\x1b["
_CODES = {"green": "32", "red": "31", "yellow": "33", "blue": "34", "grey": "2", "bold": "1"}
_GAP = "   "
_LEAST = 20  # cells of a column that is cut: fewer would tell nothing


class Paint:
    """Puts colour around text, or leaves it as it is."""

    __slots__ = ("on",)

    def __init__(self, when: str, *, tty: bool) -> None:
        """``when`` is ``auto``, ``always`` or ``never``; auto means a terminal without ``NO_COLOR``."""
        self.on = when == "always" or (
            when == "auto" and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and tty
        )

    def __call__(self, text: str, colour: str) -> str:
        return f"{_ESC}{_CODES[colour]}m{text}{_ESC}0m" if self.on and colour and text else text


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
    ``fit`` is a column and a number of cells: the column is cut until the lines fit.
    """
    cells = [[shown(cell) for cell in row] for row in rows]
    if fit is not None:
        _cut(cells, *fit)
    count = max((len(row) for row in cells), default=0)
    widths = [max((width(row[at]) for row in cells if at < len(row)), default=0) for at in range(count)]
    lines = []
    for number, row in enumerate(cells):
        line = ""
        for at, cell in enumerate(row):
            colour = colours[number][at] if colours else ""
            gap = " " if widths[at] == 1 else _GAP  # a mark stands close to what it marks
            pad = " " * (widths[at] - width(cell)) + gap if at < len(row) - 1 else ""
            line += paint(cell, colour) + pad
        lines.append(line.rstrip())
    return "".join(f"{line}\n" for line in lines)


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
