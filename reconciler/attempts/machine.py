"""The law of attempts: which state may follow which, by what, and what of the record changes with it. Pure.

Persist, then send; unknown is never repeated. The ledger applies what ``after`` gives under three predicates
(state, ver, fence), so a happening that somebody else overtook changes nothing. Two guards are not here,
because they need other rows or other records: the decision of a transmission (``ledger`` looks at it in the
same transaction) and whether binding and profile are still the ones that it was made for (the caller's).
"""

from dataclasses import replace
from typing import Any

from reconciler.attempts.happenings import (
    Absent,
    Accepted,
    CancelAnswered,
    CancelAsked,
    CancelSent,
    Checked,
    Collected,
    Failed,
    Ground,
    Happening,
    Late,
    Lost,
    NotSent,
    Refused,
    Seen,
    Settled,
    Stopped,
    Submit,
    Succeeded,
    Withdrawn,
)
from reconciler.attempts.records import TERMINAL, Attempt, Ended, State

_P, _S, _A, _R, _I = State.PREPARED, State.SUBMITTING, State.ACCEPTED, State.RUNNING, State.INDETERMINATE
_DONE, _FAILED, _STOPPED = State.SUCCEEDED, State.FAILED, State.CANCELLED
FIRST_CHECK_S = 1.0
Changes = dict[str, Any]
DAY_S = 86_400.0  # how often a parked attempt is looked after

# The transitions of the design, by their source. A happening that is not named for a state cannot be in it.
TABLE: dict[State, dict[type, State]] = {
    _P: {Submit: _S, CancelAsked: _STOPPED, Withdrawn: _FAILED},
    _S: {
        Submit: _S, Accepted: _A, NotSent: _FAILED, Refused: _FAILED, Absent: _FAILED, Lost: _I,
        Stopped: _STOPPED, CancelAsked: _S, CancelSent: _S, CancelAnswered: _S, Checked: _S,
    },
    _A: {
        Seen: _R, Succeeded: _DONE, Failed: _FAILED, Stopped: _STOPPED, Lost: _I,
        CancelAsked: _A, CancelSent: _A, CancelAnswered: _A, Checked: _A,
    },
    _R: {
        Seen: _R, Succeeded: _DONE, Failed: _FAILED, Stopped: _STOPPED, Lost: _I,
        CancelAsked: _R, CancelSent: _R, CancelAnswered: _R, Checked: _R,
    },
    _I: {
        Submit: _S, Accepted: _A, Seen: _R, Succeeded: _DONE, Failed: _FAILED, Absent: _FAILED,
        Stopped: _STOPPED, Lost: _I, CancelAsked: _I, CancelSent: _I, CancelAnswered: _I, Checked: _I,
    },
    _DONE: {Late: _DONE, Collected: _DONE},
    _FAILED: {Late: _FAILED, Collected: _FAILED},
    _STOPPED: {Late: _STOPPED, Collected: _STOPPED},
}  # fmt: skip
_BY_A_PERSON = frozenset({_A, _R, _DONE, _FAILED, _STOPPED})


class ForbiddenError(ValueError):
    """The law does not let this happen to this attempt; the text says why."""


def may(src: State, happening: Happening) -> State | None:
    """The state that follows, by the table alone; None where the happening cannot be in ``src``."""
    if isinstance(happening, Settled):
        return happening.to if src is _I and happening.to in _BY_A_PERSON else None
    return TABLE[src].get(type(happening))


def prepared(new: Attempt, now: float) -> Attempt:
    """A new attempt as its first row: whatever the maker left in the fields of the course is put right."""
    return replace(
        new,
        state=_P,
        ver=1,
        fence=1,
        transmissions=0,
        checks=0,
        parked=False,
        entered={_P: now},
        next_check_at=now + FIRST_CHECK_S if new.lease_until > now else now,  # nobody holds it: at once
    )


def submit_fault(one: Attempt, ground: Ground, now: float) -> str:
    """Why a transmission may not go out by this right; "" where it may. The decision is looked at apart."""
    known = one.idempotency
    faults = (
        ("a cancel was asked", one.cancel.asked_at > 0),
        ("its deadline has passed", 0 < one.deadline <= now),
        (
            "a first transmission comes from PREPARED, and every other one needs a ground of its own",
            (ground is Ground.FIRST) is not (one.state is _P),
        ),
        (
            "its far end does not tell repetitions by a key",
            ground is Ground.CLIENT_KEY and known.mode != "client-key",
        ),
        (
            "its far end has forgotten the key by now",
            ground is Ground.CLIENT_KEY and 0 < known.expires_at <= now,
        ),
        (
            "its far end may run a second one of the same name",
            ground is Ground.NATURAL and known.mode != "natural",
        ),
        (
            "what is unknown was neither kept back nor answered",
            one.state is _I and ground in {Ground.NOT_SENT, Ground.NO_EFFECT},
        ),
    )
    return next((words for words, holds in faults if holds), "")


