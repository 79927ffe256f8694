"""What the doors talk to, made small: a status folder, a control socket, a router that speaks MCP."""

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

Answer = Callable[[Mapping[str, Any]], Any]
SILENT = object()  # what a method returns that never answers


class FaultError(Exception):
    """What a method raises to be answered as a JSON-RPC error."""


@contextmanager
def served(path: Path, methods: Mapping[str, Answer]) -> Iterator[list[dict[str, Any]]]:
    """Serve JSON-RPC lines at ``path``; yields the messages as they come in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    heard: list[dict[str, Any]] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def accept() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with suppress(OSError), sock, sock.makefile("rwb") as file:
                for line in file:
                    message = json.loads(line)
                    heard.append(message)
                    answer = _answered(message, methods) if "id" in message else SILENT
                    if answer is not SILENT:
                        file.write(json.dumps(answer).encode() + b"\n")
                        file.flush()

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield heard
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)
        path.unlink()


def _answered(message: Mapping[str, Any], methods: Mapping[str, Answer]) -> Any:
    try:
        result = methods[message["method"]](message.get("params", {}))
    except FaultError as fault:
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -31000, "message": str(fault)}}
    return SILENT if result is SILENT else {"jsonrpc": "2.0", "id": message["id"], "result": result}


def write_status(state: Path, *objects: Mapping[str, Any], **summary: Any) -> None:
    """A summary as a controller (this very process) writes it, and files of the first 100 objects."""
    folder = state / "status"
    written = (datetime.now(UTC) - timedelta(seconds=12)).strftime("%Y-%m-%dT%H:%M:%SZ")
    for one in objects[:100]:
        path = folder / one["kind"] / f"{one['name']}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document(one, written)))
    folder.mkdir(parents=True, exist_ok=True)
    whole = {
        "apiVersion": "handler.status/v1",
        "kind": "summary",
        "lastAttemptedRevision": "main@sha1:4f2c1aa9d0",
        "lastAppliedRevision": "main@sha1:4f2c1aa9d0",
        "controller": me(),
        "at": written,
        "conditions": [],
        "objects": list(objects),
        "instances": [],
        "problems": [],
    }
    (folder / "summary.json").write_text(json.dumps({**whole, **summary}))


def row(name: str, ready: str = "True", reason: str = "ReconcileSuccess", **more: Any) -> dict[str, Any]:
    """One object of the summary, named ``kind/name``."""
    kind, _, plain = name.partition("/")
    usual = {
        "message": "",
        "file": f"{kind}s/{plain}.toml",
        "line": 0,
        "column": 0,
        "synced": "True",
        "late": "",
        "drifted": "",
        "usedBy": [],
    }
    return {"kind": kind, "name": plain, "ready": ready, "reason": reason, **usual, **more}


def document(one: Mapping[str, Any], since: str) -> dict[str, Any]:
    """The object's own status file."""
    conditions = [("Ready", one["ready"], one["reason"]), ("Synced", one["synced"], "ReconcileSuccess")]
    return {
        "apiVersion": "handler.status/v1",
        "kind": one["kind"],
        "name": one["name"],
        "source": {"file": one["file"], "digest": "sha256:00"},
        "generation": "sha256:00",
        "observedGeneration": "sha256:00",
        "suspended": False,
        "conditions": [
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": one["message"],
                "lastTransitionTime": since,
            }
            for kind, status, reason in conditions
        ],
        "problems": one.get("problems", []),
        "declared": one.get("declared"),
        "services": one.get("services", []),
        "inventory": [],
        "usedBy": one["usedBy"],
    }


def me() -> dict[str, Any]:
    """This process as a summary names its controller."""
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return {"pid": os.getpid(), "startTime": int(stat[19]), "bootId": boot, "version": "0.1.0"}
