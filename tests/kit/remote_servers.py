"""MCP servers at https://localhost for a test: the official SDK's, and one that does what a call's mode says.

``python remote_servers.py CERTIFICATE``: prints the ports of the two and of a third that speaks the newest
era alone. Each wants the key in ``x-api-key``, and answers 401 without it.
"""

import asyncio
import base64
import json
import ssl
import sys
from contextlib import suppress
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer

KEY = "sk-CANARY-remote-0f7/+e"
server = MCPServer("somebody")


@server.tool(name="say")
def say(words: str) -> dict[str, str]:
    if words == "fault":
        raise ValueError("a fault of the server's own")
    return {"said": f"hello {words}"}


@server.tool(name="measure")
def measure(content: str) -> dict[str, int]:
    return {"bytes": len(base64.b64decode(content))}


class Door:
    """Lets in who has the key."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and dict(scope["headers"]).get(b"x-api-key") != KEY.encode():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"no"})
            return
        await self.app(scope, receive, send)


TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("say", "measure")]


def plain(status: int, body: bytes = b"", kind: str = "text/plain", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


def answer(number: Any, result: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()


def said(number: Any, text: str) -> bytes:
    return answer(number, {"content": [], "structuredContent": {"said": text}})


def event(data: bytes, number: str = "") -> bytes:
    return (f"id: {number}\n".encode() if number else b"") + b"data: " + data + b"\n\n"


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


class Odd:
    """Answers as the mode of a call says, in one of the two eras."""

    def __init__(self, *, modern: bool) -> None:
        self.modern = modern
        self.sessions = 0
        self.heard: list[str] = []
        self.cut = ""

    async def came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
            body = await reader.readexactly(int(fields.get("content-length", 0)))
            if fields.get("x-api-key") != KEY.lower():
                writer.write(plain(401))
            elif head.startswith("GET"):
                writer.write(
                    STREAM + event(self.cut.encode(), "2")
                    if fields.get("last-event-id") == "1"
                    else plain(405)
                )
            else:
                await self.asked(json.loads(body), fields, writer)
            await writer.drain()
        writer.close()

    async def asked(self, message: Any, fields: dict[str, str], writer: asyncio.StreamWriter) -> None:
        method, number = message.get("method", "an answer"), message.get("id")
        mode = message.get("params", {}).get("arguments", {}).get("words", "")
        self.heard.append(f"{method} {message.get('error', {}).get('code', '')}{mode}".strip())
        if self.modern:
            known = (fields.get("mcp-protocol-version"), fields.get("mcp-method"))
            if known != ("2026-07-28", method.lower()) or "_meta" not in message["params"]:
                error = {"code": -32022, "message": "unsupported"}
                body = json.dumps({"jsonrpc": "2.0", "id": number, "error": error}).encode()
                return writer.write(plain(400, body, "application/json"))
        if method == "initialize":
            self.sessions += 1
            result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}
            more = f"Mcp-Session-Id: s{self.sessions}\r\n"
            return writer.write(plain(200, answer(number, result), "application/json", more))
        if not self.modern and fields.get("mcp-session-id") != f"s{self.sessions}":
            return writer.write(plain(400))
        if method == "tools/call":
            return await self.called(message, writer)
        if "id" not in message or "method" not in message:
            return writer.write(plain(202))
        result = {"tools": TOOLS} if method == "tools/list" else {"resultType": "complete"}
        return writer.write(plain(200, answer(number, result), "application/json"))

    async def called(self, message: Any, writer: asyncio.StreamWriter) -> None:  # noqa: C901
        number, mode = message["id"], message["params"]["arguments"]["words"]
        good = said(number, f"{mode} {self.sessions}")
        if mode.isdigit():
            writer.write(
                plain(int(mode), b"{}", "application/json", "Location: https://evil.example.com/\r\n")
            )
        elif mode == "garbage":
            writer.write(plain(200, b"{not json", "application/json"))
        elif mode == "html":
            writer.write(plain(200, b"<html>", "text/html"))
        elif mode == "huge":
            writer.write(plain(200, b'"' + b"x" * 17 * 2**20 + b'"', "application/json"))
        elif mode == "half":
            writer.write(plain(200, good, "application/json")[:-9])
        elif mode == "echo":
            writer.write(plain(200, said(number, KEY), "application/json"))
        elif mode == "forget":
            self.sessions += self.sessions < 2
            writer.write(
                plain(200, good, "application/json") if self.heard.count("initialize") > 1 else plain(404)
            )
        elif mode == "heard":
            writer.write(plain(200, said(number, " | ".join(self.heard)), "application/json"))
        elif mode == "silent":
            writer.write(STREAM)
            await writer.drain()
            await asyncio.sleep(3600)
        elif mode == "events":
            ask = b'{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{}}'
            note = {"progressToken": message["params"]["_meta"]["progressToken"], "progress": 1}
            progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": note}
            writer.write(
                STREAM + b": alive\n\n" + event(ask) + event(json.dumps(progress).encode()) + event(good)
            )
        elif mode == "cut":
            self.cut = good.decode()
            writer.write(STREAM + b"retry: 10\n" + event(b"", "1"))
        else:
            writer.write(plain(200, good, "application/json"))


async def main(certificate: str) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    odd = await asyncio.start_server(Odd(modern=False).came, "127.0.0.1", 0, ssl=context)
    new = await asyncio.start_server(Odd(modern=True).came, "127.0.0.1", 0, ssl=context)
    app = Door(server.streamable_http_app(host="localhost"))
    config = uvicorn.Config(
        app, port=0, ssl_certfile=certificate, log_level="critical", timeout_graceful_shutdown=1
    )
    sdk = uvicorn.Server(config)
    task = asyncio.create_task(sdk.serve())
    while not sdk.started:
        await asyncio.sleep(0.01)
    sockets = (sdk.servers[0].sockets[0], odd.sockets[0], new.sockets[0])
    print(*(one.getsockname()[1] for one in sockets), flush=True)
    await task


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
