"""What to do about an attempt that is not over: in which order, and with which right to send again. Pure.

Look up by the job's id, by key, by tag; then send again, where the law has a ground for it; then admit that
it is not known. ``first`` says what to do with a row as it was found, ``heard`` what follows from an answer.
"""

from dataclasses import dataclass, replace

from reconciler.attempts import machine
from reconciler.attempts.happenings import (
    Absent,
    Accepted,
    Checked,
    Failed,
    Ground,
    Happening,
    Lost,
    NotSent,
    Refused,
    Seen,
    Stopped,
    Withdrawn,
)
from reconciler.attempts.reconciling import By, Expired, FarEnd, Finished, Found, NotFound, Sent, Unclear
from reconciler.attempts.records import Attempt, State

_FIRST_S, _MOST_S, _GROWTH = 1.0, 60.0, 1.6
_WAYS: tuple[By, ...] = ("job-id", "key", "tag")


@dataclass(frozen=True, slots=True)
class Send:
    """Send the sealed bytes, by this right."""

    ground: Ground


@dataclass(frozen=True, slots=True)
class Look:
    """Ask the far end, by these in turn until one names the job. ``cancel``: ask it to stop first."""

    ways: tuple[By, ...]
    cancel: bool = False


@dataclass(frozen=True, slots=True)
class Fetch:
    """Put the result on the disk, then say that it is done."""

    finished: Finished


@dataclass(frozen=True, slots=True)
class Tell:
    """Keep this in the ledger, in one transaction."""

    happenings: tuple[Happening, ...]


@dataclass(frozen=True, slots=True)
class At:
    """The instant, and chance between 0 and 1."""

    now: float
    chance: float = 0.5


Named = Accepted | Seen | Failed | Refused | Stopped
Move = Send | Fetch | Look | Tell
Then = Send | Fetch | Tell


def pause_s(checks: int, jitter: float) -> float:
    """How long to leave an attempt alone that was looked after so often: 1 s to 60 s, times 0.8 to 1.2.

    ``jitter`` is chance between 0 and 1.
    """
    steps = min(checks, 20)  # past these the most is reached anyway, and a power overflows in the end
    return float(min(_MOST_S, _FIRST_S * _GROWTH**steps) * (0.8 + 0.4 * jitter))


def first(one: Attempt, far: FarEnd | None, now: float) -> Move:
    """What to do with an attempt that nobody holds."""
    if one.state is State.PREPARED:
        return _unsent(one, far, now)
    if far is None and one.grade == "boundary":
        return _kept(
            one,
            Lost("its connector ended before it answered, and nobody can be asked", parked=True),
            far,
            now,
        )
    if far is None:
        return heard(one, Unclear("nobody here can speak to its far end"), FarEnd(), At(now))
    ways = tuple(way for way in _WAYS if way in far.lookup and _can(one, way))
    wanted = bool(one.cancel.asked_at) and far.can_cancel and bool(one.provider.job_id)
    cancel = wanted and one.cancel.ack not in {"proved", "requested", "refused"}
    if ways:
        return Look(ways, cancel)
    return _unasked(one, far, now)


def _unsent(one: Attempt, far: FarEnd | None, now: float) -> Move:
    if 0 < one.deadline <= now:
        return Tell((Withdrawn("unavailable", "its deadline passed before it was sent"),))
    if far is None or one.grade == "boundary":
        return Tell((Withdrawn("unavailable", "whoever was to send it is gone, and nothing was sent"),))
    return Send(Ground.FIRST)


def _can(one: Attempt, way: By) -> bool:
    match way:
        case "job-id":
            return bool(one.provider.job_id)
        case "key":
            return bool(one.idempotency.key)
        case "tag":
            return not one.provider.job_id


def heard(one: Attempt, found: Found, far: FarEnd, at: At) -> Then:
    """What follows from what the far end said when it was asked."""
    match found:
        case Finished():
            return Fetch(found)
        case Unclear():
            return _unclear(one, found, far, at)
        case Expired(cause=cause):
            return _kept(one, Lost(f"the far end knows no more of it: {cause}", parked=True), far, at.now)
        case NotFound() | Absent():
            return _unnamed(one, found, far, at.now)
        case Failed(effect="unknown", cause=cause):  # no failure: nobody knows, and a person has to look
            return _kept(one, Lost(cause, parked=True), far, at.now)
        case _:
            return Tell(_named(one, found, at))


