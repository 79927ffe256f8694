"""The relay: finds out what became of attempts that nobody holds, and is the only one who sends again.

Every second it takes a page of what is due, under a lease and a fence of its own, and tends each apart: one
that hangs or breaks stops no other. What to do is ``course``'s to say and what may follow is ``machine``'s;
the relay only asks, keeps, and sends. It decides nothing twice: whoever overtook it is right.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from reconciler.attempts import course, machine
from reconciler.attempts.happenings import (
    CancelAnswered,
    CancelSent,
    Checked,
    Failed,
    Happening,
    Lost,
    Submit,
    Succeeded,
    Withdrawn,
)
from reconciler.attempts.ledger import PAGE, OvertakenError
from reconciler.attempts.papers import TooLargeError
from reconciler.attempts.reconciling import (
    By,
    Expired,
    FarEnd,
    Finished,
    Found,
    NoPermissionError,
    NotFound,
    Reconciler,
    Unclear,
)
from reconciler.attempts.records import Attempt, State
from reconciler.attempts.store import UnusableError
from reconciler.attempts.writing import RENEW_S, Writing

ASK_S = 10.0  # one question to a far end; a dead one must not hold its page
_SEND_S = 60.0  # one transmission
_FETCH_S = 600.0  # a result of many megabytes over a slow line
_EVERY_S = 1.0


class Relay:
    """Tends attempts until it is cancelled. Several on one ledger leave one another alone."""

    def __init__(
        self,
        writing: Writing,
        far: Reconciler,
        holder: str,
        *,
        clock: Callable[[], float],
        chance: Callable[[], float],
    ) -> None:
        """``holder`` names this controller's run, as in the attempts that it prepares; ``clock`` gives
        seconds since 1970, ``chance`` 0 to 1.
        """
        self._writing = writing
        self._far = far
        self._holder = holder
        self._clock = clock
        self._chance = chance
        self._tending: set[asyncio.Task[None]] = set()
        self._stirred = asyncio.Event()
        self.moved: Callable[[Attempt], None] = lambda _one: None  # hears of every attempt that was moved
        self.trouble: Callable[[Attempt | None, Exception], None] = lambda _one, _error: None

    def stir(self) -> None:
        """Something is due before the second is over: look now."""
        self._stirred.set()

    async def run(self, *, orphans: bool) -> None:
        """Look every second. ``orphans``: first take over at once what an earlier run left, which is right
        where the state folder's lock says that it is dead.
        """
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._renewing())
                both.create_task(self._looking(orphans=orphans))
        finally:
            for one in self._tending:
                one.cancel()
            await asyncio.gather(*self._tending, return_exceptions=True)

    async def look(self, *, orphans: bool = False) -> int:
        """Take one page and tend it to its end: how many there were."""
        before = set(self._tending)
        taken = await self._take(orphans=orphans)
        mine = self._tending - before
        await asyncio.gather(*mine, return_exceptions=True)
        return taken

    async def _looking(self, *, orphans: bool) -> None:
        while True:
            taken = await self._take(orphans=orphans)
            orphans = orphans and taken > 0  # until there are none left
            if taken < PAGE:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_EVERY_S):
                        await self._stirred.wait()
            self._stirred.clear()
            await asyncio.sleep(0)

    async def _renewing(self) -> None:
        while True:
            await asyncio.sleep(RENEW_S)
            try:
                await self._writing.renew()
            except UnusableError as error:
                self.trouble(None, error)

    async def _take(self, *, orphans: bool) -> int:
        room = PAGE - len(self._tending)
        if room <= 0:
            return 0
        now, me = self._clock(), self._holder
        try:
            # A machine that slept wakes with every lease run out: what is under way here is ours still.
            await self._writing.renew()
            page = await self._writing.run(lambda ledger: ledger.claim(me, now, room, orphans=orphans))
        except UnusableError as error:
            self.trouble(None, error)
            return 0
        for one in page:
            task = asyncio.create_task(self._tend(one))
            self._tending.add(task)
            task.add_done_callback(self._tending.discard)
        return len(page)

    async def _tend(self, one: Attempt) -> None:
        self._writing.hold(one, _nobody)
        try:
            await self._go(one)
        except OvertakenError:
            pass  # whoever overtook us knows more
        except Exception as error:  # noqa: BLE001 - one bad row never stops the page
            self.trouble(one, error)
            await self._later(one, error)
        finally:
            self._writing.let_go(one.id)

    async def _later(self, one: Attempt, error: Exception) -> None:
        """Leave a row alone for a while that could not be tended; its lease says so where not even that can
        be kept.
        """
        again = Checked(course.pause_s(one.checks, self._chance()), f"{type(error).__name__}: {error}")
        with suppress(OvertakenError, UnusableError, machine.ForbiddenError):
            await self._keep(one, again)

    async def _go(self, one: Attempt) -> None:
        far = self._far.far_end(one)
        match course.first(one, far, self._clock()):
            case course.Look(ways=ways, cancel=cancel):
                assert far is not None  # noqa: S101 - who can be looked up has a far end
                one = await self._ask_to_stop(one) if cancel else one
                found = await self._ask(one, ways)
                then = course.heard(one, found, far, self._at())
                await self._then(one, then, far)
            case then:
                await self._then(one, then, far or FarEnd())

    async def _then(self, one: Attempt, then: course.Then, far: FarEnd) -> None:
        match then:
            case course.Send():
                await self._send(one, then, far)
            case course.Fetch(finished=finished):
                await self._finish(one, finished, far)
            case course.Tell(happenings=happenings):
                await self._keep(one, *happenings)

    async def _ask_to_stop(self, one: Attempt) -> Attempt:
        one = await self._keep(one, CancelSent())
        try:
            async with asyncio.timeout(ASK_S):
                ack = await self._far.cancel(one)
        except TimeoutError:
            ack = "unknown"
        return await self._keep(one, CancelAnswered(ack))

    async def _ask(self, one: Attempt, ways: tuple[By, ...]) -> Found:
        found: Found = NotFound()
        for way in ways:
            try:
                async with asyncio.timeout(ASK_S):
                    found = await self._far.lookup(one, way)
            except TimeoutError:
                found = Unclear(f"no answer in {ASK_S:.0f} s")
            if not isinstance(found, NotFound) or way == "job-id":
                break
        return found

    async def _send(self, one: Attempt, send: course.Send, far: FarEnd) -> None:
        try:
            async with asyncio.timeout(ASK_S):
                decision = await self._far.permit(one)
        except (NoPermissionError, TimeoutError) as error:
            cause = str(error) or "no decision in time"
            await self._keep(one, *self._unsent(one, cause))
            return
        one = await self._keep(one, Submit(send.ground, decision))
        try:
            async with asyncio.timeout(_SEND_S):
                sent = await self._far.submit(one)
        except TimeoutError:
            sent = Lost(f"no answer in {_SEND_S:.0f} s")
        await self._then(one, course.answered(one, sent, self._chance()), far)

    def _unsent(self, one: Attempt, cause: str) -> tuple[Happening, ...]:
        if one.state is State.PREPARED:
            return (Withdrawn("refused", cause),)
        if one.state is State.SUBMITTING:
            return (Lost(f"it may not be sent again: {cause}"),)
        return (Checked(course.pause_s(one.checks, self._chance()), cause),)

    async def _finish(self, one: Attempt, finished: Finished, far: FarEnd) -> None:
        """Put the result on the disk, whole, before the row speaks of it."""
        chunks: Iterable[bytes] | Expired | Unclear
        if finished.inline is not None:
            chunks = (finished.inline,)
        else:
            try:
                async with asyncio.timeout(_FETCH_S):
                    chunks = await self._far.fetch(one)
            except TimeoutError:
                chunks = Unclear(f"no result in {_FETCH_S:.0f} s")
        if isinstance(chunks, Expired | Unclear):
            then = course.heard(one, chunks, far, self._at())
            await self._then(one, then, far)
            return
        try:
            kept = await self._writing.paper(one.id, chunks, far.max_result_bytes)
        except TooLargeError as error:
            too_large = Failed("unavailable", f"its result is too large: {error}", "happened")
            await self._keep(one, *course.taken(one), replace(too_large, cost=finished.cost))
            return
        done = Succeeded(one.id, *kept, finished.usage, finished.cost, finished.currency, finished.warnings)
        await self._keep(one, *course.taken(one), done)

    def _at(self) -> course.At:
        return course.At(self._clock(), self._chance())

    async def _keep(self, one: Attempt, *happenings: Happening) -> Attempt:
        now, me = self._clock(), self._holder
        moved = await self._writing.run(lambda ledger: ledger.apply(one, now, *happenings, actor=me))
        self._writing.hold(moved, _nobody)
        self.moved(moved)
        return moved


def _nobody() -> None:
    """Nobody has to hear that a lease was lost: the next write is refused."""
