"""JSON that a person writes, read strictly: two readers must read the same from it; every fault has a place.

No comments, no trailing commas, no key twice, no NaN, no nesting without end. ``jsonplace`` finds where a
value stands.
"""

import json
from typing import Any

from reconciler.config.text import TextFault, decoded, position

_CODE = "S224"
_WHY = "a chain is JSON: other programs must be able to read it"
_TWICE = "of a key that is given twice, each reader keeps another value"


class _Twice(ValueError):  # noqa: N818 - it is caught here alone
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def read(data: bytes) -> dict[str, Any] | TextFault:
    """The object that a file holds, or the first fault of its text."""
    text = decoded(data)
    if isinstance(text, TextFault):
        return text
    try:
        values = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
        if found := _half(text, values):
            return found
    except (ValueError, RecursionError) as error:
        return _fault(text, error)
    return values if isinstance(values, dict) else _told("this is no object", "write {…}")


def _fault(text: str, error: Exception) -> TextFault:
    """Where a text stops being JSON, and what a person does about it."""
    if isinstance(error, json.JSONDecodeError):
        what = f"this is not JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        return _told(what, _mend(error), error.lineno, error.colno)
    if isinstance(error, _Twice):
        what = f"the key '{error.key[:80]}' is given twice"
        return TextFault(*position(text, _second(text, error.key)), what, _TWICE, "remove one of them", _CODE)
    if isinstance(error, RecursionError):
        return _told("brackets are nested too deep", "write it flatter")
    return _told(str(error)[:120], "write a number that is one")


def _told(what: str, mend: str, line: int = 1, column: int = 1) -> TextFault:
    return TextFault(line, column, what, _WHY, mend, _CODE)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Twice(key)
            seen.add(key)
    return found


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number of JSON")


def _half(text: str, values: Any) -> TextFault | None:
    """Half a character: ``\\ud800`` without its other half, which no file in UTF-8 can hold."""
    if "\\ud" not in text.lower():
        return None
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        place = position(text, max(text.lower().find(half), 0))
        mend = "write the character itself, or both halves of it"
        return TextFault(*place, f"{half} is half a character", _WHY, mend, _CODE)
    return None


def _second(text: str, key: str) -> int:
    """Where the key stands for the last time, which is near enough for a person who looks for it."""
    return max(text.rfind(json.dumps(key)), text.rfind(json.dumps(key, ensure_ascii=False)), 0)


def _mend(error: json.JSONDecodeError) -> str:
    rest = error.doc[error.pos :].lstrip()
    if rest.startswith(("//", "/*", "#")):
        return "remove the comment: JSON has none"
    if rest[:1] in ("}", "]") or error.msg.startswith("Expecting property name"):
        return "remove the comma before the closing bracket, and put keys between double quotes"
    return "put a comma between entries, and double quotes around text"
