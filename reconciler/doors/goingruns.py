"""The lines of ``handler status`` about what waits: runs of chains for a person or a job, calls for a yes."""

import json
import os
import time
from collections.abc import Iterable, Mapping

_WORDS = {"waiting_approval": "for a person ('handler approve list')", "waiting_service": "for a job"}
_MOST = 4096  # bytes of the file that counts them
_LARGEST = 1 << 20  # bytes of a question


def told(state: str) -> str:
    """How many wait for what, as the controller counted them last; "" where none does."""
    try:
        with open(f"{state}/runs/going.json", "rb") as file:  # noqa: PTH123 - pathlib costs more than all the rest
            found = json.loads(file.read(_MOST))
    except (OSError, ValueError):
        return ""
    if not isinstance(found, dict):
        return ""
    numbers = {key: found.get(key) for key in _WORDS}
    said = [
        f"{number} {_WORDS[key]}" for key, number in numbers.items() if type(number) is int and number > 0
    ]
    return f"runs     of chains that wait: {', '.join(said)}\n" if said else ""


def asked(state: str) -> str:
    """How many questions of the policy of what may leave wait for a person; "" where none does. Those of runs
    are counted with the runs.
    """
    number = sum(_waits(f"{state}/approvals/{name}") for name in _names(f"{state}/approvals"))
    return f"calls    that wait for a person: {number} ('handler approve list')\n" if number else ""


def unsettled(objects: Iterable[Mapping[str, object]]) -> str:
    """How many calls of all bindings wait for a person to say what became of them; "" where none does."""
    numbers = [one.get("indeterminate") for one in objects]
    number = sum(one for one in numbers if type(one) is int)
    return f"calls    of which nobody knows what became: {number} ('handler jobs list')\n" if number else ""


def _names(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.endswith(".json")]  # noqa: PTH208 - as above
    except OSError:
        return []


def _waits(path: str) -> bool:
    """Whether that file is a question that nobody answered, within its time, and of no run."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = json.loads(file.read(_LARGEST))
        return bool(
            found["state"] == "waiting" and found["until"] > time.time() and "run" not in found["about"]
        )
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return False
