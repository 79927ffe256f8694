"""Smoke cases through the real router: what was asked, what came of it, and that nothing of it stays."""

import asyncio
import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.admission.admit import Admission
from reconciler.control import smoke
from reconciler.control.smoke import Smoke
from reconciler.model.calls import CallRecord
from reconciler.model.names import InstanceName
from reconciler.router.server import Router
from tests.admission import build
from tests.router.stage import FakeDispatch, FakeLane, Sent

NEW = InstanceName("b", "a" * 64)
SUITE = """[[case]]
name = "reads"
tool = "ocr_extract"
input = { path = "page.png" }
expect.contains = ["hello"]

[[case]]
name = "rejects a zip"
tool = "ocr_extract"
input = { path = "archive.zip" }
expect.error = "unsupported_format"
"""


def admitted(*names: str, suite: str = SUITE) -> Admission:
    listed = ", ".join(f'"{name}"' for name in names)
    catalog = build.catalog() | {
        "interfaces/ocr/v1/conformance/cases.toml": suite,
        "interfaces/ocr/v1/conformance/page.png": b"hello, a picture",
    }
    found = build.judge(build.binding("b", "ocr-rapid", f"conformance.smoke = [{listed}]\n"), catalog)
    assert not build.errors(found)
    return found


def opened(folder: Path) -> int:
    folder.mkdir(exist_ok=True)
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)


def run(folder: Path, admission: Admission, connector: Callable[[Sent], None]) -> tuple[str, ...]:
    """Ask what the binding asks of a connector that does as it is told."""
    records: list[CallRecord] = []
    numbers = itertools.count()

    async def main() -> tuple[str, ...]:
        loop = asyncio.get_running_loop()
        lane = FakeLane(connector, *map(opened, (folder / "in", folder / "out")))
        router = Router(FakeDispatch(lane), record=records.append, now=lambda: 1e9, clock=loop.time)
        made = Smoke(router, folder, token=lambda: f"{next(numbers):012}", clock=loop.time)
        demand = made.demand(admission, "b")
        assert demand.ask is not None
        assert demand.digest
        return await demand.ask(NEW)

    faults = asyncio.run(main())
    assert [path for path in (folder / "p").rglob("*") if not path.is_dir()] == []
    assert list((folder / "p").iterdir()) == []
    assert {record.agent for record in records} <= {"smoke/b"}
    return faults


def reads(call: Sent) -> None:
    call.answer(text="hello there")


def test_a_connector_that_answers_as_expected_has_no_fault(tmp_path: Path) -> None:
    assert run(tmp_path, admitted("reads"), reads) == ()


def test_only_the_cases_that_were_asked_for_are_run(tmp_path: Path) -> None:
    seen: list[str] = []

    def answers(call: Sent) -> None:
        seen.append(call.tool)
        reads(call)

    assert run(tmp_path, admitted("reads"), answers) == ()
    assert seen == ["ocr_extract"]


def test_a_fault_names_the_case_and_what_was_expected_and_no_answer(tmp_path: Path) -> None:
    faults = run(tmp_path, admitted("reads"), lambda call: call.answer(text="a vendor's secret words"))
    assert faults == ("smoke case 'reads' of ocr/v1: 'hello' is nowhere in the answer",)


def test_an_answer_outside_the_contract_is_a_fault(tmp_path: Path) -> None:
    (fault,) = run(tmp_path, admitted("reads"), lambda call: call.answer(other=1))
    assert "'unavailable'" in fault


def test_the_error_that_a_case_expects_is_no_fault_and_another_is(tmp_path: Path) -> None:
    asked = admitted("rejects a zip")
    assert run(tmp_path, asked, lambda call: call.refuse("unsupported_format")) == ()
    (fault,) = run(tmp_path, asked, lambda call: call.refuse("unavailable"))
    assert "expected the error 'unsupported_format'" in fault


def test_all_faults_are_told(tmp_path: Path) -> None:
    faults = run(tmp_path, admitted("rejects a zip", "reads"), lambda call: call.refuse("unavailable"))
    assert [fault.split(":")[0] for fault in faults] == [
        "smoke case 'reads' of ocr/v1",
        "smoke case 'rejects a zip' of ocr/v1",
    ]


def test_what_is_asked_is_known_by_its_digest() -> None:
    def of(admission: Admission) -> str:
        return smoke.digest(smoke.asked(admission, "b"))

    assert of(admitted("reads")) == of(admitted("reads"))
    others = [admitted("reads", "rejects a zip"), admitted("reads", suite=SUITE.replace("hello", "hallo"))]
    assert of(admitted("reads")) not in [of(one) for one in others]
    assert of(admitted()) == ""


@pytest.mark.parametrize("binding", ["b", "nowhere"])
def test_a_binding_that_asks_for_nothing_needs_no_door(tmp_path: Path, binding: str) -> None:
    async def main() -> None:
        router = Router(FakeDispatch(None), record=lambda record: None, now=lambda: 1e9, clock=lambda: 0.0)
        made = Smoke(router, tmp_path, token=lambda: "t", clock=lambda: 0.0)
        assert made.demand(admitted(), binding).ask is None

    asyncio.run(main())


def test_a_run_folder_that_cannot_be_written_is_no_fault_of_the_connector(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("in the way")
    with pytest.raises(OSError):
        run(tmp_path, admitted("reads"), reads)
