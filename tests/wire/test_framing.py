"""Lines out of a byte stream, however it is cut."""

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.wire.framing import Framer, Oversized
from tests.kit.effort import times

PIECES = st.one_of(
    st.binary(max_size=40), st.sampled_from([b"", b" ", b"\r", b"{}\r", b"\x0b\x0c\x1c\x85", b" {}"])
)


@settings(max_examples=times(60))
@given(st.lists(PIECES, max_size=8), st.data())
def test_lines_are_the_same_however_the_stream_is_cut(pieces: list[bytes], data: st.DataObject) -> None:
    stream = b"\n".join(pieces) + b"\n"
    framer, found = Framer(64), []
    while stream:
        cut = data.draw(st.integers(1, len(stream)))
        found += [line for line in framer.feed(stream[:cut]) if isinstance(line, bytes)]
        stream = stream[cut:]
    lines = b"\n".join(pieces).split(b"\n")
    wanted = [line for line in lines if line.strip(b" \t\r\x0b\x0c\n")]
    assert [line.removesuffix(b"\n") for line in found] == wanted
    assert all(line.endswith(b"\n") for line in found)


@given(PIECES, st.sampled_from([b"\n", b"", b"\n\n"]))
def test_one_line_alone_is_told_as_it_would_be_cut(piece: bytes, end: bytes) -> None:
    data = piece + end
    is_one_line = bool(data) and data.find(b"\n") == len(data) - 1
    assert Framer(64).is_whole(data) == (is_one_line and Framer(64).feed(data) == [data])


def fed(framer: Framer, chunks: Iterable[bytes]) -> list[bytes | Oversized]:
    return [line for chunk in chunks for line in framer.feed(chunk)]


def test_only_0x0a_ends_a_line() -> None:
    text = '{"a":"\u2028\u2029\u0085"}\r'.encode()
    assert fed(Framer(), [text, b"\n"]) == [text + b"\n"]


def test_an_oversized_line_is_reported_once_and_the_next_is_whole() -> None:
    framer = Framer(100)
    found = fed(framer, [b"x" * 60, b"x" * 60, b"x" * 1000, b"xx\n{}\n", b"[]\n"])
    assert found == [Oversized(b"x" * 120), b"{}\n", b"[]\n"]


def test_an_oversized_line_in_one_piece_is_refused_too() -> None:
    assert fed(Framer(100), [b"x" * 101 + b"\n", b"{}\n"]) == [Oversized(b"x" * 101), b"{}\n"]


def test_a_line_of_exactly_the_bound_passes() -> None:
    assert fed(Framer(100), [b"x" * 50, b"x" * 50 + b"\n"]) == [b"x" * 100 + b"\n"]


def test_a_line_without_end_keeps_no_more_than_the_bound() -> None:
    framer = Framer(1000)
    assert len(fed(framer, [b"x" * 500] * 10_000)) == 1
    assert framer.skipping
    assert framer.dropped == 5_000_000
    assert framer.feed(b"\n{}\n") == [b"{}\n"]


def test_blank_lines_are_left_out() -> None:
    assert fed(Framer(), [b"\n", b"  \r\n", b"\n\n{}\n\n"]) == [b"{}\n"]
