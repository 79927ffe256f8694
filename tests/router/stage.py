"""Contracts, routes and a connector that does as it is told, for tests of the router."""

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from reconciler.model.calls import Lane, Refusal, Reply, Result, Sink
from reconciler.model.contract import Contract, compiled
from reconciler.model.names import InstanceName
from reconciler.model.resources import Interface
from reconciler.model.routes import AgentRoutes, Route, ScopeFolder

Json = dict[str, Any]


def closed(**properties: Any) -> Json:
    required = [name for name in properties if not name.startswith("_")]
    named = {name.removeprefix("_"): schema for name, schema in properties.items()}
    return {"type": "object", "additionalProperties": False, "required": required, "properties": named}


def tool(name: str, inputs: Json, outputs: Json) -> Json:
    return {"name": name, "description": f"{name} for tests.", "inputSchema": inputs, "outputSchema": outputs}


FILE = {"type": "string", "format": "handler-file", "description": "a path in the work folder"}
FILE_OUT = {"type": "string", "format": "handler-output-file", "description": "a path in the work folder"}
TEXT = {"type": "string"}
OCR_TOOLS = [
    tool(
        "ocr_extract",
        closed(path=FILE, _languages={"type": "array", "items": {"type": "string", "pattern": "^[a-z]{2}$"}}),
        closed(pages={"type": "array", "items": closed(text=TEXT)}),
    ),
    tool(
        "ocr_merge",
        closed(paths={"type": "array", "items": FILE}, _to=FILE_OUT),
        closed(pages={"type": "integer"}),
    ),
]
NUMBER = {"type": "number"}
ECHO_TOOLS = [
    tool("echo_say", closed(text=TEXT), closed(text=TEXT)),
    tool("echo_add", closed(n=NUMBER), closed(n=NUMBER)),
]


def contract(name: str, tools: list[Json], **limits: Any) -> Contract:
    spec = Interface.model_validate(
        {
            "apiVersion": "handler.interface/v1",
            "name": name,
            "version": 1,
            "description": f"What {name} is for.",
            "limits": limits,
            "errors": {
                "unsupported_format": "the file is not a PDF or an image",
                "too_large": "the file exceeds limits.maxFileBytes",
                "unavailable": "the service is down or out of quota; retrying later may work",
            }
            if name == "ocr"
            else {},
        }
    )
    return compiled(spec, orjson.dumps(tools))


def ocr(**limits: Any) -> Contract:
    return contract("ocr", OCR_TOOLS, **limits)


def echo(**limits: Any) -> Contract:
    return contract("echo", ECHO_TOOLS, **limits)


def route(made: Contract, **changes: Any) -> Route:
    binding = f"{made.spec.name}-vendor"
    return Route(made.interface, binding, InstanceName(binding, "ab" * 32), made, **changes)


def routes(*made: Route, scope: tuple[ScopeFolder, ...] = ()) -> AgentRoutes:
    return AgentRoutes("clerk", {one.interface.name: one for one in made}, scope)


class Sent:
    """A call that came to the connector: answer it when the test wants to."""

    def __init__(self, number: int, tool_name: str, arguments: Mapping[str, Any], sink: Sink) -> None:
        self.number = number
        self.tool = tool_name
        self.arguments = arguments
        self.sink = sink
        self.cancelled = False

    def answer(self, files: Mapping[str, str] | None = None, **structured: Any) -> None:
        self.sink.done(Result(structured, files or {}))

    def refuse(self, code: str, diagnostic: str = "") -> None:
        self.sink.done(Refusal(code, diagnostic))


class FakeLane:
    """A connector. ``then`` sees every call; without it calls wait in ``sent``."""

    def __init__(self, then: Callable[[Sent], None] | None = None, inbox: int = -1, outbox: int = -1) -> None:
        self.inbox = inbox
        self.outbox = outbox
        self.sent: list[Sent] = []
        self.holds = 0
        self.then = then

    def send(self, tool_name: str, arguments: Mapping[str, Any], sink: Sink, max_reply_bytes: int) -> int:
        call = Sent(len(self.sent), tool_name, arguments, sink)
        self.sent.append(call)
        if self.then is not None:
            self.then(call)
        return call.number

    def cancel(self, number: int) -> bool:
        self.sent[number].cancelled = True
        return True

    def hold(self) -> None:
        self.holds += 1

    def release(self) -> None:
        self.holds -= 1


class FakeDispatch:
    """Gives ``lane`` at once, or to those who wait when the test starts it."""

    def __init__(self, lane: FakeLane | Refusal | None) -> None:
        self.given = lane
        self.waiting: list[Callable[[Lane | Refusal], None]] = []

    def lane(self, instance: InstanceName) -> Lane | None:
        return self.given if isinstance(self.given, FakeLane) else None

    def open_lane(self, instance: InstanceName, ready: Callable[[Lane | Refusal], None]) -> None:
        if self.given is None:
            self.waiting.append(ready)
        else:
            ready(self.given)

    def start(self, lane: FakeLane | Refusal) -> None:
        self.given = lane
        for ready in self.waiting:
            ready(lane)


def replied(reply: Reply) -> Callable[[Sent], None]:
    return lambda call: call.sink.done(reply)


def echoing(call: Sent) -> None:
    call.sink.done(Result(dict(call.arguments), {}))
