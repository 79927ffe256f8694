"""The line of ``handler status`` about runs of chains that wait: for a person, or for a job."""

import json

_WORDS = {"waiting_approval": "for a person ('handler approve list')", "waiting_service": "for a job"}
_MOST = 4096  # bytes of the file that counts them


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
