"""MCP as agents speak it, both eras, decided per request. Pure: a message in, what to do about it out.

A request with a protocol version in its ``_meta`` is of the modern era (2026-07-28: no handshake, no state);
any other is of the legacy one (initialize). No state is kept, so a call before the handshake is served. What
an agent reads (tools, instructions) comes from the pinned contracts alone and is the same bytes for every
session of a version, but for one word on how each interface stands; nothing here knows what is behind it.
The law of a call is in ``call``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from reconciler.model.contract import Tool
from reconciler.model.effects import UNKNOWN
from reconciler.model.jobs import companions, is_handle
from reconciler.model.routes import Route
from reconciler.model.stands import Stands, as_pinned
from reconciler.wire import jsonrpc, strict
from reconciler.wire.jsonrpc import Id, Message, Notification, Request

MODERN = "2026-07-28"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
SUPPORTED = (MODERN, *reversed(LEGACY))  # newest first

UNSUPPORTED_VERSION = -32022
MISSING_CAPABILITY = -32021

# What an agent reads for the codes that the router itself may answer, where the interface has no sentence.
ROUTER_TEXTS = {
    "invalid_input": "the input does not fit the tool",
    "refused": "this is not among what you may use, or it does not exist",
    "limit": "a limit of this service is reached; wait for running calls to end, or do without",
    "unavailable": "the service cannot answer now; retrying later may work",
}

NO_TASK = "there is no such task"  # of this agent, here; or it is kept no more

# The same of a tool that has an effect.
UNKNOWN_TEXT = "it may have happened: do not repeat it; find out whether it did, or ask the person"

META = "io.modelcontextprotocol/"
_VERSION = META + "protocolVersion"
_CAPABILITIES = META + "clientCapabilities"
_TRACE = 55  # characters of a traceparent, version 00
_META_LEVELS = strict.MAX_DEPTH - 2  # what is above it: the message, its params
_TASKS = META + "tasks"
_PAGE = 100  # tools in one page of a list


Era = tuple[bool, Id | None, str]  # modern?, the progress token, the trace
Verb = Literal["get", "update", "cancel"]  # of ``tasks/``


@dataclass(frozen=True, slots=True)
class Offer:
    """One tool of a session: where its calls go, and what they are checked against."""

    route: Route
    tool: Tool


@dataclass(slots=True)
class Call:
    """``tools/call``: run the law of a call, then answer as ``answers`` writes it."""

    id: Id
    offer: Offer
    arguments: dict[str, Any]
    modern: bool
    token: Id | None = None  # where progress is reported, when it was asked for
    trace: str = ""  # the trace that it belongs to, as it names it (W3C traceparent)
    key: str = ""  # of a run's call: its effect is kept under it, once however often the run is resumed
    task: Literal["", "create"] | Verb = ""  # of the tasks extension: as what it is answered


@dataclass(slots=True)
class AskTask:
    """A method of the tasks extension: about the job of that handle, whichever tool it is of."""

    id: Id
    verb: Verb
    handle: str
    trace: str


@dataclass(slots=True)
class Cancel:
    """``notifications/cancelled``: stop, and send nothing more for that id."""

    id: Id


@dataclass(slots=True)
class Listen:
    """``subscriptions/listen``: acknowledge it now, and answer when the door closes."""

    id: Id


Action = bytes | Call | AskTask | Cancel | Listen | None


class Face:
    """What one socket of a session serves: an interface, or all of them on ``services.sock``."""

    __slots__ = ("name", "offers", "routes", "stands", "tasks", "version")

    def __init__(self, name: str, version: str, routes: Sequence[Route]) -> None:
        self.name = name
        self.version = version
        self.routes = routes
        self.stands: Stands = as_pinned
        self.offers: dict[str, Offer] = {}
        for route in routes:
            for tool in route.contract.tools.values():
                if route.tools is None or tool.name in route.tools:
                    self.offers[tool.name] = Offer(route, tool)
        # The tools whose calls may become tasks, each with those that ask about its jobs, by kind: what an
        # agent may not ask by a tool, it may not ask by a task.
        asking = {name: companions(name) for name, offer in self.offers.items() if offer.tool.kind == "job"}
        self.tasks = {
            name: {kind: self.offers[one] for kind, one in named.items()}
            for name, named in asking.items()
            if self.offers.keys() >= set(named.values())
        }

    def listed(self, offer: Offer, *, has_tasks: bool) -> Mapping[str, Any]:
        """A tool as a client reads it: as its contract has it. Only what answers one that has tasks is the
        result of the job in the end, so that is what such a client is told to expect, and checks.
        """
        definition = offer.tool.definition
        if has_tasks and offer.tool.name in self.tasks:
            result = self.tasks[offer.tool.name]["result"].tool.definition
            return {**definition, "outputSchema": result["outputSchema"]}
        return definition


def answer(face: Face, message: Message) -> Action:
    """What one message of an agent calls for: a line to send, an act, or nothing."""
    if type(message) is Request:
        if "_meta" in message.params:
            return _with_meta(face, message, message.params["_meta"])
        return _call(face, message) if message.method == "tools/call" else _legacy(face, message)
    if type(message) is Notification:
        return _heard(message)
    if type(message) is jsonrpc.Fault:
        return jsonrpc.error(message.id, message.code, message.message)
    return None  # an answer: we never ask an agent anything


def _with_meta(face: Face, request: Request, meta: object) -> Action:
    if not isinstance(meta, dict):
        return _refuse(request, jsonrpc.INVALID_PARAMS, "_meta must be an object")
    if _VERSION in meta:
        return _modern(face, request, meta)
    if request.method == "tools/call":
        return _call(face, request, meta.get("progressToken"))
    return _legacy(face, request)


def instructions(routes: Sequence[Route], stands: Stands = as_pinned) -> str:
    """What an agent is told of its services: what each is for, how it stands, and what error codes mean."""
    lines = ["Services you can call. They say what they do; who provides it may change."]
    for route in routes:
        contract = route.contract
        lines.append(f"\n{contract.interface} ({stands(route).words}): {contract.spec.description.strip()}")
        if contract.spec.purpose:
            lines.append(f"For: {contract.spec.purpose.strip()}")
        lines.append(
            f"Tools: {', '.join(n for n in contract.tools if route.tools is None or n in route.tools)}."
        )
        if models := route.allowed:
            others = "".join(f", {model}" for model in models[1:])
            lines.append(f"Models: {models[0]} (where none is named){others}.")
        lines += [f"- error {code}: {text}" for code, text in contract.errors.items()]
    lines.append(
        "\nA call that does not go well is a tool error: a code and a sentence. Any tool may answer:"
    )
    lines += [f"- error {code}: {text}" for code, text in ROUTER_TEXTS.items()]
    if any(_has_effects(route) for route in routes):
        lines.append(f"- error {UNKNOWN}: {UNKNOWN_TEXT}")
    lines.append("Files are named by their path in your work folder; new files get plain names there.")
    return "\n".join(lines)


def _has_effects(route: Route) -> bool:
    tools = route.contract.tools.values()
    return any(one.effect != "none" for one in tools if route.tools is None or one.name in route.tools)


def _trace(meta: Mapping[str, Any]) -> str:
    """The ``traceparent`` of a ``_meta``; "" for anything that is not as long as one."""
    told = meta.get("traceparent")
    return told if type(told) is str and len(told) == _TRACE and told.isascii() else ""


def era(meta: Any) -> Era | None:
    """Era, progress token and trace of a call, by its ``_meta``; None: there is something to refuse."""
    if type(meta) is not dict or not strict.fits(meta, _META_LEVELS):
        return None
    token = meta.get("progressToken")
    if token is not None and not jsonrpc.id_is_legal(token):
        return None
    if _VERSION not in meta:
        return False, token, _trace(meta)
    modern = meta[_VERSION] == MODERN and type(meta.get(_CAPABILITIES)) is dict
    return (True, token, _trace(meta)) if modern else None


def _refuse(request: Request, code: int, message: str, data: Mapping[str, Any] | None = None) -> bytes:
    return jsonrpc.error(request.id, code, message, data)


def _heard(note: Notification) -> Action:
    if note.method != "notifications/cancelled":
        return None
    ident = note.params.get("requestId")
    return Cancel(ident) if ident is not None and jsonrpc.id_is_legal(ident) else None


def _modern(face: Face, request: Request, meta: Mapping[str, Any]) -> Action:
    version = meta[_VERSION]
    if type(version) is not str:
        return _refuse(request, jsonrpc.INVALID_PARAMS, "the protocol version in _meta must be a string")
    if type(meta.get(_CAPABILITIES)) is not dict:
        return _refuse(request, jsonrpc.INVALID_PARAMS, f"_meta needs {_CAPABILITIES}, an object")
    if version != MODERN:
        return _refuse(
            request,
            UNSUPPORTED_VERSION,
            "this protocol version is not supported",
            {"supported": list(SUPPORTED), "requested": version[:64]},
        )
    method = _MODERN_METHODS.get(request.method)
    if method is None:
        words = f"no such method; supported versions: {', '.join(SUPPORTED)}"
        return _refuse(request, jsonrpc.METHOD_NOT_FOUND, words)
    return method(face, request, meta)


def _legacy(face: Face, request: Request) -> Action:
    match request.method:
        case "initialize":
            asked = request.params.get("protocolVersion")
            return jsonrpc.result(
                request.id,
                {
                    "protocolVersion": asked if asked in LEGACY else LEGACY[-1],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": face.name, "version": face.version},
                    "instructions": instructions(face.routes, face.stands),
                },
            )
        case "ping":
            return jsonrpc.result(request.id, {})
        case "tools/list":
            return _list(face, request)
        case "server/discover":
            words = f"_meta needs {META}protocolVersion and {META}clientCapabilities"
            return _refuse(request, jsonrpc.INVALID_PARAMS, words)
        case _:
            return _refuse(request, jsonrpc.METHOD_NOT_FOUND, "no such method")


def _discover(face: Face, request: Request, _: Mapping[str, Any]) -> Action:
    value = {
        "resultType": "complete",
        "supportedVersions": list(SUPPORTED),
        "capabilities": {"tools": {}} | ({"extensions": {_TASKS: {}}} if face.tasks else {}),
        "instructions": instructions(face.routes, face.stands),
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {META + "serverInfo": {"name": face.name, "version": face.version}},
    }
    return jsonrpc.result(request.id, value)


def _list_modern(face: Face, request: Request, meta: Mapping[str, Any]) -> Action:
    head = b'"resultType":"complete","ttlMs":0,"cacheScope":"private",'
    return _list(face, request, head, has_tasks=_has_tasks(meta))


def _list(face: Face, request: Request, head: bytes = b"", *, has_tasks: bool = False) -> bytes:
    """A page of tools, each as its contract has it, in a fixed order."""
    cursor = request.params.get("cursor")
    start = 0 if cursor is None else _page_start(cursor, len(face.offers))
    if start is None:
        return _refuse(request, jsonrpc.INVALID_PARAMS, "there is no such cursor")
    page = list(face.offers.values())[start : start + _PAGE]
    tools = b",".join([orjson.dumps(face.listed(offer, has_tasks=has_tasks)) for offer in page])
    more = b""
    if start + _PAGE < len(face.offers):
        more = b',"nextCursor":"%d"' % (start + _PAGE)
    ident = orjson.dumps(request.id)
    return b'{"jsonrpc":"2.0","id":%b,"result":{%b"tools":[%b]%b}}\n' % (ident, head, tools, more)


def _page_start(cursor: object, size: int) -> int | None:
    if type(cursor) is not str or not cursor.isascii() or not cursor.isdigit() or len(cursor) > 6:
        return None
    start = int(cursor)
    return start if 0 < start < size and start % _PAGE == 0 else None


def _has_tasks(meta: Mapping[str, Any]) -> bool:
    """Whether a client declares the tasks extension in this request: what it declared before is forgotten."""
    extensions = meta[_CAPABILITIES].get("extensions")
    return type(extensions) is dict and type(extensions.get(_TASKS)) is dict


def _without_tasks(request: Request, meta: Mapping[str, Any]) -> bytes | None:
    """The refusal of what needs the tasks extension, to a client that did not declare it."""
    if _has_tasks(meta):
        return None
    return _refuse(
        request,
        MISSING_CAPABILITY,
        "this needs the tasks extension among the client's capabilities",
        {"requiredCapabilities": {"extensions": {_TASKS: {}}}},
    )


def _of_tasks(face: Face, request: Request, meta: Mapping[str, Any]) -> Action:
    """A method of the tasks extension, which is offered where a tool's calls may become tasks."""
    if (refusal := _without_tasks(request, meta)) is not None:
        return refusal
    if not face.tasks:
        return _refuse(request, jsonrpc.METHOD_NOT_FOUND, "the tasks extension is not offered here")
    verb, handle = _VERBS[request.method], request.params.get("taskId")
    if not is_handle(handle):
        return _refuse(request, jsonrpc.INVALID_PARAMS, NO_TASK)
    if verb == "update" and type(request.params.get("inputResponses")) is not dict:
        return _refuse(request, jsonrpc.INVALID_PARAMS, "inputResponses must be an object")
    return AskTask(request.id, verb, handle, _trace(meta))


