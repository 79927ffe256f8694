"""How a relay speaks to ``provider``: plain HTTP, with a place to die at every step of a transmission."""

import json
import os
import signal
import socket
from collections.abc import Iterable
from typing import Any

from reconciler.attempts.happenings import Accepted, Lost, NotSent, Seen, Stopped
from reconciler.attempts.papers import Papers
from reconciler.attempts.reconciling import By, Expired, FarEnd, Finished, Found, NotFound, Sent, Unclear
from reconciler.attempts.records import Ack, Attempt

VISIBLE_S = 30.0
FACTS = {
    "keyed": FarEnd(
        frozenset({"job-id", "key"}), same_key_same_job=True, other_body_is_error=True, can_cancel=True
    ),
    "tagged": FarEnd(
        frozenset({"job-id", "tag"}), absence_is_proof=True, visibility_delay_s=VISIBLE_S, can_cancel=True
    ),
    "blind": FarEnd(frozenset({"job-id"}), can_cancel=True),
}


class Wire:
    """A ``Reconciler`` over a provider's port. ``die_at`` is the step at which this process kills itself."""

    def __init__(self, kind: str, port: int, papers: Papers, die_at: str = "") -> None:
        self._kind, self._port, self._papers, self._die_at = kind, port, papers, die_at

    def reached(self, point: str) -> None:
        """Here this process dies, where that was the wish: as SIGKILL kills, with nothing put right."""
        if point and point == self._die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def far_end(self, one: Attempt) -> FarEnd | None:
        return FACTS[self._kind]

    async def permit(self, one: Attempt) -> str:
        return ""

    async def submit(self, one: Attempt) -> Sent:
        self.reached("K2")
        key, body = one.idempotency.key, self._papers.read("sealed", one.request.sealed_ref)
        try:
            answer = self._call("POST", "jobs", body, f"idempotency-key: {key}\r\n")
        except ConnectionRefusedError as error:
            return NotSent(str(error))
        except (OSError, ValueError) as error:
            return Lost(str(error))
        return Accepted(json.loads(answer[1])["id"])

    async def lookup(self, one: Attempt, by: By) -> Found:
        self.reached("K7")
        try:
            if by != "job-id":
                found = json.loads(self._call("GET", f"jobs?key={one.idempotency.key}")[1])["ids"]
                return Accepted(found[0]) if len(found) == 1 else NotFound()
            status, body = self._call("GET", f"jobs/{one.provider.job_id}")
        except (OSError, ValueError) as error:
            return Unclear(str(error))
        if status == 404:
            return NotFound()
        match json.loads(body)["status"]:
            case "done":
                return Finished()
            case "cancelled":
                return Stopped("its status says so")
            case raw:
                return Seen(raw)

    async def cancel(self, one: Attempt) -> Ack:
        self._call("POST", f"jobs/{one.provider.job_id}/cancel", b"", steps=("C-connected", "C2", "C3"))
        return "requested"

    async def fetch(self, one: Attempt) -> Iterable[bytes] | Expired | Unclear:
        body = self._call("GET", f"jobs/{one.provider.job_id}/result", steps=("", "", "K8"))[1]
        return (body,)

    def _call(
        self, method: str, path: str, body: bytes = b"", more: str = "", steps: tuple[str, ...] = ()
    ) -> tuple[int, bytes]:
        connected, sent, read = steps or (("K3", "K4", "K5") if method == "POST" else ("", "", ""))
        with socket.create_connection(("127.0.0.1", self._port), timeout=30) as line:
            self.reached(connected)
            head = (
                f"{method} /{self._kind}/{path} HTTP/1.1\r\nhost: x\r\n{more}content-length: {len(body)}\r\n"
            )
            line.sendall(head.encode() + b"connection: close\r\n\r\n" + body)
            self.reached(sent)
            answer = bytearray()
            while chunk := line.recv(65536):
                answer += chunk
        self.reached(read)
        top, _, rest = bytes(answer).partition(b"\r\n\r\n")
        return int(top.split(b" ")[1]), rest


def text(value: Any) -> bytes:
    """A request's bytes."""
    return json.dumps(value).encode()
