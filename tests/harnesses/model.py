"""A model that reads from a script: a server on loopback that speaks what the harnesses' models speak.

Anthropic messages, OpenAI chat completions and responses, Gemini generateContent, each streamed or not. Where
a request offers the tool that the script is about, the model asks for it, once a case, in the script's order;
then it says goodbye. Any other request (a title, a summary, a count of tokens) gets a short sentence. What
the tool was called, how it was described and what came back for each case is kept as it stood on the wire.

No state but the last request: how far a conversation is, is counted from what it holds.
"""

import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

GOODBYE = "All cases are done."
MODEL = "scripted"
_ID = "call_case_"
_FUNCTIONS = "search_tool_functions"  # tells how functions are declared that code can call
_FINDERS = ("ToolSearch", "tool_search", _FUNCTIONS)
_CODE = "run_typescript"  # the tool that runs code in which the tools are functions
_BRIDGE = "tool_call"  # the tool that calls tools which are not declared
_SEARCH = 99  # the number of a call that searches, and is no case
_USAGE = 7  # tokens; no harness minds how many


@dataclass(frozen=True, slots=True)
class Case:
    """One call that the model asks for."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """A tool as the model sees it. ``space`` is the namespace it stands in, where a harness has them."""

    name: str
    description: str
    schema: Any
    space: str | None = None


Say = str | tuple[Seen, int, Mapping[str, Any]]  # a sentence, or a call: tool, number of its case, arguments


def _is_case(ident: object) -> bool:
    """Whether a call is one of the script's."""
    return str(ident).startswith(_ID) and ident != f"{_ID}{_SEARCH}"


def _texts(value: Any) -> Iterator[str]:
    """Every text of a request, at every depth."""
    if isinstance(value, str):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(one)


class Dialect(Protocol):
    """One way of speaking with a model."""

    def tools(self, body: Mapping[str, Any]) -> Iterator[Seen]: ...
    def results(self, body: Mapping[str, Any]) -> Iterator[Any]: ...
    def whole(self, say: Say, body: Mapping[str, Any]) -> Mapping[str, Any]: ...
    def stream(self, say: Say, body: Mapping[str, Any]) -> Iterator[tuple[str | None, Any]]: ...


class Anthropic:
    """`/v1/messages`."""

    def tools(self, body: Mapping[str, Any]) -> Iterator[Seen]:
        for tool in body.get("tools", ()):
            if "input_schema" in tool:
                yield Seen(tool["name"], tool.get("description", ""), tool["input_schema"])

    def results(self, body: Mapping[str, Any]) -> Iterator[Any]:
        for message in body["messages"]:
            parts = message["content"]
            for part in parts if isinstance(parts, list) else ():
                if part["type"] == "tool_result" and _is_case(part["tool_use_id"]):
                    kept = ("content", "is_error")
                    yield {key: part[key] for key in kept if key in part}

    def _block(self, say: Say) -> dict[str, Any]:
        if isinstance(say, str):
            return {"type": "text", "text": say}
        tool, number, arguments = say
        return {"type": "tool_use", "id": f"{_ID}{number}", "name": tool.name, "input": dict(arguments)}

    def whole(self, say: Say, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": body.get("model"),
            "content": [self._block(say)],
            "stop_reason": "end_turn" if isinstance(say, str) else "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": _USAGE, "output_tokens": _USAGE},
        }

    def stream(self, say: Say, body: Mapping[str, Any]) -> Iterator[tuple[str | None, Any]]:
        message = dict(self.whole(say, body))
        block, reason = message["content"][0], message["stop_reason"]
        message |= {"content": [], "stop_reason": None}
        if isinstance(say, str):
            opened, delta = block | {"text": ""}, {"type": "text_delta", "text": say}
        else:
            opened = block | {"input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield from (
            (event["type"], event)
            for event in (
                {"type": "message_start", "message": message},
                {"type": "content_block_start", "index": 0, "content_block": opened},
                {"type": "content_block_delta", "index": 0, "delta": delta},
                {"type": "content_block_stop", "index": 0},
                {
                    "type": "message_delta",
                    "delta": {"stop_reason": reason, "stop_sequence": None},
                    "usage": {"output_tokens": _USAGE},
                },
                {"type": "message_stop"},
            )
        )


