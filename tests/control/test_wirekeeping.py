"""What is kept of a paid call is true, also of one that is cancelled between two writes."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

from reconciler.attempts.happenings import Submit, Withdrawn
from reconciler.attempts.ledger import Ledger
from reconciler.attempts.records import State
from reconciler.attempts.writing import Writing
from reconciler.control.wirekeeping import WireKeeper
from tests.attempts.wishes import NOW, new


def test_a_call_that_is_cancelled_while_its_sending_is_written_down_was_not_sent(tmp_path: Path) -> None:
    async def main() -> None:
        ledger = Ledger.at(tmp_path)
        writing = Writing(ledger, lambda: NOW)
        keeper = WireKeeper(SimpleNamespace(recount=lambda: None), lambda: NOW)  # type: ignore[arg-type]
        try:
            wish = new(1, grade="wire")
            held = (await writing.run(lambda led: led.prepare(wish, NOW))).attempt
            await writing.run(lambda led: led.apply(held, NOW, Submit(decision="")))
            keeper._close(writing, held, (Withdrawn("unavailable", "given up"),))
            kept = await writing.run(lambda led: led.get(held.id))
            assert kept is not None
            assert (kept.state, kept.ended.effect) == (State.FAILED, "none")
        finally:
            await writing.close()

    asyncio.run(main())
