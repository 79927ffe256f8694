"""A secret once it is resolved: a value that is delivered, and never compared, printed or kept.

A ``SecretReference`` says where a secret is found; a ``Resolved`` holds what was found there. The two can
never be mistaken for each other: there is no ``==`` between them (mypy refuses it, and it raises), a recipe
takes only references, and all that may be told of a value is a fingerprint under a key of this process, which
says whether two resolutions gave the same and nothing else.
"""

import hashlib
from dataclasses import dataclass
from typing import Final, Never, NoReturn, SupportsIndex

from reconciler.model.recipes import SecretUse

_SHORTEST_KEY = 16  # bytes: what nobody guesses
_SHOWN = 12  # hex digits: enough to tell the few values of one slot apart
_WORDS = "a resolved secret is neither compared, ordered, hashed, printed nor stored: use its fingerprint"


class Resolved:
    """The value behind a secret reference. ``reveal`` is the only way out, for whoever delivers it."""

    __slots__ = ("_value", "fingerprint")

    fingerprint: Final[str]

    def __init__(self, value: bytes, *, key: bytes) -> None:
        """``key`` is 16 to 64 random bytes (else ValueError), kept to this process: whoever has it can try
        values against a fingerprint.
        """
        if len(key) < _SHORTEST_KEY:
            raise ValueError(f"the key of fingerprints has at least {_SHORTEST_KEY} bytes")
        self._value = value
        self.fingerprint = hashlib.blake2b(value, key=key).hexdigest()[:_SHOWN]

    def reveal(self) -> bytes:
        """The value, for the one place that hands it over."""
        return self._value

    def __eq__(self, other: Never) -> NoReturn:  # type: ignore[override]
        raise TypeError(_WORDS)

    def __ne__(self, other: Never) -> NoReturn:  # type: ignore[override]
        raise TypeError(_WORDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Resolved({self.fingerprint})"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __bool__(self) -> NoReturn:
        raise TypeError(_WORDS)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(_WORDS)


@dataclass(frozen=True, slots=True, eq=False)
class Filled:
    """One slot and what fills it, for one spawn."""

    use: SecretUse
    value: Resolved
