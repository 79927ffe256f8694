"""Makes an MCP server of standard input and output a connector: names, shapes, files and errors as mapped.

It runs inside the sandbox, in front of the server, and reads the ``connector.toml``: ``tool.NAME`` says what
the interface's tool is called there (``from``), how arguments and answers are reshaped (``input``,
``output``: JMESPath), and which of its errors is which code (``errors``). It greets the server before it
serves, so a server that never answers is never ready. Nothing of the server but tools is heard: what it asks
(sampling, roots, elicitation) is refused, a changed list of tools is not looked at. It ends with the server.
Beside the standard library it imports jmespath alone.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
import tomllib
from contextlib import suppress
from itertools import count

from handler_connector import INBOX, MAX_LINE_BYTES, OUTBOX, Call, Failure, File, OutputFile, serve

sys.path.append("/kit/aids")
import jmespath
from jmespath import exceptions, functions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

VERSION = "2025-11-25"
MAX_GARBAGE = 1000  # lines that are no MCP: a server that prints more than that is none
MAX_PAGES = 100
_MAX_WORDS = 2000  # of a server's error in the log
_LOOK_S = 0.05  # how soon a call that nobody waits for is noticed
_PING_S = 10.0
_NOT_FOUND = -32601
_CONFIG = os.environ.get("HANDLER_CONNECTOR_MAPPING", "/app/connector.toml")


class Functions(functions.Functions):  # type: ignore[misc]
    """What an expression may call besides JMESPath's own: the files of a call."""

    @functions.signature({"types": ["object"]})  # type: ignore[untyped-decorator]
    def _func_file(self, given: Mapping[str, Any]) -> str:
        return base64.b64encode(_content(given)).decode()

    @functions.signature({"types": ["object"]})  # type: ignore[untyped-decorator]
    def _func_data_url(self, given: Mapping[str, Any]) -> str:
        return f"data:{given.get('mediaType', '')};base64,{base64.b64encode(_content(given)).decode()}"

    @functions.signature({"types": ["object"]}, {"types": ["string"]})  # type: ignore[untyped-decorator]
    def _func_save(self, given: Mapping[str, Any], encoded: str) -> int:
        data = base64.b64decode(encoded, validate=True)
        with open(_inside(given, OUTBOX), "wb") as file:  # noqa: PTH123 - pathlib costs 3 ms at start
            return file.write(data)

    @functions.signature({"types": ["string"]})  # type: ignore[untyped-decorator]
    def _func_parse_json(self, text: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return None


def _content(given: Mapping[str, Any]) -> bytes:
    with open(_inside(given, INBOX), "rb") as file:  # noqa: PTH123 - as above
        return file.read()


def _inside(given: Mapping[str, Any], folder: str) -> str:
    """The path of a file of this call; ValueError for anything else that an expression hands in."""
    path = given.get("path")
    if not isinstance(path, str) or os.path.dirname(path) != folder:  # noqa: PTH120 - as above
        raise ValueError("this is no file of the call")
    return path


class Gone(Exception):  # noqa: N818 - it is a way to end
    """The server ended, or said what ends it; the text is for operators."""


class Server:
    """The wrapped server: requests by number, one thread that reads its lines."""

    def __init__(self, words: list[str]) -> None:
        """Start it; OSError when it cannot run."""
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("HANDLER_CONNECTOR_")
        }
        secrets = [
            int(number) for name, number in environment.items() if name.startswith("HANDLER_SECRET_FD_")
        ]
        self._child = subprocess.Popen(  # noqa: S603 - the words that its connector names
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, bufsize=0, pass_fds=secrets
        )
        for number in secrets:  # they are the server's, and read once
            os.close(number)
        self._numbers = count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._writing = threading.Lock()
        self._looking = threading.Lock()
        self._garbage = 0

    def listen(self) -> None:
        """Read its lines until it ends or breaks a rule; the process ends then, with what waits on it."""
        try:
            for line in self._lines():
                self._heard(line)
            why = "the wrapped server ended"
        except Gone as fault:
            why = str(fault)
        _say(why)
        self._child.kill()
        code = self._child.wait()
        os._exit(code if 0 < code < 126 else 1)

    def greet(self) -> set[str]:
        """Its handshake; the names of its tools."""
        params = {
            "protocolVersion": VERSION,
            "capabilities": {},
            "clientInfo": {"name": "handler", "version": "1"},
        }
        self.ask("initialize", params)
        self._send({"method": "notifications/initialized"})
        names: set[str] = set()
        cursor = None
        for _ in range(MAX_PAGES):
            page = self.ask("tools/list", {"cursor": cursor} if cursor else {})
            names |= {tool["name"] for tool in page.get("tools", ()) if isinstance(tool.get("name"), str)}
            cursor = page.get("nextCursor")
            if not cursor:
                break
        return names

    def ask(self, method: str, params: dict[str, Any], call: Call | None = None) -> dict[str, Any]:
        """The result of a request; Failure with its error, or when nobody waits for ``call`` any more."""
        number = next(self._numbers)
        if call is not None:
            params = {**params, "_meta": {"progressToken": number}}
        mine = self._waiting[number] = _Waiting(call)
        try:
            self._send({"id": number, "method": method, "params": params})
            while not mine.done.wait(_LOOK_S if call is not None else None):
                if call is not None and call.cancelled.is_set():
                    threading.Thread(target=self._look_alive, daemon=True).start()
                    self._send({"method": "notifications/cancelled", "params": {"requestId": number}})
                    raise Failure("unavailable", "nobody waits for it any more")
        finally:
            del self._waiting[number]
        if mine.error is not None:
            raise Refused(str(mine.error.get("code")), str(mine.error.get("message")))
        return mine.result

    def _look_alive(self) -> None:
        """End it when it answers no ping: nobody would notice, since we answer for it."""
        if self._looking.acquire(blocking=False):
            timer = threading.Timer(_PING_S, self._hangs)
            timer.daemon = True
            timer.start()
            with suppress(Refused):  # an answer all the same
                self.ask("ping", {})
            timer.cancel()
            self._looking.release()

    def _hangs(self) -> None:
        _say(f"the wrapped server answers no ping for {_PING_S:.0f} s: it is ended")
        os._exit(1)

    def _lines(self) -> Iterator[bytes]:
        assert self._child.stdout is not None  # noqa: S101 - a pipe was asked for
        with open(self._child.stdout.fileno(), "rb", 65536, closefd=False) as lines:
            while line := lines.readline(MAX_LINE_BYTES):
                if not line.endswith(b"\n"):
                    raise Gone(
                        f"the wrapped server wrote a line of more than {MAX_LINE_BYTES} bytes, or half of one"
                    )
                if not line.isspace():
                    yield line

    def _heard(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            return self._nonsense()
        if "method" in message:
            return self._asked(message)
        number = message.get("id")
        mine = self._waiting.get(number) if type(number) is int else None
        if mine is None:
            return self._nonsense()
        result, error = message.get("result"), message.get("error")
        mine.result = result if isinstance(result, dict) else {}
        if isinstance(error, dict) or not isinstance(result, dict):
            mine.error = error if isinstance(error, dict) else {"code": 0, "message": "no answer"}
        return mine.done.set()

    def _asked(self, message: dict[str, Any]) -> None:
        if "id" not in message:
            return (
                self._progress(message.get("params"))
                if message["method"] == "notifications/progress"
                else None
            )
        if message["method"] == "ping":
            return self._send({"id": message["id"], "result": {}})
        error = {"code": _NOT_FOUND, "message": "nothing but tools is served here"}
        return self._send({"id": message["id"], "error": error})

    def _progress(self, params: Any) -> None:
        token = params.get("progressToken") if isinstance(params, dict) else None
        mine = self._waiting.get(token) if type(token) is int else None
        done, total = (params.get("progress"), params.get("total")) if mine else (None, None)
        if mine is not None and mine.call is not None and type(done) in (int, float):
            mine.call.progress(done, total if type(total) in (int, float) else None)

    def _nonsense(self) -> None:
        self._garbage += 1
        if self._garbage == 1:
            _say("the wrapped server prints lines that are no MCP: they are not heard")
        if self._garbage > MAX_GARBAGE:
            raise Gone("the wrapped server prints more lines that are no MCP than are borne")

    def _send(self, message: dict[str, Any]) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"
        assert self._child.stdin is not None  # noqa: S101 - a pipe was asked for
        try:
            with self._writing:
                view = memoryview(line)
                while view:  # a pipe without a buffer may take a part
                    view = view[self._child.stdin.write(view) or 0 :]
        except OSError:
            pass  # it is gone: whoever reads its lines says so


class Refused(Exception):  # noqa: N818 - an answer of the server
    """An error as the server gave it: a JSON-RPC code, or the text of a tool error."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text


class _Waiting:
    """One request without an answer yet."""

    __slots__ = ("call", "done", "error", "result")

    def __init__(self, call: Call | None) -> None:
        self.call = call
        self.done = threading.Event()
        self.result: dict[str, Any] = {}
        self.error: dict[str, Any] | None = None


class Tool:
    """One tool of the interface, answered by the server's."""

    def __init__(self, server: Server, name: str, mapping: Mapping[str, Any]) -> None:
        self._server = server
        self.theirs = mapping.get("from", name)
        self._input = jmespath.compile(mapping["input"]) if "input" in mapping else None
        self._output = jmespath.compile(mapping["output"]) if "output" in mapping else None
        self._errors: Mapping[str, str] = mapping.get("errors", {})
        self._options = jmespath.Options(custom_functions=Functions())

    def __call__(self, arguments: dict[str, Any], call: Call) -> Mapping[str, Any]:
        """Ask the server and reshape; Failure with a code of the interface."""
        plain = {name: _plain(value) for name, value in arguments.items()}
        asked = self._shaped(self._input, plain, "input") if self._input else _paths(plain)
        asked = {name: value for name, value in asked.items() if value is not None}
        try:
            result = self._server.ask("tools/call", {"name": self.theirs, "arguments": asked}, call)
        except Refused as fault:
            raise self._failure(fault.code, fault.text) from None
        text = _text(result.get("content"))
        if result.get("isError", False) is not False:
            raise self._failure("", text)
        structured = result.get("structuredContent")
        parsed = Functions()._func_parse_json(text)  # noqa: SLF001 - our own
        answer = {
            "structured": structured if isinstance(structured, dict) else None,
            "json": parsed,
            "text": text,
            "content": result.get("content"),
            "arguments": plain,
        }
        if self._output:
            return self._filled(self._shaped(self._output, answer, "output"), answer)
        found = structured if isinstance(structured, dict) else parsed
        if not isinstance(found, dict):
            raise Failure("unavailable", "the answer is no object, and tool.NAME.output makes none of it")
        return found

    def _shaped(self, expression: Any, value: Any, which: str) -> dict[str, Any]:
        try:
            shaped = expression.search(value, options=self._options)
        except (exceptions.JMESPathError, ValueError, OSError, RecursionError) as fault:
            _say(f"{which}: {type(fault).__name__}: {fault}")
            raise Failure("unavailable", f"{which}: {type(fault).__name__}; the log says more") from None
        if not isinstance(shaped, dict):
            raise Failure("unavailable", f"{which} gives {type(shaped).__name__}, no object")
        return shaped

    def _filled(self, shaped: dict[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
        """What a mapping made; a null in it is said, since no schema tells where it comes from."""
        nulls = [name for name, value in shaped.items() if value is None]
        if not nulls:
            return shaped
        why = f"output gave null for {', '.join(nulls)}"
        asks = self._output is not None and "'structured'" in str(self._output.parsed)
        if asks and answer["structured"] is None:
            hint = "" if answer["json"] is None else "; its text is JSON: use json instead of structured"
            why = f"{why}: the answer has no structuredContent{hint}"
            if len(nulls) == len(shaped):
                raise Failure("unavailable", why)
        _say(why)
        return shaped

    def _failure(self, code: str, text: str) -> Failure:
        """The code that ``errors`` gives: by its exact JSON-RPC code, by words of its text, else '*'."""
        if text:  # the server's own words, which may repeat what it was asked
            _say(f"the server answered an error: {text[:_MAX_WORDS]}")
        told = f"the server answered the error {code}" if code else "the server answered an error"
        low = text.lower()
        for word, ours in self._errors.items():
            if word == code or (word != "*" and not _is_number(word) and word.lower() in low):
                return Failure(ours, f"{told}, '{word}'; the log says more")
        return Failure(self._errors.get("*", "unavailable"), f"{told}; the log says more")


def _is_number(word: str) -> bool:
    return word.lstrip("-").isdigit()


def _plain(value: Any) -> Any:
    """An argument as expressions see it: a file is its name, media type, size and path inside."""
    match value:
        case File():
            return {
                "name": value.name,
                "mediaType": value.media_type,
                "size": value.size,
                "path": value.path,
            }
        case OutputFile():
            return {"name": value.name, "path": value.path}
        case list():
            return [_plain(one) for one in value]
        case _:
            return value


def _paths(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments without an expression: each file by its path inside the sandbox."""
    return {name: _path(value) for name, value in arguments.items()}


def _path(value: Any) -> Any:
    if isinstance(value, list):
        return [_path(one) for one in value]
    if isinstance(value, dict) and str(value.get("path", "")).startswith((f"{INBOX}/", f"{OUTBOX}/")):
        return value["path"]
    return value


def _text(content: Any) -> str:
    blocks = content if isinstance(content, list) else []
    texts = [
        block["text"] for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str)
    ]
    return "\n".join(texts)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - the connector's log


def main(words: list[str]) -> int:
    """Start the server ``words``, greet it, and serve its tools until it ends; an exit code."""
    with open(_CONFIG, "rb") as file:  # noqa: PTH123 - as above
        mappings = tomllib.load(file).get("tool", {})
    try:
        server = Server(words)
    except OSError as fault:
        _say(f"handler: cannot run {words[0]}: {fault.strerror}")
        return 127
    threading.Thread(target=server.listen, daemon=True).start()
    try:
        there = server.greet()
    except Refused as fault:
        _say(f"handler: the wrapped server refuses the handshake: {fault.code} {fault.text}")
        return 1
    tools = {name: Tool(server, name, mapping) for name, mapping in mappings.items()}
    missing = sorted({tool.theirs for tool in tools.values()} - there)
    if missing:
        _say(
            f"handler: the wrapped server has no tool {', '.join(missing)}; it has {', '.join(sorted(there))}"
        )
        return 1
    serve(tools)
    return 0


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
