"""What a model reads in words: the skill beside the tools, and every text free of characters no one sees.

A reviewer judges words; code can only make sure that the words a reviewer sees are the words a model gets.
So format characters, bidirectional controls, tag characters, variation selectors and fillers are refused
wherever a model reads (reliability.md §3.9, Q14). The skill is ``skills/<interface>/SKILL.md`` with front
matter ``name`` and ``description``; it should say what to do with each error of the interface.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reconciler.admission.view import View, inside, whole_path
from reconciler.model.inventory import Resource
from reconciler.model.problems import Path, Problem, Severity, Span, quoted
from reconciler.model.resources import Interface

_MAX_SKILL_BYTES = 256 * 1024  # a skill is read whole by a model: far below any context window
_UNUSUAL = re.compile(r"[^\x20-\x7e\n\t]")
_MATTER = re.compile(r"\A---[ \t]*\r?\n(?P<matter>.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"^(?P<key>[A-Za-z_-]+):[ \t]*(?P<value>.*?)[ \t\r]*$")
_BLOCK = re.compile(r"[>|][+-]?")  # YAML's block scalars: the text stands on the lines below
_OWN = ("interface.toml", "tools.json")
_UNWRITTEN = re.compile(  # what the drafts of `handler new interface` say; a test holds the two together
    r"^- When …$|^1\. Give `text`\.$|What it does, in one sentence that a model reads\."
    r"|What \S+ is good for, and when to use the \S+ tool\.|What an agent gets from \S+, in one sentence",
    re.MULTILINE,
)
_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")  # letters that show nothing
_SELECTORS = ((0xFE00, 0xFE0F), (0xE0100, 0xE01EF), (0x180B, 0x180F))
_EMOJI = frozenset("\ufe0e\ufe0f")  # as text, as a picture
_JOINERS = frozenset("\u200c\u200d")
_HIDDEN = frozenset({"Cf", "Cc", "Cs", "Co", "Cn", "Zl", "Zp"})


@dataclass(frozen=True, slots=True)
class Hidden:
    """A character that a reader does not see: its offset in the text, and how it is named."""

    offset: int
    name: str


def hidden(text: str) -> Hidden | None:
    """The first character of a text that a reader does not see, or None.

    Joiners between letters of scripts that need them, and one emoji selector after its sign, are seen.
    """
    for match in _UNUSUAL.finditer(text):
        ch, before, after = (
            match[0],
            text[match.start() - 1 : match.start()],
            text[match.end() : match.end() + 1],
        )
        if (ch == "\r" and after == "\n") or (ch in _JOINERS and _joins(before, after)):
            continue
        if ch in _EMOJI and not before.isascii() and not _unseen(before) and before not in _EMOJI:
            continue
        if _unseen(ch):
            return Hidden(match.start(), f"U+{ord(ch):04X} {unicodedata.name(ch, 'unnamed')}")
    return None


def _joins(before: str, after: str) -> bool:
    seen = before in _EMOJI or not _unseen(before or "\0")
    return seen and not before.isascii() and not after.isascii() and not _unseen(after)


def _unseen(ch: str) -> bool:
    code = ord(ch)
    return (
        unicodedata.category(ch) in _HIDDEN
        or ch in _FILLERS
        or any(low <= code <= high for low, high in _SELECTORS)
    )


def contract_texts_are_visible(view: View, interface: Resource[Interface]) -> Iterator[Problem]:
    """What ``interface.toml`` tells a model: the description and the sentence of each error."""
    spec = interface.spec
    texts: list[tuple[Path, str]] = [(("description",), spec.description)]
    texts += [(("errors", code), text) for code, text in spec.errors.items()]
    for path, text in texts:
        if found := hidden(text):
            yield hidden_problem(interface, Span(interface.file), path, found)


def skill_is_there(view: View, interface: Resource[Interface]) -> Iterator[Problem]:
    """Each version comes with the skill of its name."""
    path = f"skills/{interface.spec.name}/SKILL.md"
    if path not in inside(interface):
        yield Problem(
            code="I231",
            what=f"{path} is missing",
            why="an interface owns everything a model reads, and its skill says what the schemas cannot",
            mend=f"write {path} with front matter name and description",
            at=Span(interface.file),
            about=interface.ref,
        )


def skills_read_as_written(view: View, interface: Resource[Interface]) -> Iterator[Problem]:
    """Each skill is UTF-8 text of bearable size, shows every character, and says its name and use."""
    for path, folder, data in _skills(interface):
        at = Span(whole_path(interface, path))
        if len(data) > _MAX_SKILL_BYTES:
            yield _unreadable(interface, at, f"the skill has {len(data)} bytes")
            continue
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            yield _unreadable(interface, at, f"the skill is not UTF-8 text (byte {error.start})")
            continue
        if found := hidden(text):
            line = text.count("\n", 0, found.offset) + 1
            column = found.offset - (text.rfind("\n", 0, found.offset) + 1) + 1
            yield hidden_problem(interface, Span(at.file, line, column), (), found)
        matter = front_matter(text)
        if matter.get("name") != folder or not matter.get("description"):
            yield Problem(
                code="I232",
                what=f"the skill's front matter does not give name {quoted(folder)} and a description",
                why="a harness finds a skill by its name and opens it by its description",
                mend=f"start the file with the lines ---, name: {folder}, description: WHEN TO USE IT, ---",
                at=Span(at.file, 1, 1),
                about=interface.ref,
            )


def skill_names_every_error(view: View, interface: Resource[Interface]) -> Iterator[Problem]:
    """A lint: a model that meets an error should find in the skill what to do."""
    texts = [data.decode(errors="replace") for _, _, data in _skills(interface)]
    if not texts:
        return
    whole = "\n".join(texts)
    missing = [code for code in interface.spec.errors if re.search(rf"\b{code}\b", whole) is None]
    if missing:
        path = f"skills/{interface.spec.name}/SKILL.md"
        yield Problem(
            code="I233",
            what=f"the skill says nothing of {', '.join(map(quoted, missing))}",
            why="an agent that meets an error should read what to do",
            mend=f"say in {path} what to do on {', '.join(missing)}",
            at=Span(whole_path(interface, path if path in inside(interface) else _skills(interface)[0][0])),
            about=interface.ref,
            severity=Severity.WARNING,
        )


def texts_are_ones_own(view: View, interface: Resource[Interface]) -> Iterator[Problem]:
    """A lint: a model reads what stands there, also what ``handler new interface`` left to be written."""
    for path, data in sorted(inside(interface).items()):
        text = data.decode(errors="replace") if path in _OWN or path.endswith("/SKILL.md") else ""
        for left in _UNWRITTEN.finditer(text):
            line = text.count("\n", 0, left.start()) + 1
            yield Problem(
                code="I235",
                what=f"here stand the words of an empty draft: {quoted(left[0])}",
                why="a model reads them as they are",
                mend="write what a model should know",
                at=Span(whole_path(interface, path), line, left.start() - text.rfind("\n", 0, left.start())),
                about=interface.ref,
                severity=Severity.WARNING,
            )


RULES = (
    contract_texts_are_visible,
    skill_is_there,
    skills_read_as_written,
    skill_names_every_error,
    texts_are_ones_own,
)


def front_matter(text: str) -> Mapping[str, str]:
    """The plain keys of a skill's front matter; empty when there is none.

    Only what a skill needs of YAML: one scalar a line, quoted or not, or a block scalar below its key.
    """
    match = _MATTER.match(text.removeprefix("\ufeff"))
    found: dict[str, str] = {}
    key = ""
    for line in match["matter"].splitlines() if match else ():
        if pair := _KEY.match(line):
            key = pair["key"]
            value = pair["value"]
            found[key] = "" if _BLOCK.fullmatch(value) else value.strip("\"'")
        elif key and line[:1] in (" ", "\t"):
            found[key] = f"{found[key]} {line.strip()}".strip()
    return found


def hidden_problem(interface: Resource[Interface], at: Span, path: Path, found: Hidden) -> Problem:
    """The problem that every unseen character is, wherever a model would read it."""
    return Problem(
        code="I209",
        what=f"the text holds {found.name}, which a reader does not see",
        why="what a reviewer sees and what a model reads must be the same text",
        mend=f"delete {found.name.split()[0]}",
        at=at,
        path=path,
        about=interface.ref,
    )


def _skills(interface: Resource[Interface]) -> list[tuple[str, str, bytes]]:
    """Path, folder and bytes of each skill of the version, by path."""
    found = []
    for path, data in sorted(inside(interface).items()):
        parts = path.split("/")
        if len(parts) == 3 and parts[0] == "skills" and parts[2] == "SKILL.md":
            found.append((path, parts[1], data))
    return found


def _unreadable(interface: Resource[Interface], at: Span, what: str) -> Problem:
    return Problem(
        code="I234",
        what=what,
        why=f"a skill is UTF-8 text of at most {_MAX_SKILL_BYTES} bytes, for a model reads it whole",
        mend="save the skill as shorter UTF-8 text",
        at=at,
        about=interface.ref,
    )
