"""What came of the copies of a binding's calls, counted from their records for ``handler describe``.

The records are the controller's (``<state>/shadow/NAME.jsonl``) and bounded: what is kept is counted.
"""

import json
from collections import Counter
from pathlib import Path

from reconciler.control import folders

_WORDS = {"same": "answered the same", "different": "answered otherwise", "unanswered": "did not answer"}
_MISSED = {"not_sampled": "not sampled", "dropped": "dropped", "left_out": "left out"}


def told(given: str | None, name: str, shadow: object) -> str:
    """One line about a binding's shadow, or "" when it has none."""
    if not isinstance(shadow, str):
        return ""
    path = Path(folders.places(given)[1], "shadow", f"{name}.jsonl")
    found: Counter[str] = Counter()
    missed: dict[str, int] = {}
    for line in _lines(path.with_suffix(".1.jsonl")) + _lines(path):
        try:
            one = json.loads(line)
            if one["shadow"] == shadow:
                found[one["outcome"]] += 1
                missed = one["missed"]
        except (ValueError, KeyError, TypeError):
            continue  # half a line, or somebody else's
    if not found:
        return f"{shadow}: nothing was compared yet"
    answers = [f"{found[word]} {words}" for word, words in _WORDS.items() if found[word]]
    others = [f"{missed[word]} {words}" for word, words in _MISSED.items() if missed.get(word)]
    more = f"; since the start {', '.join(others)}" if others else ""
    return f"{shadow}: of {found.total()} copies {', '.join(answers)}{more} ({path})"


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().splitlines()
    except OSError:
        return []
