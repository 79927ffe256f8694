"""A command line as a list of words: quotes and backslashes as a shell reads them, and no shell.

Nothing is expanded: ``$HOME``, ``*`` and ``~`` stay as they are written. What only a shell could do (``|``,
``>``, ``;``, a substitution, a second line) is refused where it stands outside of quotes, since a program
that got it as a word would do something else than was meant.
"""

import re

_BLANK = " \t\n"
_BLANKS = re.compile(f"[{_BLANK}]+")
_OF_A_SHELL = "|&;<>()`"
_ESCAPED = '"\\$`\n'  # what a backslash keeps plain within double quotes


def words(text: str) -> tuple[str, ...]:
    """The words, at least one. ValueError, as a clause, for what is blank, not closed, or a shell's."""
    found: list[str] = []
    word: str | None = None
    at = 0
    while at < len(text):
        sign = text[at]
        if sign in _BLANK:
            if word is not None:
                found.append(word)
            word = None
            at = _past_blanks(text, at, begun=bool(found))
        elif sign in "'\"":
            part, at = _quoted(text, at)
            word = (word or "") + part
        elif sign == "\\":
            if at + 1 == len(text):
                raise ValueError("it ends with a backslash")
            # A line that goes on in the next one is no word, and ends none.
            word = word if text[at + 1] == "\n" else (word or "") + text[at + 1]
            at += 2
        elif sign in _OF_A_SHELL or text.startswith("$(", at):
            raise ValueError(f"there is no shell, so {sign!r} means nothing: run one program, or quote it")
        else:
            word = (word or "") + sign
            at += 1
    if word is not None:
        found.append(word)
    if not found or not found[0]:
        raise ValueError("it names no program")
    return tuple(found)


def _past_blanks(text: str, at: int, *, begun: bool) -> int:
    """Where the next word stands; ValueError where that is on another line than one before."""
    blanks = _BLANKS.match(text, at)
    end = blanks.end() if blanks else at
    if begun and "\n" in text[at:end] and end < len(text):
        raise ValueError("there is no shell, so a second line means nothing: run one program, or quote it")
    return end


def _quoted(text: str, at: int) -> tuple[str, int]:
    """What stands between quotes, and where it goes on behind them."""
    quote = text[at]
    part: list[str] = []
    at += 1
    while at < len(text):
        sign = text[at]
        if sign == quote:
            return "".join(part), at + 1
        if quote == '"' and sign == "\\" and text[at + 1 : at + 2] in tuple(_ESCAPED):
            part.append(text[at + 1].strip("\n"))
            at += 2
            continue
        part.append(sign)
        at += 1
    raise ValueError("a quote is not closed")
