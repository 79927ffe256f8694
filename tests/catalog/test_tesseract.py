"""What ocr-tesseract decides without its engine: what a file is, how large, which languages, which lines."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.catalog.loading import modules

FIXTURES = Path(__file__).resolve().parents[2] / "catalog" / "interfaces" / "ocr" / "v1" / "conformance"
DOCUMENTS, ENGINE, PROGRAMS = modules("ocr-tesseract", "documents", "engine", "programs")


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ENGINE, "_installed", lambda: frozenset({"eng", "deu", "chi_tra", "osd"}))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("invoice.pdf", "pdf"),
        ("invoice.png", "png"),
        ("invoice.jpg", "jpeg"),
        ("two-pages.tiff", "tiff"),
        ("broken.pdf", "pdf"),  # whether it can be opened is another question
    ],
)
def test_a_file_is_told_by_its_first_bytes(name: str, kind: str, tmp_path: Path) -> None:
    under_another_name = tmp_path / "scan.txt"
    under_another_name.write_bytes((FIXTURES / name).read_bytes())
    assert DOCUMENTS.kind(str(under_another_name)) == kind


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"hello", b"RIFF\0\0\0\0WAVEfmt ", b"\x89PNG"])
def test_anything_else_is_unreadable(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "invoice.pdf"
    file.write_bytes(data)
    with pytest.raises(DOCUMENTS.UnreadableError):
        DOCUMENTS.kind(str(file))


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "lossless"])
def test_the_size_of_a_picture_is_read_from_its_header(form: str, tmp_path: Path) -> None:
    file = tmp_path / "picture"
    picture = Image.new("RGB", (321, 123), "white")
    if form == "lossless":
        picture.save(file, "WEBP", lossless=True)
    else:
        picture.save(file, form)
    sizes = DOCUMENTS._SIZES[DOCUMENTS.kind(str(file))]
    assert list(sizes(file.read_bytes())) == [(321, 123)]


def test_every_page_of_a_tiff_is_measured() -> None:
    data = (FIXTURES / "two-pages.tiff").read_bytes()
    assert list(DOCUMENTS._SIZES["tiff"](data)) == [(1240, 1754)] * 2


def test_a_tiff_whose_pages_are_a_ring_ends() -> None:
    entry = struct.pack("<HHII", 256, 4, 1, 10)
    ring = b"II*\0" + struct.pack("<IH", 8, 1) + entry + struct.pack("<I", 8)
    assert list(DOCUMENTS._SIZES["tiff"](ring)) == [(10, 0)]


def test_a_large_picture_in_a_small_file_is_too_large() -> None:
    with pytest.raises(DOCUMENTS.TooLargeError, match="24000 x 24000"):
        DOCUMENTS.check_picture(str(FIXTURES / "oversized.png"), 500)


def test_a_picture_with_more_pages_than_allowed_is_too_large() -> None:
    with pytest.raises(DOCUMENTS.TooLargeError, match="2 pages, more than 1"):
        DOCUMENTS.check_picture(str(FIXTURES / "two-pages.tiff"), 1)


@given(st.sampled_from(["png", "jpeg", "gif", "bmp", "tiff", "webp"]), st.binary(max_size=200))
def test_no_header_whatever_its_bytes_does_worse_than_be_unreadable(kind: str, tail: bytes) -> None:
    magic = {
        "png": b"\x89PNG\r\n\x1a\n",
        "jpeg": b"\xff\xd8\xff",
        "gif": b"GIF89a",
        "bmp": b"BM",
        "tiff": b"II*\0",
        "webp": b"RIFF\0\0\0\0WEBP",
    }[kind]
    try:
        sizes = list(DOCUMENTS._SIZES[kind](magic + tail))
    except (struct.error, IndexError):
        return  # what check_picture turns into unreadable
    assert all(width >= 0 and height >= 0 for width, height in sizes)


@given(st.integers(1, 2000), st.integers(1, 2000), st.sampled_from([100, 150, 200, 300, 400]))
def test_a_page_is_drawn_as_asked_or_coarser_and_never_beyond_the_bound(
    width: int, height: int, dpi: int
) -> None:
    fitting = DOCUMENTS.fitting_dpi((width, height), dpi)
    assert fitting <= dpi
    assert width / 72 * fitting * height / 72 * fitting <= DOCUMENTS._MOST_PIXELS


def test_a_page_that_would_lose_its_letters_is_too_large() -> None:
    with pytest.raises(DOCUMENTS.TooLargeError):
        DOCUMENTS.fitting_dpi((14400, 14400), 200)


@pytest.mark.parametrize(
    ("codes", "argument"),
    [
        (["en"], "eng"),
        (["de", "en"], "deu+eng"),
        (["en", "en"], "eng"),
        (["fr", "en"], "eng"),  # what is missing is left out while something is there
        (["zh"], "chi_tra"),  # of a language's files, those that are there
        (["zh", "de"], "chi_tra+deu"),
    ],
)
def test_two_letter_codes_become_the_language_files_that_are_there(codes: list[str], argument: str) -> None:
    assert ENGINE.languages(codes) == argument


@pytest.mark.parametrize(
    ("codes", "words"), [(["fr"], "tesseract-ocr-fra"), (["xx"], "no package"), (["os"], "no package")]
)
def test_no_language_at_all_names_the_package_that_is_missing(codes: list[str], words: str) -> None:
    with pytest.raises(ENGINE.LanguageError, match=words):
        ENGINE.languages(codes)


def row(*cells: object) -> str:
    return "\t".join(map(str, cells))


def test_words_become_lines_paragraphs_and_boxes() -> None:
    head = row(
        "level", "page", "block", "par", "line", "word", "left", "top", "width", "height", "conf", "text"
    )
    rows = [
        row(1, 1, 0, 0, 0, 0, 0, 0, 1000, 2000, -1, ""),
        row(5, 1, 1, 1, 1, 1, 100, 200, 50, 20, 95.5, "Total"),
        row(5, 1, 1, 1, 1, 2, 160, 198, 90, 24, 90, "due"),
        row(5, 1, 1, 1, 2, 1, 100, 240, 50, 20, 91, "(GBP)"),
        row(5, 1, 1, 1, 3, 1, 0, 0, 50, 20, 95, " "),  # what is found in rules and stains
        row(5, 1, 2, 1, 1, 1, 800, 200, 150, 20, 96, "1,680.00"),
        row(1, 2, 0, 0, 0, 0, 0, 0, 1000, 2000, -1, ""),
    ]
    first, second = ENGINE._pages("\n".join([head, *rows, ""]).encode())
    assert first.text == "Total due\n(GBP)\n\n1,680.00"
    assert first.blocks == (
        {"text": "Total due", "bbox": [0.1, 0.099, 0.25, 0.111]},
        {"text": "(GBP)", "bbox": [0.1, 0.12, 0.15, 0.13]},
        {"text": "1,680.00", "bbox": [0.8, 0.1, 0.95, 0.11]},
    )
    assert (second.text, second.blocks) == ("", ())
