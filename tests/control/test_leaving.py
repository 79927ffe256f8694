"""A connector that lists what it may reach, met from inside: it gets there, and nowhere else by any road."""

import asyncio
import json
import os
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reconciler.control.journal import Journal
from reconciler.control.leaving import Leaving, keep
from reconciler.control.sessions import Session
from reconciler.egress.decisions import Decision
from reconciler.egress.proxy import Proxy, Streams, dialled
from reconciler.model.routes import AgentRoutes
from reconciler.runtime.workshop import Unready
from tests.egress import tls
from tests.runtime.rig import Rig, rig, run

pytestmark = pytest.mark.slow

GREETING = tls.greeting("api.example.com")
ASKED = """
import os, socket
answer = {}
def asked(target, data):
    with socket.create_connection(("127.0.0.1", 3128), 20) as one:
        one.sendall(b"CONNECT %s HTTP/1.1\\r\\n\\r\\n" % target.encode())
        head = b""
        while b"\\r\\n\\r\\n" not in head:
            head += one.recv(1)
        if b" 200 " not in head:
            return head.split(b"\\r\\n")[0].decode()
        one.sendall(data)
        return one.recv(65536).hex()
def tried(name, attempt):
    try:
        answer[name] = repr(attempt())
    except Exception as fault:
        answer[name] = type(fault).__name__
"""


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()


