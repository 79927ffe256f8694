"""Draws the scans that the catalogue's OCR cases read: a made-up invoice as a scanner would deliver it.

Run as ``python -m tests.kit.make_fixtures FOLDER``. Everything is drawn with the face inside Pillow and noise
from a seeded generator, so two runs with one Pillow give the same bytes. The fixtures of a published version
are frozen by ``catalog/handler.lock``: this script shows how they came to be and makes those of the next one.
Nobody in the invoice exists; the numbers are chosen so that look-alikes (0 and O, 1 and l) would show.
"""

import io
import random
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageFont

_DPI = 150
_PAGE = (1240, 1754)  # A4 at 150 dpi
_SEED = 42
_MARGIN = 110
_RIGHT = _PAGE[0] - _MARGIN

_ITEMS = (
    ("Archive boxes, acid-free, A4", "12", "18.50", "222.00"),
    ("Document scanning, per folder", "40", "24.75", "990.00"),
    ("Courier, two collections", "2", "55.00", "110.00"),
    ("Reading room, half day", "1", "78.00", "78.00"),
)


def _font(size: int) -> ImageFont.FreeTypeFont:
    face = ImageFont.load_default(size)
    if not isinstance(face, ImageFont.FreeTypeFont):
        raise TypeError("this Pillow was built without FreeType, so it holds no scalable face")
    return face


def _right(draw: ImageDraw.ImageDraw, x: int, y: int, text: str, size: int) -> None:
    draw.text((x, y), text, fill=20, font=_font(size), anchor="ra")


def _lines(draw: ImageDraw.ImageDraw, x: int, y: int, lines: Sequence[str], size: int = 24) -> None:
    for index, line in enumerate(lines):
        draw.text((x, y + index * int(size * 1.45)), line, fill=25, font=_font(size))


def invoice_page() -> Image.Image:
    """The clean page: letterhead, addresses, four items, sums, and where to pay."""
    page = Image.new("L", _PAGE, 250)
    draw = ImageDraw.Draw(page)
    draw.text((_MARGIN, 100), "Halberd & Finch Records", fill=15, font=_font(44))
    _lines(draw, _MARGIN, 165, ("14 Quayside Lane, Bristol BS1 4QA", "VAT GB 284 7719 03"), 22)
    draw.line((_MARGIN, 250, _RIGHT, 250), fill=90, width=3)
    draw.text((_MARGIN, 290), "INVOICE", fill=15, font=_font(52))
    facts = ("Invoice number: INV-2024-0042", "Invoice date: 17 June 2024", "Due date: 17 July 2024")
    _lines(draw, 690, 290, facts, 26)
    _lines(
        draw, _MARGIN, 420, ("Bill to", "Northgate Veterinary Practice", "3 Mill Street", "Leeds LS9 8AB"), 26
    )
    _table(draw, 640)
    _lines(
        draw,
        _MARGIN,
        1330,
        (
            "Please pay within 30 days and quote INV-2024-0042.",
            "Bank: Severn Mutual    Account: 20481937    Sort code: 40-27-15",
            "Questions: accounts@halberd-finch.example",
        ),
    )
    return page


def _table(draw: ImageDraw.ImageDraw, top: int) -> None:
    columns = (780, 950, _RIGHT)
    draw.text((_MARGIN, top), "Description", fill=15, font=_font(26))
    for x, text in zip(columns, ("Quantity", "Unit price", "Amount"), strict=True):
        _right(draw, x, top, text, 26)
    draw.line((_MARGIN, top + 45, _RIGHT, top + 45), fill=90, width=2)
    for row, (what, *numbers) in enumerate(_ITEMS):
        y = top + 70 + row * 58
        draw.text((_MARGIN, y), what, fill=25, font=_font(26))
        for x, text in zip(columns, numbers, strict=True):
            _right(draw, x, y, text, 26)
    bottom = top + 70 + len(_ITEMS) * 58 + 20
    draw.line((650, bottom, _RIGHT, bottom), fill=90, width=2)
    for row, (label, amount) in enumerate((("Subtotal", "1,400.00"), ("VAT 20%", "280.00"))):
        draw.text((650, bottom + 25 + row * 50), label, fill=25, font=_font(26))
        _right(draw, _RIGHT, bottom + 25 + row * 50, amount, 26)
    draw.text((650, bottom + 135), "Total due (GBP)", fill=10, font=_font(32))
    _right(draw, _RIGHT, bottom + 135, "1,680.00", 32)


def terms_page() -> Image.Image:
    """A second page of running text, so that a reading with two pages can be told from one."""
    page = Image.new("L", _PAGE, 250)
    draw = ImageDraw.Draw(page)
    draw.text((_MARGIN, 120), "Terms of service", fill=15, font=_font(44))
    _lines(
        draw,
        _MARGIN,
        230,
        (
            "1. Records are collected, scanned and kept for seven years.",
            "2. A folder is returned within five working days of a request.",
            "3. Payment is due thirty days after the date of the invoice.",
            "4. Either side may end this agreement with ninety days of notice.",
            "",
            "Reference: TERMS-7731",
        ),
        28,
    )
    _lines(draw, 560, 1600, ("Page 2 of 2",), 22)
    return page


