"""The address of the observers follows its setting: had, moved, given up, and said when it cannot be had."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from reconciler.control import observing
from reconciler.control.observing import Address


class Guest:
    """Stands for whoever speaks HTTP: notes which sockets it was given."""

    def __init__(self) -> None:
        self.at: list[str] = []
        self.now: list[str] = []
        self.broken = False

    async def serve(self, listener: socket.socket, observed: Any) -> None:
        name = observing._shown(listener)
        self.at.append(name)
        self.now.append(name)
        try:
            if self.broken:
                self.broken = False
                raise RuntimeError("a fault of the server's own")
            await asyncio.Event().wait()
        finally:
            self.now.remove(name)


def live(run: Path, guest: Guest, story: Callable[[Address, Any], Awaitable[None]]) -> None:
    async def main() -> None:
        seen = SimpleNamespace(tally=None)
        address = Address(cast("Any", seen), run, guest.serve)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(address.run)
            await story(address, seen)
            tasks.cancel_scope.cancel()

    asyncio.run(main())


async def until(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(30):
        while not holds():
            await anyio.sleep(0.005)


def test_it_is_where_the_setting_says_and_nothing_is_counted_while_it_is_nowhere(tmp_path: Path) -> None:
    guest = Guest()

    async def story(address: Address, seen: Any) -> None:
        await anyio.sleep(0)
        assert (address.shown, seen.tally, guest.at) == ("", None, [])
        address.follow("127.0.0.1:0")
        await until(lambda: guest.now != [])
        first = address.shown
        assert guest.now == [first]
        tally = seen.tally
        assert tally is not None
        address.follow("unix")
        await until(lambda: guest.now == [f"unix:{tmp_path}/http.sock"])
        assert address.shown == guest.now[0]
        assert seen.tally is tally, "counts go on where only the address changes"
        assert (tmp_path / "http.sock").is_socket()
        address.follow(None)
        await until(lambda: address.shown == "")
        assert (guest.now, seen.tally) == ([], None)
        assert not (tmp_path / "http.sock").exists()
        address.follow("unix")
        await until(lambda: guest.now != [])

    live(tmp_path, guest, story)
    assert not (tmp_path / "http.sock").exists(), "nothing is left at the end"


@pytest.mark.parametrize(
    ("listen", "why"),
    [("127.0.0.1:99999", "a port is at most 65535"), ("127.999.0.1:80", ""), ("unix", "No such file")],
)
def test_an_address_that_cannot_be_had_is_said_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listen: str, why: str
) -> None:
    monkeypatch.setattr(observing, "_RETRY_S", 0.01)
    guest = Guest()
    run = tmp_path / "run"

    async def story(address: Address, seen: Any) -> None:
        told: list[str] = []
        address.changed = lambda: told.append(address.fault)
        address.follow(listen)
        await until(lambda: address.fault != "")
        assert address.fault.startswith(f"http.listen: cannot listen on {listen}: {why}")
        found = address.condition()
        assert found is not None
        assert (found.type, found.status, found.message) == ("Stalled", "True", address.fault)
        if listen == "unix":
            run.mkdir()
            await until(lambda: guest.now != [])
        address.follow("127.0.0.1:0")
        await until(lambda: address.shown.startswith("http://127.0.0.1:"))
        assert (address.condition(), len(told), told[-1]) == (None, len(told), "")
        assert len(told) <= 3, "the same words are not said again and again"

    live(run, guest, story)


def test_a_server_that_breaks_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing, "_RETRY_S", 0.01)
    guest = Guest()
    guest.broken = True

    async def story(address: Address, seen: Any) -> None:
        address.follow("unix")
        await until(lambda: len(guest.at) == 2 and guest.now != [])

    live(tmp_path, guest, story)
