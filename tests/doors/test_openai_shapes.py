"""The shapes of the OpenAI-compatible door: what is read, what is answered, where a text is cut."""

import base64
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.chains import history
from reconciler.doors import openai_asked, openai_kept, openai_said
from reconciler.doors.openai_asked import BadRequest
from reconciler.doors.openai_kept import Conversations
from reconciler.doors.openai_said import Faulted, Head, Said, Stream
from reconciler.doors.openai_stops import Cut
from reconciler.model import turnlines
from reconciler.model.outcome import Usage
from reconciler.model.turns import (
    Finish,
    Image,
    Message,
    ModelTurn,
    Sound,
    Text,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolResult,
    ToolSpec,
    ToolUse,
    Turn,
)

_PIXEL = base64.b64encode(b"\x89PNG pixel").decode()
_TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def _read(**fields: Any) -> openai_asked.Asked:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    return openai_asked.read(orjson.dumps(body))


def _shown(*content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(content)}]}


def _picture(url: object) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def test_a_whole_request_is_understood() -> None:
    asked = _read(
        messages=[
            {"role": "developer", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "seen"},
        ],
        tools=[_TOOL], tool_choice={"type": "function", "function": {"name": "look"}},
        temperature=0.5, top_p=1, seed=7, max_tokens=9, max_completion_tokens=5, stop="END",
        reasoning_effort="none", stream=True, stream_options={"include_usage": True}, user="someone", n=1,
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
    )  # fmt: skip
    assert asked == openai_asked.Asked(
        Turn(
            "m",
            (
                Message("system", (Text("be brief"),)),
                Message("user", (Text("a\nb"),)),
                Message("assistant", (ToolUse("c1", "look", "{}"),)),
                Message("tool", (ToolResult("c1", "seen"),)),
            ),
            (ToolSpec("look", "", {"type": "object"}),),
            "tool:look",
            max_tokens=5,
            temperature=0.5,
            top_p=1.0,
            seed=7,
            stop=("END",),
            think="off",
            schema={"type": "object"},
            stream=True,
        ),
        with_usage=True,
    )


