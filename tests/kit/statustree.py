"""A status folder as two controllers are compared by it: all that is said, but for when, how often, by whom.

What is left out, and nothing else:

* instants: ``at``, ``startedAt``, ``lastTransitionTime``, ``lastHandledRequestAt``, the page's last line;
* what tells of the past on purpose: ``history`` (of objects and of the summary), ``restarts``, ``lastExit``,
  ``calls``;
* how the newest commit followed on the one before it (``… is not a descendant of …``), which is said until
  the next one;
* who wrote it: the ``controller``, process numbers, how often the routes were swapped (``generation`` of the
  summary), and the folder of the configuration.
"""

import re
from pathlib import Path
from typing import Any

import orjson

_LEFT_OUT = frozenset(
    [
        "at",
        "startedAt",
        "lastTransitionTime",
        "lastHandledRequestAt",
        "history",
        "restarts",
        "lastExit",
        "calls",
        "controller",
        "pid",
        "configuration",
    ]
)
_SWAPS = re.compile(r"generation \d+ · handlerd .*\(pid \d+\)")
_FOLLOWS = re.compile(
    r"( · )?[0-9a-f]{40} is not a descendant of [0-9a-f]{40}, which was applied before it: "
    r"[^;]*; where neither was meant, 'handler rollback' serves the one before"
)
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?UTC|Z)?")


def tree(status: Path) -> dict[str, Any]:
    """Every file below a status folder, comparable; temporary files that a killed writer left included."""
    found: dict[str, Any] = {}
    for path in sorted(status.rglob("*")):
        if not path.is_file():
            continue
        name, data = str(path.relative_to(status)), path.read_bytes()
        if path.suffix == ".json" and not path.name.startswith("."):
            found[name] = _plain(orjson.loads(data))
            if name == "summary.json":
                del found[name]["generation"]
        else:
            found[name] = _page(data.decode())
    return found


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """What differs, a line each, for a person who reads the failure."""
    return [line for name in sorted(one.keys() | other.keys()) for line in _lines(name, one, other, name)]


def _lines(key: Any, one: Any, other: Any, path: str) -> list[str]:
    missing = object()
    a, b = (_at(value, key, missing) for value in (one, other))
    if a is missing or b is missing:
        return [f"{path}: only in the {'second' if a is missing else 'first'}: {b if a is missing else a}"]
    if isinstance(a, dict) and isinstance(b, dict):
        return [line for k in sorted(a.keys() | b.keys()) for line in _lines(k, a, b, f"{path}.{k}")]
    if isinstance(a, list) and isinstance(b, list):
        return [x for k in range(max(len(a), len(b))) for x in _lines(k, a, b, f"{path}[{k}]")]
    return [] if a == b else [f"{path}: {a!r} / {b!r}"]


def _at(value: Any, key: Any, missing: object) -> Any:
    if isinstance(value, list):
        return value[key] if key < len(value) else missing
    return value.get(key, missing)


def _page(text: str) -> str:
    """The page for people: its first line names the folder, its header the generation and the process."""
    head, *lines = _INSTANT.sub("WHEN", text).splitlines()
    said = [
        _FOLLOWS.sub("", _SWAPS.sub("", line)).removesuffix("Synced True, ReconcileSuccess: ")
        for line in lines
    ]
    return "\n".join([head.partition(":")[0], *filter(None, said)])


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items() if key not in _LEFT_OUT}
    if isinstance(value, str):
        return _FOLLOWS.sub("", value)
    return [_plain(one) for one in value] if isinstance(value, list) else value
