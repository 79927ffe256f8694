"""HTTP for observers over real sockets: three pages, one Host, and an end to everybody's patience."""

import asyncio
import select
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from reconciler.doors import http


class Seen:
    """Stands for the controller as its observers see it."""

    well = True

    def live(self, *, verbose: bool) -> tuple[int, str]:
        return 200, "alive in many words\n" if verbose else "ok\n"

    def ready(self, *, verbose: bool) -> tuple[int, str]:
        return (200, "ok\n") if self.well else (503, "[-]source failed\n")

    async def metrics(self) -> bytes:
        return b"handler_x 1\n"


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture(params=["tcp", "tcp6", "unix"])
def listener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[socket.socket]:
    family = {"tcp": socket.AF_INET, "tcp6": socket.AF_INET6, "unix": socket.AF_UNIX}[request.param]
    with socket.socket(family) as sock:
        try:
            sock.bind(
                {"tcp": ("127.0.0.1", 0), "tcp6": ("::1", 0), "unix": str(tmp_path / "h.sock")}[request.param]
            )
        except OSError:
            assert request.param == "tcp6"
            pytest.skip("this machine has no IPv6")
        sock.listen()
        sock.setblocking(False)
        yield sock


def host(listener: socket.socket) -> str:
    name = listener.getsockname()
    return "x" if isinstance(name, str) else f"[::1]:{name[1]}" if len(name) > 2 else f"{name[0]}:{name[1]}"


async def asked(listener: socket.socket, *lines: str) -> bytes:
    """Everything that is answered to one request, until the other side closes."""
    with socket.socket(listener.family) as sock:
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(sock, listener.getsockname())
        await loop.sock_sendall(sock, "\r\n".join((*lines, "", "")).encode())
        got = b""
        while data := await asyncio.wait_for(loop.sock_recv(sock, 65536), 30):
            got += data
        return got


def live(listener: socket.socket, seen: Seen, story: Callable[[], Awaitable[None]]) -> None:
    """Tell the story while the pages are served; nothing of the server is left afterwards."""

    async def main() -> None:
        serving = asyncio.create_task(http.serve(listener, seen))
        try:
            await story()
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


@pytest.mark.parametrize(
    ("line", "status", "body"),
    [
        ("GET /metrics", 200, b"handler_x 1\n"),
        ("GET /livez", 200, b"ok\n"),
        ("GET /livez?verbose", 200, b"alive in many words\n"),
        ("GET /readyz", 200, b"ok\n"),
        ("GET /", 200, b"/metrics /livez /readyz"),
        ("HEAD /livez", 200, b"\r\n\r\n"),
        ("POST /metrics", 405, b""),
        ("GET /etc/passwd", 404, b""),
        ("GET /../../etc/passwd", 404, b""),
    ],
)
def test_the_pages_that_there_are(
    listener: socket.socket, seen: Seen, line: str, status: int, body: bytes
) -> None:
    async def story() -> None:
        got = await asked(listener, f"{line} HTTP/1.1", f"Host: {host(listener)}", "Connection: close")
        assert got.startswith(f"HTTP/1.1 {status} ".encode())
        assert body in got

    live(listener, seen, story)


def test_not_ready_is_told_by_the_status_as_well(listener: socket.socket, seen: Seen) -> None:
    seen.well = False

    async def story() -> None:
        got = await asked(listener, "GET /readyz HTTP/1.1", f"Host: {host(listener)}", "Connection: close")
        assert got.startswith(b"HTTP/1.1 503 ")
        assert got.endswith(b"[-]source failed\n")

    live(listener, seen, story)


@pytest.mark.parametrize("listener", ["tcp", "tcp6"], indirect=True)
@pytest.mark.parametrize("names", [["Host: evil.example"], ["Host: localhost"], ["Host: 127.0.0.1:1"]])
def test_a_request_that_was_meant_for_another_host_is_refused(
    listener: socket.socket, seen: Seen, names: list[str]
) -> None:
    async def story() -> None:
        got = await asked(listener, "GET /metrics HTTP/1.1", *names, "Connection: close")
        assert got.startswith(b"HTTP/1.1 421 ")
        assert b"handler_x" not in got
        local = f"Host: LocalHost:{listener.getsockname()[1]}"
        assert b"handler_x" in await asked(listener, "GET /metrics HTTP/1.1", local, "Connection: close")

    live(listener, seen, story)


@pytest.mark.parametrize("listener", ["unix"], indirect=True)
@pytest.mark.parametrize(
    "lines",
    [(), ("GET /metrics HTTP/1.1",), ("GET /livez HTTP/1.1", "Host: x", "")],
    ids=["none", "half", "idle"],
)
def test_whoever_does_not_finish_a_request_is_dropped(
    listener: socket.socket, seen: Seen, monkeypatch: pytest.MonkeyPatch, lines: tuple[str, ...]
) -> None:
    monkeypatch.setattr(http, "_REQUEST_S", 0.05)

    async def story() -> None:
        reader, writer = await asyncio.open_unix_connection(listener.getsockname())
        writer.write("".join(f"{line}\r\n" for line in lines).encode())
        await asyncio.wait_for(reader.read(), 30)
        writer.close()

    live(listener, seen, story)


@pytest.mark.parametrize("listener", ["unix"], indirect=True)
def test_a_large_head_and_a_crowd_are_refused(
    listener: socket.socket, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_CONNECTIONS", 2)

    async def story() -> None:
        reader, writer = await asyncio.open_unix_connection(listener.getsockname())
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 20_000)
        assert (await asyncio.wait_for(reader.read(), 30)).startswith(b"HTTP/1.1 4")
        writer.close()
        crowd = [await asyncio.open_unix_connection(listener.getsockname()) for _ in range(6)]
        ended = [asyncio.create_task(reader.read()) for reader, _ in crowd]
        await asyncio.wait_for(asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED), 30)
        for _, writer in crowd:
            writer.close()
        await asyncio.wait_for(asyncio.gather(*ended), 30)
        got = await asked(listener, "GET /livez HTTP/1.1", "Host: x", "Connection: close")
        assert got.endswith(b"ok\n")

    live(listener, seen, story)


def test_a_head_that_is_too_large_is_refused_though_it_comes_at_once(
    listener: socket.socket, seen: Seen
) -> None:
    async def story() -> None:
        own = host(listener)
        for lines in (
            ("GET /livez HTTP/1.1", f"Host: {own}", "X: " + "y" * 9_000),
            ("GET /livez?" + "y" * 9_000 + " HTTP/1.1", f"Host: {own}"),
        ):
            assert (await asked(listener, *lines)).startswith(b"HTTP/1.1 431 ")

    live(listener, seen, story)


@pytest.mark.parametrize("listener", ["unix"], indirect=True)
def test_whoever_does_not_read_the_answer_is_dropped(
    listener: socket.socket, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_REQUEST_S", 0.2)

    async def large() -> bytes:
        return b"x" * 50_000_000

    monkeypatch.setattr(seen, "metrics", large)

    async def story() -> None:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(listener.getsockname()))
            sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            gone = select.poll()
            gone.register(sock, 0)  # told of nothing but its end
            assert await asyncio.to_thread(gone.poll, 30_000)

    live(listener, seen, story)


@pytest.mark.parametrize("listener", ["tcp"], indirect=True)
def test_what_strangers_send_is_not_logged(
    listener: socket.socket, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")

    async def story() -> None:
        await asked(listener, "GARBAGE")
        await asked(listener, "GET /livez HTTP/1.1", f"Host: {host(listener)}", *upgrade, "Connection: close")

    live(listener, seen, story)
    assert caplog.text == ""