def test_c47_pictures_come_inline_or_not_at_all() -> None:
    asked = _read(
        **_shown({"type": "text", "text": "what is it?"}, _picture(f"data:image/png;base64,{_PIXEL}"))
    )
    assert asked.turn.messages[0].parts == (Text("what is it?"), Image("image/png", b"\x89PNG pixel"))
    for url in (
        "http://example.org/a.png",
        "https://example.org/a.png",
        "data:image/png,plain",
        "data:image/png;base64,not base64!",
        "data:image/png;base64,",
        "data:text/html;base64,aGk=",
        "file:///etc/passwd",
        None,
    ):
        with pytest.raises(BadRequest) as told:
            _read(**_shown(_picture(url)))
        assert told.value.param == "messages[0].content[0].image_url.url"
        assert Faulted(told.value.code or "invalid_input").status == 400


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [1]}, "messages[0]"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
        (_shown({"type": "input_audio", "input_audio": {}}), "messages[0].content[0].type"),
        (_shown({"type": "text", "text": 1}), "messages[0].content[0].text"),
        ({"messages": [{"role": "system", "content": [_picture(f"data:image/png;base64,{_PIXEL}")]}]},
         "messages[0].content"),
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"functions": [{}]}, "functions"),
        ({"temperature": "warm"}, "temperature"),
        ({"temperature": 3}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": 1.5}, "max_completion_tokens"),
        ({"stop": 5}, "stop"),
        ({"stop": ["x"] * 3 + [7]}, "stop"),
        ({"stop": [str(n) for n in range(17)]}, "stop"),
        ({"tools": [{"type": "custom"}]}, "tools[0]"),
        ({"tools": [_TOOL, _TOOL]}, "tools"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        ({"tools": [_TOOL], "tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"reasoning_effort": "huge"}, "reasoning_effort"),
        ({"stream": "yes"}, "stream"),
        ({"model": 5}, "model"),
    ],
)  # fmt: skip
def test_what_cannot_be_honoured_is_refused_by_its_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(BadRequest) as told:
        _read(**fields)
    assert told.value.param == param
    assert Faulted(told.value.code or "invalid_input").status == 400


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"hi"', b"\xff", b"[" * 100_000])
def test_what_is_no_request_is_said_to_be_none(body: bytes) -> None:
    with pytest.raises(BadRequest):
        openai_asked.read(body)


def test_e31_stop_is_a_text_or_a_list_of_texts() -> None:
    assert _read(stop="END").turn.stop == ("END",)
    assert _read(stop=["a", "b", "a", ""]).turn.stop == ("a", "b")
    assert _read(stop=None).turn.stop == ()


def test_a_chain_is_named_as_a_model_and_the_first_model_by_no_name() -> None:
    assert _read(model="chain:triage").chain == "triage"
    assert [_read(model=name).turn.model for name in ("chain:triage", "default", "", None, "gpt-5")] == [
        "", "", "", "", "gpt-5",
    ]  # fmt: skip


def test_messages_become_the_history_that_a_chain_reads() -> None:
    told = openai_asked.as_history(
        (
            Message("user", (Text("hi"), Image("image/png", b"abc"))),
            Message("assistant", (Text("hm"), ToolUse("c1", "look", "{}"))),
            Message("tool", (ToolResult("c1", "seen"),)),
        )
    )
    found = history.from_json(told)
    assert [one.role for one in found.messages] == ["user", "assistant", "tool"]
    assert found.has_images and found.messages[0].images[0].data == base64.b64encode(b"abc").decode()
    assert found.messages[1].calls[0].name == "client.look"
    assert found.messages[2].tool_call_id == "c1"


def test_answers_have_the_form_of_the_protocol() -> None:
    head = Head("chatcmpl-1", 5, "m")
    said = Said("hi", "length", usage=Usage(3, 4, cached_tokens=1, reasoning_tokens=2))
    whole = openai_said.whole(head, said)
    assert whole["choices"][0] == {
        "index": 0, "logprobs": None, "finish_reason": "length",
        "message": {"role": "assistant", "content": "hi", "refusal": None},
    }  # fmt: skip
    assert whole["usage"]["total_tokens"] == 7
    called = openai_said.whole(head, Said("", "stop", (ToolUse("c1", "look", "{}"),)))
    assert called["choices"][0]["finish_reason"] == "tool_calls"
    assert called["choices"][0]["message"]["content"] is None
    assert openai_said.whole(Head("i", 5, "m", "scripted"), said)["system_fingerprint"] == "scripted"


def test_a_stream_says_who_speaks_what_why_it_ends_and_what_was_counted() -> None:
    stream = Stream(Head("chatcmpl-1", 5, "m"), with_usage=True)
    told = stream.begin() + stream.piece(TextDelta("hi")) + stream.piece(ThinkingDelta("hm"))
    told += stream.piece(ToolCallDelta(0, "c1", "look", "{")) + stream.piece(ToolCallDelta(0, arguments="}"))
    told += stream.end(Said("hi", "tools", (ToolUse("c1", "look", "{}"),), usage=Usage(1, 2)))
    lines = told.decode().split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    chunks = [orjson.loads(one.removeprefix("data: ")) for one in lines[:-2]]
    deltas = [one["choices"][0]["delta"] for one in chunks[:-1]]
    assert deltas == [
        {"role": "assistant", "content": ""},
        {"content": "hi"},
        {"tool_calls": [{"index": 0, "id": "c1", "type": "function",
                         "function": {"name": "look", "arguments": "{"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]},
        {},
    ]  # fmt: skip
    assert [one["usage"] for one in chunks[:-1]] == [None] * 5
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize(
    ("code", "status", "again"),
    [
        ("invalid_input", 400, "false"), ("no_vision_model", 400, "false"), ("refused", 403, "false"),
        ("approval_denied", 403, "false"), ("model_not_found", 404, "false"), ("no_models", 404, "false"),
        ("limit", 429, "true"), ("rate_limit", 429, "true"), ("unavailable", 503, "false"),
        ("timeout", 504, "false"), ("outcome_unknown", 500, "false"), ("step_limit", 500, "false"),
    ],
)  # fmt: skip
def test_each_code_has_a_status_and_says_whether_to_ask_again(code: str, status: int, again: str) -> None:
    fault = Faulted(code, "secret words of a vendor", retry_after_s=2.4)
    assert (fault.status, fault.headers) == (status, {"x-should-retry": again, "retry-after": "2"})
    error = fault.body()["error"]
    assert set(error) == {"message", "type", "param", "code"} and error["code"] == code
    assert "secret" not in error["message"]


# cutting


@pytest.mark.parametrize(
    ("stops", "text", "left"),
    [
        (("END",), "one END two", "one "),
        (("b", "a"), "xxab", "xx"),
        (("abcdef", "cd"), "abcdef", ""),
        (("abcdef", "cd"), "abcdX", "ab"),
        (("END",), "the EN", "the EN"),
        ((), "END", "END"),
    ],
)
def test_a_text_ends_at_the_first_stop(stops: tuple[str, ...], text: str, left: str) -> None:
    cut = Cut(stops)
    assert "".join(map(cut.feed, text)) + cut.flush() == left


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.text("ab", max_size=20), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3), st.data())
def test_pieces_are_cut_where_the_whole_is(text: str, stops: list[str], data: st.DataObject) -> None:
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[begin:end] for begin, end in zip([0, *places], [*places, len(text)], strict=True)]
    cut = Cut(tuple(stops))
    found = [place for one in stops if (place := text.find(one)) >= 0]
    assert "".join(map(cut.feed, pieces)) + cut.flush() == text[: min(found, default=len(text))]
    assert cut.ended == bool(found)


# lines between processes

_PARTS = st.one_of(
    st.builds(Text, st.text(max_size=5)),
    st.builds(Image, st.just("image/png"), st.binary(max_size=5)),
    st.builds(ToolUse, st.text(max_size=3), st.text(max_size=3), st.text(max_size=3)),
    st.builds(ToolResult, st.text(max_size=3), st.text(max_size=3), st.booleans()),
)
_MESSAGES = st.builds(
    Message, st.sampled_from(["user", "assistant"]), st.lists(_PARTS, max_size=3).map(tuple)
)


@settings(max_examples=50, deadline=None)
@given(st.lists(_MESSAGES, max_size=3).map(tuple), st.lists(st.text(max_size=3), max_size=2).map(tuple))
def test_a_turn_passes_a_line_unchanged(messages: tuple[Message, ...], stops: tuple[str, ...]) -> None:
    turn = Turn(
        "m", messages, (ToolSpec("t", "d", {"type": "object"}),), "auto", 5, 0.5, stop=stops, stream=True
    )
    assert turnlines.turn_from(orjson.loads(orjson.dumps(turnlines.turn(turn)))) == turn


def test_pieces_and_answers_pass_a_line_unchanged() -> None:
    for event in (
        TextDelta("a"),
        ThinkingDelta("b"),
        ToolCallDelta(1, "c", "n", "{"),
        Usage(1, 2),
        Finish("stop"),
    ):
        assert turnlines.event_from(orjson.loads(orjson.dumps(turnlines.event(event)))) == event
    turn = ModelTurn("hi", "tools", (ToolUse("c", "n", "{}"),), "hm", usage=Usage(1, 2), model="m")
    assert turnlines.answer_from(orjson.loads(orjson.dumps(turnlines.answer(turn)))) == turn


# conversations that are kept


def _says(text: str, role: Any = "user") -> Message:
    return Message(role, (Text(text),))


def test_a_conversation_goes_on_without_its_system_texts() -> None:
    kept = Conversations(iter("abc").__next__)
    one = kept.begin()
    kept.keep(one, (_says("be brief", "system"), _says("hi")), _says("ho", "assistant"))
    assert kept.find("a") is one and kept.find("x") is None
    joined = openai_kept.joined(one, (_says("be long", "system"), _says("more")))
    assert [part.text for each in joined for part in each.parts if isinstance(part, Text)] == [
        "be long", "hi", "ho", "more",
    ]  # fmt: skip


def test_conversations_are_bounded_in_number_size_and_time() -> None:
    now, names = [0.0], iter(range(10_000))
    kept = Conversations(lambda: str(next(names)), lambda: now[0])
    first = kept.begin()
    for _ in range(9):
        kept.keep(first, (_says("x" * 2**20),), _says("y", "assistant"))
    assert len(first.messages) == 14 and first.messages[0].role == "user"
    for _ in range(256):
        kept.begin()
    assert kept.find(first.id) is None and kept.find("256") is not None
    now[0] = 25 * 3600
    assert kept.find("256") is None


def test_all_conversations_together_have_a_bound_and_the_oldest_goes_first() -> None:
    names = iter(range(100))
    kept = Conversations(lambda: str(next(names)))
    begun = [kept.begin() for _ in range(12)]
    begun[1].busy = True
    for one in begun:
        for _ in range(7):
            kept.keep(one, (_says("x" * 2**20),), _says("y", "assistant"))
    left = [one.id for one in begun if kept.find(one.id) is not None]
    assert left == ["1", "4", "5", "6", "7", "8", "9", "10", "11"]  # the one that is answered now stays


def test_a_conversations_recordings_count_as_its_size() -> None:
    kept = Conversations(iter("a").__next__)
    one = kept.begin()
    for _ in range(9):
        heard = Message("user", (Sound("audio/wav", b"x" * 2**20),))
        kept.keep(one, (heard,), _says("y", "assistant"))
    assert len(one.messages) == 14
