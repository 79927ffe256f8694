"""Instances of runtime ``dialect``: no code and no process, a lane in the controller that speaks by profiles.

A call's operation and exact model select one profile; its arguments become the operation's fields; what the
profile does not state is refused by the fact's name before a byte is sealed. Then it is sealed, let go, sent
once and read, and what came back becomes the interface's answer. What costs money is kept in the ledger
before it is sent, with its exact bytes.
"""

import asyncio
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from reconciler.builtin.lane import Holder
from reconciler.control import completing, shaping, spoken
from reconciler.control.models import turned
from reconciler.control.permitting import Sending
from reconciler.control.prompting import TOOL as COMPLETE
from reconciler.control.sending import MaybeSent, NotSent
from reconciler.control.shaping import Boxes, UnshapedError
from reconciler.control.spoken import Mapped, NotSpokenError
from reconciler.control.transmitting import Barred, Leave, Outside, Speaker
from reconciler.control.vectors import UnfitFileError
from reconciler.drivers import roll
from reconciler.drivers.asking import Call, Unsealable
from reconciler.egress.permits import Permit
from reconciler.model import admitting
from reconciler.model.calls import NoEffect, Refusal, Reply, Result, Sink
from reconciler.model.dialect import Operation, Profile
from reconciler.model.modelport import Fault, TurnFailed
from reconciler.model.names import InstanceName
from reconciler.model.outcome import CallOutcome, Done, Rejected
from reconciler.model.recipes import Recipe
from reconciler.model.sealed import Reply as Answer
from reconciler.model.sealed import Sealed
from reconciler.model.turns import ModelTurn, Turn

_LOG = logging.getLogger("handler.dialects")
_LONGEST_S = 3600.0  # the router's own deadline cancels a call long before
_ENDS = (NotSpokenError, Unsealable, UnshapedError, UnfitFileError, NotSent, MaybeSent, OSError)
_CODES: Mapping[Fault, str] = {"invalid_input": "invalid_input"}


class Keeper(Protocol):
    """Who keeps what costs money: sends, between a row before and a row after."""

    async def send(self, speaker: Speaker, sealed: Sealed, about: "About") -> tuple[Answer, CallOutcome]:
        """Send once and read; raises NotSent, MaybeSent, and OSError where nothing can be kept."""
        ...


class Closing(Protocol):
    """What ends with the controller."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class About:
    """What is sent for a call, and what reads it."""

    profile: Profile
    operation: Operation
    tool: str
    call: Call
    leave: Leave
    read: Callable[[Answer], CallOutcome]
    arguments: Mapping[str, Any]


class Dialects:
    """Who speaks for which instance of one controller. All methods are for the loop's own thread."""

    def __init__(self, outside: Outside, keeper: Keeper, objects: Callable[[str], Path | None]) -> None:
        """``objects`` gives where pinned code of a digest lies."""
        self.recipe: Callable[[InstanceName], Recipe | None] = lambda name: None
        self.entry: Callable[[str], tuple[str, str]] = lambda entry: ("", "")  # interface, purpose
        self.outside, self.keeper = outside, keeper
        self._objects = objects
        self._speakers: dict[InstanceName, Speaker] = {}
        self.jobs: Closing | None = None  # who does their jobs: closed with it

    def speaker(self, name: InstanceName) -> Speaker | None:
        """Who speaks for an instance; None: it speaks no dialect, or is gone. Raises OSError or ValueError
        where its facts are not whole.
        """
        found = self._speakers.get(name)
        if found is not None:
            return found
        recipe = self.recipe(name)
        if recipe is None or recipe.runtime != spoken.RUNTIME:
            return None
        for old in [one for one in self._speakers if self.recipe(one) is None]:
            self._speakers.pop(old).close()
        made = Speaker(spoken.load(recipe, self._objects(recipe.code)), self.outside)
        return self._speakers.setdefault(name, made)

    def lane(self, name: InstanceName, holder: Holder, recipe: Recipe) -> "DialectLane":
        """The lane of an instance."""
        return DialectLane(name, holder, self, recipe.max_concurrent_calls)

    def close(self) -> None:
        """Nothing is sent any more."""
        for one in self._speakers.values():
            one.close()
        self._speakers.clear()
        if self.jobs is not None:
            self.jobs.close()


