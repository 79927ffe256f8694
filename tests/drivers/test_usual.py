"""The usual answer of a connector, read in one go."""

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from reconciler.drivers import upstream, usual
from reconciler.model.calls import Result
from reconciler.wire.jsonrpc import Response


def line(**message: Any) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0"} | message) + b"\n"


ANSWERS = st.fixed_dictionaries(
    {
        "jsonrpc": st.sampled_from(["2.0", "2.0", "1.0"]),
        "id": st.sampled_from([5, 5, "5", None, True]),
        "result": st.one_of(
            st.fixed_dictionaries(
                {"structuredContent": st.sampled_from([{"a": 1}, {"a": 1}, [], None])},
                optional={
                    "content": st.just([{"type": "text", "text": "x"}]),
                    "isError": st.booleans(),
                    "_meta": st.sampled_from([{}, {upstream.FILES_KEY: {"to": {"blob": "b"}}}]),
                },
            ),
            st.just(None),
        ),
    },
    optional={"error": st.just({"code": 1, "message": "x"})},
)


@given(ANSWERS)
def test_the_usual_answer_is_read_at_once_as_it_is_read_in_full(message: Any) -> None:
    sent = orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)
    number, result = usual.answer(sent)
    if number >= 0:
        heard = upstream.read(sent)
        assert isinstance(heard, Response)
        assert (heard.id, upstream.reply(heard)) == (number, result)


def test_a_success_without_files_is_usual() -> None:
    sent = line(id=5, result={"structuredContent": {"a": 1}, "content": [{"type": "text", "text": "x"}]})
    assert usual.answer(sent) == (5, Result({"a": 1}, {}))
    assert usual.answer(sent.replace(b'"a":1', b'"a":1,"a":2'))[0] < 0
