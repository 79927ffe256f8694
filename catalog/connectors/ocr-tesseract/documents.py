"""What a file is, by its first bytes and never by its name; its pages and their sizes; the drawing of PDFs.

Sizes are read from headers before anything is unpacked, since a small file can hold a huge picture.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import programs

_MOST_PIXELS = 40_000_000  # a page: A3 at 400 dots per inch is 31 million
_LEAST_DPI = 50  # below it no letter is left; a page that needs less is no page
_HEAD = 1024  # a PDF may have this much before its own header
_PAGE_SIZE = re.compile(rb"^Page +\d+ size: +([\d.]+) x ([\d.]+) pts", re.MULTILINE)
_PAGE_COUNT = re.compile(rb"^Pages: +(\d+)$", re.MULTILINE)
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"II*\0", "tiff"),
    (b"MM\0*", "tiff"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"BM", "bmp"),
)


class UnreadableError(Exception):
    """No PDF and no picture, or one that cannot be opened."""


class TooLargeError(Exception):
    """More pages, or larger ones, than are read."""


def kind(path: str) -> str:
    """pdf, png, jpeg, tiff, gif, bmp or webp; raises UnreadableError for anything else."""
    with Path(path).open("rb") as file:
        head = file.read(_HEAD)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "webp"
    for magic, word in _MAGIC:
        if head.startswith(magic):
            return word
    if b"%PDF-" in head:
        return "pdf"
    raise UnreadableError("the first bytes are of no PDF and no picture")


def check_picture(path: str, most_pages: int) -> None:
    """Return when every page of the picture has a bearable size; raises TooLargeError or UnreadableError."""
    data = Path(path).read_bytes()
    try:
        sizes = list(_SIZES[kind(path)](data))
    except (struct.error, IndexError) as error:
        raise UnreadableError("the header of the picture is cut short") from error
    if not sizes:
        raise UnreadableError("the picture holds no size")
    if len(sizes) > most_pages:
        raise TooLargeError(f"{len(sizes)} pages, more than {most_pages}")
    for width, height in sizes:
        if width * height > _MOST_PIXELS:
            raise TooLargeError(f"a page of {width} x {height} pixels")


def pdf_pages(path: str, most: int, stopped: Callable[[], bool]) -> list[tuple[float, float]]:
    """Width and height of each page in points (1/72 inch); raises UnreadableError or TooLargeError."""
    try:
        told = programs.run(("pdfinfo", "-f", "1", "-l", str(most), path), stopped)
    except programs.RefusedError as error:
        raise UnreadableError(str(error)) from error
    count = _PAGE_COUNT.search(told)
    sizes = [(float(width), float(height)) for width, height in _PAGE_SIZE.findall(told)]
    if count is None or not sizes:
        raise UnreadableError("the PDF has no page")
    if int(count[1]) > most:
        raise TooLargeError(f"{int(count[1])} pages, more than {most}")
    return sizes


def fitting_dpi(size: tuple[float, float], dpi: int) -> int:
    """The resolution to draw a page at: ``dpi``, or what keeps a poster in bounds; raises TooLargeError."""
    square_inches = max(size[0] * size[1], 1.0) / 72**2
    fitting = min(dpi, int((_MOST_PIXELS / square_inches) ** 0.5))
    if fitting < _LEAST_DPI:
        raise TooLargeError(f"a page of {size[0]:.0f} x {size[1]:.0f} points")
    return fitting


def draw(path: str, number: int, dpi: int, stopped: Callable[[], bool]) -> bytes:
    """One page of a PDF as a grey picture (PGM); raises UnreadableError."""
    argv = ("pdftoppm", "-gray", "-singlefile", "-r", str(dpi), "-f", str(number), "-l", str(number), path)
    try:
        drawn = programs.run(argv, stopped)
    except programs.RefusedError as error:
        raise UnreadableError(str(error)) from error
    if not drawn:
        raise UnreadableError(f"page {number} cannot be drawn")
    return drawn


def _png(data: bytes) -> Iterator[tuple[int, int]]:
    yield struct.unpack_from(">II", data, 16)


def _gif(data: bytes) -> Iterator[tuple[int, int]]:
    yield struct.unpack_from("<HH", data, 6)


def _bmp(data: bytes) -> Iterator[tuple[int, int]]:
    width, height = struct.unpack_from("<ii", data, 18)
    yield abs(width), abs(height)


def _jpeg(data: bytes) -> Iterator[tuple[int, int]]:
    at = 2
    while at < len(data):
        if data[at] != 0xFF:
            return
        marker = data[at + 1]
        if marker == 0xFF:  # filling
            at += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # a frame, whatever its coding
            height, width = struct.unpack_from(">HH", data, at + 5)
            yield width, height
            return
        at += 2 + int(struct.unpack_from(">H", data, at + 2)[0])


def _webp(data: bytes) -> Iterator[tuple[int, int]]:
    form = data[12:16]
    if form == b"VP8X":
        yield int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    elif form == b"VP8L":
        bits = int(struct.unpack_from("<I", data, 21)[0])
        yield (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    else:
        width, height = struct.unpack_from("<HH", data, 26)
        yield width & 0x3FFF, height & 0x3FFF


def _tiff(data: bytes) -> Iterator[tuple[int, int]]:
    order = "<" if data[:2] == b"II" else ">"
    seen: set[int] = set()
    at = int(struct.unpack_from(order + "I", data, 4)[0])
    while at and at not in seen:  # a chain of directories, one a page; a ring of them ends it
        seen.add(at)
        entries = int(struct.unpack_from(order + "H", data, at)[0])
        sides = {256: 0, 257: 0}
        for entry in range(at + 2, at + 2 + 12 * entries, 12):
            tag, form = struct.unpack_from(order + "HH", data, entry)
            if tag in sides:
                sides[tag] = int(struct.unpack_from(order + ("H" if form == 3 else "I"), data, entry + 8)[0])
        yield sides[256], sides[257]
        at = int(struct.unpack_from(order + "I", data, at + 2 + 12 * entries)[0])


_SIZES = {"png": _png, "gif": _gif, "bmp": _bmp, "jpeg": _jpeg, "webp": _webp, "tiff": _tiff}
