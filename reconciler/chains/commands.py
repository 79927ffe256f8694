"""What a command line would run, for policies that must know before it does.

A line is split as a shell would split it, into simple commands and their words; what stands inside
substitutions, subshells and ``sh -c`` is read as well. Where in doubt, more is found than would run: a policy
that forbids may ask once too often, never once too little. Nothing is expanded and nothing is run.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_LONGEST = 64 * 1024  # characters of a line
_DEEPEST = 5  # lines inside lines
_SUBSTITUTION = re.compile(r"\$\(|`|<\(|>\(|\$\[")
_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_SHELLS = frozenset({"eval", "su", "sh", "bash", "dash", "zsh", "ksh", "ash", "fish"})
_WRAPPERS = frozenset(
    (
        *("sudo", "doas", "env", "nohup", "nice", "ionice", "time", "timeout", "xargs", "exec", "command"),
        *("builtin", "busybox", "setsid", "stdbuf", "watch", "eval", "find", "parallel", "su", "chroot"),
        *("then", "do", "else", "if", "while", "until", "!", "{"),
    )
)
_SHAPES = (
    r"(?P<blank>[ \t]+)",
    r"(?P<end>[<>]\(|[;|&\n()`])",
    r"(?P<redirect>[<>])",
    r"(?P<single>'[^']*')",
    r'(?P<double>"(?:[^"\\]|\\.)*")',
    r"(?P<escape>\\.)",
    r"""(?P<plain>[^ \t\n;|&()<>`'"\\]+)""",
)
_WORD = re.compile("|".join(_SHAPES), re.DOTALL)
_UNKNOWN = frozenset("$*?[~{")  # in a program's name: a shell makes another of it


class UnclearError(ValueError):
    """A command line, or an address, that cannot be read for certain: nothing may be allowed
    because of it.
    """


@dataclass(frozen=True, slots=True)
class Line:
    """The simple commands of a line, outer and inner ones, and whether a file is opened or a substitution
    made.
    """

    commands: tuple[tuple[str, ...], ...]
    redirects: bool
    substitutes: bool


def substitutes(text: str) -> bool:
    """Whether ``text`` holds what a shell would run or calculate in its place."""
    return _SUBSTITUTION.search(text) is not None


def line(text: str) -> Line:
    """The line that ``text`` is; raises UnclearError for one that is blank, too long, or not closed."""
    commands, redirects = _read(text, 0)
    if not commands:
        raise UnclearError("the command is blank")
    return Line(tuple(commands), redirects, substitutes(text))


def programs(read: Line) -> frozenset[str]:
    """The names, without folders, of all that a line may run; raises UnclearError where a shell
    makes one up.
    """
    names = frozenset(name for command in read.commands for name in _names(command))
    if any(set(name) & _UNKNOWN and name not in {"[", "[[", "{"} for name in names):
        raise UnclearError("the command's program is not known before it runs")
    return names


def begins(read: Line, prefixes: Sequence[Sequence[str]]) -> bool:
    """Whether every command of the line begins with one of ``prefixes``, and it does nothing but run them."""
    if read.redirects or read.substitutes:
        return False
    return all(
        any(list(command[: len(prefix)]) == list(prefix) for prefix in prefixes) for command in read.commands
    )


def _names(command: Sequence[str]) -> Iterator[str]:
    """The first word that is no assignment; after a program that runs others, every word."""
    words = iter(command)
    for word in words:
        if _ASSIGNED.match(word):
            continue
        name = _base(word)
        yield name
        if name in _WRAPPERS:
            yield from (_base(other) for other in words)
        return


def _base(word: str) -> str:
    return word.rstrip("/").rpartition("/")[2]


def _read(text: str, depth: int) -> tuple[list[tuple[str, ...]], bool]:
    if len(text) > _LONGEST or depth > _DEEPEST:
        raise UnclearError("the command is too long, or holds too many others")
    commands: list[tuple[str, ...]] = []
    redirects = False
    words: list[str] = []
    word: str | None = None
    inner: list[str] = []
    at = 0
    while at <= len(text):
        match = _WORD.match(text, at)
        if match is None and at < len(text):
            raise UnclearError("the command has a quote that is not closed")
        kind = match.lastgroup if match else "end"
        if kind in {"blank", "end", "redirect"}:
            if word is not None:
                words.append(word)
            word = None
            redirects = redirects or kind == "redirect"
            if kind == "end":
                commands.extend(_with_inner(words, depth))
                words = []
        elif match is not None:
            part, reads = _unquoted(match)
            word = (word or "") + part
            if reads and substitutes(match[0]):
                inner.append(part)
        at = match.end() if match else at + 1
    for part in inner:
        commands.extend(_inside(part, depth))
    return commands, redirects


def _unquoted(match: re.Match[str]) -> tuple[str, bool]:
    """What a piece of a word says, and whether a shell would look for substitutions in it."""
    text = match[0]
    if match["single"] is not None:
        return text[1:-1], False
    if match["double"] is not None:
        return re.sub(r'\\(["\\$`])', r"\1", text[1:-1].replace("\\\n", "")), True
    if match["escape"] is not None:
        return text[1:].strip("\n"), False
    return text, True


def _with_inner(words: list[str], depth: int) -> Iterator[tuple[str, ...]]:
    """A simple command, and those of the line that it hands to a shell."""
    if not words:
        return
    yield tuple(words)
    first = next((at for at, word in enumerate(words) if _base(word) in _SHELLS), len(words))
    for given in words[first + 1 :]:
        if not given.startswith("-"):
            yield from _read(given, depth + 1)[0]


def _inside(part: str, depth: int) -> Iterator[tuple[str, ...]]:
    """The commands inside the substitutions of a quoted piece: each stretch between their signs."""
    for stretch in re.split(r"\$\(|`|<\(|>\(|\)", part):
        try:
            yield from _read(stretch, depth + 1)[0]
        except UnclearError:
            yield from (tuple(words) for words in [stretch.split()] if words)
