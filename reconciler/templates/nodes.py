"""What a parsed template is made of. Where it matters, a node knows where it begins.

``at`` counts the characters of the source before it.
"""

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Text:
    """What is written out as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, a text, a truth value, or nil (None)."""

    value: int | float | str | bool | None
    at: int


@dataclass(frozen=True, slots=True)
class Path:
    """Fields below ``root``: ``.`` for the dot, or a variable with its ``$``."""

    root: str
    names: tuple[str, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Function:
    """The name of a function, with or without arguments after it."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class Chain:
    """Fields below the value of something in parentheses."""

    of: "Pipe"
    names: tuple[str, ...]
    at: int


Operand = Constant | Path | Function | Chain


@dataclass(frozen=True, slots=True)
class Command:
    """An operand and its arguments. A pipe in parentheses is a Chain without names."""

    words: tuple[Operand, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Pipe:
    """Commands, each with the value of the one before as its last argument; its value goes to ``names``.

    ``sets`` tells ``$x = …`` from ``$x := …``. As an item of a body it prints its value, unless it names one.
    """

    commands: tuple[Command, ...]
    names: tuple[str, ...]
    sets: bool
    at: int


class Sort(Enum):
    """What a branch does with its pipe."""

    IF = "if"
    WITH = "with"
    RANGE = "range"


@dataclass(frozen=True, slots=True)
class Branch:
    """``if``, ``with``, ``range``: one of two bodies."""

    sort: Sort
    pipe: Pipe
    body: "tuple[Item, ...]"
    otherwise: "tuple[Item, ...]"


@dataclass(frozen=True, slots=True)
class Include:
    """``{{template "name" pipe}}``."""

    name: str
    pipe: Pipe | None
    at: int


@dataclass(frozen=True, slots=True)
class Jump:
    """``{{break}}`` or, with ``ends`` false, ``{{continue}}``."""

    ends: bool


Item = Text | Pipe | Branch | Include | Jump
