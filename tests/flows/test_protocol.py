"""The protocol through everything that is real: the bridge, a controller, a sandboxed connector.

What is proven line by line in ``tests/router`` holds on the whole way: bad lines, grants of models, and turns
of agents that wait for one connector.
"""

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.kit.house import BIN, House, house
from tests.router.test_abuse import ROWS, heard, same

pytestmark = [pytest.mark.flow, pytest.mark.timeout(120)]

TEXT = {"type": "string", "maxLength": 1000}
INTERFACE = """apiVersion = "handler.interface/v1"
name = "talk"
version = 1
description = "Say things again"
[limits]
concurrentCalls = 64
[errors]
unavailable = "nobody listens"
"""
SKILL = "---\nname: talk\ndescription: Say things with talk_say.\n---\n`unavailable`: wait.\n"
CASE = (
    '[[case]]\nname = "says it"\ntool = "talk_say"\ninput = { text = "good" }\nexpect.contains = ["good"]\n'
)
CONNECTOR = """apiVersion = "handler.connector/v1"
name = "acme-talk"
description = "Says things again, one at a time"
implements = ["talk/v1"]
runtime = "python"
"""
# Every answer says how many came before it, and with which model.
MAIN = """import time
from handler_connector import serve

said = 0


def talk_say(args, call):
    global said
    said += 1
    if args["text"] == "slowly":
        time.sleep(0.01)
    return {"text": args["text"], "model": args.get("model", "none"), "turn": said}


serve({"talk_say": talk_say})
"""
BINDING = """apiVersion = "handler.binding/v1"
connector = "acme-talk"
models = ["small", "large", "huge"]
[instance]
maxConcurrentCalls = 1
"""
AGENT = 'apiVersion = "handler.agent/v1"\n{more}\n[services]\ntalk = "acme"\n'


def closed(**properties: Any) -> dict[str, Any]:
    required = [name for name in properties if name != "model"]
    return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


TOOL = {
    "name": "talk_say",
    "description": "Say it again.",
    "inputSchema": closed(text=TEXT, model=TEXT),
    "outputSchema": closed(text=TEXT, turn={"type": "integer"}, model=TEXT),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("protocol")) as made:
        made.write("handler.toml", 'apiVersion = "handler.config/v1"\n')
        made.write("interfaces/talk/v1/interface.toml", INTERFACE)
        made.write("interfaces/talk/v1/tools.json", json.dumps([TOOL]))
        made.write("interfaces/talk/v1/skills/talk/SKILL.md", SKILL)
        made.write("interfaces/talk/v1/conformance/cases.toml", CASE)
        made.write("connectors/acme-talk/connector.toml", CONNECTOR)
        made.write("connectors/acme-talk/PROVISIONING.md", "nothing\n")
        made.write("connectors/acme-talk/main.py", MAIN)
        made.write("bindings/acme.toml", BINDING)
        made.write("agents/greedy.toml", AGENT.format(more=""))
        made.write("agents/modest.toml", AGENT.format(more='models = ["huge", "large"]'))
        made.handler("lock", "add", "talk/v1", "--despite-warnings")
        made.start()
        made.handler("apply", "--wait")
        yield made
        assert made.stop() == 0
        assert made.processes() == []


class Client:
    """An agent on the bare socket of its standing door."""

    def __init__(self, place: House, name: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(str(place.run / "a" / name / "talk.sock"))
        self.lines = self.socket.makefile("rb")

    def send(self, *calls: tuple[int, dict[str, str]]) -> None:
        lines = [
            json.dumps(
                {
                    "jsonrpc": "2.0",
                    "id": ident,
                    "method": "tools/call",
                    "params": {"name": "talk_say", "arguments": arguments},
                }
            )
            for ident, arguments in calls
        ]
        self.socket.sendall("".join(f"{line}\n" for line in lines).encode())

    def hear(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.lines.readline())["result"]
        return found

    def ask(self, **arguments: str) -> dict[str, Any]:
        self.send((1, arguments))
        return self.hear()

    def close(self) -> None:
        self.lines.close()
        self.socket.close()


def test_bad_lines_through_the_bridge_are_answered_as_they_should(place: House) -> None:
    """All rows that call no tool in one conversation; what stands in them reaches the router untouched."""
    rows = [row for row in ROWS if b"tools/call" not in row.sent and len(row.sent) < 100_000]
    assert len(rows) > 150
    end = b'{"jsonrpc":"2.0","id":"the end","method":"ping"}\n'
    done = subprocess.run(
        [BIN / "handler-service", "talk", "--agent", "modest"],
        input=b"".join(row.sent for row in rows) + end,
        env=place.env,
        capture_output=True,
        check=False,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    wanted = [answer for row in rows for answer in row.answered]
    assert same(map(heard, done.stdout.splitlines()), [*wanted, ("the end", None)])


def test_an_agent_may_ask_for_the_models_that_its_binding_has_and_it_does_not_leave_out(place: House) -> None:
    with closing(Client(place, "greedy")) as greedy, closing(Client(place, "modest")) as modest:
        assert greedy.ask(text="x")["structuredContent"]["model"] == "small"
        assert modest.ask(text="x")["structuredContent"]["model"] == "large"
        assert modest.ask(text="x", model="huge")["structuredContent"]["model"] == "huge"
        refused = modest.ask(text="x", model="small")
        assert refused["_meta"]["ai.handler/error"]["error"] == "refused"
        assert refused["content"][0]["text"].count("large, huge") == 2  # prose, and JSON


def test_one_agent_with_many_calls_waiting_does_not_starve_another(place: House) -> None:
    with closing(Client(place, "greedy")) as greedy, closing(Client(place, "modest")) as modest:
        start = greedy.ask(text="x")["structuredContent"]["turn"]
        greedy.send(*((ident, {"text": "slowly"}) for ident in range(60)))
        greedy.hear()
        turn = modest.ask(text="x")["structuredContent"]["turn"]
        for _ in range(59):
            greedy.hear()
        assert turn - start < 60  # in one queue for all it would have been the last
