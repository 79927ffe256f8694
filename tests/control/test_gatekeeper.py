"""The gate as a process of its own, met from inside real sandboxes: secrets that a connector never holds."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from reconciler.control.journal import Journal
from reconciler.control.leaving import Leaving
from reconciler.model.recipes import SecretUse
from reconciler.model.status import InstanceSeen
from reconciler.runtime.resolving import Resolver
from reconciler.runtime.workshop import Unready
from tests.egress.authority import Authority
from tests.kit.processes import descendants
from tests.runtime.rig import Rig, rig, run

pytestmark = pytest.mark.slow

VALUE = "sk-CANARY-51f0/+c-gate"
SENT = """
from handler_connector import request, Unsent
def sent(method, url, headers=None, body=b"", **more):
    try:
        answer = request(method, url, headers, body, timeout=20, **more)
        return [answer.status, answer.body.decode()]
    except Unsent as fault:
        return [fault.cause, fault.why]
"""


class Origin:
    """An HTTPS server at localhost: tells what it got of a request, but for paths that ask for another."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.port = 0

    async def came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.got.append(head)
            path = head.split(b" ")[1]
            body = head.split(b"x-api-key: ")[-1].split(b"\r\n")[0] if path == b"/echo" else b"done " + path
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
        writer.close()


