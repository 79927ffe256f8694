"""TOML read, placed and edited: the face of three parsers, each used for what it is good at.

``read`` (tomli) gives plain values or one fault with its line, column and mend. ``place`` (tree-sitter) finds
where a key or a value stands, and is asked only where something is wrong. ``edit`` (tomlkit) keeps comments.
The last two are imported when they are first needed: a configuration without a problem pays for neither.
"""

import re
from typing import Any

import tomli

from reconciler.config.text import MAX_NESTING, TextFault, conflict, decoded, position
from reconciler.model.problems import Path

_INT64 = range(-(2**63), 2**63)
_WHY = "the file must be TOML"


def read(data: bytes) -> dict[str, Any] | TextFault:
    """The values of a TOML text, or the first fault in it. Never raises, and never takes long."""
    text = decoded(data)
    if isinstance(text, TextFault):
        return text
    try:
        values = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        return _syntax_fault(error)
    except RecursionError:
        return TextFault(
            1, 1, f"brackets are nested more than {MAX_NESTING} deep", _WHY, "write it flatter", _CODE
        )
    except ValueError:
        return _number_fault(*_first_of_digits(text))
    if _LONG in data.translate(_DIGITS) and (path := _oversized(values)) is not None:
        return _number_fault(*place(data, path))
    return values


def place(data: bytes, path: Path, *, on_key: bool = False) -> tuple[int, int]:
    """The line and column, from 1 in characters, of the value at ``path`` (or, ``on_key``, of its key).

    Where the path is not there, the place is what lies nearest above it: the value or the header of its
    table, else line 1. Any bytes will do; the place lies inside them.
    """
    from reconciler.config import tomlplace  # noqa: PLC0415 - 25 ms that only a problem pays

    return tomlplace.place(data, path, on_key=on_key)


def edit(text: str, path: Path, value: object) -> str:
    """The text with ``value`` at ``path``, missing tables made; None removes the key. Comments are kept.

    Raises ValueError, with words for a person, when the text is not TOML, when the path leads through
    something that is no table, and when the result would differ from the text by more than this one value.
    """
    from reconciler.config import tomledit  # noqa: PLC0415 - 25 ms that only an edit pays

    return tomledit.edit(text, path, value)


# numbers

# Digits enough for more than 64 bits, in any base; they may stand in text too, so they are a hint alone. A
# translation and a search see them ten times faster than an expression does, and every file is asked.
_DIGITS = bytes(ord("0") if chr(byte) in "0123456789abcdefABCDEF_xo" else ord(" ") for byte in range(256))
_LONG = b"0" * 17
_ENDLESS_NUMBER = re.compile(r"[0-9][0-9_]{1000}")


def _oversized(values: object) -> Path | None:
    """The path of a whole number that does not fit 64 bits, or None."""
    stack: list[tuple[Path, object]] = [((), values)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, dict):
            stack.extend(((*path, key), item) for key, item in value.items())
        elif isinstance(value, list):
            stack.extend(((*path, number), item) for number, item in enumerate(value))
        elif isinstance(value, int) and value not in _INT64:
            return path
    return None


def _first_of_digits(text: str) -> tuple[int, int]:
    found = _ENDLESS_NUMBER.search(text)
    return position(text, found.start()) if found else (1, 1)


def _number_fault(line: int, column: int) -> TextFault:
    return TextFault(
        line,
        column,
        "a whole number here does not fit 64 bits",
        "whole numbers lie between -2^63 and 2^63-1",
        "write a smaller number, or quotes around it if it is text",
        "S210",
    )


# syntax

_CODE = "S211"
_CURLY = "“”„‟‘’‚‛«»"  # noqa: RUF001 - the quotes that editors put in place of straight ones
_BARE_WORD = re.compile(r"[A-Za-z_~/][^\s,\]}#]*")
_INSTEAD = {
    "True": "true", "yes": "true", "Yes": "true", "on": "true", "TRUE": "true",
    "False": "false", "no": "false", "No": "false", "off": "false", "FALSE": "false",
}  # fmt: skip
_NO_VALUE = {"null", "None", "nil", "undefined"}
_KEY = re.compile(r"[ \t]*(\[{1,2})?[ \t]*([A-Za-z0-9_.-]+)")

