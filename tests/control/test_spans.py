"""Calls as spans: a child of the trace that the request named, and never more than the record says."""

from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.control import spans
from reconciler.model.calls import CallRecord

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CALL = CallRecord(
    at=1_796_000_000.25,
    call="1a-2",
    session="s1",
    agent="clerk",
    interface="ocr/v1",
    tool="ocr_extract",
    binding="fine",
    instance="fine@a1f3",
    code="ok",
    ms=250.0,
    in_bytes=120,
    out_bytes=64,
    files=(("path", 5, "sha"),),
    diagnostic="exit 3 of /secret/place",
)


def hexes(count: int) -> str:
    return "ab" * count


def span(**changes: object) -> dict[str, object] | None:
    body = spans.request([replace(CALL, **changes)], hexes, "0.1.0")  # type: ignore[arg-type]
    if body is None:
        return None
    (resource,) = orjson.loads(body)["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    (found,) = scope["spans"]
    assert b"secret" not in body
    assert dict(found) == found
    return dict(found)


def test_a_call_is_a_span_of_its_own_trace() -> None:
    found = span()
    assert found is not None
    attributes = {one["key"]: next(iter(one["value"].values())) for one in found.pop("attributes")}  # type: ignore[attr-defined]
    assert found == {
        "traceId": "ab" * 16,
        "spanId": "ab" * 8,
        "name": "tools/call ocr_extract",
        "kind": 2,
        "startTimeUnixNano": "1796000000000000000",
        "endTimeUnixNano": "1796000000250000000",
        "status": {},
    }
    assert attributes["handler.binding"] == "fine"
    assert attributes["handler.out_bytes"] == "64"
    assert "error.type" not in attributes


@pytest.mark.parametrize(
    ("trace", "parent"),
    [
        (f"00-{TRACE}-{PARENT}-01", PARENT),
        (f"00-{TRACE}-{PARENT}-03", PARENT),
        (f"00-{TRACE.upper()}-{PARENT}-01", None),
        (f"00-{'0' * 32}-{PARENT}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"ff-{TRACE}-{PARENT}-01", None),
        ("", None),
    ],
)
def test_the_parent_is_the_one_that_the_request_names(trace: str, parent: str | None) -> None:
    found = span(trace=trace)
    assert found is not None
    assert found.get("parentSpanId") == parent
    assert found["traceId"] == (TRACE if parent else "ab" * 16)


def test_what_the_caller_does_not_sample_is_not_told() -> None:
    assert span(trace=f"00-{TRACE}-{PARENT}-00") is None
    both = [replace(CALL, trace=f"00-{TRACE}-{PARENT}-00"), CALL]
    body = spans.request(both, hexes, "0.1.0")
    assert body is not None
    assert len(orjson.loads(body)["resourceSpans"][0]["scopeSpans"][0]["spans"]) == 1


@pytest.mark.parametrize(("code", "error"), [("ok", None), ("cancelled", None), ("limit", "limit")])
def test_an_error_is_told_by_its_code(code: str, error: str | None) -> None:
    found = span(code=code)
    assert found is not None
    told = {
        one["key"]: one["value"]["stringValue"]
        for one in found["attributes"]
        if "stringValue" in one["value"]
    }  # type: ignore[attr-defined]
    assert told.get("error.type") == error
    assert found["status"] == ({"code": 2} if error else {})


@given(st.text(min_size=55, max_size=55))
def test_whatever_a_caller_names_its_trace_the_ids_are_ids(trace: str) -> None:
    found = span(trace=trace)
    if found is not None:
        assert len(bytes.fromhex(str(found["traceId"]))) == 16
        assert len(bytes.fromhex(str(found["spanId"]))) == 8
