"""Language models for chains and doors: implements ``model.modelport.Models``.

The models are those that the caller's pinned routes grant. Bindings that speak a dialect are asked over their
drivers, those with code of their own by ``prompting``. One turn is one
transmission, decided on and charged by itself; nothing is asked twice here, and a tool that a model wishes
for is never run.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from reconciler.control.permitting import Sending
from reconciler.control.prompting import TOOL, Prompting
from reconciler.control.sending import Coming, MaybeSent, NotSent
from reconciler.control.spoken import NotSpokenError
from reconciler.control.transmitting import Leave, Speaker
from reconciler.drivers import roll
from reconciler.drivers.asking import ModelDriver, Unsealable
from reconciler.model.dialect import Profile
from reconciler.model.modelport import Caller, Candidate, Fault, TurnFailed
from reconciler.model.names import InstanceName
from reconciler.model.outcome import Rejected, Unknown
from reconciler.model.routes import Route
from reconciler.model.sealed import Reply, Sealed
from reconciler.model.turns import Answered, Event, Turn

INTERFACE = "llm"
_AUTH, _LATER, _MISSING = (401, 403), 429, 404
Heard = Callable[[Event], None]


class GrantedModels:
    """Models of one controller. ``speaker`` gives who speaks for an instance, None: it speaks no dialect;
    ``barred`` says why an instance serves nobody now, or "".
    """

    def __init__(
        self,
        speaker: Callable[[InstanceName], Speaker | None],
        barred: Callable[[InstanceName], str],
        prompting: Prompting,
    ) -> None:
        self._speaker, self._barred, self._prompting = speaker, barred, prompting

    def candidates(self, caller: Caller) -> tuple[Candidate, ...]:
        """As ``model.modelport.Models`` has it; () where what was pinned is gone."""
        return tuple(one for route in _routes(caller) for one in self._of(route))

    def _of(self, route: Route) -> Iterator[Candidate]:
        try:
            speaker = self._speaker(route.instance)
            if speaker is None:
                yield from self._prompting.candidates(route)
                return
            mapped = speaker.spoken.tools.get(TOOL)
            if mapped is None:
                return
            for model in speaker.spoken.models_of(mapped.operation):
                if route.models is not None and model not in route.models:
                    continue
                profile, _ = speaker.spoken.chosen(mapped.operation, model)
                driver = roll.MODELS.get(profile.identity.driver)
                if driver is not None:
                    facts = driver.facts(profile, model)
                    yield Candidate(model, route.binding, profile.identity.provider, facts)
        except (OSError, ValueError):
            return

    async def turn(
        self,
        caller: Caller,
        candidate: Candidate,
        turn: Turn,
        *,
        timeout_s: float,
        on_event: Heard | None = None,
    ) -> Answered | TurnFailed:
        """As ``model.modelport.Models`` has it."""
        route = next((one for one in _routes(caller) if one.binding == candidate.binding), None)
        if route is None or (route.models is not None and candidate.model not in route.models):
            return TurnFailed("refused", "the model is not granted", "none")
        if why := route.suspended or self._barred(route.instance):
            return TurnFailed("unavailable", why, "none")
        turn = replace(turn, model=candidate.model)
        try:
            speaker = self._speaker(route.instance)
            if speaker is None:
                return await self._prompting.turn(caller, route, turn, timeout_s)
            profile = _profile(speaker, turn.model)
        except (OSError, ValueError) as fault:
            code: Fault = "refused" if isinstance(fault, NotSpokenError) else "unavailable"
            return TurnFailed(code, str(fault), "none")
        sending = Sending(
            caller.interface, caller.purpose, caller.agent, caller.session, caller.entry,
            wait_s=max(timeout_s - 1, 0),
        )  # fmt: skip
        return await turned(speaker, profile, turn, Leave(sending, timeout_s), on_event=on_event)


def _profile(speaker: Speaker, model: str) -> Profile:
    """What answers turns with a model. Raises ValueError, of which NotSpokenError is one."""
    mapped = speaker.spoken.tools.get(TOOL)
    if mapped is None:
        raise ValueError(f"the binding does not answer {TOOL}")
    return speaker.spoken.chosen(mapped.operation, model)[0]


async def turned(
    speaker: Speaker, profile: Profile, turn: Turn, leave: Leave, *, on_event: Heard | None = None
) -> Answered | TurnFailed:
    """One turn: sealed, let go, sent, read. Nothing raises but being cancelled."""
    driver = roll.MODELS.get(profile.identity.driver)
    if driver is None:
        return TurnFailed("unavailable", f"no driver {profile.identity.driver} speaks to models", "none")
    if (held := await speaker.let_in(TOOL)) is not None:
        return TurnFailed("unavailable", held.diagnostic, "none")
    streams = on_event is not None and driver.facts(profile, turn.model).stream
    turn = replace(turn, stream=streams)
    telling = _Telling(on_event)
    try:
        call = driver.call_of(turn, "turn", profile, speaker.spoken.base)
        sealed = driver.seal(call, profile)
        if streams:
            outcome = await _streamed(speaker, sealed, leave, (driver, profile, turn, telling))
        else:
            outcome = driver.read_turn(await speaker.whole(sealed, leave), turn, profile)
    except Unsealable as fault:
        return TurnFailed("refused", str(fault), "none")
    except NotSent as fault:
        speaker.heard(TOOL, fault)
        return TurnFailed(_unsent(fault), str(fault), "none")
    except MaybeSent as fault:
        speaker.heard(TOOL, fault)
        late: Fault = "timeout" if fault.cause == "timeout" else "unavailable"
        return TurnFailed(late, str(fault), began=telling.began)
    speaker.heard(TOOL, outcome)
    return outcome if isinstance(outcome, Answered) else _failed(outcome, began=telling.began)


class _Telling:
    def __init__(self, heard: Heard | None) -> None:
        self._heard, self.began = heard, False

    def tell(self, event: Event) -> None:
        self.began = True
        if self._heard is not None:
            self._heard(event)


async def _streamed(
    speaker: Speaker, sealed: Sealed, leave: Leave, read: tuple[ModelDriver, Profile, Turn, _Telling]
) -> Answered | Rejected | Unknown:
    driver, profile, turn, telling = read
    async with speaker.coming(sealed, leave) as coming:
        head = Reply(coming.status, coming.headers)
        decoder = driver.turn_decoder(head, turn, profile)
        if decoder is None:
            body = await _whole(coming, sealed.max_response)
            return driver.read_turn(Reply(coming.status, coming.headers, body), turn, profile)
        most, size = sealed.stream.max_bytes if sealed.stream is not None else sealed.max_response, 0
        watch = speaker.watch(TOOL)
        try:
            async for piece in coming.body:
                watch.byte()
                size += len(piece)
                if size > most:
                    raise MaybeSent("too-large")
                for event in decoder.feed(piece):
                    telling.tell(event)
        finally:
            watch.end()
        return decoder.close()


async def _whole(coming: Coming, most: int) -> bytes:
    found = bytearray()
    async for piece in coming.body:
        found += piece
        if len(found) > most:
            raise MaybeSent("too-large")
    return bytes(found)


def _routes(caller: Caller) -> tuple[Route, ...]:
    route = caller.routes.routes.get(INTERFACE)
    return tuple(one for one in route.each if not one.vacant) if route is not None else ()


def _unsent(fault: NotSent) -> Fault:
    words: dict[str, Fault] = {"denied": "refused", "timeout": "timeout", "busy": "limit"}
    return words.get(fault.cause, "unavailable")


def _failed(outcome: Rejected | Unknown, *, began: bool) -> TurnFailed:
    if isinstance(outcome, Unknown):
        return TurnFailed("unavailable", outcome.cause, began=began, seen=outcome.seen)
    later_s = outcome.seen.limits.retry_after_s
    return TurnFailed(_fault(outcome), outcome.detail, outcome.effect, later_s, began, outcome.seen)


def _fault(outcome: Rejected) -> Fault:
    if outcome.reason == "ModelSubstituted":
        return "substituted"
    if outcome.seen.status in _AUTH:
        return "auth"
    if outcome.seen.status == _LATER:
        return "rate_limit"
    named: dict[str, Fault] = {"invalid_input": "invalid_input", "refused": "refused"}
    return named.get(outcome.code, "unavailable")
