"""What connectors print: bounded on disk, bounded in rate, harmless to a terminal."""

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from reconciler.model import loglines
from reconciler.model.names import SHOWN_DIGEST
from reconciler.runtime.ringlog import RATE_BYTES, RING_BYTES, Reader, RingLog
from tests.kit.effort import times

ONE, OTHER = "1" * SHOWN_DIGEST, "2" * SHOWN_DIGEST


def test_the_newest_half_megabyte_is_always_there_and_never_more_than_one(tmp_path: Path) -> None:
    log = RingLog(tmp_path / "one.log")
    speaker = log.speaker(ONE)
    for number in range(3000):
        speaker.say(f"{number:06d} {'x' * 993}\n".encode())
    files = list(tmp_path.iterdir())
    assert sum(file.stat().st_size for file in files) <= RING_BYTES
    kept = b"".join(file.read_bytes() for file in sorted(files, reverse=True))
    assert len(kept) >= RING_BYTES // 2
    assert log.last_line().startswith("002999 ")


def test_a_log_goes_on_where_an_earlier_controller_left_it(tmp_path: Path) -> None:
    RingLog(tmp_path / "one.log").speaker(ONE).say(b"before\n")
    RingLog(tmp_path / "one.log").speaker(ONE).say(b"after\n")
    assert said(tmp_path / "one.log") == [(ONE, True, "before"), (ONE, True, "after")]


def said(path: Path) -> list[tuple[str, bool, str]]:
    """What stands in a log, its two halves as one, but for the times: each line has one."""
    found = []
    for half in (path.with_name(f"{path.name}.1"), path):
        found += loglines.lines(half.read_text("utf-8", "replace")) if half.exists() else []
    assert all(len(line.at) == 24 for line in found)
    return [(line.digest, line.begins, line.text) for line in found]


def test_each_line_has_one_head_however_it_comes(tmp_path: Path) -> None:
    speaker = RingLog(tmp_path / "one.log").speaker(ONE)
    for piece in (b"a", b"", b"b\n\nc", b"\n", b"\n", b"d"):
        speaker.say(piece)
    texts = ["ab", "", "c", "", "d"]
    assert said(tmp_path / "one.log") == [(ONE, number == 0, text) for number, text in enumerate(texts)]


def test_a_line_that_has_not_ended_ends_where_another_process_speaks(tmp_path: Path) -> None:
    log = RingLog(tmp_path / "one.log")
    one, other = log.speaker(ONE), log.speaker(OTHER)
    for speaker, piece in ((one, b"half"), (other, b"x\ny"), (one, b" rest\n"), (other, b"z\n")):
        speaker.say(piece)
    assert said(tmp_path / "one.log") == [
        (ONE, True, "half"),
        (OTHER, True, "x"),
        (OTHER, False, "y"),
        (ONE, False, " rest"),
        (OTHER, False, "z"),
    ]


def test_nobody_prints_a_head(tmp_path: Path) -> None:
    forged = loglines.head("2026-11-30T10:42:30.000Z", OTHER, begins=True)
    RingLog(tmp_path / "one.log").speaker(ONE).say(f"{forged}x\n{forged}y\u2028{forged}z\n".encode())
    assert said(tmp_path / "one.log") == [
        (ONE, True, f"{forged}x"),
        (ONE, False, f"{forged}y\u2028{forged}z"),
    ]


@settings(deadline=None, max_examples=times(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.one_of(
                st.text("ab\n", max_size=20).map(str.encode),
                st.integers(0, RING_BYTES).map(lambda size: b"x" * size),
                st.integers(0, RING_BYTES // 20).map(lambda size: b"y\n" * size),
            ),
        ),
        max_size=12,
    )
)
@example([(True, b"a\n"), (True, b"x" * RING_BYTES), (True, b"b\n")])
@example([(True, b"x" * (RING_BYTES // 2 - 200)), (True, b"y" * 200), (False, b"z")])
@example([(True, b"\n" * 65536), (False, b"\n" * 65536)])
@pytest.mark.slow
def test_a_ring_is_bounded_and_of_whole_lines_whatever_is_said(
    tmp_path: Path, pieces: list[tuple[bool, bytes]]
) -> None:
    path = tmp_path / "one.log"
    for half in tmp_path.iterdir():
        half.unlink()
    log = RingLog(path)
    one, other = log.speaker(ONE), log.speaker(OTHER)
    for first, piece in pieces:
        assert (one if first else other).say(piece) <= RING_BYTES // 2
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= RING_BYTES
    assert {digest for digest, _, _ in said(path)} <= {ONE, OTHER}
    if pieces and (last := pieces[-1][1]):
        assert said(path)[-1][2].endswith(last.removesuffix(b"\n").rpartition(b"\n")[2].decode()[-1000:])


def test_control_characters_do_not_reach_the_file(tmp_path: Path) -> None:
    log = RingLog(tmp_path / "one.log")
    log.speaker(ONE).say(b"a\x1b[2Jb\r\x07\tc\n\xc3\xa9\n")
    assert said(tmp_path / "one.log") == [(ONE, True, "a?[2Jb??\tc"), (ONE, False, "é")]
    assert log.last_line() == "é"


def test_a_disk_that_refuses_costs_lines_and_nothing_else(tmp_path: Path) -> None:
    log = RingLog(tmp_path / "missing" / "one.log")
    log.speaker(ONE).say(b"lost\n")
    assert log.last_line() == ""


def test_a_flood_is_read_at_the_rate_and_the_last_words_are_kept(tmp_path: Path) -> None:
    async def story() -> None:
        log = RingLog(tmp_path / "one.log")
        read, write = os.pipe()
        os.set_blocking(write, False)
        reader = Reader(read, log.speaker(ONE))
        loop = asyncio.get_running_loop()
        end = loop.time() + 0.5
        written = 0
        while loop.time() < end:
            try:
                written += os.write(write, b"y\n" * 16384)
            except BlockingIOError:
                await asyncio.sleep(0)
        assert (
            written <= RATE_BYTES + 2 * 65536 + RATE_BYTES
        )  # one second's worth, the pipe, one turn of a second
        os.close(write)
        reader.close()
        reader.close()

    asyncio.run(story())


def test_a_pipe_that_ends_is_let_go(tmp_path: Path) -> None:
    async def story() -> None:
        log = RingLog(tmp_path / "one.log")
        read, write = os.pipe()
        reader = Reader(read, log.speaker(ONE))
        os.write(write, b"last words")
        os.close(write)
        async with asyncio.timeout(5):
            while reader._pipe >= 0:
                await asyncio.sleep(0)
        assert log.last_line() == "last words"

    asyncio.run(story())
