"""The texts of new files, one function a kind: what ``handler new`` writes, with comments that teach.

Each is valid by itself wherever that is possible: what only a person can know (a secret's place, a setting
without a default) is left to fill in, and said. Pure: an inventory in, paths and texts out.
"""

import json
from collections.abc import Iterator

from reconciler.admission.admit import Admission
from reconciler.model.inventory import Resource
from reconciler.model.names import InterfaceRef, Kind, ObjectRef, tool_prefix
from reconciler.model.resources import Binding, Connector, Record, Setting

_WITHOUT_PROCESS = ("builtin", "dialect")  # runtimes that the controller answers itself
_INSTANCE = """
[instance]
# The process starts with the first call and stops when nobody called it for this long.
idleStopSeconds = 300
"""
_ERRORS = """\
[errors]
unavailable = "the service is down; retrying later may work"
"""


def binding(name: str, connector: str, admission: Admission) -> dict[str, str]:
    """A binding of a connector: its settings as comments, its secrets and what has no default to fill in."""
    found = admission.in_force[ObjectRef(Kind.CONNECTOR, connector)].spec
    assert isinstance(found, Connector)  # noqa: S101 - an object's kind gives its record
    text = f"""\
# A binding is one configured connector: {_line(found.description)}
# It offers {", ".join(found.implements) or "nothing yet"}. 'handler explain binding' tells every key.
apiVersion = "handler.binding/v1"
connector = "{connector}"
"""
    if "llm/v1" in found.implements:
        text += "\n# The exact ids of the models that may be asked for; the first where a call names none.\n"
        text += '# models = ["…"]\n'
    for slot, told in found.secret_slots.items():
        about = _line(told.description) or "A secret"
        text += f"\n# {about}. Where it is found, never the value: command, file, env, …\n"
        mark = "" if told.required else "# "
        text += f'{mark}secrets.{slot} = {{ file = "~/.secrets/{name}-{slot.replace("_", "-")}" }}\n'
    if found.settings:
        text += "\n[settings]\n" + "\n".join(_setting(key, one) for key, one in found.settings.items())
    if found.runtime not in _WITHOUT_PROCESS:
        text += _INSTANCE
    return {f"bindings/{name}.toml": text}


def _setting(key: str, told: Setting) -> str:
    value = told.default if told.default is not None else (told.enum or ("",))[0]
    mark = "" if told.required and told.default is None else "# "
    choice = f" (one of {', '.join(json.dumps(one) for one in told.enum)})" if told.enum else ""
    return f"# {_line(told.description)}{choice}\n{mark}{key} = {json.dumps(value, ensure_ascii=False)}\n"


def agent(name: str, admission: Admission) -> dict[str, str]:
    """An agent that may call nothing yet, with what it could be given as comments."""
    projects = sorted(ref.name for ref in admission.in_force if ref.kind is Kind.PROJECT)
    shared = f'# project = "{projects[0]}"\n' if projects else ""
    text = f"""\
# An agent is whoever calls: a coding agent, a script, an app. It gets its services by
#   handler-service INTERFACE --agent {name}        (an MCP server on stdin and stdout)
# 'handler explain agent' tells every key.
apiVersion = "handler.agent/v1"
description = "{name}"
# A project whose services and requirements it shares.
{shared or '# project = "…"' + chr(10)}
# The folders that files may come from, and that new files may be written to. Nothing outside is reachable.
scope = []
{_services(admission)}"""
    return {f"agents/{name}.toml": text}


def project(name: str, admission: Admission) -> dict[str, str]:
    """A project without requirements, with the services that its agents could share as comments."""
    text = f"""\
# A project holds what its agents share; an agent joins with project = "{name}".
# 'handler explain project' tells every key.
apiVersion = "handler.project/v1"
description = "{name}"

# No agent of this project starts without these.
requires = []
{_services(admission)}"""
    return {f"projects/{name}.toml": text}


def connector(name: str, interface: InterfaceRef, admission: Admission) -> dict[str, str]:
    """A connector in python with a function for each tool of an interface, to be written by a person."""
    contract = admission.contracts[interface]
    text = f"""\
# A connector fulfils interfaces. This one runs main.py in a sandbox: no network, no home, no secret, unless
# it is listed here. 'handler explain connector' tells every key.
apiVersion = "handler.connector/v1"
name = "{name}"
description = "{name}"
implements = ["{interface}"]
runtime = "python"

# [settings.example]
# env = "EXAMPLE"
# description = "what a binding may set"
# default = "…"

[sandbox]
# Programs of this machine that it may run.
programs = []
"""
    tools = "\n\n".join(_function(tool) for tool in contract.tools)
    table = ", ".join(f'"{tool}": {tool}' for tool in contract.tools)
    code = f'''\
"""{name}: what answers {interface}. Arguments come checked; what is returned is checked, too."""

from handler_connector import Failure, serve

{tools}

serve({{{table}}})
'''
    return {f"connectors/{name}/connector.toml": text, f"connectors/{name}/main.py": code}


