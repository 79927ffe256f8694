"""Jobs of processes: what a connector says when it fails proves something only in the interface's words."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.attempts.happenings import Failed
from reconciler.attempts.records import Attempt, Execution, Idempotency, Owner, Request
from reconciler.control import executing
from reconciler.control.executing import Executor
from reconciler.model.calls import Refusal

PAID = Attempt(
    "a1", "h1", Owner("ada", "s1"), "scope", "call", "film/v1", "film_make_submit", Execution("b", "b@1"),
    Request("sha256:00"), effect="paid", kind="job", grade="wire", idempotency=Idempotency("k", "natural"),
)  # fmt: skip


def ended(reply: Refusal) -> tuple[Executor, Any]:
    """An executor whose one run has ended so."""
    made = Executor(None, lambda name: None, None)  # type: ignore[arg-type]
    run = executing._Run(PAID.id, "ada", asyncio.Event(), errors=frozenset({"blocked"}), reply=reply)
    run.ended.set()
    made._runs[executing._unit(PAID)] = run
    return made, run


@pytest.mark.parametrize(
    ("reply", "effect"),
    [
        (Refusal("blocked"), "none"),
        (Refusal("unavailable"), "unknown"),
        (Refusal("unavailable", no_effect="said"), "none"),
        (Refusal("outcome_unknown"), "unknown"),
        (Refusal("a_vendors_word"), "unknown"),
    ],
)
def test_only_the_interfaces_own_errors_say_that_a_job_did_nothing(reply: Refusal, effect: str) -> None:
    made, _ = ended(reply)
    found = asyncio.run(made.lookup(PAID, "key"))
    assert isinstance(found, Failed)
    assert found.effect == effect


def test_a_job_that_was_settled_while_it_ran_is_forgotten_when_it_ends() -> None:
    async def main() -> None:
        made, run = ended(Refusal("blocked"))
        run.ended.clear()
        made.over(PAID)
        assert run.told.is_set()

        async def gone(name: object) -> None:
            return None

        made._rooms = SimpleNamespace(end=gone)  # type: ignore[assignment]
        await made._until_over("b@1", run, PAID)  # type: ignore[arg-type]
        assert not made._runs

    asyncio.run(main())


@pytest.mark.parametrize(("reply", "ack"), [(Refusal("blocked"), "refused"), (None, "proved")])
def test_a_wish_to_stop_is_proved_only_where_it_ended_the_job_and_once_it_has(
    reply: Refusal | None, ack: str
) -> None:
    async def main() -> None:
        made, run = ended(Refusal("blocked"))
        run.reply = reply
        run.ended.clear()
        asked = asyncio.create_task(made.cancel(PAID))
        await asyncio.sleep(0.05)
        assert not asked.done()
        assert run.told.is_set() is (reply is None)
        run.ended.set()
        assert await asked == ack
        assert await Executor(None, lambda name: None, None).cancel(PAID) == "proved"  # type: ignore[arg-type]

    asyncio.run(main())
