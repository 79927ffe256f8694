"""The texts of new connectors of every runtime, of chains, policies and profiles, for ``handler new``.

As in ``drafts``: each is admitted as it stands wherever that is possible, and changes nothing that serves
before a person edits it. Pure: an inventory in, paths and texts out.
"""

import json
import re

from reconciler.admission.admit import Admission
from reconciler.model.names import InterfaceRef, Kind, ObjectRef

RUNTIMES = ("python", "deno", "command", "mcp", "remote", "image", "attached", "dialect")
POLICIES = {"egress": Kind.POLICY, "approval": Kind.APPROVAL}
_NO_DIGEST = f"ghcr.io/somebody/image@sha256:{'0' * 64}"
# What stands in connector.toml for each runtime, and why.
_RUNS = {
    "deno": 'runtime = "deno"',
    "command": """\
runtime = "command"
# The program and its arguments, one element each; no shell. It listens on HANDLER_CONNECTOR_SOCKET.
command = ["python", "serve.py"]""",
    "mcp": """\
runtime = "mcp"
# A server that speaks MCP on standard input and output; no shell.
command = ["python", "server.py"]""",
    "remote": """\
runtime = "remote"
# The server's address: https, or http of this machine.
url = "https://mcp.example.com/mcp\"""",
    "image": f"""\
runtime = "image"
# By digest: 'podman image inspect NAME --format {{{{.Digest}}}}' tells it. Nothing is pulled.
image = "{_NO_DIGEST}\"""",
    "attached": """\
runtime = "attached"
# A socket on which a program of your own user listens. Handler never starts or stops it.
socket = "/run/user/1000/app.sock\"""",
    "dialect": """\
runtime = "dialect"
# The profiles that it speaks by ('handler profile list' shows what there is).
profiles = []""",
}
_MAPPED = {"mcp", "remote", "image"}
_MAPPING = """
# How the server's tool becomes the interface's.
[tool.{tool}]
from = "{tool}"
# input = "{{document: file(path)}}"
# output = "{{text: text}}"
# errors = {{ "not found" = "unavailable", "*" = "unavailable" }}
"""
_OPERATION = """
# The operation that answers the tool, and what a profile must state of it for the tool to be offered.
[tool.{tool}]
operation = "complete"
needs = ["field.messages"]
"""
_SLOT = """
# The gate adds it: the connector never has it.
# [secretSlots.token]
# header = "Authorization: Bearer {}"
# required = true
"""


def connector(name: str, interface: InterfaceRef, runtime: str, admission: Admission) -> dict[str, str]:
    """A connector of a runtime other than python: what is said of it, and where it has one, its code."""
    folder = f"connectors/{name}"
    text = f"""\
# A connector fulfils interfaces. It reaches and touches nothing but what is listed here. 'handler explain
# connector' tells every key, docs/connectors.md what a connector of this runtime meets.
apiVersion = "handler.connector/v1"
name = "{name}"
description = "{name}"
implements = ["{interface}"]
{_RUNS[runtime]}
"""
    tools = list(admission.contracts[interface].tools)
    if runtime in ("remote", "dialect"):
        text += _SLOT
    if runtime in _MAPPED:
        text += "".join(_MAPPING.format(tool=tool) for tool in tools)
    if runtime == "dialect":
        text += "".join(_OPERATION.format(tool=tool) for tool in tools)
    files = {f"{folder}/connector.toml": text}
    if runtime == "deno":
        files[f"{folder}/main.ts"] = _typescript(name, interface, tools)
    elif runtime == "command":
        files[f"{folder}/serve.py"] = _program(name, interface, tools)
    elif runtime == "mcp":
        files[f"{folder}/server.py"] = _server(tools)
    return files


def _typescript(name: str, interface: InterfaceRef, tools: list[str]) -> str:
    functions = "".join(
        f"""
  {tool}(_args, _call) {{
    throw new Failure("unavailable", "{tool} is not written yet");
  }},"""
        for tool in tools
    )
    return f"""\
/** {name}: what answers {interface}. Arguments come checked; what is returned is checked, too. */
import {{ Failure, serve }} from "handler_connector";

serve({{{functions}
}});
"""


_ANSWERS = '''
def answer(request):
    """What a request is answered with; None for a notification."""
    method, params = request.get("method"), request.get("params") or {}
    if "id" not in request:
        return None
    if method == "initialize":
        result = {"protocolVersion": params.get("protocolVersion"), "capabilities": {"tools": {}},
                  "serverInfo": {"name": "draft", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
    elif method == "tools/call":
        result = TOOLS[params["name"]](params.get("arguments") or {})
    else:
        result = {}
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}


def failed(code, diagnostic):
    """An error of the interface's list; the diagnostic is for the operator alone."""
    meta = {"ai.handler/error": {"code": code, "diagnostic": diagnostic}}
    return {"isError": True, "content": [{"type": "text", "text": code}], "_meta": meta}
'''


