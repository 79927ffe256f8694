"""Which user id each connector runs as when the controller is root: its own, for ever, from 900000.

Two connectors never share one, so neither can read, signal or count against the other. Each state folder
starts in a block of its own, drawn from its name, so that those of several controllers on one machine hardly
ever meet. Kept in ``<state>/uids.json``, written whole or not at all.
"""

import hashlib
import json
import os
from pathlib import Path

FIRST_UID = 900_000
_BLOCK = 100  # connectors of one configuration; more spill into the next block
_BLOCKS = 10_000


class Identities:
    """The table of connector names and user ids."""

    def __init__(self, path: Path) -> None:
        self._path = path
        drawn = int.from_bytes(hashlib.sha256(os.fsencode(path.parent.resolve())).digest()[:4])
        self._first = FIRST_UID + drawn % _BLOCKS * _BLOCK
        self._uids = _read(path)

    def uid(self, connector: str) -> int:
        """The user id of a connector; a new one is on disk before it is used."""
        known = self._uids.get(connector)
        if known is not None:
            return known
        uid = max(self._uids.values(), default=self._first - 1) + 1
        self._uids[connector] = uid
        _write(self._path, self._uids)
        return uid


def _read(path: Path) -> dict[str, int]:
    """What the file says; an unreadable one is begun anew: no file outside a sandbox belongs to these ids."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    kept = {name: uid for name, uid in found.items() if type(uid) is int and uid >= FIRST_UID}
    return kept if len(set(kept.values())) == len(kept) else {}


def _write(path: Path, uids: dict[str, int]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.{os.getpid()}")
    with half.open("w") as file:
        file.write(json.dumps(uids, indent=1, sort_keys=True) + "\n")
        file.flush()
        os.fsync(file.fileno())
    half.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
