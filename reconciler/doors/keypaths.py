"""Keys of a command line that reach into objects and lists: ``page.size``, ``boxes[0].left``.

Plain text in, a small tree out; what the values mean is ``doors.arguments``' to say. A name that has a dot or
a bracket of its own is taken whole where the schema knows it by that name.
"""

from reconciler.doors import usage

_MOST = 16  # parts of one key: deeper than any schema
_HIGHEST = 9_999  # of an element's number; a longer list is given as JSON

Part = str | int


class Given:
    """What was given at one place: texts for the place itself, and what lies below it."""

    __slots__ = ("below", "shown", "texts")

    def __init__(self, shown: str) -> None:
        """``shown`` is the place as people write it."""
        self.shown = shown
        self.texts: list[str] = []
        self.below: dict[Part, Given] = {}


def tree(values: list[tuple[str, str]], whole: list[str]) -> Given:
    """All that was given, by place; ``whole`` are keys that are no paths. Raises ``usage.Usage``."""
    root = Given("")
    for key, text in values:
        at = root
        for part in (key,) if key in whole else parts(key):
            shown = f"{at.shown}[{part}]" if isinstance(part, int) else f"{at.shown}.{part}".lstrip(".")
            at = at.below.setdefault(part, Given(shown))
        at.texts.append(text)
    _check(root)
    return root


def parts(key: str) -> tuple[Part, ...]:
    """The names and numbers that a key is made of; raises ``usage.Usage`` where it cannot be read."""
    found: list[Part] = []
    for number, word in enumerate(key.split(".")):
        name, opened, rest = word.partition("[")
        if not name and (not opened or not number):
            raise usage.Usage(f"'{key}' is no key: write NAME, NAME.NAME or NAME[0]")
        if name:
            found.append(name)
        while opened:
            digits, closed, rest = rest.partition("]")
            if not closed or not (digits.isascii() and digits.isdigit()) or rest[:1] not in ("", "["):
                raise usage.Usage(f"'{key}' is no key: an element is written NAME[0], counted from 0")
            if len(digits) > len(str(_HIGHEST)):
                raise usage.Usage(f"'{key}' counts too far: give a list so long with --json")
            found.append(int(digits))
            opened, rest = rest[:1], rest[1:]
    if len(found) > _MOST:
        raise usage.Usage(f"'{key[:80]}' reaches too deep: give it with --json")
    return tuple(found)


def _check(at: Given) -> None:
    """See that every place is given in one way, and every list without a gap."""
    numbers = [part for part in at.below if isinstance(part, int)]
    if at.below and at.texts:
        raise usage.Usage(f"'{at.shown}' is given as a whole and in parts: give it in one way")
    if numbers and len(numbers) < len(at.below):
        raise usage.Usage(f"'{at.shown}' is given as a list and as an object: give it in one way")
    if numbers and max(numbers) >= len(numbers):
        missing = next(number for number in range(len(numbers)) if number not in at.below)
        raise usage.Usage(f"'{at.shown}' has no element {missing}: count from 0, without a gap")
    for one in at.below.values():
        _check(one)