_NO_END = "a text has no closing quote", "close it with the quote that it starts with"
# What the parser says, in our words: the fact, and the imperative that mends it.
_WORDS = (
    ("Expected '='", ("a key stands here without a value", "write it as key = value")),
    ("Expected newline", ("something follows the value on this line", "write one key on each line")),
    ("Invalid statement", ("this line is neither a key nor a table", "write it as key = value")),
    (
        "Invalid initial",
        ("a key is missing, or needs quotes", "write a key of letters, digits, - and _"),
    ),
    ("Unterminated", _NO_END),
    ("Illegal character '\\n'", _NO_END),
    ("Found invalid", _NO_END),
    ("Expected \"'", _NO_END),
    ("Unclosed array", ("a list lacks a comma or its end", "write a comma between items and ] at the end")),
    ("Unclosed inline", ("a table lacks a comma or its end", "write a comma between keys and } at the end")),
    ("Expected ']", ("the header of a table is not closed", "close it with as many ] as it starts with")),
    ("Escaped character", ("an escape names no character", "write the character itself")),
    ("Invalid date", ("a date or time does not exist", "write a real one, or quotes around it")),
)
_OPEN_TEXT = tuple(start for start, words in _WORDS if words is _NO_END)
_TWICE = ("Cannot overwrite", "Duplicate inline", "Cannot declare", "Cannot redefine", "Cannot mutate")


def _syntax_fault(error: tomli.TOMLDecodeError) -> TextFault:
    if (
        fault := conflict(error.doc, stopped_at=error.lineno)
        or _quote_fault(error)
        or _backslash_fault(error)
    ):
        return fault
    if error.msg.startswith(_TWICE):
        return _twice_fault(error)
    if error.msg == "Invalid value":
        return _value_fault(error)
    for start, (what, mend) in _WORDS:
        if error.msg.startswith(start):
            return _fault(error, what, mend)
    return _fault(error, "this cannot be read as TOML", "see what stands here and before it")


def _fault(error: tomli.TOMLDecodeError, what: str, mend: str, *, column: int | None = None) -> TextFault:
    return TextFault(error.lineno, error.colno if column is None else column, what, _WHY, mend, _CODE)


def _quote_fault(error: tomli.TOMLDecodeError) -> TextFault | None:
    """A curly quote for a straight one: where the parser stopped, or earlier in a text without end."""
    start = error.doc.rfind("\n", 0, error.pos) + 1
    line = error.doc[start:].partition("\n")[0]
    here = error.pos - start
    if line[here : here + 1] not in tuple(_CURLY):
        unclosed = error.msg.startswith(_OPEN_TEXT)
        here = max(map(line.rfind, _CURLY)) if unclosed else -1
    if here < 0:
        return None
    shown = f"{line[here]} (U+{ord(line[here]):04X})"
    return TextFault(
        error.lineno,
        here + 1,
        f"the curly quote {shown} stands where a straight one belongs",
        "TOML quotes text with \" or '",
        'write a straight quote: "',
        "S208",
    )


def _backslash_fault(error: tomli.TOMLDecodeError) -> TextFault | None:
    if not error.msg.startswith(("Unescaped '\\'", "Invalid hex")):
        return None
    line, column = position(error.doc, error.doc.rfind("\\", 0, error.pos))
    return TextFault(
        line,
        column,
        "a backslash here starts no escape",
        "between double quotes a backslash starts an escape",
        "write the text between single quotes, or each backslash twice",
        "S209",
    )


def _twice_fault(error: tomli.TOMLDecodeError) -> TextFault:
    """A key given again. The parser stops after the value; the key is what a person looks for."""
    start = error.doc.rfind("\n", 0, error.pos) + 1
    key = None if error.msg.startswith("Duplicate inline") else _KEY.match(error.doc, start)
    if key is None:
        return _fault(error, "a key is given twice", "remove one of them")
    what = f"{'table' if key[1] else 'key'} '{key[2]}' is given twice"
    return _fault(error, what, "remove one of them", column=key.start(2) - start + 1)


def _value_fault(error: tomli.TOMLDecodeError) -> TextFault:
    word = _BARE_WORD.match(error.doc, error.pos)
    if word is None:
        rest = error.doc[error.pos :].partition("\n")[0].strip()
        if not rest or rest.startswith("#"):
            return _fault(error, "a value is missing here", "write a value after =, or remove the key")
        return _fault(error, "this is no value", "put quotes around text")
    if word[0] in _INSTEAD:
        return _fault(error, f"'{word[0]}' is no value", f"write {_INSTEAD[word[0]]}, without quotes")
    if word[0] in _NO_VALUE:
        return _fault(error, f"'{word[0]}' is no value", "remove the key: what is not set is left out")
    return _fault(error, "text stands here without quotes", 'put quotes around it: "…"')