class _Call:
    """One call under way."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.task: asyncio.Task[None] | None = None
        self.permit: Permit | None = None
        self.speaker: Speaker | None = None
        self.has_gone_out = False  # a transmission that may have left, before the one that has a permit now

    def given(self, permit: Permit) -> None:
        if self.permit is not None:
            self.has_gone_out = True
        self.permit = permit

    def stop(self) -> bool:
        """Let it send no more; whether something of it may have gone out."""
        if self.task is not None:
            self.task.cancel()
        if self.permit is not None and self.speaker is not None:
            unused = self.speaker.take_back(self.permit)
            return self.has_gone_out or not unused
        return self.has_gone_out


class DialectLane:
    """One instance that speaks a dialect. All methods are for the loop's own thread."""

    def __init__(self, name: InstanceName, holder: Holder, dialects: Dialects, most: int) -> None:
        """``most`` calls are out at the same time; others wait for their turn, as they came."""
        self._name, self._holder, self._dialects = name, holder, dialects
        self._turn = asyncio.Semaphore(most)
        self._calls: dict[int, _Call] = {}
        self._next = 1
        self._folder = tempfile.TemporaryDirectory(prefix="handler-dialect-", ignore_cleanup_errors=True)
        places = [Path(self._folder.name, one) for one in ("in", "out")]
        for place in places:
            place.mkdir(mode=0o700)
        self.inbox, self.outbox = (
            os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) for place in places
        )

    # the lane

    def send(self, tool: str, arguments: Mapping[str, Any], sink: Sink, max_reply_bytes: int) -> int:
        """Begin one call; the number cancels it. What bounds an answer is the profile and the router."""
        number = self._next
        self._next += 1
        call = self._calls[number] = _Call(sink)
        self.hold()
        call.task = asyncio.get_running_loop().create_task(self._run(number, call, tool, arguments))
        call.task.add_done_callback(lambda _: self.release())  # one that is cancelled at once never runs
        return number

    def cancel(self, number: int) -> bool:
        """Drop the connection and forget the call. False: nothing of it has left, and nothing will."""
        call = self._calls.pop(number, None)
        return True if call is None else call.stop()

    def serves(self, number: int) -> Sink | None:
        """Who waits for that call's answer."""
        call = self._calls.get(number)
        return call.sink if call is not None else None

    def prove(self, heard: Callable[[Refusal | None], None]) -> None:
        """It is there as soon as its facts can be read; whether a server answers, a call shows."""
        try:
            self._dialects.speaker(self._name)
        except (OSError, ValueError) as fault:
            heard(Refusal("unavailable", str(fault), "ReconcileError"))
        else:
            heard(None)

    def hold(self) -> None:
        """As ``model.calls.Lane`` has it."""
        self._holder.hold(self._name)

    def release(self) -> None:
        """As ``model.calls.Lane`` has it."""
        self._holder.release(self._name)

    def close(self) -> None:
        """Let go of the folders."""
        os.close(self.inbox)
        os.close(self.outbox)
        self._folder.cleanup()

    # one call

    async def _run(self, number: int, call: _Call, tool: str, arguments: Mapping[str, Any]) -> None:
        reply: Reply = Refusal("unavailable", "a fault of the product's own: the controller's log has it")
        try:
            async with self._turn:
                reply = await self._answered(call, tool, arguments)
        except asyncio.CancelledError:
            return
        except Exception:  # noqa: BLE001 - a fault of ours ends one call, and is told in the log
            _LOG.exception("a call of %s met a fault of our own", self._name)
        if self._calls.pop(number, None) is not None:
            call.sink.done(reply)

    async def _answered(self, call: _Call, tool: str, arguments: Mapping[str, Any]) -> Reply:
        try:
            speaker = self._dialects.speaker(self._name)
        except (OSError, ValueError) as fault:
            return Refusal("unavailable", str(fault), "ReconcileError", "unsent")
        mapped = speaker.spoken.tools.get(tool) if speaker is not None else None
        if speaker is None or mapped is None:
            return Refusal("unavailable", f"no operation answers {tool}", no_effect="unsent")
        call.speaker = speaker
        try:
            return await self._spoken(call, speaker, mapped, (tool, arguments))
        except _ENDS as fault:
            speaker.heard(tool, fault)
            return _told(fault, mapped, sent=call.permit is not None)

    async def _spoken(
        self, call: _Call, speaker: Speaker, mapped: Mapped, what: tuple[str, Mapping[str, Any]]
    ) -> Reply:
        tool, arguments = what
        profile, model = speaker.spoken.chosen(mapped.operation, str(arguments.get("model") or ""))
        given = {**arguments, "model": model} if model else dict(arguments)
        asked = _Asked(speaker, mapped, profile, tool, given, self._leave(call, profile, mapped))
        if tool == COMPLETE and not mapped.input:
            return await self._completed(asked)
        return await self._mapped(asked)

    def _leave(self, call: _Call, profile: Profile, mapped: Mapped) -> Leave:
        sink = call.sink
        interface, purpose = self._dialects.entry(sink.entry)
        operation = profile.operation(mapped.operation)
        sending = Sending(
            interface, purpose, sink.caller, sink.session, sink.entry,
            effect=operation.effect if operation else "none", attempt=sink.attempt, wait_s=_LONGEST_S,
            facts=facts_of(profile), is_call=True,
        )  # fmt: skip
        return Leave(sending, _LONGEST_S, call.given)

    async def _completed(self, asked: "_Asked") -> Reply:
        """``llm_complete`` by a language model's driver."""
        driver = roll.MODELS.get(asked.profile.identity.driver)
        if driver is None:
            raise NotSpokenError("unavailable", f"{asked.profile.ref} is no language model's")
        model = completing.Model(str(asked.arguments["model"]), driver.facts(asked.profile, str(
            asked.arguments["model"])))  # fmt: skip

        async def ask(turn: Turn) -> ModelTurn:
            said = await turned(asked.speaker, asked.profile, turn, asked.leave)
            if isinstance(said, TurnFailed):
                raise _TurnFailedError(said)
            if said.turn.refusal and not said.turn.text:
                raise completing.RefusedError("unavailable", "the model declined to answer")
            return said.turn

        given = asked.arguments.get("images", ())
        pictures = await asyncio.to_thread(lambda: tuple(shaping.read(self.inbox, one) for one in given))
        try:
            return Result(await completing.complete(asked.arguments, pictures, model, ask), {})
        except completing.RefusedError as fault:
            return Refusal(fault.code, str(fault), no_effect="said")
        except _TurnFailedError as fault:
            return self._turn_failed(asked.mapped, fault.failed)

    def _turn_failed(self, mapped: Mapped, failed: TurnFailed) -> Refusal:
        if failed.fault == "refused" and failed.effect == "none":
            return Refusal("refused", failed.cause, no_effect="unsent")
        code = mapped.code_of(_CODES.get(failed.fault, "unavailable"), failed.cause)
        code = "unavailable" if code in ("invalid_input", "refused") else code
        reason = "ModelSubstituted" if failed.fault == "substituted" else ""
        return Refusal(code, failed.cause, reason, "said" if failed.effect == "none" else "")

    async def _mapped(self, asked: "_Asked") -> Reply:
        """Any other operation: fields by its mapping, one transmission, an answer by its mapping."""
        if (held := await asked.speaker.let_in(asked.tool)) is not None:
            return held
        boxes = Boxes(self.inbox, self.outbox)
        shaped = await asyncio.to_thread(shaping.fields, asked.mapped.input, asked.arguments, boxes)
        operation = asked.profile.operation(asked.mapped.operation)
        driver = roll.CALLS.get(asked.profile.identity.driver)
        if operation is None or driver is None:
            raise NotSpokenError("unavailable", f"no driver speaks {asked.mapped.operation}")
        if "model" in operation.fields and "model" in asked.arguments:
            shaped.setdefault("model", asked.arguments["model"])
        if fault := not_within(asked.profile, asked.mapped, shaped):
            return fault
        fields, files = shaping.parted(shaped)
        sink_attempt = asked.leave.sending.attempt
        call = Call(sink_attempt or self._new_id(), operation.name, fields, files, asked.speaker.spoken.base)
        sealed = await asyncio.to_thread(driver.seal, call, asked.profile)
        about = About(
            asked.profile, operation, asked.tool, call, asked.leave,
            lambda reply: driver.read(reply, call, asked.profile), asked.arguments,
        )  # fmt: skip
        if operation.effect != "none" and not sink_attempt:
            _, outcome = await self._dialects.keeper.send(asked.speaker, sealed, about)
        else:
            reply = await asked.speaker.whole(sealed, asked.leave)
            outcome = await asyncio.to_thread(about.read, reply)
        asked.speaker.heard(asked.tool, outcome)
        if not isinstance(outcome, Done):
            return refused(asked.mapped, outcome)
        return await asyncio.to_thread(_shaped, asked, outcome, boxes)

    def _new_id(self) -> str:
        return f"call-{os.urandom(16).hex()}"


