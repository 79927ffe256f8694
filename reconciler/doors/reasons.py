"""What a reason or a condition's type means: read from the page that documents them, which ships with us.

One place for these words: ``docs/reasons.md``. Its two tables are the types and the reasons; the reasons that
are reserved for what is not built yet stand in a paragraph after them.
"""

import re
from dataclasses import dataclass

from reconciler.control import folders

_PAGE = "reasons.md"
_ROW = re.compile(r"^\| (`[^|]+`) \| (.+) \| (.+) \|$", re.MULTILINE)
_WORD = re.compile(r"`([A-Z][A-Za-z]+)`")
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
_NOTHING = "\N{EN DASH}"  # an empty cell
_RESERVED = "reserved for a capability that is not built yet; it is not given in this release"


@dataclass(frozen=True, slots=True)
class Meaning:
    """One type of condition, or one reason: ``text`` says when it holds, ``mend`` (a reason's) what to do,
    ``author`` (a type's) who decides it.
    """

    word: str
    kind: str  # condition or reason
    text: str
    mend: str = ""
    author: str = ""


def meanings() -> tuple[Meaning, ...]:
    """Every type and every reason of the page, in its order; a word may be both."""
    page = (folders.docs() / _PAGE).read_text(encoding="utf-8")
    types, _, rest = page.partition("\n## Reasons\n")
    tables, _, reserved = rest.partition("\nReserved ")
    found = [
        Meaning(word, "condition", _plain(text), author=_plain(author)) for word, text, author in _rows(types)
    ]
    found += [Meaning(word, "reason", _plain(text), _plain(mend)) for word, text, mend in _rows(tables)]
    found += [Meaning(word, "reason", _RESERVED) for word in _WORD.findall(reserved)]
    return tuple(found)


def of(word: str) -> tuple[Meaning, ...]:
    """What a word means, in whatever case it is written; () when it is neither."""
    return tuple(one for one in meanings() if one.word.casefold() == word.casefold())


def _rows(text: str) -> list[tuple[str, str, str]]:
    return [(word, left, right) for words, left, right in _ROW.findall(text) for word in _WORD.findall(words)]


def _plain(cell: str) -> str:
    """A cell of the page as a terminal shows it."""
    text = _LINK.sub(r"\1: docs/\2", cell.replace(r"\|", "|"))
    return "" if text == _NOTHING else text
