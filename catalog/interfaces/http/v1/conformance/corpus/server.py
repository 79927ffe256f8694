"""The server that the cases of http/v1 ask: run it with Python, then examine a connector that may reach it.

    python3 server.py                  # listens on 127.0.0.1:8725, until it is ended

It answers as each path says, and repeats to whoever sends what came.
"""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

ADDRESS = ("127.0.0.1", 8725)
TEXT = "The total is forty two.\n"
ELSEWHERE = {
    "/moved": "/page",
    "/round": "/round",
    "/out": "http://127.0.0.2:8725/page",
    "/nowhere": "",
    "/secret": "ftp://127.0.0.1/page",
}


class Handler(BaseHTTPRequestHandler):
    """One request."""

    def answer(self) -> None:
        parts = urlsplit(self.path)
        size = int(self.headers.get("Content-Length") or 0)
        sent = self.rfile.read(size).decode()
        if parts.path == "/drop":
            self.close_connection = True
            return
        if parts.path in ELSEWHERE:
            self._answer(302, b"", {"Location": ELSEWHERE[parts.path]})
        elif parts.path.startswith("/status/"):
            self._answer(int(parts.path[8:]), b"so it is")
        elif parts.path == "/picture":
            self._answer(200, b"\x89PNG\r\n\x1a\n" + b"\xff" * 64, {"Content-Type": "image/png"})
        elif parts.path == "/long":
            self._answer(200, b"0123456789" * 40_000)
        elif parts.path == "/echo":
            told = {
                "method": self.command,
                "query": {key: one[0] for key, one in parse_qs(parts.query).items()},
                "accept": self.headers.get("accept", ""),
                "type": self.headers.get("content-type", ""),
                "body": sent,
            }
            self._answer(200, json.dumps(told).encode(), {"Content-Type": "application/json"})
        else:
            self._answer(200, TEXT.encode())

    def _answer(self, status: int, body: bytes, headers: "dict[str, str] | None" = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "text/plain; charset=utf-8", **(headers or {})}.items():
            if value:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Says nothing."""


for _method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
    setattr(Handler, f"do_{_method}", Handler.answer)


def server() -> ThreadingHTTPServer:
    """The server, listening; whoever asked for it runs and closes it."""
    return ThreadingHTTPServer(ADDRESS, Handler)


if __name__ == "__main__":
    server().serve_forever()
