"""What a file is, by its first bytes and never by its name; how many pages it has; and each page as pixels.

PDFs are drawn by pdfium, pictures opened by Pillow. Sizes are judged before anything is unpacked, since a
small file can hold a huge picture. pdfium is not made for threads: one lock stands before every use of it.
"""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Protocol

import pypdfium2
from PIL import Image, ImageOps

_MOST_PIXELS = 40_000_000  # a page: A3 at 400 dots per inch is 31 million
_LEAST_DPI = 50  # below it no letter is left; a page that needs less is no page
_HEAD = 1024  # a PDF may have this much before its own header
_FORMATS = ("PNG", "JPEG", "TIFF", "GIF", "BMP", "WEBP")
_FRAMED = "TIFF"  # the one whose frames are pages; those of GIF and WebP are an animation

_pdfium = threading.Lock()
Image.MAX_IMAGE_PIXELS = None  # judged here, page by page, with an error of our own
warnings.simplefilter("ignore", Image.DecompressionBombWarning)


class UnreadableError(Exception):
    """No PDF and no picture, or one that cannot be opened."""


class TooLargeError(Exception):
    """More pages, or larger ones, than are read."""


class Document(Protocol):
    """A file with pages, numbered from 0, that can be had as RGB pictures."""

    count: int

    def draw(self, number: int) -> Image.Image: ...


@contextmanager
def opened(data: bytes, dpi: int) -> Iterator[Document]:
    """The document that ``data`` is; raises UnreadableError for what is no PDF and no picture."""
    if b"%PDF-" in data[:_HEAD]:
        with _pdfium:
            try:
                pdf = pypdfium2.PdfDocument(data)
                count = len(pdf)
            except pypdfium2.PdfiumError as error:
                raise UnreadableError(str(error)) from error
        try:
            yield _Pdf(pdf, count, dpi)
        finally:
            with _pdfium:
                pdf.close()
        return
    try:
        picture = Image.open(io.BytesIO(data), formats=_FORMATS)
    except (OSError, SyntaxError, ValueError) as error:
        raise UnreadableError("no PDF, and no picture that can be opened") from error
    with closing(picture):
        yield _Picture(picture)


class _Pdf:
    def __init__(self, pdf: pypdfium2.PdfDocument, count: int, dpi: int) -> None:
        if not count:
            raise UnreadableError("the PDF has no page")
        self._pdf, self.count, self._dpi = pdf, count, dpi

    def draw(self, number: int) -> Image.Image:
        """The page, drawn."""
        with _pdfium:
            try:
                page = self._pdf[number]
                fitting = fitting_dpi(page.get_size(), self._dpi)
                drawn: Image.Image = page.render(scale=fitting / 72).to_pil()
                page.close()
            except pypdfium2.PdfiumError as error:
                raise UnreadableError(f"page {number + 1} cannot be drawn: {error}") from error
        return drawn.convert("RGB")


class _Picture:
    def __init__(self, picture: Image.Image) -> None:
        self._picture = picture
        self.count = getattr(picture, "n_frames", 1) if picture.format == _FRAMED else 1

    def draw(self, number: int) -> Image.Image:
        """The page as it should be seen: turned as the camera noted."""
        try:
            self._picture.seek(number)
            if self._picture.width * self._picture.height > _MOST_PIXELS:
                raise TooLargeError(f"a page of {self._picture.width} x {self._picture.height} pixels")
            return ImageOps.exif_transpose(self._picture).convert("RGB")
        except (OSError, SyntaxError, ValueError) as error:
            raise UnreadableError(f"page {number + 1} cannot be unpacked") from error


def fitting_dpi(size: tuple[float, float], dpi: int) -> int:
    """The resolution for a page of ``size`` points (1/72 inch): ``dpi``, or what keeps a poster in bounds."""
    square_inches = max(size[0] * size[1], 1.0) / 72**2
    fitting = min(dpi, int((_MOST_PIXELS / square_inches) ** 0.5))
    if fitting < _LEAST_DPI:
        raise TooLargeError(f"a page of {size[0]:.0f} x {size[1]:.0f} points")
    return fitting
