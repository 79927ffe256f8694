"""The course of one operation's readiness: what real calls and probes said, and when the next may try. Pure.

Three calls in a row that answer ``unavailable`` take readiness away; so do, at once, a call of which not a
byte came for too long, an answer in another model's name, and a list of models without a declared one. Then
nothing is sent for a pause, after which one call is let through: it gives readiness back, or doubles the
pause. A success that is older than what took readiness away gives back nothing.
"""

from dataclasses import dataclass, replace
from typing import assert_never

from reconciler.model.observations import Heard, Readiness
from reconciler.model.status import Reason

ENOUGH = 3  # calls in a row that answer unavailable
FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 300.0


@dataclass(frozen=True, slots=True)
class Course:
    """Where an operation stands. Times: seconds since 1970."""

    value: Readiness = "unprobed"
    reason: Reason = "Stale"  # of what is unprobed: nothing is known
    seen_at: float = 0.0
    message: str = ""
    fails: tuple[float, ...] = ()  # when the last calls in a row answered unavailable
    pause_s: float = 0.0  # of what is not ready
    retry_at: float = 0.0  # no call is let through before
    trying: bool = False  # one was, and has not been heard of yet


FRESH = Course()


def after(course: Course, heard: Heard, at: float, why: str = "") -> Course:
    """The course once a real call ended so, at that time."""
    match heard:
        case "answered":
            return _answered(course, at)
        case "unavailable":
            fails = (*course.fails, at)[-ENOUGH:]
            if course.value == "not-ready":
                again = replace(course, fails=fails)
                return taken(again, course.reason, at, course.message) if course.trying else again
            if len(fails) < ENOUGH:
                return replace(course, fails=fails)
            words = why or f"its last {ENOUGH} calls answered unavailable"
            return taken(replace(course, fails=fails), "NotAnswering", at, words)
        case "stalled":
            return taken(course, "NotAnswering", at, why or "a call was sent, and not a byte came back")
        case "substituted":
            return taken(course, "ModelSubstituted", at, why or "an answer named another model")
        case _:
            assert_never(heard)


def _answered(course: Course, at: float) -> Course:
    fails = tuple(one for one in course.fails if one > at)
    if course.value == "not-ready" and course.seen_at > at:
        were_in_a_row = len(course.fails) == ENOUGH and course.reason == "NotAnswering"
        if not were_in_a_row or len(fails) == ENOUGH or course.trying:
            return replace(course, fails=fails)
    return Course("ready", "Answering", max(at, course.seen_at), fails=fails)


def taken(course: Course, reason: Reason, at: float, message: str) -> Course:
    """Readiness taken away; again, where the call that was let through brought nothing better."""
    before = course.pause_s if course.value == "not-ready" else 0.0
    doubled = min(before * 2, LONGEST_PAUSE_S) or FIRST_PAUSE_S
    # Calls of the same moment are one reason to wait, not several.
    pause = before if before and not course.trying else doubled
    return Course("not-ready", reason, at, message, course.fails, pause, at + pause)


def given(at: float) -> Course:
    """Readiness as a probe of this very operation found it."""
    return Course("ready", "Answering", at)


def tried(course: Course, now: float) -> Course | None:
    """The course when a call is let through now; None: it is not."""
    if course.value != "not-ready":
        return course
    if now < course.retry_at and now >= course.seen_at:  # a clock set back does not prolong the pause
        return None
    return replace(course, trying=True, seen_at=now, retry_at=now + course.pause_s)
