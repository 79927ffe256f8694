"""Permits: leave for one exact request, once, until a moment. Pure; ids and the time are handed in.

A permit is given for a decision, is presented to the gate under its id, and the gate's controller finds it
here. It is taken once: by a request with the very digest that was decided on, through the gate of the very
instance, in time. One that was never taken and is taken back proves that nothing was sent.
"""

from dataclasses import dataclass

from reconciler.model.names import InstanceName

MOST_OPEN = 10_000  # permits that wait at once; each lives for seconds


@dataclass(frozen=True, slots=True)
class Permit:
    """Leave to send one request once."""

    id: str  # unguessable; what the request names itself by
    decision: str  # the decision that it comes from
    instance: InstanceName
    wire_digest: str
    until_s: float  # on the clock of whoever keeps it


class Refusal(Exception):  # noqa: N818 - an answer
    """Why a permit does not let a request go, as a sentence without its text."""


class Permits:
    """Those that wait to be used. Used, expired and taken back ones are forgotten."""

    def __init__(self) -> None:
        self._open: dict[str, Permit] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, number: str) -> bool:
        return number in self._open

    def give(self, permit: Permit, now_s: float) -> None:
        """Let it be used; ValueError where too many wait or its id is in use."""
        if len(self._open) >= MOST_OPEN:
            self.expire(now_s)
        if len(self._open) >= MOST_OPEN or permit.id in self._open:
            raise ValueError("no permit can be given now")
        self._open[permit.id] = permit

    def take(self, number: str, instance: InstanceName, wire_digest: str, now_s: float) -> Permit:
        """Use it; raises Refusal. A request that differs uses it up as well: whoever sends one by a permit
        that was given for another is not let try again.
        """
        permit = self._open.pop(number, None)
        if permit is None:
            raise Refusal("there is no such permit, or it was used")
        if permit.instance != instance:
            raise Refusal("the permit is for another instance")
        if now_s >= permit.until_s:
            raise Refusal("the permit has expired")
        if permit.wire_digest != wire_digest:
            raise Refusal("the request is not the one that was decided on")
        return permit

    def take_back(self, number: str) -> bool:
        """Forget it; whether nobody had used it, and so nothing was sent by it."""
        return self._open.pop(number, None) is not None

    def expire(self, now_s: float) -> None:
        """Forget those whose time is over."""
        for number in [one.id for one in self._open.values() if now_s >= one.until_s]:
            del self._open[number]