def _call_modern(face: Face, request: Request, meta: Mapping[str, Any]) -> Action:
    """A call. Whether it becomes a task is the server's to say: that of a job does, for who knows of tasks.
    A ``task`` of the params, by which older clients asked, is to be ignored.
    """
    made = _call(face, request, meta.get("progressToken"), modern=True)
    if type(made) is Call and made.offer.tool.name in face.tasks and _has_tasks(meta):
        made.task = "create"
    return made


def _call(face: Face, request: Request, token: object = None, *, modern: bool = False) -> Call | bytes:
    params = request.params
    name = params.get("name")
    offer = face.offers.get(name) if type(name) is str else None
    if offer is None:
        return _refuse(request, jsonrpc.INVALID_PARAMS, "there is no such tool")
    arguments = params.get("arguments")
    if type(arguments) is not dict:
        if arguments is not None:
            return _refuse(request, jsonrpc.INVALID_PARAMS, "arguments must be an object")
        arguments = {}
    if token is None or jsonrpc.id_is_legal(token):
        meta = params.get("_meta")
        return Call(request.id, offer, arguments, modern, token, _trace(meta) if meta else "")
    return _refuse(request, jsonrpc.INVALID_PARAMS, "a progress token is a string or an integer")


def _listen(_: Face, request: Request, meta: Mapping[str, Any]) -> Action:
    wanted = request.params.get("notifications", {})
    if type(wanted) is not dict:
        return _refuse(request, jsonrpc.INVALID_PARAMS, "notifications must be an object")
    refusal = _without_tasks(request, meta) if "taskIds" in wanted else None
    return refusal or Listen(request.id)


_VERBS: Mapping[str, Verb] = {"tasks/get": "get", "tasks/update": "update", "tasks/cancel": "cancel"}
_MODERN_METHODS: Mapping[str, Callable[[Face, Request, Mapping[str, Any]], Action]] = {
    "server/discover": _discover,
    "tools/list": _list_modern,
    "tools/call": _call_modern,
    "subscriptions/listen": _listen,
    **dict.fromkeys(_VERBS, _of_tasks),
}
