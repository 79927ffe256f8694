"""What came of the copies of a binding's calls, counted from their records for ``handler describe``.

The records are the controller's (``<state>/shadow/NAME.jsonl``) and bounded: what is kept is counted.
"""

import json

from reconciler.control import folders

_WORDS = {"same": "answered the same", "different": "answered otherwise", "unanswered": "did not answer"}
_MISSED = {"not_sampled": "not sampled", "dropped": "dropped", "left_out": "left out"}


def told(given: str | None, name: str, shadow: object) -> str:
    """One line about a binding's shadow, or "" when it has none."""
    if not isinstance(shadow, str):
        return ""
    path = f"{folders.places(given)[1]}/shadow/{name}"
    found: dict[str, int] = {}
    missed: dict[str, int] = {}
    for line in _lines(f"{path}.1.jsonl") + _lines(f"{path}.jsonl"):
        try:
            one = json.loads(line)
            if one["shadow"] == shadow:
                found[one["outcome"]] = found.get(one["outcome"], 0) + 1
                missed = one["missed"]
        except (ValueError, KeyError, TypeError):
            continue  # half a line, or somebody else's
    if not found:
        return f"{shadow}: nothing was compared yet"
    answers = [f"{found[word]} {words}" for word, words in _WORDS.items() if found.get(word)]
    others = [f"{missed[word]} {words}" for word, words in _MISSED.items() if missed.get(word)]
    more = f"; since the start {', '.join(others)}" if others else ""
    return f"{shadow}: of {sum(found.values())} copies {', '.join(answers)}{more} ({path}.jsonl)"


def _lines(path: str) -> list[bytes]:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib costs 3 ms at start
            return file.read().splitlines()
    except OSError:
        return []
