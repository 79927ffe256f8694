"""From a sealed request to leave to send it: the policy's word on its exact bytes, then a permit for one use.

For instances that are no process: the controller itself sends for them (``sending``). A decision holds until
its rule's ``ttlSeconds``; whatever is sent again, the same bytes included, is decided on again.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from reconciler.control.evidence import Told
from reconciler.control.policing import Policing, is_here, strictness
from reconciler.control.sending import NotSent
from reconciler.egress.decide import Case, Ruled, decide
from reconciler.egress.permits import Permit, Permits
from reconciler.egress.policy import Sum
from reconciler.model.recipes import Recipe
from reconciler.model.sealed import Sealed

_TTL_S = 60.0  # of a permit where there is no policy


@dataclass(frozen=True, slots=True)
class Sending:
    """Whose request it is, and what a policy looks at besides its bytes. ``entry`` is the call's, where one
    entered; ``facts`` are what the profile states (``retention``: ``30d``, ``training``: ``no``).
    """

    interface: str
    purpose: str
    agent: str
    session: str = ""
    entry: str = ""
    effect: str = "none"
    attempt: str = ""
    is_control: bool = False  # a lookup, cancel or fetch of what was let go before
    wait_s: float = 0.0  # how long a person may be waited for
    facts: Mapping[str, str] = field(default_factory=dict)
    estimate: Sum | None = None
    is_call: bool = False  # of an agent: without an entry, one that nobody decided on (a shadow's copy)


class Permitting:
    """Gives permits. ``clock`` is the one that ``permits`` are kept by."""

    def __init__(self, policing: Policing, permits: Permits, clock: Callable[[], float]) -> None:
        self._policing, self._permits, self._clock = policing, permits, clock

    async def permit(self, recipe: Recipe, sealed: Sealed, sending: Sending) -> Permit:
        """Leave for exactly this, once; raises NotSent (``denied``) with why, for operators. Nothing is sent
        for a decision that cannot be written down.
        """
        policing = self._policing
        policy = policing.policy
        if policy is None:
            return self._given(recipe, sealed, "", _TTL_S)
        try:
            entered = policing.entry(sending.entry)
            if sending.entry and entered is None:  # of which class its data is, nobody can say any more
                raise NotSent("denied", "the call that it serves does not run")
            said_class = policing.class_of(sending.session, sending.agent)
            case = Case(
                binding=recipe.binding, interface=sending.interface, purpose=sending.purpose,
                origin=sealed.origin, agent=sending.agent,
                class_name=entered.case.class_name if entered else said_class,
                size=len(sealed.body), is_local=is_here(sealed.origin), effect=sending.effect,
                facts=sending.facts, estimate=sending.estimate, is_control=sending.is_control,
            )  # fmt: skip
            cases = [case]
            if sending.is_call and entered is None:
                cases = [
                    replace(case, interface=one.interface, purpose=one.purpose, class_name=one.class_name)
                    for one in policing.unattributed(policy, recipe, "undecided")
                ]
            spent = policing.spent(entered)
            said, case = max(((decide(policy, one, spent), one) for one in cases), key=strictness)
            told = Told(
                case, said, sending.session, str(recipe.name), sealed.wire_digest, (), sealed.method,
                attempt=sending.attempt,
                facts=tuple(f"{name}:{value}" for name, value in sending.facts.items()),
            )  # fmt: skip
            return await self._decided(recipe, sealed, told, sending)
        except (OSError, ValueError) as fault:
            raise NotSent("denied", f"nothing can be decided: {fault}") from None

    async def _decided(self, recipe: Recipe, sealed: Sealed, told: Told, sending: Sending) -> Permit:
        policing, said = self._policing, told.ruled
        policy, entered = policing.policy, policing.entry(sending.entry)
        if policy is None or said.verdict == "deny":
            if policy is not None:
                policing.evidence.decided(policy, told)
            raise NotSent("denied", _words(said))
        if said.verdict == "ask" and not (entered and said.rule in entered.consented):
            number, decision = await policing.ask(
                policy, told, sending.wait_s, lambda: policing.stands(policy, told, entered)
            )
            if not decision:
                raise NotSent("denied", f"approval {number} is not given ({said.rule})")
        else:
            decision = policing.evidence.decided(policy, replace(told, ruled=replace(said, verdict="allow")))
        policing.charge(entered, said)
        return self._given(recipe, sealed, decision, said.ttl_s)

    def _given(self, recipe: Recipe, sealed: Sealed, decision: str, ttl_s: float) -> Permit:
        now_s = self._clock()
        permit = Permit(secrets.token_hex(16), decision, recipe.name, sealed.wire_digest, now_s + ttl_s)
        self._permits.give(permit, now_s)
        return permit


def _words(said: Ruled) -> str:
    return f"{said.reason} ({said.rule})" if said.rule else said.reason
