"""What the controller itself sends and somebody pays for: kept in the ledger with its exact bytes.

The row and the sealed request are on the disk before a decision is taken; that it is about to go out, with
its decision, before the first byte; how it ended, before the agent hears of it. Only a proof says that
nothing happened. Nothing is sent twice: a call is at most one transmission.
"""

import hashlib
import logging
import secrets
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Literal, cast

from reconciler.attempts import identities
from reconciler.attempts.happenings import (
    Accepted,
    Failed,
    Happening,
    Lost,
    NotSent,
    Refused,
    Submit,
    Succeeded,
    Withdrawn,
)
from reconciler.attempts.ledger import LEASE_S, Ledger
from reconciler.attempts.records import Attempt, Execution, Owner, Request, State
from reconciler.attempts.writing import Writing
from reconciler.control import sealedpaper, sending
from reconciler.control.dialects import About
from reconciler.control.effects import LedgerEffects
from reconciler.control.transmitting import Speaker
from reconciler.model.dialect import Profile
from reconciler.model.outcome import CallOutcome, Done, Rejected
from reconciler.model.recipes import Recipe
from reconciler.model.sealed import Reply, Sealed

_LOG = logging.getLogger("handler.effects")


class WireKeeper:
    """Keeps and sends. All methods are for the loop's own thread."""

    def __init__(self, effects: LedgerEffects, now: Callable[[], float]) -> None:
        """``now`` gives seconds since 1970."""
        self._effects, self._now = effects, now

    async def send(self, speaker: Speaker, sealed: Sealed, about: About) -> tuple[Reply, CallOutcome]:
        """As ``dialects.Keeper`` has it."""
        writing = await self._effects.writing()
        new = self._attempt(speaker.spoken.recipe, sealed, about)
        await writing.seal(new.id, sealedpaper.packed(sealed))
        one = (await writing.run(lambda ledger: ledger.prepare(new, self._now(), guard=False))).attempt
        writing.hold(one, lambda: _LOG.error("attempt %s was taken over", one.id))
        self._effects.recount()
        try:
            return await self._sent(writing, one, (speaker, sealed), about)
        finally:
            writing.let_go(one.id)
            self._effects.recount()

    async def _sent(
        self, writing: Writing, one: Attempt, what: tuple[Speaker, Sealed], about: About
    ) -> tuple[Reply, CallOutcome]:
        speaker, sealed = what
        told = replace(about.leave.sending, attempt=one.id)
        held = one
        ending: tuple[Happening, ...] = (Withdrawn("unavailable", "it was given up before it was sent"),)
        try:
            try:
                permit = await speaker.permit(sealed, told)
            except sending.NotSent as fault:
                ending = (Withdrawn("refused", str(fault)),)
                raise
            held = await writing.run(
                lambda ledger: ledger.apply(held, self._now(), Submit(decision=permit.decision))
            )
            ending = (Lost("it was given up after it may have been sent", parked=True),)
            about.leave.given(permit)
            try:
                reply = await speaker.by(permit, sealed, about.leave.timeout_s)
            except sending.NotSent as fault:
                ending = (NotSent(str(fault)),)
                raise
            except sending.MaybeSent as fault:
                ending = (Lost(str(fault), parked=True),)
                raise
            outcome = about.read(reply)
            ending = ended(reply, outcome)
            return reply, outcome
        finally:
            self._close(writing, held, ending)

    def _close(self, writing: Writing, held: Attempt, ending: tuple[Happening, ...]) -> None:
        """How it ended is written, whatever becomes of the call that asked."""

        def work(ledger: Ledger) -> Attempt:
            now_is = ledger.get(held.id)
            if now_is is not None and _began_unseen(held, now_is):
                return ledger.apply(now_is, self._now(), NotSent("it was given up before it was sent"))
            return ledger.apply(held, self._now(), *ending)

        def told(outcome: Attempt | Exception) -> None:
            if isinstance(outcome, Exception):
                _LOG.error("how attempt %s ended is not kept: %s", held.id, outcome)
            self._effects.recount()

        writing.later(work, told)

    def _attempt(self, recipe: Recipe, sealed: Sealed, about: About) -> Attempt:
        now, told = self._now(), about.leave.sending
        number = identities.attempt_id(now, secrets.token_bytes(10))
        return Attempt(
            id=number,
            handle=identities.handle(secrets.token_bytes(16)),
            owner=Owner(told.agent, told.session),
            scope=identities.scope("", "", told.agent),
            call_key=identities.call_key(None, secrets.token_bytes(16)),
            interface=told.interface,
            tool=about.tool,
            execution=execution(recipe, about.profile),
            request=replace(request(sealed, purpose=told.purpose), sealed_ref=number),
            operation=about.operation.name,
            effect=cast(Literal["local", "paid", "external"], about.operation.effect),
            grade="wire",
            holder=self._effects.holder,
            lease_until=now + LEASE_S,
            deadline=now + about.leave.timeout_s,
        )


def _began_unseen(held: Attempt, now_is: Attempt) -> bool:
    """Whether the step to sending was kept for a call that was cancelled before it heard so."""
    return (held.state, now_is.state, held.fence) == (State.PREPARED, State.SUBMITTING, now_is.fence)


def execution(recipe: Recipe, profile: Profile) -> Execution:
    """With what: the exact instance, profile and driver."""
    return Execution(
        binding=recipe.binding,
        instance=str(recipe.name),
        connector=recipe.connector,
        profile=profile.ref,
        profile_digest=dict(recipe.profiles).get(profile.ref, ""),
        driver=profile.identity.driver,
        dialect=profile.identity.dialect,
    )


def request(sealed: Sealed, purpose: str = "") -> Request:
    """What is asked, by its exact bytes. ``sealed_ref`` is the keeper's to set where it is not a call's."""
    return Request(
        input_digest=sealed.wire_digest,
        request_digest=sealed.wire_digest,
        wire_digest=sealed.wire_digest,
        destination=sealed.origin,
        purpose=purpose,
    )


def ended(reply: Reply, outcome: CallOutcome) -> tuple[Happening, ...]:
    """What a driver's outcome of a synchronous effect is to the ledger."""
    if isinstance(outcome, Done):
        digest = f"sha256:{hashlib.sha256(reply.body).hexdigest()}"
        usage = {name: value for name, value in asdict(outcome.usage).items() if value}
        taken = Accepted(request_id=outcome.seen.request_id)
        return taken, Succeeded("", digest, len(reply.body), usage)
    if not isinstance(outcome, Rejected):
        return (Lost(outcome.cause, parked=True),)
    if outcome.effect == "none":
        return (Refused(outcome.code, outcome.detail),)
    if outcome.effect == "happened":
        return Accepted(request_id=outcome.seen.request_id), Failed(outcome.code, outcome.detail, "happened")
    return (Lost(outcome.detail, parked=True),)
