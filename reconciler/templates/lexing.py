"""The tokens of a Go template, with its rules for trimming, comments and quotes.

Blanks between the words of an action are tokens, because Go's grammar tells ``.a.b`` from ``.a .b``.
"""

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from enum import Enum


class TemplateError(ValueError):
    """A template that cannot be read or rendered. ``line`` counts from 1; the text is for the operator."""

    def __init__(self, what: str, line: int) -> None:
        """Say ``what`` is wrong on ``line``."""
        super().__init__(f"line {line}: {what}")
        self.what = what
        self.line = line


class Kind(Enum):
    """What a token is."""

    TEXT = "text"
    OPEN = "{{"
    CLOSE = "}}"
    BLANK = "a blank"
    STRING = "a quoted text"
    NUMBER = "a number"
    CHARACTER = "a character"
    FIELD = "a field"
    VARIABLE = "a variable"
    WORD = "a word"
    DOT = "."
    PIPE = "|"
    LEFT = "("
    RIGHT = ")"
    DECLARE = ":="
    ASSIGN = "="
    COMMA = ","
    END = "the end of the template"


@dataclass(frozen=True, slots=True)
class Token:
    """A stretch of the source, from the ``at``-th character on; of quoted ones, ``text`` is what they say."""

    kind: Kind
    text: str
    at: int


_BLANKS = " \t\r\n"
_ACTION = re.compile(
    r"(?P<close>\s-\}\}|\}\})"
    r"|(?P<blank>[ \t\r\n]+?(?=[ \t\r\n]-\}\})|[ \t\r\n]+)"
    r'|(?P<string>"(?:[^"\\\n]|\\.)*")'
    r"|(?P<raw>`[^`]*`)"
    r"|(?P<character>'(?:[^'\\\n]|\\.[^']*)')"
    r"|(?P<number>[+-]?(?:[0-9]|\.[0-9])(?:[eEpP][+-]|[\w.])*)"
    r"|(?P<field>\.[^\W\d]\w*)"
    r"|(?P<variable>\$\w*)"
    r"|(?P<word>[^\W\d]\w*)"
    r"|(?P<declare>:=)|(?P<sign>[.|()=,])"
)
_SIGNS = {"|": Kind.PIPE, "(": Kind.LEFT, ")": Kind.RIGHT, "=": Kind.ASSIGN, ",": Kind.COMMA, ".": Kind.DOT}
_KINDS = {
    "blank": Kind.BLANK,
    "number": Kind.NUMBER,
    "field": Kind.FIELD,
    "variable": Kind.VARIABLE,
    "word": Kind.WORD,
    "declare": Kind.DECLARE,
}
_ESCAPE = re.compile(
    r"""\\(?:([abfnrtv\\"'])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|.)"""
)
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def line_of(source: str, at: int) -> int:
    """The line of the ``at``-th character, from 1."""
    return source.count("\n", 0, at) + 1


def tokens(source: str) -> Iterator[Token]:
    """The tokens of ``source``, the last of them ``END``; raises TemplateError."""
    at = 0
    while (opened := source.find("{{", at)) >= 0:
        inside = opened + 2
        trims = source[inside : inside + 1] == "-" and source[inside + 1 : inside + 2] in set(_BLANKS)
        text = source[at:opened]
        yield Token(Kind.TEXT, text.rstrip(_BLANKS) if trims else text, at)
        inside += 2 if trims else 0
        if _COMMENT.match(source, inside) or source.startswith("/*", inside):
            at = _after_comment(source, inside)
        else:
            yield Token(Kind.OPEN, "{{", opened)
            at = yield from _action(source, inside)
    yield Token(Kind.TEXT, source[at:], at)
    yield Token(Kind.END, "", len(source))


def _after_comment(source: str, at: int) -> int:
    comment = _COMMENT.match(source, at)
    if comment is None:
        raise TemplateError("a comment is not closed", line_of(source, at))
    return _closed(source, comment.end(), "a comment must end right before the closing delimiter")


def _closed(source: str, at: int, fault: str) -> int:
    close = re.compile(r"\s-\}\}|\}\}").match(source, at)
    if close is None:
        raise TemplateError(fault, line_of(source, at))
    return _trimmed(source, close)


def _trimmed(source: str, close: re.Match[str]) -> int:
    """Where the text after an action begins."""
    at = close.end()
    while len(close[0]) > 2 and at < len(source) and source[at] in _BLANKS:
        at += 1
    return at


def _action(source: str, at: int) -> Generator[Token, None, int]:
    """The tokens up to the closing delimiter; returns where the text after it begins."""
    depth = 0
    while True:
        match = _ACTION.match(source, at)
        if match is None:
            raise TemplateError(_unreadable(source, at), line_of(source, at))
        if match["close"] is not None:
            if depth:
                raise TemplateError("a parenthesis is not closed", line_of(source, at))
            yield Token(Kind.CLOSE, "}}", at)
            return _trimmed(source, match)
        token = _token(source, match)
        depth += (token.kind is Kind.LEFT) - (token.kind is Kind.RIGHT)
        if depth < 0:
            raise TemplateError("a parenthesis closes nothing", line_of(source, at))
        yield token
        at = match.end()


def _token(source: str, match: re.Match[str]) -> Token:
    group, text, at = match.lastgroup or "", match[0], match.start()
    if group == "raw":
        return Token(Kind.STRING, text[1:-1], at)
    if group == "string":
        return Token(Kind.STRING, _unquoted(source, text[1:-1], at), at)
    if group == "character":
        return Token(Kind.CHARACTER, _unquoted(source, text[1:-1], at), at)
    if group == "sign":
        return Token(_SIGNS[text], text, at)
    return Token(_KINDS[group], text, at)


def _unreadable(source: str, at: int) -> str:
    rest = source[at : at + 1]
    if rest in {'"', "`", "'"}:
        return "a quoted text is not closed"
    return f"unexpected {rest!r} in an action" if rest else "an action is not closed with '}}'"


def _unquoted(source: str, text: str, at: int) -> str:
    """What a quoted text says: Go's escapes. Bytes that are no UTF-8 are not taken."""
    if "\\" not in text:
        return text
    raw = bytearray()
    done = 0
    for match in _ESCAPE.finditer(text):
        raw += text[done : match.start()].encode("utf-8", "surrogatepass") + _escaped(source, match, at)
        done = match.end()
    raw += text[done:].encode("utf-8", "surrogatepass")
    try:
        return raw.decode()
    except UnicodeError:
        raise TemplateError("a quoted text is no UTF-8", line_of(source, at)) from None


def _escaped(source: str, match: re.Match[str], at: int) -> bytes:
    simple, byte, short, long, octal = match.groups()
    if simple:
        return _SIMPLE.get(simple, simple).encode()
    if byte:
        return bytes([int(byte, 16)])
    number = int(octal, 8) if octal else int(short or long or "110000", 16)
    if octal and number < 256:
        return bytes([number])
    if octal or number > 0x10FFFF or 0xD800 <= number < 0xE000:
        raise TemplateError(f"a quoted text has an unknown escape {match[0][:12]!r}", line_of(source, at))
    return chr(number).encode()
