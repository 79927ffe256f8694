"""From pieces of text found on a page to lines as the eye reads them, and which way up the page lies.

Nothing but numbers here: no picture, no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_SAME_LINE = 0.5  # two pieces share a line when their middles are nearer than this part of the lower one
_LONG = 3  # characters from which a piece tells how the page lies


@dataclass(frozen=True, slots=True)
class Page:
    """A page as it was read: lines in reading order, and each piece of a line with its box."""

    text: str
    blocks: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of text found at one place.

    ``score`` is how sure the model is, 0 to 1; ``box`` is left, top, right, bottom as fractions of the page.
    """

    text: str
    score: float
    box: tuple[float, float, float, float]
    tall: bool = False

    @property
    def middle(self) -> float:
        return (self.box[1] + self.box[3]) / 2

    @property
    def height(self) -> float:
        return self.box[3] - self.box[1]


def lies_on_its_side(pieces: Sequence[Piece]) -> bool:
    """Whether most of the longer pieces are high and narrow."""
    long = [piece for piece in pieces if len(piece.text) >= _LONG]
    return sum(piece.tall for piece in long) * 2 > len(long)


def sureness(pieces: Sequence[Piece]) -> float:
    """How surely the page was read, 0 to 1: the mean score of its characters."""
    characters = sum(len(piece.text) for piece in pieces)
    return sum(piece.score * len(piece.text) for piece in pieces) / characters if characters else 0.0


def page(pieces: Sequence[Piece], turn: int = 0) -> Page:
    """Pieces in reading order: rows from the top, and in a row from the left.

    ``turn`` is by how many degrees, against the clock, the page was turned to be read; boxes are of the page
    as it came.
    """
    rows: list[list[Piece]] = []
    for piece in sorted(pieces, key=lambda one: one.middle):
        last = rows[-1][-1] if rows else None
        if last and piece.middle - last.middle < _SAME_LINE * min(piece.height, last.height):
            rows[-1].append(piece)
        else:
            rows.append([piece])
    ordered = [sorted(row, key=lambda one: one.box) for row in rows]
    text = "\n".join(" ".join(piece.text for piece in row) for row in ordered)
    return Page(text, tuple(_block(piece, turn) for row in ordered for piece in row))


def _block(piece: Piece, turn: int) -> dict[str, Any]:
    left, top, right, bottom = piece.box
    match turn:
        case 90:
            box = (1 - bottom, left, 1 - top, right)
        case 180:
            box = (1 - right, 1 - bottom, 1 - left, 1 - top)
        case 270:
            box = (top, 1 - right, bottom, 1 - left)
        case _:
            box = piece.box
    return {"text": piece.text, "bbox": [round(side, 4) for side in box]}
