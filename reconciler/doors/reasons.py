"""What a reason, a condition's type or a word of the screen means: read from the pages that document them,
which ship with us.

One place for these words: ``docs/reasons.md`` has a table of the types, a section for each reason with its
examples, and a table of the reasons that this release does not give; ``docs/screen.md`` has a table for the
states of objects, the phases of instances and the outcomes of forms.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.control import folders

_PAGE = "reasons.md"
_SCREEN = "screen.md"
_TABLES = {"States of": "state", "Phases of": "phase", "Outcomes of": "outcome"}
_TABLE = re.compile(r"^## (\w+ \w+) .*?$(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| `([A-Za-z]+)` \| (.+) \| (.+) \|$", re.MULTILINE)
_SECTION = re.compile(r"^### ([A-Za-z]+)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
_FACT = re.compile(r"^- \*\*([A-Za-z]+)\*\*: (.+)$", re.MULTILINE)
_EXAMPLE = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
_NOTHING = ("\N{EN DASH}", "nothing")  # cells that say nothing
_RESERVED = "not given by this release: it comes with"


@dataclass(frozen=True, slots=True)
class Meaning:
    """One type of condition, one reason, or one word of the screen.

    ``text`` says when it holds; of a type, ``author`` who decides it; of a reason, ``means`` what that is,
    ``serves`` what goes on meanwhile, ``mend`` what to do, and ``example`` what commands print then.
    """

    word: str
    kind: str  # condition, reason, state, phase or outcome
    text: str
    mend: str = ""
    author: str = ""
    means: str = ""
    serves: str = ""
    example: str = ""


def meanings() -> tuple[Meaning, ...]:
    """Every type, every reason and every word of the screen, in the pages' order; a word may be several."""
    page = (folders.docs() / _PAGE).read_text(encoding="utf-8")
    types, _, rest = page.partition("\n## Reasons\n")
    given, _, reserved = rest.partition("\n## Not raised by this release\n")
    found = [Meaning(word, "condition", _plain(text), author=_plain(by)) for word, text, by in _rows(types)]
    found += (_section(*found) for found in _SECTION.findall(given))
    found += (
        Meaning(word, "reason", _plain(text), means=f"{_RESERVED} {_plain(capability)}")
        for word, text, capability in _rows(reserved)
    )
    return (*found, *_words())


def _words() -> Iterator[Meaning]:
    page = (folders.docs() / _SCREEN).read_text(encoding="utf-8")
    for title, table in _TABLE.findall(page):
        for word, text, mend in _rows(table) if title in _TABLES else ():
            yield Meaning(word, _TABLES[title], _plain(text), mend=_plain(mend))


def of(word: str) -> tuple[Meaning, ...]:
    """What a word means, in whatever case it is written; () when it is neither."""
    return tuple(one for one in meanings() if one.word.casefold() == word.casefold())


def _section(word: str, text: str) -> Meaning:
    facts = {name: _plain(told) for name, told in _FACT.findall(text)}
    return Meaning(
        word,
        "reason",
        facts.get("When", ""),
        mend=facts.get("Do", ""),
        means=facts.get("Means", ""),
        serves=facts.get("Serves", ""),
        example="\n".join(_EXAMPLE.findall(text)),
    )


def _rows(text: str) -> Iterator[tuple[str, str, str]]:
    yield from ((found[1], found[2], found[3]) for found in _ROW.finditer(text))


def _plain(cell: str) -> str:
    """A cell of the page as a terminal shows it."""
    text = _LINK.sub(r"\1: docs/\2", cell.replace(r"\|", "|"))
    return "" if text in _NOTHING else text
