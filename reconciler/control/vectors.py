"""Vectors of texts, as mappings of a dialect make them: lines in, the nearest first or a line each out. Pure.

What `embed/v1` says beside the vectors that a server gives: which file is no list of short texts, in which
order texts are near, and that a vector has length 1.
"""

import json
import math
from collections.abc import Sequence
from typing import Any

_MOST_CHARACTERS = 2000  # of a line
_DIGITS = 6

Vector = Sequence[float]


class UnfitFileError(Exception):
    """A file of the call is none that can be used; ``code`` is the interface's."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


def lines(data: bytes, most: int) -> list[tuple[int, str]]:
    """The lines of a file that are not empty, with their numbers. Raises UnfitFileError."""
    try:
        rows = data.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise UnfitFileError("unsupported_format", "the file is not UTF-8") from None
    if b"\0" in data:
        raise UnfitFileError("unsupported_format", "the file holds NUL: it is not text")
    found = [(number, row.strip()) for number, row in enumerate(rows, start=1) if row.strip()]
    if not found:
        raise UnfitFileError("unsupported_format", "the file has no line with a text")
    if len(found) > most:
        raise UnfitFileError("too_large", f"{len(found)} lines, more than {most}")
    if long := next((number for number, row in found if len(row) > _MOST_CHARACTERS), None):
        raise UnfitFileError("unsupported_format", f"line {long} has more than {_MOST_CHARACTERS} characters")
    return found


def unit(vector: Vector) -> list[float]:
    """The vector with length 1, each number to six digits; zeros stay zeros."""
    length = math.hypot(*vector) or 1.0
    return [_bounded(one / length) for one in vector]


def nearest(vectors: Sequence[Vector]) -> list[dict[str, Any]]:
    """All but the first by their nearness to the first, equally near ones in their order."""
    query, *texts = [unit(one) for one in vectors]
    scores = [_bounded(sum(map(float.__mul__, query, one))) for one in texts]
    order = sorted(range(len(scores)), key=lambda index: -scores[index])
    return [{"index": index, "score": scores[index]} for index in order]


def written(rows: Sequence[tuple[int, str]], vectors: Sequence[Vector]) -> str:
    """A line of JSON for each line of a file: its number, and its vector."""
    each = (
        {"line": number, "vector": unit(vector)} for (number, _), vector in zip(rows, vectors, strict=True)
    )
    return "".join(f"{json.dumps(one)}\n" for one in each)


def _bounded(number: float) -> float:
    return max(-1.0, min(1.0, round(number, _DIGITS)))