@dataclass(frozen=True, slots=True)
class _Asked:
    speaker: Speaker
    mapped: Mapped
    profile: Profile
    tool: str
    arguments: Mapping[str, Any]
    leave: Leave


class _TurnFailedError(Exception):
    def __init__(self, failed: TurnFailed) -> None:
        super().__init__(failed.cause)
        self.failed = failed


def not_within(profile: Profile, mapped: Mapped, shaped: Mapping[str, Any]) -> Refusal | None:
    """Why a call is not within its profile: before anything is sealed or kept."""
    flat = {name: value.data if hasattr(value, "data") else value for name, value in shaped.items()}
    found = admitting.admit(profile, mapped.operation, flat, mapped.needs)
    if not found:
        return None
    code = "invalid_input" if all(one.invalid for one in found) else "refused"
    one = next(one for one in found if code == "invalid_input" or not one.invalid)
    code = mapped.code_without(one.fact, code)
    return Refusal(code, f"fact={one.fact} profile={profile.ref}: {one.detail}", no_effect="unsent")


def _told(fault: Exception, mapped: Mapped, *, sent: bool) -> Refusal:
    """What ended a call on its way, as a reply; ``sent``: something of it may have left before."""
    proof: NoEffect = "" if sent else "unsent"
    match fault:
        case NotSpokenError() | UnfitFileError():
            return Refusal(fault.code, str(fault), no_effect=proof)
        case Unsealable():
            code = mapped.code_without(fault.fact, "refused")
            return Refusal(code, f"fact={fault.fact}", no_effect=proof)
        case NotSent():
            return unsent(fault)
        case MaybeSent():
            return Refusal("unavailable", f"it may have been sent: {fault}")
        case OSError():
            return Refusal("unavailable", f"the machine refused it: {fault.strerror}", no_effect=proof)
        case _:
            return Refusal("unavailable", str(fault), no_effect=proof)


