"""The ledger's one writer: who waits is told, whatever others make of what they are told."""

import asyncio
import threading
from pathlib import Path

import pytest

from reconciler.attempts.writing import Writing
from tests.attempts.wishes import NOW
from tests.kit import ledgers

pytestmark = pytest.mark.usefixtures("engine")


def test_a_fault_in_one_who_hears_keeps_no_other_of_the_same_commit_waiting(tmp_path: Path) -> None:
    async def main() -> None:
        faults: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, t: faults.append(str(t["exception"])))
        writing = Writing(ledgers.opened(tmp_path), lambda: NOW)
        try:
            go = threading.Event()
            first = asyncio.create_task(writing.run(lambda _: go.wait(30)))
            await asyncio.sleep(0)

            def breaks(_: object) -> None:
                raise RuntimeError("what hears broke")

            writing.later(lambda _: 1, breaks)
            second = asyncio.create_task(writing.run(lambda _: 2))
            await asyncio.sleep(0)
            go.set()
            async with asyncio.timeout(30):
                assert await first
                assert await second == 2
            assert faults == ["what hears broke"]
        finally:
            await writing.close()

    asyncio.run(main())
