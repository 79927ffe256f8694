"""Secrets in a file's own text: found before anything else is said of it, and never repeated.

A value, a key or a comment that looks like a secret refuses its object: a configuration is committed and
shared, and nothing takes a line back out of git. Whatever else is wrong with the file is told once it is
gone, for the words of other problems repeat what stands in a file. A line that ends in ``# no secret`` is
taken at its word. How a secret looks is ``model.secretlike``'s knowledge.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.config import places
from reconciler.config.codes import LEAK
from reconciler.config.text import decoded, position
from reconciler.model import secretlike
from reconciler.model.names import ObjectRef
from reconciler.model.problems import Path, Problem, Span, key_path, quoted

_WHY = "a configuration says where a secret is found: what is committed cannot be taken back"
_MEND = (
    "have it replaced where it was issued if others have seen it, and name its place in a binding: "
    '[secrets] with a reference like {{ {} }}; if it is none, end the line with "# no secret"'
)
_DISOWNED = re.compile(r"#\s*no secret\b[^\"]*(?<!')$")
_FORMS = (
    "env",
    "file",
    "systemd",
    "keyring",
    "age",
    "sops",
    "command",
    "service",
    "user",
    "identity",
    "path",
)
_ALWAYS = frozenset({"secrets", "command"})
_PRINTERS = ("echo", "printf")  # programs that give back what they are given
_LEAST_OF_A_REFERENCE = 20  # characters of a random word where a path or a name belongs
_MAX_TOLD = 10
_LONGEST_NAME = 40

Found = tuple[Path, str]


def problems(
    file: str, data: bytes, values: Mapping[str, Any] | None, about: ObjectRef
) -> tuple[Problem, ...]:
    """A problem for each secret that stands in a text; ``values`` None: it could not be read as TOML."""
    if values is not None and not secretlike.suspicious(data) and not _is_worth_a_look(values):
        return ()
    texts = list(_texts(values))
    text = decoded(data)
    if not isinstance(text, str):
        return ()
    lines = text.split("\n")
    told: dict[tuple[int, int], Problem] = {}
    in_values = list(_in_values(texts))
    for path, word in in_values:
        place = places.at(file, data, path) or (1, 1)
        told.setdefault(place, _problem(Span(file, *place), word, about, _shown(path)))
    covered = {line for line, _ in told}
    by_path = dict(texts)
    told_of = [by_path[path] for path, _ in in_values]
    for offset, word in _in_text(text, whole=values is None):
        place = position(text, offset)
        begun = text[offset : offset + 24].split("\n", 1)[0]  # of a text of several lines
        if place[0] not in covered and not any(begun in one for one in told_of):
            told.setdefault(place, _problem(Span(file, *place), word, about, ()))
    disowned = [place for place in told if _DISOWNED.search(lines[place[0] - 1])]
    return tuple(told[place] for place in sorted(told.keys() - set(disowned)))[:_MAX_TOLD]


def _problem(at: Span, word: str, about: ObjectRef, path: Path) -> Problem:
    where = f"{quoted(key_path(path))} holds" if path else "here stands"
    form = f'env = "{_variable(path)}"'
    return Problem(LEAK, f"{where} what looks like {word}", _WHY, _MEND.format(form), at, path, about=about)


def _variable(path: Path) -> str:
    """A name for the variable of a reference: the slot's or the key's, where that says what it is."""
    name = str(path[1]) if path[:1] == ("secrets",) and len(path) > 1 else _name(path)
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", name).strip("_").upper()
    fits = words[:1].isalpha() and len(words) <= _LONGEST_NAME and secretlike.names_one(name)
    return words if fits else "API_KEY"


def _shown(path: Path) -> Path:
    """The path up to the first key that may itself be one."""
    for number, part in enumerate(path):
        if isinstance(part, str) and (secretlike.shape(part) or secretlike.is_random(part, 16)):
            return path[:number]
    return path


# values


def _texts(values: object) -> Iterator[tuple[Path, str]]:
    stack: list[tuple[Path, object]] = [((), values)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, dict):
            stack.extend(((*path, key), item) for key, item in value.items())
        elif isinstance(value, list):
            stack.extend(((*path, number), item) for number, item in enumerate(value))


def _is_worth_a_look(table: Mapping[str, Any]) -> bool:
    """Whether a short value counts, too: of a secret's name, an argument, in a binding's secrets."""
    for key, item in table.items():
        if key in _ALWAYS or secretlike.names_one(key):
            return True
        if type(item) is dict and _is_worth_a_look(item):
            return True
        if type(item) is list and any(type(one) is dict and _is_worth_a_look(one) for one in item):
            return True
    return False


def _name(path: Path) -> str:
    return next((part for part in reversed(path) if isinstance(part, str)), "")


def _in_values(texts: list[tuple[Path, str]]) -> Iterator[Found]:
    by_path = dict(texts)
    for path, text in texts:
        word = secretlike.shape(text)
        if word is None and path[0] == "secrets":
            word = _in_a_reference(path, text, by_path)
        elif word is None and _is_named(path, text, by_path):
            word = "a secret, by its name"
        if word is not None:
            yield path, word


def _is_named(path: Path, text: str, by_path: Mapping[Path, str]) -> bool:
    """Whether the key, the option before it, or the text itself gives this value a secret's name."""
    if secretlike.is_value_of(_name(path), text) or next(secretlike.named(text), None):
        return True
    last = path[-1]
    option = by_path.get((*path[:-1], last - 1), "") if isinstance(last, int) else ""
    return option.startswith("-") and "=" not in option and secretlike.is_value_of(option.lstrip("-"), text)


def _in_a_reference(path: Path, text: str, by_path: Mapping[Path, str]) -> str | None:
    """A value where one of a binding's secrets names its place."""
    form = path[2] if len(path) > 2 else ""  # secrets, the slot, its form
    word = "a secret instead of a reference"
    if form not in _FORMS:
        return word if secretlike.is_value_of("token", text) else None
    if form == "command":
        first = by_path.get((*path[:3], 0), "").rpartition("/")[2]
        printed = first in _PRINTERS and path[-1] != 0 and secretlike.is_random(text, 8)
        return word if printed or next(secretlike.named(text), None) else None
    return word if secretlike.is_random(text, _LEAST_OF_A_REFERENCE) and not _looks_named(text) else None


def _looks_named(text: str) -> bool:
    """Names of variables and of files have words in them: capitals with underscores, dots, slashes."""
    return "/" in text or "." in text or re.fullmatch(r"[A-Z][A-Z0-9_]*", text) is not None


# the text itself


def _in_text(text: str, *, whole: bool) -> Iterator[tuple[int, str]]:
    """Known shapes anywhere; values of a secret's name in comments, or, ``whole``, on every line."""
    yield from secretlike.shapes(text)
    for offset, _ in secretlike.named(text):
        start = text.rfind("\n", 0, offset) + 1
        line = text[start : offset + 256].split("\n", 1)[0]
        value = re.split(r"[\s\"'`,;]", text[offset : offset + 256], maxsplit=1)[0]
        if whole or (line.lstrip().startswith("#") and secretlike.is_random(value, _LEAST_OF_A_REFERENCE)):
            yield offset, "a secret, by its name"