class Chat:
    """`/v1/chat/completions`."""

    def tools(self, body: Mapping[str, Any]) -> Iterator[Seen]:
        for tool in body.get("tools", ()):
            one = tool["function"]
            yield Seen(one["name"], one.get("description", ""), one.get("parameters"))

    def results(self, body: Mapping[str, Any]) -> Iterator[Any]:
        for message in body["messages"]:
            if message["role"] == "tool" and _is_case(message.get("tool_call_id")):
                yield {"content": message["content"]}

    def _message(self, say: Say) -> dict[str, Any]:
        if isinstance(say, str):
            return {"role": "assistant", "content": say}
        tool, number, arguments = say
        function = {"name": tool.name, "arguments": json.dumps(arguments)}
        call = {"index": 0, "id": f"{_ID}{number}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    def _choice(self, key: str, message: Any, reason: str | None) -> dict[str, Any]:
        return {"index": 0, key: message, "finish_reason": reason}

    def _frame(self, kind: str, choices: Sequence[Any], body: Mapping[str, Any]) -> dict[str, Any]:
        usage = {"prompt_tokens": _USAGE, "completion_tokens": _USAGE, "total_tokens": 2 * _USAGE}
        return {
            "id": "chat_1",
            "object": kind,
            "created": 1,
            "model": body.get("model"),
            "choices": choices,
            "usage": usage,
        }

    def whole(self, say: Say, body: Mapping[str, Any]) -> Mapping[str, Any]:
        reason = "stop" if isinstance(say, str) else "tool_calls"
        return self._frame("chat.completion", [self._choice("message", self._message(say), reason)], body)

    def stream(self, say: Say, body: Mapping[str, Any]) -> Iterator[tuple[str | None, Any]]:
        reason = "stop" if isinstance(say, str) else "tool_calls"
        for delta, why in ((self._message(say), None), ({}, reason)):
            yield None, self._frame("chat.completion.chunk", [self._choice("delta", delta, why)], body)
        yield None, "[DONE]"


class Responses:
    """`/v1/responses`."""

    def tools(self, body: Mapping[str, Any]) -> Iterator[Seen]:
        for tool in body.get("tools", ()):
            if tool["type"] == "function":
                yield Seen(tool["name"], tool.get("description", ""), tool.get("parameters"))
            for one in tool.get("tools", ()) if tool["type"] == "namespace" else ():
                yield Seen(one["name"], one.get("description", ""), one.get("parameters"), tool["name"])

    def results(self, body: Mapping[str, Any]) -> Iterator[Any]:
        for item in body["input"] if isinstance(body["input"], list) else ():
            if item.get("type") == "function_call_output" and _is_case(item["call_id"]):
                yield {"output": item["output"]}

    def _item(self, say: Say) -> dict[str, Any]:
        if isinstance(say, str):
            part = {"type": "output_text", "text": say, "annotations": []}
            return {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        tool, number, arguments = say
        call = {
            "id": f"fc_{number}",
            "type": "function_call",
            "status": "completed",
            "call_id": f"{_ID}{number}",
            "name": tool.name,
            "arguments": json.dumps(arguments),
        }
        return call | ({"namespace": tool.space} if tool.space else {})

    def whole(self, say: Say, body: Mapping[str, Any]) -> Mapping[str, Any]:
        usage = {
            "input_tokens": _USAGE,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": _USAGE,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2 * _USAGE,
        }
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "model": body.get("model"),
            "status": "completed",
            "output": [self._item(say)],
            "usage": usage,
        }

    def stream(self, say: Say, body: Mapping[str, Any]) -> Iterator[tuple[str | None, Any]]:
        response = dict(self.whole(say, body))
        item = self._item(say)
        empty = response | {"output": [], "status": "in_progress", "usage": None}
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": empty},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
        ]
        if isinstance(say, str):
            text = {"item_id": item["id"], "output_index": 0, "content_index": 0, "delta": say}
            events.append({"type": "response.output_text.delta"} | text)
        else:
            words = {"item_id": item["id"], "output_index": 0, "delta": item["arguments"]}
            events.append({"type": "response.function_call_arguments.delta"} | words)
        events += [
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": response},
        ]
        for number, event in enumerate(events):
            yield event["type"], event | {"sequence_number": number}


class Gemini:
    """`/v1beta/models/NAME:generateContent` and `:streamGenerateContent`."""

    def tools(self, body: Mapping[str, Any]) -> Iterator[Seen]:
        for group in body.get("tools", ()):
            for one in group.get("functionDeclarations", ()):
                schema = one.get("parametersJsonSchema", one.get("parameters"))
                yield Seen(one["name"], one.get("description", ""), schema)

    def results(self, body: Mapping[str, Any]) -> Iterator[Any]:
        for content in body["contents"]:
            for part in content["parts"]:
                answer = part.get("functionResponse")
                if answer and _is_case(answer.get("id", _ID)):
                    yield {"response": answer["response"]}

    def whole(self, say: Say, body: Mapping[str, Any]) -> Mapping[str, Any]:
        part: dict[str, Any] = {"text": say}
        if not isinstance(say, str):
            tool, number, arguments = say
            call = {"id": f"{_ID}{number}", "name": tool.name, "args": dict(arguments)}
            part = {"functionCall": call, "thoughtSignature": "c2tpcA=="}
        candidate = {"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
        usage = {"promptTokenCount": _USAGE, "candidatesTokenCount": _USAGE, "totalTokenCount": 2 * _USAGE}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}

    def stream(self, say: Say, body: Mapping[str, Any]) -> Iterator[tuple[str | None, Any]]:
        yield None, self.whole(say, body)


