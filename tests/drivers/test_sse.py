"""Server-sent events are the same however the bytes arrive, and never more than is allowed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.drivers.sse import Events, Sent

LINES = st.sampled_from(
    ["data: a", "data:b", "data", "event: e", "event:", ": ping", "id: 7", "retry: 3", "data: é🙂", "", "x"]
)
STREAMS = st.lists(st.tuples(LINES, st.sampled_from(["\n", "\r\n", "\r"]))).map(
    lambda lines: "".join(line + end for line, end in lines).encode()
)
CUTS = st.lists(st.integers(1, 7), max_size=60)


def _read(pieces: list[bytes], most: int = 1000, whole: int = 10_000) -> tuple[list[Sent], str | None]:
    events = Events(most, whole)
    return [one for piece in pieces for one in events.feed(piece)], events.fault


def _cut(data: bytes, cuts: list[int]) -> list[bytes]:
    pieces = []
    for size in cuts:
        pieces.append(data[:size])
        data = data[size:]
    return [*pieces, data]


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ("data: a\n\n", [("", "a")]),
        ("event: x\ndata: a\ndata: b\n\n", [("x", "a\nb")]),
        ("data: a\r\r\ndata: b\r\n\r\n", [("", "a"), ("", "b")]),
        (": ping\n\ndata\n\n", [("", "")]),
        ("event: alone\n\ndata:  two\n\n", [("", " two")]),
        ("data: no end", []),
        ("\ufeffdata: a\n\n", [("", "a")]),
    ],
)
def test_a_stream_is_its_events(text: str, events: list[tuple[str, str]]) -> None:
    assert _read([text.encode()]) == ([Sent(*one) for one in events], None)


@given(STREAMS | st.binary(max_size=200), CUTS, st.integers(1, 60), st.integers(1, 250))
def test_wherever_it_is_cut_the_events_are_the_same(
    data: bytes, cuts: list[int], most: int, whole: int
) -> None:
    assert _read(_cut(data, cuts), most, whole) == _read([data], most, whole)
    assert _read([bytes([one]) for one in data], most, whole) == _read([data], most, whole)


def test_an_event_or_a_stream_beyond_its_bound_is_a_fault_and_the_last_thing_read() -> None:
    events = Events(10, 1000)
    assert events.feed(b"data: ok\n\ndata: too long for it\n\n") == (Sent("", "ok"),)
    assert events.fault == "an event is longer than is read"
    assert events.feed(b"data: more\n\n") == ()
    short = Events(100, 12)
    assert short.feed(b"data: ok\n\ndata: b\n\n") == (Sent("", "ok"),)
    assert short.fault == "the stream is longer than is read"
    broken = Events(100, 100)
    assert broken.feed(b"data: a\n\ndata: \xff\n\ndata: b\n\n") == (Sent("", "a"),)
    assert broken.fault == "the stream is no UTF-8"