def met(
    tmp_path: Path, story: Callable[[Rig, Leaving, Origin], Awaitable[Any]]
) -> tuple[Any, list[dict[str, Any]]]:
    """What a story gives beside an origin that a test's authority vouches for, and the journal's lines."""
    journal = Journal(tmp_path, time.time)
    authority = Authority(tmp_path)
    (tmp_path / "key").touch(mode=0o600)
    (tmp_path / "key").write_text(VALUE + "\n")

    async def once() -> Any:
        origin = Origin()
        server = await asyncio.start_server(
            origin.came, "127.0.0.1", 0, ssl=authority.server("localhost", "127.0.0.1")
        )
        origin.port = server.sockets[0].getsockname()[1]
        leaving = Leaving(journal)
        leaving.serves = lambda instance, number: True
        resolver = Resolver(tmp_path / "config")
        try:
            async with rig(way_out=leaving.serve, gate=leaving.serve_gate, secrets=resolver) as made:
                return await story(made, leaving, origin)
        finally:
            await leaving.close()
            server.close()

    before = os.environ.get("SSL_CERT_FILE")
    os.environ["SSL_CERT_FILE"] = str(authority.bundle)
    try:
        found = asyncio.run(once())
    finally:
        os.environ.pop("SSL_CERT_FILE")
        if before is not None:
            os.environ["SSL_CERT_FILE"] = before
    journal.close()
    path = tmp_path / "egress.jsonl"
    return found, [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def use(tmp_path: Path) -> SecretUse:
    return SecretUse("api_key", "file", (str(tmp_path / "key"),), None, "gate", "x-api-key")


def listed(port: int) -> tuple[str, ...]:
    return (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}")


def test_a_secret_is_added_outside_and_is_nowhere_inside(tmp_path: Path) -> None:
    async def story(made: Rig, leaving: Leaving, origin: Origin) -> Any:
        name = await made.declare(egress=listed(origin.port), secrets=(use(tmp_path),))
        leaving.serves = lambda instance, number: (instance, number) == (name, 2)
        at = f"https://localhost:{origin.port}"
        code = SENT + (
            "import os, threading\n"
            "from pathlib import Path\n"
            f"answer = {{'own': sent('POST', '{at}/own', {{'x-api-key': 'mine'}}, b'body')}}\n"
            f"answer['echo'] = sent('GET', '{at}/echo')\n"
            "answer['unlisted'] = sent('GET', 'https://evil.example.com/')\n"
            "class Other: number = 77\n"
            f"answer['other'] = sent('GET', '{at}/other', call=Other)\n"
            "thread = threading.Thread(target=lambda: answer.update("
            f"thread=sent('GET', '{at}/thread'), mine=sent('GET', '{at}/mine', call=call)))\n"
            "thread.start(); thread.join()\n"
            "seen = [Path('/proc/self/environ'), Path('/proc/self/cmdline')]\n"
            "for top in ('/app', '/kit', '/run', '/tmp'):\n"
            "    seen += [one for one in Path(top).rglob('*') if one.is_file()]\n"
            f"answer['held'] = [str(one) for one in seen if {VALUE[:9]!r}.encode() in one.read_bytes()]\n"
            "answer['socket'] = os.environ['HANDLER_GATE_SOCKET']\n"
            "answer['others'] = os.listdir('/run/connector')\n"
        )
        got = await made.run(name, code)
        everywhere = b""
        for pid in descendants():
            with suppress(OSError):
                everywhere += b"".join(
                    Path(f"/proc/{pid}/{part}").read_bytes() for part in ("cmdline", "environ")
                )
        assert VALUE.encode() not in everywhere
        on_disk = [
            one for one in made.base.rglob("*") if one.is_file() and VALUE.encode() in one.read_bytes()
        ]
        assert on_disk == []
        told = made.phase(name)
        assert (told.reason, told.message) == (
            "SecretEcho", "an answer from outside held a secret that the gate had added: it was not handed on"
        )  # fmt: skip
        gate = leaving.gate.pid
        assert not os.access(f"/proc/{gate}/mem", os.R_OK) or os.geteuid() == 0
        return got, origin.got

    (got, sent), lines = met(tmp_path, story)
    assert got["own"] == [200, "done /own"]
    assert got["echo"][0] == "echo"
    assert got["unlisted"] == ["unlisted", "evil.example.com:443 is not on the list of what may be reached"]
    assert got["other"][0] == "call"
    assert (got["thread"][0], got["mine"][0]) == (200, 200)
    assert (got["held"], got["socket"]) == ([], "/run/connector/gate.sock")
    assert sorted(got["others"]) == ["gate.sock", "in", "out"]
    assert b"x-api-key: " + VALUE.encode() + b"\r\n" in sent[0]
    assert b"mine" not in sent[0]
    told = [
        (one["way"], one["verdict"], one["cause"], one["call"], one["method"], one["status"]) for one in lines
    ]
    assert told == [
        ("gate", "allowed", "ended", "2", "POST", 200),
        ("gate", "refused", "echo", "2", "GET", 200),
        ("gate", "refused", "unlisted", "2", "GET", 0),
        ("gate", "refused", "call", "77", "GET", 0),
        ("gate", "allowed", "ended", "", "GET", 200),
        ("gate", "allowed", "ended", "2", "GET", 200),
    ]
    assert {one["object"] for one in lines} == {"binding/obedient"}
    assert VALUE not in json.dumps(lines)
    assert "/own" not in json.dumps(lines)


def test_a_gate_that_dies_comes_again_with_the_secrets_of_then(tmp_path: Path) -> None:
    async def story(made: Rig, leaving: Leaving, origin: Origin) -> Any:
        name = await made.declare(egress=listed(origin.port), secrets=(use(tmp_path),))
        _, line = await made.open(name)
        code = SENT + f"answer = sent('GET', 'https://localhost:{origin.port}/one')\n"
        assert await run(line, code) == [200, "done /one"]
        first = leaving.gate.pid
        (tmp_path / "key").write_text("another-secret-of-then\n")
        os.kill(first, signal.SIGKILL)
        while True:  # a request that was on its way to the old one breaks off; the next waits for the new one
            if await run(line, code) == [200, "done /one"] and leaving.gate.pid not in (0, first):
                break
        assert b"x-api-key: another-secret-of-then\r\n" in origin.got[-1]
        (tmp_path / "key").unlink()
        os.kill(leaving.gate.pid, signal.SIGKILL)
        async with asyncio.timeout(30):
            while made.phase(name).reason != "SecretUnresolved":
                await asyncio.sleep(0.02)
        with pytest.raises(Unready, match="does not resolve"):
            await made.supervisor.ready(name)
        return first

    first, _ = met(tmp_path, story)
    assert not Path(f"/proc/{first}").exists()


def test_one_process_serves_all_and_goes_with_the_controller(tmp_path: Path) -> None:
    async def story(made: Rig, leaving: Leaving, origin: Origin) -> Any:
        names = [await made.declare(one, egress=listed(origin.port)) for one in ("one", "two")]
        code = SENT + f"answer = sent('GET', 'https://127.0.0.1:{origin.port}/x')\n"
        pids = set()
        for name in names:
            assert await made.run(name, code) == [200, "done /x"]
            pids.add(leaving.gate.pid)
        assert b"x-api-key" not in b"".join(origin.got)
        await made.supervisor.retire(names[0])
        assert await made.run(names[1], code) == [200, "done /x"]
        return pids

    pids, lines = met(tmp_path, story)
    assert len(pids) == 1
    assert not Path(f"/proc/{pids.pop()}").exists()
    assert [one["object"] for one in lines] == ["binding/one", "binding/two", "binding/two"]


def test_where_nothing_adds_headers_it_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "key").touch(mode=0o600)
    (tmp_path / "key").write_text(VALUE)

    async def once() -> InstanceSeen:
        async def way_out(recipe: Any, listener: Any) -> Callable[[], None]:
            listener.close()
            return lambda: None

        async with rig(way_out=way_out, secrets=Resolver(tmp_path / "config")) as made:
            name = await made.declare(egress=("api.example.com:443",), secrets=(use(tmp_path),))
            with pytest.raises(Unready, match="nothing adds the headers"):
                await made.supervisor.ready(name)
            return made.phase(name)

    assert asyncio.run(once()).phase == "failed"
