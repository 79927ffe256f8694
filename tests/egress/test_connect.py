"""The one request that is taken, and a corpus of those that two readers could read differently."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.egress.connect import MAX_HEAD_BYTES, Connect, Refused, read
from reconciler.model.hosts import Target

GOOD = b"CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n"
TARGET = Target("api.example.com", 443)


@pytest.mark.parametrize(
    "request_",
    [
        GOOD,
        b"CONNECT API.example.com:443 HTTP/1.0\r\n\r\n",
        b"CONNECT api.example.com:443 HTTP/1.1\r\nhost:api.example.com\r\nUser-Agent: curl/8\r\n\r\n",
        b"CONNECT api.example.com:443 HTTP/1.1\r\nHOST: \t api.example.com:443  \r\nX-A: b\r\n\r\n",
        b"CONNECT api.example.com:443 HTTP/1.1\r\nProxy-Authorization: Basic eDp5\r\nX-Empty:\r\n\r\n",
    ],
)
def test_what_clients_send_is_taken(request_: bytes) -> None:
    assert read(request_) == Connect(TARGET, len(request_))


HEAD = b"CONNECT api.example.com:443 HTTP/1.1\r\n"
CORPUS = [
    ("another method", b"GET http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n", 403),
    ("an absolute form", b"POST https://api.example.com:443/v1 HTTP/1.1\r\n\r\n", 403),
    ("TLS at once", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 403),
    ("lower case", b"connect api.example.com:443 HTTP/1.1\r\n\r\n", 403),
    ("a space before", b" CONNECT api.example.com:443 HTTP/1.1\r\n\r\n", 403),
    ("an empty line before", b"\r\nCONNECT api.example.com:443 HTTP/1.1\r\n\r\n", 403),
    ("SOCKS", b"\x05\x01\x00", 403),
    ("two spaces", b"CONNECT  api.example.com:443 HTTP/1.1\r\n\r\n", 400),
    ("a tab", b"CONNECT api.example.com:443\tHTTP/1.1\r\n\r\n", 400),
    ("no version", b"CONNECT api.example.com:443\r\n\r\n", 400),
    ("another version", b"CONNECT api.example.com:443 HTTP/2.0\r\n\r\n", 400),
    ("a longer version", b"CONNECT api.example.com:443 HTTP/1.10\r\n\r\n", 400),
    ("more on the line", b"CONNECT api.example.com:443 HTTP/1.1 x\r\n\r\n", 400),
    ("a bare line feed", b"CONNECT api.example.com:443 HTTP/1.1\nHost: a\r\n\r\n", 400),
    ("a bare return", b"CONNECT api.example.com:443 HTTP/1.1\rHost: a\r\n\r\n", 400),
    ("a NUL in the host", b"CONNECT api.example.com\0.evil.test:443 HTTP/1.1\r\n\r\n", 400),
    ("a byte beyond ASCII", b"CONNECT api.ex\xe4mple.com:443 HTTP/1.1\r\n\r\n", 400),
    ("a host of many bytes", b"CONNECT " + b"a" * 301 + b":443 HTTP/1.1\r\n\r\n", 400),
    ("no port", b"CONNECT api.example.com HTTP/1.1\r\n\r\n", 403),
    ("user information", b"CONNECT x@api.example.com:443 HTTP/1.1\r\n\r\n", 403),
    ("a number for an address", b"CONNECT 2130706433:443 HTTP/1.1\r\n\r\n", 403),
    ("a trailing dot", b"CONNECT api.example.com.:443 HTTP/1.1\r\n\r\n", 403),
    ("a folded header", HEAD + b"X-A: b\r\n c\r\n\r\n", 400),
    ("a header folded at first", HEAD + b" X-A: b\r\n\r\n", 400),
    ("a space before the colon", HEAD + b"X-A : b\r\n\r\n", 400),
    ("a header without a colon", HEAD + b"X-A\r\n\r\n", 400),
    ("a header without a name", HEAD + b": b\r\n\r\n", 400),
    ("a NUL in a header", HEAD + b"X-A: \0\r\n\r\n", 400),
    ("a line feed in a header", HEAD + b"X-A: b\nX-C: d\r\n\r\n", 400),
    ("a return in a header", HEAD + b"X-A: b\rX-C: d\r\n\r\n", 400),
    ("a length", HEAD + b"Content-Length: 5\r\n\r\nhello", 400),
    ("a length and a coding", HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    ("a coding", HEAD + b"transfer-encoding: identity\r\n\r\n", 400),
    ("two hosts", HEAD + b"Host: api.example.com\r\nHost: api.example.com\r\n\r\n", 400),
    ("another host", HEAD + b"Host: evil.test:443\r\n\r\n", 400),
    ("the host at another port", HEAD + b"Host: api.example.com:80\r\n\r\n", 400),
    ("the host in a list", HEAD + b"Host: api.example.com, evil.test\r\n\r\n", 400),
    ("an empty host", HEAD + b"Host:\r\n\r\n", 400),
    ("65 headers", HEAD + b"X-A: b\r\n" * 65 + b"\r\n", 400),
    ("a head of 8 KiB", HEAD + b"X-A: " + b"b" * MAX_HEAD_BYTES + b"\r\n\r\n", 431),
    ("a head without an end", HEAD + b"X-A: b\r\n" * 2000, 431),
]


@pytest.mark.parametrize(("data", "status"), [row[1:] for row in CORPUS], ids=[row[0] for row in CORPUS])
def test_what_two_readers_could_read_differently_is_refused(data: bytes, status: int) -> None:
    found = read(data)
    assert isinstance(found, Refused)
    assert found.status == status
    assert "evil" not in found.why


def test_a_second_request_in_the_same_bytes_is_not_read_as_one() -> None:
    assert read(GOOD + GOOD) == Connect(TARGET, len(GOOD))


@pytest.mark.parametrize("data", [GOOD, *[row[1] for row in CORPUS]])
def test_bytes_that_come_one_by_one_are_read_alike(data: bytes) -> None:
    first = next((found for at in range(len(data) + 1) if (found := read(data[:at])) is not None), None)
    assert first == read(data)


PLAIN = b"GET http://127.0.0.1:8099/a?b HTTP/1.1\r\nHost: 127.0.0.1:8099\r\n"


@pytest.mark.parametrize(
    ("data", "target", "head"),
    [
        (
            PLAIN + b"Proxy-Connection: keep-alive\r\nAccept: */*\r\n\r\n",
            "127.0.0.1:8099",
            b"GET /a?b HTTP/1.1\r\nHost: 127.0.0.1:8099\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        ),
        (
            b"POST http://127.0.0.1 HTTP/1.0\r\nContent-Length: 1\r\nProxy-Authorization: x\r\n\r\n",
            "127.0.0.1:80",
            b"POST / HTTP/1.0\r\nContent-Length: 1\r\nConnection: close\r\n\r\n",
        ),
        (
            b"GET http://[::1]:80/ HTTP/1.1\r\nHost: [::1]\r\n\r\n",
            "[::1]:80",
            b"GET / HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n\r\n",
        ),
    ],
)
def test_a_plain_request_to_an_address_goes_on_as_its_server_is_asked(
    data: bytes, target: str, head: bytes
) -> None:
    assert read(data) == read(data + b"more") == Connect(Target.parse(target), len(data), head)
    assert all(read(data[:at]) is None for at in range(1, len(data)))


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (PLAIN.replace(b"http://127.0.0.1:8099", b"http://api.example.com") + b"\r\n", 403),
        (PLAIN.replace(b"http://127.0.0.1", b"http://2130706433") + b"\r\n", 403),
        (PLAIN.replace(b"http://", b"http://u@") + b"\r\n", 403),
        (PLAIN.replace(b"http://127.0.0.1:8099/", b"http:///") + b"\r\n", 400),
        (PLAIN.replace(b"http://127.0.0.1:8099", b"") + b"\r\n", 403),
        (PLAIN + b"Host: 127.0.0.1:8099\r\n\r\n", 400),
        (PLAIN.replace(b"Host: 127.0.0.1", b"Host: 127.0.0.2") + b"\r\n", 400),
        (PLAIN + b" folded\r\n\r\n", 400),
    ],
)
def test_a_plain_request_to_a_name_or_of_another_form_is_refused(data: bytes, status: int) -> None:
    found = read(data)
    assert isinstance(found, Refused)
    assert found.status == status
    if status == 403 and b"api" in data:
        assert "use https" in found.why


@given(st.binary(max_size=300), st.binary(max_size=50))
def test_no_bytes_are_a_fault_and_more_never_change_an_answer(data: bytes, more: bytes) -> None:
    for start in (b"", b"CONNECT ", HEAD, b"GET ", PLAIN):
        found = read(start + data)
        if found is not None:
            assert read(start + data + more) == found


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
def test_one_changed_byte_never_reaches_another_host(place: int, byte: int) -> None:
    found = read(GOOD[:place] + bytes([byte]) + GOOD[place + 1 :])
    if isinstance(found, Connect) and found.target != TARGET:
        changed = GOOD[:place] + bytes([byte]) + GOOD[place + 1 :]
        assert str(found.target).encode() in changed.lower().split(b" ")[1]
