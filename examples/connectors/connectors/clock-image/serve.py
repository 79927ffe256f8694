"""The wire without a kit: listen on HANDLER_CONNECTOR_SOCKET, MCP, one JSON message a line."""

import json
import os
import re
import socketserver
from datetime import datetime
from zoneinfo import ZoneInfo

GREETING = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "clock", "version": "1"},
}


class Listener(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


class Lines(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            asked = json.loads(line)
            if "id" in asked and "method" in asked:
                answer = {"jsonrpc": "2.0", "id": asked["id"], **answered(asked)}
                self.wfile.write(json.dumps(answer).encode() + b"\n")


def answered(asked):
    if asked["method"] == "initialize":
        return {"result": GREETING}
    if asked["method"] == "ping":
        return {"result": {}}
    if asked["method"] != "tools/call":
        return {"error": {"code": -32601, "message": "there is no such method"}}
    try:
        answer = TOOLS[asked["params"]["name"]](**asked["params"]["arguments"])
    except LookupError as code:
        failed = {"ai.handler/error": {"code": str(code.args[0]), "diagnostic": ""}}
        return {"result": {"isError": True, "content": [], "_meta": failed}}
    return {"result": {"content": [], "structuredContent": answer}}


def zone(name):
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        raise LookupError("unknown_zone") from None


def told(moment):
    return {"time": moment.isoformat(timespec="seconds"), "summerTime": bool(moment.dst())}


def now(**given):
    return {"zone": given["zone"], **told(datetime.now(zone(given["zone"])))}


def convert(time, to, **more):
    here, there = zone(more["from"]), zone(to)
    if not re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]", time):
        raise LookupError("bad_time")
    hour, minute = map(int, time.split(":"))
    moment = datetime.now(here).replace(hour=hour, minute=minute, second=0, microsecond=0)
    return told(moment.astimezone(there))


TOOLS = {"clock_now": now, "clock_convert": convert}

Listener(os.environ["HANDLER_CONNECTOR_SOCKET"], Lines).serve_forever()
