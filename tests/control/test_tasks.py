"""Jobs as tasks of MCP's extension: the official client, over a real socket, from a real ledger."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Literal

import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from pydantic import ConfigDict

from reconciler.attempts import retention
from reconciler.attempts.happenings import Lost, Settled
from reconciler.attempts.ledger import Ledger
from reconciler.attempts.machine import DAY_S
from reconciler.attempts.reconciling import Finished
from reconciler.attempts.records import State
from reconciler.model.routes import AgentRoutes
from tests.control.test_jobs import FILM, Desk, Studio
from tests.router.stage import FakeLane
from tests.router.test_official_client import over
from tests.router.test_server import Set, run, stage_set

TASKS = "io.modelcontextprotocol/tasks"


class Created(types.Result):
    model_config = ConfigDict(extra="allow", populate_by_name=True)
    result_type: Literal["task"] = "task"
    taskId: str  # noqa: N815 - as it is on the wire
    status: str


class Told(types.Result):
    """Whatever a method of the extension answers."""

    model_config = ConfigDict(extra="allow")


class Asking(types.Request[dict[str, Any], str]):
    name_param: ClassVar[str | None] = "taskId"


async def asked(session: ClientSession, verb: str, task: str, **more: Any) -> dict[str, Any]:
    request = Asking(method=f"tasks/{verb}", params={"taskId": task} | more)
    found: dict[str, Any] = (await session.send_request(request, Told)).model_extra or {}
    return found


@dataclass
class Tasks(ClientExtension):
    """A client's half of the extension, as an application would have it: it polls until the task is over."""

    identifier = TASKS
    tasks: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    looked: Callable[[ClientSession, str], Awaitable[None]] | None = None

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=Created, resolve=self.resolve)]

    async def resolve(self, made: Created, context: ClaimContext) -> types.CallToolResult:
        self.tasks.append(made.taskId)
        while True:
            task = await asked(context.session, "get", made.taskId)
            self.seen.append(task["status"])
            if task["status"] == "completed":
                return types.CallToolResult.model_validate(task["result"])
            if task["status"] == "cancelled":
                return types.CallToolResult(content=[], is_error=True)
            if self.looked is not None:
                await self.looked(context.session, made.taskId)
            await asyncio.sleep(0.02)


@asynccontextmanager
async def cinema(root: Path, studio: Studio, agent: str = "clerk") -> AsyncIterator[tuple[Desk, Set]]:
    studio.root = root
    desk = Desk(root, studio)
    await desk.effects.start()
    tending = asyncio.create_task(desk.jobs.run())
    try:
        async with stage_set(FakeLane(), AgentRoutes(agent, {"film": FILM}, ())) as play:
            play.router.keep_jobs(desk.jobs)
            yield desk, play
    finally:
        tending.cancel()
        await asyncio.gather(tending, return_exceptions=True)
        await desk.effects.close()


def visitor(play: Set, mode: str = "auto", extension: ClientExtension | None = None) -> Client:
    extensions = [extension] if extension else None
    return Client(over(play.folder / "film.sock"), mode=mode, extensions=extensions)


@pytest.mark.parametrize("mode", ["auto", "2026-07-28"])
def test_the_official_client_waits_for_a_task_and_checks_its_result(mode: str, tmp_path: Path) -> None:
    studio = Studio()

    async def finish(session: ClientSession, task: str) -> None:
        studio.says = Finished

    async def test() -> None:
        extension = Tasks(looked=finish)
        async with cinema(tmp_path, studio) as (_, play), visitor(play, mode, extension) as client:
            if mode == "auto":  # a client that is told its era discovers nothing
                assert client.server_capabilities.extensions == {TASKS: {}}
            result = await client.call_tool("film_make_submit", {"text": "a cat"})
            assert (result.is_error, result.structured_content) == (False, {"url": "film"})
            assert extension.seen[0] == "working"
            # The same job by its tools.
            by_tool = await client.call_tool("film_make_result", {"job": extension.tasks[0]})
            assert by_tool.structured_content == {"url": "film"}
        assert studio.sent == [b"a cat"]

    run(test, 60)


@pytest.mark.parametrize(("mode", "extension"), [("2026-07-28", None), ("legacy", Tasks())])
def test_who_does_not_know_tasks_here_gets_the_handle(
    mode: str, extension: ClientExtension | None, tmp_path: Path
) -> None:
    async def test() -> None:
        async with cinema(tmp_path, Studio()) as (_, play), visitor(play, mode, extension) as client:
            result = await client.call_tool("film_make_submit", {"text": "a cat"})
            assert result.structured_content is not None
            handle = result.structured_content["job"]
            with pytest.raises(MCPError) as error:
                await asked(client.session, "get", handle)
            assert error.value.error.code == (-32601 if mode == "legacy" else -32021)

    run(test, 60)


