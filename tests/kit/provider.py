"""A far end that does jobs, as a process of its own: what it did is counted, whatever became of its caller.

``keyed`` takes an idempotency key and finds a job by it; ``tagged`` lists jobs by a tag; ``blind`` knows its
jobs by their ids alone. A job runs for one look, and is done at the next.
"""

import contextlib
import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

_JOBS: dict[str, dict[str, Any]] = {}
_TURN = threading.Lock()


class _Desk(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def _say(self, status: int, what: object) -> None:
        body = what if isinstance(what, bytes) else json.dumps(what).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):  # the caller is dead: its job is not
            self.wfile.write(body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        kind, *rest = urlsplit(self.path).path.strip("/").split("/")
        with _TURN:
            if rest[-1] == "cancel":
                job = _JOBS[rest[1]]
                job["looks"] = job["looks"] if job["looks"] > 1 else -1000
                self._say(202, {})
                return
            key = self.headers.get("idempotency-key", "")
            digest = hashlib.sha256(body).hexdigest()
            for job in _JOBS.values() if kind == "keyed" else ():
                if job["key"] == key:
                    self._say(202 if job["body"] == digest else 409, {"id": job["id"]})
                    return
            job = {"id": f"job-{len(_JOBS)}", "kind": kind, "key": key, "body": digest, "looks": 0}
            _JOBS[job["id"]] = job
        self._say(202, {"id": job["id"]})

    def do_GET(self) -> None:
        at = urlsplit(self.path)
        kind, *rest = at.path.strip("/").split("/")
        with _TURN:
            if kind == "count":
                self._say(200, sum(job["key"] == rest[0] for job in _JOBS.values()))
            elif len(rest) == 1:
                wanted = parse_qs(at.query)["key"][0]
                mine = [one["id"] for one in _JOBS.values() if one["key"] == wanted and kind == one["kind"]]
                self._say(200, {"ids": mine})
            elif rest[-1] == "result":
                self._say(200, b"the film of " + rest[1].encode())
            elif rest[1] not in _JOBS:
                self._say(404, {})
            else:
                job = _JOBS[rest[1]]
                job["looks"] += 1
                status = "cancelled" if job["looks"] < 0 else "running" if job["looks"] < 2 else "done"
                self._say(200, {"status": status})


def ask(port: int, path: str) -> Any:
    """One question of a test's, in JSON."""
    line = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        line.request("GET", path)
        return json.loads(line.getresponse().read())
    finally:
        line.close()


@contextlib.contextmanager
def running() -> Iterator[int]:
    """A provider in a process of its own: its port."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.kit.provider"], stdout=subprocess.PIPE, stdin=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Desk)
    server.daemon_threads = True
    threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
