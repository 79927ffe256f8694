"""Which label a model's answer means: the whole answer, else the one whole word in it; in doubt, none.

Other engines of the format take the first label that the answer contains, by which ``unsafe.`` opens the gate
called ``safe``. Here a label counts only as a whole word, the longest first, and not where the word before
denies it; an answer that names two labels names none.
"""

import re
from collections.abc import Sequence

_DENIAL = r"\b(?:not|no|never|non|cannot|without|neither|nor)|n['\u2019]t"
_DENIED = re.compile(rf"(?:{_DENIAL})(?:\s+\w+)?[\s\-:,'\"`*_]*$", re.IGNORECASE)
_QUOTES = " \t\r\n\"'`*_"


def chosen(answer: str, labels: Sequence[str]) -> str | None:
    """The label as it is written, or None: then other branches have their say, and ``default`` after them."""
    said = answer.strip()
    for label in labels:
        if said.casefold() == label.strip().casefold():
            return label
    bare = said.strip(_QUOTES + ".!").casefold()
    for label in labels:
        if bare == label.strip().casefold():
            return label
    return _inside(said, labels)


def _inside(said: str, labels: Sequence[str]) -> str | None:
    found: set[str] = set()
    rest = said
    for label in sorted(labels, key=lambda one: -len(one.strip())):
        word = re.compile(rf"(?<![\w-]){re.escape(label.strip())}(?![\w-])", re.IGNORECASE)
        for match in word.finditer(rest):
            if _DENIED.search(rest[: match.start()]):
                return None
            found.add(label)
        rest = word.sub(lambda match: "\0" * len(match[0]), rest)  # a shorter label inside a longer is none
    return found.pop() if len(found) == 1 else None


def instruction(system: str, labels: Sequence[str]) -> str:
    """What a model is told: the task's own words, and to answer with one label alone."""
    told = f"Answer with exactly one of these labels and nothing else: {', '.join(labels)}"
    return f"{system}\n\n{told}" if system else told
