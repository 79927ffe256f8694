"""Draws cards: the one tool of the image-gen interface, without any model.

A card has two colours, which come from the prompt's digest, and the prompt's words, as large as they fit. The
same words give the same bytes, so it serves where a picture has to be there and not what it shows: tests,
drafts, title pages. The face of Pillow itself is used, which has the letters of European languages.
"""

from __future__ import annotations

import colorsys
import hashlib
import io
import os
import unicodedata
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from handler_connector import Failure, serve

if TYPE_CHECKING:
    from handler_connector import Call

_SHAPES = {"square": (1.0, 1.0), "landscape": (1.0, 0.5625), "portrait": (0.5625, 1.0)}
_MARGIN = 0.08  # of the shorter side
_LEAST, _STEP = 8, 0.88  # pixels of the smallest letters, and how fast they shrink until all fits
_MEASURED = 64  # pixels of the letters whose width is measured
_SURE = 0.95  # of a line is filled: letters of another size are not quite in proportion
_LONGEST = 20  # letters of a word that stay together
_SPACING = 1.25  # line to line, in letter sizes
_UNSEEN = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"}  # categories of Unicode that leave no ink


def create(arguments: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """``image_gen_create``: a PNG file with the card of a prompt, and its size."""
    words = seen(arguments["prompt"])
    if not words:
        raise Failure("unsupported_prompt", "the prompt holds nothing that can be drawn")
    longer = int(os.environ.get("CARD_SIZE") or 1024)
    wide, high = _SHAPES[arguments.get("shape", "square")]
    size = (round(longer * wide), round(longer * high))
    arguments["output"].write(card(words, size))
    return {"width": size[0], "height": size[1]}


def seen(prompt: str) -> list[str]:
    """The words of a prompt, without the signs that leave no ink."""
    plain = "".join(" " if unicodedata.category(sign) in _UNSEEN - {"Cf"} else sign for sign in prompt)
    return "".join(sign for sign in plain if unicodedata.category(sign) != "Cf").split()


def card(words: list[str], size: tuple[int, int]) -> bytes:
    """The card as PNG: the same words and size, the same bytes."""
    from PIL import Image, ImageDraw, ImageFont  # noqa: PLC0415 - the start does not need it

    digest = hashlib.sha256(" ".join(words).encode()).digest()
    hue = digest[0] / 256
    near, far = _colour(hue, 0.42), _colour(hue + 0.08 + digest[1] / 2048, 0.18)
    shade = Image.linear_gradient("L").rotate(90 * (digest[2] % 4)).resize(size)
    picture = Image.composite(Image.new("RGB", size, far), Image.new("RGB", size, near), shade)
    draw = ImageDraw.Draw(picture)
    margin = min(size) * _MARGIN
    room = (size[0] - 2 * margin, size[1] - 2 * margin)
    points, lines = _set(pieces(words), ImageFont.load_default(_MEASURED).getlength, room)
    face = ImageFont.load_default(points)
    top = margin + (room[1] - len(lines) * points * _SPACING) / 2
    for number, line in enumerate(lines):
        draw.text((margin, top + number * points * _SPACING), line, fill=(250, 248, 240), font=face)
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


def _colour(hue: float, light: float) -> tuple[int, int, int]:
    red, green, blue = colorsys.hls_to_rgb(hue % 1, light, 0.45)
    return round(red * 255), round(green * 255), round(blue * 255)


def pieces(words: list[str]) -> list[str]:
    """The words, long ones cut, so that each fits a line in the smallest letters."""
    return [word[at : at + _LONGEST] for word in words for at in range(0, len(word), _LONGEST)]


def _set(
    words: list[str], length: Callable[[str], float], room: tuple[float, float]
) -> tuple[float, list[str]]:
    """The size of letters at which all words fit, and the lines; in the smallest ones the end is left out.

    Each word is measured once, at one size: its width at another is nearly in proportion.
    """
    widths = [length(word) / _MEASURED for word in words]
    gap = length(" ") / _MEASURED
    points = min(room) / 5
    while True:
        most = max(1, int(room[1] / points / _SPACING))
        lines = _broken(words, widths, gap, room[0] * _SURE / points)
        fits = len(lines) <= most and max(widths) * points <= room[0] * _SURE
        if fits or points <= _LEAST:
            return points, lines[:most]
        points = max(_LEAST, points * _STEP)


def _broken(words: list[str], widths: list[float], gap: float, width: float) -> list[str]:
    """The words in lines that are no wider than ``width`` by their measured widths."""
    lines, used = [words[0]], widths[0]
    for word, wide in zip(words[1:], widths[1:], strict=True):
        if used + gap + wide <= width:
            lines[-1] += f" {word}"
            used += gap + wide
        else:
            lines.append(word)
            used = wide
    return lines


if __name__ == "__main__":
    serve({"image_gen_create": create})