def _function(tool: str) -> str:
    return f'''
def {tool}(arguments, call):
    raise Failure("unavailable", "{tool} is not written yet")'''


def interface(ref: InterfaceRef) -> dict[str, str]:
    """The whole folder of a draft: one tool that takes a text and gives one, its skill, its one case."""
    folder, tool = f"interfaces/{ref}", f"{tool_prefix(ref.name)}run"
    metadata = f"""\
# A version of an interface: what an agent relies on. It is a draft until 'handler lock add {ref}'
# publishes it; then no byte of this folder changes, and the next version is v{ref.version + 1}.
apiVersion = "handler.interface/v1"
name = "{ref.name}"
version = {ref.version}
description = "What an agent gets from {ref.name}, in one sentence"

[limits]
timeoutSeconds = 120

# The only errors that a connector may return; the skill says what to do with each.
{_ERRORS}"""
    cases = f"""\
# What "implements {ref}" means: properties of answers, never exact answers. Files lie beside this one.

[[case]]
name = "a text comes back"
tool = "{tool}"
input = {{ text = "hello" }}
expect.text.pattern = "."
"""
    return {
        f"{folder}/interface.toml": metadata,
        f"{folder}/tools.json": json.dumps([_tool(tool)], indent=2) + "\n",
        f"{folder}/skills/{ref.name}/SKILL.md": _skill(ref, tool),
        f"{folder}/conformance/cases.toml": cases,
    }


def _tool(name: str) -> dict[str, object]:
    text = {"type": "string", "maxLength": 100_000}
    shape = {"type": "object", "additionalProperties": False, "required": ["text"]}
    return {
        "name": name,
        "description": "What it does, in one sentence that a model reads.",
        "inputSchema": {**shape, "properties": {"text": {**text, "description": "what it works on"}}},
        "outputSchema": {**shape, "properties": {"text": text}},
    }


def _skill(ref: InterfaceRef, tool: str) -> str:
    return f"""\
---
name: {ref.name}
description: What {ref.name} is good for, and when to use the {tool} tool.
---

# {ref.name}

## When to use it

- When …

## How to use it

1. Give `text`.
2. Take `text` of the answer.

## When it fails

The answer is an error with a code. What each one asks of you:

| code | what happened | what to do |
| --- | --- | --- |
| `unavailable` | the service is down | wait a little, try once more, then report it |
| `invalid_input` | the arguments break a rule; the message names the field | mend that field and call again |
| `refused` | what you asked for lies where you may not go | do not try ways around it |
| `limit` | too many calls at once or in this session | wait for calls to end; if it stays, report it |
"""


def _services(admission: Admission) -> str:
    """What could be selected, as comments: a line for each interface that a binding offers."""
    offers: dict[str, dict[str, list[int]]] = {}
    for resource in _sorted(admission):
        for one in sorted(map(InterfaceRef.parse, _implements(resource, admission))):
            offers.setdefault(one.name, {}).setdefault(resource.ref.name, []).append(one.version)
    text = "\n# Interface = binding. 'handler rebind AGENT INTERFACE BINDING' edits one.\n[services]\n"
    for name, bindings in sorted(offers.items()):
        first, *others = bindings
        newest = bindings[first][-1]
        several = len(bindings[first]) > 1  # then the version has to be said
        choice = f'{{ binding = "{first}", version = {newest} }}' if several else f'"{first}"'
        text += f"# {name} = {choice}" + (f"    or {', '.join(others)}" if others else "") + "\n"
    return text


def _sorted(admission: Admission) -> Iterator[Resource[Record]]:
    refs = sorted(ref for ref in admission.in_force if ref.kind is Kind.BINDING)
    return (admission.in_force[ref] for ref in refs)


def _implements(resource: Resource[Record], admission: Admission) -> tuple[str, ...]:
    spec = resource.spec
    if not isinstance(spec, Binding) or not spec.connector:
        return ()
    found = admission.in_force.get(ObjectRef(Kind.CONNECTOR, spec.connector))
    return found.spec.implements if found and isinstance(found.spec, Connector) else ()


def _line(text: str) -> str:
    """A description as part of a comment: one line, without what would end it."""
    return " ".join(text.split()).rstrip(".")
