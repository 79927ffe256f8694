"""Jobs: durable before their handle is known, done by whoever does them, and their agent's alone."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest

from reconciler.attempts.happenings import Accepted, Seen, Stopped
from reconciler.attempts.ledger import Ledger
from reconciler.attempts.reconciling import By, Expired, FarEnd, Finished, Found, Sent, Unclear
from reconciler.attempts.records import Ack, Attempt, Execution, Request, State
from reconciler.control.effects import LedgerEffects
from reconciler.control.jobs import CannotDraftError, Draft, LedgerJobs, Runner, Wish
from reconciler.model.calls import Refusal
from reconciler.model.contract import Contract, compiled
from reconciler.model.effects import Intent
from reconciler.model.jobs import JobSeen, What
from reconciler.model.names import InstanceName
from reconciler.model.resources import Interface
from tests.router import stage

pytestmark = pytest.mark.slow

HANDLE = {"type": "string", "pattern": "^[0-9a-f]{32}$", "maxLength": 32}


def film(tool: str = "film_make") -> Contract:
    said = {
        "apiVersion": "handler.interface/v1", "name": "film", "version": 1, "description": "Films.",
        "operations": {f"{tool}_submit": {"kind": "job", "effect": "paid"}},
        "errors": {
            "not_ready": "not yet", "cancelled": "it was cancelled", "blocked": "it was blocked",
            "outcome_unknown": "it may have been made",
        },
    }  # fmt: skip
    seen = stage.closed(job=HANDLE, state=stage.TEXT, _progress=stage.NUMBER, _error=stage.TEXT)
    made = stage.closed(job=HANDLE, state=stage.TEXT)
    tools = [
        stage.tool(f"{tool}_submit", stage.closed(text=stage.TEXT), made),
        stage.tool(f"{tool}_status", stage.closed(job=HANDLE), seen),
        stage.tool(f"{tool}_result", stage.closed(job=HANDLE), stage.closed(url=stage.TEXT)),
        stage.tool(f"{tool}_cancel", stage.closed(job=HANDLE), seen),
    ]  # fmt: skip
    return compiled(Interface.model_validate(said), orjson.dumps(tools))


FILM = stage.route(film())


@dataclass
class Studio:
    """A far end that takes jobs, and says of each what the test wants."""

    sent: list[bytes] = field(default_factory=list)
    says: Callable[[], Found] = lambda: Seen("rendering", 0.5)
    root: Path = Path()

    def of(self, instance: InstanceName) -> Runner | None:
        return self

    def behind(self, one: Attempt) -> Runner | None:
        return self

    def progress(self, one: Attempt) -> float | None:
        return None

    def over(self, one: Attempt) -> None:
        pass

    async def collected(self, one: Attempt, session: str) -> None:
        pass

    async def draft(self, wish: Wish) -> Draft:
        text = wish.intent.arguments["text"]
        if text == "bad":
            raise CannotDraftError("blocked", "of its text")
        execution = Execution("studio", str(wish.intent.route.instance))
        return Draft(execution, Request("", destination="studio.test"), text.encode())

    def far_end(self, one: Attempt) -> FarEnd | None:
        return FarEnd(lookup=frozenset(["job-id"]), can_cancel=True)

    async def permit(self, one: Attempt) -> str:
        return ""

    async def submit(self, one: Attempt) -> Sent:
        ledger = Ledger.at(self.root)
        self.sent.append(ledger.papers.read("sealed", one.request.sealed_ref))
        ledger.close()
        return Accepted(job_id=f"j{len(self.sent)}")

    async def lookup(self, one: Attempt, by: By) -> Found:
        return self.says()

    async def cancel(self, one: Attempt) -> Ack:
        self.says = lambda: Stopped("it says so")
        return "requested"

    async def fetch(self, one: Attempt) -> Iterable[bytes] | Expired | Unclear:
        return (b'{"url":"film"}',)


class Desk:
    def __init__(self, root: Path, studio: Studio) -> None:
        self.effects = LedgerEffects(root, self.now)
        self.jobs = LedgerJobs(self.effects, self.now, studio)
        self.at = 1_800_000_000.0

    def now(self) -> float:
        self.at += 1.0  # time flies: whatever is due later is due
        return self.at

    async def ask(self, what: What, agent: str = "clerk", session: str = "s1", **arguments: Any) -> Any:
        heard: asyncio.Future[JobSeen | Refusal] = asyncio.get_running_loop().create_future()
        tool = FILM.contract.tools[f"film_make_{'submit' if what == 'job' else what}"]
        self.jobs.ask(what, Intent(agent, session, FILM, tool, arguments, (), 60.0), heard.set_result)
        return await asyncio.wait_for(heard, 30)

    async def until(self, handle: str, state: str) -> JobSeen:
        async with asyncio.timeout(60):
            while (seen := await self.ask("status", job=handle)).state != state:
                await asyncio.sleep(0.05)
        found: JobSeen = seen
        return found


def played(root: Path, studio: Studio, play: Callable[[Desk], Any]) -> None:
    studio.root = root

    async def run() -> None:
        desk = Desk(root, studio)
        await desk.effects.start()
        tending = asyncio.create_task(desk.jobs.run())
        try:
            await play(desk)
        finally:
            tending.cancel()
            await asyncio.gather(tending, return_exceptions=True)
            await desk.effects.close()

    asyncio.run(run())


def test_a_job_goes_from_its_submit_to_its_result(tmp_path: Path) -> None:
    studio = Studio()

    async def play(desk: Desk) -> None:
        made = await desk.ask("job", text="a cat")
        assert made.state == "working"
        again = await desk.ask("job", text="a cat")  # the same wish of the same session, under way
        assert again.handle == made.handle
        assert (await desk.ask("result", job=made.handle)).state == "working"
        async with asyncio.timeout(60):
            while (seen := await desk.ask("status", job=made.handle)).progress is None:
                await asyncio.sleep(0.05)
        assert (seen.state, seen.progress) == ("working", 0.5)
        for stranger in ("maid", "clerk2"):
            refused = await desk.ask("status", agent=stranger, job=made.handle)
            assert isinstance(refused, Refusal)
            assert refused.code == "refused"
        studio.says = Finished
        await desk.until(made.handle, "succeeded")
        later = await desk.ask("result", session="s9", job=made.handle)  # a later session of the same agent
        assert later.structured == b'{"url":"film"}'
        assert studio.sent == [b"a cat"]

    played(tmp_path, studio, play)
    ledger = Ledger.at(tmp_path)
    (one,) = ledger.listing()
    assert (one.state, one.kind, one.transmissions) == (State.SUCCEEDED, "job", 1)
    assert one.ended.collected_at
    ledger.close()


def test_a_job_is_stopped_and_what_cannot_be_drafted_is_never_kept(tmp_path: Path) -> None:
    studio = Studio()

    async def play(desk: Desk) -> None:
        refused = await desk.ask("job", text="bad")
        assert (refused.code, refused.diagnostic) == ("blocked", "of its text")
        made = await desk.ask("job", text="a dog")
        await desk.until(made.handle, "working")
        async with asyncio.timeout(60):
            while not studio.sent:
                await asyncio.sleep(0.05)
        await desk.ask("cancel", job=made.handle)
        await desk.until(made.handle, "cancelled")

    played(tmp_path, studio, play)


def test_a_job_answers_to_the_companions_of_its_own_tool_alone(tmp_path: Path) -> None:
    other = stage.route(film("film_cut"))

    async def play(desk: Desk) -> None:
        made = await desk.ask("job", text="a dog")
        for what in ("status", "result", "cancel"):
            heard: asyncio.Future[JobSeen | Refusal] = asyncio.get_running_loop().create_future()
            tool = other.contract.tools[f"film_cut_{what}"]
            intent = Intent("clerk", "s1", other, tool, {"job": made.handle}, (), 60.0)
            desk.jobs.ask(what, intent, heard.set_result)  # type: ignore[arg-type]
            refused = await asyncio.wait_for(heard, 30)
            assert isinstance(refused, Refusal)
            assert refused.code == "refused"

    played(tmp_path, Studio(), play)


def test_a_job_outlives_its_controller(tmp_path: Path) -> None:
    studio = Studio()
    made: list[JobSeen] = []

    async def submit(desk: Desk) -> None:
        made.append(await desk.ask("job", text="a hen"))

    async def collect(desk: Desk) -> None:
        studio.says = lambda: Finished(inline=b'{"url":"hen"}')
        desk.at += 100_000
        await desk.until(made[0].handle, "succeeded")
        assert (await desk.ask("result", job=made[0].handle)).structured == b'{"url":"hen"}'

    played(tmp_path, studio, submit)
    played(tmp_path, studio, collect)
    assert studio.sent == [b"a hen"]


def test_who_waits_for_a_job_hears_of_its_end_and_nothing_is_left_of_who_gave_up(tmp_path: Path) -> None:
    studio = Studio()

    async def play(desk: Desk) -> None:
        made = await desk.ask("job", text="a cat")
        waits, gives_up = (asyncio.create_task(desk.jobs.over(made.attempt)) for _ in range(2))
        async with asyncio.timeout(30):
            while len(desk.jobs._waiting.get(made.attempt, ())) < 2:
                await asyncio.sleep(0.01)
        gives_up.cancel()
        await asyncio.gather(gives_up, return_exceptions=True)
        studio.says = Finished
        assert await asyncio.wait_for(waits, 60) == made.handle
        alone = asyncio.create_task(desk.jobs.over("no-such-attempt"))
        assert await asyncio.wait_for(alone, 30) == ""
        assert not desk.jobs._waiting

    played(tmp_path, studio, play)


def test_where_nobody_does_jobs_nothing_is_kept(tmp_path: Path) -> None:
    class Nobody(Studio):
        def of(self, instance: InstanceName) -> Runner | None:
            return None

    async def play(desk: Desk) -> None:
        assert (await desk.ask("job", text="x")).code == "unavailable"
        assert (await desk.ask("status", job="0" * 32)).code == "refused"

    played(tmp_path, Nobody(), play)
    assert not (tmp_path / "ledger.db").exists()


def test_what_ends_while_it_is_looked_at_is_looked_at_again(tmp_path: Path) -> None:
    looking, go_on = asyncio.Event(), asyncio.Event()

    class Slow(Studio):
        async def lookup(self, one: Attempt, by: By) -> Found:
            found = self.says()
            looking.set()
            await go_on.wait()
            return found

    studio = Slow()

    async def play(desk: Desk) -> None:
        made = await desk.ask("job", text="a fox")
        desk.at += 10
        await looking.wait()
        desk.now = lambda: desk.at  # type: ignore[method-assign] - nothing is due by itself from now on
        desk.jobs.now = desk.now
        studio.says = Finished
        await desk.jobs.due(made.attempt)
        desk.jobs.stir()
        await asyncio.sleep(0.1)  # whatever the relay may do meanwhile, it has done
        go_on.set()
        async with asyncio.timeout(20):
            await desk.until(made.handle, "succeeded")

    played(tmp_path, studio, play)
