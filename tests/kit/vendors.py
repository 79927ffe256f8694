"""A fake vendor on loopback: one server that speaks every dialect, in the ways that real ones do.

It checks what it is sent as a server would (routes, JSON or parts, required fields), and answers whole or in
events, cut where the test says. ``manner`` chooses how it misbehaves. It keeps what it was sent.
"""

import base64
import email.parser
import email.policy
import http.client
import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from reconciler.model.sealed import Reply, Sealed

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WAV = b"".join(  # a thousandth of a second of silence
    (b"RIFF", struct.pack("<I", 52), b"WAVEfmt ", struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16),
     b"data", struct.pack("<I", 16), bytes(16))
)  # fmt: skip
MP3 = b"ID3\x03\x00" + bytes(40)
MP4 = b"\x00\x00\x00\x18ftypmp42" + bytes(1024)
_SAID = {"x-request-id": "req-1", "x-left": "3"}
_ERROR = {"message": "words of a vendor", "type": "invalid_request_error", "param": None, "code": None}


@dataclass
class Received:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    fields: dict[str, Any] = field(default_factory=dict)
    files: dict[str, list[tuple[str, bytes]]] = field(default_factory=dict)


@dataclass
class Answer:
    """What is answered: whole, or as events."""

    status: int = 200
    body: bytes = b""
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


