"""When a model is asked again, of which model, and after which wait: ``retry_policy`` in its exact order.

A schedule is a fold over frozen values: ``first`` gives the first try, ``after`` what follows a failed one.
Nothing sleeps and nothing is drawn here: the wait is returned, the draw of the jitter handed in; a try is a
value that a checkpoint can hold. Each try is one call and gets its own egress decision from whoever sends it.

The order of one failure: a class that is not retryable stops; the last try stops; else the wait is
``initial x 2^(n-1)``, capped from the second wait on (never the first), raised to the least wait after a rate
limit, and lengthened by the jitter, which may exceed the cap. The fallback is taken once, for all tries that
are left, when as many failures in a row as ``fallback_after`` came before; waits keep growing across it.
"""

import re
from dataclasses import dataclass
from enum import Enum

_USUAL_BACKOFF_NS = 500_000_000  # where a policy names none
_LONGEST_WAIT_NS = 24 * 3_600_000_000_000  # doubling without a cap ends at a day


class ErrorClass(Enum):
    """Why a model did not answer; only three of them are worth asking again for."""

    CANCELLED = "cancelled"
    RATE_LIMIT = "rate_limit"
    AUTH = "auth"
    CAPACITY = "capacity"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"
    PERMANENT = "permanent"

    @property
    def retryable(self) -> bool:
        """Whether the same question may get an answer later."""
        return self in {ErrorClass.RATE_LIMIT, ErrorClass.SERVER_ERROR, ErrorClass.TIMEOUT}


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """A task's ``retry_policy``. Spans are nanoseconds, 0 where unset; ``attempts`` below 1 means one."""

    attempts: int = 1
    initial_backoff_ns: int = 0
    max_backoff_ns: int = 0
    jitter: float = 0.0
    rate_limit_min_wait_ns: int = 0
    fallback_model: str = ""
    fallback_after: int = 0


@dataclass(frozen=True, slots=True)
class Try:
    """One call that is to be made: the ``number``-th (from 1), of ``model``.

    ``failures`` counts those in a row on this model; ``fallen`` says that the fallback is in use.
    """

    number: int
    model: str
    failures: int = 0
    fallen: bool = False


@dataclass(frozen=True, slots=True)
class Again:
    """Wait ``wait_ns``, then make ``next``."""

    wait_ns: int
    next: Try


def first(model: str) -> Try:
    """The first try of a call to ``model``."""
    return Try(number=1, model=model)


def after(policy: RetryPolicy, tried: Try, error: ErrorClass, draw: float) -> Again | None:
    """What follows ``tried`` when it failed with ``error``; None: stop, with this error.

    ``draw`` is uniform in [0, 1) and chosen by the caller.
    """
    if not error.retryable or tried.number >= max(policy.attempts, 1):
        return None
    failures = tried.failures + 1
    model, fallen = tried.model, tried.fallen
    if not fallen and policy.fallback_model and 0 < policy.fallback_after <= failures:
        model, failures, fallen = policy.fallback_model, 0, True
    wait = _wait_ns(policy, tried.number, error)
    wait += int(draw * max(policy.jitter, 0.0) * wait)
    return Again(min(wait, _LONGEST_WAIT_NS), Try(tried.number + 1, model, failures, fallen))


def _wait_ns(policy: RetryPolicy, failed: int, error: ErrorClass) -> int:
    wait = (policy.initial_backoff_ns or _USUAL_BACKOFF_NS) << min(failed - 1, 40)
    if failed > 1 and policy.max_backoff_ns:
        wait = min(wait, policy.max_backoff_ns)
    if error is ErrorClass.RATE_LIMIT:
        wait = max(wait, policy.rate_limit_min_wait_ns)
    return wait


_STATUS = {
    401: ErrorClass.AUTH,
    403: ErrorClass.AUTH,
    408: ErrorClass.TIMEOUT,
    429: ErrorClass.RATE_LIMIT,
    529: ErrorClass.RATE_LIMIT,
    **dict.fromkeys((500, 502, 503, 504), ErrorClass.SERVER_ERROR),
}
_CAPACITY = (
    r"context[ _](?:length|window)|maximum context|exceeds? (?:the )?context|tokens? exceed|token count"
)
_TEXT = (
    (ErrorClass.CANCELLED, r"cancell?ed"),
    (ErrorClass.CAPACITY, _CAPACITY),
    (
        ErrorClass.RATE_LIMIT,
        r"too many requests|rate[ -_]?limit(?:ed)?|overloaded|(?:http|status)[ :]*(?:429|529)",
    ),
    (
        ErrorClass.AUTH,
        r"unauthorized|forbidden|invalid api key|authentication|(?:http|status)[ :]*(?:401|403)",
    ),
    (
        ErrorClass.SERVER_ERROR,
        r"internal server error|bad gateway|service unavailable|gateway time-?out",
    ),
    (ErrorClass.SERVER_ERROR, r"empty (?:content|candidates?)|(?:http|status)[ :]*50[0234]"),
    (ErrorClass.TIMEOUT, r"i/o timeout|deadline exceeded|timed out|time-?out"),
)
_WORDS = tuple((error, re.compile(rf"\b(?:{words})\b", re.IGNORECASE)) for error, words in _TEXT)
_LONGEST_TEXT = 4096  # characters of an error that are looked at


def classified(status: int | None, text: str = "") -> ErrorClass:
    """The class of a failure: its HTTP ``status`` decides; its ``text`` only where no status is known.

    A request that was refused (a status in the 400s that names no class) is read once more for words about
    the context, because that is how providers say it. Digits in a text never decide ("1500 tokens" is no
    500).
    """
    if status is not None and (known := _STATUS.get(status)):
        return known
    said = next(
        (error for error, words in _WORDS if words.search(text[:_LONGEST_TEXT])), ErrorClass.PERMANENT
    )
    if status is None:
        return said
    if status >= 500:
        return ErrorClass.SERVER_ERROR
    return said if said is ErrorClass.CAPACITY else ErrorClass.PERMANENT
