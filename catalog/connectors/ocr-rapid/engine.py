"""One page through RapidOCR: boxes found, read, and put into lines as the eye reads them.

The models lie inside the installed package; nothing is fetched. One model reads every language listed here,
so ``languages`` of a call chooses nothing and is only checked: a script that the model has never seen would
come back as look-alikes, which is worse than a refusal.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from PIL import Image
from rapidocr import RapidOCR

# ISO 639-1: the languages in Latin script whose letters the model knows, Chinese and Japanese.
_LATIN = """
af az bs ca cs cy da de en es et eu fi fr ga gl hr hu id is it ku la lb lt lv mi ms mt nb nl nn no oc pl pt
qu ro rm sk sl sq sv sw tl tr uz vi
"""
_LANGUAGES = frozenset((*_LATIN.split(), "ja", "zh"))
_SAME_LINE = 0.5  # two pieces share a line when their middles are nearer than this part of the lower one
_LEAST_SCORE = 0.5  # below it a piece is a stain more often than a word
_DOUBTFUL = 0.85  # a page read less surely than this may stand on its head
_TALL = 1.5  # how much higher than wide a piece is when its text runs up or down
_LONG = 3  # characters from which a piece tells how the page lies


class LanguageError(Exception):
    """None of the languages asked for is one that the model has learnt."""


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


def check_languages(codes: Sequence[str]) -> None:
    """Return when one of the codes at least can be read, or none is given; raises LanguageError."""
    if codes and not _LANGUAGES.intersection(codes):
        raise LanguageError(f"the model has not learnt {', '.join(codes)}")


@cache
def reader(threads: int) -> Reader:
    """The one engine of this process; the first call loads the models (a second or two)."""
    return Reader(threads)


class Reader:
    """RapidOCR, one page at a time: a second page at once would share the same processors."""

    def __init__(self, threads: int) -> None:
        within = min(threads, os.cpu_count() or 1, len(os.sched_getaffinity(0)))
        self._turn = threading.Lock()
        self._engine = RapidOCR(
            params={
                "Global.log_level": "error",
                "Global.text_score": 0.0,  # judged here, after the page has been judged as a whole
                "EngineConfig.onnxruntime.intra_op_num_threads": within,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            }
        )

    def read(self, picture: Image.Image) -> Page:
        """The page's lines; a page without text gives an empty one.

        A page that lies on its side or stands on its head is turned and read again. The package's own turning
        works line by line, and leaves the lines themselves in the wrong order.
        """
        with self._turn:
            turn, pieces = 0, self._pieces(picture)
            if lies_on_its_side(pieces):
                turn, pieces = 90, self._pieces(_turned(picture, 90))
            if pieces and sureness(pieces) < _DOUBTFUL:
                other = self._pieces(_turned(picture, turn + 180))
                if sureness(other) > sureness(pieces):
                    turn, pieces = turn + 180, other
        return page([piece for piece in pieces if piece.score >= _LEAST_SCORE], turn)

    def _pieces(self, picture: Image.Image) -> list[Piece]:
        found: Any = self._engine(np.asarray(picture)[:, :, ::-1], use_cls=False)
        if not found.txts:
            return []
        return [
            _piece(text, float(score), corners, picture.size)
            for text, score, corners in zip(found.txts, found.scores, found.boxes, strict=True)
            if text.strip()
        ]


def lies_on_its_side(pieces: Sequence[Piece]) -> bool:
    """Whether most of the longer pieces are high and narrow."""
    long = [piece for piece in pieces if len(piece.text) >= _LONG]
    return sum(piece.tall for piece in long) * 2 > len(long)


def sureness(pieces: Sequence[Piece]) -> float:
    """How surely the page was read, 0 to 1: the mean score of its characters."""
    characters = sum(len(piece.text) for piece in pieces)
    return sum(piece.score * len(piece.text) for piece in pieces) / characters if characters else 0.0


def _turned(picture: Image.Image, degrees: int) -> Image.Image:
    """Turned against the clock by a multiple of 90 degrees."""
    quarter = (None, Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270)
    how = quarter[degrees // 90]
    return picture if how is None else picture.transpose(how)


def _piece(text: str, score: float, corners: Any, size: tuple[int, int]) -> Piece:
    width, height = size
    xs = [min(1.0, max(0.0, float(x) / width)) for x in corners[:, 0]]
    ys = [min(1.0, max(0.0, float(y) / height)) for y in corners[:, 1]]
    tall = (max(ys) - min(ys)) * height > _TALL * (max(xs) - min(xs)) * width
    return Piece(" ".join(text.split()), score, (min(xs), min(ys), max(xs), max(ys)), tall=tall)


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