def after(one: Attempt, happening: Happening, now: float) -> Attempt:
    """The attempt as it stands after the happening, ``ver`` one higher. Raises ForbiddenError."""
    dst = may(one.state, happening)
    if dst is None:
        what = type(happening).__name__
        raise ForbiddenError(f"{what} cannot happen to an attempt that is {one.state}")
    if fault := _fault(one, happening, now):
        raise ForbiddenError(fault)
    entered = one.entered if dst in one.entered else {**one.entered, dst: now}
    changes: Changes = {"state": dst, "ver": one.ver + 1, "entered": entered}
    if one.state is _I and dst is not _I:  # what was unknown is unknown no more
        changes["ended"] = replace(one.ended, code="", cause="", effect="")
    if dst is not one.state:
        changes |= {"checks": 0, "parked": False, "next_check_at": now + FIRST_CHECK_S}
    if not isinstance(happening, Submit | CancelAsked | CancelSent | CancelAnswered):
        changes["lease_until"] = 0.0  # whoever held it has said what there was to say
    changes |= _told(one, happening, now)
    if dst in TERMINAL:
        changes["next_check_at"] = 0.0
    return replace(one, **changes)  # once: the record is wide, and this is done for every step


def _fault(one: Attempt, happening: Happening, now: float) -> str:
    if isinstance(happening, Submit):
        return submit_fault(one, happening.ground, now)
    if isinstance(happening, NotSent | Refused) and one.provider.doubt:
        return "that says nothing of the transmission before"
    return ""


def _told(one: Attempt, happening: Happening, now: float) -> Changes:
    """The fields that the happening says something of."""
    match happening:
        case Submit(decision=decision):
            decisions = (*one.decisions, decision) if decision else one.decisions
            doubt = one.provider.doubt or happening.ground in {Ground.CLIENT_KEY, Ground.NATURAL}
            provider = replace(
                one.provider, sent_at=now, doubt=doubt and happening.ground is not Ground.ABSENT
            )
            return {"transmissions": one.transmissions + 1, "decisions": decisions, "provider": provider}
        case Accepted() | Seen() | Lost() | Checked():
            return _looked(one, happening, now)
        case CancelAsked() | CancelSent() | CancelAnswered():
            return _cancelling(one, happening, now)
        case Collected():
            return {"ended": replace(one.ended, collected_at=one.ended.collected_at or now)}
        case Late(said=said):
            return {"ended": replace(one.ended, late_result=said)}
        case _:
            return {"ended": _ended(one, happening)}


def _looked(one: Attempt, happening: Accepted | Seen | Lost | Checked, now: float) -> Changes:
    match happening:
        case Accepted():
            ids = one.provider.request_ids
            known = (*ids, happening.request_id) if happening.request_id else ids
            provider = replace(
                one.provider,
                job_id=happening.job_id or one.provider.job_id,
                request_ids=known,
                status=happening.status or one.provider.status,
                job_expires_at=happening.job_expires_at or one.provider.job_expires_at,
                seen_at=now,
                doubt=False,
            )
            return {"provider": provider}
        case Seen():
            told = one.provider.progress if happening.progress is None else happening.progress
            provider = replace(one.provider, status=happening.status, progress=told, seen_at=now)
            again = max(happening.check_after_s, FIRST_CHECK_S)
            return {"provider": provider, "checks": one.checks + 1, "next_check_at": now + again}
        case Lost():
            # A far end that swallows every repetition is asked ever more rarely.
            again = DAY_S if happening.parked else FIRST_CHECK_S * 1.6 ** min(one.transmissions, 8)
            ended = replace(one.ended, code="outcome_unknown", cause=happening.cause, effect="unknown")
            return {"ended": ended, "parked": happening.parked, "next_check_at": now + again}
        case Checked():
            return {"checks": one.checks + 1, "next_check_at": now + happening.again_s}


def _cancelling(one: Attempt, happening: CancelAsked | CancelSent | CancelAnswered, now: float) -> Changes:
    match happening:
        case CancelAsked():
            if one.cancel.asked_at:
                return {}
            return {"cancel": replace(one.cancel, asked_at=now, by=happening.by), "next_check_at": now}
        case CancelSent():
            return {"cancel": replace(one.cancel, sent_at=now)}
        case CancelAnswered():
            return {"cancel": replace(one.cancel, ack=happening.ack)}


def _ended(one: Attempt, happening: Happening) -> Ended:
    clear = replace(one.ended, code="", cause="", effect="")
    match happening:
        case Succeeded():
            return replace(
                clear,
                result_ref=happening.result_ref,
                result_digest=happening.result_digest,
                result_bytes=happening.result_bytes,
                usage=happening.usage,
                cost=one.ended.cost if happening.cost is None else happening.cost,
                currency=happening.currency or one.ended.currency,
                warnings=happening.warnings,
                effect="happened",
            )
        case Failed():
            cost = one.ended.cost if happening.cost is None else happening.cost
            return replace(
                clear, code=happening.code, cause=happening.cause, effect=happening.effect, cost=cost
            )
        case NotSent() | Refused() | Withdrawn() | Absent():
            code = "unavailable" if isinstance(happening, Absent) else happening.code
            return replace(clear, code=code, cause=happening.cause, effect="none")
        case Stopped():
            return replace(clear, code="cancelled", cause=happening.proof)
        case Settled():
            return _settled(clear, happening)
        case _:
            return one.ended


def _settled(ended: Ended, said: Settled) -> Ended:
    """What a person said of it. They saw what became of it, and there is no result to give."""
    cause = f"settled by {said.by}: {said.evidence}"
    match said.to:
        case State.FAILED:
            return replace(ended, code="unavailable", cause=cause, effect="none")
        case State.SUCCEEDED:
            return replace(ended, cause=cause, effect="happened")
        case _:
            return replace(ended, cause=cause)
