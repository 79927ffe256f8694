"""The gate where something of its surroundings is at fault: odd secrets, odd origins, a crowd, itself."""

import asyncio
from pathlib import Path

import pytest

from reconciler.egress import gate
from reconciler.egress.gate import Caps
from reconciler.egress.reaching import Reach
from tests.egress.authority import Authority
from tests.egress.test_gate import ASK, DEADLINE_S, VALUE, filled, told, world

OPEN = Path("/proc/self/fd")
TWICE = b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\nContent-Encoding: %b\r\nContent-Length: 2\r\n\r\nhi"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.mark.parametrize("encodings", [(b"gzip", b"identity"), (b"identity", b"gzip")])
def test_an_encoding_hides_behind_no_other(authority: Authority, encodings: tuple[bytes, bytes]) -> None:
    async def story() -> None:
        async with world(authority, TWICE % encodings) as made:
            assert b"x-handler-refused: answer\r\n" in await made.ask()

    told(story)


def test_a_header_may_not_tell_a_secret_by_its_name(authority: Authority) -> None:
    value = b"sk-canary-77ab01-zq"
    answer = b"HTTP/1.1 200 OK\r\nMcp-" + value + b": 1\r\nContent-Length: 2\r\n\r\nhi"

    async def story() -> None:
        async with world(authority, answer, slots=[filled("x-api-key", value)]) as made:
            got = await made.ask()
            assert b"x-handler-refused: echo\r\n" in got
            assert value not in got

    told(story)


def test_those_who_are_too_many_are_told_so_and_hold_nothing(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "_FAREWELL_S", 600.0)

    async def story() -> None:
        async with world(authority, caps=Caps(connections=4)) as made:
            before = len(list(OPEN.iterdir()))
            ends = [await asyncio.open_unix_connection(made.path) for _ in range(60)]
            async with asyncio.timeout(DEADLINE_S):
                words = [await reader.read() for reader, _ in ends[4:]]
                while len(list(OPEN.iterdir())) > before + 60 + 4:
                    await asyncio.sleep(0.01)
            assert all(b"x-handler-refused: busy\r\n" in one for one in words), words
            assert [one.decision.cause for one in made.passages] == ["busy"] * 56
            for _, writer in ends:
                writer.close()
            while (await made.ask()).startswith(b"HTTP/1.1 503 "):  # until it saw the four leave
                pass
            assert made.passages[-1].decision.cause == "ended"

    told(story)


def test_a_fault_of_its_own_is_answered_and_written_down_without_what_was_sent(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(self: Reach, target: object) -> None:
        raise LookupError(f"{target} {VALUE.decode()}")

    monkeypatch.setattr(Reach, "connected", broken)

    async def story() -> None:
        async with world(authority) as made:
            got = await made.ask(ASK)
            assert got.startswith(b"HTTP/1.1 500 ")
            assert got.endswith(b"the gate failed: LookupError\n")
            passage = await made.passed()
            assert (passage.decision.verdict, passage.decision.cause) == ("failed", "fault")
            assert str(passage.decision.target) == "api.example.com:443"

    told(story)
    assert "LookupError" in caplog.text
    assert VALUE.decode() not in caplog.text
