"""When a model is asked again, of which model, after which wait."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.chains import retrying
from reconciler.chains.retrying import ErrorClass, RetryPolicy

MS = 1_000_000


def _played(policy: RetryPolicy, errors: list[ErrorClass], draw: float = 0.0) -> tuple[list[str], list[int]]:
    """The models that were asked and the waits between them, when calls fail with these errors."""
    tried = retrying.first("p")
    models, waits = ["p"], []
    for error in errors:
        again = retrying.after(policy, tried, error, draw)
        if again is None:
            break
        tried = again.next
        models.append(tried.model)
        waits.append(again.wait_ns)
    return models, waits


LIMITED, BROKEN, LATE = ErrorClass.RATE_LIMIT, ErrorClass.SERVER_ERROR, ErrorClass.TIMEOUT


@pytest.mark.parametrize(
    ("attempts", "after", "models"),
    [
        (3, 2, ["p", "p", "f"]),  # C33
        (2, 2, ["p", "p"]),  # C34
        (3, 1, ["p", "f", "f"]),  # E13: one schedule, the fallback taken once
        (3, 0, ["p", "p", "p"]),
        (1, 1, ["p"]),
        (0, 1, ["p"]),
    ],
)
def test_the_fallback_is_taken_once_after_so_many_failures(
    attempts: int, after: int, models: list[str]
) -> None:
    policy = RetryPolicy(attempts=attempts, fallback_model="f", fallback_after=after)
    assert _played(policy, [LIMITED] * 5)[0] == models


def test_waits_double_across_the_switch_and_the_first_is_never_capped() -> None:
    policy = RetryPolicy(
        attempts=5, initial_backoff_ns=900 * MS, max_backoff_ns=700 * MS, fallback_model="f", fallback_after=2
    )
    assert _played(policy, [BROKEN] * 5)[1] == [900 * MS, 700 * MS, 700 * MS, 700 * MS]
    assert _played(RetryPolicy(attempts=4), [BROKEN] * 5)[1] == [500 * MS, 1000 * MS, 2000 * MS]


def test_after_a_rate_limit_the_wait_is_at_least_the_named_one() -> None:
    policy = RetryPolicy(attempts=3, rate_limit_min_wait_ns=9000 * MS, max_backoff_ns=600 * MS)
    assert _played(policy, [LIMITED, LATE])[1] == [9000 * MS, 600 * MS]  # C32


@given(st.floats(0, 1, exclude_max=True), st.floats(0, 4), st.integers(1, 10**10))
def test_jitter_lengthens_a_wait_by_at_most_its_part(draw: float, jitter: float, initial: int) -> None:
    policy = RetryPolicy(attempts=2, initial_backoff_ns=initial, jitter=jitter)
    (wait,) = _played(policy, [BROKEN], draw)[1]
    assert initial <= wait <= initial * (1 + jitter)  # C37


@pytest.mark.parametrize(
    "error", [ErrorClass.AUTH, ErrorClass.CAPACITY, ErrorClass.PERMANENT, ErrorClass.CANCELLED]
)
def test_what_asking_again_cannot_mend_is_asked_once_and_of_no_fallback(error: ErrorClass) -> None:
    policy = RetryPolicy(attempts=4, fallback_model="f", fallback_after=1)
    assert _played(policy, [error]) == (["p"], [])  # C35, C36


def test_a_thousand_tries_wait_a_day_at_most() -> None:
    waits = _played(RetryPolicy(attempts=1000), [BROKEN] * 1000)[1]
    assert len(waits) == 999
    assert max(waits) == 24 * 3600 * 10**9


@pytest.mark.parametrize(
    ("status", "text", "error"),
    [
        (503, "", ErrorClass.SERVER_ERROR),  # A17: a typed status needs no text
        (
            None,
            "request had 1500 tokens, invalid tool schema",
            ErrorClass.PERMANENT,
        ),  # A17: digits decide nothing
        (400, "request had 1500 tokens, invalid tool schema", ErrorClass.PERMANENT),
        (400, "This model's maximum context length is 8192 tokens", ErrorClass.CAPACITY),
        (400, "rate limit is a fine thing", ErrorClass.PERMANENT),
        (401, "context window", ErrorClass.AUTH),
        (403, "", ErrorClass.AUTH),
        (429, "forbidden", ErrorClass.RATE_LIMIT),
        (529, "", ErrorClass.RATE_LIMIT),
        (408, "", ErrorClass.TIMEOUT),
        (520, "", ErrorClass.SERVER_ERROR),
        (404, "", ErrorClass.PERMANENT),
        (None, "Overloaded", ErrorClass.RATE_LIMIT),
        (None, "HTTP 429", ErrorClass.RATE_LIMIT),
        (None, "read: i/o timeout", ErrorClass.TIMEOUT),
        (None, "502 Bad Gateway", ErrorClass.SERVER_ERROR),
        (None, "the call was canceled", ErrorClass.CANCELLED),
        (None, "Invalid API key", ErrorClass.AUTH),
        (None, "model returned empty content", ErrorClass.SERVER_ERROR),
        (None, "", ErrorClass.PERMANENT),
    ],
)
def test_the_status_decides_and_words_only_where_there_is_none(
    status: int | None, text: str, error: ErrorClass
) -> None:
    assert retrying.classified(status, text) is error
