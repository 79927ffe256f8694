"""Patterns that every reader of a schema reads alike, and that no text makes slow.

Three kinds of engine meet one pattern: ECMA-262 with flag u (``regress`` stands for the harnesses), the
linear one that checks calls here, and Python's, by which Python clients check an answer. What one of them
cannot read breaks a client in use; what they read differently lets through here what is refused there. A
linear engine is linear in the text alone, times the pattern with its repetitions written out: so that has a
bound (measured: ``(?:(?:a{0,50}){0,50}){0,50}`` on 100,000 characters did not end within ten minutes).
"""

import re
import warnings

import regress

from reconciler.model.contract import pattern_fault

MAX_CHARACTERS = 512
MAX_WEIGHT = 1_000  # characters and classes with repetitions written out
_ECMA = "patterns are ECMA-262 with flag u, as every harness reads them"
_LINEAR = "patterns run in linear time, so look-around and back-references are not possible"
_PYTHON = "Python clients check answers by this pattern, and one that they cannot read fails every call"
_DIFFERS = "engines differ on it, so what is let through here would be refused there"
_SLOW = "every repetition that is written out costs time with each character of a text"

_PLAIN = {
    "d": "[0-9]", "w": "[A-Za-z0-9_]", "s": "[ \\t\\n\\r]",
    "D": "[^0-9]", "W": "[^A-Za-z0-9_]", "S": "[^ \\t\\n\\r]",
}  # fmt: skip

_ITEM = re.compile(r"\\.|\[\^?(?:\\.|[^\]\\])*\]|\(\?:|\(\?|\(|\)|\{\d+(?:,(?:\d+)?)?\}|[*+?]|.", re.DOTALL)
_BOUNDS = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def fault(pattern: str) -> tuple[str, str] | None:
    """What is wrong with a pattern and which rule that breaks, both as clauses; None when it is portable."""
    if len(pattern) > MAX_CHARACTERS:
        return f"it has {len(pattern)} characters, more than {MAX_CHARACTERS}", _SLOW
    try:
        regress.Regex(pattern, "u")
    except regress.RegressError as error:
        return str(error).lower(), _ECMA
    if (weight := _weight(pattern)) > MAX_WEIGHT:
        return f"its repetitions come to {weight} characters, more than {MAX_WEIGHT}", _SLOW
    if (words := pattern_fault(pattern)) is not None:
        return words, _LINEAR
    return _python_fault(pattern) or _ambiguity(pattern)


def wider(pattern: str) -> tuple[str, str] | None:
    """A shorthand that takes other characters in Python than here, and the class that all read alike."""
    found = next((letter for letter in _ESCAPE.findall(pattern) if letter in _PLAIN), None)
    return None if found is None else (f"\\{found}", _PLAIN[found])


def _python_fault(pattern: str) -> tuple[str, str] | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # sets in sets: it will read them differently one day
            re.compile(pattern)
    except re.error as error:
        return f"Python cannot read it: {error.msg}", _PYTHON
    except Warning:
        return "a class holds '[', '&&', '||', '~~' or '--', which some read as an operation", _DIFFERS
    except (OverflowError, RecursionError):
        return "Python cannot read it: it is too large", _PYTHON
    return None


def _ambiguity(pattern: str) -> tuple[str, str] | None:
    """What all engines can read, each in its own way; found as items, which classes and escapes are too."""
    for item in _ITEM.findall(pattern):
        if item in ("\\b", "\\B"):
            return f"{item} means another place in each engine when a text is not ASCII", _DIFFERS
        if item == "(?":
            return "a group sets flags or has a name, which older engines do not know", _DIFFERS
    return None


def _weight(pattern: str) -> int:
    """Characters and classes of a pattern that regress could read, with its repetitions written out."""
    totals, last = [0], 0  # of the open groups; of the item that a repetition would repeat
    for item in _ITEM.findall(pattern):
        if item[0] == "(":
            totals[-1] += last
            totals.append(0)
            last = 0
        elif item == ")":
            last += totals.pop()
        elif bounds := _BOUNDS.fullmatch(item):
            last *= max(int(bounds[2] or bounds[1]), 1)
        elif item not in "*+?":
            totals[-1] += last
            last = 1
    return sum(totals) + last
