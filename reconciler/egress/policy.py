"""A policy made ready: classes ranked, patterns compiled, sums in units. Pure; ``decide`` judges by it.

A policy that is there and cannot be used is ``closed``: it lets nothing go to another machine.
"""

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

import rfc8785

from reconciler.model.contract import finder
from reconciler.model.policies import Cost, EgressPolicy, Rule

UNITS = 10_000  # of a currency's unit: what a sum is counted in
LOWEST = "unlabelled"  # the class of everything where a policy names none


@dataclass(frozen=True, slots=True, order=True)
class Sum:
    """An amount of one currency, in units of a ten-thousandth."""

    currency: str
    units: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``EUR 0.50``; the form has been checked."""
        currency, _, amount = text.partition(" ")
        whole, _, part = amount.partition(".")
        return cls(currency, int(whole) * UNITS + int(part.ljust(4, "0") or 0))

    def __str__(self) -> str:
        whole, part = divmod(self.units, UNITS)
        digits = f"{part:04d}".rstrip("0").ljust(2, "0")
        return f"{self.currency} {whole}.{digits}"


@dataclass(frozen=True, slots=True)
class Place:
    """A file as labels see it: its absolute path, and its path below a folder of the scope ("": none)."""

    absolute: str
    within: str = ""


@dataclass(frozen=True, slots=True)
class Basis:
    """Why data is of a class: the label's pattern (``floor``, ``session``), and the class."""

    label: str
    class_name: str


@dataclass(frozen=True, slots=True)
class _Pattern:
    text: str
    fits: Callable[[str], object]
    is_absolute: bool
    class_name: str


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy, ready. ``closed`` says why nothing may leave, or is ""."""

    spec: EgressPolicy
    digest: str
    ranks: Mapping[str, int]
    closed: str = ""
    _patterns: tuple[_Pattern, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, spec: EgressPolicy, home: str = "") -> Self:
        """Make it ready; ``home`` is what ``~`` means."""
        text = rfc8785.dumps(spec.model_dump(mode="json", by_alias=True, exclude_none=True))
        names = [one.name for one in spec.class_] or [LOWEST]
        patterns = tuple(
            _Pattern(pattern, _compiled(pattern, home), pattern.startswith(("/", "~/")), label.class_)
            for label in spec.label
            for pattern in label.paths
        )
        digest = "sha256:" + hashlib.sha256(text).hexdigest()
        return cls(spec, digest, {name: at for at, name in enumerate(names)}, _patterns=patterns)

    @classmethod
    def shut(cls, why: str) -> Self:
        """What stands in the place of a policy that is refused or cannot be read."""
        spec = EgressPolicy.model_validate({"apiVersion": "handler.egress-policy/v1", "name": "refused"})
        return cls(spec, "sha256:" + "0" * 64, {LOWEST: 0}, why)

    @property
    def lowest(self) -> str:
        """The class of what has no label."""
        return next(iter(self.ranks))

    def rank(self, class_name: str) -> int:
        """Where a class stands; one that the policy does not know is above all others."""
        return self.ranks.get(class_name, len(self.ranks))

    def highest(self, found: Iterable[Basis]) -> str:
        """The highest class of several."""
        return max((one.class_name for one in found), key=self.rank, default=self.lowest)

    def labelled(self, places: Iterable[Place]) -> tuple[Basis, ...]:
        """Every label that applies to files, each once. A path is compared as it is written and in one case,
        since file systems differ on that: a label is no less strict for a letter.
        """
        found: dict[Basis, None] = {}
        for place in places:
            for one in self._patterns:
                text = place.absolute if one.is_absolute else place.within
                if text and one.fits(_plain(text)):
                    found[Basis(one.text, one.class_name)] = None
        return tuple(found)


def sums(cost: Cost) -> tuple[Sum | None, Sum | None]:
    """What a rule may spend for a call and on a day."""
    return (
        Sum.parse(cost.per_call) if cost.per_call else None,
        Sum.parse(cost.per_day) if cost.per_day else None,
    )


def missing(rule: Rule, facts: Mapping[str, str]) -> Sequence[str]:
    """The demands of a rule that stated facts do not fulfil."""
    return [demand for demand in rule.require if not _fulfilled(demand, facts)]


def _fulfilled(demand: str, facts: Mapping[str, str]) -> bool:
    name, _, value = demand.partition(":")
    stated = facts.get(name)
    if stated is None or stated == "unstated":
        return False
    if not value.startswith("<="):
        return stated == value
    most, found = _days(value[2:]), _days(stated)
    return most is not None and found is not None and found <= most


def _days(text: str) -> int | None:
    if text == "none":
        return 0
    number = re.fullmatch(r"([0-9]{1,6})d?", text)
    return int(number[1]) if number else None


def _compiled(pattern: str, home: str) -> Callable[[str], object]:
    """``**`` goes through folders, also none; ``*`` and ``?`` stay within one. An agent chooses the path: an
    engine that tries several stars one after the other would be held up by a long one for minutes.
    """
    text = f"{home.rstrip('/')}/{pattern[2:]}" if pattern.startswith("~/") else pattern
    parts, at = [], 0
    text = _plain(text)
    while at < len(text):
        if text.startswith("**/", at):
            parts.append("(?:[^/]+/)*")
            at += 3
        elif text.startswith("**", at):
            parts.append(".*")
            at += 2
        else:
            char = text[at]
            plain = char.isalnum() or not char.isascii() or char in "/_ "
            parts.append({"*": "[^/]*", "?": "[^/]"}.get(char) or (char if plain else f"\\x{ord(char):02x}"))
            at += 1
    expression = f"(?s)^(?:{''.join(parts)})$"
    if pattern.replace("**", "*").count("*") > 1:
        with suppress(ValueError):  # hundreds of wildcards are more than it takes
            return finder(expression)
    return re.compile(expression.removesuffix("$") + r"\Z").match


def _plain(text: str) -> str:
    """One spelling and one case: a file is of a class however its name is written."""
    return unicodedata.normalize("NFC", text).casefold()
