"""A problem: one fact that is wrong, where it stands, which rule it breaks and how to mend it.

Everything that refuses input says so with this value, and every surface (command line, status file, web page,
journal) shows the same words. Nothing found in a file lacks a place. Values are quoted short and never
secret.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeVar

from reconciler.model.names import ObjectRef

_MAX_QUOTED = 80  # characters of a user's value that a message repeats

Path = tuple[str | int, ...]
T = TypeVar("T")


class Severity(Enum):
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A place in a file: path relative to the configuration's root, line and column from 1 (in
    characters).
    """

    file: str
    line: int = 0  # 0: the file as a whole
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Problem:
    """One refusal or warning. ``code`` is for ever; ``what`` has no full stop; ``mend`` is an imperative.

    A rule gives ``file`` by ``at`` and the key by ``path``; the line and column are looked up once, at the
    end
    of an admission, since parsing for places is only worth it where something is wrong.
    """

    code: str
    what: str
    why: str
    mend: str
    at: Span
    path: Path = ()
    severity: Severity = Severity.ERROR
    about: ObjectRef | None = None  # the object that the problem refuses; None: a file that is no object
    reason: str = "SchemaInvalid"  # the condition reason that it becomes, of the closed list in model.status
    candidates: tuple[str, ...] = field(default=())
    on_key: bool = False  # the place is the key, not the value (an unknown key)

    @property
    def field_path(self) -> str:
        """The key as people write it: ``services.ocr`` or ``requires[0]``."""
        return key_path(self.path)

    def placed(self, at: Span) -> "Problem":
        return replace(self, at=at)

    def sort_key(self) -> tuple[Span, str, str, str]:
        """Place first; one place may hold the same words about several objects."""
        return (self.at, self.code, self.what, str(self.about or ""))


class Bug(Exception):  # noqa: N818 - it names a broken invariant, not an error of a user's
    """A broken invariant: ends the look, not the daemon, and becomes the condition ``InternalError``."""


def needed(found: T | None, fault: str) -> T:
    """What must be there by the law of its place; raises Bug, with these words, when it is not."""
    if found is None:
        raise Bug(fault)
    return found


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """All problems once, sorted by place."""
    return tuple(sorted(dict.fromkeys(problems), key=Problem.sort_key))


def key_path(path: Path) -> str:
    """A path of keys and indexes as people write it: ``services.ocr`` or ``requires[0]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def quoted(value: object) -> str:
    """Quote a user's own value for a message, cut at 80 characters, control characters escaped."""
    text = str(value)
    if len(text) > _MAX_QUOTED:
        text = text[: _MAX_QUOTED - 1] + "…"
    return "'" + "".join(ch if ch.isprintable() else f"\\u{ord(ch):04x}" for ch in text) + "'"


def listed(words: Iterable[str]) -> str:
    """Join words as a sentence lists them: ``a, b or c``."""
    *head, last = list(words) or ["nothing"]
    return f"{', '.join(head)} or {last}" if head else last