def _named(one: Attempt, found: Named, at: At) -> tuple[Happening, ...]:
    """The far end knows the job."""
    match found:
        case Accepted() if one.state in {State.ACCEPTED, State.RUNNING}:
            return (Seen(found.status, None, pause_s(one.checks, at.chance)),)
        case Seen():
            again = max(found.check_after_s, pause_s(one.checks, at.chance))
            return (*taken(one), replace(found, check_after_s=again))
        case Refused() if one.state is not State.SUBMITTING or one.provider.doubt:
            return (*taken(one), Failed(found.code, found.cause, "none"))
        case Failed():
            return (*taken(one), found)
        case _:
            return (found,)


def answered(one: Attempt, sent: Sent, chance: float) -> Then:
    """What follows from what came of a transmission."""
    match sent:
        case NotSent() | Refused() if one.provider.doubt:
            return Tell(
                (Checked(pause_s(one.checks + 1, chance), "that says nothing of what was sent before"),)
            )
        case Finished():
            return Fetch(sent)
        case Failed():
            return Tell((Accepted(), sent))
        case _:
            return Tell((sent,))


def taken(one: Attempt) -> tuple[Happening, ...]:
    """What has to be kept before an end that comes while it is not known to be accepted."""
    return (Accepted(),) if one.state is State.SUBMITTING else ()


def _unclear(one: Attempt, found: Unclear, far: FarEnd, at: At) -> Tell:
    since = max(one.provider.sent_at, one.provider.seen_at)
    if one.parked:
        return Tell((Checked(machine.DAY_S, found.cause),))
    if at.now - since > far.reconcile_for_s:
        return Tell((Lost(f"no word of it for {far.reconcile_for_s:.0f} s: {found.cause}", parked=True),))
    return Tell((Checked(max(found.again_s, pause_s(one.checks, at.chance)), found.cause),))


def _unnamed(one: Attempt, found: NotFound | Absent, far: FarEnd, now: float) -> Then:
    """The far end named no such job."""
    if one.provider.job_id:
        return _kept(one, Lost("the far end does not know its own job's id any more"), far, now)
    visible_at = one.provider.sent_at + far.visibility_delay_s
    if now < visible_at:
        return Tell((Checked(visible_at - now, "too early to say that it is not there"),))
    if (ground := _again(one, far, now)) is not None:
        return Send(ground)
    if isinstance(found, Absent) or far.absence_is_proof:
        return Tell((Absent(),))
    return _kept(one, Lost("not found, which proves nothing"), far, now)


def _unasked(one: Attempt, far: FarEnd, now: float) -> Move:
    """There is no way to look it up."""
    if one.state in {State.ACCEPTED, State.RUNNING}:
        return _kept(one, Lost("its far end has it, and cannot be asked about it", parked=True), far, now)
    if (ground := _again(one, far, now)) is not None:
        return Send(ground)
    return _kept(one, Lost("it may have been sent, and nobody can be asked", parked=True), far, now)


def _again(one: Attempt, far: FarEnd, now: float) -> Ground | None:
    """The right to send the same bytes again, where there is one."""
    keyed = far.same_key_same_job and far.other_body_is_error
    ground = Ground.CLIENT_KEY if keyed else Ground.NATURAL
    return None if machine.submit_fault(one, ground, now) else ground


def _kept(one: Attempt, lost: Lost, far: FarEnd | None, now: float) -> Tell:
    """It is not known, and stays so: looked after more and more rarely, then parked for a person."""
    if one.parked:
        return Tell((Checked(machine.DAY_S, lost.cause),))
    late = now - max(one.provider.sent_at, one.provider.seen_at) > (far or FarEnd()).reconcile_for_s
    if one.state is not State.INDETERMINATE or lost.parked or late:
        return Tell((Lost(lost.cause, lost.parked or late),))
    return Tell((Checked(pause_s(one.checks, 0.5), lost.cause),))
