"""The official MCP client against the router, in every mode it has, over a real socket."""

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from reconciler.model.calls import Refusal
from reconciler.model.routes import ScopeFolder
from tests.router import stage
from tests.router.stage import FakeLane, Sent
from tests.router.test_server import Set, run, stage_set

MODES = ["auto", "legacy", "2026-07-28"]


@asynccontextmanager
async def over(path: Path) -> AsyncIterator[tuple[Any, Any]]:
    """A transport of the client: lines over a Unix socket, as the bridge carries them."""
    heard, hear = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    say, said = anyio.create_memory_object_stream[SessionMessage](0)
    async with await anyio.connect_unix(str(path)) as stream, anyio.create_task_group() as tasks:

        async def reader() -> None:
            buffered = BufferedByteReceiveStream(stream)
            async with heard:
                while True:
                    try:
                        line = await buffered.receive_until(b"\n", 2**24)
                    except (anyio.EndOfStream, anyio.IncompleteRead, anyio.ClosedResourceError):
                        return
                    await heard.send(SessionMessage(types.jsonrpc_message_adapter.validate_json(line)))

        async def writer() -> None:
            async with said:
                async for message in said:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await stream.send(text.encode() + b"\n")

        tasks.start_soon(reader)
        tasks.start_soon(writer)
        yield hear, say
        tasks.cancel_scope.cancel()
        hear.close()
        say.close()


@asynccontextmanager
async def client(play: Set, mode: str, name: str = "ocr") -> AsyncIterator[Client]:
    async with Client(over(play.folder / f"{name}.sock"), mode=mode) as made:
        yield made


@asynccontextmanager
async def served(lane: FakeLane) -> AsyncIterator[Set]:
    with tempfile.TemporaryDirectory(prefix="hc-") as folder:
        base = Path(folder)
        for name in ("work", "in", "out"):
            (base / name).mkdir()
        (base / "work" / "invoice.pdf").write_bytes(b"%PDF")
        lane.inbox, lane.outbox = (os.open(base / name, os.O_RDONLY) for name in ("in", "out"))
        scope = (ScopeFolder(str(base / "work")),)
        try:
            async with stage_set(lane, stage.routes(stage.route(stage.ocr()), scope=scope)) as play:
                yield play
        finally:
            os.close(lane.inbox)
            os.close(lane.outbox)


def reading(call: Sent) -> None:
    call.answer(pages=[{"text": "INV-2024-0042"}])


@pytest.mark.parametrize("mode", MODES)
def test_it_lists_and_calls(mode: str) -> None:
    async def test() -> None:
        async with served(FakeLane(reading)) as play, client(play, mode) as session:
            listed = await session.list_tools()
            assert [tool.name for tool in listed.tools] == ["ocr_extract", "ocr_merge"]
            assert listed.tools[0].input_schema == stage.OCR_TOOLS[0]["inputSchema"]
            result = await session.call_tool("ocr_extract", {"path": "invoice.pdf"})
            assert not result.is_error
            assert result.structured_content == {"pages": [{"text": "INV-2024-0042"}]}
            assert isinstance(result.content[0], types.TextContent)
            assert "INV-2024-0042" in result.content[0].text

    run(test)


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_it_agrees_on_the_newest_version_of_its_era(mode: str, version: str) -> None:
    async def test() -> None:
        async with served(FakeLane(reading)) as play, client(play, mode) as session:
            assert session.protocol_version == version
            assert session.instructions is not None
            assert "ocr/v1" in session.instructions

    run(test)


@pytest.mark.parametrize("mode", MODES)
def test_it_shows_an_error_as_a_tool_error_with_the_interface_s_words(mode: str) -> None:
    async def test() -> None:
        lane = FakeLane(stage.replied(Refusal("unsupported_format", "vendor says no")))
        async with served(lane) as play, client(play, mode) as session:
            for arguments, word in (
                ({"path": "invoice.pdf"}, "the file is not a PDF or an image"),
                ({"path": "missing"}, "refused"),
                ({"paths": 5}, "path"),
            ):
                result = await session.call_tool("ocr_extract", arguments)
                assert result.is_error
                assert isinstance(result.content[0], types.TextContent)
                assert word in result.content[0].text
                assert "vendor" not in result.content[0].text
            with pytest.raises(MCPError) as error:
                await session.call_tool("ocr_nope", {})
            assert error.value.error.code == -32602

    run(test)


@pytest.mark.parametrize("mode", MODES)
def test_it_hears_progress(mode: str) -> None:
    async def test() -> None:
        def slowly(call: Sent) -> None:
            for done in (1.0, 2.0, 3.0):
                call.sink.progress(done, 3.0)
            reading(call)

        heard: list[float] = []

        async def told(progress: float, total: float | None, message: str | None) -> None:
            heard.append(progress)

        async with served(FakeLane(slowly)) as play, client(play, mode) as session:
            await session.call_tool("ocr_extract", {"path": "invoice.pdf"}, progress_callback=told)
            assert heard == [1.0, 2.0, 3.0]

    run(test)


@pytest.mark.parametrize("mode", MODES)
def test_a_call_that_it_gives_up_is_cancelled_at_the_connector(mode: str) -> None:
    async def test() -> None:
        lane = FakeLane()
        async with served(lane) as play, client(play, mode) as session:
            with anyio.move_on_after(0.2):
                await session.call_tool("ocr_extract", {"path": "invoice.pdf"})
            (record,) = await play.recorded()
            assert record.code == "cancelled"
            assert lane.sent[0].cancelled

    run(test)


def test_it_subscribes_and_is_told_when_the_door_closes() -> None:
    async def test() -> None:
        async with (
            served(FakeLane(reading)) as play,
            client(play, "2026-07-28") as session,
            session.listen(tools_list_changed=True) as events,
        ):
            await play.router.close("s/1")
            assert [event async for event in events] == []

    run(test)
