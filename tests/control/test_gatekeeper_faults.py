"""The gate's process where one connector is at fault: the others go on."""

import asyncio
import os
import signal
import socket
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.control.gatekeeper import Gatekeeper
from reconciler.egress.gate import Verdicted
from reconciler.model.secrets import Filled
from reconciler.runtime import sockets
from reconciler.runtime.gating import Gated
from tests.runtime.rig import recipe

pytestmark = pytest.mark.slow
DEADLINE_S = 60
Story = Callable[[Gatekeeper, "Doors"], Awaitable[None]]


class Doors:
    """Listening sockets of connectors that are not there, by name."""

    def __init__(self, keeper: Gatekeeper, folder: Path) -> None:
        self.keeper, self.folder = keeper, folder
        self.told: list[dict[str, Any]] = []

    def open(self, name: str, egress: tuple[str, ...], gated: Gated | None = None) -> Callable[[], None]:
        at = sockets.folder(self.folder)
        listener: socket.socket = sockets.listen(at, f"{name}.sock")
        listener.setblocking(False)
        os.close(at)
        return self.keeper.open(recipe(name, egress=egress), listener, gated or Gated())

    async def ask(self, name: str) -> bytes:
        """What a request to a host that nobody lists is answered."""
        async with asyncio.timeout(DEADLINE_S):
            reader, writer = await asyncio.open_unix_connection(f"{self.folder}/{name}.sock")
            writer.write(b"GET https://evil.example.com/ HTTP/1.1\r\nHost: evil.example.com\r\n\r\n")
            answer = await reader.read()
            writer.close()
            return answer


def kept(story: Story) -> None:
    async def once() -> None:
        keeper = Gatekeeper(lambda recipe, call: Verdicted(go=True), lambda recipe, passage: None)
        with tempfile.TemporaryDirectory() as folder:
            try:
                await story(keeper, Doors(keeper, Path(folder)))
            finally:
                await keeper.close()

    asyncio.run(once())


UNLISTED = b"x-handler-refused: unlisted\r\n"


def test_a_list_however_long_and_one_that_is_none_are_their_own_affair() -> None:
    async def story(keeper: Gatekeeper, doors: Doors) -> None:
        doors.open("small", ("api.example.com:443",))
        assert UNLISTED in await doors.ask("small")
        first = keeper.pid
        doors.open("long", tuple(f"host-{number}.{'x' * 60}.example.com:443" for number in range(4000)))
        doors.open("odd", ("no host and port",))
        assert UNLISTED in await doors.ask("long")
        assert UNLISTED in await doors.ask("odd")
        assert UNLISTED in await doors.ask("small")
        assert keeper.pid == first != 0

    kept(story)


def test_a_secret_that_takes_long_to_find_anew_holds_up_its_own_connector_alone() -> None:
    async def story(keeper: Gatekeeper, doors: Doors) -> None:
        hangs, found = asyncio.Event(), asyncio.Event()

        async def late() -> tuple[Filled, ...]:
            hangs.set()
            await found.wait()
            return ()

        async def broken() -> tuple[Filled, ...]:
            raise LookupError("a fault of ours")

        doors.open("late", ("api.example.com:443",), Gated((), late))
        doors.open("broken", ("api.example.com:443",), Gated((), broken))
        doors.open("plain", ("api.example.com:443",))
        assert UNLISTED in await doors.ask("late")
        os.kill(keeper.pid, signal.SIGKILL)
        async with asyncio.timeout(DEADLINE_S):
            await hangs.wait()
        assert UNLISTED in await doors.ask("plain")
        waiting = asyncio.create_task(doors.ask("late"))
        os.kill(keeper.pid, signal.SIGKILL)  # again, while one still waits
        assert UNLISTED in await doors.ask("plain")
        assert not waiting.done()
        found.set()
        assert UNLISTED in await waiting

    kept(story)
