"""Connectors of every runtime that is built, from a file to an agent's answer, in a real sandbox."""

import contextlib
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.test_hostile import CASE, IN, OUT, SKILL, Agent, tool
from tests.kit.house import House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(180)]

INTERFACE = """apiVersion = "handler.interface/v1"
name = "probe"
version = 1
description = "Whatever a test asks for"
[limits]
timeoutSeconds = 6
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
        made.handler("lock", "add", "probe/v1", "--despite-warnings")
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
    assert seen["names"] == [
        "HANDLER_CONNECTOR_SOCKET",
        "HOME",
        "LANG",
        "PATH",
        "PWD",
        "PYTHONUNBUFFERED",
        "WORD",
    ]
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


# A server of standard input and output that does what it is asked, good or bad.
SERVER = r"""
import base64, json, os, sys, time

def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def said(text, **more):
    return {"content": [{"type": "text", "text": text}], **more}

print("starting up, dear user")
for line in sys.stdin:
    asked = json.loads(line)
    if "method" not in asked:
        print("answered", asked.get("error", asked.get("result")), file=sys.stderr, flush=True)
        continue
    method, params, number = asked["method"], asked.get("params", {}), asked.get("id")
    if method == "initialize":
        send(id="s", method="sampling/createMessage", params={"messages": []})
        send(id="r", method="roots/list")
        send(method="notifications/tools/list_changed")
        info = {"name": "x", "version": "1"}
        send(id=number, result={"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info})
    elif method == "tools/list":
        names = ["say"] if "cursor" not in params else ["convert"]
        more = {} if "cursor" in params else {"nextCursor": "2"}
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
        send(id=number, result={"tools": tools, **more})
    elif method == "tools/call" and params["name"] == "convert":
        given = params["arguments"]
        data = base64.b64decode(given["data"])
        assert given["url"] == "data:text/plain;base64," + given["data"], given["url"]
        image = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(data[::-1]).decode()}
        send(id=number, result={"content": [{"type": "text", "text": given["name"]}, image]})
    elif method == "tools/call":
        what = params["arguments"].pop("what")
        if what == "structured":
            send(id=number, result=said("ignored", structuredContent={"said": "in structure", "vendor": 1}))
        elif what == "json":
            send(id=number, result=said(json.dumps({"said": "in text"})))
        elif what == "arguments":
            send(id=number, result=said(json.dumps(params["arguments"], sort_keys=True)))
        elif what == "fault":
            send(id=number, result=said("canary-7f3a: the printer is Out Of Paper", isError=True))
        elif what == "other":
            send(id=number, result=said("canary-7f3a: no idea", isError=True))
        elif what == "rpc":
            send(id=number, error={"code": -32050, "message": "canary-7f3a"})
        elif what == "noise":
            print("\x00\xff garbage", "[" * 5000, flush=True)
            send(id=number + 1000, result=said("of nobody"))
            send(id=str(number), result=said("of nobody"))
            send(id=number, result=said("after noise"))
        elif what == "die":
            os._exit(9)
        elif what == "huge":
            sys.stdout.write("x" * (17 * 2**20) + "\n")
        elif what == "flood":
            for _ in range(5000):
                print("no", flush=True)
        elif what == "list":
            send(id=number, result={"content": "none", "structuredContent": [1]})
        elif what == "stop":
            while True:
                time.sleep(1)
        elif what == "env":
            send(id=number, result=said(" ".join(sorted(os.environ))))
"""
MAPPING = """command = ["python", "server.py"]
[tool.probe_do]
from = "say"
input = "{what: mode, words: text}"
output = "{text: structured.said || json.said || text}"
errors = { "out of paper" = "broken", "-32050" = "broken" }
[tool.probe_file]
from = "convert"
input = "{data: file(path), url: data_url(path), name: path.name}"
output = "{text: text, n: save(arguments.output, content[1].data)}"
"""
SAYS = {
    "structured": {"text": "in structure"},
    "json": {"text": "in text"},
    "arguments": {"text": "{}"},  # what was not given is not there, rather than null
    "noise": {"text": "after noise"},
    "env": {"text": "HOME LANG PATH PWD PYTHONUNBUFFERED"},
    "fault": "probe_do ended with the error broken: it is broken",
    "rpc": "probe_do ended with the error broken: it is broken",
    "other": UNAVAILABLE,
    "list": {"text": ""},
}
ENDS = ("die", "huge", "flood")


def test_a_wrapped_server_answers_through_the_interface_in_its_words_alone(place: House) -> None:
    connect(place, "wrapped", "mcp", MAPPING, **{"server.py": SERVER})
    (place.inbox / "in.txt").write_text("abc")
    with contextlib.closing(Agent(place, "wrapped")) as agent:
        for mode, answer in SAYS.items():
            assert agent.ask(mode=mode) == answer, mode
        assert agent.ask("probe_file", mode="x", path="in.txt", output="out.txt") == {
            "text": "in.txt",
            "n": 3,
        }
        assert (place.inbox / "out.txt").read_text() == "cba"
        for mode in ENDS:
            assert agent.ask(mode=mode) == UNAVAILABLE, mode
            wait_for(
                lambda: agent.ask(mode="json") == {"text": "in text"}, f"it is started again after {mode}"
            )
    logged = place.handler("logs", "acme-wrapped").stdout
    assert logged.count("nothing but tools is served here") >= 2
    assert "no MCP" in logged


def test_a_wrapped_server_that_hangs_costs_its_own_call_alone_and_is_ended(place: House) -> None:
    connect(place, "stuck", "mcp", MAPPING, **{"server.py": SERVER})
    with contextlib.closing(Agent(place, "stuck")) as agent:
        assert agent.ask(mode="json") == {"text": "in text"}
        assert agent.ask(mode="stop") == UNAVAILABLE
        wait_for(lambda: agent.ask(mode="json") == {"text": "in text"}, "it is started again")


def test_a_server_without_the_mapped_tool_is_never_ready_and_its_log_says_why(place: House) -> None:
    connect(place, "lacks", "mcp", MAPPING.replace('"convert"', '"transform"'), **{"server.py": SERVER})
    with contextlib.closing(Agent(place, "lacks")) as agent:
        assert agent.ask(mode="json") == UNAVAILABLE
    wait_for(
        lambda: "has no tool transform; it has convert, say" in place.handler("logs", "acme-lacks").stdout,
        "the log says it",
    )
    wait_for(
        lambda: (
            "has no tool transform; it has convert, say"
            in place.condition("binding", "acme-lacks", "Ready")["message"]
        ),
        "the status says it",
    )


TYPESCRIPT = """type Asked = { id?: number; method: string; params: { arguments: Record<string, any> } };
const path: string = Deno.env.get("HANDLER_CONNECTOR_SOCKET")!;

async function tried(what: string): Promise<string> {
  try {
    if (what === "net") await fetch("http://127.0.0.1:3128/");
    if (what === "import") await import("https://deno.land/x/y.ts");
    if (what === "etc") await Deno.readTextFile("/etc/passwd");
    if (what === "run") await new Deno.Command("/usr/bin/deno").output();
    if (what === "ffi") Deno.dlopen("/lib/x86_64-linux-gnu/libc.so.6", {});
    return "OPEN";
  } catch (fault) {
    return (fault as Error).name;
  }
}

async function answer(asked: Asked): Promise<unknown> {
  if (asked.method !== "tools/call") {
    return { protocolVersion: "2025-11-25", capabilities: {}, serverInfo: { name: "d", version: "1" } };
  }
  const { mode, path, output } = asked.params.arguments;
  if (!output) return { content: [], structuredContent: { text: await tried(mode) } };
  const text = await Deno.readTextFile(`/run/connector/in/${path.blob}`);
  await Deno.writeTextFile(`/run/connector/out/${output.blob}`, text.toUpperCase());
  const files = { output: { blob: output.blob, size: text.length } };
  return { content: [], structuredContent: { text }, _meta: { "ai.handler/files": files } };
}

for await (const wire of Deno.listen({ transport: "unix", path })) {
  (async () => {
    let held = "";
    for await (const part of wire.readable.pipeThrough(new TextDecoderStream())) {
      const lines = (held + part).split("\\n");
      held = lines.pop()!;
      for (const line of lines) {
        const asked: Asked = JSON.parse(line);
        if (asked.id === undefined) continue;
        const said = { jsonrpc: "2.0", id: asked.id, result: await answer(asked) };
        await wire.write(new TextEncoder().encode(JSON.stringify(said) + "\\n"));
      }
    }
  })();
}
"""
WALLED = ("net", "import", "etc", "run", "ffi")
deno_is_here = (Path(sys.executable).parent / "deno").exists() or shutil.which(
    "deno", path="/usr/local/bin:/usr/bin"
)


@pytest.mark.skipif(not deno_is_here, reason="no deno: pip install deno")
def test_a_script_of_denos_serves_with_files_and_is_let_nowhere_else(place: House) -> None:
    connect(place, "script", "deno", "", **{"main.ts": TYPESCRIPT})
    (place.inbox / "low.txt").write_text("low")
    with contextlib.closing(Agent(place, "script")) as agent:
        found = agent.ask("probe_file", mode="x", path="low.txt", output="high.txt")
        assert found == {"text": "low"}
        assert (place.inbox / "high.txt").read_text() == "LOW"
        said = {mode: agent.ask(mode=mode)["text"] for mode in WALLED}
        assert said == {**dict.fromkeys(WALLED, "NotCapable"), "import": "TypeError"}


@pytest.mark.skipif(bool(deno_is_here), reason="deno is here")
def test_without_deno_a_connector_of_its_says_what_to_install(place: House) -> None:
    connect(place, "script", "deno", "", **{"main.ts": TYPESCRIPT})
    with contextlib.closing(Agent(place, "script")) as agent:
        assert agent.ask(mode="x") == UNAVAILABLE
    wait_for(
        lambda: "pip install deno" in place.condition("binding", "acme-script", "Ready").get("message", ""),
        "the condition says it",
    )