def scanned(page: Image.Image, *, degrees: float, seed: int = _SEED) -> Image.Image:
    """The page as a scanner sees it: a little turned, soft, uneven in light, with grain and specks."""
    dice = random.Random(seed)
    turned = page.rotate(degrees, Image.Resampling.BICUBIC, fillcolor=244)
    soft = turned.filter(ImageFilter.GaussianBlur(0.6))
    grain = Image.frombytes("L", page.size, dice.randbytes(page.width * page.height))
    grain = grain.filter(ImageFilter.GaussianBlur(1.0)).point(lambda value: 128 + (value - 128) // 8)
    shade = Image.linear_gradient("L").resize(page.size).point(lambda value: 255 - value // 16)
    scan = ImageChops.multiply(ImageChops.add(soft, grain, 1, -128), shade)
    draw = ImageDraw.Draw(scan)
    for _ in range(60):
        x, y = dice.randrange(page.width), dice.randrange(page.height)
        draw.ellipse((x, y, x + dice.randint(1, 2), y + dice.randint(1, 2)), fill=dice.randint(90, 190))
    return scan


def _jpeg(image: Image.Image, quality: int = 50) -> bytes:
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality, dpi=(_DPI, _DPI), optimize=True)
    return out.getvalue()


def _png(image: Image.Image) -> bytes:
    """Twelve greys, as scanners offer for text: grain would otherwise make the file six times as large."""
    out = io.BytesIO()
    flat = image.point(lambda value: value // 21 * 21).quantize(16, dither=Image.Dither.NONE)
    flat.save(out, "PNG", dpi=(_DPI, _DPI), optimize=True)
    return out.getvalue()


def _tiff(images: Sequence[Image.Image]) -> bytes:
    out = io.BytesIO()
    black = [image.point(lambda value: 255 * (value > 150)).convert("1") for image in images]
    black[0].save(out, "TIFF", compression="group4", save_all=True, append_images=black[1:], dpi=(_DPI, _DPI))
    return out.getvalue()


def image_pdf(images: Sequence[Image.Image]) -> bytes:
    """A PDF with one JPEG a page and no text layer, written by hand: no dates, no producer, no identifier."""
    count = len(images)
    kids = " ".join(f"{3 + 3 * index} 0 R" for index in range(count))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {count} /Kids [{kids}] >>".encode(),
    ]
    for index, image in enumerate(images):
        first = 3 + 3 * index
        width, height = (round(side * 72 / _DPI, 2) for side in image.size)
        data = _jpeg(image)
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width} {height}] /Contents {first + 1} 0 R "
            f"/Resources << /XObject << /Scan {first + 2} 0 R >> >> >>".encode(),
            _stream(b"", f"{width} 0 0 {height} 0 0 cm /Scan Do".encode()),
            _stream(
                f"/Type /XObject /Subtype /Image /Width {image.width} /Height {image.height} "
                f"/ColorSpace /DeviceGray /BitsPerComponent 8 /Filter /DCTDecode ".encode(),
                data,
            ),
        ]
    return _pdf(objects)


def _stream(entries: bytes, data: bytes) -> bytes:
    return b"<< %b/Length %d >>\nstream\n%b\nendstream" % (entries, len(data), data)


def _pdf(objects: Sequence[bytes]) -> bytes:
    out = bytearray(b"%PDF-1.5\n%\xe2\xe3\xcf\xd3\n")
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(out)


def _oversized_png(side: int = 24_000) -> bytes:
    """A white image of 576 million pixels in a small file: what a reader must refuse before it unpacks it."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\xff" * (side // 8)) * side
    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows, 9))
        + chunk(b"IEND", b"")
    )


def _zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        entry = zipfile.ZipInfo("readme.txt", date_time=(2024, 6, 17, 12, 0, 0))
        archive.writestr(
            entry, "An archive is neither a PDF nor an image. INV-2024-0042 stands in it all the same.\n"
        )
    return out.getvalue()


def fixtures() -> Mapping[str, Callable[[], bytes]]:
    """Every fixture by file name, and what makes it."""
    first = scanned(invoice_page(), degrees=0.6)
    second = scanned(terms_page(), degrees=-0.4, seed=_SEED + 1)
    whole = image_pdf([first])
    return {
        "invoice.pdf": lambda: whole,
        "invoice.png": lambda: _png(first),
        "invoice.jpg": lambda: _jpeg(first),
        "upside-down.jpg": lambda: _jpeg(first.transpose(Image.Transpose.ROTATE_180)),
        "two-pages.pdf": lambda: image_pdf([first, second]),
        "two-pages.tiff": lambda: _tiff([first, second]),
        "blank.pdf": lambda: image_pdf([scanned(Image.new("L", _PAGE, 250), degrees=0.0, seed=_SEED + 2)]),
        "broken.pdf": lambda: whole[:2048].replace(b"obj", b"0bj"),
        "oversized.png": _oversized_png,
        "archive.zip": _zip,
        "empty.pdf": lambda: b"",
    }


def main(folder: Path) -> None:
    """Write every fixture into ``folder``, replacing what is there."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in fixtures().items():
        (folder / name).write_bytes(make())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.kit.make_fixtures FOLDER")
    main(Path(sys.argv[1]))