def unsent(fault: NotSent) -> Refusal:
    """What proved that nothing left, as a reply."""
    if isinstance(fault, Barred):
        return Refusal("unavailable", str(fault), fault.reason, "unsent")
    return Refusal("refused" if fault.cause == "denied" else "unavailable", str(fault), no_effect="unsent")


def refused(mapped: Mapped, outcome: CallOutcome) -> Refusal:
    """What a driver made of an answer that is no success, in the interface's codes."""
    if not isinstance(outcome, Rejected):
        return Refusal("unavailable", getattr(outcome, "cause", ""))
    code = mapped.code_of(outcome.code, outcome.detail)
    code = "unavailable" if code in ("invalid_input", "refused") else code
    return Refusal(code, outcome.detail, outcome.reason, "said" if outcome.effect == "none" else "")


def facts_of(profile: Profile) -> dict[str, str]:
    """What a policy may require of a profile; what it does not state is not there."""
    said = profile.retention
    stated = {
        "retention": None if said.request_days is None else f"{said.request_days:g}d",
        "training": said.training,
        "region": said.region,
    }
    return {name: value for name, value in stated.items() if value is not None}


def _shaped(asked: _Asked, done: Done, boxes: Boxes) -> Reply:
    boxes.media = done.media
    usage = {"inTokens": done.usage.input_tokens, "outTokens": done.usage.output_tokens}
    told = {"result": done.result, "usage": usage, "model": done.model, "arguments": asked.arguments}
    answer = shaping.answer(asked.mapped.output, told, boxes)
    return Result(answer, dict(_written(asked.arguments, boxes)))


def _written(arguments: Mapping[str, Any], boxes: Boxes) -> Iterator[tuple[str, str]]:
    for name, value in arguments.items():
        with suppress(AttributeError):
            if (blob := value.get("blob")) in boxes.written:
                yield name, blob
