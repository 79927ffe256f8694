"""Receipts: one line a decision, each bound to the one before, so that a changed or missing one shows. Pure.

A line is a JSON object whose ``prev`` is the sha256 of the line before it, across the files of days too; the
first of all has 64 zeros. A *head* says how far the chain had come, under a key of this installation, so that
lines cut off at the end show. What was sent is not in a line: digests of short texts can be guessed, so they
are shown as ``ev:`` and 16 hex digits of an HMAC. Whoever has the key and may write here can forge all of it:
receipts are evidence of accidents and of other people's edits, not of one's own.
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

FIRST = "0" * 64
_SHOWN = 16


def shown(key: bytes, kind: str, digest: str) -> str:
    """A digest as logs, status and receipts have it."""
    mark = hmac.new(key, f"{kind}\0{digest}".encode(), hashlib.sha256).hexdigest()
    return f"ev:{mark[:_SHOWN]}"


def line(number: int, prev: str, told: Mapping[str, Any]) -> bytes:
    """The line of a receipt, with its end."""
    return orjson.dumps({"n": number, "prev": prev, **told}, option=orjson.OPT_APPEND_NEWLINE)


def digest(text: bytes) -> str:
    """What the next line is bound to: the sha256 of a line, its end included."""
    return hashlib.sha256(text).hexdigest()


@dataclass(frozen=True, slots=True)
class Head:
    """How far a chain has come: the number of the last line and its digest."""

    number: int = 0
    last: str = FIRST

    def sealed(self, key: bytes) -> bytes:
        """As the head's file has it."""
        mark = self._mark(key)
        return orjson.dumps({"n": self.number, "last": self.last, "mark": mark}) + b"\n"

    @classmethod
    def unsealed(cls, text: bytes, key: bytes) -> "Head":
        """Read it; ValueError, as a clause, where it is not what this installation wrote."""
        try:
            found = orjson.loads(text)
            head = cls(int(found["n"]), str(found["last"]))
            is_ours = hmac.compare_digest(str(found["mark"]), head._mark(key))
        except (ValueError, TypeError, KeyError):
            raise ValueError("the head cannot be read") from None
        if not is_ours:
            raise ValueError("the head is not what this installation wrote")
        return head

    def _mark(self, key: bytes) -> str:
        return hmac.new(key, f"head\0{self.number}\0{self.last}".encode(), hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class Broken:
    """The first place where a chain does not hold."""

    file: str
    line: int
    why: str


@dataclass(frozen=True, slots=True)
class Chain:
    """What was found: how many lines hold, the first that does not, and where the chain begins and ends."""

    lines: int
    broken: Broken | None
    begins: int  # the number of its first line: 1 unless older days were put away
    head: Head


def verify(files: Iterable[tuple[str, bytes]], head: Head | None) -> Chain:
    """Follow a chain through its files in order; ``head`` is how far it had come, where that is known."""
    now, begins, lines = Head(), 0, 0
    where = ("", 0)
    reached: dict[int, str] = {}
    for name, text in files:
        for at, one in enumerate(text.splitlines(keepends=True), 1):
            where = (name, at)
            after, why = _next(one, now if lines else None)
            if after is None:
                return Chain(lines, Broken(name, at, why), begins, now)
            now, lines = after, lines + 1
            begins = begins or now.number
            if head is not None and now.number == head.number:
                reached[now.number] = now.last
    broken = _cut(head, reached, where, begins) if head is not None and head.number else None
    return Chain(lines, broken, begins, now)


def _next(text: bytes, before: Head | None) -> tuple[Head | None, str]:
    """The head after a line; None and why, where the line does not follow."""
    if not text.endswith(b"\n"):
        return None, "the line is not whole"
    try:
        found = orjson.loads(text)
        number, prev = int(found["n"]), str(found["prev"])
    except (ValueError, TypeError, KeyError):
        return None, "the line is no receipt"
    if before is not None and prev != before.last:
        return None, "the line before it is not the one that it was written after"
    if before is not None and number != before.number + 1:
        return None, f"it has the number {number} where {before.number + 1} belongs"
    if before is None and (number == 1) != (prev == FIRST):
        return None, "it is not the first of the chain, and says that it is"
    return Head(number, digest(text)), ""


def _cut(head: Head, reached: Mapping[int, str], where: tuple[str, int], begins: int) -> Broken | None:
    if head.number < begins:
        return None  # the chain went on from there: its lines say so themselves
    found = reached.get(head.number)
    if found is None:
        return Broken(
            where[0], where[1] + 1, f"the chain had come to number {head.number}: its end is missing"
        )
    if found != head.last:
        return Broken(*where, f"number {head.number} is not the line that was written")
    return None
