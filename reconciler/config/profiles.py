"""Profiles as texts: what their names may be, which values have a canonical form, the digest of the facts.

A profile is its facts: the digest is sha256 over RFC 8785 of the table as the parser gives it, so that
comments, spacing and the order of keys change nothing, and one fact does. What has no canonical form (a date,
a number beyond 2^53 or without an end) is refused when it is read.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import rfc8785

from reconciler.model.problems import Path, key_path

_ODD = "D106"
_NAMED = re.compile(r"[a-z][a-z0-9]*(?:[.-][a-z0-9]+)*@[1-9][0-9]{0,5}")
_MAX_NAME = 96
_EXACT = 2**53 - 1
_WHY = (
    "a profile is known by a digest of its facts: text, true or false, numbers that all programs read alike"
)
_MEND = "write it as text, or as a number within 2^53"


def name_fault(name: str) -> str | None:
    """Why the name that a path gives a profile or a dialect is none, as a clause; None when it is one."""
    if len(name) > _MAX_NAME:
        return f"it has {len(name)} characters, more than {_MAX_NAME}"
    if _NAMED.fullmatch(name) is None:
        return "it is lower-case letters, digits, single dashes and dots, and a number after it"
    return None


def digest(values: Mapping[str, Any]) -> str:
    """sha256 (hex) over RFC 8785 of a profile's table. Raises ValueError for what has no canonical form."""
    return hashlib.sha256(rfc8785.dumps(dict(values))).hexdigest()


def odd_values(values: Mapping[str, Any]) -> Iterator[tuple[Path, tuple[str, str, str, str]]]:
    """Each value without a canonical form: its path, and the code and words of the problem."""
    waiting: list[tuple[Path, Any]] = [((), dict(values))]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [((*path, key), one) for key, one in value.items()]
        elif isinstance(value, list):
            waiting += [((*path, index), one) for index, one in enumerate(value)]
        elif not _is_canonical(value):
            yield path, (_ODD, f"{key_path(path)} has no canonical form", _WHY, _MEND)


def _is_canonical(value: object) -> bool:
    if isinstance(value, float):
        return value - value == 0
    if isinstance(value, int):
        return abs(value) <= _EXACT
    return isinstance(value, str)
