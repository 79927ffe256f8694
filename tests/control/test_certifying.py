"""Certification: how long each of its calls may take."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from reconciler.conformance.cases import Case, Outcome
from reconciler.control import certifying
from reconciler.control.caserun import Suite
from reconciler.control.troubles import Trouble
from tests.kit.engines import contract


class Bench:
    """A bench whose calls all end as they should; keeps in how many seconds each had to."""

    def __init__(self) -> None:
        self.meddler = SimpleNamespace(armed=None)
        self.given: list[tuple[Trouble | None, float]] = []

    @asynccontextmanager
    async def opened(self, suite: Suite) -> AsyncIterator[Any]:
        seconds = suite.contract.spec.limits.timeout_seconds

        async def ask(case: Case) -> Outcome:
            trouble, self.meddler.armed = self.meddler.armed, None
            self.given.append((trouble, seconds))
            ends = certifying.ENDS.get(trouble, ()) if trouble is not None else ()
            return Outcome(None, ends[0], 0.1) if ends else Outcome({"pages": []}, None, 0.1)

        yield SimpleNamespace(ask=ask)

    def forgive(self) -> None: ...

    async def drop(self) -> None: ...

    async def replaced(self, most_s: float) -> bool:
        return True


class Heard:
    def __init__(self) -> None:
        self.faults: dict[str, tuple[str, ...]] = {}

    def begins(self, version: str, case: Case) -> None: ...

    def ended(self, version: str, case: Case, outcome: Outcome, faults: tuple[str, ...]) -> None:
        self.faults[case.name] = faults


def test_a_start_after_silence_has_the_time_that_any_call_has() -> None:
    bench, heard = Bench(), Heard()
    suite = Suite(contract("ocr/v1"), (), None)  # type: ignore[arg-type] - no files are asked for
    probe = certifying.Probe(suite, Case("c", "ocr_extract", {}), 0.01)
    asyncio.run(certifying.certify(bench, probe, heard))  # type: ignore[arg-type]
    assert {*heard.faults.values()} == {()}
    usual = suite.contract.spec.limits.timeout_seconds
    at = next(number for number, (trouble, _) in enumerate(bench.given) if trouble is Trouble.SILENT)
    assert [seconds for _, seconds in bench.given[at : at + 2]] == [3.0, usual]
    assert {seconds for trouble, seconds in bench.given if trouble is not Trouble.SILENT} == {usual}