def _tools(tools: list[str]) -> str:
    functions = "\n".join(
        f'''
def {tool}(arguments):
    """Answers with {{"structuredContent": …, "content": []}}."""
    return failed("unavailable", "{tool} is not written yet")
'''
        for tool in tools
    )
    return f"{functions}\n\nTOOLS = {{{', '.join(f'{json.dumps(one)}: {one}' for one in tools)}}}\n"


def _program(name: str, interface: InterfaceRef, tools: list[str]) -> str:
    return f'''\
"""{name}: a program that answers {interface}: MCP on a socket, one JSON message a line."""

import json
import os
import socketserver

{_ANSWERS}
{_tools(tools)}

class Connection(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            said = answer(json.loads(line))
            if said is not None:
                self.wfile.write(json.dumps(said).encode() + b"\\n")


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


Server(os.environ["HANDLER_CONNECTOR_SOCKET"], Connection).serve_forever()
'''


def _server(tools: list[str]) -> str:
    return f'''\
"""Stands for the MCP server that is wrapped: put its command into connector.toml, or its code here."""

import json
import sys

{_ANSWERS}
{_tools(tools)}

for line in sys.stdin:
    said = answer(json.loads(line))
    if said is not None:
        print(json.dumps(said), flush=True)
'''


def chain(name: str) -> dict[str, str]:
    """A chain that works with any agent that has a model: it asks it, and makes the calls that it wants."""
    text = f"""\
# A chain is a list of tasks. One runs at a time: it takes what flows, and its word chooses the next.
#   handler chain vet {name}       is it sound?
#   handler chain graph {name}     how does it look?
#   handler chain run {name} --agent AGENT --text "…" -w
# 'handler explain chain.tasks' tells every key.
id = "{name}"
description = "A model that may use the tools of its agent"
token_limit = 16_384

[[tasks]]
id = "ask"
handler = "chat_completion"
system_instruction = "Use the tools where they help. Answer in one sentence."
# The providers of tools: interfaces of the agent, like ["ocr", "fs"]; "*" is all of them.
execute_config = {{ tools = ["*"] }}
# The word of this task is tool_call where the model wants a tool, else executed.
transition.branches = [
    {{ operator = "equals", when = "tool_call", goto = "act" }},
    {{ operator = "default", goto = "end" }},
]

[[tasks]]
id = "act"
handler = "execute_tool_calls"
execute_config = {{ tools = ["*"] }}
# A loop has a budget: after so many rounds it ends.
transition.branches = [
    {{ operator = "edge_traversed_at_least", edge = "act->ask", when = "8", goto = "end" }},
    {{ operator = "default", goto = "ask" }},
]
"""
    return {f"chains/{name}.toml": text}


_EGRESS = """\
# What may leave this machine. As it stands all may that a connector lists, as without this file.
# docs/egress.md says when it is asked, 'handler explain policy.rule' tells every key.
apiVersion = "handler.egress-policy/v1"
# Where no rule speaks of it: another machine; this one.
remote = "allow"
local = "allow"

# Classes of data, from the lowest; the first is that of data without a label.
# [[class]]
# name = "public"
# [[class]]
# name = "private"
# localOnly = true

# Which files are of which class, by where they lie.
# [[label]]
# paths = ["clients/**"]
# class = "private"

# deny beats ask beats allow; the order never matters.
# [[rule]]
# id = "ask-first"
# effect = "ask"
# interfaces = ["send-email/v1"]
# ask = { timeoutSeconds = 600 }
"""
_APPROVAL = """\
# Which calls of a chain's tools need a person. The first rule that fits decides. docs/approvals.md says more,
# 'handler explain approval.rules' tells every key.
apiVersion = "handler.approval-policy/v1"
# What becomes of a call that no rule fits: allow, approve (a person is asked) or deny.
defaultAction = "approve"

[[rules]]
tools = "fs"
tool = "read_file"
action = "allow"

# [[rules]]
# tools = "shell"
# action = "deny"
# when = [{ key = "command", op = "command_blacklist", value = "rm, dd" }]
"""


def policy(name: str) -> dict[str, str]:
    """The one file of a policy: ``egress`` or ``approval``."""
    return {f"policies/{name}.toml": _EGRESS if name == "egress" else _APPROVAL}


def profile(name: str, like: bytes) -> dict[str, str]:
    """Revision 1 of a profile, with the facts of another one to begin with."""
    text = re.sub(r'(?m)^id = ".*"$', f'id = "{name}"', like.decode(), count=1)
    text = re.sub(r"(?m)^revision = .*$", "revision = 1", text, count=1)
    text = re.sub(r"(?m)^#:schema .*\n", "", text)
    head = f"# {name}: state what this server's documents say; a fact that is left out counts as not there.\n"
    return {f"profiles/{name}/1/profile.toml": head + text}


def profiles(admission: Admission) -> list[str]:
    """The profiles that another may begin as."""
    return sorted(ref.name for ref in admission.in_force if ref.kind is Kind.PROFILE)


def source(admission: Admission, name: str) -> bytes:
    """The text of a profile's file."""
    found = admission.in_force[ObjectRef(Kind.PROFILE, name)]
    return admission.inventory.trees[found.layer].files[found.file]
