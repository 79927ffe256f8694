"""Reads scans with RapidOCR: the two tools of the ocr interface, and what becomes of every failure.

``documents`` opens files and draws their pages, ``engine`` reads one page, ``layout`` puts it in order. The
engine is one for all callers and reads one page at a time with all the threads it may use, so the pages of
several calls take turns. Models and libraries load with the first page, not with the start: saying that one
is ready needs neither.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from handler_connector import Failure, serve

if TYPE_CHECKING:
    import layout
    from handler_connector import Call

_MOST_PAGES = 2000  # what ocr/v2 lets an answer hold


def extract(arguments: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """``ocr_extract``: every page with its text and where its lines stand."""
    pages = _pages(arguments, call)
    return {"pages": [{"text": page.text, "blocks": list(page.blocks)} for page in pages]}


def extract_to_file(arguments: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """``ocr_extract_to_file``: the text into one file, and the line on which each page starts.

    Between two pages stands a line that holds a form feed alone.
    """
    pages = _pages(arguments, call)
    starts, line = [], 1
    for page in pages:
        starts.append({"line": line, "characters": len(page.text)})
        line += page.text.count("\n") + 2  # its own line ends, and the line of the form feed
    arguments["output"].write("\n\f\n".join(page.text for page in pages).encode() + b"\n")
    return {"pages": starts, "characters": sum(len(page.text) for page in pages)}


def _pages(arguments: Mapping[str, Any], call: Call) -> list[layout.Page]:
    import documents  # noqa: PLC0415 - Pillow and pdfium: half a second that the start does not pay
    import engine  # noqa: PLC0415 - numpy, OpenCV, onnxruntime: a second and more

    try:
        engine.check_languages(arguments.get("languages") or [])
        reader = engine.reader(int(os.environ.get("OCR_THREADS") or 4))
        most = min(_MOST_PAGES, int(os.environ.get("OCR_MAX_PAGES") or 500))
        pages = []
        with documents.opened(arguments["path"].read(), int(os.environ.get("OCR_DPI") or 200)) as document:
            if document.count > most:
                raise documents.TooLargeError(f"{document.count} pages, more than {most}")
            for number in range(document.count):
                if call.cancelled.is_set():
                    raise Failure("unavailable", "the call was cancelled")
                pages.append(reader.read(document.draw(number)))
                call.progress(number + 1, document.count)
    except documents.UnreadableError as error:
        raise Failure("unsupported_format", str(error)) from error
    except documents.TooLargeError as error:
        raise Failure("too_large", str(error)) from error
    except engine.LanguageError as error:
        raise Failure("unsupported_language", str(error)) from error
    return pages


if __name__ == "__main__":
    serve({"ocr_extract": extract, "ocr_extract_to_file": extract_to_file})
