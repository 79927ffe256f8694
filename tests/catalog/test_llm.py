"""The connectors of llm: every case against recorded shapes, what is sent, what a failing server becomes."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.conformance import cases
from reconciler.model import labour
from tests.catalog.calling import Call, Given, failure, outcome
from tests.catalog.loading import CONNECTORS, modules
from tests.kit import engineside, gateside
from tests.kit.engines import contract, interface, suite
from tests.kit.engineside import Asked, Reply, Served

OPENAI, COMPLETING = modules("llm-openai", "main", "completing")
(ENGINE,) = modules("llm-llamacpp", "engine")
SCOPE = interface("llm/v1") / "conformance"
KEY = "sk-nobody-may-see-this-one"
SCHEMA = """{"type": "object", "additionalProperties": false, "required": ["wet"],
  "properties": {"wet": {"type": "boolean"}}}"""
TOOL = contract("llm/v1").tools["llm_complete"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    with engineside.serving(engineside.chat) as made:
        monkeypatch.setenv("LLM_SERVER", made.origin + "/v1")
        monkeypatch.setenv("LLM_MODEL", "small-1")
        with gateside.gated("llm-openai", KEY, made.origin):
            yield made


def ask(**arguments: Any) -> dict[str, Any]:
    answer: dict[str, Any] = OPENAI.complete({"prompt": "Is water wet?", **arguments}, Call())
    assert TOOL.output_fault(answer) is None
    return answer


def said(text: str, **more: Any) -> Callable[[Asked], Reply]:
    return lambda asked: engineside.chat_said(asked, text, **more)


@pytest.mark.parametrize("way", ["json_schema", "json_object", "words"])
@pytest.mark.parametrize("case", suite("llm/v1"), ids=lambda case: case.name)
def test_a_server_keeps_every_case_however_it_is_told_of_a_schema(
    server: Served, monkeypatch: pytest.MonkeyPatch, case: cases.Case, way: str
) -> None:
    monkeypatch.setenv("LLM_ANSWERS", way)
    found = outcome(contract("llm/v1"), {"llm_complete": OPENAI.complete}, case, SCOPE)
    assert cases.judge(case, found) == ()


def test_what_two_connectors_share_is_the_same_to_the_byte() -> None:
    assert len({path.read_bytes() for path in CONNECTORS.glob("llm-*/completing.py")}) == 1
    own = Path(labour.__file__).read_bytes()
    assert {path.read_bytes() for path in CONNECTORS.glob("llm-*/labour.py")} == {own}


@pytest.mark.parametrize("keyword", ["anyOf", "allOf"])
def test_a_schema_that_would_take_for_ever_is_refused(server: Served, keyword: str) -> None:
    levels = {f"l{n}": {keyword: [{"$ref": f"#/$defs/l{n + 1}"}] * 2} for n in range(50)}
    schema = {"$ref": "#/$defs/l0", "$defs": {**levels, "l50": {"type": "integer"}}}
    assert failure(lambda: ask(schema=json.dumps(schema)))[0] == "unsupported_schema"
    assert not server.asked


def test_what_is_sent_is_the_whole_of_the_call_and_the_key_stands_in_its_header_alone(server: Served) -> None:
    ask(system="You are brief.", input="The sea.", maxTokens=9, model="big-2")
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("POST", "/v1/chat/completions")
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body == {
        "model": "big-2",
        "messages": [
            {"role": "system", "content": "You are brief."},
            {"role": "user", "content": "Is water wet?\n\nThe sea."},
        ],
        "max_tokens": 9,
        "stream": False,
    }


def test_the_bound_goes_by_the_field_that_the_binding_names(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_TOKENS_FIELD", "max_completion_tokens")
    ask()
    assert server.asked[0].body["max_completion_tokens"] == 2048
    assert "max_tokens" not in server.asked[0].body


def test_without_a_key_nothing_stands_in_for_it(server: Served) -> None:
    with gateside.gated("llm-openai", "", server.origin):
        ask()
    assert "authorization" not in server.asked[0].headers


def test_a_value_that_does_not_fit_is_asked_for_once_more_with_the_fault(server: Served) -> None:
    answers = iter(['{"wet": "very"}', '```json\n{"wet": true}\n```'])
    server.answer = lambda asked: engineside.chat_said(asked, next(answers))
    answer = ask(schema=SCHEMA)
    assert (answer["valid"], answer["value"]) == (True, {"wet": True})
    first, second = server.asked
    assert second.body["messages"][:1] == first.body["messages"]
    assert second.body["messages"][1] == {"role": "assistant", "content": '{"wet": "very"}'}
    assert (
        answer["usage"]["outTokens"] == 2 * engineside.chat_said(first, "").body["usage"]["completion_tokens"]
    )


@pytest.mark.parametrize(
    "text",
    ["no JSON", '{"wet": "very"}', '{"wet": NaN}', "", "[" * 100_000, '"\\ud800"', '{"\\ud800": 1}', "1e999"],
)
def test_a_second_answer_that_does_not_fit_is_given_as_it_is(server: Served, text: str) -> None:
    server.answer = said(text)
    answer = ask(schema=SCHEMA)
    assert (answer["valid"], answer["text"], "value" in answer) == (False, text, False)
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("value", "comes"),
    [
        (7, True),
        (None, True),
        ([[[[[1]]]]], True),
        ([[[[[[1]]]]]], False),
        ({"a": {"b": {"c": [{"d": 1}]}}}, True),
    ],
)
def test_a_value_comes_back_unless_it_is_deeper_than_the_answer_holds(
    server: Served, value: Any, *, comes: bool
) -> None:
    server.answer = said(json.dumps(value))
    answer = ask(schema="{}")
    assert answer["valid"]
    assert ("value" in answer) is comes
    assert answer.get("value", value) == value
    assert json.loads(answer["text"]) == value


@pytest.mark.slow
@settings(max_examples=60)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=12,
    )
)
def test_whatever_a_model_writes_the_answer_keeps_the_contract(value: Any) -> None:
    turn = COMPLETING.Turn(json.dumps(value), 1, 1)
    answer = COMPLETING.complete({"prompt": "x", "schema": "{}"}, lambda *_: turn, window=4096, sees=False)
    assert TOOL.output_fault(answer) is None


@pytest.mark.parametrize("text", ['"\\ud800"', '["\\ud800"]', '{"\\ud800": 1}', "-1e999", "9" * 4001])
def test_what_json_cannot_hold_is_no_value_whatever_the_schema(text: str) -> None:
    turn = COMPLETING.Turn(text, 1, 1)
    answer = COMPLETING.complete({"prompt": "x", "schema": "{}"}, lambda *_: turn, window=4096, sees=False)
    assert (answer["valid"], "value" in answer) == (False, False)


@pytest.mark.parametrize(("text", "value"), [("18446744073709551615", 2**64 - 1), ("9" * 30, 1e30)])
def test_integers_are_exact_as_far_as_readers_keep_them(text: str, value: float) -> None:
    turn = COMPLETING.Turn(text, 1, 1)
    answer = COMPLETING.complete({"prompt": "x", "schema": "{}"}, lambda *_: turn, window=4096, sees=False)
    assert (answer["value"], type(answer["value"])) == (value, type(value))


@pytest.mark.parametrize("text", [f"[{'1,' * 100_000}1]", json.dumps("x" * 1_000_000)])
def test_a_value_for_which_the_answer_has_no_room_comes_as_text_alone(text: str) -> None:
    turn = COMPLETING.Turn(text, 1, 1)
    answer = COMPLETING.complete({"prompt": "x", "schema": "{}"}, lambda *_: turn, window=4096, sees=False)
    assert TOOL.output_fault(answer) is None
    assert (answer["valid"], "value" in answer) == (True, False)


@pytest.mark.parametrize(
    ("echo", "named", "taken"),
    [
        ("", "small-1", True), ("", "small-1-2026-10-01", True), ("", "small-1-0613", True),
        ("", "small-1:latest", True), ("", None, True), ("", "small-1-mini", False), ("", "small-1.5", False),
        ("", "small-1-32k", False), ("", "tiny", False), ("", ["small-1"], False), ("exact", "small-1", True),
        ("exact", "small-1-2026-10-01", False), ("exact", None, False), ("any", "models/x.gguf", True),
    ],
)  # fmt: skip
def test_a_server_that_answers_with_another_model_is_found_out(
    server: Served, monkeypatch: pytest.MonkeyPatch, echo: str, named: Any, *, taken: bool
) -> None:
    monkeypatch.setenv("LLM_ECHO", echo)
    server.answer = said("Good day.", model=named)
    if taken:
        assert ask()["text"] == "Good day."
    else:
        code, words = failure(ask)
        assert (code, words) == (
            "unavailable",
            "answered with another model than was asked for (settings.echo)",
        )


def test_images_go_along_where_the_model_reads_them(
    server: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    picture = tmp_path / "a.dat"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n and so on")
    assert failure(lambda: ask(images=[Given(picture)]))[0] == "unsupported_image"
    monkeypatch.setenv("LLM_IMAGES", "true")
    ask(images=[Given(picture)])
    image, text = server.asked[0].body["messages"][0]["content"]
    assert image["image_url"]["url"].startswith("data:image/png;base64,iVBORw0KGg")
    assert text == {"type": "text", "text": "Is water wet?"}


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply({"error": {"code": "context_length_exceeded", "message": "no"}}, 400), "too_long"),
        (Reply({"error": {"code": 400, "type": "exceed_context_size_error"}}, 400), "too_long"),
        (Reply({}, 413), "too_long"),
        (Reply({"error": {"code": "invalid_image_format"}}, 400), "unsupported_image"),
        (Reply({"error": {"code": "invalid_json_schema"}}, 400), "unsupported_schema"),
        (Reply({"error": {"code": ["x"], "type": {"y": 1}}}, 400), "unavailable"),
        (Reply({"error": "text"}, 400), "unavailable"),
        *((Reply({}, status), "unavailable") for status in (301, 401, 403, 404, 429, 500, 529)),
        *((Reply(body), "unavailable") for body in ({}, [], {"choices": []}, {"choices": [{"message": 7}]})),
        (Reply({"choices": [{"message": {"content": ["x"]}}]}), "unavailable"),
        (Reply({"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": -1}}), "unavailable"),
        (
            Reply({"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": 10**400}}),
            "unavailable",
        ),
        (Reply({"choices": [{"message": {"content": None, "refusal": "I will not"}}]}), "unavailable"),
        (Reply(raw=b"data: {}\n\n"), "unavailable"),
        (Reply({"error": {"code": "context_length_exceeded", "message": KEY}}, 400), "unavailable"),
    ],
    ids=lambda one: str(one)[:60],
)
def test_what_a_server_says_instead_becomes_a_code_and_its_words_go_nowhere(
    server: Served, reply: Reply, code: str
) -> None:
    server.answer = lambda asked: reply
    found, diagnostic = failure(ask)
    assert found == code
    assert not any(word in diagnostic for word in (KEY, "I will not", "text"))
    assert len(server.asked) == 1  # what may have cost is not sent again


def test_no_model_is_told_to_the_operator(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_MODEL", "")
    assert failure(ask) == (
        "unavailable",
        "no model is named: write models, or settings.model, in the binding",
    )
    assert server.asked == []


# llama.cpp's folder of models, without its engine


@pytest.mark.parametrize(
    ("files", "named", "found"),
    [
        (["a.gguf"], None, "a"), (["a.gguf", "b.gguf"], "b", "b"), (["a.gguf", "note.txt"], None, "a"),
        (["a.gguf", "b.gguf"], None, ""), ([], None, ""), (["a.gguf"], "c", ""), (["a.gguf"], "../a", ""),
        (["a.gguf"], "a.gguf", ""), (["a.gguf"], "pipe", ""), ([".gguf"], "", ""),
    ],
)  # fmt: skip
def test_a_model_is_one_file_of_the_folder(
    files: list[str], named: str | None, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in files:
        (tmp_path / name).touch()
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "folder.gguf").mkdir()
    monkeypatch.setenv("LLAMA_MODELS", str(tmp_path))
    if found:
        assert ENGINE.model(named) == found
    else:
        with pytest.raises(ENGINE.UnknownModelError):
            ENGINE.model(named)


def test_a_schema_that_the_engine_makes_no_grammar_of_is_told_apart_from_a_fault() -> None:
    answer = ENGINE._Answer(lambda: False)
    answer.take({"error": {"type": "invalid_request_error", "message": "failed to parse grammar"}})
    with pytest.raises(ENGINE.UnusableSchemaError):
        answer.whole(with_schema=True)
    with pytest.raises(RuntimeError):
        answer.whole(with_schema=False)
