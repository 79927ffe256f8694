"""Records of a session's calls, read from the state folder: also of sessions that are over.

Standard library only. What the controller writes there is told in ``control.callbook``: one line a call, no
payload.
"""

import json
import os
from pathlib import Path

_TAIL = 2**20  # bytes of the newest records: thousands of calls


def of(state: str, session: str) -> list[dict[str, object]]:
    """The newest records of a session, the oldest of them first; [] where there are none."""
    if not session.replace("-", "").isalnum():
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


def count(state: str, session: str) -> int:
    """How many records there are of a session."""
    files = (Path(state, "calls", f"{session}{more}.jsonl") for more in (".1", ""))
    return sum(path.read_bytes().count(b"\n") for path in files if path.is_file())


def _tail(path: Path) -> list[bytes]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            return file.read().splitlines()
    except OSError:
        return []
