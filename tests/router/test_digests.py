"""Hashes of what is handed over: of the very bytes, by whatever road, and never waited for by an agent."""

import asyncio
import errno
import hashlib
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.routes import ScopeFolder
from reconciler.router import digests, files
from tests.router.test_cancelling import Gate, until
from tests.router.test_server import base_of, merge, run, until_clean, with_files

LARGE = 3 * 2**20 + 17  # several pieces, and not whole ones
PIECES = st.lists(
    st.tuples(st.binary(min_size=1, max_size=64), st.integers(1, digests.PIECE // 64)), max_size=12
)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def names_of_threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


@given(PIECES, st.sampled_from([0, LARGE]))
def test_pieces_of_any_size_are_hashed_as_one_whether_beside_or_not(
    pieces: list[tuple[bytes, int]], size: int
) -> None:
    with digests.hasher(size) as hashed:
        for grain, many in pieces:
            buffer = hashed.buffer()
            count = len(grain) * many
            buffer[:count] = grain * many
            hashed.take(buffer[:count])
        assert hashed.hexdigest() == sha256(b"".join(grain * many for grain, many in pieces))


def test_a_hasher_leaves_no_thread_when_the_copy_breaks_off() -> None:
    with pytest.raises(OSError, match="full"), digests.hasher(LARGE) as hashed:
        hashed.take(hashed.buffer())
        assert "files-sha256" in names_of_threads()
        raise OSError("full")
    assert "files-sha256" not in names_of_threads()


@pytest.fixture
def boxes(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("work", "box"):
        (tmp_path / name).mkdir()
    return tmp_path / "work", tmp_path / "box"


def hand_in(work: Path, box: Path, limit: int) -> str:
    opened = files.read((ScopeFolder(str(work), "create"),), "a", limit)
    inbox = os.open(box, os.O_RDONLY | os.O_DIRECTORY)
    try:
        blob = files.hand_in(opened, inbox, "i", max_bytes=limit, wanted=lambda: True)
        try:
            assert blob.size == os.fstat(blob.descriptor).st_size
            return files.digest(blob)
        finally:
            os.close(blob.descriptor)
    finally:
        os.close(inbox)
        os.close(opened.descriptor)


@pytest.mark.parametrize("size", [0, 1, digests.PIECE, digests.PIECE + 1, LARGE])
@pytest.mark.parametrize("sends", [True, False])
def test_an_input_goes_over_whole_up_to_the_very_limit_by_either_road(
    boxes: tuple[Path, Path], size: int, sends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that gives the kernel nothing to send is read instead."""

    def refuse(*_: Any) -> int:
        raise OSError(errno.EINVAL, "not here")

    if not sends:
        monkeypatch.setattr(os, "sendfile", refuse)
    work, box = boxes
    data = os.urandom(size)
    (work / "a").write_bytes(data)
    assert hand_in(work, box, limit=size) == sha256(data)
    assert (box / "i").read_bytes() == data


@pytest.mark.parametrize("size", [5, LARGE])
def test_an_output_is_hashed_as_it_is_written(boxes: tuple[Path, Path], size: int) -> None:
    work, box = boxes
    data = os.urandom(size)
    (box / "o").write_bytes(data)
    place = files.spot((ScopeFolder(str(work), "create"),), "new")
    outbox = os.open(box, os.O_RDONLY | os.O_DIRECTORY)
    try:
        copied = files.hand_out(outbox, "o", place, max_bytes=size, wanted=lambda: True)
    finally:
        os.close(outbox)
        os.close(place.folder)
    assert copied == files.Copied(size, sha256(data))
    assert (work / "new").read_bytes() == data


def test_the_agent_is_answered_before_its_input_is_hashed_and_the_record_tells_what_went_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        async with with_files(lambda call: merge(call, base_of(play))) as (play, _), play.agent() as agent:
            (base_of(play) / "work" / "a").write_bytes(b"first")
            with monkeypatch.context() as patch:
                gate = Gate("settle", patch)
                agent.call(1, "ocr_merge", paths=["a"], to="c.txt")
                assert (await agent.message())["result"]["structuredContent"] == {"pages": 1}
                await until(gate.entered.is_set)
                (base_of(play) / "work" / "a").write_bytes(b"later, and longer")
                agent.call(2, "ocr_extract")  # another call's record is not held up
                await agent.message()
                assert [one.code for one in await play.recorded()] == ["invalid_input"]
                gate.opened.set()
            record = (await play.recorded(2))[1]
            assert record.files == (("paths", 5, sha256(b"first")), ("to", 6, sha256(b"merged")))
            await until_clean(play)

    run(test)


def test_a_door_that_closes_at_once_still_has_its_files_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with with_files(lambda call: call.answer(pages=[])) as (play, _), play.agent() as agent:
            (base_of(play) / "work" / "a").write_bytes(b"first")
            with monkeypatch.context() as patch:
                gate = Gate("settle", patch)
                agent.call(1, "ocr_extract", path="a")
                await agent.message()
                closing = asyncio.create_task(play.router.close("s/1"))
                await until(gate.entered.is_set)
                assert not closing.done()
                gate.opened.set()
            await closing
            assert [one.files for one in play.records] == [(("path", 5, sha256(b"first")),)]

    run(test)


def test_a_thread_that_hangs_does_not_hold_a_record_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with with_files(lambda call: call.answer(pages=[])) as (play, _), play.agent() as agent:
            (base_of(play) / "work" / "a").write_bytes(b"first")
            with monkeypatch.context() as patch:
                gate = Gate("settle", patch)
                agent.call(1, "ocr_extract", path="a")
                await agent.message()
                await until(gate.entered.is_set)
                play.ahead[0] = 3600
                (record,) = await play.recorded()
                assert (record.code, record.files) == ("ok", ())
                gate.opened.set()
            await until_clean(play)

    run(test)
