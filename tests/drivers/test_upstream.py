"""The MCP that our side speaks to a connector: what is written, and what is understood."""

import time
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.drivers import upstream
from reconciler.drivers.upstream import Garbage, Progressed
from reconciler.model.calls import Refusal, Result
from reconciler.wire.jsonrpc import Response


def line(**message: Any) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0"} | message) + b"\n"


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def reply(result: Any) -> Any:
    heard = upstream.read(line(id=3, result=result))
    assert isinstance(heard, Response)
    return upstream.reply(heard)


def test_what_is_written_is_mcp() -> None:
    first = orjson.loads(upstream.initialize(0, "1.2"))
    assert first["method"] == "initialize"
    assert first["params"]["protocolVersion"] == "2025-11-25"
    assert first["params"]["capabilities"] == {}
    assert orjson.loads(upstream.INITIALIZED) == {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert orjson.loads(upstream.ping(5)) == {"jsonrpc": "2.0", "id": 5, "method": "ping"}
    assert orjson.loads(upstream.cancel(5))["params"] == {"requestId": 5}
    call = orjson.loads(upstream.call(5, "ocr_extract", {"a": 1}, progress=False))
    assert call["params"] == {"name": "ocr_extract", "arguments": {"a": 1}}
    call = orjson.loads(upstream.call(5, "ocr_extract", {}, progress=True))
    assert call["params"]["_meta"] == {"progressToken": 5}


def test_a_structured_answer_is_a_result() -> None:
    assert reply({"structuredContent": {"pages": []}, "content": []}) == Result({"pages": []}, {})
    assert reply({"structuredContent": {}, "isError": False}) == Result({}, {})


def test_output_files_come_by_their_blobs() -> None:
    files = {"ai.handler/files": {"to": {"blob": "b1", "size": 3}}}
    assert reply({"structuredContent": {}, "_meta": files}) == Result({}, {"to": "b1"})


@pytest.mark.parametrize("files", [[], "x", {"to": "b1"}, {"to": {"blob": 5}}, {"to": {}}, None])
def test_files_that_are_not_as_agreed_are_unavailable(files: Any) -> None:
    found = reply({"structuredContent": {}, "_meta": {"ai.handler/files": files}})
    assert found == Refusal("unavailable", "the answer's files are not as agreed")


@pytest.mark.parametrize(
    ("result", "refusal"),
    [
        (
            {"isError": True, "_meta": {"ai.handler/error": {"code": "too_large", "diagnostic": "9 MB"}}},
            Refusal("too_large", "9 MB"),
        ),
        (
            {
                "isError": True,
                "content": [{"type": "text", "text": '{"error":"too_large","message":"9 MB"}'}],
            },
            Refusal("too_large", "9 MB"),
        ),
        (
            {
                "isError": True,
                "content": [{"type": "text", "text": 'Sorry.\n{"error":"too_large","message":"m"}'}],
            },
            Refusal("too_large", "m"),
        ),
        (
            {
                "isError": True,
                "structuredContent": {"error": "too_large", "message": "x"},
                "_meta": {"ai.handler/error": {"code": "too_large"}},
            },
            Refusal("too_large", ""),
        ),
        (
            {"isError": True, "content": [text("boom\nTraceback")]},
            Refusal("unavailable", "boom Traceback"),
        ),
        ({"isError": True}, Refusal("unavailable", "an error without a code")),
        ({"isError": True, "content": "x"}, Refusal("unavailable", "an error without a code")),
        ({"isError": True, "content": [5]}, Refusal("unavailable", "an error without a code")),
        (
            {"isError": True, "_meta": {"ai.handler/error": {"code": "HTTP 429", "diagnostic": "x"}}},
            Refusal("unavailable", "an error without a code"),
        ),
        ({"isError": 1, "structuredContent": {}}, Refusal("unavailable", "an error without a code")),
        ({"content": []}, Refusal("unavailable", "the answer has no structuredContent")),
        ({"structuredContent": []}, Refusal("unavailable", "the answer has no structuredContent")),
        ([], Refusal("unavailable", "the answer is not an object")),
        (None, Refusal("unavailable", "the answer is not an object")),
    ],
)
def test_errors_are_read_in_either_form_and_never_guessed(result: Any, refusal: Refusal) -> None:
    assert reply(result) == refusal


def test_an_error_of_a_million_lines_holds_nobody_up() -> None:
    """Each line is a try to read JSON: only the last few are tried."""
    began = time.process_time()
    assert reply({"isError": True, "content": [text("[\n" * 1_000_000)]}).code == "unavailable"
    assert reply({"isError": True, "content": [text("\n" * 1_000_000)]}).code == "unavailable"
    body = '{"error":"too_large","message":"m"}'
    found = reply({"isError": True, "content": [text("[\n" * 100_000 + body + "\n")]})
    assert found == Refusal("too_large", "m")
    assert time.process_time() - began < 2


def test_a_json_rpc_error_is_unavailable() -> None:
    heard = upstream.read(line(id=3, error={"code": -32603, "message": "boom"}))
    assert isinstance(heard, Response)
    assert upstream.reply(heard) == Refusal("unavailable", "error -32603: boom")


def test_a_diagnostic_is_one_short_printable_line() -> None:
    found = reply({"isError": True, "content": [{"type": "text", "text": "a\n\x1b[31mb\u202e" + "x" * 5000}]})
    assert "\n" not in found.diagnostic
    assert found.diagnostic.startswith("a [31mbxx")
    assert len(found.diagnostic) == 500


@pytest.mark.parametrize("method", ["sampling/createMessage", "roots/list", "elicitation/create", "x"])
def test_what_a_connector_asks_of_us_is_refused(method: str) -> None:
    heard = upstream.read(line(id="q", method=method, params={}))
    assert isinstance(heard, bytes)
    answer = orjson.loads(heard)
    assert (answer["id"], answer["error"]["code"]) == ("q", -32601)


def test_a_ping_is_answered() -> None:
    heard = upstream.read(line(id="q", method="ping"))
    assert heard == line(id="q", result={})


@pytest.mark.parametrize("method", ["notifications/tools/list_changed", "notifications/message", "x"])
def test_what_a_connector_announces_is_not_heard(method: str) -> None:
    assert upstream.read(line(method=method, params={"data": "x"})) is None


@pytest.mark.parametrize(
    ("params", "heard"),
    [
        ({"progressToken": 5, "progress": 1}, Progressed(5, 1, None)),
        ({"progressToken": 5, "progress": 0.5, "total": 2.5, "message": "x"}, Progressed(5, 0.5, 2.5)),
        ({"progressToken": 5, "progress": 1, "total": "x"}, Progressed(5, 1, None)),
        ({"progressToken": "5", "progress": 1}, Garbage("progress of nothing")),
        ({"progressToken": True, "progress": 1}, Garbage("progress of nothing")),
        ({"progressToken": 5, "progress": True}, Garbage("progress of nothing")),
        ({"progressToken": 5}, Garbage("progress of nothing")),
    ],
)
def test_progress(params: Any, heard: Any) -> None:
    assert upstream.read(line(method="notifications/progress", params=params)) == heard


@pytest.mark.parametrize(
    "sent",
    [b"garbage\n", b"\xff\xfe\n", b"[]\n", b"{}\n", line(id="x", result={}), line(id=1, result=1, error={})],
)
def test_garbage_is_told_as_such(sent: bytes) -> None:
    assert isinstance(upstream.read(sent), Garbage)


@given(st.binary(max_size=100))
def test_no_line_makes_the_reader_raise(sent: bytes) -> None:
    upstream.read(sent)


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["isError", "content", "text", "_meta", "ai.handler/error", "ai.handler/files", "code",
                 "error", "structuredContent", "diagnostic", "blob", "message"]
            ),
            inner,
            max_size=4,
        ),
        max_leaves=12,
    )
)  # fmt: skip
def test_no_answer_makes_the_reader_raise(result: Any) -> None:
    assert isinstance(upstream.reply(Response(1, result)), Result | Refusal)


@pytest.mark.parametrize(
    ("head", "owner"),
    [
        (b'{"jsonrpc":"2.0","id":17,"result":{"stru', 17),
        (b'{"id": 17, "jsonrpc": "2.0"', 17),
        (b' { "jsonrpc" : "2.0" , "id" : 17 , ', 17),
        (b'{"jsonrpc":"2.0","id":"17","result":', None),
        (b'{"jsonrpc":"2.0","result":{"id":17,', None),
        (b'{"jsonrpc":"2.0","id":17', None),
        (b"xxxxxxxx", None),
    ],
)
def test_the_head_of_an_overlong_answer_may_say_whose_it_is(head: bytes, owner: int | None) -> None:
    assert upstream.owner(head) == owner


def test_a_greeting_names_a_version() -> None:
    assert upstream.greeting_fault(Response(0, {"protocolVersion": "2025-11-25"})) is None
    assert upstream.greeting_fault(Response(0, {})) == "it names no protocol version"
    assert upstream.greeting_fault(Response(0, None, (-32603, "no"))) == "error -32603: no"