def test_a_task_that_is_cancelled_is_stopped_and_says_so(tmp_path: Path) -> None:
    async def stop(session: ClientSession, task: str) -> None:
        assert await asked(session, "cancel", task) == {"resultType": "complete"}

    async def test() -> None:
        extension = Tasks(looked=stop)
        async with cinema(tmp_path, Studio()) as (_, play), visitor(play, extension=extension) as client:
            assert (await client.call_tool("film_make_submit", {"text": "a cat"})).is_error
            assert extension.seen[-1] == "cancelled"

    run(test, 60)


async def task_of(client: Client, text: str) -> str:
    made = await client.session.call_tool("film_make_submit", {"text": text}, allow_claimed=True)
    assert isinstance(made, Created)
    return made.taskId


async def until_over(client: Client, task: str) -> dict[str, Any]:
    while (told := await asked(client.session, "get", task))["status"] == "working":
        await asyncio.sleep(0.02)
    return told


def test_a_task_outlives_its_controller_and_is_its_agents_alone(tmp_path: Path) -> None:
    studio = Studio()

    async def test() -> None:
        async with cinema(tmp_path, studio) as (desk, play), visitor(play, extension=Tasks()) as client:
            task = await task_of(client, "a hen")
            while "statusMessage" not in await asked(client.session, "get", task):
                await asyncio.sleep(0.02)  # until it is known that the far end has it
            later = desk.at + 1000
        studio.says = Finished
        async with cinema(tmp_path, studio) as (desk, play):
            desk.at, play.session = later, "s9"
            async with visitor(play, extension=Tasks()) as client:
                assert (await until_over(client, task))["result"]["structuredContent"] == {"url": "film"}
        async with cinema(tmp_path, studio, "maid") as (_, play), visitor(play, extension=Tasks()) as client:
            for verb, more in (("get", {}), ("cancel", {}), ("update", {"inputResponses": {}})):
                with pytest.raises(MCPError) as error:
                    await asked(client.session, verb, task, **more)
                assert error.value.error.code == -32602

    run(test, 60)


def test_what_a_person_found_out_is_told_and_has_no_result(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with cinema(tmp_path, Studio()) as (desk, play), visitor(play, extension=Tasks()) as client:
            task = await task_of(client, "a fox")
            while "statusMessage" not in await asked(client.session, "get", task):
                await asyncio.sleep(0.02)
            settled = Settled(State.SUCCEEDED, "person:max", "it is on the shelf")

            def settle(ledger: Ledger) -> None:
                ledger.apply(ledger.listing()[0], desk.at, Lost("nobody knows"))
                ledger.apply(ledger.listing()[0], desk.at, settled)

            await (await desk.jobs.writing()).run(settle)
            told = await until_over(client, task)
            assert (told["status"], told["result"]["isError"]) == ("completed", True)
            assert f"ask film_make_result with the job {task}" in told["result"]["content"][0]["text"]

    run(test, 60)
    assert not [one for one in caplog.records if one.exc_info]


def test_a_task_is_kept_as_long_as_it_says_and_is_unknown_after(tmp_path: Path) -> None:
    studio = Studio()
    studio.says = Finished

    async def test() -> None:
        async with cinema(tmp_path, studio) as (desk, play), visitor(play, extension=Tasks()) as client:
            task = await task_of(client, "a dog")
            told = await until_over(client, task)
            writing = await desk.jobs.writing()
            ends = datetime.fromisoformat(told["createdAt"]).timestamp() + told["ttlMs"] / 1000
            assert DAY_S - 60 < ends - desk.at <= DAY_S  # it was collected just now

            await writing.run(lambda ledger: retention.prune(ledger, ends - 10, dry_run=False))
            desk.at = ends - 10
            assert (await until_over(client, task))["result"]["structuredContent"] == {"url": "film"}
            desk.at = ends + 10
            await writing.run(lambda ledger: retention.prune(ledger, ends + 10, dry_run=False))
            with pytest.raises(MCPError) as error:
                await asked(client.session, "get", task)
            assert error.value.error.code == -32602
            gone = await client.call_tool("film_make_result", {"job": task})
            assert isinstance(gone.content[0], types.TextContent)
            assert "refused" in gone.content[0].text

    run(test, 60)
