"""By what an attempt is told from another: its scope, its caller's key, the key that its far end is shown.

Pure: instants and chance are handed in. All digests are over RFC 8785, so the same content has one digest on
every machine.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import rfc8785

_VERSION = "handler.idem/v1"
IDEM_KEY_CHARS = 45  # ASCII; every far end that takes keys takes so many


@dataclass(frozen=True, slots=True)
class Destination:
    """Where and as what a request goes: a key is good for one of them."""

    profile_digest: str
    operation: str
    origin: str


def attempt_id(now: float, chance: bytes) -> str:
    """A UUIDv7 (RFC 9562): sorts by the instant, to the millisecond. ``chance`` is 10 random bytes."""
    if len(chance) != 10:
        raise ValueError(f"ten random bytes are needed, not {len(chance)}")
    moment = int(now * 1000) & (2**48 - 1)
    high = (moment << 16) | 0x7000 | (int.from_bytes(chance[:2], "big") & 0x0FFF)
    low = (int.from_bytes(chance[2:], "big") & (2**62 - 1)) | (1 << 63)
    text = f"{(high << 64) | low:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def handle(chance: bytes) -> str:
    """What an agent holds of an attempt: 16 random bytes in hex, so that nobody guesses another's."""
    if len(chance) != 16:
        raise ValueError(f"sixteen random bytes are needed, not {len(chance)}")
    return chance.hex()


def scope(principal: str, project: str, agent: str) -> str:
    """Within what a caller's key names one attempt. No two triples have one scope."""
    return rfc8785.dumps([principal, project, agent]).decode()


def call_key(request_key: str | None, chance: bytes) -> str:
    """The caller's own key (``request_key``, where the interface defines one), else one by chance."""
    if request_key:
        return f"key:{request_key}"
    return f"call:{chance.hex()}"


def digest(content: Any) -> str:
    """``sha256:…`` of JSON in its canonical form. Raises ValueError for what has none (NaN, 2^53)."""
    try:
        return "sha256:" + hashlib.sha256(rfc8785.dumps(content)).hexdigest()
    except (rfc8785.CanonicalizationError, RecursionError) as error:
        raise ValueError(f"cannot digest it: {error}") from None


def input_digest(tool: str, arguments: Mapping[str, Any], files: Sequence[tuple[str, str]] = ()) -> str:
    """What an agent asked for: the tool, its arguments, and the digests of the files that they name."""
    return digest({"tool": tool, "arguments": arguments, "files": sorted(map(list, files))})


def idem_key(install: str, named: tuple[str, str, int], request_digest: str, to: Destination) -> str:
    """The key that the far end is shown: the same for every transmission of one generation, another for any
    other content or destination. ``named`` is scope, call key, generation.
    """
    parts = [_VERSION, install, *named, request_digest, to.profile_digest, to.operation, to.origin]
    return "hdl1-" + digest(parts).removeprefix("sha256:")[:40]
