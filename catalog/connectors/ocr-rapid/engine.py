"""One page through RapidOCR: boxes found, read, and put into lines as the eye reads them.

The models lie inside the installed package; nothing is fetched. One model reads every language listed here,
so ``languages`` of a call chooses nothing and is only checked: a script that the model has never seen would
come back as look-alikes, which is worse than a refusal.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import layout
import numpy as np
from PIL import Image
from rapidocr import RapidOCR

# ISO 639-1: the languages in Latin script whose letters the model knows, Chinese and Japanese.
_LATIN = """
af az bs ca cs cy da de en es et eu fi fr ga gl hr hu id is it ku la lb lt lv mi ms mt nb nl nn no oc pl pt
qu ro rm sk sl sq sv sw tl tr uz vi
"""
_LANGUAGES = frozenset((*_LATIN.split(), "ja", "zh"))
_LEAST_SCORE = 0.5  # below it a piece is a stain more often than a word
_DOUBTFUL = 0.85  # a page read less surely than this may stand on its head
_TALL = 1.5  # how much higher than wide a piece is when its text runs up or down


class LanguageError(Exception):
    """None of the languages asked for is one that the model has learnt."""


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

    def read(self, picture: Image.Image) -> layout.Page:
        """The page's lines; a page without text gives an empty one.

        A page that lies on its side or stands on its head is turned and read again. The package's own turning
        works line by line, and leaves the lines themselves in the wrong order.
        """
        with self._turn:
            turn, pieces = 0, self._pieces(picture)
            if layout.lies_on_its_side(pieces):
                turn, pieces = 90, self._pieces(_turned(picture, 90))
            if pieces and layout.sureness(pieces) < _DOUBTFUL:
                other = self._pieces(_turned(picture, turn + 180))
                if layout.sureness(other) > layout.sureness(pieces):
                    turn, pieces = turn + 180, other
        return layout.page([piece for piece in pieces if piece.score >= _LEAST_SCORE], turn)

    def _pieces(self, picture: Image.Image) -> list[layout.Piece]:
        found: Any = self._engine(np.asarray(picture)[:, :, ::-1], use_cls=False)
        if not found.txts:
            return []
        return [
            _piece(text, float(score), corners, picture.size)
            for text, score, corners in zip(found.txts, found.scores, found.boxes, strict=True)
            if text.strip()
        ]


def _turned(picture: Image.Image, degrees: int) -> Image.Image:
    """Turned against the clock by a multiple of 90 degrees."""
    quarter = (None, Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270)
    how = quarter[degrees // 90]
    return picture if how is None else picture.transpose(how)


def _piece(text: str, score: float, corners: Any, size: tuple[int, int]) -> layout.Piece:
    width, height = size
    xs = [min(1.0, max(0.0, float(x) / width)) for x in corners[:, 0]]
    ys = [min(1.0, max(0.0, float(y) / height)) for y in corners[:, 1]]
    tall = (max(ys) - min(ys)) * height > _TALL * (max(xs) - min(xs)) * width
    return layout.Piece(" ".join(text.split()), score, (min(xs), min(ys), max(xs), max(ys)), tall=tall)
