"""What a bridge remembers of open requests: what is read from the ends of a line is what it says."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.doors import owed
from reconciler.router import answers, mcp
from reconciler.wire import jsonrpc

_IDS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(max_size=40))
_VALUES = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(max_size=8), st.sampled_from(['"id":5}', ',"id":7', "\\"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["id", "method", "a", 'k"id']), inner, max_size=3),
    ),
    max_leaves=8,
)
_KEYS = st.permutations(["jsonrpc", "id", "method", "params"])
_WRITTEN = st.sampled_from([(",", ":"), (", ", ": ")])


@pytest.mark.slow
@given(_IDS, _VALUES, _KEYS, _WRITTEN, st.booleans())
def test_a_request_is_noted_whatever_the_order_of_its_keys_and_its_answer_settles_it(
    ident: int | str, value: object, keys: list[str], separators: tuple[str, str], is_ascii: bool
) -> None:
    message = {
        "jsonrpc": "2.0",
        "id": ident,
        "method": "tools/call",
        "params": {"name": "t", "arguments": value},
    }
    ordered = {key: message[key] for key in keys}
    line = json.dumps(ordered, separators=separators, ensure_ascii=is_ascii).encode(errors="replace") + b"\n"
    known = json.loads(line)["id"]
    ((end, one),) = owed.noted(b"", line)
    assert end == len(line)
    open_ = owed.Owed()
    open_.note(one)
    assert json.loads(open_.ends())["id"] == known
    open_.note(one)
    open_.settle(jsonrpc.result("other", {"id": known}) + jsonrpc.result(known, {"a": [value] * 2 and []}))
    assert not open_


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n',
        b'{"jsonrpc":"2.0","id":3,"result":{"method":"x"}}\n',
        b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":1,"id":4}}\n',
        b'{"method":"notifications/x","params":{"a":1,"id":4},"jsonrpc":"2.0"}\n',
        b'{"jsonrpc":"2.0","id":null,"method":"x"}\n',
        b'{"jsonrpc":"2.0","id":1.5,"method":"x"}\n',
        b'{"jsonrpc":"2.0","id":01,"method":"x"}\n',
        b'{"jsonrpc":"2.0","id":1-2,"method":"x"}\n',
        b'{"jsonrpc":"2.0","id":9223372036854775808,"method":"x"}\n',
        b'{"jsonrpc":"2.0","id":"' + b"x" * 257 + b'","method":"x"}\n',
        b'{"jsonrpc":"2.0","id":"' + b"\\u00e9" * 129 + b'","method":"x"}\n',
        b'{"id":' + b"[" * 100_000 + b"\n",
        b"\n",
        b"[]\n",
        b'"id"\n',
        b'{"\xff"id":1}\n',
    ],
)
def test_what_asks_for_nothing_is_owed_nothing(line: bytes) -> None:
    assert owed.noted(b"", line) == []
    assert owed.lost(line) == b""


def test_a_request_that_is_taken_back_is_owed_nothing_any_more() -> None:
    asks = b'{"jsonrpc":"2.0","id":"a","method":"ping"}\n'
    back = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}\n'
    open_ = owed.Owed()
    for end, one in owed.noted(b"", asks + back):
        assert end in (len(asks), len(asks + back))
        open_.note(one)
    assert not open_


@pytest.mark.parametrize("last", [False, True])
def test_of_a_long_request_that_comes_in_pieces_its_two_ends_are_kept(last: bool) -> None:
    head, tail = (b'{"method":', b',"id":9}\n') if last else (b'{"jsonrpc":"2.0","id":9,"method":', b"}\n")
    line = head + b'"tools/call","params":{"name":"t","arguments":{"a":"' + b"x" * 500_000 + b'"}}' + tail
    before = b""
    for start in range(0, len(line), 65_536):
        piece = line[start : start + 65_536]
        found = owed.noted(before, piece)
        before = owed.begun(before, piece)
    ((_, (ident, kept)),) = found
    assert ident == b"9"
    assert kept is not None
    assert len(kept) < 5_000
    assert (
        json.loads(owed.answer(ident, kept))["result"]["_meta"]["ai.handler/error"]["error"] == "unavailable"
    )


@pytest.mark.parametrize("modern", [False, True])
def test_a_call_is_ended_as_the_router_itself_ends_it(modern: bool) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"} if modern else {}
    params = {"name": "ocr_extract", "arguments": {}, "_meta": meta}
    line = jsonrpc.encode({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
    said = json.loads(owed.lost(line))
    route = SimpleNamespace(contract=SimpleNamespace(errors={}))
    call = SimpleNamespace(
        id=7, modern=modern, offer=SimpleNamespace(route=route, tool=SimpleNamespace(name="ocr_extract"))
    )
    text = said["result"]["_meta"]["ai.handler/error"]["message"]
    assert text.startswith(mcp.ROUTER_TEXTS["unavailable"] + ": ")
    detail = text.removeprefix(mcp.ROUTER_TEXTS["unavailable"] + ": ")
    assert said == json.loads(answers.failure(cast(Any, call), "unavailable", detail))


def test_a_subscription_is_ended_as_complete_and_anything_else_by_an_error() -> None:
    listen = b'{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}\n'
    assert json.loads(owed.lost(listen)) == json.loads(answers.listened(mcp.Listen(1)))
    assert json.loads(owed.lost(b'{"jsonrpc":"2.0","id":"b","method":"tools/list"}\n')) == {
        "jsonrpc": "2.0",
        "id": "b",
        "error": {
            "code": jsonrpc.INTERNAL_ERROR,
            "message": "the connection broke before the answer: ask again",
        },
    }


def test_what_is_remembered_is_bounded_and_the_newest_stay() -> None:
    open_ = owed.Owed()
    for number in range(5_000):
        open_.note((b"%d" % number, b"{}"))
    ids = [json.loads(line)["id"] for line in open_.ends().splitlines()]
    assert ids == list(range(5_000 - 1024, 5_000))
    assert not open_
