"""Counting calls and turns: sums agree, buckets cumulate, and there is an end to the number of series."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.control import exposition, tally
from tests.control.test_exposition import read


@dataclass
class Record:
    interface: str = "ocr/v1"
    tool: str = "ocr_extract"
    binding: str = "fine"
    code: str = "ok"
    ms: float = 3.0
    in_bytes: int = 10
    out_bytes: int = 20


def page(counted: tally.Tally) -> list[tuple[str, dict[str, str], float]]:
    return read(exposition.text(counted.families()))


def values(counted: tally.Tally, name: str) -> dict[tuple[str, ...], float]:
    return {tuple(labels.values()): value for found, labels, value in page(counted) if found == name}


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(["ok", "refused"]), st.floats(0, 10**6)), max_size=30))
def test_every_call_is_counted_once_and_in_one_bucket(calls: list[tuple[str, float]]) -> None:
    counted = tally.Tally()
    for code, ms in calls:
        counted.call(Record(code=code, ms=ms))
    assert sum(values(counted, "handler_calls_total").values()) == len(calls)
    buckets = values(counted, "handler_call_duration_seconds_bucket")
    told = list(buckets.values())
    assert told == sorted(told)
    for labels, count in buckets.items():
        assert count == sum(ms / 1000 <= float(labels[-1]) for _, ms in calls)
    if calls:
        of = ("ocr/v1", "ocr_extract", "fine")
        assert values(counted, "handler_call_duration_seconds_count") == {of: len(calls)}
        assert values(counted, "handler_call_bytes_total") == {
            (*of, "in"): 10 * len(calls),
            (*of, "out"): 20 * len(calls),
        }


def test_turns_of_the_loop_are_counted_by_what_came_of_them() -> None:
    counted = tally.Tally()
    for result in ("success", "error", "error"):
        counted.turn("world", result, 0.2)
    assert values(counted, "handler_reconcile_total") == {("world", "success"): 1, ("world", "error"): 2}
    assert counted.retries() == 2
    assert values(counted, "handler_reconcile_time_seconds_count") == {("world",): 3}


def attempt(cause: str = "ended", verdict: str = "allowed", **more: Any) -> dict[str, Any]:
    passed = {
        "verdict": verdict,
        "cause": cause,
        "target": "api.example.com:443",
        "upBytes": 0,
        "downBytes": 0,
    }
    return {"object": "binding/fine", "way": "gate", "instance": "fine@1", **passed, **more}


def test_attempts_to_leave_are_counted_once_each_by_what_became_of_them() -> None:
    counted = tally.Tally()
    tunnel = {"way": "proxy", "upBytes": 70, "downBytes": 900}
    counted.left(attempt("listed", way="proxy", upBytes=40))  # told of twice: as it begins, and at its end
    counted.left(attempt(**tunnel))
    counted.left(attempt("idle", **tunnel))
    counted.left(attempt(upBytes=5))
    for _ in range(3):
        counted.left(attempt("unlisted", "refused", target="evil.example.com:443"))
    counted.left(attempt("unreachable", "failed"))
    of = ("binding/fine",)
    assert values(counted, "handler_egress_total") == {
        (*of, "proxy", "allowed", "ended"): 1, (*of, "proxy", "allowed", "idle"): 1,
        (*of, "gate", "allowed", "ended"): 1, (*of, "gate", "refused", "unlisted"): 3,
        (*of, "gate", "failed", "unreachable"): 1,
    }  # fmt: skip
    assert values(counted, "handler_egress_bytes_total") == {
        (*of, "proxy", "out"): 140, (*of, "proxy", "in"): 1800, (*of, "gate", "out"): 5,
    }  # fmt: skip
    assert b"example.com" not in exposition.text(counted.families())


@pytest.mark.slow
def test_however_many_objects_try_to_leave_there_is_an_end_to_the_series() -> None:
    counted = tally.Tally()
    many = tally._MOST + 50
    for number in range(many):
        counted.left(attempt("unlisted", "refused", object=f"binding/b{number}", upBytes=2))
    tried = values(counted, "handler_egress_total")
    assert (len(tried), sum(tried.values())) == (tally._MOST + 1, many)
    assert tried["other", "other", "other", "unlisted"] == 50
    carried = values(counted, "handler_egress_bytes_total")
    assert (len(carried), sum(carried.values())) == (tally._MOST + 1, 2 * many)


@pytest.mark.slow
def test_however_many_bindings_come_and_go_there_is_an_end_to_the_series() -> None:
    counted = tally.Tally()
    many = tally._MOST + 50
    for number in range(many):
        counted.call(Record(binding=f"b{number}"))
    calls = values(counted, "handler_calls_total")
    assert len(calls) == tally._MOST + 1
    assert calls["other", "other", "other", "ok"] == 50
    assert sum(calls.values()) == many
    counts = values(counted, "handler_call_duration_seconds_count")
    assert counts["other", "other", "other"] == 50
