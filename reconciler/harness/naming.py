"""Names of ours for names of theirs: objects, slots, settings, each legal, and the same at every import.

A name that had to be bent, and would meet another one, carries six digits of its original's digest: so what
is added to the source later changes no name that was given before.
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable

from reconciler.model.names import MAX_NAME, name_fault


def objects(originals: Iterable[str], taken: Collection[str]) -> dict[str, str]:
    """A legal object name for each original; ``taken`` are names that mean something else already."""
    bent = {original: _bent(original) for original in originals}
    crowd = Counter(bent.values())
    made = {}
    for original, name in bent.items():
        alone = crowd[name] == 1 or name == original
        made[original] = (
            name if alone and name not in taken and len(name) <= MAX_NAME else _marked(name, original)
        )
    return made


def _bent(original: str) -> str:
    plain = unicodedata.normalize("NFKD", original).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9]+", "-", plain[:200]).strip("-")
    return name if name_fault(name[:1]) is None else f"mcp-{name}".rstrip("-")


def _marked(name: str, original: str) -> str:
    digest = hashlib.sha256(original.encode(errors="replace")).hexdigest()[:6]
    return f"{name[: MAX_NAME - 7].rstrip('-')}-{digest}"


def slot(original: str, taken: Collection[str]) -> str:
    """A slot's name for a variable or a header: ``API_KEY`` gives ``api_key``."""
    word = re.sub(r"[^a-z0-9]+", "_", original.lower()).strip("_")[: MAX_NAME - 4].strip("_")
    return _free(word if word[:1].isalpha() else f"v_{word}".rstrip("_"), "_", taken)


def setting(original: str, taken: Collection[str]) -> str:
    """A setting's name for a variable: ``LOG_LEVEL`` gives ``logLevel``."""
    first, *more = [part for part in original.lower().split("_") if part]
    return _free((first + "".join(map(str.capitalize, more)))[: MAX_NAME - 4], "", taken)


def _free(word: str, joint: str, taken: Collection[str]) -> str:
    number = 2
    name = word
    while name in taken:
        name = f"{word}{joint}{number}"
        number += 1
    return name