class Vendor:
    """A server's mind: how it behaves, what it was sent, which jobs it knows."""

    def __init__(self, manner: str = "") -> None:
        self.manner = manner
        self.received: list[Received] = []
        self.jobs: dict[str, dict[str, Any]] = {}
        self.keys: dict[str, str] = {}
        self.listed: list[str] | None = None  # what `GET /models` lists, whatever else goes wrong
        self.port = 0
        self.over = threading.Event()  # ends what the manner ``holds`` holds up

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def answer(self, asked: Received) -> Answer:
        if self.listed is not None and asked.method == "GET" and asked.path.endswith("/models"):
            return _json({"object": "list", "data": [{"id": one} for one in self.listed]})
        self.received.append(asked)
        if self.manner == "holds":
            self.over.wait(30)
        fault = _fault(self.manner)
        if fault is not None:
            return fault
        path = urlsplit(asked.path).path.removeprefix("/v1")
        route = {
            "/chat/completions": self._chat,
            "/messages": self._messages,
            "/responses": self._responses,
            "/embeddings": self._embeddings,
            "/images/generations": self._images,
            "/images/edits": self._images,
            "/audio/transcriptions": self._transcription,
            "/audio/speech": self._speech,
            "/messages/count_tokens": lambda _: _json({"input_tokens": 17}),
        }.get(path)
        if route is not None:
            return route(asked)
        return self._videos(asked, path) if path.startswith("/videos") else _refusal(404)

    def _model(self, asked: Received) -> str:
        return "another" if self.manner == "substitutes" else str(asked.fields.get("model"))

    def _chat(self, asked: Received) -> Answer:
        if not isinstance(asked.fields.get("messages"), list) or "model" not in asked.fields:
            return _refusal(400)
        if asked.fields.get("max_tokens", 0) > 1_000_000:
            return _refusal(400, "context_length_exceeded")
        message: dict[str, Any] = {"role": "assistant", "content": "Hello, wörld."}
        finish = "stop"
        if asked.fields.get("tools"):
            name = asked.fields["tools"][0]["function"]["name"]
            call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": '{"a": 1}'}}
            message, finish = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
        elif "response_format" in asked.fields and self.manner != "ignores-schema":
            message["content"] = json.dumps(_fitting(asked.fields["response_format"]), separators=(",", ":"))
        usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12,
                 "prompt_tokens_details": {"cached_tokens": 2}}  # fmt: skip
        if self.manner in ("counts", "ignores-schema") and "max_tokens" in asked.fields:  # a token is a word
            usage["prompt_tokens"] = sum(len(str(one["content"]).split()) for one in asked.fields["messages"])
            usage["completion_tokens"] = min(7, asked.fields["max_tokens"])
        body = {"id": "x", "object": "chat.completion", "created": 1, "model": self._model(asked)}
        if not asked.fields.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
            return _json({**body, "choices": [choice], "usage": usage})
        return self._chat_stream({**body, "object": "chat.completion.chunk"}, message, finish, usage)

    def _chat_stream(self, body: dict[str, Any], message: dict[str, Any], finish: str, usage: Any) -> Answer:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": one} for one in (message["content"] or "")]
        for call in message.get("tool_calls", ()):
            function = {"name": call["function"]["name"], "arguments": ""}
            deltas.append(
                {"tool_calls": [{"index": 0, "id": call["id"], "type": "function", "function": function}]}
            )
            for one in call["function"]["arguments"]:
                deltas.append({"tool_calls": [{"index": 0, "function": {"arguments": one}}]})
        chunks: list[Any] = [
            {**body, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
        ]
        chunks.append({**body, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        chunks.append({**body, "choices": [], "usage": usage})
        events = [("", chunk) for chunk in chunks]
        return self._stream(events, end=b"data: [DONE]\n\n")

    def _stream(self, events: list[tuple[str, Any]], end: bytes = b"") -> Answer:
        texts = [_event(name, data) for name, data in events]
        if self.manner == "error-midway":
            error = {"type": "error", "error": {"type": "overloaded_error", "message": "words of a vendor"}}
            texts = [*texts[: len(texts) // 2], _event("error" if events[0][0] else "", error)]
            end = b""
        if self.manner == "unknown-event":
            texts.insert(1, _event("surprise", {"type": "surprise", "x": 1}))
        if self.manner == "cut":
            texts, end = texts[: len(texts) // 2], b""
        body = b": hello\n\n" + b"".join(texts) + end
        return Answer(body=body, kind="text/event-stream; charset=utf-8", headers=_SAID)

    def _messages(self, asked: Received) -> Answer:
        if not asked.fields.get("max_tokens") or "model" not in asked.fields:
            return _refusal(400)
        blocks: list[dict[str, Any]] = [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "Hello, wörld."},
        ]
        stop = "end_turn"
        if asked.fields.get("tools"):
            name = asked.fields["tools"][0]["name"]
            blocks.append({"type": "tool_use", "id": "c1", "name": name, "input": {"a": 1}})
            stop = "tool_use"
        usage = {"input_tokens": 3, "output_tokens": 7, "cache_read_input_tokens": 2,
                 "cache_creation_input_tokens": 0}  # fmt: skip
        body = {"id": "m", "type": "message", "role": "assistant", "model": self._model(asked)}
        if not asked.fields.get("stream"):
            ended = {"stop_reason": stop, "stop_sequence": None, "usage": usage}
            return _json({**body, "content": blocks, **ended})
        start = {**body, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
        events: list[tuple[str, Any]] = [
            ("message_start", {"type": "message_start", "message": start}),
            ("ping", {"type": "ping"}),
        ]
        for index, block in enumerate(blocks):
            events += _block_events(index, block)
        delta = {"stop_reason": stop, "stop_sequence": None}
        events.append(
            ("message_delta", {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}})
        )
        events.append(("message_stop", {"type": "message_stop"}))
        return self._stream(events)

    def _responses(self, asked: Received) -> Answer:
        if asked.fields.get("store") is not False:
            return _refusal(400)
        output: list[dict[str, Any]] = [
            {"id": "r", "type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
        ]
        if asked.fields.get("tools"):
            name = asked.fields["tools"][0]["name"]
            output.append({"type": "function_call", "call_id": "c1", "name": name, "arguments": '{"a": 1}'})
        else:
            part = {"type": "output_text", "text": "Hello, wörld.", "annotations": []}
            output.append({"type": "message", "role": "assistant", "content": [part], "status": "completed"})
        usage = {"input_tokens": 5, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 2},
                 "output_tokens_details": {"reasoning_tokens": 1}, "total_tokens": 12}  # fmt: skip
        body = {"id": "resp", "object": "response", "model": self._model(asked), "status": "completed",
                "error": None, "incomplete_details": None, "output": output, "usage": usage}  # fmt: skip
        if not asked.fields.get("stream"):
            return _json(body)
        events: list[dict[str, Any]] = [{"type": "response.created", "response": {**body, "output": []}}]
        events.append({"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "hm"})
        if output[1]["type"] == "function_call":
            item = {**output[1], "arguments": ""}
            events.append({"type": "response.output_item.added", "output_index": 1, "item": item})
            for one in '{"a": 1}':
                kind = "response.function_call_arguments.delta"
                events.append({"type": kind, "output_index": 1, "delta": one})
        else:
            for one in "Hello, wörld.":
                events.append({"type": "response.output_text.delta", "output_index": 1, "delta": one})
        events.append({"type": "response.completed", "response": body})
        numbered = [(one["type"], {**one, "sequence_number": at}) for at, one in enumerate(events)]
        return self._stream(numbered)

    def _embeddings(self, asked: Received) -> Answer:
        data = []
        for index, words in enumerate(asked.fields["input"]):
            vector: Any = [float(len(words)), 0.5]
            if asked.fields.get("encoding_format") == "base64":
                vector = base64.b64encode(struct.pack("<2f", *vector)).decode()
            data.append({"object": "embedding", "index": index, "embedding": vector})
        if self.manner == "forgets-one":
            data.pop()
        body = {"object": "list", "data": data[::-1], "model": self._model(asked)}
        return _json({**body, "usage": {"prompt_tokens": 4, "total_tokens": 4}})

    def _images(self, asked: Received) -> Answer:
        if "prompt" not in asked.fields or (asked.path.endswith("edits") and "image[]" not in asked.files):
            return _refusal(400)
        picture = base64.b64encode(WAV if self.manner == "sends-noise" else PNG).decode()
        usage = {"input_tokens": 5, "output_tokens": 7, "total_tokens": 12}
        if asked.fields.get("stream"):
            shown = "image_generation.partial_image"
            preview = {"type": shown, "b64_json": picture, "partial_image_index": 0,
                       "output_format": "png"}  # fmt: skip
            whole = {"type": "image_generation.completed", "b64_json": picture, "output_format": "png",
                     "usage": usage}  # fmt: skip
            return self._stream([(preview["type"], preview), (whole["type"], whole)])
        one: dict[str, Any] = {"b64_json": picture, "revised_prompt": "a nicer prompt"}
        if self.manner == "sends-address":
            one = {"url": "https://cdn.example.com/x.webp"}
        many = int(asked.fields.get("n", 1))
        return _json({"created": 1, "data": [one] * many, "output_format": "png", "usage": usage})

    def _transcription(self, asked: Received) -> Answer:
        if "file" not in asked.files or not asked.files["file"][0][0].endswith(".wav"):
            return _refusal(400)
        form = asked.fields.get("response_format", "json")
        if asked.fields.get("stream") == "true":
            words = [
                ("transcript.text.delta", {"type": "transcript.text.delta", "delta": one}) for one in "Hi you"
            ]
            done = {
                "type": "transcript.text.done",
                "text": "Hi you",
                "usage": {"input_tokens": 3, "output_tokens": 2},
            }
            return self._stream([*words, ("transcript.text.done", done)])
        if form in ("text", "srt", "vtt"):
            return Answer(body=b"Hi you\n", kind="text/plain; charset=utf-8")
        body: dict[str, Any] = {"text": "Hi you"}
        if form == "verbose_json":
            body |= {"language": "english", "duration": 1.5, "task": "transcribe",
                     "segments": [{"id": 0, "start": 0.0, "end": 1.5, "text": "Hi you", "tokens": [1]}],
                     "words": [{"word": "Hi", "start": 0.0, "end": 0.5}]}  # fmt: skip
        return _json({**body, "usage": {"type": "duration", "seconds": 2}})

    def _speech(self, asked: Received) -> Answer:
        sound = WAV if asked.fields.get("response_format") == "wav" else MP3
        if asked.fields.get("stream_format") == "sse":
            halves = (sound[:9], sound[9:])
            frames = [
                {"type": "speech.audio.delta", "audio": base64.b64encode(one).decode()} for one in halves
            ]
            frames.append({"type": "speech.audio.done", "usage": {"input_tokens": 3, "output_tokens": 9}})
            return self._stream([(one["type"], one) for one in frames])
        if self.manner == "page":
            return Answer(body=b"<html>busy</html>", kind="text/html")
        return Answer(body=sound, kind="audio/wav" if sound is WAV else "audio/mpeg")

    def _videos(self, asked: Received, path: str) -> Answer:
        parts = path.split("/")[2:]
        query = parse_qs(urlsplit(asked.path).query)
        if asked.method == "POST" and not parts:
            return self._submitted(asked)
        if not parts:
            wanted = query.get("tag", [""])[0]
            jobs = [job for job in self.jobs.values() if job["metadata"].get("tag") == wanted]
            listed = list(self.jobs.values()) if self.manner == "ignores-filter" else jobs
            return _json({"object": "list", "data": listed, "has_more": False})
        if parts[0] == "by-key":
            found = self.jobs.get(self.keys.get(parts[1], ""))
            return _json(found) if found else _refusal(404)
        job = self.jobs.get(parts[0])
        if job is None:
            return _refusal(410 if self.manner == "expires" else 404)
        return self._of_job(asked, job, parts[1:], query)

    def _submitted(self, asked: Received) -> Answer:
        if "prompt" not in asked.fields:
            return _refusal(400)
        key = asked.headers.get("idempotency-key", "")
        known = self.keys.get(key) if key else None
        if known is None:
            known = f"video_{len(self.jobs) + 1}"
            metadata = asked.fields.get("metadata", {})
            status = "pending" if self.manner == "makes-pending" else "queued"
            body = {"id": known, "object": "video", "status": status, "progress": 0,
                    "model": "m-1", "metadata": metadata, "expires_at": 1_900_000_000}  # fmt: skip
            self.jobs[known] = body
            if key:
                self.keys[key] = known
        return _json(self.jobs[known])

    def _of_job(
        self, asked: Received, job: dict[str, Any], rest: list[str], query: dict[str, list[str]]
    ) -> Answer:
        if rest == ["cancel"]:
            if job["status"] != "queued":
                return _refusal(409)
            job["status"] = "cancelled"
            return _json(job)
        if rest == ["content"]:
            if job["status"] != "completed":
                return _refusal(409)
            if query.get("variant") == ["thumbnail"]:
                return Answer(body=PNG, kind="image/png")
            return Answer(body=MP4, kind="application/octet-stream")
        if self.manner == "fails-once":
            self.manner = ""
            return _refusal(500)
        if self.manner.startswith("makes"):  # what is asked for is there at once
            job["status"] = "completed"
        return Answer(body=json.dumps(job).encode(), headers={"x-poll-after": "4"})


def _block_events(index: int, block: dict[str, Any]) -> list[tuple[str, Any]]:
    def event(kind: str, **more: Any) -> tuple[str, Any]:
        return kind, {"type": kind, "index": index, **more}

    key, delta, start = {
        "text": ("text", "text_delta", {"type": "text", "text": ""}),
        "thinking": ("thinking", "thinking_delta", {"type": "thinking", "thinking": "", "signature": ""}),
        "tool_use": ("partial_json", "input_json_delta", {**block, "input": {}}),
    }[block["type"]]
    words = json.dumps(block["input"]) if block["type"] == "tool_use" else block[block["type"]]
    pieces = [event("content_block_delta", delta={"type": delta, key: one}) for one in words]
    return [event("content_block_start", content_block=start), *pieces, event("content_block_stop")]


def _fault(manner: str) -> Answer | None:
    if manner.startswith("status-"):
        _, status, *code = manner.split("-", 2)
        return _refusal(int(status), code[0] if code else None)
    return {
        "page": None,
        "garbage": Answer(body=b"\xff\x00{"),
        "list": Answer(body=b"[1]"),
        "empty": Answer(),
        "redirects": Answer(307, headers={"location": "http://169.254.169.254/"}),
        "error-in-200": Answer(body=json.dumps({"error": {**_ERROR, "type": "overloaded_error"}}).encode()),
    }.get(manner)


def _refusal(status: int, code: str | None = None) -> Answer:
    body = {"error": {**_ERROR, "code": code}}
    headers = {"retry-after": "7", "x-request-id": "req-1", "x-left": "0", "x-reset": "1m0.5s"}
    return Answer(status, json.dumps(body).encode(), headers=headers)


def _fitting(form: dict[str, Any]) -> dict[str, Any]:
    """The smallest answer that fits a form of plain properties."""
    asked = form.get("json_schema", {}).get("schema", {}).get("properties", {"a": {}})
    return {
        name: one["enum"][0] if "enum" in one else one.get("type") == "boolean" or 1
        for name, one in asked.items()
    }


def _json(body: Any) -> Answer:
    return Answer(body=json.dumps(body).encode(), headers=_SAID)


def _event(name: str, data: Any) -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _read_parts(kind: str, body: bytes, received: Received) -> None:
    head = f"content-type: {kind}\r\n\r\n".encode()
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
    for part in message.iter_parts():  # type: ignore[attr-defined]
        name = part.get_param("name", header="content-disposition")
        data = part.get_payload(decode=True)
        if file_name := part.get_filename():
            received.files.setdefault(name, []).append((file_name, data))
        elif name.endswith("[]"):
            received.fields.setdefault(name, []).append(data.decode())
        else:
            received.fields[name] = data.decode()


@contextmanager
def vendor(manner: str = "") -> Iterator[Vendor]:
    """A vendor that is there for as long as the block."""
    mind = Vendor(manner)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout: ClassVar[float] = 30.0

        def log_message(self, *_: Any) -> None:
            pass

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            received = Received(self.command, self.path, headers, body)
            kind = headers.get("content-type", "")
            if kind == "application/json":
                received.fields = json.loads(body)
            elif kind:
                _read_parts(kind, body, received)
            found = mind.answer(received)
            self.send_response(found.status)
            for name, value in {"content-type": found.kind, **found.headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(found.body)))
            self.end_headers()
            self.wfile.write(found.body)

        do_GET = do_POST = do_DELETE = _serve  # noqa: N815

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    mind.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield mind
    finally:
        mind.over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def send(sealed: Sealed) -> Reply:
    """One transmission, as a sender would: no retry, no redirect."""
    place = urlsplit(sealed.origin)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    try:
        connection.request(sealed.method, sealed.target, sealed.body, dict(sealed.headers))
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, headers, response.read())
    finally:
        connection.close()
