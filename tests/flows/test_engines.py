"""Every connector of the ocr interface, its real engine, against every case of what it implements.

``ocr-rapid`` takes seconds for a page: at the usual effort it is spared pages that are read as others are,
which `make flows` lets it read. It works with one thread: with more, each waits for the others by spinning,
and a page costs half as much again, three times as much where other tests want the processors.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from reconciler.conformance import cases
from tests.kit.effort import EFFORT
from tests.kit.engines import Running, connectors, contract, interface, spec, started, suite
from tests.kit.make_fixtures import image_pdf

pytestmark = pytest.mark.flow


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Running]]:
    """A connector by name, started once for all tests: loading models a hundred times proves nothing."""
    known: dict[str, Running] = {}
    with ExitStack() as all_of_them:

        def of(connector: str) -> Running:
            if connector not in known:
                folder = tmp_path_factory.mktemp(connector)
                known[connector] = all_of_them.enter_context(started(connector, folder, SETTINGS[connector]))
            return known[connector]

        yield of


SETTINGS: dict[str, dict[str, object]] = {"ocr-rapid": {"threads": 1}, "ocr-tesseract": {}}
SPARED = {
    "invoice as a photograph",
    "both pages of a document, in order",
    "both pages of a fax",
    "a language is named",
}


def spared(connector: str) -> bool:
    return connector == "ocr-rapid" and EFFORT <= 1


def _tries() -> list[Any]:
    return [
        pytest.param(connector, version, case, id=f"{connector}-{version}-{case.name}")
        for connector in connectors("ocr")
        for version in spec(connector).implements
        for case in suite(version)
        if not (spared(connector) and case.name in SPARED)
    ]


def _turns() -> list[Any]:
    return [
        pytest.param(connector, degrees, id=f"{connector}-{degrees}")
        for connector in connectors("ocr")
        for degrees in ((90,) if spared(connector) else (0, 90, 180, 270))
    ]


def test_what_is_spared_are_cases_that_there_are() -> None:
    assert {case.name for case in suite("ocr/v1")} >= SPARED


@pytest.mark.timeout(900)  # the first case of an engine may have to fetch its wheels
@pytest.mark.parametrize(("connector", "version", "case"), _tries())
def test_a_connector_keeps_what_its_interface_promises(
    engine: Callable[[str], Running], connector: str, version: str, case: cases.Case
) -> None:
    outcome = engine(connector).outcome(contract(version), case, interface(version) / "conformance")
    assert cases.judge(case, outcome) == ()


EACH = pytest.mark.parametrize("connector", connectors("ocr"))
INVOICE = interface("ocr/v2") / "conformance" / "invoice.jpg"


def read(running: Running, path: Path) -> dict[str, Any]:
    """The answer of ``ocr_extract``, held to ocr/v2; or the error's code under ``error``."""
    result = running.answer(running.start("ocr_extract", {"path": running.hand_over(path)}))
    if result.get("isError"):
        return {"error": result["_meta"]["ai.handler/error"]["code"]}
    structured: dict[str, Any] = result["structuredContent"]
    assert contract("ocr/v2").tools["ocr_extract"].output_fault(structured) is None
    return structured


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("connector", "degrees"), _turns())
def test_a_page_is_read_whichever_way_it_was_scanned_and_boxes_are_of_the_page_as_it_came(
    engine: Callable[[str], Running], connector: str, degrees: int, tmp_path: Path
) -> None:
    page = tmp_path / "page.png"
    Image.open(INVOICE).rotate(degrees, expand=True).save(page)
    (found,) = read(engine(connector), page)["pages"]
    text = found["text"]
    assert text.index("Quayside") < text.index("Bill to") < text.index("Questions")
    assert "1,680.00" in text
    (box,) = [block["bbox"] for block in found["blocks"] if "Quayside" in block["text"]]
    upright = (0.0798, 0.0941, 0.3665, 0.1135)  # where the address stands on the page that was drawn
    left, top, right, bottom = upright
    where = {
        0: upright,
        90: (top, 1 - right, bottom, 1 - left),
        180: (1 - right, 1 - bottom, 1 - left, 1 - top),
        270: (1 - bottom, left, 1 - top, right),
    }
    assert box == pytest.approx(where[degrees], abs=0.02)