def met(tmp_path: Path, story: Callable[[Rig, int], Awaitable[Any]]) -> tuple[Any, list[dict[str, Any]]]:
    """What a story gives where proxies reach an echo for every name, and the journal's lines."""
    journal = Journal(tmp_path, time.time)

    async def once() -> Any:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        async def resolve(host: str, number: int) -> Sequence[str]:
            return ["127.0.0.1"] if host.startswith("inside.") else ["93.184.216.34"]

        async def dial(address: str, number: int) -> Streams:
            return await dialled("127.0.0.1", port)

        leaving = Leaving(journal, partial(Proxy, resolve=resolve, dial=dial))
        async with rig(way_out=leaving.serve) as made:
            found = await story(made, port)
        server.close()
        return found

    found = asyncio.run(once())
    journal.close()
    path = tmp_path / "egress.jsonl"
    return found, [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_it_reaches_what_is_listed_and_nothing_else(tmp_path: Path) -> None:
    async def story(made: Rig, port: int) -> Any:
        listed = ("api.example.com:443", "inside.example.com:443", f"127.0.0.1:{port}")
        name = await made.declare(egress=listed)
        code = ASKED + (
            f"hello = bytes.fromhex({GREETING.hex()!r})\n"
            "answer['listed'] = asked('api.example.com:443', hello) == hello.hex()\n"
            f"answer['literal'] = bytes.fromhex(asked('127.0.0.1:{port}', b'plain')).decode()\n"
            "answer['sni'] = asked('api.example.com:443', hello.replace(b'api.', b'evil'))\n"
            "answer['private'] = asked('inside.example.com:443', hello)\n"
            "answer['unlisted'] = asked('evil.example.com:443', hello)\n"
            "answer['port'] = asked('api.example.com:80', hello)\n"
            "answer['env'] = os.environ['HTTPS_PROXY']\n"
            "bundle = os.environ.get('SSL_CERT_FILE')\n"
            "answer['trust'] = bundle is None or b'BEGIN CERTIFICATE' in open(bundle, 'rb').read()\n"
        )
        return await made.run(name, code)

    found, lines = met(tmp_path, story)
    assert found == {
        "listed": True, "literal": "plain", "sni": "", "env": "http://127.0.0.1:3128", "trust": True,
        **dict.fromkeys(("private", "unlisted", "port"), "HTTP/1.1 403 Forbidden"),
    }  # fmt: skip
    told = [(line["verdict"], line["cause"], line["target"]) for line in lines if line["cause"] != "ended"]
    assert told[0] == ("allowed", "listed", "api.example.com:443")
    assert told[2:] == [
        ("refused", "name", "api.example.com:443"),
        ("refused", "address", "inside.example.com:443"),
        ("refused", "unlisted", "evil.example.com:443"),
        ("refused", "unlisted", "api.example.com:80"),
    ]
    assert {line["object"] for line in lines} == {"binding/obedient"}
    ended = next(line for line in lines if line["cause"] == "ended")
    assert (ended["upBytes"], ended["downBytes"]) == (len(GREETING), len(GREETING))


def test_every_other_road_is_closed(tmp_path: Path) -> None:
    async def story(made: Rig, port: int) -> Any:
        name = await made.declare(egress=("api.example.com:443",))
        abstract = f"handler-test-{os.getpid()}"
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(f"\0{abstract}")
            one.listen(1)
            code = ASKED + (
                "def sent(family, kind, address):\n"
                "    with socket.socket(family, kind) as one:\n"
                "        one.settimeout(2); one.connect(address); one.send(b'x')\n"
                f"tried('v4', lambda: sent(2, 1, ('127.0.0.1', {port})))\n"
                f"tried('v6', lambda: sent(10, 1, ('::1', {port})))\n"
                "tried('outside', lambda: sent(2, 1, ('93.184.216.34', 443)))\n"
                "tried('outside6', lambda: sent(10, 1, ('2606:2800:220:1::1', 443)))\n"
                "tried('udp', lambda: sent(2, 2, ('93.184.216.34', 53)))\n"
                "tried('dns', lambda: socket.getaddrinfo('api.example.com', 443))\n"
                "tried('raw', lambda: socket.socket(2, 3, 1))\n"
                "tried('vsock', lambda: socket.socket(40, 1))\n"
                "tried('netlink', lambda: socket.socket(16, 3, 0))\n"
                f"tried('abstract', lambda: sent(1, 1, '\\0{abstract}'))\n"
                "tried('again', lambda: socket.create_server(('127.0.0.1', 3128)))\n"
            )
            return await made.run(name, code)

    found, lines = met(tmp_path, story)
    assert len(found) == 11
    assert not [name for name, word in found.items() if not word.lower().endswith("error")], found
    assert lines == []


def test_the_way_out_ends_with_the_process_and_comes_again_with_the_next(tmp_path: Path) -> None:
    async def story(made: Rig, port: int) -> Any:
        name = await made.declare(egress=("api.example.com:443",))
        code = f"{ASKED}\nanswer = len(asked('api.example.com:443', bytes.fromhex({GREETING.hex()!r})))\n"
        first = await made.run(name, code)
        endpoint, line = await made.open(name)
        hold = "import socket\nkept = socket.create_connection(('127.0.0.1', 3128), 20)\nanswer = 1"
        await run(line, hold)
        made.supervisor.broken(name, None, "a test ends it")
        await endpoint.ended
        before = len(asyncio.all_tasks())
        second = await made.run(name, code)
        await made.supervisor.retire(name)
        return first, second, before

    (first, second, _), _ = met(tmp_path, story)
    assert first == second == 2 * len(GREETING)


def test_without_a_list_there_is_nothing_to_ask(tmp_path: Path) -> None:
    async def story(made: Rig, port: int) -> Any:
        code = f"{ASKED}\ntried('proxy', lambda: asked('api.example.com:443', b''))"
        return await made.run(await made.declare(), code + "\nanswer['env'] = 'HTTPS_PROXY' in os.environ")

    assert met(tmp_path, story)[0] == {"proxy": "ConnectionRefusedError", "env": False}


def test_where_nobody_serves_its_network_it_does_not_start() -> None:
    async def once() -> None:
        async with rig() as made:
            name = await made.declare(egress=("api.example.com:443",))
            with pytest.raises(Unready, match="nothing serves its network here"):
                await made.supervisor.ready(name)

    asyncio.run(once())


def test_a_flood_of_attempts_is_counted_and_not_written(tmp_path: Path) -> None:
    clock = iter([100.0] * 501 + [101.0] * 5)
    journal = Journal(tmp_path, lambda: next(clock))
    counted = []
    journal.left = counted.append
    for number in range(500):
        journal.egress({"object": "binding/loud", "n": number})
    journal.egress({"object": "binding/quiet", "n": 0})
    for number in (500, 501):
        journal.egress({"object": "binding/loud", "n": number})
    lines = [json.loads(line) for line in (tmp_path / "egress.jsonl").read_text().splitlines()]
    assert [line["n"] for line in lines] == [*range(50), 0, 500, 501]
    assert lines[50]["object"] == "binding/quiet"  # one object's flood hides nothing of another's
    assert [line.get("droppedBefore") for line in lines[49:]] == [None, None, 450, None]
    assert len(counted) == 503


def test_what_a_sandbox_tells_is_kept_in_its_form_alone(tmp_path: Path) -> None:
    good = dict(Decision("refused", "unlisted", "why" * 400).as_json())
    session = Session("abc", AgentRoutes("clerk", {}), {}, 1, 0.0)
    journal = Journal(tmp_path, time.time)
    wrong: list[object] = [{**good, "more": 1}, {**good, "ms": "1"}, {}, [], "x", {**good, "why": None}]
    wrong += [{**good, "upBytes": size} for size in (-1, 2**63, 10**400, True, 1.5)]
    wrong += [{**good, "verdict": "passed"}, {**good, "cause": "\n"}, {**good, "target": "a\ud800:443"}]
    wrong += [{**good, "why": "one\ntwo"}]
    assert keep(journal, session, [good, *wrong]) == 1
    assert keep(journal, session, "text") == 0
    (line,) = [json.loads(one) for one in (tmp_path / "egress.jsonl").read_text().splitlines()]
    assert (line["object"], line["session"], len(line["why"])) == ("agent/clerk", "abc", 400)
