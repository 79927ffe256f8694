"""The greeting of TLS: a real one is read, and whatever hides or doubts the name is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.egress.hello import MAX_HELLO_BYTES, Hello, Refused, read
from tests.egress import tls

NAME = tls.server_name(b"api.example.com")


def test_a_real_greeting_is_read() -> None:
    assert read(tls.real("api.example.com")) == Hello("api.example.com")
    assert read(tls.real(None)) == Hello("")


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (tls.greeting("API.Example.com"), "api.example.com"),
        (tls.records(tls.message(None)), ""),
        (tls.records(tls.message(b"")), ""),
        (tls.records(tls.message(NAME + tls.extension(0x2A2A, b""))), "api.example.com"),  # GREASE
        (tls.records(tls.message(NAME), size=7), "api.example.com"),
        (tls.records(tls.message(NAME + tls.extension(21, b"\0" * 9000)), size=4000), "api.example.com"),
        (tls.greeting() + b"\x14\x03\x03\x00\x01\x01", "api.example.com"),  # what follows is not looked at
    ],
)
def test_a_greeting_is_read_in_every_form_that_it_may_have(data: bytes, name: str) -> None:
    assert read(data) == Hello(name)


HIDES = [tls.extension(kind, b"\0" * 40) for kind in (0xFE0D, 0xFE0A, 0xFFCE)]
WRONG = [
    ("no TLS", b"GET / HTTP/1.1\r\n\r\n"),
    ("SSL 2", b"\x80\x2e\x01\x00\x02"),
    ("another record", b"\x17\x03\x03\x00\x05hello"),
    ("another version", b"\x16\x02\x00\x00\x05hello"),
    ("an empty record", b"\x16\x03\x01\x00\x00"),
    ("a huge record", b"\x16\x03\x01\x40\x01"),
    ("another message", tls.records(b"\x02" + tls.message(NAME)[1:])),
    ("a huge greeting", tls.records(b"\x01" + (MAX_HELLO_BYTES).to_bytes(3) + b"\x03\x03")),
    ("two messages in a record", tls.records(tls.message(NAME) + b"\x01\0\0\0")),
    ("bytes behind the extensions", tls.records(tls.message(NAME, tail=b"x"))),
    ("a long session id", tls.records(tls.message(NAME, session=b"s" * 33))),
    ("no ciphers", tls.records(tls.message(NAME, ciphers=b""))),
    ("half a cipher", tls.records(tls.message(NAME, ciphers=b"abc"))),
    ("two names", tls.records(tls.message(NAME + tls.server_name(b"evil.test")))),
    (
        "two names in one",
        tls.records(tls.message(tls.extension(0, tls.block(2, (b"\0" + tls.block(2, b"a.b")) * 2)))),
    ),
    ("a name of another sort", tls.records(tls.message(tls.server_name(b"a.b", sort=1)))),
    ("an empty list of names", tls.records(tls.message(tls.extension(0, tls.block(2, b""))))),
    ("an empty name", tls.records(tls.message(tls.server_name(b"")))),
    ("a NUL in the name", tls.records(tls.message(tls.server_name(b"api.example.com\0.evil.test")))),
    ("a name beyond ASCII", tls.records(tls.message(tls.server_name("bücher.example".encode())))),
    ("an extension cut short", tls.records(tls.message(NAME + b"\0\x10\0\x09h2"))),
    ("an extension twice", tls.records(tls.message(NAME + tls.extension(16, b"") * 2))),
    *((f"a hidden name {place}", tls.records(tls.message(NAME + one))) for place, one in enumerate(HIDES)),
]


@pytest.mark.parametrize("data", [row[1] for row in WRONG], ids=[row[0] for row in WRONG])
def test_what_is_no_plain_greeting_is_refused(data: bytes) -> None:
    found = read(data)
    assert isinstance(found, Refused)
    assert "evil" not in found.why


@pytest.mark.parametrize("data", [tls.real(), tls.greeting(), *[row[1] for row in WRONG]])
def test_bytes_that_come_one_by_one_are_read_alike(data: bytes) -> None:
    first = next((found for at in range(len(data) + 1) if (found := read(data[:at])) is not None), None)
    assert first == read(data)


@given(st.binary(max_size=400), st.binary(max_size=50))
def test_no_bytes_are_a_fault_and_more_never_change_an_answer(data: bytes, more: bytes) -> None:
    for start in (b"", b"\x16\x03\x01", tls.greeting()[:60]):
        found = read(start + data)
        if found is not None:
            assert read(start + data + more) == found


@given(st.data())
def test_a_changed_greeting_is_whole_refused_or_waits(data: st.DataObject) -> None:
    good = bytearray(tls.real())
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    assert read(bytes(good)) is None or isinstance(read(bytes(good)), Hello | Refused)


@given(st.integers(1, 600))
def test_records_of_any_size_carry_one_greeting(size: int) -> None:
    assert read(tls.records(tls.message(NAME), size)) == Hello("api.example.com")
