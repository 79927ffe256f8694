"""Language models: one turn, asked of three dialects, comes back the same whole or streamed, or says why not.

Numbers are those of the public reports that connector law lists.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from reconciler.drivers import roll
from reconciler.drivers.asking import Unsealable
from reconciler.model.dialect import Profile
from reconciler.model.outcome import Rejected, Unknown, Usage
from reconciler.model.sealed import Reply
from reconciler.model.turns import (
    Answered,
    Event,
    Finish,
    Image,
    Message,
    Text,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolResult,
    ToolSpec,
    ToolUse,
    Turn,
)
from tests.kit import dialects
from tests.kit.vendors import PNG, Vendor, send, vendor

MODELS = ("chat", "messages", "responses")
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
ADD = ToolSpec("add", "Add numbers", SCHEMA)
HELLO = Turn(
    "m-1", (Message("system", (Text("Be kind."),)), Message("user", (Text("Hello"),))), max_tokens=50
)
HISTORY = replace(
    HELLO,
    messages=(
        *HELLO.messages,
        Message("assistant", (Text("One moment."), ToolUse("c0", "add", '{"a":2}'))),
        Message("tool", (ToolResult("c0", "4"),)),
        Message("user", (Text("See this:"), Image("image/png", PNG))),
    ),
    tools=(ADD,),
)


@pytest.fixture(scope="module")
def fake() -> Iterator[Vendor]:
    with vendor() as running:
        yield running


def _driver(profile: Profile) -> roll.ModelDriver:
    return roll.MODELS[profile.identity.driver]


def _asked(profile: Profile, turn: Turn) -> Reply:
    driver = _driver(profile)
    sealed = driver.seal(driver.call_of(turn, "call-1", profile, None), profile)
    assert sealed.is_whole()
    return send(sealed)


def _streamed(profile: Profile, turn: Turn, reply: Reply, size: int) -> tuple[list[Event], object]:
    decoder = _driver(profile).turn_decoder(reply, turn, profile)
    assert decoder is not None
    events: list[Event] = []
    for at in range(0, len(reply.body), size):
        events += decoder.feed(reply.body[at : at + size])
    return events, decoder.close()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("turn", [HELLO, HISTORY], ids=["hello", "history"])
def test_a_streamed_answer_is_the_whole_one_wherever_it_is_cut(name: str, turn: Turn, fake: Vendor) -> None:
    profile = dialects.named(name, fake.base)
    whole = _driver(profile).read_turn(_asked(profile, turn), turn, profile)
    assert isinstance(whole, Answered)
    assert whole.turn.usage.input_tokens == 5
    assert whole.turn.usage.output_tokens == 7
    assert whole.turn.usage.cached_tokens == 2
    wants_tool = bool(turn.tools)
    assert whole.turn.finish == ("tools" if wants_tool else "stop")
    assert [one.name for one in whole.turn.tools] == (["add"] if wants_tool else [])
    asked = replace(turn, stream=True)
    reply = _asked(profile, asked)
    seen = [_streamed(profile, asked, reply, size) for size in (1, 3, 64, len(reply.body))]
    for events, end in seen:
        assert end == whole
        assert events == seen[0][0]
    events = seen[0][0]
    assert "".join(one.text for one in events if isinstance(one, TextDelta)) == whole.turn.text
    assert "".join(one.text for one in events if isinstance(one, ThinkingDelta)) == whole.turn.thinking
    assert [one for one in events if isinstance(one, Finish)] == [Finish(whole.turn.finish)]
    assert [one for one in events if isinstance(one, Usage)][-1] == whole.turn.usage
    if wants_tool:
        deltas = [one for one in events if isinstance(one, ToolCallDelta)]
        assert "".join(one.arguments for one in deltas) == '{"a": 1}'
        assert [one.name for one in deltas if one.name] == ["add"]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("manner", ["cut", "error-midway", "unknown-event"])
def test_a_stream_that_breaks_off_or_says_what_nobody_knows_is_no_answer(name: str, manner: str) -> None:
    turn = replace(HELLO, stream=True)
    with vendor(manner) as fake:
        profile = dialects.named(name, fake.base)
        reply = _asked(profile, turn)
    _, end = _streamed(profile, turn, reply, 7)
    if manner == "error-midway":
        assert isinstance(end, Rejected)
        assert (end.code, end.effect) == ("unavailable", "unknown")
        assert "overloaded_error" in end.detail
        assert "vendor" not in end.detail
    else:
        assert isinstance(end, Unknown)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_report_18_a_model_that_was_not_asked_for_is_no_answer(name: str, stream: bool) -> None:
    turn = replace(HELLO, stream=stream)
    with vendor("substitutes") as fake:
        profile = dialects.named(name, fake.base)
        reply = _asked(profile, turn)
    end = (
        _streamed(profile, turn, reply, 9)[1] if stream else _driver(profile).read_turn(reply, turn, profile)
    )
    assert isinstance(end, Rejected)
    assert (end.reason, end.effect) == ("ModelSubstituted", "happened")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("manner", ["garbage", "list", "empty", "redirects", "error-in-200", "status-500"])
def test_what_is_no_answer_of_the_dialect_is_never_taken_for_one(name: str, manner: str) -> None:
    with vendor(manner) as fake:
        profile = dialects.named(name, fake.base)
        reply = _asked(profile, HELLO)
        assert len(fake.received) == 1  # report 23: a redirect is an answer, and not followed
    end = _driver(profile).read_turn(reply, HELLO, profile)
    assert isinstance(end, Rejected | Unknown)
    if isinstance(end, Rejected):
        assert (end.code, end.effect) == ("unavailable", "unknown")
    assert "vendor" not in repr(end)


@pytest.mark.parametrize("name", MODELS)
def test_an_answer_that_is_no_stream_is_read_whole(name: str, fake: Vendor) -> None:
    profile = dialects.named(name, fake.base)
    reply = _asked(profile, HELLO)
    assert _driver(profile).turn_decoder(reply, replace(HELLO, stream=True), profile) is None


@pytest.mark.parametrize("name", MODELS)
def test_a_schema_and_an_effort_are_asked_for_where_they_are_stated(name: str, fake: Vendor) -> None:
    profile = dialects.named(name, fake.base)
    turn = replace(HELLO, schema=SCHEMA, think="low")
    assert isinstance(_driver(profile).read_turn(_asked(profile, turn), turn, profile), Answered)
    sent = fake.received[-1].fields
    assert {
        "chat": lambda: (sent["response_format"]["json_schema"]["schema"], sent["reasoning_effort"]),
        "messages": lambda: (sent["output_config"]["format"]["schema"], sent["output_config"]["effort"]),
        "responses": lambda: (sent["text"]["format"]["schema"], sent["reasoning"]["effort"]),
    }[name]() == (SCHEMA, "low")


@pytest.mark.parametrize(
    ("turn", "fact"),
    [
        (HISTORY, "media.in:image/png"),
        (replace(HELLO, schema=SCHEMA), "field.response_format"),
        (replace(HELLO, think="low"), "field.reasoning_effort"),
        (replace(HELLO, temperature=0.5), "field.temperature"),
        (replace(HELLO, seed=4), "field.seed"),
        (replace(HELLO, stop=("x",)), "field.stop"),
        (replace(HELLO, stream=True), "stream.meaning"),
        (replace(HELLO, tools=(ADD,), tool_choice="required"), "field.tool_choice"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_profile_does_not_state_is_not_sent(turn: Turn, fact: str) -> None:
    profile = dialects.named("plain-chat")
    driver = _driver(profile)
    with pytest.raises(Unsealable) as refused:
        driver.seal(driver.call_of(turn, "c", profile, None), profile)
    assert refused.value.fact == fact


def test_a_server_without_developers_and_without_choices_is_asked_in_its_own_words() -> None:
    profile = dialects.named("plain-chat")
    turn = Turn(
        "m-1", (Message("developer", (Text("Be kind."),)),), tools=(ADD,), tool_choice="auto", max_tokens=5
    )
    fields = _driver(profile).call_of(turn, "c", profile, None).fields
    assert fields["messages"] == [{"role": "system", "content": "Be kind."}]
    assert fields["max_tokens"] == 5
    assert "tool_choice" not in fields


def test_facts_are_those_that_are_stated() -> None:
    chat, plain = dialects.named("chat"), dialects.named("plain-chat")
    rich = _driver(chat).facts(chat, "m-1")
    assert (rich.vision, rich.audio_in, rich.tools, rich.json_schema, rich.stream, rich.think) == (True,) * 6
    poor = _driver(plain).facts(plain, "m-1")
    assert (poor.vision, poor.audio_in, poor.json_schema, poor.stream, poor.think) == (False,) * 5
    assert poor.tools
    messages = dialects.named("messages")
    assert _driver(messages).facts(messages, "m-1").max_output_tokens == 4096


def test_messages_joins_neighbours_of_a_role_and_keeps_the_systems_words_apart() -> None:
    profile = dialects.named("messages")
    fields = _driver(profile).call_of(replace(HISTORY, max_tokens=None), "c", profile, None).fields
    assert fields["system"] == "Be kind."
    assert fields["max_tokens"] == 4096
    assert isinstance(sent := fields["messages"], list)
    assert [one["role"] for one in sent] == ["user", "assistant", "user"]
    assert [block["type"] for block in sent[2]["content"]] == ["tool_result", "text", "image"]


def test_a_call_of_tokens_counts_them(fake: Vendor) -> None:
    from reconciler.drivers.asking import Call

    profile = dialects.named("messages", fake.base)
    driver = roll.CALLS[profile.identity.driver]
    call = Call("c", "count-tokens", {"model": "m-1", "messages": []})
    done = driver.read(send(driver.seal(call, profile)), call, profile)
    assert done.result == {"inputTokens": 17}  # type: ignore[union-attr]


def test_report_19_an_answer_that_ignores_the_schema_is_given_as_the_text_it_is() -> None:
    turn = replace(HELLO, schema=SCHEMA)
    with vendor("ignores-schema") as fake:
        profile = dialects.named("chat", fake.base)
        end = _driver(profile).read_turn(_asked(profile, turn), turn, profile)
    assert isinstance(end, Answered)
    assert end.turn.text == "Hello, wörld."  # whoever gave the schema judges by it


def test_messages_says_a_usual_bound_where_nobody_said_one() -> None:
    words = dialects.named("messages").model_dump(by_alias=True, exclude_none=True)
    profile = Profile.model_validate({**words, "limits": {}})
    turn = replace(HELLO, max_tokens=None)
    assert _driver(profile).call_of(turn, "c", profile, None).fields["max_tokens"] == 4096
