"""Reads scans with Tesseract: the two tools of the ocr interface, and what becomes of every failure.

``documents`` says what a file is and draws its pages, ``engine`` reads one page, ``programs`` runs a program
within bounds. The pages of one call are shared out to a few threads, since each runs a program and waits. At
most as many programs run at once as there are processors, whoever called: a long document of one agent delays
the letter of another by the pages under way, not by all its pages.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import documents
import engine
import programs
from handler_connector import Failure, serve

if TYPE_CHECKING:
    from handler_connector import Call, File

_MOST_PAGES = 2000  # what ocr/v2 lets an answer hold
_PROCESSORS = min(4, len(os.sched_getaffinity(0)))
_turn = threading.BoundedSemaphore(_PROCESSORS)


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


def _pages(arguments: Mapping[str, Any], call: Call) -> list[engine.Page]:
    try:
        languages = engine.languages(arguments.get("languages") or _setting("OCR_LANGUAGES", "en").split(","))
        return _read(_jobs(arguments["path"], languages, call), call)
    except documents.UnreadableError as error:
        raise Failure("unsupported_format", str(error)) from error
    except documents.TooLargeError as error:
        raise Failure("too_large", str(error)) from error
    except engine.LanguageError as error:
        raise Failure("unsupported_language", str(error)) from error
    except programs.BrokenError as error:
        raise Failure("unavailable", str(error)) from error


def _jobs(file: File, languages: str, call: Call) -> list[Callable[[], list[engine.Page]]]:
    """One piece of work a page of a PDF, or one for a picture, whose pages Tesseract turns itself."""
    most = min(_MOST_PAGES, int(_setting("OCR_MAX_PAGES", "500")))
    stopped = call.cancelled.is_set
    path = str(file.path)
    if documents.kind(path) != "pdf":
        documents.check_picture(path, most)
        return [lambda: engine.read_picture(path, languages, stopped)]
    dpi = int(_setting("OCR_DPI", "200"))

    def page(number: int, size: tuple[float, float]) -> list[engine.Page]:
        fitting = documents.fitting_dpi(size, dpi)
        drawing = documents.draw(path, number, fitting, stopped)
        return engine.read_drawing(drawing, fitting, languages, stopped)

    sizes = documents.pdf_pages(path, most, stopped)
    return [partial(page, number, size) for number, size in enumerate(sizes, start=1)]


def _read(jobs: Sequence[Callable[[], list[engine.Page]]], call: Call) -> list[engine.Page]:
    """Do all jobs, a few at once, and give their pages in order; a failure ends what has not begun."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - the start does not need it

    def in_turn(job: Callable[[], list[engine.Page]]) -> list[engine.Page]:
        with _turn:
            return job()

    pages: list[engine.Page] = []
    with ThreadPoolExecutor(min(_PROCESSORS, len(jobs))) as pool:
        running = [pool.submit(in_turn, job) for job in jobs]
        try:
            for done, future in enumerate(running, start=1):
                pages += future.result()
                call.progress(done, len(jobs))
        finally:
            for future in running:
                future.cancel()
    return pages


def _setting(variable: str, default: str) -> str:
    return os.environ.get(variable) or default


if __name__ == "__main__":
    serve({"ocr_extract": extract, "ocr_extract_to_file": extract_to_file})