@pytest.mark.timeout(900)
@EACH
def test_a_pdf_of_text_whose_font_is_not_inside_is_read_as_it_looks(
    engine: Callable[[str], Running], connector: str, tmp_path: Path
) -> None:
    file = tmp_path / "letter.pdf"
    file.write_bytes(text_pdf("Reminder 4711"))
    (page,) = read(engine(connector), file)["pages"]
    assert "Reminder 4711" in page["text"]


@pytest.mark.timeout(900)
@EACH
@pytest.mark.parametrize(
    ("size", "code"), [((595, 842), "unsupported_format"), ((14_400, 14_400), "too_large")]
)
def test_a_locked_pdf_is_unsupported_and_one_of_five_metres_too_large(
    engine: Callable[[str], Running], connector: str, size: tuple[int, int], code: str, tmp_path: Path
) -> None:
    file = tmp_path / "letter.pdf"
    file.write_bytes(text_pdf("Reminder 4711", size=size, locked=code == "unsupported_format"))
    assert read(engine(connector), file) == {"error": code}


@pytest.mark.timeout(900)
@EACH
def test_progress_is_told_page_by_page_and_calls_run_side_by_side(
    engine: Callable[[str], Running], connector: str
) -> None:
    running = engine(connector)
    path = interface("ocr/v2") / "conformance" / "two-pages.pdf"
    long = running.start("ocr_extract", {"path": running.hand_over(path)}, progress=True)
    short = running.start("ocr_extract", {"path": running.hand_over(path.with_name("archive.zip"))})
    seen: list[tuple[Any, Any]] = []
    while ("answer", long) not in seen or ("answer", short) not in seen:
        message = json.loads(next(running.lines))
        told = message.get("params", {})
        seen.append(
            ("answer", message["id"]) if "id" in message else (told["progressToken"], told["progress"])
        )
    assert seen.index((long, 1)) < seen.index((long, 2)) < seen.index(("answer", long))
    assert seen.index(("answer", short)) < seen.index(("answer", long))


@pytest.mark.timeout(900)
@EACH
def test_a_cancelled_call_is_not_answered_and_leaves_no_program_behind(
    engine: Callable[[str], Running], connector: str, tmp_path: Path
) -> None:
    running = engine(connector)
    many = tmp_path / "many.pdf"
    many.write_bytes(image_pdf([Image.open(INVOICE)] * 30))
    long = running.start("ocr_extract", {"path": running.hand_over(many)}, progress=True)
    first = json.loads(next(running.lines))
    assert first["method"] == "notifications/progress"
    running.send({"method": "notifications/cancelled", "params": {"requestId": long}})
    short = running.start("ocr_extract", {"path": running.hand_over(INVOICE.with_name("archive.zip"))})
    for line in running.lines:
        message = json.loads(line)
        assert message.get("id") != long
        if message.get("id") == short:
            break
    deadline = time.monotonic() + 10
    while children(running.pid):
        assert time.monotonic() < deadline, children(running.pid)
        time.sleep(0.02)


def children(pid: int) -> list[str]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that ended meanwhile has none
            found += (task / "children").read_text().split()
    return found


def text_pdf(text: str, *, size: tuple[int, int] = (595, 842), locked: bool = False) -> bytes:
    """A PDF as programs write it, in a font that every reader must have; ``locked``: no password opens it."""
    shown = f"BT /F1 24 Tf 72 700 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>" % size,
        b"<< /Length %d >>\nstream\n%b\nendstream" % (len(shown), shown),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    lock = b""
    if locked:
        secret = b"<" + b"5a" * 32 + b">"
        lock = b"/Encrypt << /Filter /Standard /V 1 /R 2 /O %b /U %b /P -4 >> /ID [<00> <00>] " % (
            secret,
            secret,
        )
    out, offsets = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    count = len(objects) + 1
    tail = (
        b"xref\n0 %d\n0000000000 65535 f \n%btrailer\n<< /Size %d /Root 1 0 R %b>>\nstartxref\n%d\n%%%%EOF\n"
    )
    return bytes(out) + tail % (count, table, count, lock, len(out))
