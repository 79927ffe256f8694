"""Records of a session's calls, read from the state folder: also of sessions that are over.

Standard library only. What the controller writes there is told in ``control.callbook``: one line a call, no
payload.
"""

import json
import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

_TAIL = 2**20  # bytes of the newest records: thousands of calls


def of(state: str, session: str) -> list[dict[str, object]]:
    """The newest records of a session, the oldest of them first; [] where there are none."""
    if not _is_name(session):
        return []
    found: list[dict[str, object]] = []
    for name in (f"{session}.1.jsonl", f"{session}.jsonl"):
        for line in _tail(Path(state, "calls", name)):
            try:
                record = json.loads(line)
            except ValueError:
                continue  # the tail may begin in the middle of a line
            if isinstance(record, dict):
                found.append(record)
    return found


def stopped(state: str, binding: str, call: Mapping[str, object]) -> list[str]:
    """Why a binding's connector did not get out while a call ran, each reason once; [] where it did."""
    try:
        ended = datetime.fromisoformat(str(call["at"]))
        began = (ended - timedelta(milliseconds=float(str(call["ms"])))).timestamp()
    except (KeyError, ValueError):
        return []
    found: dict[str, None] = {}
    for line in _tail(Path(state, "egress.jsonl")):
        try:
            one = json.loads(line)
            late = one["object"] == f"binding/{binding}" and one["verdict"] != "allowed"
            if late and datetime.fromisoformat(one["at"]).timestamp() >= began:
                found[str(one["why"])] = None
        except (ValueError, KeyError, TypeError):
            continue  # the tail may begin in the middle of a line
    return list(found)


def known(state: str) -> list[str]:
    """The sessions that there are records of, the one that was written to last first."""
    found: dict[str, float] = {}
    try:
        with os.scandir(Path(state, "calls")) as entries:
            for one in entries:
                if one.name.endswith(".jsonl"):
                    name = one.name.removesuffix(".jsonl").removesuffix(".1")
                    if not _is_name(name):
                        continue  # nothing that a controller wrote
                    found[name] = max(one.stat().st_mtime, found.get(name, 0.0))
    except OSError:
        pass  # none yet, or one that was pruned meanwhile: what was found counts
    return sorted(found, key=lambda name: -found[name])


def count(state: str, session: str) -> int:
    """How many records there are of a session."""
    found = 0
    for more in (".1", ""):
        try:
            found += Path(state, "calls", f"{session}{more}.jsonl").read_bytes().count(b"\n")
        except OSError:
            continue  # there is none, or it was pruned just now
    return found


def _is_name(session: str) -> bool:
    return session.replace("-", "").isalnum()


def _tail(path: Path) -> list[bytes]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            return file.read().splitlines()
    except OSError:
        return []
