"""Fifty megabytes in and fifty out, through a real controller and sandbox, in two short lines of JSON."""

import hashlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.house import House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(180)]

SIZE = 50_000_000
WIRE = 2_000  # bytes that the agent sends and hears, all in all
INTERFACE = """apiVersion = "handler.interface/v1"
name = "copy"
version = 1
description = "Copies a file"
[limits]
timeoutSeconds = 60
maxFileBytes = 60_000_000
[errors]
too_large = "the file is larger than limits.maxFileBytes"
"""
SKILL = """---
name: copy
description: Copy a file with copy_file.
---

`too_large`, `refused`, `limit`, `invalid_input`: stop. `unavailable`: wait.
"""
CASES = (
    '[[case]]\nname = "missing"\ntool = "copy_file"\ninput = { path = "none" }\nexpect.error = "too_large"\n'
)
CONNECTOR = """apiVersion = "handler.connector/v1"
name = "copy-plain"
description = "Copies byte for byte"
implements = ["copy/v1"]
runtime = "python"
"""
MAIN = """
from handler_connector import serve

def copy_file(args, call):
    size = 0
    with args["path"].open() as source:
        target = args["output"].open() if "output" in args else None
        while piece := source.read(1 << 18):
            size += len(piece)
            if target is not None:
                target.write(piece)
        if target is not None:
            target.close()
    return {"size": size}

serve({"copy_file": copy_file})
"""
IN = {"type": "string", "format": "handler-file", "description": "a file in the work folder"}
OUT = {"type": "string", "format": "handler-output-file", "description": "a new file in the work folder"}


def closed(required: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [required],
        "properties": properties,
    }


class Agent:
    """A client on a bare socket that counts every byte."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(90)
        self.socket.connect(str(path))
        self.lines = self.socket.makefile("rb")
        self.wire = 0

    def ask(self, **arguments: str) -> dict[str, Any]:
        call = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "copy_file", "arguments": arguments},
        }
        line = json.dumps(call).encode() + b"\n"
        self.socket.sendall(line)
        answer = self.lines.readline()
        self.wire += len(line) + len(answer)
        found: dict[str, Any] = json.loads(answer)["result"]
        return found

    def close(self) -> None:
        self.lines.close()
        self.socket.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("large")) as made:
        made.write("handler.toml", 'apiVersion = "handler.config/v1"\n')
        made.write("interfaces/copy/v1/interface.toml", INTERFACE)
        definition = {
            "name": "copy_file",
            "description": "Copies a file.",
            "inputSchema": closed("path", path=IN, output=OUT),
            "outputSchema": closed("size", size={"type": "integer"}),
        }
        made.write("interfaces/copy/v1/tools.json", json.dumps([definition]))
        made.write("interfaces/copy/v1/skills/copy/SKILL.md", SKILL)
        made.write("interfaces/copy/v1/conformance/cases.toml", CASES)
        made.write("interfaces/copy/v1/conformance/none", "")
        made.write("connectors/copy-plain/connector.toml", CONNECTOR)
        made.write("connectors/copy-plain/main.py", MAIN)
        made.write(
            "bindings/copy-plain.toml", 'apiVersion = "handler.binding/v1"\nconnector = "copy-plain"\n'
        )
        made.write(
            "agents/clerk.toml",
            'apiVersion = "handler.agent/v1"\n'
            f'services = {{ copy = "copy-plain" }}\nscope = ["{made.inbox}"]\n',
        )
        made.handler("lock", "add", "copy/v1", "--despite-warnings")
        made.start()
        made.handler("apply", "--wait")
        yield made
        assert made.stop() == 0
        assert made.processes() == []


@pytest.fixture
def agent(place: House) -> Iterator[Agent]:
    found = Agent(place.run / "a" / "clerk" / "copy.sock")
    yield found
    found.close()


def test_fifty_megabytes_go_in_and_come_out_and_the_agent_s_wire_carries_names(
    place: House, agent: Agent
) -> None:
    data = os.urandom(1 << 20) * (SIZE // (1 << 20) + 1) + b"the end"
    (place.inbox / "in.bin").write_bytes(data)
    answer = agent.ask(path="in.bin", output="out.bin")
    assert answer["structuredContent"] == {"size": len(data)}
    assert (place.inbox / "out.bin").read_bytes() == data
    assert agent.wire < WIRE
    wait_for(lambda: any(one["code"] == "ok" for one in place.calls()), "the call is recorded")
    (record,) = (one for one in place.calls() if one["code"] == "ok")
    digest = hashlib.sha256(data).hexdigest()
    assert record["files"] == [
        {"property": name, "sizeBytes": len(data), "sha256": digest} for name in ("path", "output")
    ]
    assert {path.name for path in place.inbox.iterdir()} - {"huge.bin"} == {"in.bin", "out.bin"}
    wait_for(lambda: not list(place.run.rglob("*-i0.bin")), "what was handed over is gone")


def test_a_file_above_the_limit_is_told_at_once(place: House, agent: Agent) -> None:
    with (place.inbox / "huge.bin").open("wb") as huge:
        huge.truncate(60_000_001)
    answer = agent.ask(path="huge.bin")
    assert answer["isError"] is True
    assert answer["content"][0]["text"].startswith("copy_file ended with the error too_large")
