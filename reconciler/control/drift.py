"""Drift: what is not as the controller left it; found at each resync, told, put right where that is wished.

What there is to find is found by ``findings``; here it is decided whose it is, whether it is told and put
right, and what is said meanwhile. An object's ``drift`` (``off``, ``report``, ``correct``) speaks for what
belongs to it; the controller's own records are always put right. A check that finds nothing does nothing.
"""

import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from reconciler.model.names import ObjectRef
from reconciler.model.status import Condition, Reason

_LOG = logging.getLogger("handler.drift")
_SINGLY = 8  # objects that one cause is told of one by one in events; of more, once for all

Wish = Literal["off", "report", "correct"]
Mend = Callable[[], Awaitable[str]]


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """One thing that is not as it was left.

    ``about`` names the objects that it belongs to, none for what is the configuration's. ``mend`` puts it
    right and returns "", or says why it is not right yet. ``own``: a record of the controller. ``hint`` is
    what a person can do, where only a person can; it is told with the message.
    """

    reason: Reason
    message: str
    about: tuple[ObjectRef, ...]
    mend: Mend
    own: bool = False
    hint: str = ""

    @property
    def words(self) -> str:
        """All that is told of it when it is found."""
        return " · ".join(filter(None, (self.message, self.hint)))

    @property
    def key(self) -> Hashable:
        """The same for the same thing at the next check."""
        return self.reason, self.message, self.about


@dataclass(frozen=True, slots=True)
class Voice:
    """How drift is told: ``event`` as a journal's, ``say`` writes the statuses down now."""

    event: Callable[[str, str, str, str], None]
    say: Callable[[], Awaitable[None]]


class Drift:
    """What had drifted at the last check, and the check."""

    def __init__(
        self, find: Callable[[], Awaitable[list[Found]]], wish: Callable[[ObjectRef], Wish], voice: Voice
    ) -> None:
        self.objects: Mapping[ObjectRef, Condition] = {}  # replaced whole, never edited
        self.configuration: Condition | None = None
        self._find = find
        self._wish = wish
        self._voice = voice
        self._open: dict[Hashable, Found] = {}
        self._whys: dict[Hashable, str] = {}  # of those: why they are not put right yet

    async def check(self) -> None:
        """Find, tell, put right, and tell again; one check at a time."""
        there = {one.key: one for one in await self._find()}
        found = {key: one for key, one in there.items() if one.own or told(one, self._wish)}
        if not found and not self._open:
            return
        self._events(found, there)
        self._open = found
        await self._tell()
        for key, one in list(found.items()):
            if not (one.own or is_corrected(one, self._wish)):
                continue
            why = await _mended(one)
            if why:
                self._whys[key] = why
            else:
                del self._open[key]
                self._event(one, "Normal", "DriftCorrected", f"{one.message}: it is as it was left again")
        await self._tell()

    def _events(self, found: Mapping[Hashable, Found], there: Mapping[Hashable, Found]) -> None:
        """What is new, and what is over without our doing, or since we began to put it right."""
        for key, one in found.items():
            if key not in self._open:
                self._event(one, "Warning", one.reason, one.words)
        for key, one in self._open.items():
            if key not in there:
                self._event(one, "Normal", "DriftCorrected", f"{one.message}: that is over")

    def _event(self, one: Found, severity: str, reason: Reason, message: str) -> None:
        about = [str(ref) for ref in (one.about if one.own else told(one, self._wish))]
        if not 0 < len(about) <= _SINGLY:
            message = f"{message} ({len(about)} objects)" if about else message
            about = ["configuration"]
        for name in about:
            self._voice.event(name, severity, reason, message)

    async def _tell(self) -> None:
        """Have the conditions written down where they changed."""
        self._whys = {key: why for key, why in self._whys.items() if key in self._open}
        before = self.objects, self.configuration
        lines: dict[ObjectRef | None, list[tuple[Reason, str]]] = {}
        for key, one in self._open.items():
            words = " · ".join(filter(None, (one.words, self._whys.get(key))))
            for ref in (one.about if one.own else told(one, self._wish)) or (None,):
                lines.setdefault(ref, []).append((one.reason, words))
        self.configuration = _condition(lines.pop(None, []))
        self.objects = {ref: made for ref, some in lines.items() if ref and (made := _condition(some))}
        if before != (self.objects, self.configuration):
            await self._voice.say()


def told(one: Found, wish: Callable[[ObjectRef], Wish]) -> tuple[ObjectRef, ...]:
    """The objects of which a thing is told: those that do not wish to hear nothing."""
    return tuple(ref for ref in one.about if wish(ref) != "off")


def is_corrected(one: Found, wish: Callable[[ObjectRef], Wish]) -> bool:
    """What several objects share is put right when one of them wishes so."""
    return any(wish(ref) == "correct" for ref in one.about)


async def _mended(one: Found) -> str:
    """Put it right; "" or why not."""
    try:
        return await one.mend()
    except (OSError, ValueError) as error:
        return f"it cannot be put right: {getattr(error, 'strerror', None) or error}"


def _condition(lines: Iterable[tuple[Reason, str]]) -> Condition | None:
    some = list(lines)
    return Condition("Drifted", "True", some[0][0], " · ".join(words for _, words in some)) if some else None