_DIALECTS: tuple[tuple[str, Dialect], ...] = (
    (r"/messages$", Anthropic()),
    (r"/chat/completions$", Chat()),
    (r"/responses$", Responses()),
    (r":(stream)?[gG]enerateContent$", Gemini()),
)


@dataclass(slots=True)
class Model:
    """The script, and what was seen while it was followed."""

    wanted: str  # the end of the tool's name
    cases: Sequence[Case]
    seen: Seen | None = None
    results: list[Any] = field(default_factory=list)
    searched: bool = False  # it had to ask for the tool's definition first
    paths: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self, dialect: Dialect, body: Mapping[str, Any]) -> Say:
        """What the model says to a request."""
        tools = {one.name: one for one in dialect.tools(body)}
        tool = next((one for name, one in tools.items() if name.endswith(self.wanted)), None)
        through = None
        if (
            tool is None
        ):  # only named, to be searched for; what a search tells may have to be called by another
            tool, through = self._told(tools, body)
        if tool is None:
            return self._search(tools, body) or "Reading documents."
        results = list(dialect.results(body))
        with self._lock:
            self.seen = tool
            if len(results) > len(self.results):
                self.results = results
        if len(results) >= len(self.cases):
            return GOODBYE
        arguments = self.cases[len(results)].arguments
        if through is None:
            return tool, len(results), arguments
        if through.name == _CODE:
            code = f"async function main() {{ return await {tool.name}({json.dumps(arguments)}); }}"
            return through, len(results), {"code": code}
        return through, len(results), {"name": tool.name, "arguments": arguments}

    def _told(self, tools: Mapping[str, Seen], body: Any) -> tuple[Seen | None, Seen | None]:
        """The tool as the answer to a search tells it, and the tool through which it is called."""
        through = tools.get(_BRIDGE) or tools.get(_CODE)
        for text in _texts(body) if through and self.searched else ():
            for found in re.findall(r"<function>(\{.*?\})</function>", text):
                one = json.loads(found)
                if one["name"].endswith(self.wanted):
                    schema = one.get("parametersJsonSchema", one.get("parameters"))
                    return Seen(one["name"], one["description"], schema), through
            if found := re.search(rf"namespace (tools\.\w+).*function ({self.wanted})\b", text, re.DOTALL):
                return Seen(f"{found[1]}.{found[2]}", text, None), through
        return None, None

    def _search(self, tools: Mapping[str, Seen], body: Any) -> Say | None:
        """Ask for the tool's definition, where a harness only names its tools and has one to find them."""
        finder = next((tools[name] for name in _FINDERS if name in tools), None)
        if finder is None or self.searched:
            return None
        if finder.name == _FUNCTIONS:
            group = self.wanted.split("_")[0]
            words: dict[str, Any] = {"mode": "details", "functions": [f"mcp_{group}.{self.wanted}"]}
        else:
            names = (re.search(rf"[\w-]+{self.wanted}\b", text) for text in _texts(body))
            if (named := next(filter(None, names), None)) is None:
                return None
            words = {"query": f"select:{named[0]}"}
        self.searched = True
        return finder, _SEARCH, words

    def report(self) -> dict[str, Any]:
        seen = self.seen
        return {
            "tool": None
            if seen is None
            else {
                "name": seen.name,
                "space": seen.space,
                "description": seen.description,
                "schema": seen.schema,
            },
            "searched": self.searched,
            "results": dict(zip([case.name for case in self.cases], self.results, strict=False)),
            "paths": self.paths,
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: Model  # set for each server

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._send(b"")

    def do_GET(self) -> None:
        self.model.paths.append(f"GET {self.path}")
        known = {"id": MODEL, "object": "model", "owned_by": "script"}
        self._send(json.dumps({"object": "list", "data": [known], "models": []}).encode())

    def do_POST(self) -> None:
        path, _, query = self.path.partition("?")
        self.model.paths.append(f"POST {path}")
        body = self._body()
        self.model.bodies.append(body)
        dialect = next((one for pattern, one in _DIALECTS if re.search(pattern, path)), None)
        if dialect is None:  # a count of tokens, say
            self._send(json.dumps({"input_tokens": _USAGE, "totalTokens": _USAGE}).encode())
            return
        say = self.model.next(dialect, body)
        if body.get("stream") or "streamGenerateContent" in path or "alt=sse" in query:
            self._send(_events(dialect.stream(say, body)), "text/event-stream")
        else:
            self._send(json.dumps(dialect.whole(say, body)).encode())

    def _body(self) -> Any:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        data = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return json.loads(data)

    def _send(self, data: bytes, kind: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def serve(model: Model) -> ThreadingHTTPServer:
    """A server on a free port of loopback, answering from threads of its own; shut it down at the end."""
    handler = type("Handler", (_Handler,), {"model": model})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server


def _events(events: Iterator[tuple[str | None, Any]]) -> bytes:
    text = ""
    for name, data in events:
        if name:
            text += f"event: {name}\n"
        text += f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n"
    return text.encode()
