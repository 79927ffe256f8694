"""The main job: an agent reads a scan, the engine behind it is swapped by one value, and nothing else
changes.

A real controller, real sandboxes, the official clients over ``handler-service``. The engine here is
tesseract under
two bindings that differ in their resolution, so that no package is fetched; ``make demo`` shows the second
engine.
"""

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client

from tests.kit.house import BIN, FIXTURES, House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(300)]

BINDING = 'apiVersion = "handler.binding/v1"\nconnector = "ocr-tesseract"\n'
AGENT = """apiVersion = "handler.agent/v1"
requires = ["ocr/v1"]
services = {{ ocr = "{binding}" }}
scope = ["{inbox}"]
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[House]:
    with house(tmp_path) as made:
        made.write("handler.toml", 'apiVersion = "handler.config/v1"\n[reconcile]\nscanSeconds = 0.5\n')
        made.write("bindings/fine.toml", BINDING)
        made.write("bindings/coarse.toml", BINDING + "[settings]\ndpi = 150\n")
        made.write("agents/clerk.toml", AGENT.format(binding="fine", inbox=made.inbox))
        for name in ("invoice.pdf", "invoice.png"):
            shutil.copy(FIXTURES / name, made.inbox)
        yield made


def bridge(made: House, *words: str) -> StdioServerParameters:
    return StdioServerParameters(command=str(BIN / "handler-service"), args=["ocr", *words], env=made.env)


async def tools_digest(client: Client) -> str:
    listed = await client.list_tools()
    text = json.dumps(
        [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed.tools]
    )
    return hashlib.sha256(text.encode()).hexdigest()


async def reading(client: Client, path: str = "invoice.png") -> str:
    result: Any = await client.call_tool("ocr_extract", {"path": path})
    assert not result.is_error, result.content
    return "\n".join(page["text"] for page in result.structured_content["pages"])


def session_of(made: House, agent: str = "clerk") -> dict[str, Any]:
    opened: dict[str, Any] = json.loads(made.handler("session", "open", agent, "-o", "json").stdout)
    return opened


def answered_by(made: House, count: int) -> list[str]:
    wait_for(lambda: len(made.calls()) >= count, f"{count} call records")
    return [call["binding"] for call in made.calls()]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_reads_the_invoice_through_the_bridge(place: House, mode: str) -> None:
    place.start()
    place.handler("apply", "--wait")

    async def read() -> None:
        async with Client(stdio_client(bridge(place, "--agent", "clerk")), mode=mode) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["ocr_extract"]
            assert "INV-2024-0042" in await reading(client, "invoice.pdf")

    asyncio.run(read())
    assert place.stop() == 0
    assert place.processes() == []


def test_a_rebind_reaches_the_next_session_and_never_the_open_one(place: House) -> None:
    place.start()
    place.handler("apply", "--wait")
    first, digests = session_of(place), []

    async def read(session: dict[str, Any]) -> None:
        socket = session["sockets"]["ocr"]
        async with Client(stdio_client(bridge(place, "--socket", socket))) as client:
            digests.append(await tools_digest(client))
            assert "INV-2024-0042" in await reading(client)

    asyncio.run(read(first))
    said = place.handler("rebind", "clerk", "ocr", "coarse")
    assert "coarse" in said.stdout
    place.handler("apply", "--wait")
    asyncio.run(read(first))
    asyncio.run(read(session_of(place)))
    assert answered_by(place, 3) == ["fine", "fine", "coarse"]
    assert len(set(digests)) == 1


def test_a_killed_controller_leaves_nothing_and_the_next_one_serves_the_same(place: House) -> None:
    place.start()
    place.handler("apply", "--wait")
    opened = session_of(place)
    place.handler("call", "ocr_extract", "path=invoice.png", "--agent", "clerk")
    place.handler("rebind", "clerk", "ocr", "coarse")
    place.handler("apply", "--wait")
    assert any("handler-sandbox" in line for line in place.processes())
    place.kill()
    wait_for(lambda: place.processes() == [], "every process of the killed controller is gone", 5)
    place.write("agents/clerk.toml", "services = {{ broken")  # a restart on a broken tree serves the same
    place.start()

    async def read() -> None:
        async with Client(stdio_client(bridge(place, "--socket", opened["sockets"]["ocr"]))) as client:
            assert "INV-2024-0042" in await reading(client)

    asyncio.run(read())
    done = place.handler("call", "ocr_extract", "path=invoice.png", "--agent", "clerk")
    assert "INV-2024-0042" in done.stdout
    assert answered_by(place, 3)[-2:] == ["fine", "coarse"]
    wait_for(
        lambda: place.condition("agent", "clerk", "Synced").get("reason") == "LastGoodRetained", "it says so"
    )


def test_an_agent_whose_requirement_is_not_met_is_refused_with_the_place_and_the_mend(place: House) -> None:
    place.start()
    place.write("agents/auditor.toml", 'apiVersion = "handler.agent/v1"\nrequires = ["ocr/v1"]\n')
    said = place.handler("apply", check=False)
    assert said.returncode == 1
    assert "agents/auditor.toml:2:" in said.stdout
    assert "mend" in said.stdout
    assert "ocr/v1" in said.stdout
    assert place.handler("session", "open", "auditor", check=False).returncode == 1
    assert place.condition("agent", "auditor", "Ready")["reason"] == "MissingRequirement"
    assert place.condition("agent", "clerk", "Ready")["status"] == "True"


BAD = {
    "half": 'apiVersion = "handler.binding/v1"\nconnector = "ocr-te',
    "markers": '<<<<<<< HEAD\nconnector = "a"\n=======\nconnector = "b"\n>>>>>>> x\n',
    "utf16": "connector".encode("utf-16").decode("latin-1"),
    "brackets": "a = " + "[" * 500,
    "huge": "# " + "x" * 50_000_000,
    "wrong-key": 'apiVersion = "handler.binding/v1"\nconector = "ocr-tesseract"\n',
    "dots": ".".join("a" for _ in range(20_000)) + " = 1\n",
}


def test_a_bad_file_is_said_within_two_seconds_and_the_rest_keeps_serving(place: House) -> None:
    good = (place.config / "bindings/fine.toml").read_text()
    names = {kind: "fine" if kind == "half" else f"fine-{kind}" for kind in BAD}
    for name in names.values():
        place.write(f"bindings/{name}.toml", good)
    place.start()
    place.handler("apply", "--wait")
    for kind, name in names.items():
        place.write(f"bindings/{name}.toml", BAD[kind])
        wait_for(lambda: place.condition("binding", name, "Admitted").get("status") == "False", kind, 2.5)  # noqa: B023
        assert place.status("binding", name)["problems"][0]["mend"], kind
        assert place.condition("binding", name, "Synced")["reason"] == "LastGoodRetained", kind
        said = place.handler("call", "ocr_extract", "path=invoice.png", "--agent", "clerk").stdout
        assert "INV-2024" in said, kind


def test_a_second_controller_says_who_holds_the_state(place: House) -> None:
    first = place.start()
    second = subprocess.run(
        [BIN / "handlerd"], env=place.env, capture_output=True, text=True, check=False, timeout=30
    )
    assert second.returncode == 2
    assert str(first.pid) in second.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can try a socket as somebody else")
def test_somebody_else_cannot_use_the_sockets(place: House) -> None:
    place.start()
    place.handler("apply", "--wait")
    sock = place.run / "a" / "clerk" / "ocr.sock"
    for path in (place.run, place.run / "a", place.run / "a" / "clerk"):
        path.chmod(0o755)
    sock.chmod(0o777)
    code = (
        "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.settimeout(5)\ns.connect(sys.argv[1])\n"
        's.sendall(b\'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\\n\')\nprint(len(s.recv(9000)))'
    )
    tried = subprocess.run(
        ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "/usr/bin/python3", "-c",
        code, sock],
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    if "can't open" in tried.stderr or tried.returncode == 127:
        pytest.skip("no system python for the other user")
    assert tried.stdout.strip() in ("", "0")


def test_the_node_client_of_the_inspector_lists_and_calls(place: House) -> None:
    if shutil.which("npx") is None:
        pytest.skip("npx is not installed")
    place.start()
    place.handler("apply", "--wait")
    base = ["npx", "--yes", "@modelcontextprotocol/inspector", "--cli", str(BIN / "handler-service"), "ocr"]
    for words, expected in (
        (["--method", "tools/list"], "ocr_extract"),
        (
            ["--method", "tools/call", "--tool-name", "ocr_extract", "--tool-arg", "path=invoice.png"],
            "INV-2024-0042",
        ),
    ):
        done = subprocess.run(
            [*base, *words],
            env=place.env,
            cwd=place.inbox,
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
        )
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout


def test_stopping_takes_every_process_along(place: House) -> None:
    daemon = place.start()
    place.handler("wait", "agent/clerk", "--for=Ready")
    place.handler("call", "ocr_extract", "path=invoice.png", "--agent", "clerk")
    assert place.handler("daemon", "stop").returncode == 0
    assert daemon.wait(timeout=20) == 0
    assert place.processes() == []
    assert not (place.run / "control.sock").exists()
    assert place.handler("status", check=False).returncode == 1
