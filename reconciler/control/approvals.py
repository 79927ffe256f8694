"""Consents that people are asked for: one file each in ``<state>/approvals``, answered once.

A yes is for exactly the bytes that were asked about, once, and until the question's time is over. The one
who waits goes on with it; where nobody waits any more, the next that asks about the same bytes does. No
answer in time is a no. A no holds as long: who asks about the same bytes again in that time is answered by
it. A file says what is asked in words without payload: names, sizes, a digest that cannot be guessed back.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import orjson

from reconciler.control.atomic import reach, write

State = Literal["waiting", "approved", "denied", "expired", "used"]
FOLDER = "approvals"
_MOST = 200  # that wait at once; one more is refused
_KEPT_S = 7 * 86_400.0  # files of questions that are over
_MOST_KEPT = 500  # of those; an agent that asks on and on fills no disk, and holds up nobody


@dataclass(frozen=True, slots=True)
class Approval:
    """One question. ``about`` is what a person reads; ``mark`` names the bytes, and what they are sent by."""

    id: str
    mark: str
    at: float  # seconds since 1970
    until: float
    state: State = "waiting"
    by: str = ""
    answered: float = 0.0
    about: Mapping[str, Any] = ()  # type: ignore[assignment]

    def as_json(self) -> dict[str, Any]:
        """As its file has it."""
        return {**asdict(self), "about": dict(self.about)}


class Refused(Exception):  # noqa: N818 - an answer
    """Why an answer is not taken, as a sentence."""


class Approvals:
    """All questions below one state folder. All methods are for the loop's own thread."""

    def __init__(self, state: Path, now: Callable[[], float]) -> None:
        """``now`` is the wall clock. What was asked before a restart can still be answered."""
        self._folder, self._now = state / FOLDER, now
        self._all = {one.id: one for one in stored(state)}
        self._waiting: dict[str, list[asyncio.Future[bool]]] = {}
        self._sweep()

    def listed(self) -> list[Approval]:
        """Every question that is kept, the newest first."""
        self._sweep()
        return sorted(self._all.values(), key=lambda one: -one.at)

    async def consent(self, mark: str) -> Approval | None:
        """A yes for these bytes that nobody used, used up by this; None: there is none."""
        self._sweep()
        for one in self._all.values():
            if one.mark == mark and one.state == "approved":
                return await self.kept(self._put(replace(one, state="used")))
        return None

    async def asked(
        self, mark: str, about: Mapping[str, Any], *, until: float, wait_s: float,
        still: Callable[[], bool] = lambda: True,
    ) -> Approval:  # fmt: skip
        """Ask, or join the same question; gives it as it stands after at most ``wait_s`` seconds: ``used``
        when a person agreed (and so nobody else may use it), unless there is nothing to use it for by then.
        Of several that wait for one yes, one has it; to the others it is ``denied``. OSError where it cannot
        be written down.
        """
        if (no := self._no(mark)) is not None:
            return no
        one = self._same(mark) or self.begun(mark, about, until)
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(one.id, []).append(answer)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(wait_s, one.until - self._now()))):
                    await answer
        finally:
            waiting = self._waiting.get(one.id, [])
            if answer in waiting:
                waiting.remove(answer)
            if not waiting:
                self._waiting.pop(one.id, None)
        self._sweep()
        found = self._all.get(one.id, replace(one, state="expired"))
        if found.state == "approved" and still():
            used = await self.kept(self._put(replace(found, state="used")))
            return used if still() else replace(used, state="expired")
        return replace(found, state="denied") if found.state == "used" else found

    def answer(self, number: str, by: str, *, agreed: bool) -> Approval:
        """A person's answer, once; raises Refused, and OSError where it cannot be written down. Whoever tells
        of it awaits ``kept`` first.
        """
        self._sweep()
        found = self._meant(number)
        if found.state != "waiting":
            words = {
                "expired": "its time is over: it counts as denied",
                "used": "it was approved and is used",
            }
            raise Refused(words.get(found.state, f"it was {found.state} already"))
        told = self._put(
            replace(found, state="approved" if agreed else "denied", by=by, answered=self._now())
        )
        for future in self._waiting.pop(found.id, ()):  # each looks at what is left: one yes, one request
            if not future.done():
                future.set_result(agreed)
        return told

    def _meant(self, number: str) -> Approval:
        """The one question that a person named, by its number or how that begins. Raises Refused."""
        if number in self._all:
            return self._all[number]
        found = [one for one in self._all.values() if number and one.id.startswith(number)]
        if len(found) > 1:
            raise Refused(f"{len(found)} approvals begin with {number[:40]!r}: write more of the number")
        if not found:
            raise Refused(f"there is no approval {number[:40]!r}: 'handler approve list' shows them")
        return found[0]

    def _no(self, mark: str) -> Approval | None:
        """What a person denied of these bytes, until that question's time is over."""
        now = self._now()
        said = (one for one in self._all.values() if one.mark == mark and one.state == "denied")
        return next((one for one in said if now < one.until), None)

    def _same(self, mark: str) -> Approval | None:
        self._sweep()
        return next((one for one in self._all.values() if one.mark == mark and one.state == "waiting"), None)

    def begun(self, mark: str, about: Mapping[str, Any], until: float) -> Approval:
        """A new question, written down. Raises OSError."""
        if sum(one.state == "waiting" for one in self._all.values()) >= _MOST:
            raise OSError(f"{_MOST} questions wait for a person already")
        return self._put(Approval(secrets.token_hex(6), mark, self._now(), until, about=about))

    async def kept(self, one: Approval) -> Approval:
        """The same, once its file has reached the disk; raises OSError. The loop does not wait for it."""
        await asyncio.to_thread(reach, self._folder / f"{one.id}.json")
        return one

    def _put(self, one: Approval) -> Approval:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write(self._folder / f"{one.id}.json", orjson.dumps(one.as_json()) + b"\n", durable=False)
        self._all[one.id] = one
        return one

    def _sweep(self) -> None:
        now = self._now()
        for one in list(self._all.values()):
            if (older := aged(one, now)) is not one:
                with suppress(OSError):
                    self._put(older)
                self._all[one.id] = older
        over = [one for one in self._all.values() if one.state not in ("waiting", "approved")]
        over.sort(key=lambda one: -one.at)
        for at, one in enumerate(over):
            if at >= _MOST_KEPT or now >= one.until + _KEPT_S:
                with suppress(OSError):
                    (self._folder / f"{one.id}.json").unlink(missing_ok=True)
                del self._all[one.id]


def aged(one: Approval, now: float) -> Approval:
    """The question as it stands now: no answer in time, or a yes that nobody used, is over."""
    if one.state in ("waiting", "approved") and now >= one.until:
        return replace(one, state="expired")
    return one


def stored(state: Path) -> list[Approval]:
    """The questions as their files have them; what is none is passed over."""
    found = []
    for path in sorted((state / FOLDER).glob("*.json")):
        with suppress(OSError, ValueError, TypeError):
            one = Approval(**orjson.loads(path.read_bytes()))
            if path.stem == one.id and _is_whole(one):
                found.append(one)
    return found


def _is_whole(one: Approval) -> bool:
    """Whether a file's values are what this program writes: by one of another kind nothing could be told."""
    texts: tuple[object, ...] = (one.id, one.mark, one.by)
    times: tuple[object, ...] = (one.at, one.until, one.answered)
    about: object = one.about
    return (
        one.state in get_args(State)
        and isinstance(about, dict)
        and all(isinstance(text, str) for text in texts)
        and all(type(at) in (int, float) for at in times)
    )
