"""Connectors of every runtime that is built, from a file to an agent's answer, in a real sandbox."""

import contextlib
import json
import shutil
from collections.abc import Iterator

import pytest

from tests.flows.test_hostile import CASE, IN, OUT, SKILL, Agent, tool
from tests.kit.house import House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(180)]

INTERFACE = """apiVersion = "handler.interface/v1"
name = "probe"
version = 1
description = "Whatever a test asks for"
[limits]
timeoutSeconds = 20
[errors]
broken = "it is broken"
unavailable = "it cannot answer now"
"""
CONNECTOR = """apiVersion = "handler.connector/v1"
name = "acme-{name}"
description = "A program of runtime {runtime}"
implements = ["probe/v1"]
runtime = "{runtime}"
{more}
"""
BINDING = 'apiVersion = "handler.binding/v1"\nconnector = "acme-{name}"\n'
AGENT = """apiVersion = "handler.agent/v1"
services = {{ probe = "acme-{name}" }}
scope = [{{ path = "{inbox}", access = "write" }}]
"""
UNAVAILABLE = "probe_do ended with the error unavailable: it cannot answer now"
NODE = """#!/usr/bin/env node
const net = require("net"), fs = require("fs");
console.error("listening");
net.createServer((wire) => {
  let held = "";
  wire.on("data", (data) => {
    const lines = (held + data).split("\\n");
    held = lines.pop();
    for (const line of lines) {
      const { id, method, params } = JSON.parse(line);
      let result = {};
      if (method === "initialize") {
        result = { protocolVersion: "2025-11-25", capabilities: {}, serverInfo: { name: "n", version: "1" } };
      } else if (method === "tools/call") {
        const { mode, path } = params.arguments;
        if (mode === "die") process.exit(3);
        const read = () => fs.readFileSync("/run/connector/in/" + path.blob, "utf8");
        let text = path ? read() : process.env.WORD + " " + mode;
        if (mode === "look") {
          const shown = ["/etc/passwd", "/var", "/usr/bin/curl"].filter(fs.existsSync);
          text = JSON.stringify({ shown, names: Object.keys(process.env).sort(), uid: process.getuid() });
        }
        result = { content: [], structuredContent: { text } };
      }
      if (id !== undefined) wire.write(JSON.stringify({ jsonrpc: "2.0", id, result }) + "\\n");
    }
  });
}).listen(process.env.HANDLER_CONNECTOR_SOCKET);
"""
SHELL = """#!/bin/sh
echo "a script ran" >&2
exec "$PROGRAM" "$@"
"""
PYTHON = """import json, os, socket
listener = socket.socket(socket.AF_UNIX)
listener.bind(os.environ["HANDLER_CONNECTOR_SOCKET"])
listener.listen()
while True:
    with listener.accept()[0] as wire, wire.makefile("rwb", buffering=0) as lines:
        for line in lines:
            asked = json.loads(line)
            result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}
            if asked["method"] == "tools/call":
                result = {"content": [], "structuredContent": {"text": " ".join(sys.argv[1:])}}
            if "id" in asked:
                answer = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
                lines.write(json.dumps(answer).encode() + b"\\n")
""".replace("import json", "import sys, json")
SETTING = '[settings.word]\nenv = "WORD"\ndescription = "said first"\ndefault = "hello"\n'

needs_node = pytest.mark.skipif(shutil.which("node", path="/usr/bin") is None, reason="no /usr/bin/node")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("runtimes")) as made:
        made.write("handler.toml", 'apiVersion = "handler.config/v1"\n')
        made.write("interfaces/probe/v1/interface.toml", INTERFACE)
        tools = [tool("probe_do"), tool("probe_file", path=IN, output=OUT)]
        made.write("interfaces/probe/v1/tools.json", json.dumps(tools))
        made.write("interfaces/probe/v1/skills/probe/SKILL.md", SKILL)
        made.write(
            "interfaces/probe/v1/conformance/cases.toml", CASE.format("probe_do") + CASE.format("probe_file")
        )
        made.handler("lock", "add", "probe/v1")
        made.start()
        yield made
        assert made.stop() == 0
        assert made.processes() == []


def connect(place: House, name: str, runtime: str, more: str, **files: str) -> None:
    """A connector with its binding and an agent of the same name, applied."""
    folder = f"connectors/acme-{name}"
    for file, text in files.items():
        path = place.config / folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if text.startswith("#!") else 0o644)
    place.write(f"{folder}/PROVISIONING.md", "nothing\n")
    place.write(f"{folder}/connector.toml", CONNECTOR.format(name=name, runtime=runtime, more=more))
    place.write(f"bindings/acme-{name}.toml", BINDING.format(name=name))
    place.write(f"agents/{name}.toml", AGENT.format(name=name, inbox=place.inbox))
    place.handler("apply", "--wait")


@needs_node
def test_a_program_that_listens_on_a_path_serves_sees_nothing_of_the_host_and_is_started_again(
    place: House,
) -> None:
    connect(place, "node", "command", f'command = ["./serve.js"]\n{SETTING}', **{"serve.js": NODE})
    (place.inbox / "page.txt").write_text("from a file")
    with contextlib.closing(Agent(place, "node")) as agent:
        assert agent.ask(mode="world") == {"text": "hello world"}
        assert agent.ask("probe_file", mode="read", path="page.txt") == {"text": "from a file"}
        seen = json.loads(agent.ask(mode="look")["text"])
        assert agent.ask(mode="die") == UNAVAILABLE
        wait_for(lambda: agent.ask(mode="again") == {"text": "hello again"}, "it is started again")
    assert seen["shown"] == []
    assert seen["names"] == ["HANDLER_CONNECTOR_SOCKET", "HOME", "LANG", "PATH", "PWD", "WORD"]
    assert (seen["uid"] == 0) is False


def test_python_is_the_interpreter_of_the_sandbox_and_arguments_are_passed_as_they_are(place: House) -> None:
    words = '["python", "serve.py", "--a b", "$HOME", "*"]'
    connect(place, "words", "command", f"command = {words}", **{"serve.py": PYTHON})
    with contextlib.closing(Agent(place, "words")) as agent:
        assert agent.ask(mode="x") == {"text": "--a b $HOME *"}


SLEEP = "import os, time; {} time.sleep(99)"
LINK = "os.symlink('/run/connector/connector.sock', os.environ['HANDLER_CONNECTOR_SOCKET']);"
NEVER = {
    "silent": (["python", "-c", SLEEP.format("")], "StartTimeout", "did not answer"),
    "links": (["python", "-c", SLEEP.format(LINK)], "StartTimeout", "did not answer"),
    "absent": (["no-such-program"], "SandboxUnavailable", "'no-such-program' is not installed"),
}


@pytest.mark.parametrize("name", NEVER)
def test_a_program_that_never_serves_is_said_with_its_reason(place: House, name: str) -> None:
    command, reason, words = NEVER[name]
    connect(place, name, "command", f"command = {json.dumps(command)}\n[ready]\ntimeoutSeconds = 2")
    with contextlib.closing(Agent(place, name)) as agent:
        assert agent.ask(mode="x") == UNAVAILABLE

    def said() -> bool:
        ready = place.condition("binding", f"acme-{name}", "Ready")
        return ready.get("reason") == reason and words in ready["message"]

    wait_for(said, f"{reason} is said")
