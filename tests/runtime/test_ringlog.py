"""What connectors print: bounded on disk, bounded in rate, harmless to a terminal."""

import asyncio
import os
from pathlib import Path

from reconciler.runtime.ringlog import RATE_BYTES, RING_BYTES, Reader, RingLog


def test_the_newest_half_megabyte_is_always_there_and_never_more_than_one(tmp_path: Path) -> None:
    log = RingLog(tmp_path / "one.log")
    for number in range(3000):
        log.write(f"{number:06d} {'x' * 993}\n".encode())
    files = list(tmp_path.iterdir())
    assert sum(file.stat().st_size for file in files) <= RING_BYTES
    kept = b"".join(file.read_bytes() for file in sorted(files, reverse=True))
    assert kept.splitlines()[-1].startswith(b"002999 ")
    assert len(kept) >= RING_BYTES // 2
    assert log.last_line().startswith("002999 ")


def test_a_log_goes_on_where_an_earlier_controller_left_it(tmp_path: Path) -> None:
    RingLog(tmp_path / "one.log").write(b"before\n")
    RingLog(tmp_path / "one.log").write(b"after\n")
    assert (tmp_path / "one.log").read_bytes() == b"before\nafter\n"


def test_control_characters_do_not_reach_the_file(tmp_path: Path) -> None:
    log = RingLog(tmp_path / "one.log")
    log.write(b"a\x1b[2Jb\r\x07\tc\n\xc3\xa9\n")
    assert (tmp_path / "one.log").read_bytes() == b"a?[2Jb??\tc\n\xc3\xa9\n"
    assert log.last_line() == "é"


def test_a_disk_that_refuses_costs_lines_and_nothing_else(tmp_path: Path) -> None:
    log = RingLog(tmp_path / "missing" / "one.log")
    log.write(b"lost\n")
    assert log.last_line() == ""


def test_a_flood_is_read_at_the_rate_and_the_last_words_are_kept(tmp_path: Path) -> None:
    async def story() -> None:
        log = RingLog(tmp_path / "one.log")
        read, write = os.pipe()
        os.set_blocking(write, False)
        reader = Reader(read, log)
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
        reader = Reader(read, log)
        os.write(write, b"last words")
        os.close(write)
        async with asyncio.timeout(5):
            while reader._pipe >= 0:
                await asyncio.sleep(0)
        assert log.last_line() == "last words"

    asyncio.run(story())
