"""Cases asked through a door: what ends the wait for a job."""

import asyncio
from pathlib import Path
from typing import Any, cast

from reconciler.conformance.cases import Case
from reconciler.control.caserun import Asking
from tests.control.test_jobs import film


class Endless(Asking):
    """Whose far end works for ever; two questions are half an hour apart."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        super().__init__(film(), Path("/nowhere"), cast(Any, (None, None)), lambda: 1800.0 * len(self.asked))

    async def _call(self, tool: str, arguments: Any) -> Any:
        self.asked.append(tool)
        return {"job": "j", "state": "working"}, None


def test_a_job_that_never_ends_is_cancelled_and_fails_its_case() -> None:
    made = Endless()
    outcome = asyncio.run(made.ask(Case("a film", "film_make_submit", {"text": "a lake"})))
    assert (outcome.structured, outcome.error) == (None, "unavailable")
    status = "film_make_status"
    assert made.asked == ["film_make_submit", status, status, status, "film_make_cancel"]
