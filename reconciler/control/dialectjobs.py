"""Jobs of connectors that speak a dialect: drafted, sent, looked up, stopped and fetched by their drivers.

Implements ``jobs.Runner``. All that a job needs lies in its sealed paper, so it is looked after with what it
was made with: also when its binding is gone, or another instance serves. Each request has a decision of its
own; a submit goes out only by the permit that the ledger has kept. Nothing here decides what becomes of an
attempt, and no status is guessed.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from reconciler.attempts import parcels
from reconciler.attempts import reconciling as far
from reconciler.attempts.happenings import Absent, Accepted, Failed, Lost, Refused, Seen, Stopped
from reconciler.attempts.happenings import NotSent as Unsent
from reconciler.attempts.identities import Destination
from reconciler.attempts.papers import Papers
from reconciler.attempts.records import Ack, Attempt, Idempotency
from reconciler.control import sealedpaper, shaping
from reconciler.control.dialects import Dialects, facts_of, not_within
from reconciler.control.jobs import CannotDraftError, Draft, Wish
from reconciler.control.permitting import Sending
from reconciler.control.sealedpaper import JobFacts
from reconciler.control.sending import MaybeSent, NotSent
from reconciler.control.shaping import Boxes, UnshapedError
from reconciler.control.spoken import RUNTIME, NotSpokenError
from reconciler.control.transmitting import Leave, Speaker
from reconciler.control.wirekeeping import execution, request
from reconciler.drivers import roll
from reconciler.drivers.asking import Call, Job, JobDriver, Unsealable
from reconciler.egress.permits import Permit
from reconciler.model import outcome as out
from reconciler.model.dialect import Operation
from reconciler.model.sealed import Sealed

NAME = RUNTIME
RUNTIMES = frozenset({RUNTIME})
_SUBMIT_BY_S = 3600.0  # after that nothing is sent any more
_ASK_S, _SEND_S, _FETCH_S = 9.0, 60.0, 600.0
_DAY_S = 86_400.0


class DialectRunner:
    """For the loop's own thread. ``state`` is where the ledger's papers lie; ``boxes`` are the folders of
    files that jobs are submitted with.
    """

    def __init__(
        self, dialects: Dialects, state: Path, boxes: Callable[[], tuple[int, int]], now: Callable[[], float]
    ) -> None:
        self._dialects, self._now = dialects, now
        self._papers = Papers(state / "attempts", only_read=True)
        self._boxes = boxes
        self._facts: dict[str, JobFacts] = {}  # by attempt, while it is under way
        self._speakers: dict[str, Speaker] = {}  # by instance
        self._permits: dict[str, Permit] = {}  # of submits that are about to go out

    def close(self) -> None:
        """Nothing is sent any more."""
        for one in self._speakers.values():
            one.close()

    # a new job

    async def draft(self, wish: Wish) -> Draft:
        """As ``jobs.Runner`` has it."""
        try:
            return await self._drafted(wish)
        except CannotDraftError:
            raise
        except NotSpokenError as fault:
            raise CannotDraftError(fault.code, str(fault)) from None
        except (UnshapedError, OSError, ValueError) as fault:
            raise CannotDraftError("unavailable", str(fault)) from None

    async def _drafted(self, wish: Wish) -> Draft:
        intent = wish.intent
        speaker = self._dialects.speaker(intent.route.instance)
        mapped = speaker.spoken.tools.get(intent.tool.name) if speaker is not None else None
        if speaker is None or mapped is None:
            raise CannotDraftError("unavailable", f"no operation answers {intent.tool.name}")
        spoken = speaker.spoken
        profile, model = spoken.chosen(mapped.operation, str(intent.arguments.get("model") or ""))
        operation, driver = profile.operation(mapped.operation), roll.JOBS.get(profile.identity.driver)
        if operation is None or driver is None:
            raise CannotDraftError("unavailable", f"no driver does jobs of {profile.ref}")
        given = {**intent.arguments, **intent.handed}
        shaped = await asyncio.to_thread(shaping.fields, mapped.input, given, Boxes(*self._boxes()))
        if model and "model" in operation.fields:
            shaped.setdefault("model", model)
        if refusal := not_within(profile, mapped, shaped):
            raise CannotDraftError(refusal.code, refusal.diagnostic)
        fields, files = shaping.parted(shaped)
        call = Call(wish.attempt, operation.name, fields, files, spoken.base)
        key, call = _keyed(wish, call, operation, self._destination(spoken.recipe.profiles, profile.ref))
        try:
            sealed = await asyncio.to_thread(driver.seal_submit, call, profile)
        except Unsealable as fault:
            code = mapped.code_without(fault.fact, "refused")
            raise CannotDraftError(code, f"fact={fault.fact}") from None
        outputs = tuple(one.name for one in intent.tool.files if one.output and one.name in intent.arguments)
        facts = JobFacts(spoken, profile, intent.tool.name, mapped, outputs, model, call.tag)
        return Draft(
            execution=replace(execution(spoken.recipe, profile), executor=NAME),
            request=request(sealed),
            sealed=sealedpaper.packed(sealed, facts),
            operation=operation.name,
            idempotency=key,
            deadline=self._now() + _SUBMIT_BY_S,
        )

    def _destination(self, digests: Iterable[tuple[str, str]], ref: str) -> str:
        return dict(digests).get(ref, "")

    # its far end

    def far_end(self, one: Attempt) -> far.FarEnd | None:
        """As ``Reconciler`` has it; None where its paper cannot be read."""
        facts = self._known(one)
        operation = facts.profile.operation(one.operation) if facts is not None else None
        if facts is None or operation is None:
            return None
        expires_s = facts.profile.retention.job_expires_seconds or _DAY_S
        return far.FarEnd(
            lookup=frozenset(operation.lookup.by),
            absence_is_proof=operation.lookup.absence_is_proof,
            visibility_delay_s=operation.lookup.visibility_delay_seconds or 0.0,
            can_cancel=operation.cancel.mode in ("request", "proved"),
            reconcile_for_s=min(_DAY_S, expires_s),
            max_result_bytes=facts.profile.transport.max_response_bytes,
        )

    async def permit(self, one: Attempt) -> str:
        """As ``Reconciler`` has it."""
        facts = self._need(one)
        try:
            sealed = await asyncio.to_thread(self._sealed, one)
            permit = await self._speaker(facts).permit(sealed, self._sending(one, facts, is_control=False))
        except NotSent as fault:
            raise far.NoPermissionError(str(fault)) from None
        self._permits[one.id] = permit
        return permit.decision

    async def submit(self, one: Attempt) -> far.Sent:
        """As ``Reconciler`` has it: by the permit that was given for it, and by no other."""
        facts, permit = self._need(one), self._permits.pop(one.id, None)
        if permit is None:
            return Unsent("there is no permit for it")
        sealed = await asyncio.to_thread(self._sealed, one)
        try:
            reply = await self._speaker(facts).by(permit, sealed, _SEND_S)
        except NotSent as fault:
            return Unsent(str(fault))
        except MaybeSent as fault:
            return Lost(str(fault))
        return _submitted(
            self._driver(facts).read_submit(reply, Call(one.id, one.operation, {}), facts.profile), facts
        )

    async def lookup(self, one: Attempt, by: far.By) -> far.Found:
        """As ``Reconciler`` has it."""
        facts = self._need(one)
        driver, job = self._driver(facts), _job(one, facts)
        try:
            sealed = driver.seal_lookup(job, facts.profile, by)
            if sealed is None:
                return far.NotFound()
            reply = await self._asked(one, facts, sealed, _ASK_S)
        except (NotSent, MaybeSent, Unsealable) as fault:
            return far.Unclear(str(fault))
        return _stands(driver.read_lookup(reply, job, facts.profile, by), facts, one)

    async def cancel(self, one: Attempt) -> Ack:
        """As ``Reconciler`` has it."""
        facts = self._need(one)
        driver, job = self._driver(facts), _job(one, facts)
        try:
            sealed = driver.seal_cancel(job, facts.profile)
            if sealed is None:
                return "refused"
            reply = await self._asked(one, facts, sealed, _ASK_S)
        except (NotSent, MaybeSent, Unsealable):
            return "unknown"
        return driver.read_cancel(reply, job, facts.profile).answer

    async def fetch(self, one: Attempt) -> Iterable[bytes] | far.Expired | far.Unclear:
        """As ``Reconciler`` has it: the one part that a result is, or the first that the profile lists."""
        facts = self._need(one)
        driver, job = self._driver(facts), _job(one, facts)
        operation = facts.profile.operation(one.operation)
        parts = sorted(operation.fetch.parts) if operation and operation.fetch else []
        part = "video" if "video" in parts else next(iter(parts), "")
        try:
            sealed = driver.seal_fetch(job, part, facts.profile)
            if sealed is None:
                return far.Unclear("the profile states no way to the result")
            reply = await self._asked(one, facts, sealed, _FETCH_S)
        except (NotSent, MaybeSent, Unsealable) as fault:
            return far.Unclear(str(fault))
        found = driver.read_fetch(reply, job, part, facts.profile)
        match found:
            case out.Done(media=(media, *_)):
                return _parcel(found, media, facts)
            case out.Pending(poll_after_s=after_s):
                return far.Unclear("the result is not ready", after_s or 0.0)
            case out.Expired() | out.Absent():
                return far.Expired("the result is kept no more")
            case _:
                return far.Unclear(getattr(found, "cause", "") or getattr(found, "detail", ""))

    # sending

    async def _asked(self, one: Attempt, facts: JobFacts, sealed: Sealed, timeout_s: float) -> Any:
        leave = Leave(self._sending(one, facts, is_control=True), timeout_s)
        return await self._speaker(facts).whole(sealed, leave)

    def _sending(self, one: Attempt, facts: JobFacts, *, is_control: bool) -> Sending:
        return Sending(
            one.interface, one.request.purpose or one.interface.partition("/")[0], one.owner.agent,
            one.owner.session, effect=one.effect, attempt=one.id, is_control=is_control, wait_s=_ASK_S - 1,
            facts=facts_of(facts.profile),
        )  # fmt: skip

    def _speaker(self, facts: JobFacts) -> Speaker:
        name = str(facts.spoken.recipe.name)
        if name not in self._speakers:
            outside = replace(self._dialects.outside, barred=self._dialects.outside.revoked)
            self._speakers[name] = Speaker(facts.spoken, outside)
        return self._speakers[name]

    def _driver(self, facts: JobFacts) -> JobDriver:
        return roll.JOBS[facts.profile.identity.driver]

    def _sealed(self, one: Attempt) -> Sealed:
        return sealedpaper.sealed_of(self._papers.read("sealed", one.request.sealed_ref))

    def _known(self, one: Attempt) -> JobFacts | None:
        found = self._facts.get(one.id)
        if found is None:
            try:
                found = sealedpaper.job_of(self._papers.read("sealed", one.request.sealed_ref))
            except (OSError, ValueError, KeyError, TypeError):
                return None
            if found.profile.identity.driver not in roll.JOBS:
                return None
            if len(self._facts) > 1000:
                self._facts.clear()
            self._facts[one.id] = found
        return found

    def _need(self, one: Attempt) -> JobFacts:
        found = self._known(one)
        if found is None:
            raise LookupError("what it was made with cannot be read")
        return found


def _keyed(wish: Wish, call: Call, operation: Operation, profile_digest: str) -> tuple[Idempotency, Call]:
    """The key and the tag that the far end is shown, where the profile says how: of the very content."""
    facts, lookup = operation.idempotency, operation.lookup
    if facts.mode == "none" and not lookup.tag_field and "key" not in lookup.by:
        return Idempotency(), call
    files = sorted((name, len(one.data)) for name, many in call.files.items() for one in many)
    content = orjson.dumps([call.operation, call.fields, files], option=orjson.OPT_SORT_KEYS)
    key = wish.key(content.decode(), Destination(profile_digest, call.operation, call.base or ""))
    if facts.max_chars is not None and len(key) > facts.max_chars:
        raise CannotDraftError("unavailable", "the profile's keys are shorter than ours")
    return Idempotency(key, facts.mode), replace(call, key=key, tag=key if lookup.tag_field else "")


def _job(one: Attempt, facts: JobFacts) -> Job:
    return Job(
        one.id, one.operation, one.provider.job_id, one.idempotency.key, facts.tag, facts.spoken.base,
        facts.model,
    )  # fmt: skip


def _submitted(said: out.SubmitOutcome, facts: JobFacts) -> far.Sent:
    match said:
        case out.Accepted():
            return Accepted(said.job_id, said.seen.request_id, said.status, float(said.expires_at or 0))
        case out.Done():
            return far.Finished(orjson.dumps(said.result))
        case out.Rejected(effect="none"):
            return Refused(_code(said, facts), said.detail)
        case out.Rejected(effect="happened"):
            return Failed(_code(said, facts), said.detail, "happened")
        case out.Rejected():
            return Lost(said.detail)
        case _:
            return Lost(said.cause)


def _stands(said: out.LookupOutcome, facts: JobFacts, one: Attempt) -> far.Found:
    operation = facts.profile.operation(one.operation)
    least_s = operation.lookup.min_interval_seconds if operation else 0.0
    match said:
        case out.Pending():
            return Seen(said.status, said.progress, max(said.poll_after_s or 0.0, least_s))
        case out.Accepted():
            return Accepted(said.job_id, said.seen.request_id, said.status, float(said.expires_at or 0))
        case out.Done():
            return far.Finished(usage={"model": said.model} if said.model else {})
        case out.Rejected():
            return Failed(_code(said, facts), said.detail, said.effect)
        case _:
            return _ended(said)


def _ended(said: out.Cancelled | out.Absent | out.Expired | out.Unknown) -> far.Found:
    match said:
        case out.Cancelled(proved=True):
            return Stopped(said.status)
        case out.Cancelled():
            return Failed("unavailable", f"the server says {said.status}", "unknown")
        case out.Absent():
            return Absent() if said.proof else far.NotFound()
        case out.Expired():
            return far.Expired()
        case out.Unknown():
            return far.Unclear(said.cause)


def _code(said: out.Rejected, facts: JobFacts) -> str:
    code = facts.mapped.code_of(said.code, said.detail)
    return "unavailable" if code in ("invalid_input", "refused") else code


def _parcel(done: out.Done, media: out.Media, facts: JobFacts) -> Iterable[bytes]:
    """What the job's result says, and its file: an answer by the mapping's ``output``."""
    told: Mapping[str, Any] = {
        "result": done.result,
        "file": {"bytes": len(media.data), "mediaType": media.media_type},
        "usage": {},
    }
    said = shaping.answer(facts.mapped.output or "file", told, Boxes(-1, -1, done.media))
    files = {name: (len(media.data), (media.data,)) for name in facts.outputs[:1]}
    return parcels.packed(said, files)
