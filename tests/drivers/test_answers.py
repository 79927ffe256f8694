"""Answers into outcomes: whatever stands in them, one outcome out of the list, and no words of a vendor's."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.drivers import reading, roll
from reconciler.drivers.asking import Call, Job
from reconciler.model.dialect import Profile
from reconciler.model.outcome import Absent, Accepted, Cancelled, Done, Expired, Pending, Rejected, Unknown
from reconciler.model.sealed import Reply
from reconciler.model.turns import Answered, Message, Text, Turn
from tests.kit import dialects
from tests.kit.effort import times

PROFILES = {name: dialects.named(name) for name in dialects.NAMES}
WORDS = st.sampled_from(
    ["id", "model", "choices", "message", "content", "finish_reason", "stop", "tool_calls", "function",
     "name", "arguments", "type", "text", "tool_use", "input", "stop_reason", "end_turn", "output", "status",
     "completed", "queued", "data", "b64_json", "url", "usage", "error", "code", "embedding", "index",
     "delta", "response", "m-1", "message_start", "content_block_start", "content_block", "segments"]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=12,
)
BODIES = VALUES.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=40)
EVENTS = st.lists(
    st.tuples(WORDS | st.sampled_from(["", "response.completed", "image_generation.completed"]), BODIES)
)
HEADERS = st.dictionaries(
    st.sampled_from(
        ["content-type", "retry-after", "x-reset", "x-left", "x-request-id", "date", "x-poll-after"]
    ),
    st.sampled_from(
        ["", "text/event-stream", "7", "-1", "1m", "é", "x" * 200, "Wed, 21 Oct 2099 07:28:00 GMT", "nan"]
    ),
)
STATUSES = st.sampled_from([100, 200, 204, 302, 400, 404, 409, 410, 429, 500, 599])
TURN = Turn("m-1", (Message("user", (Text("x"),)),))
OUTCOMES = (Done, Rejected, Unknown, Answered, Accepted, Pending, Cancelled, Absent, Expired)


@settings(max_examples=times(50), deadline=None)
@given(st.sampled_from(dialects.NAMES), STATUSES, HEADERS, BODIES)
def test_no_answer_makes_a_driver_raise(name: str, status: int, headers: dict[str, str], body: bytes) -> None:
    profile, reply = PROFILES[name], Reply(status, headers, body)
    driver = profile.identity.driver
    for operation in profile.operations:
        call = Call("c", operation.name, {"model": "m-1", "input": ["a"]})
        if driver in roll.CALLS:
            assert isinstance(roll.CALLS[driver].read(reply, call, profile), OUTCOMES)
        if driver in roll.MODELS:
            assert isinstance(roll.MODELS[driver].read_turn(reply, TURN, profile), OUTCOMES)
        if driver in roll.JOBS:
            _jobs(profile, reply, call)


def _jobs(profile: Profile, reply: Reply, call: Call) -> None:
    driver, job = roll.JOBS[profile.identity.driver], Job("c", call.operation, "m-1", "k", "t")
    assert isinstance(driver.read_submit(reply, call, profile), OUTCOMES)
    for by in ("job-id", "key", "tag"):
        assert isinstance(driver.read_lookup(reply, job, profile, by), OUTCOMES)
    assert isinstance(driver.read_fetch(reply, job, "video", profile), OUTCOMES)
    assert driver.read_cancel(reply, job, profile).answer in ("proved", "requested", "refused", "unknown")


@pytest.mark.slow
@settings(max_examples=times(60), deadline=None)
@given(st.sampled_from(["chat", "messages", "responses", "images", "audio"]), EVENTS, st.integers(1, 30))
def test_no_stream_makes_a_driver_raise_and_cuts_change_nothing(
    name: str, events: list[tuple[str, bytes]], size: int
) -> None:
    profile = PROFILES[name]
    driver = roll.CALLS[profile.identity.driver]
    data = b"".join(b"event: %b\ndata: %b\n\n" % (kind.encode(), body) for kind, body in events)
    head = Reply(200, {"content-type": "text/event-stream"})
    ends = []
    for step in (size, len(data) or 1):
        decoder = driver.decoder(head, Call("c", profile.operations[0].name, {"model": "m-1"}), profile)
        assert decoder is not None
        found = [one for at in range(0, len(data), step) for one in decoder.feed(data[at : at + step])]
        ends.append((found, decoder.close()))
    assert repr(ends[0]) == repr(ends[1])  # by its words: numbers that are none differ from themselves
    assert isinstance(ends[0][1], OUTCOMES)


def test_report_17_a_reply_that_lists_what_is_no_model_names_none() -> None:
    junk = {"object": "list", "data": [{"id": one} for one in (".git", "Dockerfile", "LICENSE")]}
    profile = PROFILES["chat"]
    end = roll.MODELS["openai-chat@1"].read_turn(Reply(200, {}, json.dumps(junk).encode()), TURN, profile)
    assert isinstance(end, Rejected | Unknown)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-7"}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, None),
        ({"retry-after": "Wed, 21 Oct 2020 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 0.0),
    ],
)
def test_a_wait_is_read_where_it_can_be(headers: dict[str, str], seconds: float | None) -> None:
    assert reading.seen(Reply(429, headers), PROFILES["chat"]).limits.retry_after_s == seconds


@pytest.mark.parametrize(
    ("form", "value", "seconds"),
    [
        ("go-duration", "6m0s", 360.0),
        ("go-duration", "1h2m3.5s", 3723.5),
        ("go-duration", "120ms", 0.12),
        ("go-duration", "6", None),
        ("seconds", "12", 12.0),
        ("epoch", "1792567710", 30.0),
        ("rfc3339", "2026-10-21T07:28:30Z", 30.0),
        ("rfc3339", "2026-10-21T07:28:30", None),
        ("rfc3339", "tomorrow", None),
    ],
)
def test_a_reset_is_read_in_the_profiles_form(form: str, value: str, seconds: float | None) -> None:
    words = PROFILES["chat"].model_dump(by_alias=True, exclude_none=True)
    limits = {"resetFormat": form, "headers": {"requestsReset": "x-reset"}}
    profile = Profile.model_validate({**words, "rateLimit": limits})
    reply = Reply(200, {"x-reset": value, "date": "Wed, 21 Oct 2026 07:28:00 GMT"})
    found = reading.seen(reply, profile).limits
    assert found.said == {"requestsReset": value}
    assert found.reset_s == ({} if seconds is None else {"requestsReset": seconds})


def test_what_is_no_request_id_or_no_plain_header_is_not_kept() -> None:
    reply = Reply(200, {"x-request-id": "<b>vendor</b>", "x-left": "é"})
    assert reading.seen(reply, PROFILES["chat"]) == reading.seen(Reply(200, {}), PROFILES["chat"])


@pytest.mark.parametrize(("echo", "said", "counts"), [
    ("exact", "m-1", True), ("exact", "m-1-2026", False), ("exact", None, False),
    ("prefix", "m-1-2026", True), ("prefix", "m-2", False), ("unreliable", "m-2", True),
])  # fmt: skip
def test_report_18_a_model_echoes_as_the_profile_says(echo: str, said: str | None, counts: bool) -> None:
    words = PROFILES["chat"].model_dump(by_alias=True, exclude_none=True)
    profile = Profile.model_validate({**words, "echo": {"model": echo}})
    assert reading.substituted(profile, "m-1", {"model": said} if said else {}) is not counts


def test_a_drivers_outcome_holds_no_words_of_the_vendor() -> None:
    body = {
        "error": {"code": "Words of a vendor: key sk-123", "type": "words of", "message": "words of a vendor"}
    }
    found = reading.refusal(Reply(418, {}, json.dumps(body).encode()), PROFILES["chat"])
    assert found == Rejected("unavailable", "status 418", seen=found.seen)
