"""The line codec: what is cut, what is read, what is refused and how."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.wire import jsonrpc
from reconciler.wire.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Fault,
    Notification,
    Request,
    Response,
    decode,
    encode,
)
from reconciler.wire.strict import MAX_DEPTH, parse
from tests.kit.effort import times


def call(**changes: Any) -> bytes:
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}} | changes
    return json.dumps({key: value for key, value in message.items() if value is not ...}).encode()


def nested(levels: int, opening: str = "[", closing: str = "]") -> bytes:
    return (opening * levels + closing * levels).encode()


# Lines that are no message: what stands in the line, the code, and the id that the answer names.
ABUSE: tuple[tuple[str, bytes, int, Any], ...] = (
    ("no JSON", b"hello", PARSE_ERROR, None),
    ("half a message", b'{"jsonrpc":"2.0","id":1', PARSE_ERROR, None),
    ("two messages", b'{"a":1}{"b":2}', PARSE_ERROR, None),
    ("a trailing comma", b'{"jsonrpc":"2.0",}', PARSE_ERROR, None),
    ("single quotes", b"{'jsonrpc':'2.0'}", PARSE_ERROR, None),
    ("a comment", b'{"jsonrpc":"2.0"} // hi', PARSE_ERROR, None),
    ("NaN", call(params=...)[:-1] + b',"params":{"n":NaN}}', PARSE_ERROR, None),
    ("Infinity", call(params=...)[:-1] + b',"params":{"n":Infinity}}', PARSE_ERROR, None),
    ("minus infinity", call(params=...)[:-1] + b',"params":{"n":-Infinity}}', PARSE_ERROR, None),
    ("1e400", call(params=...)[:-1] + b',"params":{"n":1e400}}', PARSE_ERROR, None),
    ("-1e400", call(params=...)[:-1] + b',"params":{"n":-1e400}}', PARSE_ERROR, None),
    ("5,000 digits", call(params=...)[:-1] + b',"params":{"n":' + b"9" * 5000 + b"}}", PARSE_ERROR, None),
    ("2**64", call(params=...)[:-1] + b',"params":{"n":18446744073709551616}}', PARSE_ERROR, None),
    ("-2**63-1", call(params=...)[:-1] + b',"params":{"n":-9223372036854775809}}', PARSE_ERROR, None),
    ("a leading zero", b'{"jsonrpc":"2.0","id":01,"method":"ping"}', PARSE_ERROR, None),
    ("a plus sign", b'{"jsonrpc":"2.0","id":+1,"method":"ping"}', PARSE_ERROR, None),
    ("hex", b'{"jsonrpc":"2.0","id":0x1,"method":"ping"}', PARSE_ERROR, None),
    ("a duplicate id", b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', PARSE_ERROR, None),
    ("a duplicate method", b'{"jsonrpc":"2.0","method":"a","id":1,"method":"b"}', PARSE_ERROR, None),
    ("a duplicate deep down", call(params=...)[:-1] + b',"params":{"a":[{"b":1,"b":1}]}}', PARSE_ERROR, None),
    ("an escaped duplicate", call(params=...)[:-1] + b',"params":{"a":1,"\\u0061":2}}', PARSE_ERROR, None),
    ("a duplicate behind colons", b'{"\\u003a":1,"x":"::","x":2}', PARSE_ERROR, None),
    ("an empty key twice", b'{"":1,"":2}', PARSE_ERROR, None),
    ("a lone high surrogate", call(params=...)[:-1] + b',"params":{"a":"\\ud800"}}', PARSE_ERROR, None),
    ("a lone low surrogate", call(params=...)[:-1] + b',"params":{"a":"\\udc00"}}', PARSE_ERROR, None),
    ("surrogates the wrong way", b'{"a":"\\udc00\\ud800"}', PARSE_ERROR, None),
    ("a lone surrogate as a key", b'{"\\ud800":1}', PARSE_ERROR, None),
    ("CESU-8", b'{"a":"\xed\xa0\x80"}', PARSE_ERROR, None),
    ("Latin-1", b'{"a":"\xe9"}', PARSE_ERROR, None),
    ("an overlong encoding", b'{"a":"\xc0\xaf"}', PARSE_ERROR, None),
    ("beyond Unicode", b'{"a":"\xf5\x80\x80\x80"}', PARSE_ERROR, None),
    ("a BOM", b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}', PARSE_ERROR, None),
    ("UTF-16", '{"a":1}'.encode("utf-16"), PARSE_ERROR, None),
    ("a NUL", b'\x00{"a":1}', PARSE_ERROR, None),
    ("a raw control character", b'{"a":"\x01"}', PARSE_ERROR, None),
    ("a raw tab in a string", b'{"a":"\t"}', PARSE_ERROR, None),
    ("a bad escape", b'{"a":"\\x41"}', PARSE_ERROR, None),
    ("65 levels of arrays", nested(65), PARSE_ERROR, None),
    ("65 levels of objects", b'{"a":' * 65 + b"1" + b"}" * 65, PARSE_ERROR, None),
    ("300 levels", nested(300), PARSE_ERROR, None),
    ("10,000 levels", nested(10_000), PARSE_ERROR, None),
    ("65 levels in a long line", b'["' + b"x" * 2000 + b'",' + nested(64) + b"]", PARSE_ERROR, None),
    ("an empty batch", b"[]", INVALID_REQUEST, None),
    ("a batch", b"[" + call() + b"]", INVALID_REQUEST, None),
    ("a batch of nonsense", b"[1,2]", INVALID_REQUEST, None),
    ("a number", b"1", INVALID_REQUEST, None),
    ("a string", b'"ping"', INVALID_REQUEST, None),
    ("null", b"null", INVALID_REQUEST, None),
    ("true", b"true", INVALID_REQUEST, None),
    ("an empty object", b"{}", INVALID_REQUEST, None),
    ("no jsonrpc", call(jsonrpc=...), INVALID_REQUEST, 1),
    ("jsonrpc 1.0", call(jsonrpc="1.0"), INVALID_REQUEST, 1),
    ("jsonrpc 2", call(jsonrpc=2), INVALID_REQUEST, 1),
    ("jsonrpc null", call(jsonrpc=None), INVALID_REQUEST, 1),
    ("id null", call(id=None), INVALID_REQUEST, None),
    ("id true", call(id=True), INVALID_REQUEST, None),
    ("id 1.5", call(id=1.5), INVALID_REQUEST, None),
    ("id 1.0", b'{"jsonrpc":"2.0","id":1.0,"method":"ping"}', INVALID_REQUEST, None),
    ("id an object", call(id={}), INVALID_REQUEST, None),
    ("id an array", call(id=[1]), INVALID_REQUEST, None),
    ("id of 257 bytes", call(id="x" * 257), INVALID_REQUEST, None),
    ("id of 129 characters, 258 bytes", call(id="é" * 129), INVALID_REQUEST, None),
    ("id of 1 MB", call(id="x" * 1_000_000), INVALID_REQUEST, None),
    ("method a number", call(method=7), INVALID_REQUEST, 1),
    ("method null", call(method=None), INVALID_REQUEST, 1),
    ("no method", call(method=...), INVALID_REQUEST, 1),
    ("a method of 4 KB", call(method="m" * 4096), METHOD_NOT_FOUND, 1),
    ("method and result", call(result={}), INVALID_REQUEST, None),
    ("method and error", call(error={}), INVALID_REQUEST, None),
    ("result and error", call(method=..., params=..., result={}, error={}), INVALID_REQUEST, None),
    ("a result without id", call(id=..., method=..., params=..., result={}), INVALID_REQUEST, None),
    ("a result with id null", call(id=None, method=..., params=..., result={}), INVALID_REQUEST, None),
    ("params an array", call(params=[1]), INVALID_PARAMS, 1),
    ("params a string", call(params="x"), INVALID_PARAMS, 1),
    ("params null", call(params=None), INVALID_PARAMS, 1),
    ("params false", call(params=False), INVALID_PARAMS, 1),
)  # fmt: skip


@pytest.mark.parametrize(("line", "code", "ident"), [row[1:] for row in ABUSE], ids=[row[0] for row in ABUSE])
def test_what_is_no_message_is_refused_by_code_and_id(line: bytes, code: int, ident: Any) -> None:
    fault = decode(line)
    assert isinstance(fault, Fault)
    assert (fault.code, fault.id) == (code, ident)
    assert "xx" not in fault.message  # nothing of the input is repeated


def test_the_table_is_long_enough_to_trust() -> None:
    assert len(ABUSE) >= 60


GOOD: tuple[tuple[bytes, Any], ...] = (
    (call(), Request(1, "ping", {})),
    (call(params=...), Request(1, "ping", {})),
    (call(id=0), Request(0, "ping", {})),
    (call(id=-1), Request(-1, "ping", {})),
    (call(id=2**53 + 1), Request(2**53 + 1, "ping", {})),
    (call(id="1"), Request("1", "ping", {})),
    (call(id="007"), Request("007", "ping", {})),
    (call(id=""), Request("", "ping", {})),
    (call(id="x" * 256), Request("x" * 256, "ping", {})),
    (call(id="é" * 128), Request("é" * 128, "ping", {})),
    (call(more=[1]), Request(1, "ping", {})),
    (b' \t{"jsonrpc" : "2.0", "method":"ping","id":1}\r\n', Request(1, "ping", {})),
    (call(id=...), Notification("ping", {})),
    (call(id=..., params=...), Notification("ping", {})),
    (call(method=..., params=..., result=5), Response(1, 5)),
    (call(method=..., params=..., error={"code": 3, "message": "no"}), Response(1, None, (3, "no"))),
    (call(id=None, method=..., params=..., error={"code": 3}), Response(None, None, (3, ""))),
    (call(method=..., params=..., error="no"), Response(1, None, (jsonrpc.INTERNAL_ERROR, ""))),
)


@pytest.mark.parametrize(("line", "message"), GOOD)
def test_messages_are_read_with_their_ids_as_they_stand(line: bytes, message: Any) -> None:
    found = decode(line)
    assert found == message
    assert type(found.id) is type(message.id) if hasattr(message, "id") else True  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "line",
    [
        nested(MAX_DEPTH),
        b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH,
        b'["]]]\\"[[[\\\\",' + nested(MAX_DEPTH - 1) + b"]",
        b'{"a":"http://x:1","b":{"a":"::"}, "c":[1.5, 1e5, -0.0]}',
        b'{"a:":1,"b\\u003a":2,"b":{"c":1}}',
        b"18446744073709551615",
        b"-9223372036854775808",
        b"[1e300, 1e18]",
        '{"a":"before\u2028after\u2029end\u0085x"}'.encode(),
        b'{"a":"\\ud83d\\ude00"}',
    ],
)
def test_strict_is_not_narrow(line: bytes) -> None:
    assert parse(line) == json.loads(line)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=15,
)


@pytest.mark.slow
@settings(max_examples=times(25))
@given(JSON, st.booleans(), st.sampled_from([None, (", ", ": "), (",", ":"), (" , ", " : ")]))
def test_any_value_is_read_however_it_is_written(
    value: Any, ascii_only: bool, separators: tuple[str, str] | None
) -> None:
    line = json.dumps(value, ensure_ascii=ascii_only, separators=separators).encode()
    found = parse(line)
    assert found == value
    assert orjson.dumps(found) == orjson.dumps(value)


def written_twice(value: Any, key: str, other: Any) -> str:
    members = [f"{json.dumps(name)}: {json.dumps(item)}" for name, item in value.items()]
    return "{" + ", ".join([*members, f"{json.dumps(key)}:{json.dumps(other)}"]) + "}"


SMALL = st.none() | st.integers(0, 9) | st.text(max_size=5) | st.lists(st.text(max_size=3), max_size=2)


@settings(max_examples=times(25))
@given(st.dictionaries(st.text(max_size=5), SMALL, min_size=1, max_size=5), st.data(), SMALL)
def test_a_key_that_stands_twice_is_never_read(
    value: dict[str, Any], data: st.DataObject, other: Any
) -> None:
    key = data.draw(st.sampled_from(sorted(value)))
    with pytest.raises(ValueError, match="stands twice"):
        parse(written_twice(value, key, other).encode())


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b'{"a":"\\u003a:\\u003A", "b":1}', None),
        (b'{"a":"\\\\u003a", "b\\u003c":"\\\\\\u003a"}', None),
        (
            b'{"a": [1e22, 1E+30, 0.12345678901234567890, 12345678901234567890.5, 12345678901234567890e1]}',
            None,
        ),
        (b'{"a": "123456789012345678901234", "b": "\\"12345678901234567890123,"}', None),
        (b'{"a": [18446744073709551615, -9223372036854775808]}', None),
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"\\u003a": 1, "x": "::", "x": 2}', "twice"),
        (b'{"a": 1e22, "a": 2}', "twice"),
        (b'{"a": 18446744073709551616}', "64 bits"),
        (b'{"a": [1, -9223372036854775809 ]}', "64 bits"),
        (b'{"a\\"": [12345678901234567890123]}', "64 bits"),
    ],
)
def test_a_line_is_checked_however_it_is_written(line: bytes, fault: str | None) -> None:
    if fault is None:
        assert parse(line) == json.loads(line)
    else:
        with pytest.raises(ValueError, match=fault):
            parse(line)


@settings(max_examples=times(120))
@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_raise(line: bytes) -> None:
    assert decode(line) is not None


def test_what_is_written_is_one_line_that_reads_back() -> None:
    line = encode({"jsonrpc": "2.0", "id": "a\nb", "method": "m", "params": {"t": "x\ny"}})
    assert line.count(b"\n") == 1
    assert decode(line) == Request("a\nb", "m", {"t": "x\ny"})


def test_an_error_names_its_id_and_carries_data_only_when_there_is_some() -> None:
    assert orjson.loads(jsonrpc.error(None, -32700, "no")) == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32700, "message": "no"},
    }
    assert orjson.loads(jsonrpc.error(4, 1, "no", {"a": 1}))["error"]["data"] == {"a": 1}


@pytest.mark.parametrize("value", [True, False, None, 1.0, [], {}, "x" * 257])
def test_what_looks_like_an_id_and_is_none(value: object) -> None:
    assert not jsonrpc.id_is_legal(value)


@pytest.mark.parametrize(
    ("line", "where"),
    [
        (b'{"a":"\xe9"}', "not UTF-8 at byte 7"),
        (b'\xff{"a":1}', "not UTF-8 at byte 1"),
        (b'{"a":\\}', "not JSON at character 6"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(line: bytes, where: str) -> None:
    fault = decode(line)
    assert isinstance(fault, Fault)
    assert where in fault.message
