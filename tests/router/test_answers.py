"""Every byte that an agent is sent about a call."""

from typing import Any

import orjson
import pytest

from reconciler.router import answers, mcp
from reconciler.router.mcp import Call
from tests.router import stage


def called(modern: bool = False, ident: Any = 7) -> Call:
    served = mcp.Face("ocr", "1", [stage.route(stage.ocr())])
    return Call(ident, served.offers["ocr_extract"], {}, modern)


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("ident", [7, 'a"b\n'])
def test_success_carries_the_structure_and_the_identical_json_as_text(modern: bool, ident: Any) -> None:
    structured = orjson.dumps({"pages": [{"text": 'a "quoted"\nline \u2028 é'}]})
    message = orjson.loads(answers.success(called(modern, ident), structured))
    assert message["id"] == ident
    result = message["result"]
    assert result["structuredContent"] == orjson.loads(structured)
    assert result["content"] == [{"type": "text", "text": structured.decode()}]
    assert result.get("resultType") == ("complete" if modern else None)
    assert "isError" not in result


def test_a_long_answer_is_not_said_twice_but_begins_in_the_text() -> None:
    """Some harnesses show their model the text alone: to say only where to look is to say nothing."""
    structured = orjson.dumps({"text": "ü" * 60_000})
    result = orjson.loads(answers.success(called(), structured))["result"]
    assert result["structuredContent"] == orjson.loads(structured)
    first, begun = result["content"][0]["text"].split("\n")
    assert f"of its {len(structured)} bytes the first 32768 follow" in first
    assert structured.decode().startswith(begun)
    assert len(begun.encode()) == 32_767  # the next byte is half a character


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("unsupported_format", "the file is not a PDF or an image"),
        ("unavailable", "the service is down or out of quota; retrying later may work"),
        ("limit", mcp.ROUTER_TEXTS["limit"]),
        ("refused", mcp.ROUTER_TEXTS["refused"]),
    ],
)
def test_an_error_is_prose_then_json_with_a_copy_for_machines(word: str, text: str) -> None:
    result = orjson.loads(answers.failure(called(), word))["result"]
    assert result["isError"] is True
    assert "structuredContent" not in result
    first, second = result["content"][0]["text"].split("\n")
    assert text in first
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(first)
    body = {"error": word, "message": text}
    assert orjson.loads(second) == body
    assert result["_meta"] == {"ai.handler/error": body}


def test_an_invalid_input_names_the_field() -> None:
    result = orjson.loads(answers.failure(called(modern=True), "invalid_input", "path is missing"))["result"]
    assert result["_meta"]["ai.handler/error"]["message"].endswith(": path is missing")
    assert result["resultType"] == "complete"
