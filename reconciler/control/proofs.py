"""Where evidence is kept: in the state folder as checks bring it, and beside connectors as people commit it.

``<state>/evidence/<connector>/`` holds the last checks, a file each. What lies beside a connector, in
``evidence/``, was written by ``handler connector check --record`` and is read from the trees that are looked
at. A file that is none, or was changed since it was sealed, proves nothing and is passed over.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.control import atomic
from reconciler.model.inventory import Layer, Tree

if TYPE_CHECKING:
    from reconciler.config.evidence import Evidence

FOLDER = "evidence"
_BARE = "default"  # of a check without a binding
_KEPT = 20  # checks of one connector
_LONGEST = 2**21  # bytes of one file: thousands of cases


def keep(state: Path, evidence: Evidence) -> Path:
    """Write evidence into the state folder, and let the oldest go; where it is. Raises OSError."""
    folder = state / FOLDER / evidence.subject.connector
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    moment = evidence.finished.replace(":", "").replace("-", "")
    path = folder / f"{moment}-{evidence.fingerprint.removeprefix('sha256:')[:8]}.json"
    atomic.write(path, rendered(evidence))
    for old in sorted(folder.glob("*.json"))[:-_KEPT]:
        old.unlink(missing_ok=True)
    return path


def record(connector: Path, evidence: Evidence) -> Path:
    """Write evidence beside a connector, in its folder, to be committed; where it is. Raises OSError."""
    folder = connector / FOLDER
    folder.mkdir(exist_ok=True)
    name = _BARE if evidence.binding is None else evidence.binding
    if evidence.binding == _BARE:  # a person's name for one: no name has a point
        name = f"{_BARE}.binding"
    path = folder / f"{name}-{evidence.mode}.json"
    atomic.write(path, rendered(evidence), mode=0o644)
    return path


def rendered(evidence: Evidence) -> bytes:
    """The text of a file of evidence."""
    return evidence.model_dump_json(by_alias=True, indent=2).encode() + b"\n"


def kept(state: Path, connector: str) -> list[Evidence]:
    """What the state folder has of one connector."""
    texts = []
    try:
        paths = sorted((state / FOLDER / connector).glob("*.json"))
    except OSError:
        return []
    for path in paths:
        with suppress(OSError):
            texts.append(_text(path))
    return list(_read(texts))


def looks(state: Path, connector: str) -> object:
    """How the folder of ``kept`` looks: the same as long as it holds the same files."""
    try:
        found = [(path.name, path.stat()) for path in (state / FOLDER / connector).glob("*.json")]
        return sorted((name, status.st_mtime_ns, status.st_size) for name, status in found)
    except OSError:
        return None


def beside(trees: Mapping[Layer, Tree], connector: str) -> list[Evidence]:
    """What lies beside one connector, in either layer."""
    folder = f"connectors/{connector}/{FOLDER}/"
    texts = [
        data
        for tree in trees.values()
        for path, data in tree.files.items()
        if path.startswith(folder) and path.endswith(".json")
    ]
    return list(_read(texts))


def _text(path: Path) -> bytes:
    """The bytes of a plain file that is not too long; what else stands there is not waited for, nor followed.
    Raises OSError.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        plain = stat.S_ISREG(found.st_mode) and found.st_size <= _LONGEST
        return file.read(_LONGEST) if plain else b""


def _read(texts: list[bytes]) -> Iterator[Evidence]:
    if not texts:
        return
    from reconciler.config.evidence import Evidence  # noqa: PLC0415 - where there is any: see conformance.evidence

    for text in texts:
        try:
            yield Evidence.model_validate_json(text)
        except ValueError:  # pydantic's ValidationError is one
            continue
