"""Servers that answer as services do, in the shapes that were recorded or are documented, on loopback."""

import json
import re
import runpy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class Asked:
    """One request as it came."""

    method: str
    path: str
    words: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class Reply:
    """What goes back; ``raw`` instead of ``body`` where it is no JSON."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None


@dataclass
class Served:
    """A running server: its origin, and every request that it got."""

    origin: str
    asked: list[Asked] = field(default_factory=list)
    answer: Callable[[Asked], Reply] = lambda asked: Reply({})


@contextmanager
def suite_server(version: str) -> Iterator[str]:
    """The server that an interface's own suite brings, running: its host and port."""
    folder = (
        Path(__file__).resolve().parents[2] / "catalog" / "interfaces" / version / "conformance" / "corpus"
    )
    server = runpy.run_path(str(folder / "server.py"))["server"]()
    with _running(server):
        host, port = server.server_address[:2]
        yield f"{host}:{port}"


@contextmanager
def _running(server: ThreadingHTTPServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def serving(answer: Callable[[Asked], Reply]) -> Iterator[Served]:
    """A server whose answers are made by ``answer``, which may be replaced while it runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            data = self.rfile.read(size)
            parts = urlsplit(self.path)
            words = {key: values[0] for key, values in parse_qs(parts.query).items()}
            headers = {key.lower(): value for key, value in self.headers.items()}
            asked = Asked(self.command, parts.path, words, headers, json.loads(data) if data else None)
            made.asked.append(asked)
            reply = made.answer(asked)
            body = json.dumps(reply.body).encode() if reply.raw is None else reply.raw
            self.send_response(reply.status)
            for key, value in {"Content-Length": str(len(body)), **reply.headers}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PUT = do_GET  # noqa: N815 - the names that http.server looks for

        def log_message(self, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Served(f"http://127.0.0.1:{server.server_port}", answer=answer)
    with _running(server):
        yield made


_PAGES = (
    (
        "Ada Lovelace - Wikipedia",
        "https://en.example.org/wiki/Ada_Lovelace",
        "Ada Lovelace wrote notes on the analytical engine.",
    ),
    ("Ada Lovelace | Encyclopedia", "https://encyclopedia.example/ada", "Lovelace, English mathematician."),
    ("Severn bore", "https://en.example.org/wiki/Severn_bore", "A tidal bore on the river Severn."),
    ("Marie Skłodowska Curie", "https://nobel.example/?x=ł", "Sklodowska Curie, polonium and radium."),
)


def pages(query: str) -> list[tuple[str, str, str]]:
    """What a web of four pages has for a query, those with more of its words first."""
    wanted = set(re.findall(r"[a-z]{4,}", query.lower()))
    hits = [
        (len(wanted & set(re.findall(r"[a-z]{4,}", f"{t} {c}".lower()))), (t, u, c)) for t, u, c in _PAGES
    ]
    return [page for score, page in sorted(hits, key=lambda hit: -hit[0]) if score]


def searxng(asked: Asked) -> Reply:
    """SearXNG's JSON format, as an instance of 2026 answered."""
    if asked.path != "/search" or asked.words.get("format") != "json":
        return Reply(status=404, raw=b"<html>not found</html>")
    rows = [
        {
            "url": url, "title": title, "content": text, "thumbnail": "", "engine": "duckduckgo",
            "template": "default.html", "parsed_url": ["https", "x", "/", "", "", ""], "img_src": "",
            "priority": "", "engines": ["duckduckgo"], "positions": [1], "score": 1.0, "category": "general",
            "publishedDate": "2024-12-10T00:00:00" if "Lovelace" in title else None,
        }
        for title, url, text in pages(asked.words["q"])
    ]  # fmt: skip
    return Reply(
        {
            "query": asked.words["q"], "number_of_results": 0, "results": rows, "answers": [],
            "corrections": [], "infoboxes": [], "suggestions": [], "unresponsive_engines": [],
        }
    )  # fmt: skip


def brave(asked: Asked) -> Reply:
    """Brave's web search, as its documentation has it."""
    rows = [
        {"title": title, "url": url, "description": f"<strong>{text}</strong>", "language": "en",
         "page_age": "2023-05-01T00:00:00", "type": "search_result", "profile": {"name": "x"}}
        for title, url, text in pages(asked.words["q"])
    ]  # fmt: skip
    whole = {"type": "search", "query": {"original": asked.words["q"]}}
    return Reply(whole | ({"web": {"type": "search", "results": rows}} if rows else {}))


def tavily(asked: Asked) -> Reply:
    """Tavily's search, as its documentation has it."""
    rows = [
        {"title": title, "url": url, "content": text, "score": 0.9, "raw_content": None,
         "published_date": "Mon, 01 May 2023 10:00:00 GMT"}
        for title, url, text in pages(asked.body["query"])
    ]  # fmt: skip
    return Reply({"query": asked.body["query"], "results": rows, "response_time": 0.5, "images": []})


def chat_said(asked: Asked, text: str, **more: Any) -> Reply:
    """A chat completion with these words, as OpenAI and llama.cpp answer."""
    message = {"role": "assistant", "content": text, "refusal": None, "annotations": []}
    return Reply(
        {
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": asked.body["model"],
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}, **more,
        }
    )  # fmt: skip


def chat(asked: Asked) -> Reply:
    """A model that does what the cases of llm/v1 ask for, told of a schema in whichever way."""
    whole = json.dumps(asked.body)
    if asked.path != "/v1/chat/completions":
        return Reply({"error": {"message": "not found"}}, 404)
    if "topic" in whole:
        return chat_said(asked, '{"topic": "delivery"}')
    return chat_said(asked, '{"wet": true}' if "wet" in whole else "Good day.")
