"""Looking names up: a resolver that does not answer holds up nobody but who asked."""

import asyncio
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from reconciler.egress import names
from reconciler.egress.names import Names, resolved
from reconciler.model.hosts import Target

SLOW = Target("slow.example", 443)


class Resolver:
    """The C library's, where names of ``slow`` have no answer until ``go``."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.asked: list[str] = []

    def __call__(self, host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        self.asked.append(host)
        if host.startswith("slow"):
            self.go.wait(60)
        if host.startswith("gone"):
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", port))] * 2


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    made = Resolver()
    monkeypatch.setattr(names.socket, "getaddrinfo", made)
    yield made
    made.go.set()
    for thread in threading.enumerate():
        if thread.name == "handler-name":
            thread.join(30)


def test_a_name_has_its_addresses_once_each_or_none(resolver: Resolver) -> None:
    assert asyncio.run(resolved("api.example", 443)) == ["192.0.2.1"]
    with pytest.raises(OSError, match="not known"):
        asyncio.run(resolved("gone.example", 443))


def test_many_who_ask_for_a_name_without_answer_hold_one_thread_and_no_work_of_others(
    resolver: Resolver,
) -> None:
    async def scenario() -> None:
        book = Names()
        asking = [asyncio.ensure_future(book.addresses(SLOW, resolved)) for _ in range(64)]
        async with asyncio.timeout(30):
            assert await asyncio.to_thread(lambda: "done") == "done"
            assert await book.addresses(Target("api.example", 443), resolved) == ["192.0.2.1"]
            asking.pop().cancel()  # who gives up takes nothing from the others
            await asyncio.sleep(0)
            resolver.go.set()
            assert await asyncio.gather(*asking) == [["192.0.2.1"]] * 63
        assert sorted(resolver.asked) == ["api.example", "slow.example"]

    asyncio.run(scenario())


def test_nobody_waits_for_a_lookup_at_the_end(resolver: Resolver) -> None:
    async def scenario() -> None:
        book = Names()
        asking = asyncio.ensure_future(book.addresses(SLOW, resolved))
        while not resolver.asked:
            await asyncio.sleep(0)
        book.close()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(scenario())
    assert not resolver.go.is_set()


def test_names_that_many_lists_hold_take_turns() -> None:
    running: list[str] = []
    most = 0

    async def resolve(host: str, port: int) -> Sequence[str]:
        nonlocal most
        running.append(host)
        most = max(most, len(running))
        await asyncio.sleep(0)
        running.remove(host)
        return [str(port)]

    async def scenario() -> None:
        book = Names()
        asked = [book.addresses(Target(f"h{number}.example", 443), resolve) for number in range(50)]
        assert await asyncio.gather(*asked) == [["443"]] * 50

    asyncio.run(scenario())
    assert 1 < most <= 8
