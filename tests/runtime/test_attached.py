"""What was there before us: connected to, never started or stopped, and looked for again when it was gone."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from reconciler.model.recipes import Pinned, folder_digest
from reconciler.runtime import sockets
from reconciler.runtime.cell import Endpoint
from reconciler.runtime.workshop import Unready
from tests.kit.house import wait_for
from tests.runtime.rig import KIT, rig

CODE = Pinned(folder_digest({"connector.toml": b""}), {"connector.toml": b""})
SERVER = "from handler_connector import serve\nserve({'run': lambda args, call: {'answer': 'here'}})\n"


@contextmanager
def listening(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program of our own user's that listens at a path."""
    path.unlink(missing_ok=True)
    env = {"HANDLER_CONNECTOR_SOCKET": str(path), "PYTHONPATH": str(KIT.parent)}
    with subprocess.Popen([sys.executable, "-c", SERVER], env=env) as running:
        try:
            wait_for(path.exists, "it listens")
            yield running
        finally:
            running.kill()


@pytest.mark.slow
def test_it_is_met_left_alone_and_met_again_after_it_was_gone(tmp_path: Path) -> None:
    path = tmp_path / "app.sock"

    async def story() -> None:
        async with rig() as made:
            name = await made.declare("there", CODE, runtime="attached", socket=str(path), idle_stop_s=1)
            with pytest.raises(Unready, match=r"nothing listens at .*: start what it is attached to"):
                await made.supervisor.ready(name)
            with listening(path) as first:
                await asyncio.sleep(0.01)
                endpoint, line = await made.open(name)
                assert endpoint.pid == first.pid
                reply = await line.ask("tools/call", {"name": "run", "arguments": {}})
                assert reply["result"]["structuredContent"] == {"answer": "here"}
                assert made.phase(name).walls == {"sandbox": "none"}
                await asyncio.wait_for(asyncio.shield(endpoint.ended), 30)  # idle: let go of
                assert first.poll() is None
                endpoint, _ = await made.open(name)
                first.send_signal(signal.SIGKILL)
                await asyncio.wait_for(asyncio.shield(endpoint.ended), 30)
            with listening(path) as second:
                await made_ready(made, name)
                assert made.phase(name).pid == second.pid
                await made.supervisor.close()
                assert second.poll() is None

    async def made_ready(made, name) -> None:  # type: ignore[no-untyped-def]
        async with asyncio.timeout(60):
            while True:
                with suppress(Unready):
                    await made.supervisor.ready(name)
                    return
                await asyncio.sleep(0.05)

    asyncio.run(story())


@pytest.mark.parametrize("what", ["a link", "a file", "another user's"])
def test_what_is_no_socket_of_our_own_user_is_not_met(tmp_path: Path, what: str) -> None:
    path, real = tmp_path / "app.sock", tmp_path / "real.sock"

    async def story() -> str:
        async with rig() as made:
            name = await made.declare("there", CODE, runtime="attached", socket=str(path))
            with pytest.raises(Unready) as refused:
                await made.supervisor.ready(name)
            return refused.value.message

    if what == "another user's":
        if os.geteuid() != 0:
            pytest.skip("only root can stand for another user")
        with tempfile.TemporaryDirectory() as shared:
            Path(shared).chmod(0o777)
            path = Path(shared) / "app.sock"
            assert "is another user's" in as_another(path, story)
        return
    with listening(real):
        path.symlink_to(real) if what == "a link" else path.write_text("")
        assert "nothing listens at" in asyncio.run(story())


def as_another(path: Path, story) -> str:  # type: ignore[no-untyped-def]
    """What is said where the socket was bound, and is listened on, by another user."""
    words = f"import os, socket, time; os.setuid(65534); s = socket.socket(1); s.bind({str(path)!r}); "
    words += "s.listen(); time.sleep(99)"
    with subprocess.Popen([sys.executable, "-c", words]) as other:
        try:
            wait_for(path.exists, "it listens")
            said: str = asyncio.run(story())
        finally:
            other.kill()
    return said


def test_no_socket_of_our_own_is_attached_whatever_link_leads_there(tmp_path: Path) -> None:
    async def story() -> str:
        async with rig() as made:
            (tmp_path / "way").symlink_to(made.base / "run")
            path = str(tmp_path / "way" / "control.sock")
            name = await made.declare("there", CODE, runtime="attached", socket=path)
            with pytest.raises(Unready) as refused:
                await made.supervisor.ready(name)
            return refused.value.message

    assert "leads into Handler's own files" in asyncio.run(story())


def test_each_connection_asks_again_who_listens(tmp_path: Path) -> None:
    async def story() -> None:
        at = sockets.folder(tmp_path)
        ended = asyncio.get_running_loop().create_future()
        try:
            with sockets.listen(at, "app.sock"):
                Endpoint(1, 0, 0, ended, at, name="app.sock", user=os.geteuid()).connect().close()
                with pytest.raises(ConnectionRefusedError, match="another user"):
                    Endpoint(1, 0, 0, ended, at, name="app.sock", user=os.geteuid() + 1).connect()
        finally:
            os.close(at)

    asyncio.run(story())
